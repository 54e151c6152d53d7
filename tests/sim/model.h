/*
 * A model of what the server ought to know: the naive oracle, the waiting requests, and which
 * grants may have lapsed for a reason that the rules allow.
 *
 * After every event the core is read through its view and compared. Requests change the model by
 * their own rules; whatever else differs must have a cause that the event allows (struct
 * sim_causes): a lock appears only for a waiter whose turn it is, and disappears only when its
 * client crashed, could not be reached, refused it, or did not reclaim it in time. A difference
 * without a cause is a violation.
 */
#ifndef HF_SIM_MODEL_H
#define HF_SIM_MODEL_H

#include <stdio.h>

#include "core/core.h"
#include "message.h"

struct sim_world;

enum { SIM_WAITERS = 64, SIM_SHARES = 64, SIM_PASSING = 128 };

struct sim_waiter {
    uint8_t owner;
    bool exclusive;
    bool passes;   /* the core says that it need not queue behind other waiters any more */
    bool old;      /* a notice of its host's restart came after its last request */
    bool may_pass; /* at some time its place in the queue was part of a cycle */
    /* The modes in which the owner held the cells when the waiter was granted. */
    uint8_t had[SIM_CELLS];
    bool kept[SIM_CELLS]; /* the modes of those that it got since the last notice of its host */
    /* The modes of those that it had by NM_LOCK, as its process knows. */
    bool unrecorded[SIM_CELLS];
    /* The modes of those that it had not reclaimed: they are lost if grace is over by then. */
    bool unclaimed[SIM_CELLS];
    struct sim_range range;
    int32_t state; /* the state number in its request; 0: none, or unknown */
    bool over;     /* the grant is over: its process was told otherwise, or its lock was released */
    uint64_t batch; /* the batch that makes the grant durable */
    uint64_t id;    /* the core's id, which gives the order; 0: the view has not shown it yet */
    uint64_t seq;   /* BLOCKED leaves when this batch is durable; if it fails, nothing waits */
};

struct sim_share {
    uint8_t owner;
    uint8_t file;
    uint8_t mode;
    uint8_t access;
};

enum { SIM_BEGINS = 1, SIM_ENDS = 2 };

/*
 * Why a client may believe in a lock that the server need not keep for it any more. Such a belief
 * is not checked until the server promises the lock anew, so each cause is counted, and has a
 * ceiling of its own (run.c). name, what happened, the ceiling in parts of 10,000 of all beliefs
 */
#define SIM_LAPSES(X)                                                        \
    X(USURPED, "reclaimed by a client that only believed in it", 160)        \
    X(CROSSED, "an UNLOCK and a LOCK of two threads crossed", 1)             \
    X(STALE, "an old copy of a request was executed", 30)                    \
    X(UNRECORDED, "it was not recorded, and the server crashed", 250)        \
    X(CONFLICTS, "a record that was lost stands in its way", 2)              \
    X(HOST_GONE, "its host freed all, or a notice of its restart came", 250) \
    X(VERIFIED, "a notice of its host's restart was verified", 60)           \
    X(OPERATOR, "the operator released it", 160)                             \
    X(OTHER_EPOCH, "its grant was of an earlier server", 10)                 \
    X(OLD_CALLBACK, "a callback that was meant for an old request", 15)      \
    X(REGAINED, "lost and granted again in one event", 2)                    \
    X(UNWANTED, "a grant that no process waits for", 2)                      \
    X(TAKEN, "the server took it, as it may", 220)                           \
    X(UNRECLAIMED, "it was not reclaimed in time", 40)

enum sim_lapse {
    SIM_LAPSE_NONE,
#define X(name, text, ceiling) SIM_LAPSE_##name,
    SIM_LAPSES(X)
#undef X
        SIM_LAPSE_KINDS
};

/* What the core's view shows at one moment. */
struct sim_seen {
    struct sim_oracle held;
    struct sim_oracle unreclaimed;          /* the held locks that still have to be reclaimed */
    struct sim_oracle releasing;            /* the held locks that are being released */
    struct sim_waiter waiters[SIM_WAITERS]; /* ordered by their ids: first in, first out */
    unsigned n_waiters;
    /* Waiters that have the lock, and whose callback is in flight. */
    struct sim_waiter granting[SIM_WAITERS];
    unsigned n_granting;
    struct sim_share shares[SIM_SHARES];
    unsigned n_shares;
    /* SIM_BEGINS, SIM_ENDS: where a record of a lock begins or ends. */
    uint8_t edges[SIM_FILES][SIM_CELLS][SIM_OWNERS];
    unsigned locks_of_owner[SIM_OWNERS];
    unsigned locks_of_host[SIM_HOSTS]; /* counts of records, for the limits */
    unsigned locks_of_file[SIM_FILES];
    unsigned n_clients;
    bool grace;
};

