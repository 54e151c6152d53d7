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

/* The limits of the wire (LM_MAXSTRLEN, SM_MAXSTRLEN, MAXNETOBJ_SZ), kept by every room above
 * it. */
enum {
    HF_NAME_MAX = 1024,
    HF_FH_MAX = 1024,
    HF_OH_MAX = 1024,
    HF_EXPORT_NAME_MAX = 64,
    HF_PRIV_SIZE = 16,
    HF_CLIENT_ADDRS_MAX = 8, /* the most addresses of one client */
    HF_CLIENT_LIVES = 4,     /* how many lives of a client are told apart */
    HF_BOOT_ID_SIZE = 16,
    HF_RECORD_SERVER_MAX = 64, /* the longest encoded record of the server */
    HF_RECORD_LIVES_MAX = 2 + HF_CLIENT_LIVES * 12,
    /* In how many parts the owner of a waiter may have held its range before. */
    HF_RECORD_HAD_MAX = 64,
    HF_RECORD_EXTRA_MAX = 128 + HF_RECORD_HAD_MAX * 17, /* encoded */
};

enum hf_record_kind {
    HF_RECORD_SERVER = 1,
    HF_RECORD_CLIENT = 2,
    HF_RECORD_LOCK = 3,
};

/* The protocol that brought a client, a part of the client's identity (TRK-01). The numbers are
 * stored: never renumber them. */
enum hf_protocol { HF_PROTOCOL_NLM = 1, HF_PROTOCOL_NSM = 2 };

/* What a server does (server.programs). The numbers are stored: never renumber them. */
enum hf_role {
    HF_ROLE_UNKNOWN = 0, /* the record is older than version 3 */
    HF_ROLE_LOCKS = 1,   /* the server serves locks, which end with the process */
    /* The server is a status monitor only: this host's kernel has the locks. */
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
    HF_CONTINUITY_NONE = 0,     /* only LOCKs are recorded, or the record is older than version 4 */
    HF_CONTINUITY_BROKEN = 1,   /* everything is recorded, but grace or a hold is not over */
    HF_CONTINUITY_COMPLETE = 2, /* everything that clients rely on is recorded */
    /* the store lost records, and an operator accepted that; or it is of an earlier moment */
    HF_CONTINUITY_LOST = 3,
};

/*
 * The server itself, as the next start must know it (core/recovery/start.c). epoch counts starts,
 * and stands in all ids. The NSM state number belongs to the epoch in which it was taken: 2 *
 * number_epoch - 1 (NSM-06); number_epoch 0 stands for `epoch`. clean is true between a clean stop
 * and the next start. boot_id names the boot of the host in which this record was written; zeros:
 * unknown. locks_unknown is true while clients may hold locks that are not recorded: from the start
 * that found this until the clients have had a grace period to reclaim them.
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
 * The lives of a client (core/clients/clients.h), the newest first: the client's state number in
 * each life, and the first id given out in it (0 for the very first life). The n_left oldest lives
 * are over for good: their locks are released, or being released. n 0: the client has had one life
 * only, which has the client's state number.
 */
struct hf_record_lives {
    int32_t states[HF_CLIENT_LIVES];
    uint8_t n, n_left;
    uint64_t first_ids[HF_CLIENT_LIVES];
};

/*
 * A client's record, which is a registration. An NLM client (name = caller_name) has no callback
 * part. An SM_MON registration (name = mon_name) has one: which program to tell, and how.
 */
struct hf_record_client {
    uint64_t id;
    enum hf_protocol protocol;
    /* The transport that the client used last; callbacks use it too. */
    enum hf_transport transport;
    struct hf_bytes name;
    struct hf_addr addrs[HF_CLIENT_ADDRS_MAX]; /* the client's addresses, with port 0 */
    unsigned n_addrs;
    struct hf_addr local; /* our address that the client talks to; family NONE if unknown */
    int32_t state;        /* the client's last known NSM state number; 0: unknown */
    /* The reconnect window: how long the registration outlives the client's last lock; 0: none of
     * its own. */
    uint64_t ttl_ms;
    int64_t registered_at_ms; /* when the client registered, in Unix time by the wall clock */
    uint64_t epoch;           /* our epoch when the client registered, or last heard of a restart */
    struct hf_record_lives lives;

