#include "base/trust.h"

#include <stdio.h>
#include <unistd.h>

const struct hf_trust_rights hf_trust_rights[HF_TRUST_LEVELS] = {
    [HF_TRUST_NOTHING] = {.name = "nothing",
                          .bytes_out = HF_TRUST_ANSWER_FACTOR,
                          .has_quota = true,
                          .monitors = HF_MONITORS_US},
    [HF_TRUST_ANSWERED] = {.name = "answered", .has_quota = true, .monitors = HF_MONITORS_US},
    [HF_TRUST_CONNECTED] = {.name = "connected", .has_quota = true, .monitors = HF_MONITORS_US},
    [HF_TRUST_RESERVED] = {.name = "reserved port",
                           .has_quota = true,
                           .restarts = true,
                           .monitors = HF_MONITORS_US},
    [HF_TRUST_USER] = {.name = "user of this host",
                       .has_quota = true,
                       .monitors = HF_MONITORS_NONE},
    [HF_TRUST_OURS] = {.name = "root of this host", .monitors = HF_MONITORS_NONE},
    [HF_TRUST_ROOT] = {.name = "root of this host, reserved port",
                       .restarts = true,
                       .speaks_for_hosts = true,
                       .monitors = HF_MONITORS_ALL},
};

static uint16_t first_user_port = HF_PORT_RESERVED_END;

void hf_trust_set_first_user_port(uint16_t port)
{
    first_user_port = port < HF_PORT_RESERVED_END ? port : HF_PORT_RESERVED_END;
}

void hf_trust_read_system(void)
{
    FILE *file = fopen("/proc/sys/net/ipv4/ip_unprivileged_port_start", "re"); /* IPv6 as well */
    unsigned port;

    if (!file)
        return;
    if (fscanf(file, "%u", &port) == 1) /* NOLINT(cert-err34-c): the kernel writes a number */
        hf_trust_set_first_user_port(port < HF_PORT_RESERVED_END ? (uint16_t)port
                                                                 : HF_PORT_RESERVED_END);
    (void)fclose(file);
}

/* True if only root of this host can call from this port of it. */
static bool is_port_of_root(const struct hf_addr *peer)
{
    return peer->port != 0 && peer->port < first_user_port;
}

/* Returns the trust in a peer at a loopback address. Such an address is genuine: the kernel drops
 * packets from outside that carry one. */
static enum hf_trust trust_of_local(const struct hf_addr *peer, uint32_t uid)
{
    if (uid == HF_UID_UNKNOWN)
        return is_port_of_root(peer) ? HF_TRUST_ROOT : HF_TRUST_USER;
    if (uid == 0 && hf_addr_is_reserved_port(peer))
        return HF_TRUST_ROOT;
    return uid == 0 || uid == geteuid() ? HF_TRUST_OURS : HF_TRUST_USER;
}

static bool is_user(uint32_t uid)
{
    return uid != 0 && uid != geteuid();
}

enum hf_trust hf_trust_of(enum hf_transport transport, const struct hf_addr *peer, uint32_t uid,
                          bool here)
{
    if (hf_addr_is_loopback(peer))
        return trust_of_local(peer, uid);
    /* a user of this host may call from its other addresses as well */
    if (uid == HF_UID_UNKNOWN ? here && !is_port_of_root(peer) : is_user(uid))
        return HF_TRUST_USER;
    if (transport == HF_TRANSPORT_UDP)
        return HF_TRUST_NOTHING;
    return hf_addr_is_reserved_port(peer) ? HF_TRUST_RESERVED : HF_TRUST_CONNECTED;
}

struct hf_addr hf_trust_account(enum hf_trust trust, const struct hf_addr *peer, uint32_t uid)
{
    struct hf_addr account = *peer;

    /* A peer with HF_TRUST_USER never has uid 0, because scope 0 means root's account. */
    if (trust == HF_TRUST_USER)
        account = (struct hf_addr){.family = HF_ADDR_IPV4, .bytes = {127, 0, 0, 1}, .scope = uid};
    account.port = 0;
    return account;
}
