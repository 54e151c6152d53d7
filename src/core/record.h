/*
 * The records that are durable (clients, that is registrations; locks; the server's own state), and
 * the batch that carries changes to them from the core to a store. This is the one header of the
 * core that a store may use.
 *
 * A record is encoded once, here, into bytes with a format version in front; a key-value store
 * keeps those bytes as they are, a relational one decodes them into columns. Every record has a
 * 64-bit id; the server's record is the only one of its kind. Ids are never used twice, not even
 * over restarts: the epoch stands in their upper bits (hf_record_first_id).
 *
 * Putting the same record twice, or deleting one that does not exist, changes nothing. So a batch
 * whose outcome is unknown can be applied again (SPEC section 5).
 *
 * Ownership: the structures here hold views; decoding points them into the encoded bytes. A batch
 * owns its bytes.
 */
#ifndef HF_CORE_RECORD_H
#define HF_CORE_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/transport.h"

/* Limits of the wire (LM_MAXSTRLEN, SM_MAXSTRLEN, MAXNETOBJ_SZ), kept by every layer above it. */
enum {
    HF_NAME_MAX = 1024,
    HF_FH_MAX = 1024,
    HF_OH_MAX = 1024,
    HF_EXPORT_NAME_MAX = 64,
    HF_PRIV_SIZE = 16,
    HF_CLIENT_ADDRS_MAX = 8, /* how many addresses one host is known by */
    HF_CLIENT_LIVES = 4,     /* how many lives of a client are told apart */
    HF_BOOT_ID_SIZE = 16,
    HF_RECORD_SERVER_MAX = 64, /* the longest encoded server's record */
    HF_RECORD_LIVES_MAX = 2 + HF_CLIENT_LIVES * 12,
    /* How many parts of a waiter's range its owner may have held before. */
    HF_RECORD_HAD_MAX = 64,
    HF_RECORD_EXTRA_MAX = 128 + HF_RECORD_HAD_MAX * 17, /* encoded */
};

enum hf_record_kind {
    HF_RECORD_SERVER = 1,
    HF_RECORD_CLIENT = 2,
    HF_RECORD_LOCK = 3,
};

/* The protocol that brought a client; it is part of the identity (TRK-01). The numbers are stored:
 * never renumber them. */
enum hf_protocol { HF_PROTOCOL_NLM = 1, HF_PROTOCOL_NSM = 2 };

/* What a server does (server.programs). The numbers are stored: never renumber them. */
enum hf_role {
    HF_ROLE_UNKNOWN = 0, /* in a record from before version 3 */
    HF_ROLE_LOCKS = 1,   /* the server serves locks, which end with it */
    /* The server is a status monitor only: the locks are in this host's kernel. */
    HF_ROLE_MONITOR = 2,
};

/*
 * How durable the server's locks are (locks.durable). The numbers are stored: never renumber them.
 */
enum hf_durability {
    HF_DURABILITY_UNKNOWN = 0,
    HF_DURABILITY_NONE = 1,
    HF_DURABILITY_PROCESS = 2,
    HF_DURABILITY_FULL = 3,
};

/* Says whether the next start may continue without telling a client (recovery.notify=needed, SPEC
 * section 14). The numbers are stored: never renumber them. */
enum hf_continuity {
    HF_CONTINUITY_NONE = 0,   /* only LOCKs were recorded; or the record is from before version 4 */
    HF_CONTINUITY_BROKEN = 1, /* all is recorded, but clients have something to do: grace, a hold */
    HF_CONTINUITY_COMPLETE = 2, /* all that clients rely on is recorded */
    HF_CONTINUITY_LOST = 3, /* records of the store were lost, and an operator has accepted it */
};

/*
 * The server itself, as the next start must know it (core/recovery/start.c). The epoch counts
 * starts, and stands in all ids. The NSM state number is that of the epoch in which it was taken: 2
 * * number_epoch - 1 (NSM-06); 0: of this epoch. clean is true between a clean stop and the next
 * start. boot_id is that of the host's boot in which this record was written; zeros: unknown.
 * locks_unknown is true while clients may hold locks that are not recorded: from the start that
 * found this until they have had their grace period to reclaim them.
 */
struct hf_record_server {
    uint64_t epoch;
    bool clean;
    bool locks_unknown;
    uint8_t boot_id[HF_BOOT_ID_SIZE];
    enum hf_role role;
    enum hf_durability durability;
    uint64_t number_epoch;
    enum hf_continuity continuity;
};

