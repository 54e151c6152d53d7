/*
 * The lease: which process of a service may answer (SPEC section 8, HA-02 to HA-04).
 *
 * A pure state machine beside the core: it exists before a core is loaded and outlives it. Time is
 * an argument, in milliseconds of the node's own CLOCK_BOOTTIME; clocks of two nodes are never
 * compared. The driver (src/daemon; in tests the cluster simulator) asks for the next transaction,
 * makes it, and reports how it ended. One transaction is in flight at a time:
 *
 *     action = hf_lease_next(&lease, now);
 *     if (action != HF_LEASE_NOTHING) {
 *         order = hf_lease_begin(&lease, action, now);   before it is handed to the store thread
 *         ...
 *         hf_lease_end(&lease, now, result, &row);       row NULL if the result is FAILED
 *     }
 *     arm a timer for hf_lease_deadline(&lease, now);
 *
 * A commit of records is a transaction like the others: the driver begins HF_LEASE_COMMIT when it
 * has a batch and nothing is in flight. Each commit that succeeds is also a renewal.
 *
 * States, as hf_lease_state() tells them:
 *
 *   STANDBY    polls. It takes the service if the row is released, or after `polls` polls in a row
 *              that were each answered in time, and that over take_ms showed the same epoch, nonce
 *              and heartbeat. A poll that failed, was late or came long after the one before starts
 *              the count anew. So a stalled database causes no takeover, and neither do a pause of
 *              this node or a jump of its clock.
 *
 *   ACTIVE     owns the service and may answer, until valid_until: lease_ms after the moment before
 *              the last successful transaction was *sent*.
 *
 *   SUSPENDED  owns the service as far as it knows, but its lease ran out. It is silent and renews.
 *              A renewal that succeeds makes it ACTIVE again, with the memory it has: epoch and
 *              nonce were still its own, so no other process took the service. When several
 *              renewals in a row got no answer, it polls until it hears the database again:
 *              renewals that arrive although their answers are lost would keep others from taking
 *              the service. A take that was in doubt begins here too: the row was read with our
 *              nonce in it, and only a renewal tells from when on the lease counts.
 *
 *   LEAVING    steps down: it is silent, but still renews, until the driver says that the addresses
 *              are gone and nothing is left to commit (hf_lease_silent()); then it releases the
 *              row.
 *
 *   HELD       polls but does not take: the service was released here (hf_lease_step_down()), or
 *              an outside manager said so.
 *
 *   LOST       this term has ended: another process took the service, or it was released. Its
 *              memory must not be used again: the driver drops addresses, connections and the core,
 *              then calls hf_lease_reset(). A term owns the service at most once.
 *
 *   ALARM      the database went back in time: it shows less than it once acknowledged. Not one
 *              lock may be granted on it. The driver drops everything as in LOST. The first process
 *              that notices writes the alarm into the row, which stops the others as well. When an
 *              operator has accepted the state of the database (hf_lease_accept(), on any node),
 *              all of them go on: LOST.
 */
#ifndef HF_CORE_LEASE_LEASE_H
#define HF_CORE_LEASE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/lease/row.h"

struct hf_lease_config {
    /* For how long a renewal permits us to answer, counted from just before it was sent. */
    uint32_t lease_ms;
    uint32_t renew_ms; /* the time from one renewal to the next */
    /* The pause between two polls, and the longest time that a poll may take if it is to count. */
    uint32_t poll_ms;
    uint32_t take_ms; /* how long a standby must see an unchanged heartbeat */
    uint32_t polls;   /* how many polls must see an unchanged heartbeat */
    /*
     * After a planned move that no other node follows, this node takes the service back after this
     * time.
     */
    uint32_t move_ms;
};

#define HF_LEASE_DEFAULTS                                                              \
    {                                                                                  \
        .lease_ms = 800, .renew_ms = 200, .poll_ms = 200, .take_ms = 1000, .polls = 4, \
        .move_ms = 5000                                                                \
    }

enum hf_lease_state {
    HF_LEASE_STANDBY,
    HF_LEASE_ACTIVE,
    HF_LEASE_SUSPENDED,
    HF_LEASE_LEAVING,
    HF_LEASE_HELD,
    HF_LEASE_LOST,
    HF_LEASE_ALARM,
};

/* Until when a process that stepped down keeps from taking the service again. */
enum hf_lease_hold {
    HF_LEASE_NOT_HELD,
    HF_LEASE_UNTIL_TAKEN, /* a planned move: until another node has the service, or for move_ms */
    HF_LEASE_UNTIL_TOLD,  /* by an outside manager, or for a stop: until hf_lease_want() */
};

