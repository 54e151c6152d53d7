/*
 * Trust: what a peer has proved about itself, and what it is therefore allowed to cause (SPEC
 * section 9). One table defines it for every room that handles RPC, instead of checks here and
 * there. (Administration has levels of its own: admin/access.h.)
 *
 * A peer that is not exempt has an account, to which all its use of the server is charged: a host
 * by its address, a user of this host by user id, however many loopback addresses the user calls
 * from.
 */
#ifndef HF_BASE_TRUST_H
#define HF_BASE_TRUST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/transport.h"

enum hf_trust {
    HF_TRUST_NOTHING, /* The peer sent one datagram, whose source address may be forged. */
    /* The peer sent a datagram, and took a lock that we granted it by callback; only the host that
     * waits for the lock does that. */
    HF_TRUST_ANSWERED,
    HF_TRUST_CONNECTED, /* The peer is connected by TCP, so packets to its address reach it. */
    HF_TRUST_RESERVED,  /* The peer uses TCP from a reserved port, so it is root of its host. */
    HF_TRUST_USER,      /* The peer is a user of this host, over loopback or a local socket. */
    /* The kernel names root of this host, or the user that the daemon runs as, as the peer. */
    HF_TRUST_OURS,
    /* The peer is root of this host, calling from a reserved port, as this host's kernel does. */
    HF_TRUST_ROOT,
    HF_TRUST_LEVELS,
};

enum hf_trust_monitors {
    HF_MONITORS_NONE,
    HF_MONITORS_US, /* this peer may register (SM_MON) only for restarts of this server */
    HF_MONITORS_ALL,
};

struct hf_trust_rights {
    const char *name;
    /* For each byte that came by UDP, calls and answers by UDP may have this many bytes
     * (rpc/credit.h); 0: calls have no bound. */
    unsigned bytes_out;
    /* The connections, calls, clients, locks and turns of the peer's account are limited. */
    bool has_quota;
    /* The peer's notice of its own restart is believed without verification (SEC-04). */
    bool restarts;
    bool speaks_for_hosts; /* the peer may say that another host, or this service, has restarted */
    enum hf_trust_monitors monitors;
};

/* An answer by UDP has at most this many times the size of its question, whatever the peer has
 * proved before, because the question may still be forged (SEC-03). */
enum { HF_TRUST_ANSWER_FACTOR = 3 };

extern const struct hf_trust_rights hf_trust_rights[HF_TRUST_LEVELS];

/* The user id of a peer whose user the kernel does not tell. */
#define HF_UID_UNKNOWN UINT32_MAX

/* Reads from the system which is the first port that an ordinary user may bind
 * (ip_unprivileged_port_start), but at most 1024. Called once, before the process is confined. */
void hf_trust_read_system(void);
void hf_trust_set_first_user_port(uint16_t port); /* for tests */

/* Returns the trust in the sender of a datagram, or in the peer of a connection. uid is the peer's
 * user, if known. here: the peer is on this host, although its address may not be a loopback
 * address. */
enum hf_trust hf_trust_of(enum hf_transport transport, const struct hf_addr *peer, uint32_t uid,
                          bool here);

/* Returns the account to which the peer's use is charged, without a port. */
struct hf_addr hf_trust_account(enum hf_trust trust, const struct hf_addr *peer, uint32_t uid);

/*
 * True if limits apply to this account: they apply to all accounts but that of root of this host.
 */
static inline bool hf_trust_account_has_quota(const struct hf_addr *account)
{
    if (!hf_addr_is_loopback(account))
        return hf_trust_rights[HF_TRUST_NOTHING].has_quota;
    return hf_trust_rights[account->scope != 0 ? HF_TRUST_USER : HF_TRUST_ROOT].has_quota;
}

/*
 * True if an account that has `has` of `total` things may take one more while all accounts together
 * have `used`. The last quarter of all is for accounts that have few, and the last sixteenth for
 * those that have none; so a few accounts that take all they can leave room for the others.
 */
static inline bool hf_trust_has_share(uint32_t total, uint32_t used, uint32_t has)
{
    enum { FEW = 16 };

    if (has == 0)
        return used < total;
    return used < total - (has < FEW ? total / 16 : total / 4);
}

#endif
