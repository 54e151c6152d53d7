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
 * SM_MON; its record follows how it talks to us. The registration ends when the linger time after
 * its last lock is over (SPEC section 4), or by SM_UNMON.
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

/* One address that a client is known by. */
struct hf_alias {
    /* The alias's node in clients->aliases, by address; only the first alias of its ring is in that
     * map. */
    struct hf_map_node node;
    struct hf_list same; /* the ring of all aliases with this address */
    bool in_map;
    struct hf_alias *next; /* the next alias of the same client */
    struct hf_client *client;
    struct hf_addr addr;
};

/*
 * What the clients of one account (base/trust.h) have together: of a remote address, or of a user
 * of this host (hosts.c). The limits per host do not apply to root of this host.
 */
struct hf_host {
    uint64_t id;             /* the first word, which the slab uses */
    struct hf_map_node node; /* the host's place in clients->hosts */
    struct hf_addr addr;
    struct hf_list monitors;  /* the SM_MON clients that registered from here */
    uint32_t refs;            /* how many clients refer to the host */
    uint32_t n_clients;       /* how many NLM clients the host has */
    uint32_t n_registrations; /* how many SM_MON registrations the host has */
    uint32_t n_held;          /* how many locks, shares and waiters the host has */
    uint32_t n_waiters;       /* how many waiters the host has */
    bool is_local;
};

/* The part of a client's record that may change; the undo log keeps copies of it. */
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
 * A life begins with the first sign of it: a LOCK with a state number that is new (a hint, which
 * releases nothing), or the notice. A request is of the life that has its state number; without a
 * state number it is of the current life.
 *
 * Lives outlive us: the client's record has them, and no grant leaves before it has the newest one.
 * The record of a lock has no life. Ids grow, so its id tells the life in which it was taken, by
 * the first id of each. A part that was split off a lock of a former life, or put back into one,
 * has a later id, and counts for a later life after our restart. If no living client reclaims it,
 * it is released when grace ends; if one does, with the client's next notice. A lock never counts
 * for an earlier life than its own. When the locks of all former lives have been released, the
 * record has one life again.
 */

/* There are so many lives that forged LOCKs, each with another state number, do not use them up
 * (SEC-04). */
#define HF_LIFE_MAX (UINT32_MAX - 1)

struct hf_lives {
    /* The current life, from 1 on; it stays at HF_LIFE_MAX, and a notice then releases all there
     * is. */
    uint32_t now;
    uint32_t oldest; /* locks of lives before this one are released, or being released */

    /* The current life and those before it: the state number of each (0: unknown), the first id
     * given out in it, and its number (0: none). A life that a refuted notice began has no place of
     * its own: it counts as one with the life before it. */
    int32_t states[HF_CLIENT_LIVES];
    uint64_t first_ids[HF_CLIENT_LIVES];
    uint32_t first[HF_CLIENT_LIVES];
};

/*
 * What the client is losing: a release that is not durable yet (recovery/pending_release.c) sets
 * it, and the table asks for it.
 */