/* The state of one lease. The driver owns the structure, but uses only the functions below. */
struct hf_lease {
    struct hf_lease_config config;
    enum hf_lease_state state; /* STANDBY even when held back, ACTIVE even when the lease ran out */
    enum hf_lease_hold hold;
    uint64_t held_at; /* when this process stepped down or, after that, released the row */
    bool silent;      /* LEAVING: the driver says that the service is silent */

    enum hf_lease_action in_flight;
    uint32_t failures; /* how many transactions of the owner failed in a row */
    uint64_t sent_at;  /* when the transaction in flight, or the last one, was handed out */
    uint64_t next_at;  /* no poll or renewal before this time */

    uint64_t epoch; /* the epoch that this process owns; 0: none */
    uint64_t nonce; /* the random number of this term */
    uint64_t valid_until;

    struct hf_lease_row seen; /* the row that the last poll read; valid unless polls is 0 */
    uint32_t polls;           /* how many polls in a row read that row, each answered in time */
    uint64_t series_at;       /* when the first of these polls was answered */
    uint64_t last_poll_at;    /* when the last of these polls was answered */

    bool is_told;     /* ALARM: the alarm is in the row */
    bool is_accepted; /* ALARM: an operator accepts the database's state */

    /* What the database acknowledged to this process, and so must never show less than. */
    struct hf_lease_row known;
    uint64_t top_epoch; /* the greatest epoch ever seen: the next take uses one more */
};

/*
 * True if a standby with this configuration waits longer than an owner answers, even if their
 * clocks differ by 10 %.
 */
bool hf_lease_config_is_safe(const struct hf_lease_config *config);

/* Makes a lease that starts as a standby. nonce must be random, not 0, and never used before. */
void hf_lease_init(struct hf_lease *lease, const struct hf_lease_config *config, uint64_t nonce);

/* Begins the next term after LOST, once addresses, connections and core of the last term are
 * gone. */
void hf_lease_reset(struct hf_lease *lease, uint64_t nonce, uint64_t now);

/* Returns the transaction to make now; HF_LEASE_NOTHING while one is in flight. */
enum hf_lease_action hf_lease_next(const struct hf_lease *lease, uint64_t now);

/* Returns the time at which the answer of hf_lease_next() or hf_lease_state() may change;
 * UINT64_MAX: never, unless something else happens. */
uint64_t hf_lease_deadline(const struct hf_lease *lease, uint64_t now);

/*
 * Begins a transaction; the caller reads `now` before it sends anything. The action is what
 * hf_lease_next() returned, or COMMIT or RENEW while hf_lease_may_commit(), even after the lease
 * ran out: the row decides.
 */
struct hf_lease_order hf_lease_begin(struct hf_lease *lease, enum hf_lease_action action,
                                     uint64_t now);

/*
 * Ends the transaction in flight; enum hf_lease_result says what `row` is. The state may have
 * changed afterwards.
 */
void hf_lease_end(struct hf_lease *lease, uint64_t now, enum hf_lease_result result,
                  const struct hf_lease_row *row);

enum hf_lease_state hf_lease_state(const struct hf_lease *lease, uint64_t now);

/* The gate (HA-04): true if an answer, callback or notice may leave at this moment. */
static inline bool hf_lease_is_valid(const struct hf_lease *lease, uint64_t now)
{
    return lease->state == HF_LEASE_ACTIVE && now < lease->valid_until;
}

/* Returns until when the last successful transaction lets us answer; 0 if this process is not
 * ACTIVE. */
uint64_t hf_lease_valid_until(const struct hf_lease *lease);

/* True in ACTIVE, SUSPENDED and LEAVING: the row was ours when we last heard of it. */
bool hf_lease_is_owner(const struct hf_lease *lease);

/* True if a batch may be committed now: this process owns the service and hears the database. */
bool hf_lease_may_commit(const struct hf_lease *lease, uint64_t now);

/* Returns the epoch that this process owns; 0: it owns none. */
uint64_t hf_lease_epoch(const struct hf_lease *lease);

/*
 * Gives the service up. The owner is silent from this call on (LEAVING). When the driver has
 * dropped the addresses and the last batch has ended, it calls hf_lease_silent(), and the row is
 * released; another node takes it at its next poll. A process that is not the owner is HELD at
 * once.
 */
void hf_lease_step_down(struct hf_lease *lease, enum hf_lease_hold hold, uint64_t now);
void hf_lease_silent(struct hf_lease *lease);

/* Ends the state HELD: this process takes the service as soon as it can. Asking the present owner
 * to step down is the caller's task. */
void hf_lease_want(struct hf_lease *lease);

/* Notes that the operator accepts what the database shows. ALARM becomes LOST once the row says so,
 * on this node and the others. Returns false in other states. */
bool hf_lease_accept(struct hf_lease *lease);

#endif
