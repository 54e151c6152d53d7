/* Declarations that only the files of core/recovery share. */
#ifndef HF_CORE_RECOVERY_PRIVATE_H
#define HF_CORE_RECOVERY_PRIVATE_H

#include "core/clients/clients.h"
#include "core/recovery/recovery.h"

/* A decision that answers wait for, in recovery->decisions until hf_core_next_decision() takes
 * it. */
struct hf_made_decision {
    struct hf_list link;
    /* While the decision is linked, it holds a reference to this client. */
    struct hf_client *client;
    struct hf_decision decision;
};

/*
 * What a client still holds and is to lose (pending_release.c). The release is kept, and retried,
 * until it is durable. client->losing says which locks and shares go. What the client is granted
 * meanwhile, as a host that runs again, stays.
 */
struct hf_pending_release {
    /* Links the release into recovery->releasing or ->released, with a reference to the client. */
    struct hf_list link;
    /* Something is still to be released; otherwise the release only has to become durable. */
    bool in_progress;
    bool incomplete; /* Memory ran out for some locks: all owners must be looked at again. */
    /* A failed release is retried; without this flag it was refused, and is over. */
    bool retry;
    bool crashed; /* The client was found dead. */
    bool log;     /* An event is logged when the release ends. */
    enum hf_event_kind event;
    int32_t state; /* The client's new state number; 0: it does not change. */
    /* How much was released so far: locks, shares, and waiters (hf_release.n). */
    int64_t n;
    uint64_t seq;         /* The last batch with a part of the release. */
    uint64_t decision_id; /* The decision that answers wait for; 0: no answer waits. */
    struct hf_made_decision made;
    struct hf_made_decision *also; /* A second decision to make at the same time; NULL: none. */
};

/* A crash notice, while the client's status monitor is asked whether it is true (verify.c). */
struct hf_verification {
    /* The SM_STAT call, which holds a reference to the client while it is in flight. */
    struct hf_outcall outcall;
    int32_t claimed; /* The client's state number according to the notice. */
    bool free_all;   /* The notice is a FREE_ALL, which records no state. */
    /* Another client on this host that is being asked already: the answer about that client decides
     * this notice, too. NULL: this client is asked itself. The pointer holds a reference. */
    struct hf_client *joined;
    /* The notice's source address, if it must be asked before the client's own address; family
     * NONE: it need not be asked, or was asked already. */
    struct hf_addr from;
    /* The notice's source address has confirmed it, but the notice may be about another host. */
    bool elsewhere;
    uint32_t life;     /* The client's life that began with the notice, or earlier. */
    bool began;        /* The notice began that life: its state was unknown before. */
    uint64_t asked_ms; /* When the monitor was last asked; 0: never yet. */
    int32_t named;     /* The state that the monitor last answered. */
    uint64_t named_ms; /* When the monitor last answered; 0: never yet. */
    struct hf_made_decision made;
};

/* The question to a client's old address after a request from another one (arrival.c). */
struct hf_arrival {
    /* The SM_STAT call, which holds a reference to the client while it is in flight. */
    struct hf_outcall outcall;
    struct hf_addr to;   /* The address where the client seems to be now. */
    uint64_t heard;      /* How many requests the client had sent when the question began. */
    uint64_t asked_ms;   /* When the old address was last asked; 0: never yet. */
    uint64_t decided_ms; /* When the old address last answered; 0: never yet. */
};

/*
 * What module recovery keeps of a client. The memory comes with the client (hf_clients_init()), so
 * that no release fails for lack of memory.
 */
struct hf_client_recovery {
    struct hf_client *client; /* NULL until hf_recovery_of() is first called. */
    struct hf_pending_release release;
    struct hf_verification verification;
    struct hf_arrival arrival;
};

/* Handles the answer if the outcall asked a client's old address (arrival.c); returns false if it
 * did not. */
bool hf_arrival_answered(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall,
                         int32_t state);

/* Fills in a question (SM_STAT) to the status monitor at this address: which state number does the
 * client's host have? */
void hf_verify_ask(const struct hf_core *core, const struct hf_client *client,
                   const struct hf_addr *at, struct hf_outcall_attempt *out);

