/*
 * The client tracker (TRK-01) finds hosts by identity, by id and by address, each in O(1), and
 * keeps their registrations.
 *
 * The identity of an NLM client is its name and the address it comes from, so that no host can free
 * or take over another host's locks by using its name; and the address of ours that it uses. For a
 * Linux client that mounts by two of our addresses we are two servers: it numbers its lock owners
 * (svid) for each from 0, and reclaims from each only after a notice from that address. The
 * identity of an SM_MON registration is the host it is about and the program that wants to know:
 * name, program, version, procedure, and the address the registration came from.
 *
 * The address of a client for which the operator vouches (config.vouches) may change: the client
 * moves, with all that it has, and is found by its new address from then on (moves.c).
 *
 * A client object lives as long as something refers to it (refs): its registration, its owners and
 * shares, an undo entry, a request at work. Its record is durable only while it is registered. A
 * client is registered in the same batch as its first monitored lock (SPEC section 2), or by
 * SM_MON; its record changes when the client talks to us in another way. The registration ends when
 * the linger time after its last lock is over (SPEC section 4), or by SM_UNMON.
 */
#ifndef HF_CORE_CLIENTS_CLIENTS_H
#define HF_CORE_CLIENTS_CLIENTS_H

#include "base/list.h"
#include "base/map.h"
#include "base/reflist.h"
#include "base/slab.h"
#include "core/outcall/outcall.h"
#include "core/view.h"

struct hf_txn;

/* One address by which a client is known. */
struct hf_alias {
    /* The alias's node in clients->aliases, by address; only the first alias of its ring is in that
     * map. */
    struct hf_map_node node;
    struct hf_list same; /* the ring of all aliases that have this address */
    bool in_map;
    struct hf_alias *next; /* the client's next alias, with another address */
    struct hf_client *client;
    struct hf_addr addr;
};

/*
 * What all clients of one account (base/trust.h) have together. An account is a remote address or a
 * user of this host (hosts.c). The limits per host do not apply to root of this host.
 */
struct hf_host {
    uint64_t id;             /* the host's id comes first, because the slab requires an id there */
    struct hf_map_node node; /* the host's place in clients->hosts */
    struct hf_addr addr;
    struct hf_list monitors;  /* the SM_MON clients that registered from this host */
    uint32_t refs;            /* how many clients refer to the host */
    uint32_t n_clients;       /* how many NLM clients the host has */
    uint32_t n_registrations; /* how many SM_MON registrations the host has */
    uint32_t n_held;          /* how many locks, shares and waiters the host has */
    uint32_t n_waiters;       /* how many waiters the host has */
    bool is_local;
};

/* The part of a client's record that can change; the undo log keeps copies of it. */
struct hf_client_mutable {
    int32_t state;
    enum hf_transport transport;
    struct hf_addr local;
    uint8_t priv[HF_PRIV_SIZE];
};

/*
 * The lives of a client. A restart of the client begins a new life, and so does FREE_ALL. Locks,
 * waiters and shares are stamped with the life that asked for them, and a release is "everything of
 * a life before n". So what the client gets after its notice has arrived stays, however long the
 * notice takes to be verified and the old locks to be released.
 *
 * A life begins with its first sign: a LOCK with a new state number (a hint, which releases
 * nothing), or the notice. A request belongs to the life that has its state number, and without a
 * state number to the current life.
 *
 * Lives survive a restart of ours: the client's record has them, and no grant leaves before that
 * record has the newest life. The record of a lock has no life. Ids grow, so a lock's id tells the
 * life in which it was taken: each life knows the first id given out in it. A part that was split
 * off a lock of a former life, or put back into one, has a later id, and counts for a later life
 * after our restart. If the client does not reclaim that part, the end of grace releases it; if the
 * client does, its next notice does. A lock never counts for an earlier life than its own. When the
 * locks of all former lives have been released, the record has one life again.
 */