struct hf_losing {
    uint32_t before_life;     /* Locks and shares of earlier lives are being released; 0: none. */
    bool unclaimed;           /* Locks that the client has not reclaimed are being released, too. */
    struct hf_reflist owners; /* Owners of the client that the release has not looked at yet. */
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
    bool confirmed; /* the client has answered a notice or status callback since we started */
    /* The client has a record; an SM_MON client without one counts for nothing. */
    bool registered;
    /* The client may reclaim locks that are not recorded: it was registered before the restart. */
    bool may_reclaim;
    bool reclaimed; /* the client has reclaimed something since the restart */
    /* An SM_MON client whose mon_name is this server (SPEC section 2, kind 2). */
    bool monitors_us;
    uint8_t *bytes; /* the memory of name and my_name */
    struct hf_bytes name, my_name;
    /* NLM: the address, a part of the identity; of several, the one it came from last. */
    struct hf_addr addr;
    bool misplaced; /* the record does not have this address first; the next grant records it */
    struct hf_list vouched; /* links the client into the list of its vouch, if its name has one */
    struct hf_alias *aliases;
    unsigned n_addrs;
    int64_t registered_at_ms;
    /* Our epoch when the client registered, or when it was told of our restart (hf_client_told). */
    uint64_t epoch;
    uint64_t ttl_ms;
    uint32_t prog, vers, proc;
    struct hf_addr callback_host;
    struct hf_lives lives;
    struct hf_record_lives recorded; /* the lives that the record has, which may be fewer */
    uint32_t recorded_life;          /* the newest life that the record has */
    uint64_t seq;                    /* the last batch that changed the client's record */
    uint32_t refs;
    uint32_t n_locks, n_unclaimed, n_waiters, n_shares;
    struct hf_reflist owners;
    struct hf_list waiters, shares;
    int64_t first_seen_ms, last_seen_ms; /* times of the wall clock */
    uint64_t n_requests; /* counts requests that named an owner, since the client is known */
    uint64_t n_heard;    /* counts requests of any kind */
    uint64_t idle_since_ms;
    struct hf_timer linger;
    /* Tells of our restart, by NOTIFY, or by STATUS if the client monitors us. */
    struct hf_outcall notice;
    enum hf_notice_status notice_status;
    /* Tells by STATUS that the host which the client monitors has restarted. */
    struct hf_outcall status_call;
    /* Asks whether the client is alive, while it waits behind one that does not answer. */
    struct hf_outcall probe;
    /* When the client last answered a callback or probe, mono_ms; 0: not yet. */
    uint64_t answered_ms;
    struct hf_losing losing;
    struct hf_client_recovery *recovery; /* Belongs to recovery (recovery/private.h). */
};

struct hf_clients {
    struct hf_map by_identity, by_id, aliases, hosts;
    struct hf_list all;
    struct hf_slab slab, alias_slab, host_slab;
    size_t recovery_size;    /* Bytes behind each client, which belong to recovery. */
    struct hf_list *vouched; /* the NLM clients with the name of each vouch; NULL: no vouch */
    struct hf_client *last;  /* the NLM client that was found last; NULL: none */
    uint32_t n_nlm, n_nsm;
    /* How many locks are unclaimed; clients that may reclaim locks which are not recorded count,
     * too. */
    uint64_t n_unclaimed;
};

/* recovery_size is how many bytes of each client belong to recovery. */
int hf_clients_init(struct hf_core *core, size_t recovery_size);
void hf_clients_free(struct hf_core *core);

struct hf_client *hf_client_find_nlm(const struct hf_core *core, const struct hf_peer *peer);
struct hf_client *hf_client_find_nsm(struct hf_core *core, const struct hf_mon_args *args,
                                     const struct hf_addr *callback_host);
struct hf_client *hf_client_find_id(const struct hf_core *core, uint64_t id);

/* Fetch memory before many searches by id, as hf_map_fetch_bucket() and hf_map_fetch_node() do. */
void hf_client_fetch_bucket(const struct hf_core *core, uint64_t id);
void hf_client_fetch_node(const struct hf_core *core, uint64_t id);

/* Makes a client with one reference, not registered; the caller has made sure that it is unknown.
 * account is what the limits apply to (hosts.c); NULL: that of its address. */
struct hf_client *hf_client_new(struct hf_core *core, const struct hf_record_client *record,
                                const struct hf_addr *account);
void hf_client_unref(struct hf_core *core, struct hf_client *client);
void hf_client_del(struct hf_core *core, struct hf_client *client);
void hf_client_record(const struct hf_client *client, struct hf_record_client *out);

/* Returns the client that was found or, if none was, a new one, with a reference for as long as the
 * request lasts. NULL: a limit was hit, or there is no memory. */
struct hf_client *hf_client_get_nlm(struct hf_core *core, struct hf_now now,
                                    const struct hf_peer *peer, struct hf_client *found);

/* Returns what the operator vouches for about this name at this address; NULL: nothing. */
const struct hf_vouch *hf_vouch_of(const struct hf_core *core, struct hf_bytes name,
                                   const struct hf_addr *addr);

/* Returns the first of the clients with the name of this vouch that are at its addresses, or the
 * one after a client; NULL: there is none. */
struct hf_client *hf_vouched_next(struct hf_core *core, const struct hf_vouch *vouch,
                                  const struct hf_client *after);

/* For a peer that no client fits: returns the client that it may be after a change of its address;
 * of several, the one that was heard of last. NULL: the peer is a stranger. */
struct hf_client *hf_client_find_moved(struct hf_core *core, const struct hf_peer *peer);

/* True if the client was heard of at this address before. */
bool hf_client_is_known_at(const struct hf_client *client, const struct hf_addr *addr);

