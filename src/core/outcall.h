/*
 * Outgoing RPC calls that the core wants made. Each attempt is handed out once and reported back
 * once. All kinds but SM_STAT follow the same rules (SPEC section 3): an attempt lasts its whole
 * time even if it fails sooner, and after call_attempts failed attempts
 *   - of a GRANTED callback, the lock is given to the next waiter;
 *   - of a probe, all waiters of its client are removed (wait/probe.c);
 *   - of SM_NOTIFY, the client counts as crashed (NOT-03), and the call is repeated with growing
 *     pauses for retry_for_ms;
 *   - of a `status` callback, the call is repeated with the same pauses.
 * SM_STAT is attempted once, in a shorter time.
 *
 * A call is handed out only when all that it tells of is durable. At most notify_in_flight notices
 * and status callbacks are in flight at a time, and as many probes; GRANTED callbacks never queue
 * behind them.
 */
#ifndef HF_CORE_OUTCALL_H
#define HF_CORE_OUTCALL_H

#include "core/request.h"

enum hf_outcall_kind {
    HF_OUTCALL_GRANTED, /* NLM GRANTED (5) or, when msg, GRANTED_MSG (10) to a waiter */
    HF_OUTCALL_NOTIFY,  /* NSM SM_NOTIFY (6) to a host: we have restarted */
    HF_OUTCALL_STATUS,  /* a monitor's own procedure: the host it asked about has restarted */
    HF_OUTCALL_PROBE,   /* NLM NULL (0) to the client of a waiter: any answer will do */
    HF_OUTCALL_STAT, /* NSM SM_STAT (1) to a client: has it restarted, as a notice says (SEC-04)? */
};

/* All views and the structure itself are valid until the next call into the core. */
struct hf_outcall_attempt {
    /* The id is the same for each attempt of one outcall; it is the cookie of GRANTED, and cannot
     * be guessed from that of another. */
    uint64_t id;
    enum hf_outcall_kind kind;
    uint64_t client_id;
    uint32_t attempt;     /* counts from 1, and includes attempts that could not be tried */
    uint64_t timeout_ms;  /* the time for lookup, connection, sending and answer together */
    struct hf_bytes host; /* the name of the host to call; it is resolved only when n_to is 0 */
    /* Addresses of this host, any of which will do; port 0: ask rpcbind. */
    struct hf_addr to[HF_CLIENT_ADDRS_MAX];
    unsigned n_to;
    struct hf_addr from; /* the local address to call from; family NONE: any */
    enum hf_transport transport;
    uint32_t prog, vers, proc;

    /* For GRANTED, these fields are exactly what the client asked for. */
    struct hf_bytes fh;
    struct hf_bytes oh;
    int32_t svid;
    bool exclusive;
    uint64_t offset;
    uint64_t length;
    bool msg;
    /* The waiter waited before our start, and credit for its call is not recorded (SEC-03). */
    bool loaded;

    /* For NOTIFY and STATUS. The short form is the name up to its first dot; empty if there is
     * none. */
    struct hf_bytes mon_name;
    struct hf_bytes mon_name_short;
    int32_t state;
    uint8_t priv[HF_PRIV_SIZE];
};

enum hf_outcall_outcome {
    HF_OUTCALL_ACCEPTED, /* the peer answered; GRANTED: it accepted the lock */
    HF_OUTCALL_DENIED,   /* GRANTED only: the client does not want the lock (wait/grant.c) */
    HF_OUTCALL_FAILED,   /* no answer came, or one that is not success; error says why */
    HF_OUTCALL_REPEATED, /* the attempt failed, and several copies of the call may have arrived */
    /* The attempt failed, and certainly did not reach the peer, although a question to its rpcbind
     * left. */
    HF_OUTCALL_UNSENT,
    HF_OUTCALL_UNTRIED, /* no packet left this host (an address, route, file, port or memory of ours
                         * is missing): that says nothing about the peer, and is no attempt */
};

/* Returns the next attempt that may start now, or false. The caller calls it until false after
 * anything that may have changed the state: a request, a commit, a tick, a finished call. */
bool hf_core_next_outcall(struct hf_core *core, struct hf_now now, struct hf_outcall_attempt *out);

/*
 * Tells that an attempt ended. Every attempt handed out is reported exactly once, even if its
 * outcall no longer exists (the client unlocked, crashed, ...): that is ignored. For GRANTED_MSG
 * the void RPC answer is not the end; report HF_OUTCALL_FAILED with HF_ETIMEDOUT when the time is
 * over, and hf_core_granted_res() when the answer comes.
 */
void hf_core_outcall_done(struct hf_core *core, struct hf_now now, uint64_t call_id,
                          enum hf_outcall_outcome outcome, int error);

/* Tells that an attempt at HF_OUTCALL_STAT was answered with this state number; it is called
 * instead of hf_core_outcall_done(). */
void hf_core_stat_answered(struct hf_core *core, struct hf_now now, uint64_t call_id,
                           int32_t state);

#endif
