/*
 * Trust: what a peer has shown of itself, and what it may cause (SPEC section 9). One table says it
 * for every room that RPC reaches, instead of checks here and there. (Administration has levels of
 * its own: admin/access.h.)
 *
 * A peer that is not exempt has an account, to which all that it uses is charged: a host by its
 * address, a user of this host by his user id, however many loopback addresses he uses.
 */
#ifndef HF_BASE_TRUST_H
#define HF_BASE_TRUST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/transport.h"

enum hf_trust {
    HF_TRUST_NOTHING,   /* the peer sent one datagram, whose source address may be forged */
    HF_TRUST_ANSWERED,  /* the peer sent a datagram, and took a lock that we granted it by callback,
                           as only the host that waits for it does */
    HF_TRUST_CONNECTED, /* the peer is connected by TCP, so packets to its address reach it */
    HF_TRUST_RESERVED,  /* the peer uses TCP from a reserved port: root of its host */
    HF_TRUST_USER,      /* a user of this host, over loopback or a local socket */
    HF_TRUST_OURS, /* root of this host, or the user that the daemon runs as, as the kernel says */
    HF_TRUST_ROOT, /* root of this host, from a reserved port, as this host's kernel calls */
    HF_TRUST_LEVELS,
};

enum hf_trust_monitors {
    HF_MONITORS_NONE,
    HF_MONITORS_US, /* SM_MON of this peer may concern this server only */
    HF_MONITORS_ALL,
};

struct hf_trust_rights {
    const char *name;
    unsigned bytes_out; /* calls and answers by UDP may have this many bytes for each byte that came
                           by UDP (rpc/credit.h); 0: calls have no bound */
    /* Connections, calls, clients, locks and turns of the peer's account are bounded. */
    bool has_quota;
    /* the peer's notice of its own restart is believed without a question (SEC-04) */
    bool restarts;
    bool speaks_for_hosts; /* the peer may say that another host, or this service, has restarted */
    enum hf_trust_monitors monitors;
};

/* An answer by UDP has at most this many times the size of its question, whatever the peer has
 * shown, because the question may still be forged (SEC-03). */
enum { HF_TRUST_ANSWER_FACTOR = 3 };

extern const struct hf_trust_rights hf_trust_rights[HF_TRUST_LEVELS];

/* The user id of a peer whose user the kernel does not tell. */
#define HF_UID_UNKNOWN UINT32_MAX

/*
 * Sets the first port of this host that an ordinary user may bind: what the system says
 * (ip_unprivileged_port_start), but at most 1024. It is read once, before the process is confined.
 */
void hf_trust_read_system(void);
void hf_trust_set_first_user_port(uint16_t port); /* for tests */

/* Returns what the sender of a datagram, or the peer of a connection, has shown of itself. uid is
 * its user, if known. */
enum hf_trust hf_trust_of(enum hf_transport transport, const struct hf_addr *peer, uint32_t uid);

/* Returns the account of the peer, without a port. */
struct hf_addr hf_trust_account(enum hf_trust trust, const struct hf_addr *peer, uint32_t uid);

/* True if limits apply to the account: they apply to all but root of this host. */
static inline bool hf_trust_account_has_quota(const struct hf_addr *account)
{
    if (!hf_addr_is_loopback(account))
        return hf_trust_rights[HF_TRUST_NOTHING].has_quota;
    return hf_trust_rights[account->scope != 0 ? HF_TRUST_USER : HF_TRUST_ROOT].has_quota;
}

/*
 * True if an account that has `has` of `total` things may take one more while all accounts together
 * use `used`. The last quarter is for accounts that have few, and the last sixteenth for those that
 * have none; so a few accounts that take all they can leave room for the others.
 */
static inline bool hf_trust_has_share(uint32_t total, uint32_t used, uint32_t has)
{
    enum { FEW = 16 };

    if (has == 0)
        return used < total;
    return used < total - (has < FEW ? total / 16 : total / 4);
}

#endif
