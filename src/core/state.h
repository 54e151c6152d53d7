/*
 * What the brain remembers. Private to src/core.
 *
 *     client --< owner --< lock >-- file
 *        |         |----< waiter >---|        (waiting: in the file's queue)
 *        |--------------< share >----|
 *
 * A client is a host we know, NLM or NSM. An owner is client + svid + owner handle. A lock is a
 * range of a file held by an owner; locks of one owner on one file never overlap, and two that
 * touch and are alike are one. A waiter is a blocked LOCK; once granted it carries the GRANTED
 * callback until that is answered.
 *
 * Life: owners, files and clients are counted references. A lock refers to its owner and file even
 * after it was removed, until the removal is durable (undo.c); so whatever an undo needs is there.
 * The locks of an owner, of a client and of a file are found without a search.
 */
#ifndef HF_CORE_STATE_H
#define HF_CORE_STATE_H

#include "base/check.h"
#include "base/itree.h"
#include "base/list.h"
#include "base/map.h"
#include "base/slab.h"
#include "core/core.h"
#include "core/plant.h"

struct hf_client;
struct hf_file;

/* Something that becomes due. Ties are kept in the order they were armed. */
struct hf_timer {
    struct hf_itree_node node; /* first = last = the moment, mono_ms */
    bool armed;
    enum hf_timer_kind { HF_TIMER_LINGER, HF_TIMER_ERRAND } kind;
};

/*
 * An outgoing call that is attempted until it succeeds or is given up: see errand.c. It lives
 * inside a waiter (GRANTED) or a client (notice, told, probe).
 */
enum hf_errand_state {
    HF_ERRAND_IDLE,
    HF_ERRAND_READY,   /* in a queue; starts as soon as it is durable and there is room */
    HF_ERRAND_RUNNING, /* an attempt is under way */
    HF_ERRAND_PAUSED,  /* until its timer */
};

struct hf_errand {
    uint64_t id; /* of the calls; fresh each time the errand begins */
    struct hf_map_node by_id;
    struct hf_list link; /* in core->ready_* when READY */
    struct hf_timer timer;
    enum hf_errand_role {
        HF_ERRAND_GRANT,
        HF_ERRAND_NOTICE,
        HF_ERRAND_TOLD,
        HF_ERRAND_PROBE,
    } role;
    enum hf_errand_state state;
    uint32_t attempts;
    uint32_t arrived; /* of those that failed: may have arrived all the same */
    int error;
    uint64_t seq;        /* batch that must be durable first */
    uint64_t begun_ms;   /* first attempt */
    uint64_t attempt_ms; /* latest attempt */
};

/*
 * 128 bytes, so that a million are 128 MB: the id and the tree node fill one cache line, the links
 * another.
 */
struct hf_lock {
    uint64_t id; /* the slab's word, too; its upper bits are the epoch it was granted in */
    struct hf_itree_node node; /* in file->locks; first and last */
    struct hf_owner *owner;
    struct hf_file *file;
    struct hf_list in_owner;
    struct hf_list in_client;
    int64_t acquired_at_ms;
    bool exclusive;
    bool durable;   /* has a record */
    bool unclaimed; /* held from before the restart, and not reclaimed yet */
};

/*
 * What few owners and few files have is kept apart from them, for there may be millions: what an
 * owner waits for, and who waits for a file or has a share of it. All that have nothing point at
 * one that is always empty (core->at_rest, core->nobody), so a reader need not ask; whoever adds
 * calls hf_owner_waiting() or hf_file_crowd() first.
 */
struct hf_waiting {
    struct hf_list waiters;        /* waiting and being granted */
    struct hf_owner *suspect_next; /* deadlock.c */
    uint64_t suspect_round;
};

struct hf_crowd {
    struct hf_file *file;
    struct hf_list waiters; /* first come, first served: in the order of their tickets */
    struct hf_list shares;
    struct hf_list woken; /* in core->woken, when a range got free that somebody waits for */
    uint64_t woken_first, woken_last;
    uint32_t n_waiters; /* in the queue */
    uint32_t n_shares;
};

struct hf_owner {
    struct hf_map_node node; /* in core->owners */
    struct hf_client *client;
    struct hf_list locks;
    struct hf_waiting *waiting;
    uint32_t refs; /* locks, removed locks not yet forgotten, waiters, requests at work */
    uint32_t n_locks;
    int32_t svid;
    uint32_t oh_len;
    uint8_t oh[];
};