/* Sends our restart notice to the client's present address, if it went unanswered at the old
 * one. */
void hf_notice_follow(struct hf_core *core, struct hf_client *client);

/* Returns recovery's part of the client, which the first use initialises. */
struct hf_client_recovery *hf_recovery_of(struct hf_client *client);

/* Loads a decoded record of a lock. Returns what hf_core_load() returns. */
int hf_load_lock(struct hf_core *core, const struct hf_record_lock *record);

/* Decides what this start means for clients, once all records are loaded. */
struct hf_start hf_start_decide(const struct hf_core *core);

void hf_grace_begin(struct hf_core *core, struct hf_now now);

/* Has an SM_MON client told, once batch seq is durable, that the host which it monitors has
 * restarted. */
void hf_status_call_begin(struct hf_core *core, struct hf_client *client, uint64_t seq);

/*
 * Handles a client's restart: everything of lives before `life` is released, and the record gets
 * the new state. HF_ENOMEM: the notice to an SM_MON client must be repeated, because it leads to a
 * callback as well as to a record. (The release of an NLM client is retried.)
 */
int hf_client_crashed(struct hf_core *core, struct hf_now now, struct hf_client *client,
                      int32_t state, uint32_t life, struct hf_ticket *wait);

/* Gives up a client that cannot be told of our restart: the locks that it has not reclaimed are
 * released (NOT-03). */
void hf_client_unreachable(struct hf_core *core, struct hf_now now, struct hf_client *client);

/* Counts and reports that the locks which the client has not reclaimed are about to be released. */
void hf_client_lost(struct hf_core *core, const struct hf_client *client, enum hf_loss reason);

/*
 * What a client is to lose. If several fields are set, it loses whatever any of them describes.
 */
struct hf_release {
    /* Locks and shares of lives before this one are released; 0: none for this reason. */
    uint32_t before_life;
    bool unclaimed; /* locks that the client has not reclaimed are released */
    int32_t state;  /* the client's new state number, to be recorded; 0: unchanged */
    /* Retry the release until it is durable. Without this flag, the caller gets an error if the
     * release fails at once. */
    bool retry;
    bool crashed; /* count the client as found dead */
    bool log;     /* log an event when everything is released */
    enum hf_event_kind event;
    int64_t n; /* how many waiters were removed already, which the event counts as well */
};

/*
 * Begins a release, or extends the one in progress, and makes its first slice. Returns how many
 * locks and shares were released now; HF_ENOMEM: the caller's request is refused.
 */
int64_t hf_pending_release_add(struct hf_core *core, struct hf_now now, struct hf_client *client,
                               const struct hf_release *release, struct hf_ticket *wait);

/* hf_pending_release_add() in two steps, for many clients: hf_pending_release_begin() begins a
 * release without a slice, hf_pending_release_wait() tells what an answer must wait for. */
void hf_pending_release_begin(struct hf_core *core, struct hf_client *client,
                              const struct hf_release *release);
void hf_pending_release_wait(struct hf_core *core, struct hf_client *client,
                             struct hf_ticket *wait);

/* Has a second decision made when the release ends, because answers wait for that one, too. Takes
 * over the caller's reference. */
void hf_pending_release_decides(struct hf_client *client, struct hf_made_decision *also,
                                uint64_t id);

/* Makes one slice of the releases that are in progress, oldest first. */
void hf_pending_release_go_on(struct hf_core *core, struct hf_now now);

/* hf_pending_release_committed() ends releases that have become durable; after a failed commit
 * hf_pending_release_commit_failed() restarts the others, and hf_pending_release_retry_all() lets
 * them go on. */
void hf_pending_release_committed(struct hf_core *core);
void hf_pending_release_commit_failed(struct hf_core *core);
void hf_pending_release_retry_all(struct hf_core *core);

/* Spares unclaimed locks from all releases, because a new epoch begins and they may be
 * reclaimed. */
void hf_pending_release_keep_unclaimed(struct hf_core *core);

/*
 * Makes a decision: answers that wait for it may leave when batch seq is durable. Takes over the
 * caller's reference to the client.
 */
void hf_decision_made(struct hf_core *core, struct hf_made_decision *made, struct hf_client *client,
                      uint64_t id, uint64_t seq);

#endif