/* The number of lives is so large that forged LOCKs, each with another state number, cannot use it
 * up (SEC-04). */
#define HF_LIFE_MAX (UINT32_MAX - 1)

struct hf_lives {
    /* The current life, counted from 1. It stays at HF_LIFE_MAX, where a notice releases
     * everything. */
    uint32_t now;
    uint32_t oldest; /* locks of lives before this one are released, or being released */

    /* The current life and those before it, newest first: the state number of each (0: unknown),
     * the first id given out in it, and its number (0: no life). A life that a refuted notice began
     * has no entry of its own: it counts as one with the life before it. */
    int32_t states[HF_CLIENT_LIVES];
    uint64_t first_ids[HF_CLIENT_LIVES];
    uint32_t first[HF_CLIENT_LIVES];
};

/*
 * What the client is losing. A release that is not durable yet (recovery/pending_release.c) sets
 * this; the lock table reads it.
 */
struct hf_losing {
    /* Locks and shares of lives before this one are being released; 0: none are. */
    uint32_t before_life;
    bool unclaimed;           /* Locks that the client has not reclaimed are being released, too. */
    struct hf_reflist owners; /* The client's owners that the release has not looked at yet. */
};

struct hf_client {
    uint64_t id;
    struct hf_map_node by_identity;
    struct hf_map_node by_id;
    struct hf_list all; /* links the client into clients->all */
    struct hf_host *host;
    struct hf_list in_host; /* links the client into host->monitors */
    enum hf_protocol protocol;
    struct hf_client_mutable m;
    bool confirmed; /* the client answered a notice or status callback since our start */
    /* The client has a record. An SM_MON client without a record is ignored. */
    bool registered;
    /* The client was registered before our restart, and may reclaim locks that are not recorded. */
    bool may_reclaim;
    bool reclaimed; /* the client has reclaimed a lock since our restart */
    /* An SM_MON client whose mon_name is this server (SPEC section 2, kind 2). */
    bool monitors_us;
    uint8_t *bytes; /* one allocation with the bytes of name and my_name */
    struct hf_bytes name, my_name;
    /* NLM: the client's address, a part of its identity; if it has several, the one it used
     * last. */
    struct hf_addr addr;
    /* The client's record lists another address first: the next grant corrects that. */
    bool misplaced;
    struct hf_list vouched; /* links the client into the list of the vouch for its name */
    struct hf_alias *aliases;
    unsigned n_addrs;
    int64_t registered_at_ms;
    /* Our epoch when the client registered, or when it last heard of our restart
     * (hf_client_told()). */
    uint64_t epoch;
    uint64_t ttl_ms;
    uint32_t prog, vers, proc;
    struct hf_addr callback_host;
    struct hf_lives lives;
    struct hf_record_lives recorded; /* the lives that the client's record has, perhaps not all */
    uint32_t recorded_life;          /* the newest life in the client's record */
    uint64_t seq;                    /* the last batch with a change of the client's record */
    uint32_t refs;
    uint32_t n_locks, n_unclaimed, n_waiters, n_shares;
    struct hf_reflist owners;
    struct hf_list waiters, shares;
    int64_t first_seen_ms, last_seen_ms; /* wall-clock times, in ms */
    uint64_t n_requests; /* counts LOCKs and SHAREs, and UNLOCKs and CANCELs of a known owner */
    uint64_t n_heard;    /* counts requests from the client, of every kind */
    uint64_t idle_since_ms;
    struct hf_timer linger;
    /* The call that tells the client of our restart: SM_NOTIFY, or `status` if it monitors us. */
    struct hf_outcall notice;
    enum hf_notice_status notice_status;
    /* The `status` callback that tells an SM_MON client that the host it monitors has restarted. */
    struct hf_outcall status_call;
    /* The probe that asks whether the client lives, while it waits behind one that does not
     * answer. */
    struct hf_outcall probe;
    /* When the client last answered a callback or a probe, in mono_ms; 0: never yet. */
    uint64_t answered_ms;
    struct hf_losing losing;
    /* Memory of module recovery for this client (recovery/private.h). */
    struct hf_client_recovery *recovery;
};