struct hf_file {
    struct hf_map_node node; /* in core->files */
    struct hf_itree locks;
    struct hf_crowd *crowd;
    uint64_t seq;  /* last batch that changed its locks */
    uint32_t refs; /* as for owners; shares as well */
    uint32_t n_locks;
    uint32_t n_exclusive; /* of n_locks: without any, shared requests have nothing to search */
    uint16_t share;       /* index of its share rule; n_shares: the default share */
    uint16_t fh_len;
    uint8_t fh[];
};

struct hf_waiter {
    uint64_t id;            /* ticket: its place in the queue */
    struct hf_list in_file; /* while waiting */
    struct hf_list in_owner;
    struct hf_list in_client;
    struct hf_owner *owner;
    struct hf_file *file;
    uint64_t first, last;
    uint64_t offset, length; /* as asked, for the echo */
    int64_t since_ms;
    struct hf_addr local;    /* where the request came in, and from where GRANTED goes out */
    struct hf_errand errand; /* the GRANTED callback */
    enum hf_transport transport;
    uint8_t version;
    bool msg;
    bool exclusive;
    bool monitored;
    bool passes;   /* queues behind nobody, because it would wait for itself (deadlock.c) */
    bool granting; /* holds the lock; the callback is to be made or under way */
    enum hf_had {  /* what its owner held of the range when it was granted */
                  HF_HAD_NOTHING,
                  HF_HAD_SHARED, /* all of it, shared */
                  HF_HAD_SOME,   /* anything else */
    } had;
    bool gone;     /* left, but an undo entry still refers to it */
    bool undoable; /* an undo entry refers to it */
};

struct hf_share {
    uint64_t id;
    struct hf_list in_file;
    struct hf_list in_client;
    struct hf_client *client;
    struct hf_file *file;
    uint8_t *oh; /* owned */
    uint32_t oh_len;
    uint8_t mode, access;
};

/* One more address a client is known by. */
struct hf_alias {
    struct hf_map_node node; /* in core->aliases, by address: the first of its ring only */
    struct hf_list same;     /* ring of all aliases with this address */
    bool in_map;
    struct hf_alias *next; /* of the same client */
    struct hf_client *client;
    struct hf_addr addr;
};

/* The part of a client's record that may change; kept aside for undo. */
struct hf_client_mutable {
    int32_t state;
    enum hf_transport transport;
    struct hf_addr local;
    uint8_t priv[HF_PRIV_SIZE];
};

/*
 * A client found dead, until the release of its locks is durable: if that fails it is tried again
 * (crash.c). Locks it was granted since then, as a new life, are not concerned.
 */
struct hf_doom {
    struct hf_list link; /* in core->doomed */
    uint64_t before_id;  /* locks with smaller ids go */
    uint64_t seq;        /* batch that says so */
    int32_t state;       /* its new state number; 0: as before */
    bool unclaimed_only; /* could not be told of our restart: only what it did not reclaim goes */
};

struct hf_client {
    uint64_t id;
    struct hf_map_node by_identity;
    struct hf_map_node by_id;
    struct hf_list all; /* in core->clients */
    enum hf_protocol protocol;
    struct hf_client_mutable m;
    bool registered;  /* has a record; of an SM_MON client that has none, nothing counts */
    bool may_reclaim; /* locks not durable: it was registered before the restart */
    bool reclaimed;   /* ... and has reclaimed something since */
    bool monitors_us; /* SM_MON whose mon_name is this server (SPEC section 2, kind 2) */
    uint8_t *bytes;   /* owns name and my_name */
    struct hf_bytes name, my_name;
    struct hf_addr addr; /* NLM: part of the identity */
    struct hf_alias *aliases;
    unsigned n_addrs;
    int64_t registered_at_ms;
    uint64_t epoch;
    uint64_t ttl_ms;
    uint32_t prog, vers, proc;
    struct hf_addr callback_host;
    /*
     * A LOCK told another state than recorded: perhaps a new life, whose notice has yet to come.
     * What has a smaller id is of the old one, and goes when a notice confirms the state.
     */
    int32_t hint_state;
    uint64_t hint_id; /* 0: no hint */
    uint64_t seq;     /* last batch that changed its record */
    uint32_t refs;
    uint32_t n_locks, n_unclaimed, n_waiters, n_shares;
    struct hf_list locks, waiters, shares;
    int64_t first_seen_ms, last_seen_ms; /* wall clock */
    uint64_t idle_since_ms;
    struct hf_timer linger;
    struct hf_errand notice; /* of our restart: NOTIFY, or STATUS if it monitors us */
    enum hf_notice_status notice_status;
    struct hf_errand told;  /* STATUS: the host it monitors has restarted */
    struct hf_errand probe; /* is it there, while it waits behind one that does not answer? */
    uint64_t answered_ms;   /* its last answer to a callback or probe, mono_ms; 0: none yet */
    struct hf_doom doom;
};