/*
 * The lives of a client (core/clients/clients.h), the newest first: its state number in each, and
 * from which id on locks were taken in it, 0 for the first life. The n_left oldest are over for
 * good: their locks are released, or being released. If n is 0, the client has had one life, that
 * of its state number.
 */
struct hf_record_lives {
    int32_t states[HF_CLIENT_LIVES];
    uint8_t n, n_left;
    uint64_t first_ids[HF_CLIENT_LIVES];
};

/*
 * A client, which is to say a registration. An NLM client (name = caller_name) has no callback
 * part. An SM_MON registration (name = mon_name) has one: the program to tell, and how.
 */
struct hf_record_client {
    uint64_t id;
    enum hf_protocol protocol;
    /* The transport that the client used last; callbacks use it too. */
    enum hf_transport transport;
    struct hf_bytes name;
    struct hf_addr addrs[HF_CLIENT_ADDRS_MAX]; /* the client's addresses; their ports are 0 */
    unsigned n_addrs;
    struct hf_addr local; /* our address that the client talks to; family NONE if unknown */
    int32_t state;        /* the client's last known NSM state number; 0: unknown */
    /* The reconnect window, that is, how long the client outlives its last lock; 0: none. */
    uint64_t ttl_ms;
    int64_t registered_at_ms; /* when the client registered, in Unix time by the wall clock */
    uint64_t epoch; /* the server's epoch when the client registered or was told of a restart */
    struct hf_record_lives lives;

    /* The callback; all is zero for protocols without one. */
    struct hf_bytes my_name;
    uint32_t prog, vers, proc;
    uint8_t priv[HF_PRIV_SIZE];
    struct hf_addr callback_host; /* the address the registration came from; port 0 */
};

/* What the record of a lock tells of. The numbers are stored: never renumber them. */
enum hf_record_what {
    HF_RECORD_HELD = 0,    /* a lock that is held: version 1 of the record */
    HF_RECORD_WAITING = 1, /* a request that waits */
    HF_RECORD_GRANTED =
        2, /* a request that waited: its lock has a record, its callback is unanswered */
    HF_RECORD_SHARED = 3, /* a share reservation */
};

/* A part of a waiter's range that its owner held when it was granted. */
struct hf_record_had {
    uint64_t first, last;
    bool exclusive;
};

/*
 * The fields that a waiter or a share reservation has in addition to those of a lock
 * (recovery.notify=needed). Only the fields of its kind are encoded; `had` is kept encoded, and
 * read by hf_record_had().
 */
struct hf_record_extra {
    enum hf_record_what what;
    uint64_t life_id; /* the first id of the client's life to which the object belongs */

    uint64_t place; /* the place in the queue: smaller ones come first */
    uint64_t offset, length;
    struct hf_addr local;
    enum hf_transport transport;
    uint8_t version;
    bool msg, monitored, passes;
    uint16_t n_had;
    struct hf_bytes had;

    uint8_t mode, access; /* the modes of a share */
};

/*
 * A byte-range lock that is held. Bytes first to last, both included; last UINT64_MAX: to the end.
 * Or, by extra.what, a request that waits for one (acquired_at_ms: since when), or a share.
 */
struct hf_record_lock {
    uint64_t id;
    uint64_t client_id;
    struct hf_bytes export; /* the name of the export that the file belongs to */
    struct hf_bytes fh;
    struct hf_bytes oh;
    int32_t svid;
    uint64_t first;
    uint64_t last;
    bool exclusive;
    int64_t acquired_at_ms; /* when the lock was acquired, in Unix time by the wall clock */
    uint64_t epoch;         /* the server's epoch when the lock was granted */
    struct hf_record_extra extra;
};

/* An id tells the epoch in which it was handed out: 2^24 epochs of 2^40 ids each. */
enum { HF_RECORD_ID_BITS = 40 };

static inline uint64_t hf_record_first_id(uint64_t epoch)
{
    return epoch << HF_RECORD_ID_BITS | 1;
}

static inline uint64_t hf_record_epoch_of(uint64_t id)
{
    return id >> HF_RECORD_ID_BITS;
}

/* Append the encoded form to buf; HF_ENOMEM leaves buf as it was. */
int hf_record_encode_server(const struct hf_record_server *record, struct hf_buf *buf);
int hf_record_encode_client(const struct hf_record_client *record, struct hf_buf *buf);
int hf_record_encode_lock(const struct hf_record_lock *record, struct hf_buf *buf);

/* Returns HF_EVERSION for a format newer than this program knows, HF_EFORMAT for anything else that
 * does not decode to the last byte. The views in *out point into bytes. */