/* Moves the client, with all that it has, to another address; records that, unless `silently` and
 * the address is recorded already. HF_ENOMEM: it is where it was. */
int hf_client_move(struct hf_core *core, struct hf_now now, struct hf_client *client,
                   const struct hf_addr *addr, bool silently);

/* Returns HF_ELIMIT, and counts it, if there is no room for one more SM_MON registration. */
int hf_client_limit_nsm(struct hf_core *core, const struct hf_client *client);

/* Returns the host with the clients of this address; NULL: there is none. */
struct hf_host *hf_host_find(const struct hf_core *core, const struct hf_addr *addr);

/*
 * These act in a transaction, which the caller aborts after HF_ENOMEM. The first registers the
 * client, unless its record is there and has its newest life; the second unregisters it; the third
 * changes its record.
 */
int hf_client_register(struct hf_txn *txn, struct hf_client *client);
int hf_client_register_behind(struct hf_txn *txn, struct hf_client *client);
int hf_client_unregister(struct hf_txn *txn, struct hf_client *client);
int hf_client_update(struct hf_txn *txn, struct hf_client *client,
                     const struct hf_client_mutable *to);

/* Records, as a part of the transaction, that the client has been told of our state number. */
int hf_client_told(struct hf_txn *txn, struct hf_client *client);

/* True if the name, as a client at our address local uses it, means this server. */
bool hf_name_is_ours(const struct hf_core *core, struct hf_bytes name, const struct hf_addr *local);

/* Sets the registration of a client that was loaded, without a record and without undo. */
void hf_client_set_registered(struct hf_core *core, struct hf_client *client, bool registered);

/* Notes one more address of the client, also in its record. Returns HF_ELIMIT, HF_ENOMEM. */
int hf_client_learn_addr(struct hf_core *core, struct hf_now now, struct hf_client *client,
                         const struct hf_addr *addr);

/* Return the first alias with this address, and the next one after it; NULL: there is none. */
struct hf_alias *hf_alias_find(struct hf_core *core, const struct hf_addr *addr);
struct hf_alias *hf_alias_find_next(struct hf_alias *alias);

/* Begins the linger time of a client that has nothing any more: the registration ends with it. */
void hf_client_idle(struct hf_core *core, struct hf_now now, struct hf_client *client);

/* Returns the life that sent a request with this state; a state that is new tells of a new life. */
uint32_t hf_client_life(struct hf_core *core, struct hf_client *client, int32_t state);

/*
 * The client says that it has restarted and has this state now, or (free_all) that it has nothing
 * any more: what it got before the life that is returned is to be released. That life began with
 * the first LOCK that carried the state, or begins now (*began).
 */
uint32_t hf_client_restarts(const struct hf_core *core, struct hf_client *client, int32_t state,
                            bool free_all, bool *began);

/* Forgets the life that a forged notice began: locks granted in it count for the life before it. */
void hf_client_forget_life(struct hf_core *core, struct hf_now now, struct hf_client *client,
                           uint32_t life);

/* Returns the state number of the client's oldest life that is not over; 0: unknown. */
int32_t hf_client_oldest_state(const struct hf_client *client);

/* These convert lives to the form of the record, and back, and tell the life in which a recorded
 * lock was taken. */
struct hf_record_lives hf_lives_record(const struct hf_client *client);
struct hf_lives hf_lives_load(const struct hf_record_client *record);
uint32_t hf_client_life_of_id(const struct hf_client *client, uint64_t id);

/* True if a lock with this id, loaded after a restart, would be of this life again. It is not for a
 * part that was split off, put back into or granted to a former life: its id came later. */
bool hf_client_id_tells_life(const struct hf_client *client, uint64_t id, uint32_t life);

/* Returns an id of which hf_client_life_of_id() makes this life again. */
uint64_t hf_client_first_id(const struct hf_client *client, uint32_t life);

/* Takes the client's right to reclaim locks that are not recorded, because it is dead or grace is
 * over. */
void hf_client_bar_reclaim(struct hf_core *core, struct hf_client *client);

/* Adds an event, for the caller to complete; NULL if there was no room for it. */
struct hf_event *hf_client_event(struct hf_core *core, enum hf_event_kind kind,
                                 const struct hf_client *client, int64_t a, int64_t b, int error);

#endif
