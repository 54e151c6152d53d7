/*
 * What the server ought to know, kept beside it: the naive oracle, the waiting requests, and which
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
    bool passes;            /* the core says that it need not queue behind other waiters any more */
    bool old;               /* a notice of its host's restart came since its last request */
    bool may_pass;          /* at some time its place in the queue was part of a cycle */
    uint8_t had[SIM_CELLS]; /* modes: what its owner held already when it was granted */
    bool kept[SIM_CELLS];   /* ... since the last notice of its host */
    bool unrecorded[SIM_CELLS]; /* ... by NM_LOCK, as its process knows */
    bool unclaimed[SIM_CELLS];  /* ... and had not reclaimed: it is lost if grace is over by then */
    struct sim_range range;
    int32_t state;  /* that its request told; 0: none, or unknown */
    bool over;      /* granted, and its process was told otherwise, or has been released */
    uint64_t batch; /* that its grant must be durable in */
    uint64_t id;    /* the core's, for the order; 0: not seen in the view yet */
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
 * Why a client may believe in a lock that the server need not keep for it any more. What such a
 * client believes is not checked until the server promises it anew; so each cause is counted apart,
 * and has a ceiling of its own (run.c).
 * name, what happened, the ceiling in parts of 10,000 of all beliefs
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

/* What the core's view shows. */
struct sim_seen {
    struct sim_oracle held;
    struct sim_oracle unreclaimed;          /* the same, but only what waits to be reclaimed */
    struct sim_oracle releasing;            /* the same, but only what is being released */
    struct sim_waiter waiters[SIM_WAITERS]; /* in the order of their ids: first in, first out */
    unsigned n_waiters;
    struct sim_waiter granting[SIM_WAITERS]; /* have the lock; their callback is in flight */
    unsigned n_granting;
    struct sim_share shares[SIM_SHARES];
    unsigned n_shares;
    uint8_t edges[SIM_FILES][SIM_CELLS][SIM_OWNERS]; /* SIM_BEGINS, SIM_ENDS: a record of a lock */
    unsigned locks_of_owner[SIM_OWNERS];
    unsigned locks_of_host[SIM_HOSTS]; /* records, for the limits */
    unsigned locks_of_file[SIM_FILES];
    unsigned n_clients;
    bool grace;
};

/* What the event in progress allows; cleared before each event. */
struct sim_causes {
    bool server_event; /* the core was called */
    bool restarted;    /* loaded from the store, or SM_SIMU_CRASH */
    bool rolled_back;  /* a commit failed */
};

struct sim_model {
    struct sim_oracle held;
    struct sim_oracle shaky; /* enum sim_lapse: the client may believe in a grant that has lapsed */
    /* Granted and not lapsed: one more than the batch that must be durable for it; 0: no grant. */
    uint64_t fresh[SIM_FILES][SIM_CELLS][SIM_OWNERS];
    struct sim_waiter waiters[SIM_WAITERS];
    unsigned n_waiters;
    struct sim_oracle kept;   /* not SIM_FREE: granted since the last release of its host began */
    struct sim_oracle loaded; /* what the server began this epoch with, in grace: to be reclaimed */
    /* One more than the batch in which it was reclaimed, or granted anew; 0: it was not. */
    uint64_t claimed[SIM_FILES][SIM_CELLS][SIM_OWNERS];
    /* The same before a grant was refused: it holds again if the refusal is undone. */
    uint64_t reclaimed_by[SIM_FILES][SIM_CELLS][SIM_OWNERS];
    struct sim_waiter granted[SIM_WAITERS]; /* a ring: may wait again if their commit fails */
    unsigned n_granted;
    uint64_t passing[SIM_PASSING]; /* a ring: ids of waiters that may pass, over restarts as well */
    unsigned n_passing;
    struct sim_seen seen;
    struct sim_causes causes;

    /*
     * Reasons that outlive their event, because the core tries again by itself what a failed
     * commit undid: the host has restarted or freed all; a GRANTED callback was refused or failed.
     */
    bool gone[SIM_HOSTS];
    bool gone_now[SIM_HOSTS]; /* in this event; what goes later was shown as being released */
    bool refused[SIM_OWNERS];
    int32_t told[SIM_HOSTS];     /* the state number in its latest LOCK that told a new one */
    bool told_unsure[SIM_HOSTS]; /* ... and the server may not have recorded it before its crash */
    int32_t life[SIM_FILES][SIM_CELLS][SIM_OWNERS]; /* told by the LOCK of the cell; 0: unknown */
    struct sim_notice { /* from this host, or forged in its name: its monitor is being asked */
        bool pending;
        bool hinted;      /* a LOCK had told of the claimed state before the notice came */
        int32_t claimed;  /* the state in the notice */
        int32_t recorded; /* the state that the server knew */
    } notice[SIM_HOSTS];
    bool doubtful[SIM_HOSTS];     /* the server was killed while it verified a notice */
    int32_t releasing[SIM_HOSTS]; /* the state in the last notice that was believed at once */
    bool probe_failed[SIM_HOSTS]; /* the latest probe did, or a callback was given up */
    bool silent[SIM_HOSTS]; /* all attempts of a callback or probe failed: it waits no longer */
    bool silent_early[SIM_HOSTS]; /* ... or those that were cut short, perhaps */
    struct sim_range refused_range[SIM_OWNERS];
    bool refused_now[SIM_OWNERS];               /* in this event */
    uint8_t refused_had[SIM_OWNERS][SIM_CELLS]; /* ... and what was held before that stays */
    uint32_t asked_op[SIM_OWNERS];  /* what its process was doing in its latest request */
    uint32_t locked_op[SIM_OWNERS]; /* the same, if this server has seen it ask by LOCK */
    uint64_t sliced_since_ms;       /* when the core last had no slice of work left */
    uint64_t redo_until_ms; /* until then something refused by store or heap may be undone still */
};