    /* The callback of an SM_MON registration; all zero for an NLM client. */
    struct hf_bytes my_name;
    uint32_t prog, vers, proc;
    uint8_t priv[HF_PRIV_SIZE];
    struct hf_addr callback_host; /* the address that registered, with port 0 */
};

/* What a lock's record stands for. The numbers are stored: never renumber them. */
enum hf_record_what {
    HF_RECORD_HELD = 0,    /* a lock that is held; version 1 of the record */
    HF_RECORD_WAITING = 1, /* a LOCK request that waits */
    /* A waiter whose lock was granted, with a record of its own; its callback is unanswered. */
    HF_RECORD_GRANTED = 2,
    HF_RECORD_SHARED = 3, /* a share reservation */
};

/* A part of a waiter's range that its owner held already when the waiter was granted. */
struct hf_record_had {
    uint64_t first, last;
    bool exclusive;
};

/*
 * The fields that a waiter or a share reservation has beyond those of a lock
 * (recovery.notify=needed). Only those that `what` needs are encoded; `had` stays encoded, and
 * hf_record_had() reads it.
 */
struct hf_record_extra {
    enum hf_record_what what;
    uint64_t life_id; /* the first id given out in the client's life that the object belongs to */

    uint64_t place; /* place in the file's queue: smaller ones come first */
    uint64_t offset, length;
    struct hf_addr local;
    enum hf_transport transport;
    uint8_t version;
    bool msg, monitored, passes;
    uint16_t n_had;
    struct hf_bytes had;

    uint8_t mode, access; /* DOS open modes of a share reservation */
};

/*
 * A byte-range lock that is held: bytes first to last, both included; last UINT64_MAX means to the
 * end. With extra.what also a request that waits (acquired_at_ms: since when), or a share
 * reservation.
 */
struct hf_record_lock {
    uint64_t id;
    uint64_t client_id;
    struct hf_bytes export; /* the name of the file's export */
    struct hf_bytes fh;
    struct hf_bytes oh;
    int32_t svid;
    uint64_t first;
    uint64_t last;
    bool exclusive;
    int64_t acquired_at_ms; /* when the lock was acquired, in Unix time by the wall clock */
    uint64_t epoch;         /* our epoch when the lock was granted */
    struct hf_record_extra extra;
};

/* An id tells the epoch in which it was given out: there is room for 2^24 epochs of 2^40 ids
 * each. */
enum { HF_RECORD_ID_BITS = 40 };

static inline uint64_t hf_record_first_id(uint64_t epoch)
{
    return epoch << HF_RECORD_ID_BITS | 1;
}

static inline uint64_t hf_record_epoch_of(uint64_t id)
{
    return id >> HF_RECORD_ID_BITS;
}

/* These append the encoded record to buf; HF_ENOMEM leaves buf as it was. */
int hf_record_encode_server(const struct hf_record_server *record, struct hf_buf *buf);
int hf_record_encode_client(const struct hf_record_client *record, struct hf_buf *buf);
int hf_record_encode_lock(const struct hf_record_lock *record, struct hf_buf *buf);

/* These return HF_EVERSION for a format that is newer than this program, and HF_EFORMAT for bytes
 * that do not decode completely. The views in *out point into `bytes`. */
int hf_record_decode_server(struct hf_bytes bytes, struct hf_record_server *out);
int hf_record_decode_client(struct hf_bytes bytes, struct hf_record_client *out);
int hf_record_decode_lock(struct hf_bytes bytes, struct hf_record_lock *out);

/* Encode and decode the lives of a client alone, in the form that its record has; one life alone (n
 * 0) takes no bytes. They return the size, or 0 or HF_EFORMAT. */
size_t hf_record_encode_lives(const struct hf_record_lives *lives,
                              uint8_t out[HF_RECORD_LIVES_MAX]);