int hf_record_decode_server(struct hf_bytes bytes, struct hf_record_server *out);
int hf_record_decode_client(struct hf_bytes bytes, struct hf_record_client *out);
int hf_record_decode_lock(struct hf_bytes bytes, struct hf_record_lock *out);

/* Encode and decode the lives of a client alone, as they are in its record; there are no bytes if n
 * is 0. Return the size, or HF_EFORMAT. */
size_t hf_record_encode_lives(const struct hf_record_lives *lives,
                              uint8_t out[HF_RECORD_LIVES_MAX]);
int hf_record_decode_lives(struct hf_bytes bytes, struct hf_record_lives *out);

/* Encodes and decodes the extra part of a lock's record alone; there are no bytes for a lock that
 * is held. */
size_t hf_record_encode_extra(const struct hf_record_extra *extra,
                              uint8_t out[HF_RECORD_EXTRA_MAX]);
int hf_record_decode_extra(struct hf_bytes bytes, struct hf_record_extra *out);

/* The parts in extra->had; and their encoded form, whose size this returns. */
enum { HF_RECORD_HAD_SIZE = 17 };
struct hf_record_had hf_record_had(const struct hf_record_extra *extra, unsigned i);
void hf_record_put_had(uint8_t out[HF_RECORD_HAD_SIZE], const struct hf_record_had *had);

/* True if the encoded record is that of a lock that is held, and not of a waiter or a share. */
bool hf_record_is_held(struct hf_bytes record);

/*
 * Returns the hash of an encoded record. A digest of all records is the sum of their hashes, so it
 * does not depend on the order. The key is fixed, so that digests can be compared over restarts and
 * stores.
 */
uint64_t hf_record_hash(struct hf_bytes record);

/* What one operation of a batch does. A put carries the encoded record, a delete only the id. */
enum hf_op_type { HF_OP_PUT = 1, HF_OP_DELETE = 2 };

/* An operation in a batch has this many bytes before its record: type, kind, two spare bytes,
 * length of the record, id. */
enum { HF_OP_HEADER_SIZE = 16 };

struct hf_op {
    enum hf_op_type type;
    enum hf_record_kind kind;
    uint64_t id;           /* 0 for the server's record */
    struct hf_bytes value; /* the encoded record of a put; empty for a delete */
};

/*
 * Changes that become durable together or not at all, in order. One batch gathers while another
 * commits; the memory is reused from one to the next.
 */
struct hf_batch {
    struct hf_buf buf;
    uint64_t seq; /* batches are numbered from 1, without gaps, within one run of the daemon */
    uint32_t n_ops;
    bool locks_only; /* no operation concerns a client or the server */
    /* A crash of the host may lose the batch, because it counts once it is written (DUR-02). */
    bool may_be_lost;
};

void hf_batch_init(struct hf_batch *batch, const struct hf_alloc *alloc);
void hf_batch_free(struct hf_batch *batch);
void hf_batch_clear(struct hf_batch *batch);

/* HF_ENOMEM leaves the batch as it was. */
int hf_batch_put_server(struct hf_batch *batch, const struct hf_record_server *record);
int hf_batch_put_client(struct hf_batch *batch, const struct hf_record_client *record);
int hf_batch_put_lock(struct hf_batch *batch, const struct hf_record_lock *record);
int hf_batch_delete(struct hf_batch *batch, enum hf_record_kind kind, uint64_t id);

/* Puts an encoded record of any kind. Returns HF_EFORMAT or HF_EVERSION if it does not decode. */
int hf_batch_put_encoded(struct hf_batch *batch, enum hf_record_kind kind, struct hf_bytes record);

/*
 * Append the operations of another batch, which are known to be good, or the bytes of their buf as
 * a store kept them. HF_ENOMEM leaves the batch as it was. For bytes that are no operations the
 * result is HF_EFORMAT or HF_EVERSION, and the batch has the operations before them.
 */
int hf_batch_append(struct hf_batch *batch, const struct hf_batch *more);
int hf_batch_append_encoded(struct hf_batch *batch, struct hf_bytes ops);

/* Walks the operations in order: start with *cursor = 0; false when there are no more. */
bool hf_batch_next(const struct hf_batch *batch, size_t *cursor, struct hf_op *out);

/* Two records of a store that contradict each other (hf_core_load_conflict()). */
struct hf_load_conflict {
    enum hf_record_kind kind;
    uint64_t id;
    enum hf_record_kind other_kind;
    uint64_t other_id;
};

#endif