void sim_model_init(struct sim_model *model);

/* The request's own effect, as the answer says it had. */
void sim_model_locked(struct sim_model *model, unsigned owner, struct sim_range range,
                      bool exclusive, int32_t state, uint64_t seq);
void sim_model_unlocked(struct sim_model *model, unsigned owner, struct sim_range range);

/* What the owner has of the range counts as reclaimed from this batch on. */
void sim_model_claimed(struct sim_model *model, unsigned owner, struct sim_range range,
                       uint64_t seq);
/* The same by a LOCK: a grant that is refused later does not take that back. */
void sim_model_claimed_by_lock(struct sim_model *model, unsigned owner, struct sim_range range,
                               uint64_t seq);
/* ... and that is durable: its owner is told. */
void sim_model_claim_told(struct sim_model *model, unsigned owner, struct sim_range range);
void sim_model_waits(struct sim_model *model, unsigned owner, struct sim_range range,
                     bool exclusive, int32_t state, uint64_t seq);

/* Everything of a host goes; not at once, if memory ran out on the way. */
void sim_model_host_gone(struct sim_model *model, unsigned host, bool at_once);

/* A notice of its restart, which tells this state, has come and is being verified. Then: it counts,
 * and what the host had when it came may go. What it got since, or told this state for, stays. */
void sim_model_host_notified(struct sim_model *model, unsigned host, int32_t claimed);
void sim_model_host_verified(struct sim_model *model, unsigned host);

/* The host holds something by a LOCK that told this state. */
bool sim_model_has_life(const struct sim_model *model, unsigned host, int32_t state);

/* What the host got and waits for by requests that told this state goes. */
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

/* The waiter has its lock, or a stronger one. What is being released is not the reason, even if it
 * has that mode: a new lock never becomes part of it (seed 400012311). */
bool sim_seen_has_lock(const struct sim_seen *now, const struct sim_waiter *waiter);

/* A grant of this range (NULL: any) need not be told any more, or cannot be. */
void sim_model_grants_over(struct sim_model *model, unsigned owner, struct sim_range range);

/* The newest grant of just this, in either mode; NULL: none that is remembered. */
const struct sim_waiter *sim_model_granted_last(const struct sim_model *model, unsigned owner,
                                                struct sim_range range);

/*
 * True if a blocking request (by this owner, for this range) queues behind the waiter: they
 * conflict, the waiter does not itself wait for something this owner holds, and the owner does not
 * hold all of the range already (request.h). Without the exceptions an owner would wait for itself.
 */
bool sim_waiter_goes_first(const struct sim_oracle *held, const struct sim_waiter *waiter,
                           unsigned owner, struct sim_range range, bool exclusive);

/* The grant leaves: from now on the client may count on it, unless it has lapsed meanwhile. */
void sim_model_promised(struct sim_model *model, unsigned owner, struct sim_range range,
                        uint64_t durable);

/* The newest grant of this cell needs no batch beyond the durable ones. */
static inline bool sim_model_is_granted(const struct sim_model *model, unsigned owner, unsigned f,
                                        unsigned c, uint64_t durable)
{
    return model->fresh[f][c][owner] != 0 && model->fresh[f][c][owner] - 1 <= durable;
}

/* The process waits for this range, and takes a callback for it, whatever the mode. */
bool sim_model_is_wanted(const struct sim_world *world, unsigned owner, struct sim_range range);

/* The same, and it was told BLOCKED and is asking for nothing. */
bool sim_model_is_told_blocked(const struct sim_world *world, unsigned owner,
                               struct sim_range range);

/* The same as the first, and the server has seen that it asks by LOCK: it counts on the lock's
 * record. */
bool sim_model_is_recorded(const struct sim_world *world, unsigned owner, struct sim_range range);

/* A waiter of this owner has this range, and its callback is in flight. */
bool sim_model_is_granting(const struct sim_model *model, unsigned owner, struct sim_range range);

/* What the client may still believe about these cells has no claim any more. */
void sim_model_lapse(struct sim_model *model, unsigned owner, struct sim_range range,
                     enum sim_lapse why);

/* Reads the core through its view (look.c). */
void sim_model_look(struct sim_world *world, struct sim_seen *out);
bool sim_seen_equal(const struct sim_seen *a, const struct sim_seen *b);

/* Compares and reconciles model and core after an event (reconcile.c); reports violations to the
 * world. */
void sim_model_reconcile(struct sim_world *world);

/* Who holds, believes and waits for what, for the end of a trace. */
void sim_model_print(const struct sim_world *world, FILE *out);

#endif
