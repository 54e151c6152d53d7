/* Removes addresses from the host's interfaces by rtnetlink (RTM_DELADDR). The removal runs no
 * program and waits for nothing but the kernel, so it works at once, whatever the hook does. */
#include <linux/if_link.h>
#include <linux/ip.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "addresses/private.h"
#include "base/error.h"

enum { ROUNDS = 8, ALONE_BITS = 32 };

/*
 * Removing the first IPv4 address of a network makes an interface lose all others of that network,
 * the host's own among them, unless promote_secondaries is set, as systemd does for all interfaces.
 * So this function sets it. A host address (/32), as the shipped hook adds it, has no others beside
 * it.
 */
static void keep_other_addresses(int fd, const struct hf_held *held)
{
    struct {
        struct nlmsghdr head;
        struct ifinfomsg body;
        struct rtattr families, ipv4, settings, setting;
        uint32_t value;
    } order = {
        .head = {.nlmsg_len = sizeof(order),
                 .nlmsg_type = RTM_SETLINK,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
        .body = {.ifi_family = AF_UNSPEC, .ifi_index = (int)held->head.ifa_index},
        .families = {.rta_len = RTA_LENGTH(3 * sizeof(struct rtattr) + sizeof(uint32_t)),
                     .rta_type = IFLA_AF_SPEC},
        .ipv4 = {.rta_len = RTA_LENGTH(2 * sizeof(struct rtattr) + sizeof(uint32_t)),
                 .rta_type = AF_INET},
        .settings = {.rta_len = RTA_LENGTH(sizeof(struct rtattr) + sizeof(uint32_t)),
                     .rta_type = IFLA_INET_CONF},
        .setting = {.rta_len = RTA_LENGTH(sizeof(uint32_t)),
                    .rta_type = IPV4_DEVCONF_PROMOTE_SECONDARIES},
        .value = 1,
    };

    if (held->head.ifa_family == AF_INET && held->head.ifa_prefixlen < ALONE_BITS)
        (void)hf_netlink_ask(fd, &order.head);
}

static void log_removed(const struct hf_addr *address, const struct hf_held *held,
                        enum hf_log_level level, const char *reason)
{
    char interface[IF_NAMESIZE] = "";
    struct hf_addr bare = *address;

    bare.port = 0;
    (void)if_indextoname(held->head.ifa_index, interface);
    hf_log(level, "address removed", HF_ADDR("address", &bare),
           HF_UINT("prefix", held->head.ifa_prefixlen), HF_STR("interface", interface),
           HF_STR("reason", reason));
}

static int remove_one(int fd, const struct hf_addr *address, const struct hf_held *held)
{
    struct {
        struct nlmsghdr head;
        struct ifaddrmsg body;
        struct rtattr attribute;
        uint8_t bytes[16];
    } order = {
        .head = {.nlmsg_type = RTM_DELADDR, .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
        .body = held->head,
        .attribute = {.rta_type = IFA_LOCAL},
    };
    unsigned len = held->head.ifa_family == AF_INET ? 4 : 16;

    order.attribute.rta_len = (unsigned short)RTA_LENGTH(len);
    order.head.nlmsg_len = (uint32_t)(NLMSG_LENGTH(sizeof(order.body)) + RTA_SPACE(len));
    memcpy(order.bytes, address->bytes, len);
    keep_other_addresses(fd, held);
    return hf_netlink_ask(fd, &order.head);
}

/* Removes the addresses that a list shows even if the list was interrupted; only a whole list
 * without any of them proves that they are gone. */
int hf_addresses_remove(const struct hf_addr *addresses, unsigned n, enum hf_log_level level,
                        const char *reason)
{
    struct hf_held_list list;
    int fd = hf_netlink_open(0);
    int rv = HF_EUNAVAIL;

    if (fd < 0)
        return HF_EUNAVAIL;
    for (unsigned round = 0; round < ROUNDS; round++) {
        rv = hf_host_list(fd, addresses, n, &list);
        if ((rv == 0 && list.n == 0) || (rv < 0 && rv != HF_EBUSY))
            break;
        for (unsigned i = 0; i < list.n; i++) {
            const struct hf_addr *address = &addresses[list.held[i].number];

            if (remove_one(fd, address, &list.held[i]) == 0)
                log_removed(address, &list.held[i], level, reason);
        }
    }
    close(fd);
    return rv < 0 ? rv : (int)list.n;
}
