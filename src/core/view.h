/*
 * The read-only view of the core: counters, events for the log, lists of everything it holds, and a
 * digest of what is durable (ADM-01, ADM-02).
 *
 * Pages: start with cursor 0. A cursor is the number of a slot, which an object keeps as long as it
 * exists; many slots may be empty. Each call visits slots from the cursor on, up to but not
 * including `end`, and moves the cursor behind the last slot that it visited; it returns how many
 * rows it filled, at most max. The listing is at its end when a call fills fewer than max rows and
 * leaves the cursor below end. So an end of UINT64_MAX visits as many slots as it takes to fill max
 * rows, and an end of cursor + 1 visits one. An object that exists during the whole listing is seen
 * exactly once. Views inside rows are valid until the next call into the core that is not a view.
 */
#ifndef HF_CORE_VIEW_H
#define HF_CORE_VIEW_H

#include "core/claim.h"
#include "core/request.h"

/* The state of the notice of our last restart to a client. */
enum hf_notice_status {
    HF_NOTICE_NONE, /* the client is sent no notice */
    HF_NOTICE_PENDING,
    HF_NOTICE_DELIVERED,
    HF_NOTICE_FAILING,
    HF_NOTICE_GIVEN_UP,
};

struct hf_view_client {
    struct hf_record_client record; /* the client's record, whose views point into the core */
    /* The client has a durable record, or one that will be durable soon. */
    bool registered;
    /* The client's status monitor is being asked whether a notice is true (SEC-04). */
    bool verifying;
    bool releasing; /* a release is taking what the client had, slice by slice */
    uint32_t n_locks, n_shares, n_waiters, n_unreclaimed;
    int64_t first_seen_ms, last_seen_ms; /* wall-clock times, in ms */
    /* Counts LOCK and SHARE, and UNLOCK and CANCEL of a known owner. */
    uint64_t n_requests;
    enum hf_notice_status notice;
    uint32_t notice_attempts;
    int notice_error; /* the error of the notice's last failed attempt; 0: none */
};

struct hf_view_lock {
    struct hf_record_lock record;
    struct hf_bytes client_name;
    struct hf_addr client_addr;
    bool durable;
    bool unreclaimed;   /* the lock was held before our restart, and is not reclaimed yet */
    bool releasing;     /* a release of the lock's client will take it */
    uint32_t n_waiters; /* how many waiters wait on the lock's file */
};

struct hf_view_waiter {
    uint64_t id;
    uint64_t client_id;
    struct hf_bytes client_name;
    struct hf_addr client_addr;
    struct hf_bytes export, fh, oh;
    int32_t svid;
    uint64_t first, last;
    bool exclusive;
    bool granting;   /* the waiter has its lock, and its GRANTED callback is in flight */
    bool passes;     /* the waiter does not queue behind others, because that would close a cycle */
    bool outside;    /* a holder outside NLM is in the way: the wait is in the kernel's queue */
    bool has_holder; /* the kernel has named the holder outside NLM, in `holder` */
    struct hf_claim_holder holder;
    uint32_t attempts;
    int64_t since_ms;    /* when the wait began, by the wall clock */
    uint64_t blocked_by; /* the id of one lock in the waiter's way; 0: only other waiters are */
};

struct hf_view_share {
    uint64_t id;
    uint64_t client_id;
    struct hf_bytes client_name;
    struct hf_addr client_addr;
    struct hf_bytes export, fh, oh;
    uint32_t mode, access;
};

size_t hf_core_view_clients(const struct hf_core *core, uint64_t *cursor, uint64_t end,
                            struct hf_view_client *rows, size_t max);
size_t hf_core_view_locks(const struct hf_core *core, uint64_t *cursor, uint64_t end,
                          struct hf_view_lock *rows, size_t max);
size_t hf_core_view_waiters(const struct hf_core *core, uint64_t *cursor, uint64_t end,
                            struct hf_view_waiter *rows, size_t max);
size_t hf_core_view_shares(const struct hf_core *core, uint64_t *cursor, uint64_t end,
                           struct hf_view_share *rows, size_t max);

