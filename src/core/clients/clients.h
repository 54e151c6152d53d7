/*
 * The client tracker (TRK-01): hosts by identity, by id and by address, each found in O(1), and
 * their registrations.
 *
 * The identity of an NLM client is its name and the address it comes from, so that no host can free
 * or take over another host's locks by using its name; and the address of ours that it uses. For a
 * Linux client that mounts by two of our addresses we are two servers: it numbers its lock owners
 * (svid) for each from 0, and reclaims from each only after a notice from that address. The
 * identity of an SM_MON registration is the host it is about and the program that wants to know:
 * name, program, version, procedure, and the address the registration came from.
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

/* One address a client is known by. */
struct hf_alias {
    struct hf_map_node node; /* in clients->aliases, by address: the first alias of its ring only */
    struct hf_list same;     /* ring of all aliases with this address */
    bool in_map;
    struct hf_alias *next; /* of the same client */
    struct hf_client *client;
    struct hf_addr addr;
};

/*
 * What the clients of one account (base/trust.h) have together: of a remote address, or of a user
 * of this host (hosts.c). The limits per host do not apply to root of this host.
 */
struct hf_host {
    uint64_t id;             /* the slab's word; not used otherwise */
    struct hf_map_node node; /* in clients->hosts */
    struct hf_addr addr;
    struct hf_list monitors;  /* SM_MON clients that registered from here */
    uint32_t refs;            /* clients */
    uint32_t n_clients;       /* NLM */
    uint32_t n_registrations; /* SM_MON */
    uint32_t n_held;          /* locks, shares and waiters */
    uint32_t n_waiters;       /* of these, waiters */
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
 * notice takes to be verified and the old to be released.
 *
 * A life begins with the first sign of it: a LOCK with a state number that is new (a hint, which
 * releases nothing), or the notice. A request is of the life that has its state number; without a
 * state number it is of the current life.
 *
 * Lives outlive us: the client's record has them, and no grant leaves before it has the newest one.
 * The record of a lock has no life. Ids grow, so its id tells the life in which it was taken, by
 * the first id of each. A part that was split off a lock of a former life, or put back into one,
 * has a later id, and counts for a later life after our restart; what no living
 * client reclaims is released when grace ends, and what it does, with its next notice. Never does a
 * lock count for an earlier life than its own. The record has one life again when those before have
 * been released.
 */

/* So many that forged LOCKs, each with another state number, do not use them up (SEC-04). */
#define HF_LIFE_MAX (UINT32_MAX - 1)

struct hf_lives {
    uint32_t now;    /* from 1 on; stays at HF_LIFE_MAX, and a notice then releases all there is */
    uint32_t oldest; /* what it got in earlier lives is released, or being released */