struct hf_clients {
    struct hf_map by_identity, by_id, aliases, hosts;
    struct hf_list all;
    struct hf_slab slab, alias_slab, host_slab;
    size_t recovery_size;    /* How many bytes behind each client belong to module recovery. */
    struct hf_list *vouched; /* for each vouch, a list of the NLM clients with its name */
    struct hf_client *last;  /* the NLM client that was found last; NULL: none */
    uint32_t n_nlm, n_nsm;
    /* How many locks are unclaimed. A client that may reclaim locks which are not recorded counts
     * as one. */
    uint64_t n_unclaimed;
};

/* recovery_size: how many bytes behind each client belong to module recovery. */
int hf_clients_init(struct hf_core *core, size_t recovery_size);
void hf_clients_free(struct hf_core *core);

struct hf_client *hf_client_find_nlm(const struct hf_core *core, const struct hf_peer *peer);
struct hf_client *hf_client_find_nsm(struct hf_core *core, const struct hf_mon_args *args,
                                     const struct hf_addr *callback_host);
struct hf_client *hf_client_find_id(const struct hf_core *core, uint64_t id);

/* Fetch memory into the cache before many searches by id, as hf_map_fetch_bucket() and
 * hf_map_fetch_node() do. */
void hf_client_fetch_bucket(const struct hf_core *core, uint64_t id);
void hf_client_fetch_node(const struct hf_core *core, uint64_t id);

/* Makes a client with one reference and no registration; the caller has made sure that no such
 * client exists. The limits charge `account` (hosts.c); NULL: they charge the client's own
 * address. */
struct hf_client *hf_client_new(struct hf_core *core, const struct hf_record_client *record,
                                const struct hf_addr *account);
void hf_client_unref(struct hf_core *core, struct hf_client *client);
void hf_client_del(struct hf_core *core, struct hf_client *client);
void hf_client_record(const struct hf_client *client, struct hf_record_client *out);

/* Returns `found` or, if that is NULL, a new client, with a reference for as long as the request
 * lasts. Returns NULL if a limit is hit or memory is out. */
struct hf_client *hf_client_get_nlm(struct hf_core *core, struct hf_now now,
                                    const struct hf_peer *peer, struct hf_client *found);

/* Returns the next client, after `after` (NULL: from the start), that has the vouch's name and an
 * address in its networks; NULL: no more. */
struct hf_client *hf_vouched_next(struct hf_core *core, const struct hf_vouch *vouch,
                                  const struct hf_client *after);

/* Takes a peer whom no client fits, and returns the client that this peer may be after a change of
 * address: of several, the one heard of last. NULL: the peer is a stranger. */
struct hf_client *hf_client_find_moved(struct hf_core *core, const struct hf_peer *peer);

/* True if the client has been heard of at this address. */
bool hf_client_is_known_at(const struct hf_client *client, const struct hf_addr *addr);

/* True if an NLM client may be at this address now: it used the address last, or uses several at a
 * time. It has left its other former addresses (TRK-02). */
bool hf_client_may_be_at(const struct hf_core *core, const struct hf_client *client,
                         const struct hf_addr *addr);

/* Moves the client, with all that it has, to another address, and records the move, unless it is
 * made `silently` to an address that is recorded already. On HF_ENOMEM the client has not moved. */
int hf_client_move(struct hf_core *core, struct hf_now now, struct hf_client *client,
                   const struct hf_addr *addr, bool silently);

/* Returns HF_ELIMIT, and counts it, if there is no room for one more SM_MON registration. */
int hf_client_limit_nsm(struct hf_core *core, const struct hf_client *client);

