/* What the files of core/recovery share with each other only. */
#ifndef HF_CORE_RECOVERY_PRIVATE_H
#define HF_CORE_RECOVERY_PRIVATE_H

#include "core/clients/clients.h"
#include "core/recovery/recovery.h"

/* A decision that answers wait for; it is in recovery->decisions until it is taken out. */
struct hf_made_decision {
    struct hf_list link;
    struct hf_client *client; /* Held by a reference while the decision is linked. */
    struct hf_decision decision;
};

/*
 * What a client still holds and is to lose (pending_release.c). It is kept until the release is
 * durable, and retried until then. client->losing tells which locks and shares it is about. Locks
 * that the client is granted meanwhile, as a host that runs again, stay.
 */
struct hf_pending_release {
    struct hf_list link; /* In recovery->releasing or ->released, with a reference to the client. */
    bool in_progress;    /* Not all of it has been released; else it only has to be durable. */
    bool incomplete;     /* Memory ran out on some: all owners are looked at once more. */
    bool retry;          /* A failure is retried; else the release was refused, and is over. */
    bool crashed;        /* The client was found dead. */
    bool log;            /* The event is logged at the end. */
    enum hf_event_kind event;
    int32_t state;        /* The client's new state number; 0: as before. */
    int64_t n;            /* Locks and shares that were released so far. */
    uint64_t seq;         /* The last batch that releases any of it. */
    uint64_t decision_id; /* Answers wait for this decision; 0: none does. */
    struct hf_made_decision made;
    struct hf_made_decision *also; /* This decision is made with it; NULL: none is. */
};

/* A crash notice whose truth the client's status monitor is asked for (verify.c). */
struct hf_verification {
    struct hf_outcall outcall; /* SM_STAT; while it is in flight it holds a reference. */
    int32_t claimed;           /* The state in the notice. */
    bool free_all;             /* The notice is a FREE_ALL, which records no state. */
    /* Another client on the same host, which is being asked about that client: the answer decides
     * this notice, too. NULL: the host is asked about this client. A client that is set holds a
     * reference. */
    struct hf_client *joined;
    /* The address that the notice came from, if it is to be asked before the address of the client;
     * family NONE: it is not to be asked, or was asked already. */
    struct hf_addr from;
    bool elsewhere;    /* That address has confirmed the notice, which may be about another host. */
    uint32_t life;     /* The life that began when the notice came, or before. */
    bool began;        /* That life began with the notice: its state was not known before. */
    uint64_t asked_ms; /* When the monitor was asked last; 0: not yet. */
    int32_t named;     /* The monitor's last answer. */
    uint64_t named_ms; /* When that answer came; 0: none yet. */
    struct hf_made_decision made;
};

/* The question to a client's old address, because a request came from another one (arrival.c). */
struct hf_arrival {
    struct hf_outcall outcall; /* SM_STAT; while it is in flight it holds a reference. */
    struct hf_addr to;         /* The address that the client seems to have now. */
    uint64_t heard;            /* How many requests the client had sent when it was asked about. */
    uint64_t decided_ms;       /* When the old address answered last; 0: not yet. */
};

/*
 * What recovery keeps of a client. Its memory comes with the client (hf_clients_init()), so that no
 * release fails for want of it.
 */
struct hf_client_recovery {
    struct hf_client *client; /* NULL until the first use. */
    struct hf_pending_release release;
    struct hf_verification verification;
    struct hf_arrival arrival;
};

/* Deals with the answer if the outcall was a question to the old address of a client (arrival.c);
 * returns false if it was not. */
bool hf_arrival_answered(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall,
                         int32_t state);

/* Sends our restart notice to the address that the client has now, if the client has not answered
 * the notice at its old address. */
void hf_notice_follow(struct hf_core *core, struct hf_client *client);

/* The first use of it sets it up. */
struct hf_client_recovery *hf_recovery_of(struct hf_client *client);

/* Loads a lock record that was decoded. Returns the codes of hf_core_load(). */
int hf_load_lock(struct hf_core *core, const struct hf_record_lock *record);

/* Decides what this start means, when everything is loaded. */
struct hf_start hf_start_decide(const struct hf_core *core);

void hf_grace_begin(struct hf_core *core, struct hf_now now);

/* Tells an SM_MON client, when batch seq is durable, that the host it monitors has restarted. */
void hf_status_call_begin(struct hf_core *core, struct hf_client *client, uint64_t seq);

/*
 * Handles the restart of a client, which has this state now: what it got before this life is
 * released, and its record says so. HF_ENOMEM: an SM_MON client's notice must be repeated, because
 * it leads to a callback as well as to the record. (The release of an NLM client is retried.)
 */
int hf_client_crashed(struct hf_core *core, struct hf_now now, struct hf_client *client,
                      int32_t state, uint32_t life, struct hf_ticket *wait);

/* Gives up a client that cannot be told of our restart: what it has not reclaimed is released
 * (NOT-03). */
void hf_client_unreachable(struct hf_core *core, struct hf_now now, struct hf_client *client);

/* Counts and reports that the locks which the client has not reclaimed are about to be released. */
void hf_client_lost(struct hf_core *core, const struct hf_client *client, enum hf_loss reason);

/*
 * What a client is to lose; where several fields are set, it loses all that any of them describes.
 */
struct hf_release {
    uint32_t before_life; /* locks and shares of earlier lives go; 0: none goes for that reason */
    bool unclaimed;       /* the client loses locks that it has not reclaimed */
    int32_t state;        /* the client's new state number, to be recorded; 0: as before */
    /* A release that fails is retried until it is durable. Without this flag, the caller gets an
     * error if the release fails at once. */
    bool retry;
    bool crashed; /* the client is counted as found dead */
    bool log;     /* an event is logged when all is released */
    enum hf_event_kind event;
    int64_t n; /* what the event counts in addition */
};

/*
 * Begins the release, or extends the one that is in progress, and makes its first slice. Returns
 * how many locks and shares were released now; HF_ENOMEM: the caller is refused.
 */
int64_t hf_pending_release_add(struct hf_core *core, struct hf_now now, struct hf_client *client,
                               const struct hf_release *release, struct hf_ticket *wait);

/* These are hf_pending_release_add() in two steps, for many clients: the first begins the release
 * without a slice, the second tells what an answer waits for. */
void hf_pending_release_begin(struct hf_core *core, struct hf_client *client,
                              const struct hf_release *release);
void hf_pending_release_wait(struct hf_core *core, struct hf_client *client,
                             struct hf_ticket *wait);

/* Makes this decision, too, when the release is made: answers wait for it as well. Takes over a
 * reference. */
void hf_pending_release_decides(struct hf_client *client, struct hf_made_decision *also,
                                uint64_t id);

/* Makes one slice of the releases that are in progress, oldest first. */
void hf_pending_release_go_on(struct hf_core *core, struct hf_now now);

/* The first ends the releases that are durable now; the second makes the others start again after a
 * failed commit; the third lets them go on. */
void hf_pending_release_committed(struct hf_core *core);
void hf_pending_release_commit_failed(struct hf_core *core);
void hf_pending_release_retry_all(struct hf_core *core);

/* Keeps unclaimed locks, because a new epoch begins and they may be reclaimed. */
void hf_pending_release_keep_unclaimed(struct hf_core *core);

/*
 * Lets answers that wait for the decision go on when batch seq is durable. Takes over a reference.
 */
void hf_decision_made(struct hf_core *core, struct hf_made_decision *made, struct hf_client *client,
                      uint64_t id, uint64_t seq);

#endif