/* The causes that the event in progress gives for a change; cleared before each event. */
struct sim_causes {
    bool server_event; /* the event called the core */
    bool restarted;    /* the core was loaded from the store, or SM_SIMU_CRASH came */
    bool rolled_back;  /* a commit failed */
};

struct sim_model {
    struct sim_oracle held;
    struct sim_oracle shaky; /* enum sim_lapse: the client may believe in a grant that has lapsed */
    /* One more than the batch that makes the grant durable; 0: no grant, or one that lapsed. */
    uint64_t fresh[SIM_FILES][SIM_CELLS][SIM_OWNERS];
    struct sim_waiter waiters[SIM_WAITERS];
    unsigned n_waiters;
    /* Not SIM_FREE: granted after the last release of the host's locks began. */
    struct sim_oracle kept;
    /* In grace: what the server began this epoch with, and clients have to reclaim. */
    struct sim_oracle loaded;
    /* One more than the batch in which the cell was reclaimed or granted anew; 0: it was not. */
    uint64_t claimed[SIM_FILES][SIM_CELLS][SIM_OWNERS];
    /* The value of `claimed` before a grant that was refused; it is restored if the refusal is
     * undone. */
    uint64_t reclaimed_by[SIM_FILES][SIM_CELLS][SIM_OWNERS];
    /* A ring of grants, which wait again if their commit fails. */
    struct sim_waiter granted[SIM_WAITERS];
    unsigned n_granted;
    uint64_t passing[SIM_PASSING]; /* a ring of ids of waiters that may pass, kept over restarts */
    unsigned n_passing;
    struct sim_seen seen;
    struct sim_causes causes;

    /* Causes that outlive their event, because the core repeats by itself what a failed commit has
     * undone. First: the host has restarted or sent FREE_ALL. */
    bool gone[SIM_HOSTS];
    /* The host has restarted or sent FREE_ALL in this event; the view shows as being released what
     * goes later. */
    bool gone_now[SIM_HOSTS];
    bool refused[SIM_OWNERS];
    int32_t told[SIM_HOSTS]; /* the state number in its latest LOCK that told a new one */
    /* A crash of the server may have come before this state number was recorded. */
    bool told_unsure[SIM_HOSTS];
    /* The state number in the LOCK of the cell; 0: unknown. */
    int32_t life[SIM_FILES][SIM_CELLS][SIM_OWNERS];
    /* A notice from this host, or one forged in its name, about which the host's monitor is being
     * asked. */
    struct sim_notice {
        bool pending;
        bool hinted;      /* a LOCK had told of the claimed state before the notice came */
        int32_t claimed;  /* the state in the notice */
        int32_t recorded; /* the state that the server knew when the notice came */
    } notice[SIM_HOSTS];
    bool doubtful[SIM_HOSTS];     /* the server was killed while it verified a notice */
    int32_t releasing[SIM_HOSTS]; /* the state in the last notice that was believed at once */
    bool probe_failed[SIM_HOSTS]; /* the latest probe failed, or a callback was given up */
    /* All attempts of a callback or probe failed: the host's waiters leave the queue. */
    bool silent[SIM_HOSTS];
    /* Perhaps all attempts failed, of a call that made fewer than usual. */
    bool silent_early[SIM_HOSTS];
    struct sim_range refused_range[SIM_OWNERS];
    bool refused_now[SIM_OWNERS]; /* in this event */
    /* The modes that the owner had before the grant it refused; they stay. */
    uint8_t refused_had[SIM_OWNERS][SIM_CELLS];
    uint32_t asked_op[SIM_OWNERS]; /* the running number of the process's latest request */
    /* The running number of the latest request for which this server has seen a LOCK. */
    uint32_t locked_op[SIM_OWNERS];
    uint64_t sliced_since_ms; /* since when the core has had a slice of work due; 0: none is due */
    /* Until this moment the core may still undo something that the store or the heap refused. */
    uint64_t redo_until_ms;
};

void sim_model_init(struct sim_model *model);

/* Applies a request to the model, as the answer says that the core has applied it. */
void sim_model_locked(struct sim_model *model, unsigned owner, struct sim_range range,
                      bool exclusive, int32_t state, uint64_t seq);
void sim_model_unlocked(struct sim_model *model, unsigned owner, struct sim_range range);

/* Notes that the owner has reclaimed, with this batch, what it has of the range. */
void sim_model_claimed(struct sim_model *model, unsigned owner, struct sim_range range,
                       uint64_t seq);
/* Notes a reclaim that a LOCK made: a grant that is refused later does not take it back. */
void sim_model_claimed_by_lock(struct sim_model *model, unsigned owner, struct sim_range range,
                               uint64_t seq);
