/*
 * Durability (SPEC sections 4 and 5): one batch of records gathers changes while the batch before
 * it commits. A transaction is the changes of one request. It logs each change in the undo log of
 * the gathering batch before making it, so the transaction can be undone when memory runs out
 * half-way, and the whole batch when the store refuses it.
 *
 * What a transaction waits for. It waits for the gathering batch if it put a record there. It also
 * waits if it changed an object (a file) with earlier changes that are not durable yet: if those
 * are undone, the transaction must be undone with them, or two owners could hold one range. Every
 * other transaction (an NM_LOCK on a quiet file, every lock of a known client when locks are not
 * durable) is final at once and leaves no entry in the undo log.
 *
 * With standbys (config.fenced) no transaction is final at once: every change waits for the
 * gathering batch, and so does every answer that promises something, even if it repeats an earlier
 * promise. The batch may be empty. Its commit fails if another node has the service. A process
 * cannot learn that from its clocks: a virtual machine may have stood still together with its
 * clocks.
 *
 * With coherence (config.coherent) every change waits for the gathering batch as well: once the
 * batch of a release is durable, the kernel lets go of the bytes, and then the release is answered
 * (COH-10).
 *
 * With locks.durable=process (DUR-02) a batch that holds nothing but locks counts as durable once
 * it is written where it survives a crash of the process (may_be_lost). A batch with a client's or
 * the server's record must be flushed first: after a crash of the host, clients that the store
 * knows may reclaim locks that it does not know.
 *
 * Waiters and shares are recorded only so that a start may continue without telling a client
 * (config.continues), and are written behind: of their changes only the beginning of a wait is
 * undone, and each batch, when it is taken, gets the state that each such object has then. So the
 * store always has the state of one moment, and an object that came and went between two batches
 * costs nothing (behind.c). Answers about such objects wait for hf_durable_behind_seq().
 *
 * A batch is known by its sequence number, seq. An answer or a call that depends on a change
 * carries the seq of the change's batch, and leaves when that batch is durable.
 */
#ifndef HF_CORE_DURABLE_DURABLE_H
#define HF_CORE_DURABLE_DURABLE_H

#include "base/list.h"
#include "core/config.h"
#include "core/ending.h"
#include "core/record.h"

struct hf_core;

/*
 * One change that can be undone. The module that makes the change supplies revert(), which undoes
 * it, and keep(), which frees what only the undo needed once the change is final (NULL: nothing to
 * free).
 */
struct hf_undo;
struct hf_undo_ops {
    void (*revert)(struct hf_core *core, const struct hf_undo *entry);
    void (*keep)(struct hf_core *core, const struct hf_undo *entry);
};

struct hf_undo {
    const struct hf_undo_ops *ops;
    union {
        void *object;
        uint32_t numbers[2];
    };
};

/* The changes of one batch, oldest first. */
struct hf_undo_log {
    struct hf_undo *entries;
    size_t n;
    size_t room;
};

/*
 * An object whose record is written behind. put() writes the object's record as of now, and
 * registers its client if necessary. forget() is called when the object has ended and nothing of it
 * is left to write; its owner then deletes it.
 */
struct hf_txn;
struct hf_behind;
struct hf_behind_ops {
    int (*put)(struct hf_txn *txn, struct hf_behind *behind);
    void (*forget)(struct hf_core *core, struct hf_behind *behind);
};

struct hf_behind {
    const struct hf_behind_ops *ops;
    uint64_t id;         /* the id of the object's record */
    struct hf_list link; /* links the object into durable->behind or ->behind_in_flight */
    bool stored;         /* the store may have a record of the object */
    bool in_flight;      /* the object's state is in the batch that is being committed */
    bool changed;        /* the object has changed since its state was last written */
    bool gone;
};

struct hf_durable {
    struct hf_batch batches[2];
    struct hf_undo_log undos[2];
    /*
     * The index of the gathering batch in both arrays; the other one is being committed, or unused.
     */
    unsigned gathering;
    bool in_flight;      /* the other batch is being committed */
    bool wanted;         /* an answer waits for the gathering batch, even if that is empty */
    uint64_t seq;        /* the newest durable batch */
    uint64_t failed_seq; /* the newest batch that was undone; 0: none */
    /* The batch with the server's record: no answer or call leaves before it is durable. */
    uint64_t epoch_seq;
    /* With coherence: returns the newest batch whose releases the kernel has made (claim.h). NULL:
     * there is no kernel to wait for. */
    uint64_t (*released)(const struct hf_core *core);
    bool server_dirty;     /* the server's record must go into the next batch taken */
    bool server_in_flight; /* the server's record is in the batch being committed */
    /* Objects still to be written, and objects in the batch that is being committed. */
    struct hf_list behind, behind_in_flight;
};