/*
 * Lists the waiters that a request granted, in the order of their grants: take the mark before the
 * request, and list from there before the next hf_core_next_outcall(). The cost is that of the rows
 * shown.
 */
uint64_t hf_core_view_grant_mark(const struct hf_core *core);
size_t hf_core_view_granted(const struct hf_core *core, uint64_t *mark, struct hf_view_waiter *rows,
                            size_t max);

/* Shows one client by its id. Returns 0 or HF_ENOENT. */
int hf_core_view_client(const struct hf_core *core, uint64_t id, struct hf_view_client *out);

/* Whether the start continues, so that no client is told and nothing has to be reclaimed, or why it
 * recovers (SPEC section 14). Known after hf_core_start(). */
enum hf_recovers {
    HF_RECOVERS_NOT,    /* the start continues */
    HF_RECOVERS_ALWAYS, /* recovery.notify=always */
    HF_RECOVERS_FIRST,  /* there was no previous run */
    HF_RECOVERS_ROLE,   /* this run or the previous one is a status monitor only */
    /* This run or the previous one does not record all that clients rely on. */
    HF_RECOVERS_UNRECORDED,
    HF_RECOVERS_LOST,    /* the store lost records, or is of an earlier moment */
    HF_RECOVERS_CRASHED, /* the host crashed before the newest records were flushed (DUR-02) */
    /* Locks may be unknown since an earlier start, or because a backup was restored. */
    HF_RECOVERS_UNKNOWN,
    /* The previous run was itself in grace, was held back (GRC-04), or had locks whose life no
     * record tells (REC-01j). */
    HF_RECOVERS_UNFINISHED,
    HF_RECOVERS_MERGED, /* loading dropped one of two conflicting records (COH-05) */
    HF_RECOVERS_REASONS
};
enum hf_recovers hf_core_recovers(const struct hf_core *core);
/* Returns a text for operators; "" if they need none. */
const char *hf_recovers_text(enum hf_recovers why);

struct hf_view_status {
    uint64_t epoch;
    int32_t state;
    bool was_clean; /* the previous run was stopped cleanly */
    enum hf_recovers recovers;
    bool grace_active;
    uint64_t grace_remaining_ms;
    /* For how long an operator's hold still keeps new locks back (GRC-04); 0: no hold. */
    uint64_t grace_held_ms;
    /* How many locks are not reclaimed yet; if locks are not durable, how many clients may
     * reclaim. */
    uint64_t unreclaimed;
    /* How many locks were reclaimed since grace began, each counted once. */
    uint64_t reclaimed;
    uint64_t locks, shares, waiters, files, owners;
    uint64_t oldest_wait_ms;           /* age of the oldest wait; 0: no request waits */
    uint64_t nlm_clients, nsm_clients; /* nsm_clients counts SM_MON registrations */
    /* How many clients of either kind are registered, and so will be told of our restart. */
    uint64_t registered;
    uint64_t notices[5]; /* how many clients have each enum hf_notice_status */
    uint64_t calls_in_flight;
    bool coherent, claims_ready;
    /* How much the kernel holds for us, and which files it cannot (claim.h). */
    uint64_t claimed_files, claimed_ranges, unmirrored_files;
    uint64_t coarse_files;  /* files of which the kernel holds more bytes than clients do */
    uint64_t outside_waits; /* waiters behind holders outside NLM */
};
void hf_core_view_status(const struct hf_core *core, struct hf_now now, struct hf_view_status *out);

/* Shows how many requests wait for files of the i-th export; returns false if there is no such
 * export. */
bool hf_core_view_waits(const struct hf_core *core, unsigned i, struct hf_bytes *export_name,
                        uint64_t *waiting);

/* Why clients may hold locks that are not recorded (SPEC section 14). Until grace ends, registered
 * clients may reclaim such locks if nothing conflicts. Known after hf_core_start(). */