    /* Of the current life and of those before: the state number, 0: unknown; and the first id. */
    int32_t states[HF_CLIENT_LIVES];
    uint64_t first_ids[HF_CLIENT_LIVES];
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
    struct hf_list all; /* in clients->all */
    struct hf_host *host;
    struct hf_list in_host; /* in host->monitors */
    enum hf_protocol protocol;
    struct hf_client_mutable m;
    bool confirmed;   /* it has answered a notice or status callback since we started */
    bool registered;  /* has a record; an SM_MON client without one counts for nothing */
    bool may_reclaim; /* locks that are not recorded: it was registered before the restart */
    bool reclaimed;   /* it has reclaimed something since the restart */
    bool monitors_us; /* SM_MON whose mon_name is this server (SPEC section 2, kind 2) */
    uint8_t *bytes;   /* owns name and my_name */
    struct hf_bytes name, my_name;
    struct hf_addr addr; /* NLM: part of the identity */
    struct hf_alias *aliases;
    unsigned n_addrs;
    int64_t registered_at_ms;
    uint64_t epoch; /* our epoch when it registered, or when it was told of our restart
                       (hf_client_told) */
    uint64_t ttl_ms;
    uint32_t prog, vers, proc;
    struct hf_addr callback_host;
    struct hf_lives lives;
    struct hf_record_lives recorded; /* as the record has them: lives may have more */
    uint32_t recorded_life;          /* the newest life that the record has */
    uint64_t seq;                    /* last batch that changed its record */
    uint32_t refs;
    uint32_t n_locks, n_unclaimed, n_waiters, n_shares;
    struct hf_reflist owners;
    struct hf_list waiters, shares;
    int64_t first_seen_ms, last_seen_ms; /* wall clock */
    uint64_t idle_since_ms;
    struct hf_timer linger;
    struct hf_outcall notice; /* of our restart: NOTIFY, or STATUS if it monitors us */
    enum hf_notice_status notice_status;
    struct hf_outcall status_call; /* STATUS: the host it monitors has restarted */
    struct hf_outcall probe; /* is it alive, while it waits behind one that does not answer? */
    uint64_t answered_ms;    /* its last answer to a callback or probe, mono_ms; 0: none yet */
    struct hf_losing losing;
    struct hf_client_recovery *recovery; /* Belongs to recovery (recovery/private.h). */
};

struct hf_clients {
    struct hf_map by_identity, by_id, aliases, hosts;
    struct hf_list all;
    struct hf_slab slab, alias_slab, host_slab;
    size_t recovery_size;   /* Bytes behind each client, which belong to recovery. */
    struct hf_client *last; /* the NLM client that was found last; NULL: none */
    uint32_t n_nlm, n_nsm;
    uint64_t n_unclaimed; /* locks; clients that may reclaim locks that are not recorded */
};

/* recovery_size: how many bytes of each client belong to recovery. */
int hf_clients_init(struct hf_core *core, size_t recovery_size);
void hf_clients_free(struct hf_core *core);

struct hf_client *hf_client_find_nlm(const struct hf_core *core, const struct hf_peer *peer);
struct hf_client *hf_client_find_nsm(struct hf_core *core, const struct hf_mon_args *args,
                                     const struct hf_addr *callback_host);
struct hf_client *hf_client_find_id(const struct hf_core *core, uint64_t id);

/* Before many searches by id: as hf_map_fetch_bucket() and hf_map_fetch_node(). */
void hf_client_fetch_bucket(const struct hf_core *core, uint64_t id);
void hf_client_fetch_node(const struct hf_core *core, uint64_t id);

/*
 * A new client with one reference, not registered; the caller has made sure that it is unknown.
 * account: which the limits apply to (hosts.c); NULL: that of its address.
 */
struct hf_client *hf_client_new(struct hf_core *core, const struct hf_record_client *record,
                                const struct hf_addr *account);
void hf_client_unref(struct hf_core *core, struct hf_client *client);
void hf_client_del(struct hf_core *core, struct hf_client *client);
void hf_client_record(const struct hf_client *client, struct hf_record_client *out);

/*
 * With a reference for as long as the request lasts: the client that was found or, if none was, a
 * new one. NULL: limit or memory.
 */
struct hf_client *hf_client_get_nlm(struct hf_core *core, struct hf_now now,
                                    const struct hf_peer *peer, struct hf_client *found);

/* HF_ELIMIT: no room for one more SM_MON registration. Counts the hit. */
int hf_client_limit_nsm(struct hf_core *core, const struct hf_client *client);

/* The clients of this address; NULL: none. */
struct hf_host *hf_host_find(const struct hf_core *core, const struct hf_addr *addr);

/* In a transaction; HF_ENOMEM: the caller aborts it. Registers the client, unless its record is
 * there and has its newest life; unregisters it; changes its record. */
int hf_client_register(struct hf_txn *txn, struct hf_client *client);
int hf_client_register_behind(struct hf_txn *txn, struct hf_client *client);
int hf_client_unregister(struct hf_txn *txn, struct hf_client *client);
int hf_client_update(struct hf_txn *txn, struct hf_client *client,
                     const struct hf_client_mutable *to);

/* Records, as a part of the transaction, that the client has been told of our state number. */
int hf_client_told(struct hf_txn *txn, struct hf_client *client);

/* True if the name, as a client at our address local uses it, means this server. */
bool hf_name_is_ours(const struct hf_core *core, struct hf_bytes name, const struct hf_addr *local);

/* The registration of a client that was loaded: without a record and without undo. */
void hf_client_set_registered(struct hf_core *core, struct hf_client *client, bool registered);

/* The client is known by one more address; its record says so. HF_ELIMIT, HF_ENOMEM. */
int hf_client_learn_addr(struct hf_core *core, struct hf_now now, struct hf_client *client,
                         const struct hf_addr *addr);

/* The first alias with this address, and the next one after it; NULL: none. */
struct hf_alias *hf_alias_find(struct hf_core *core, const struct hf_addr *addr);
struct hf_alias *hf_alias_find_next(struct hf_alias *alias);

/* If the client has nothing any more, its linger time begins: the registration ends with it. */
void hf_client_idle(struct hf_core *core, struct hf_now now, struct hf_client *client);

/* The life that sent a request with this state; a state that is new tells of a new life. */
uint32_t hf_client_life(struct hf_core *core, struct hf_client *client, int32_t state);

/*
 * The client says that it has restarted and has this state now, or (free_all) that it has nothing
 * any more: what it got before the life that is returned is to be released. That life began with
 * the first LOCK that carried the state, or begins now (*began).
 */
uint32_t hf_client_restarts(const struct hf_core *core, struct hf_client *client, int32_t state,
                            bool free_all, bool *began);

/* That was a forged notice: no life of the client has the state that it claimed. */
void hf_client_forget_state(struct hf_core *core, struct hf_now now, struct hf_client *client,
                            int32_t state);

/* The state number of its oldest life that is not over; 0: unknown. */
int32_t hf_client_oldest_state(const struct hf_client *client);

/* Lives as they are recorded, and back; and the life in which a recorded lock was taken. */
struct hf_record_lives hf_lives_record(const struct hf_client *client);
struct hf_lives hf_lives_load(const struct hf_record_client *record);
uint32_t hf_client_life_of_id(const struct hf_client *client, uint64_t id);

/* An id of which hf_client_life_of_id() makes this life again. */
uint64_t hf_client_first_id(const struct hf_client *client, uint32_t life);

/* Without durable locks: the client may no longer reclaim (it is dead, or grace is over). */
void hf_client_bar_reclaim(struct hf_core *core, struct hf_client *client);

/* For the caller to complete; NULL if there was no room for it. */
struct hf_event *hf_client_event(struct hf_core *core, enum hf_event_kind kind,
                                 const struct hf_client *client, int64_t a, int64_t b, int error);

#endif
