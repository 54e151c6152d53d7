/*
 * The read-only view of the core has counters, events for the log, pages over everything it holds,
 * and a digest of what is durable (ADM-01, ADM-02).
 *
 * Pages: start with cursor 0. A cursor is the number of a slot, which an object keeps as long as it
 * exists; many slots may be empty. Each call visits slots from the cursor on, none at end or behind
 * it, and moves the cursor behind the last one that it visited; it returns how many rows it filled,
 * at most max. The listing is at its end when a call fills fewer than max rows and leaves the
 * cursor below end. So an end of UINT64_MAX visits as many slots as it takes to fill max rows, and
 * an end of cursor + 1 visits one. An object that exists during the whole listing is seen exactly
 * once. Views inside rows are valid until the next call into the core that is not a view.
 */
#ifndef HF_CORE_VIEW_H
#define HF_CORE_VIEW_H

#include "core/claim.h"
#include "core/request.h"

/* The state of the notice of our last restart to a client. */
enum hf_notice_status {
    HF_NOTICE_NONE, /* there is no notice */
    HF_NOTICE_PENDING,
    HF_NOTICE_DELIVERED,
    HF_NOTICE_FAILING,
    HF_NOTICE_GIVEN_UP,
};

struct hf_view_client {
    struct hf_record_client record; /* the record, with views of the core's own bytes */
    bool registered;                /* the client has a durable record, or one on its way */
    bool verifying;                 /* the client's status monitor is being asked (SEC-04) */
    bool releasing;                 /* the client is losing what it had, in slices */
    uint32_t n_locks, n_shares, n_waiters, n_unreclaimed;
    int64_t first_seen_ms, last_seen_ms; /* times of the wall clock */
    uint64_t n_requests;                 /* counts requests for locks whose owner was known */
    enum hf_notice_status notice;
    uint32_t notice_attempts;
    int notice_error; /* the error of the last failed attempt; 0: none */
};

