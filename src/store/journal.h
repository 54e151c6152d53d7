/*
 * The journal in front of LMDB: a file of fixed size to which batches are appended, each with one
 * write and one fdatasync. A commit of LMDB needs two flushes, one after the other. With the
 * journal a single lock is durable in half the time, and a lock that is taken and released between
 * two checkpoints never reaches LMDB.
 *
 * A record is a header and the bytes of a batch. A keyed checksum makes it valid. The key is random
 * and kept in LMDB; the transaction that moves the journal's contents into LMDB (a checkpoint) also
 * replaces the key. That transaction therefore empties the journal without touching the file, and a
 * peer cannot send bytes that look like a record.
 *
 * Each record starts on its own sector, so that a write that is cut short cannot damage a record
 * that was acknowledged before.
 *
 * The file belongs to one daemon. The next daemon moves it aside before reading it, and makes a new
 * one. After each sync, and before it acknowledges a batch, a daemon checks that the file is still
 * in its place (hf_journal_is_ours). Everything it acknowledged before the move, the next daemon
 * reads.
 *
 * Behind the records stands the file's id, random and new for each file. LMDB holds the same id, so
 * a journal that is missing, or belongs to another data.mdb, is noticed (lmdb_parts.h).
 *
 * Functions that can fail return 0 or an errno.
 */
#ifndef HF_STORE_JOURNAL_H
#define HF_STORE_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/hash.h"
#include "core/record.h"

enum {
    HF_JOURNAL_BYTES = 1 << 20, /* of records */
    HF_JOURNAL_BATCH_MAX =
        HF_JOURNAL_BYTES /
        8, /* a larger batch goes to LMDB directly: the journal would not be faster */
};

struct hf_journal {
    int fd; /* -1 when there is no file */
    dev_t dev;
    ino_t ino;
    uint64_t id; /* in the file and in LMDB; 0 when there is no file */
    struct hf_hash_key key;
    size_t end;     /* the offset of the next record */
    uint64_t index; /* the number of the next record since the last checkpoint, from 0 */
};

/* Opens no file yet. */
void hf_journal_init(struct hf_journal *journal);
void hf_journal_close(struct hf_journal *journal);

/* Moves the journal of the previous owner aside, to journal.old, unless that happened before. */
int hf_journal_move_aside(int dir_fd);

/*
 * Appends the operations of all records that are valid under key to out, from journal or, without
 * one, from journal.old. id is that of the file that must be there, or 0 if there need not be any.
 * ENOENT if it is missing, ESTALE if there is another one, EBADMSG if it is damaged; then out has
 * the operations from before the damage.
 */
int hf_journal_read(int dir_fd, const struct hf_hash_key *key, uint64_t id, struct hf_batch *out);

/* True if there is a file that hf_journal_read() would read. */
bool hf_journal_exists(int dir_fd);

/*
 * Creates the file, filled with zeros so that no later write has to allocate blocks, with a new id,
 * and removes the one moved aside.
 */
int hf_journal_create(struct hf_journal *journal, int dir_fd);

/* Empties the journal, after a checkpoint that stored key. */
void hf_journal_restart(struct hf_journal *journal, const struct hf_hash_key *key);

bool hf_journal_has_room(const struct hf_journal *journal, const struct hf_batch *batch);

/*
 * Appends a batch, which is durable on return. After a failure the record may or may not be in the
 * file; only a checkpoint makes certain that it is not.
 */
int hf_journal_append(struct hf_journal *journal, const struct hf_batch *batch);

/* True if the file is still the one of that name in the directory at path. */
bool hf_journal_is_ours(const struct hf_journal *journal, const char *path);

#endif
