/*
 * Durability (SPEC sections 4 and 5): one batch of records gathers changes while the batch before
 * it commits. A transaction is the changes of one request. It logs each change in the undo log of
 * the gathering batch before making it, so the transaction can be undone when memory runs out
 * half-way, and the whole batch when the store refuses it.
 *
 * What a transaction waits for. It waits for the gathering batch if it put a record there. It also
 * waits if it changed an object (a file) that has changes which are not durable yet: if those are
 * undone, this one must be undone with them, or two owners could hold one range. Every other
 * transaction (an NM_LOCK on a quiet file, every lock of a known client when locks are not durable)
 * is final at once and leaves no entry in the undo log.
 *
 * With standbys (config.fenced) there is no such other transaction: every change waits for the
 * gathering batch, and so does every answer that promises something, even if it repeats what was
 * promised before. The batch may be empty. Its commit fails if another node has the service, which
 * a process cannot know by its clocks: a virtual machine may have stood still, and its clocks with
 * it.
 *
 * With coherence (config.coherent) every change waits for the gathering batch as well: what is
 * released is let go in the kernel when its batch is durable, and then answered (COH-10).
 *
 * With locks.durable=process (DUR-02) a batch that holds nothing but locks counts as durable once
 * it is written where it survives a crash of the process (may_be_lost). One with a client's or the
 * server's record must be flushed first: after a crash of the host, clients that the store knows
 * may reclaim locks that it does not know.
 *
 * What is recorded only so that a start may continue without telling a client (waiters and shares;
 * config.continues) is written behind: no change of it is undone but the beginning of a wait, and
 * each batch, when it is taken, gets the state that each such object has then. So the store always
 * has the state of one moment, and an object that came and went between two batches costs nothing
 * (behind.c). Answers about such objects wait for hf_durable_behind_seq().
 *
 * A batch is known by its sequence number, seq. An answer or a call that depends on a change
 * carries the seq of its batch and leaves when that is durable.
 */
#ifndef HF_CORE_DURABLE_DURABLE_H
#define HF_CORE_DURABLE_DURABLE_H

#include "base/list.h"
#include "core/config.h"
#include "core/ending.h"
#include "core/record.h"

struct hf_core;

/*
 * One change that can be undone. The module that makes the change owns it: revert() undoes it, and
 * keep() lets go of what only the undo needed, once the change is final (NULL: nothing to let go).
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
 * An object whose record is written behind. put() writes its record as of now, and registers its
 * client if it has to; forget() is called when nothing of an object that has ended is left to
 * write, for its owner to delete it.
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
    struct hf_list link; /* links the object into durable->behind, or ->behind_in_flight */
    bool stored;         /* the store may have a record of the object */
    bool in_flight;      /* the object's state is in the batch that is being committed */
    bool changed;        /* since then */
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
    bool wanted;         /* an answer waits for the gathering batch, even if it has no operation */
    uint64_t seq;        /* the newest durable batch */
    uint64_t failed_seq; /* the newest batch that was undone; 0: none */
    /* The batch with the server's record: nothing leaves before it is durable. */
    uint64_t epoch_seq;
    /* With coherence: returns the newest batch whose releases the kernel has made (claim.h). NULL:
     * all are. */
    uint64_t (*released)(const struct hf_core *core);
    bool server_dirty;     /* the server's record must go into the next batch taken */
    bool server_in_flight; /* ... and is in the batch that is being committed */
    /* Objects that are to be written, and those being committed. */
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

/* Returns the later of two batches: to wait for both is to wait for that one. */
static inline uint64_t hf_seq_later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Returns the last batch with changes; when it is durable, all of the state is. */
uint64_t hf_durable_last_change(struct hf_core *core);

/* Returns the batch that an answer about waiters or shares must wait for, where they are recorded:
 * the last one with changes, because a repeat waits for what the request before it has changed. */
uint64_t hf_durable_behind_seq(struct hf_core *core);

/*
 * Returns the seq an answer must carry, given the one its own change needs: never before the epoch.
 */
uint64_t hf_durable_answer_seq(struct hf_core *core, uint64_t seq);

/* True if the server's record waits for its batch: no answer leaves before that is durable. */
bool hf_durable_is_beginning(const struct hf_core *core);

/* Puts the server's record into the gathering batch; nothing leaves before it is durable. */
void hf_durable_write_server(struct hf_core *core);

/* Hands out the gathering batch, or NULL if there is none to commit now; the caller then reports it
 * as done or failed. */
const struct hf_batch *hf_durable_take(struct hf_core *core, const struct hf_record_server *server);
void hf_durable_done(struct hf_core *core, uint64_t seq);

/* Undoes the changes of the failed batch and of the gathering one. */
void hf_durable_failed(struct hf_core *core, uint64_t seq);
/* Returns how many changes hf_durable_failed() would undo. */
size_t hf_durable_n_undo(const struct hf_core *core);

/* Commits the server's record again after a failure, if it is not durable yet. */
void hf_durable_retry(struct hf_core *core);

void hf_behind_init(struct hf_behind *behind, const struct hf_behind_ops *ops, uint64_t id,
                    bool stored);

/* The first puts the object's state into the next batch; the second says that it has ended; the
 * third that it exists again. */
void hf_behind_changed(struct hf_core *core, struct hf_behind *behind);
void hf_behind_ended(struct hf_core *core, struct hf_behind *behind);
void hf_behind_came_back(struct hf_core *core, struct hf_behind *behind);

/* True if the object is still to be written, so that it must not be deleted: forget() will be
 * called. */
bool hf_behind_is_busy(const struct hf_behind *behind);
/* Frees what it has with the core: nothing is written any more. */
void hf_behind_free(struct hf_core *core);

struct hf_txn {
    struct hf_core *core;
    struct hf_now now;
    uint64_t *object_seq; /* where the changed object keeps the seq of its last change; or NULL */
    bool depends;         /* the transaction depends on something else that is not durable */
    enum hf_end end;      /* why the locks end that the transaction takes out */
    size_t undo_n;        /* how long the undo log and the batch were at the beginning */
    size_t batch_end;
    uint32_t n_ops;
};

void hf_txn_begin(struct hf_txn *txn, struct hf_core *core, struct hf_now now,
                  uint64_t *object_seq);

/*
 * Begins a transaction that gives a client something: a lock, or a place in the queue. While the
 * server's record is not durable, no answer leaves, and if it fails each becomes a refusal. So what
 * is given then is undone with its batch, recorded or not, and its answer waits for that batch.
 */
void hf_txn_begin_giving(struct hf_txn *txn, struct hf_core *core, struct hf_now now,
                         uint64_t *object_seq);
bool hf_txn_has_changes(const struct hf_txn *txn);
uint64_t hf_txn_commit(struct hf_txn *txn); /* returns the seq to wait for; 0: nothing */

/* Undoes what the transaction did so far, because memory ran out, and counts it. */
void hf_txn_abort(struct hf_txn *txn);

/* Makes room for one more entry, so that hf_undo_push() cannot fail. */
int hf_undo_reserve(struct hf_core *core);
void hf_undo_push(struct hf_core *core, struct hf_undo entry);

#endif