struct hf_view_lock {
    struct hf_record_lock record;
    struct hf_bytes client_name;
    struct hf_addr client_addr;
    bool durable;
    bool unreclaimed;   /* the lock is held from before our restart, and not yet reclaimed */
    bool releasing;     /* a release of its client is in progress, and will take the lock */
    uint32_t n_waiters; /* how many waiters wait on the file */
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
    bool granting;   /* the waiter has the lock already, and its GRANTED callback is in flight */
    bool passes;     /* the waiter does not queue behind others, because that would close a cycle */
    bool outside;    /* a holder outside is in the way, and the kernel tells when it lets go */
    bool has_holder; /* the holder outside is known: */
    struct hf_claim_holder holder;
    uint32_t attempts;
    int64_t since_ms;    /* since when the request waits, by the wall clock */
    uint64_t blocked_by; /* the id of one lock in the way; 0 if it waits behind a waiter only */
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
 * The waiters that a request granted: take the mark before the request, and page from there before
 * the next hf_core_next_outcall(), in the order in which they were granted. The cost is that of the
 * rows shown.
 */
uint64_t hf_core_view_grant_mark(const struct hf_core *core);
size_t hf_core_view_granted(const struct hf_core *core, uint64_t *mark, struct hf_view_waiter *rows,
                            size_t max);

/* Shows one client by id. Returns HF_ENOENT if there is none. */
int hf_core_view_client(const struct hf_core *core, uint64_t id, struct hf_view_client *out);

/* Tells, after hf_core_start(), whether it continues, so that no client is told and nothing has to
 * be reclaimed, or why it does not (SPEC section 14). */
enum hf_recovers {
    HF_RECOVERS_NOT,        /* it continues */
    HF_RECOVERS_ALWAYS,     /* recovery.notify=always */
    HF_RECOVERS_FIRST,      /* there was no run before */
    HF_RECOVERS_ROLE,       /* one of the two runs is a status monitor only */
    HF_RECOVERS_UNRECORDED, /* this run or the one before does not record all that clients rely on
                             */
    HF_RECOVERS_LOST,       /* the store has lost records, and an operator has accepted it */
    HF_RECOVERS_CRASHED,    /* the host crashed, and the newest records were not flushed (DUR-02) */
    /* Locks may be unknown since an earlier start, or because a backup was restored. */
    HF_RECOVERS_UNKNOWN,
    /* The run before was itself in grace, was held back (GRC-04), or had locks whose life no record
     * tells (REC-01j). */
    HF_RECOVERS_UNFINISHED,
    HF_RECOVERS_MERGED, /* of two conflicting records one was lost (COH-05) */
    HF_RECOVERS_REASONS
};
enum hf_recovers hf_core_recovers(const struct hf_core *core);
/* Returns a text for operators; "": there is nothing to say. */
const char *hf_recovers_text(enum hf_recovers why);

struct hf_view_status {
    uint64_t epoch;
    int32_t state;
    bool was_clean; /* the run before this one was stopped cleanly */
    enum hf_recovers recovers;
    bool grace_active;
    uint64_t grace_remaining_ms;
    /* For how long new locks are still held back (GRC-04); 0: they are not. */
    uint64_t grace_held_ms;
    /* How many locks (if locks are not durable: clients) are not reclaimed. */
    uint64_t unreclaimed;
    /* How many locks were reclaimed since grace began; a repeated reclaim counts once. */
    uint64_t reclaimed;
    uint64_t locks, shares, waiters, files, owners;
    uint64_t oldest_wait_ms;           /* 0: no request waits */
    uint64_t nlm_clients, nsm_clients; /* nsm_clients counts registrations */
    /* Clients of either kind that are registered, and so are told of our restart. */
    uint64_t registered;
    uint64_t notices[5]; /* how many clients have each enum hf_notice_status */
    uint64_t calls_in_flight;
    bool coherent, claims_ready;
    uint64_t claimed_files, claimed_ranges, unmirrored_files; /* counts of claims (claim.h) */
    uint64_t coarse_files;  /* files of which the kernel holds more than clients do */
    uint64_t outside_waits; /* waiters behind holders outside */
};
void hf_core_view_status(const struct hf_core *core, struct hf_now now, struct hf_view_status *out);

/* How many requests wait for files of the i-th export; false: there is no such export. */
bool hf_core_view_waits(const struct hf_core *core, unsigned i, struct hf_bytes *export_name,
                        uint64_t *waiting);

/* Tells, after hf_core_start(), why clients may hold locks that are not recorded (SPEC section 14).
 * Registered clients may reclaim those, if nothing conflicts, until grace ends. */
enum hf_unknown_locks {
    HF_UNKNOWN_NONE,          /* clients do not hold any, or no client is registered */
    HF_UNKNOWN_SINCE_EARLIER, /* an earlier start found that they may, or a backup was restored */
    HF_UNKNOWN_NOT_DURABLE,   /* the run before recorded no locks */
    HF_UNKNOWN_HOST_CRASHED,  /* the newest records were not flushed (DUR-02) */
    /* The record of the run before does not say whether locks were recorded. */
    HF_UNKNOWN_OLD_FORMAT,
};
enum hf_unknown_locks hf_core_unknown_locks(const struct hf_core *core);

/* The limits of struct hf_limits, as operators see them. */
enum hf_limit {
    HF_LIMIT_CLIENTS,
    HF_LIMIT_MONITORS, /* SM_MON registrations, for which limits.clients holds, too */
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

/* Why a client lost locks after our restart. */
enum hf_loss {
    HF_LOSS_UNRECLAIMED, /* the client had not reclaimed them when grace ended */
    HF_LOSS_UNREACHABLE, /* the client could not be notified, and was given up as crashed */
    HF_LOSS_OUTSIDE,     /* a holder outside has the range: the kernel refused to hold it for us */
    HF_LOSSES
};

/* Monotonic counters for metrics. */
struct hf_counters {
    uint64_t limit_hits[HF_LIMITS];
    uint64_t locks_lost[HF_LOSSES];
    /* Clients that lost a lock, or (if locks are not durable) may have. */
    uint64_t clients_lost[HF_LOSSES];
    uint64_t out_of_memory;
    uint64_t reclaims_granted, reclaims_denied;
    uint64_t deadlocks;
    uint64_t deadlock_searches_cut; /* searches that were cut short by their bound */
    uint64_t crashes_detected;      /* crashes found by a notice, or by silence */
    uint64_t crash_cleanups;
    uint64_t locks_cleaned; /* locks that went with their crashed client */
    uint64_t notifies_in_accepted, notifies_in_repeated, notifies_in_stranger, notifies_in_bad,
        notifies_in_refuted; /* notices that the client's own status monitor contradicted */
    uint64_t callbacks_started, callbacks_accepted, callbacks_denied, callbacks_failed;
    uint64_t probes_started, probes_failed; /* calls that ask whether a waiter is still there */
    /* SM_NOTIFY calls and status callbacks. */
    uint64_t notices_started, notices_delivered, notices_failed;
    uint64_t granted_res_stranger;
    uint64_t state_hints; /* LOCKs with another state than the recorded one */
    uint64_t commits_failed;
    uint64_t outside_conflicts; /* requests that a holder outside was in the way of (claim.h) */
    /* Claims that the kernel cannot hold, by reason. */
    uint64_t claims_refused[HF_CLAIM_OUTCOMES];
    uint64_t events_lost;
};
const struct hf_counters *hf_core_counters(const struct hf_core *core);

/*
 * What happened. The comments name what a and b of struct hf_event mean in this kind of event, and
 * say where an event has an error or a file. A state is an NSM state number.
 */
enum hf_event_kind {
    HF_EVENT_CLIENT_REGISTERED,
    HF_EVENT_CLIENT_UNREGISTERED,
    HF_EVENT_CLIENT_CRASHED, /* a: the new state of the client, b: how many locks were released */
    /* The client could not be told of our restart; a: its state, b: how many locks it lost. */
    HF_EVENT_CLIENT_UNREACHABLE,
    /* The client could not be told of our restart; it keeps its locks, of which there are b, until
     * grace ends. */
    HF_EVENT_CLIENT_UNTOLD,
    /* The client did not reclaim in time; a: its state, b: how many locks it lost. */
    HF_EVENT_CLIENT_UNRECLAIMED,
    /* The operator declared the client dead; a: its state, b: how many locks were released. */
    HF_EVENT_CLIENT_DEAD,
    /* FREE_ALL or the operator released locks; b: how many. */
    HF_EVENT_CLIENT_RELEASED,
    /* The state in a LOCK is not the recorded one; a: that of the LOCK, b: the recorded one. */
    HF_EVENT_STATE_HINT,
    /* A crash notice fits no client; a: the state in it. Address and name are the sender's. */
    HF_EVENT_NOTIFY_STRANGER,
    /* A crash notice was refuted; a: the state in it, b: that of the client's monitor. */
    HF_EVENT_NOTICE_REFUTED,
    /* The grace period began; a: its length in milliseconds, b: how many locks may be reclaimed
     * (how many clients may reclaim, if locks are not recorded). */
    HF_EVENT_GRACE_BEGAN,
    /* The grace period ended; a: how many locks were reclaimed, b: how many were not, and are
     * released. */
    HF_EVENT_GRACE_ENDED,
    /* The client answered a notice; a: the number of attempts, b: milliseconds since the first. */
    HF_EVENT_NOTICE_DELIVERED,
    /* An attempt at a notice failed; a: the number of attempts so far, b: milliseconds since the
     * first; the error is set. */
    HF_EVENT_NOTICE_FAILED,
    /* No attempt at this notice follows; a, b and the error as in HF_EVENT_NOTICE_FAILED. */
    HF_EVENT_NOTICE_GIVEN_UP,
    /* A GRANTED callback failed, and the lock went to the next waiter; a: the number of attempts;
     * the error and the file are set. */
    HF_EVENT_GRANT_FAILED,
    /* A batch failed; a: its number, b: how many changes are undone; the error is set. */
    HF_EVENT_COMMIT_FAILED,
    HF_EVENT_WAITERS_DROPPED, /* the client of waiters does not answer; b: how many waiters */
    /* The client lost a lock to a holder outside; a: its state, b: 1; the file is set. */
    HF_EVENT_CLIENT_OUTSIDE,
    HF_EVENT_CLIENT_MOVED, /* the client comes from this address now (TRK-02) */
    /* The client's name comes from this address as well, and the host at the address that it came
     * from before still answers, with the client's state (a): it is another client. */
    HF_EVENT_CLIENT_DOUBLED,
    HF_EVENT_LIMIT_HIT, /* a: which limit (enum hf_limit); at most one event waits for each */
};

enum { HF_EVENT_NAME_MAX = 128, HF_EVENT_FH_MAX = 64 };

struct hf_event {
    enum hf_event_kind kind;
    uint64_t client_id; /* 0: the event is not about a client */
    struct hf_addr addr;
    int64_t a, b;
    int error;
    uint16_t name_len; /* longer names are cut */
    uint8_t name[HF_EVENT_NAME_MAX];
    /* 0: the event is not about a file, or its handle is longer than NFSv3 allows. */
    uint16_t fh_len;
    uint8_t fh[HF_EVENT_FH_MAX];
};

/* Takes the oldest event; false if there is none. events_lost counts those that found no room. */
bool hf_core_next_event(struct hf_core *core, struct hf_event *out);

/* Returns a digest of every registered client and durable lock that does not depend on their order:
 * it is the same before a stop and after the next start, when no batch is in flight. */
uint64_t hf_core_digest(const struct hf_core *core);

#endif