enum hf_unknown_locks {
    HF_UNKNOWN_NONE, /* clients hold no such locks, or no client is registered */
    /* An earlier start found such locks possible, or a backup was restored. */
    HF_UNKNOWN_SINCE_EARLIER,
    HF_UNKNOWN_NOT_DURABLE,  /* the previous run recorded no locks */
    HF_UNKNOWN_HOST_CRASHED, /* the host crashed before the newest records were flushed (DUR-02) */
    /* The previous run's record does not say whether it recorded locks. */
    HF_UNKNOWN_OLD_FORMAT,
};
enum hf_unknown_locks hf_core_unknown_locks(const struct hf_core *core);

/* Names of the limits in struct hf_limits, for counters and events. */
enum hf_limit {
    HF_LIMIT_CLIENTS,
    HF_LIMIT_MONITORS, /* SM_MON registrations: limits.clients bounds these, too */
    HF_LIMIT_LOCKS_PER_OWNER,
    HF_LIMIT_LOCKS_PER_CLIENT,
    HF_LIMIT_LOCKS_PER_FILE,
    HF_LIMIT_LOCKS,
    HF_LIMIT_WAITERS_PER_FILE,
    HF_LIMIT_WAITERS_PER_OWNER,
    HF_LIMIT_WAITERS_PER_CLIENT,
    HF_LIMIT_CLIENTS_PER_HOST,
    HF_LIMIT_LOCKS_PER_HOST,
    HF_LIMIT_REGISTRATIONS_PER_HOST,
    HF_LIMITS
};
const char *hf_limit_name(enum hf_limit limit); /* returns a name like "locks_per_client" */

/* Why a client lost locks that it had not given up. */
enum hf_loss {
    HF_LOSS_UNRECLAIMED, /* the client had not reclaimed the locks when grace ended */
    HF_LOSS_UNREACHABLE, /* the client could not be notified of our restart, and was given up */
    /* The kernel refused to hold the locks: a holder outside NLM has the range. */
    HF_LOSS_OUTSIDE,
    HF_LOSSES
};

/* Counters for metrics, which never decrease. */
struct hf_counters {
    uint64_t limit_hits[HF_LIMITS];
    uint64_t locks_lost[HF_LOSSES];
    /* Clients that lost a lock, or may have lost one if locks are not durable. */
    uint64_t clients_lost[HF_LOSSES];
    uint64_t out_of_memory;
    uint64_t reclaims_granted, reclaims_denied;
    uint64_t deadlocks;
    uint64_t deadlock_searches_cut; /* searches for a deadlock that reached their bound */
    uint64_t crashes_detected;      /* crashes of clients, known by a notice or by silence */
    uint64_t crash_cleanups;
    uint64_t locks_cleaned; /* locks that were released with their crashed client */
    uint64_t notifies_in_accepted, notifies_in_repeated, notifies_in_stranger, notifies_in_bad,
        notifies_in_refuted; /* crash notices that the client's status monitor contradicted */
    uint64_t callbacks_started, callbacks_accepted, callbacks_denied, callbacks_failed;
    uint64_t probes_started, probes_failed; /* calls that ask whether a waiter's client is alive */
    /* Calls that tell clients of a restart: SM_NOTIFY and `status`. */
    uint64_t notices_started, notices_delivered, notices_failed;
    uint64_t granted_res_stranger;
    uint64_t state_hints; /* LOCKs with another state number than the recorded one */
    uint64_t commits_failed;
    uint64_t outside_conflicts; /* requests that met a holder outside NLM (claim.h) */
    /* Claims that the kernel could not hold, counted by reason. */
    uint64_t claims_refused[HF_CLAIM_OUTCOMES];
    uint64_t events_lost;
};
const struct hf_counters *hf_core_counters(const struct hf_core *core);

/*
 * Kinds of events. The comments say what a and b of struct hf_event mean in each kind, and where an
 * event has an error or a file. A state is an NSM state number.
 */