int hf_record_decode_lives(struct hf_bytes bytes, struct hf_record_lives *out);

/* Encode and decode the extra part of a lock's record alone; a lock that is held has no extra
 * bytes. */
size_t hf_record_encode_extra(const struct hf_record_extra *extra,
                              uint8_t out[HF_RECORD_EXTRA_MAX]);
int hf_record_decode_extra(struct hf_bytes bytes, struct hf_record_extra *out);

/* The encoded size of one part in extra->had; hf_record_had() reads a part, hf_record_put_had()
 * writes one. */
enum { HF_RECORD_HAD_SIZE = 17 };
struct hf_record_had hf_record_had(const struct hf_record_extra *extra, unsigned i);
void hf_record_put_had(uint8_t out[HF_RECORD_HAD_SIZE], const struct hf_record_had *had);

/* True if the encoded record is that of a held lock, not of a waiter or a share. */
bool hf_record_is_held(struct hf_bytes record);

/*
 * Returns the hash of an encoded record. A digest of all records is the sum of their hashes, so it
 * does not depend on the order. The key is fixed, so that digests can be compared over restarts and
 * stores.
 */
uint64_t hf_record_hash(struct hf_bytes record);

/* What one operation of a batch does. A put carries the encoded record, a delete only the id. */
enum hf_op_type { HF_OP_PUT = 1, HF_OP_DELETE = 2 };

/* The bytes of an operation before its record: type, kind, two spare bytes, length of the record,
 * id. */
enum { HF_OP_HEADER_SIZE = 16 };

struct hf_op {
    enum hf_op_type type;
    enum hf_record_kind kind;
    uint64_t id;           /* the id of the record; 0: the server's record */
    struct hf_bytes value; /* the encoded record of a put; empty for a delete */
};

/*
 * Changes that become durable together or not at all, in order. One batch gathers changes while
 * another commits; both are reused.
 */
struct hf_batch {
    struct hf_buf buf;
    uint64_t seq; /* batches are numbered from 1, without gaps, within one run of the daemon */
    uint32_t n_ops;
    bool locks_only; /* no operation concerns a client or the server */
    /* The batch counts as durable once it is written, so a crash of the host may lose it
     * (DUR-02). */
    bool may_be_lost;
};

void hf_batch_init(struct hf_batch *batch, const struct hf_alloc *alloc);
void hf_batch_free(struct hf_batch *batch);
void hf_batch_clear(struct hf_batch *batch);

/* Append one operation each; HF_ENOMEM leaves the batch as it was. */
int hf_batch_put_server(struct hf_batch *batch, const struct hf_record_server *record);
int hf_batch_put_client(struct hf_batch *batch, const struct hf_record_client *record);
int hf_batch_put_lock(struct hf_batch *batch, const struct hf_record_lock *record);
int hf_batch_delete(struct hf_batch *batch, enum hf_record_kind kind, uint64_t id);

/* Puts an encoded record of any kind. Returns HF_EFORMAT or HF_EVERSION if it does not decode. */
int hf_batch_put_encoded(struct hf_batch *batch, enum hf_record_kind kind, struct hf_bytes record);

/*
 * Append operations to the batch: those of another batch, which are known to be good, or bytes as a
 * store kept them. HF_ENOMEM leaves the batch as it was. Bytes that are no operations give
 * HF_EFORMAT or HF_EVERSION, after the operations before them were appended.
 */
int hf_batch_append(struct hf_batch *batch, const struct hf_batch *more);
int hf_batch_append_encoded(struct hf_batch *batch, struct hf_bytes ops);

/* Walks the operations in order, starting with *cursor = 0; returns false at the end. */
bool hf_batch_next(const struct hf_batch *batch, size_t *cursor, struct hf_op *out);

/* Two records of a store that contradict each other (hf_core_load_conflict()). */
struct hf_load_conflict {
    enum hf_record_kind kind;
    uint64_t id;
    enum hf_record_kind other_kind;
    uint64_t other_id;
};

#endif