/* Returns the host object that counts for this address; NULL: none. */
struct hf_host *hf_host_find(const struct hf_core *core, const struct hf_addr *addr);

/*
 * These three act in a transaction, which the caller aborts after HF_ENOMEM. hf_client_register()
 * registers the client, unless its record exists and has the newest life; hf_client_unregister()
 * unregisters the client; hf_client_update() changes its record.
 */
int hf_client_register(struct hf_txn *txn, struct hf_client *client);
int hf_client_register_behind(struct hf_txn *txn, struct hf_client *client);
int hf_client_unregister(struct hf_txn *txn, struct hf_client *client);
int hf_client_update(struct hf_txn *txn, struct hf_client *client,
                     const struct hf_client_mutable *to);

/* Records, as a part of the transaction, that the client has been told of our state number. */
int hf_client_told(struct hf_txn *txn, struct hf_client *client);

/* True if `name` means this server when a client at our address `local` uses it. */
bool hf_name_is_ours(const struct hf_core *core, struct hf_bytes name, const struct hf_addr *local);

/* Marks a loaded client as registered or not, without a record and without undo. */
void hf_client_set_registered(struct hf_core *core, struct hf_client *client, bool registered);

/* Adds an address to the client and to its record. Returns 0, HF_ELIMIT or HF_ENOMEM. */
int hf_client_learn_addr(struct hf_core *core, struct hf_now now, struct hf_client *client,
                         const struct hf_addr *addr);

/* Return the first alias with this address, and the next one after it; NULL: there is none. */
struct hf_alias *hf_alias_find(struct hf_core *core, const struct hf_addr *addr);
struct hf_alias *hf_alias_find_next(struct hf_alias *alias);

/* Starts the linger time of a client that has nothing left; the registration ends when that is
 * over. */
void hf_client_idle(struct hf_core *core, struct hf_now now, struct hf_client *client);

/* Returns the life that sent a request with this state number; a new state number begins a life. */
uint32_t hf_client_life(struct hf_core *core, struct hf_client *client, int32_t state);

/*
 * Called when the client says that it has restarted and has this state now, or (free_all) that it
 * holds nothing any more. Returns the life before which everything is to be released. *began: that
 * life begins now; otherwise the first LOCK that carried the state began it.
 */
uint32_t hf_client_restarts(const struct hf_core *core, struct hf_client *client, int32_t state,
                            bool free_all, bool *began);

/* Forgets the life that a forged notice began: locks granted in it then belong to the life
 * before. */
void hf_client_forget_life(struct hf_core *core, struct hf_now now, struct hf_client *client,
                           uint32_t life);

/* Returns the state number of the client's oldest life that still counts; 0: unknown. */
int32_t hf_client_oldest_state(const struct hf_client *client);

/* Convert lives to the form in a client's record and back; hf_client_life_of_id() tells the life in
 * which a recorded lock was taken. */
struct hf_record_lives hf_lives_record(const struct hf_client *client);
struct hf_lives hf_lives_load(const struct hf_record_client *record);
uint32_t hf_client_life_of_id(const struct hf_client *client, uint64_t id);

/* True if a lock with this id, loaded after a restart, would be given this life again. It would not
 * for a part split off, put back into or granted to a former life, because its id is younger. */
bool hf_client_id_tells_life(const struct hf_client *client, uint64_t id, uint32_t life);

/* Returns an id that hf_client_life_of_id() takes for one of this life. */
uint64_t hf_client_first_id(const struct hf_client *client, uint32_t life);

/* Takes away the client's right to reclaim unrecorded locks, because it is dead or grace is
 * over. */
void hf_client_bar_reclaim(struct hf_core *core, struct hf_client *client);

/* Queues an event about the client, for the caller to complete; NULL if the queue is full. */
struct hf_event *hf_client_event(struct hf_core *core, enum hf_event_kind kind,
                                 const struct hf_client *client, int64_t a, int64_t b, int error);

#endif