enum hf_event_kind {
    HF_EVENT_CLIENT_REGISTERED,
    HF_EVENT_CLIENT_UNREGISTERED,
    /* The client crashed; a: its new state, b: how many locks and shares were released. */
    HF_EVENT_CLIENT_CRASHED,
    /* The client could not be told of our restart; a: its state, b: how many locks it lost. */
    HF_EVENT_CLIENT_UNREACHABLE,
    /* The client could not be told of our restart; b: how many unreclaimed locks it keeps until
     * grace ends. */
    HF_EVENT_CLIENT_UNTOLD,
    /* The client did not reclaim in time; a: its state, b: how many locks it lost. */
    HF_EVENT_CLIENT_UNRECLAIMED,
    /* An operator declared the client dead; a: its state, b: how many locks, shares and waiters
     * were released. */
    HF_EVENT_CLIENT_DEAD,
    /* FREE_ALL or an operator released all of the client; b: how many locks, shares and waiters. */
    HF_EVENT_CLIENT_RELEASED,
    /* A LOCK has another state than the recorded one; a: the state in the LOCK, b: the recorded
     * one. */
    HF_EVENT_STATE_HINT,
    /* A crash notice names no known client; a: the state in the notice. Address and name are those
     * of its sender. */
    HF_EVENT_NOTIFY_STRANGER,
    /* The client's monitor contradicted a crash notice; a: the state in the notice, b: the
     * monitor's. */
    HF_EVENT_NOTICE_REFUTED,
    /* The grace period began; a: its length in milliseconds, b: how many locks may be reclaimed
     * (how many clients may reclaim, if locks are not recorded). */
    HF_EVENT_GRACE_BEGAN,
    /* The grace period ended; a: how many locks were reclaimed, b: how many were not, and are
     * released. */
    HF_EVENT_GRACE_ENDED,
    /* The client answered a notice; a: the number of attempts, b: milliseconds since the first
     * one. */
    HF_EVENT_NOTICE_DELIVERED,
    /* An attempt at a notice failed; a: the number of attempts so far, b: milliseconds since the
     * first one; the error is set. */
    HF_EVENT_NOTICE_FAILED,
    /* A notice was given up: no attempt follows; a, b and the error as in
     * HF_EVENT_NOTICE_FAILED. */
    HF_EVENT_NOTICE_GIVEN_UP,
    /* A GRANTED callback was given up, and its lock goes to the next waiter; a: the number of
     * attempts; the error and the file are set. */
    HF_EVENT_GRANT_FAILED,
    /* A batch failed; a: its number, b: how many changes are undone; the error is set. */
    HF_EVENT_COMMIT_FAILED,
    /* A waiting client does not answer; b: how many of its requests ended. */
    HF_EVENT_WAITERS_DROPPED,
    /* The client lost a lock to a holder outside NLM; a: its state, b: 1; the file is set. */
    HF_EVENT_CLIENT_OUTSIDE,
    HF_EVENT_CLIENT_MOVED, /* the client now comes from this address (TRK-02) */
    /* Requests with the client's name come from this address, but the host at the client's address
     * still answers with the client's state (a): they are two clients (TRK-02). */
    HF_EVENT_CLIENT_DOUBLED,
    HF_EVENT_LIMIT_HIT, /* a request hit a limit; a: which (enum hf_limit) */
};

enum { HF_EVENT_NAME_MAX = 128, HF_EVENT_FH_MAX = 64 };

struct hf_event {
    enum hf_event_kind kind;
    uint64_t client_id; /* 0: the event concerns no client */
    struct hf_addr addr;
    int64_t a, b;
    int error;
    uint16_t name_len; /* length of name, which is cut if it is longer */
    uint8_t name[HF_EVENT_NAME_MAX];
    /* Length of fh; 0: the event concerns no file, or the handle is longer than NFSv3 allows. */
    uint16_t fh_len;
    uint8_t fh[HF_EVENT_FH_MAX];
};

/* Takes the oldest event; false: there is none. The counter events_lost counts events that found no
 * room. */
bool hf_core_next_event(struct hf_core *core, struct hf_event *out);

/* Returns a digest of all registered clients and durable locks, whatever their order: without a
 * batch in flight it is the same before a stop and after the next start. */
uint64_t hf_core_digest(const struct hf_core *core);

#endif