void hf_durable_init(struct hf_core *core);
void hf_durable_free(struct hf_core *core);

/* Makes all changes final, before the core is deleted. */
void hf_durable_close(struct hf_core *core);

/* Returns the batch that takes records now. */
struct hf_batch *hf_durable_gathering(struct hf_core *core);

/* True if the changes of batch seq are durable, or were undone: nothing is left to wait for. */
bool hf_durable_has(const struct hf_core *core, uint64_t seq);

/* Returns the later of two batches; to wait for it is to wait for both. */
static inline uint64_t hf_seq_later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Returns the last batch that has changes; once it is durable, the whole state is. */
uint64_t hf_durable_last_change(struct hf_core *core);

/* Returns the batch that an answer about waiters or shares must wait for, where these are recorded:
 * the last one with changes, because a repeat waits for what its first request has changed. */
uint64_t hf_durable_behind_seq(struct hf_core *core);

/*
 * Returns the seq that an answer must carry, given the seq that its own change needs; never a batch
 * before that of the epoch.
 */
uint64_t hf_durable_answer_seq(struct hf_core *core, uint64_t seq);

/* True while the server's record is not durable: until then no answer leaves. */
bool hf_durable_is_beginning(const struct hf_core *core);

/* Puts the server's record into the gathering batch; no answer leaves before that is durable. */
void hf_durable_write_server(struct hf_core *core);

/* Hands out the gathering batch, or NULL if there is nothing to commit now; the caller later
 * reports the batch as done or failed. */
const struct hf_batch *hf_durable_take(struct hf_core *core, const struct hf_record_server *server);
void hf_durable_done(struct hf_core *core, uint64_t seq);

/* Undoes the changes of the failed batch and of the gathering one. */
void hf_durable_failed(struct hf_core *core, uint64_t seq);
/* Returns how many changes hf_durable_failed() would undo. */
size_t hf_durable_n_undo(const struct hf_core *core);

/* Has the server's record committed again after a failure, if it is not durable yet. */
void hf_durable_retry(struct hf_core *core);

void hf_behind_init(struct hf_behind *behind, const struct hf_behind_ops *ops, uint64_t id,
                    bool stored);

/* hf_behind_changed() puts the object's state into the next batch; hf_behind_ended() tells that the
 * object has ended, hf_behind_came_back() that it exists again. */
void hf_behind_changed(struct hf_core *core, struct hf_behind *behind);
void hf_behind_ended(struct hf_core *core, struct hf_behind *behind);
void hf_behind_came_back(struct hf_core *core, struct hf_behind *behind);

/* True if the object is still to be written: it must not be deleted before forget() is called. */
bool hf_behind_is_busy(const struct hf_behind *behind);
/* Frees all objects written behind, when the core is deleted: no more records are written. */
void hf_behind_free(struct hf_core *core);

struct hf_txn {
    struct hf_core *core;
    struct hf_now now;
    uint64_t *object_seq; /* where the changed object keeps the seq of its last change; or NULL */
    bool depends;         /* the transaction depends on another change that is not durable */
    enum hf_end end;      /* why the locks that this transaction removes end */
    size_t undo_n;        /* the lengths of undo log and batch when the transaction began */
    size_t batch_end;
    uint32_t n_ops;
};

void hf_txn_begin(struct hf_txn *txn, struct hf_core *core, struct hf_now now,
                  uint64_t *object_seq);

/*
 * Begins a transaction that gives a client something: a lock, or a place in the queue. While the
 * server's record is not durable no answer leaves, and if that record fails, each answer becomes a
 * refusal. So what is given then is undone with its batch, recorded or not, and its answer waits
 * for that batch.
 */
void hf_txn_begin_giving(struct hf_txn *txn, struct hf_core *core, struct hf_now now,
                         uint64_t *object_seq);
bool hf_txn_has_changes(const struct hf_txn *txn);
uint64_t hf_txn_commit(struct hf_txn *txn); /* returns the seq to wait for; 0: none */

/* Undoes what the transaction did so far, because memory ran out, and counts that. */
void hf_txn_abort(struct hf_txn *txn);

/* Makes room for one more undo entry, so that hf_undo_push() cannot fail. */
int hf_undo_reserve(struct hf_core *core);
void hf_undo_push(struct hf_core *core, struct hf_undo entry);

#endif
