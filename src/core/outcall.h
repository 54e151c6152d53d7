/*
 * Outgoing RPC calls that the core wants made. Each attempt is handed out once and reported back
 * once. All kinds but SM_STAT follow one set of rules (SPEC section 3): an attempt lasts its whole
 * time even if it fails sooner, and after call_attempts failed attempts
 *   - of a GRANTED callback, the lock is given to the next waiter;
 *   - of a probe, all waiters of its client are removed (wait/probe.c);
 *   - of SM_NOTIFY, the client counts as crashed (NOT-03), and the call is repeated with growing
 *     pauses for retry_for_ms;
 *   - of a `status` callback, the call is repeated with the same pauses. SM_STAT is attempted once,
 *     in a shorter time.
 *
 * A call is handed out only when every change that it tells of is durable. At most notify_in_flight
 * notices and status callbacks are in flight at a time, and as many probes; GRANTED callbacks never
 * queue behind them.
 */
#ifndef HF_CORE_OUTCALL_H
#define HF_CORE_OUTCALL_H

#include "core/request.h"

enum hf_outcall_kind {
    HF_OUTCALL_GRANTED, /* NLM GRANTED (5) to a waiter or, with msg, GRANTED_MSG (10) */
    HF_OUTCALL_NOTIFY,  /* NSM SM_NOTIFY (6): tells a host that we have restarted */
    HF_OUTCALL_STATUS,  /* `status` to a registered program: the host it monitors has restarted */
    HF_OUTCALL_PROBE,   /* NLM NULL (0) to a waiter's client, to see whether it answers */
    HF_OUTCALL_STAT,    /* NSM SM_STAT (1): asks a client whether a crash notice is true (SEC-04) */
};

/* One attempt to call a peer. The structure and what it points to are valid until the next call
 * into the core. */
struct hf_outcall_attempt {
    /* All attempts of one outcall have this id. It is the cookie of GRANTED, and cannot be guessed
     * from the id of another outcall. */
    uint64_t id;
    enum hf_outcall_kind kind;
    uint64_t client_id;
    uint32_t attempt;     /* counts from 1; attempts that could not be tried count, too */
    uint64_t timeout_ms;  /* the time for lookup, connection, sending and answer together */
    struct hf_bytes host; /* name of the host to call; resolved only if n_to is 0 */
    /* Addresses of the host, any of which will do; port 0: ask the host's rpcbind. */
    struct hf_addr to[HF_CLIENT_ADDRS_MAX];
    unsigned n_to;
    struct hf_addr from; /* the local address to call from; family NONE: any */
    enum hf_transport transport;
    uint32_t prog, vers, proc;

    /* For GRANTED, the following fields repeat exactly what the client asked for. */
    struct hf_bytes fh;
    struct hf_bytes oh;
    int32_t svid;
    bool exclusive;
    uint64_t offset;
    uint64_t length;
    bool msg;
    /* The waiter has waited since before our start, whose records have no credit for its call
     * (SEC-03). */
    bool loaded;

    /* For NOTIFY and STATUS. The short name ends before the first dot; empty if there is no dot. */
    struct hf_bytes mon_name;
    struct hf_bytes mon_name_short;
    int32_t state;
    uint8_t priv[HF_PRIV_SIZE];
};

enum hf_outcall_outcome {
    HF_OUTCALL_ACCEPTED, /* the peer answered; GRANTED: the client has the lock */
    HF_OUTCALL_DENIED,   /* GRANTED only: the client does not want the lock (wait/grant.c) */
    HF_OUTCALL_FAILED,   /* no answer, or not one of success; `error` says why */
    HF_OUTCALL_REPEATED, /* the attempt failed, but several copies of the call may have arrived */
    /* The attempt failed and cannot have reached the peer, although a question to its rpcbind
     * left. */
    HF_OUTCALL_UNSENT,
    /* No packet left this host, because an address, route, file, port or memory of ours is
     * missing. That says nothing about the peer, and does not count as an attempt. */
    HF_OUTCALL_UNTRIED,
};

/* Returns true and the next attempt that may start now, or false. The caller repeats this until
 * false after anything that may have changed the state: a request, a commit, a tick, a call's
 * end. */
bool hf_core_next_outcall(struct hf_core *core, struct hf_now now, struct hf_outcall_attempt *out);

/*
 * Tells the core that an attempt ended. The caller reports every attempt exactly once, even if its
 * outcall no longer exists (the client unlocked, crashed, ...), which the core ignores. A
 * GRANTED_MSG does not end with its void RPC reply: the caller reports HF_OUTCALL_FAILED with
 * HF_ETIMEDOUT when the time is over, and hf_core_granted_res() when GRANTED_RES comes.
 */
void hf_core_outcall_done(struct hf_core *core, struct hf_now now, uint64_t call_id,
                          enum hf_outcall_outcome outcome, int error);

/* Tells the core that the peer answered an HF_OUTCALL_STAT with this state number; called in the
 * place of hf_core_outcall_done(). */
void hf_core_stat_answered(struct hf_core *core, struct hf_now now, uint64_t call_id,
                           int32_t state);

#endif