/* That part as it was, and what registering sets, for undo. */
struct hf_client_saved {
    struct hf_client *client; /* a reference */
    struct hf_client_mutable m;
    int64_t registered_at_ms;
    uint64_t epoch;
};

/* Objects with a few bytes at their end: from one of several slabs, by how many, unless many. */
enum { HF_FLEX_STEP = 8, HF_FLEX_SLABS = 9 /* up to 64 bytes, the longest NFSv3 file handle */ };

struct hf_flex {
    size_t base; /* size without the bytes */
    struct hf_slab slabs[HF_FLEX_SLABS];
};

struct hf_undo {
    enum hf_undo_kind {
        HF_UNDO_LOCK_ADDED,
        HF_UNDO_LOCK_REMOVED,
        HF_UNDO_LOCK_CLAIMED,
        HF_UNDO_RECLAIMED,
        HF_UNDO_WAITER_GRANTED,
        HF_UNDO_CLIENT_REGISTERED,
        HF_UNDO_CLIENT_UNREGISTERED,
        HF_UNDO_CLIENT_CHANGED,
        HF_UNDO_CLIENT_ALIAS,
    } kind;
    union {
        struct hf_lock *lock;
        struct hf_waiter *waiter;
        struct hf_client *client;
        struct hf_client_saved *saved;
        struct hf_alias *alias;
        struct {
            uint32_t epoch; /* of its grace; fits, for the state number does */
            uint32_t locks;
        } reclaimed;
    };
};

/* How to take back a batch, oldest change first. */
struct hf_undo_log {
    struct hf_undo *entries;
    size_t n;
    size_t room;
};

struct hf_grace {
    bool active;
    uint64_t end_ms;
    uint64_t reclaimed;   /* locks, each once */
    uint64_t drained_seq; /* when this is durable nothing is left to reclaim; 0: not yet */
};

enum { HF_EVENTS_MAX = 32768 }; /* three for each client, all at one moment */

struct hf_core {
    const struct hf_alloc *alloc;
    struct hf_core_config config;

    uint64_t epoch;
    uint64_t epoch_seq; /* batch that carries the epoch: nothing leaves before it is durable */
    uint64_t next_id;
    bool was_clean; /* the run before */
    bool stopped;
    bool server_dirty;     /* the server's record must go into the next batch taken */
    bool server_in_flight; /* ... and is in the one being committed */

    struct hf_map clients_by_identity, clients_by_id, aliases, owners, files, errands;
    struct hf_list clients;
    struct hf_slab client_slab, alias_slab, lock_slab, waiter_slab, share_slab;
    struct hf_slab waiting_slab, crowd_slab;
    struct hf_waiting at_rest; /* of all owners that wait for nothing: never changes */
    struct hf_crowd nobody;    /* of all files that nobody waits for: never changes */
    struct hf_flex owner_flex, file_flex;

    /* Durability: see txn.c. */
    struct hf_batch batches[2];
    struct hf_undo_log undos[2];
    unsigned gathering; /* index into both */
    bool in_flight;     /* the other one is being committed */
    bool wanted;        /* the gathering batch is waited for, even if it has no operation */
    uint64_t durable;
    uint64_t failed; /* the newest batch that was undone; 0: none */

    struct hf_itree timers;
    uint64_t redo_ms; /* when to try again what failed; UINT64_MAX: nothing to try */
    struct hf_list woken;
    struct hf_list doomed;
    struct hf_grace grace;

    struct hf_list ready_grants, ready_probes, ready_notices;
    uint32_t notices_running;
    uint32_t probes_running;
    uint32_t grants_running;

    uint64_t n_locks, n_shares, n_waiters;
    uint64_t n_unclaimed; /* locks; clients that may reclaim when locks are not durable */
    uint32_t n_nlm_clients, n_nsm_clients;
    uint64_t suspect_round;

    struct hf_counters counters;
    struct hf_event *events; /* a ring that grows */
    uint32_t events_room, events_head, events_n;
};

#endif