/* Notes that a reclaim is durable and that its owner was told. */
void sim_model_claim_told(struct sim_model *model, unsigned owner, struct sim_range range);
void sim_model_waits(struct sim_model *model, unsigned owner, struct sim_range range,
                     bool exclusive, int32_t state, uint64_t seq);

/* Removes everything of a host; some of it may go later, if memory ran out on the way. */
void sim_model_host_gone(struct sim_model *model, unsigned host, bool at_once);

/* First function: a notice of the host's restart has come, tells this state, and is being verified.
 * Second: the notice counts, and what the host had when it came may go. What the host got since, or
 * asked for with this state, stays. */
void sim_model_host_notified(struct sim_model *model, unsigned host, int32_t claimed);
void sim_model_host_verified(struct sim_model *model, unsigned host);

/* True if the host holds something by a LOCK that told this state. */
bool sim_model_has_life(const struct sim_model *model, unsigned host, int32_t state);

/* Removes what the host got and waits for by requests that told this state. */
void sim_model_life_gone(struct sim_model *model, unsigned host, int32_t state);
void sim_model_refused(struct sim_world *world, unsigned owner, struct sim_range range);

/* The place of the request in a list of waiters, or -1. */
int sim_waiters_find(const struct sim_waiter *waiters, unsigned n, unsigned owner,
                     struct sim_range range, bool exclusive);
int sim_model_find_waiter(const struct sim_model *model, unsigned owner, struct sim_range range,
                          bool exclusive);

/* The place of the waiter that stands for this request, in that mode or a stronger one; or -1. */
int sim_model_find_repeated(const struct sim_model *model, unsigned owner, struct sim_range range,
                            bool exclusive);
void sim_model_remove_waiter(struct sim_model *model, unsigned place);

/* True if the waiter's owner has the lock, in its mode or a stronger one. A lock that is being
 * released does not count: a new lock never becomes part of it (seed 400012311). */
bool sim_seen_has_lock(const struct sim_seen *now, const struct sim_waiter *waiter);

/* Notes that a grant of this range (NULL: of any range) need not be told any more, or cannot be. */
void sim_model_grants_over(struct sim_model *model, unsigned owner, struct sim_range range);

/* The newest grant of exactly this range, in either mode; NULL if the model remembers none. */
const struct sim_waiter *sim_model_granted_last(const struct sim_model *model, unsigned owner,
                                                struct sim_range range);

/*
 * True if a blocking request (by this owner, for this range) queues behind the waiter: they
 * conflict, the waiter does not itself wait for something this owner holds, and the owner does not
 * hold all of the range already (request.h). Without these two exceptions an owner would wait for
 * itself.
 */
bool sim_waiter_goes_first(const struct sim_oracle *held, const struct sim_waiter *waiter,
                           unsigned owner, struct sim_range range, bool exclusive);

/* The grant's answer leaves: from now on the client may count on the lock, unless it has lapsed
 * meanwhile. */
void sim_model_promised(struct sim_model *model, unsigned owner, struct sim_range range,
                        uint64_t durable);

/* True if the newest grant of this cell waits for no batch that is not durable. */
static inline bool sim_model_is_granted(const struct sim_model *model, unsigned owner, unsigned f,
                                        unsigned c, uint64_t durable)
{
    return model->fresh[f][c][owner] != 0 && model->fresh[f][c][owner] - 1 <= durable;
}

/* True if a process waits for this range: it then takes a callback for it, whatever the mode. */
bool sim_model_is_wanted(const struct sim_world *world, unsigned owner, struct sim_range range);

/* True if a process waits for this range, was told BLOCKED, and has no request in flight. */
bool sim_model_is_told_blocked(const struct sim_world *world, unsigned owner,
                               struct sim_range range);

/* True if a process waits for this range and the server has seen a LOCK for it: the process counts
 * on the lock's record. */
bool sim_model_is_recorded(const struct sim_world *world, unsigned owner, struct sim_range range);

/* True if the owner was granted this range and its callback is in flight. */
bool sim_model_is_granting(const struct sim_model *model, unsigned owner, struct sim_range range);

/* Notes that the client's belief in these cells has no claim any more. */
void sim_model_lapse(struct sim_model *model, unsigned owner, struct sim_range range,
                     enum sim_lapse why);

/* Reads the core through its view (look.c). */
void sim_model_look(struct sim_world *world, struct sim_seen *out);
bool sim_seen_equal(const struct sim_seen *a, const struct sim_seen *b);

/* Compares and reconciles model and core after an event (reconcile.c); reports violations to the
 * world. */
void sim_model_reconcile(struct sim_world *world);

/* Prints who holds, believes and waits for what, for the end of a trace. */
void sim_model_print(const struct sim_world *world, FILE *out);

#endif
