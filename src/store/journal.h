/*
 * The journal in front of LMDB: a file of fixed size to which batches are appended, each with one
 * write and one fdatasync. LMDB itself needs two flushes for a commit, one after the other; with
 * the journal a lock that comes alone is durable in half the time, and what was taken and given
 * back in between never reaches LMDB at all.
 *
 * A record is a header and the batch's bytes. What makes it valid is a keyed checksum: the key is
 * random, is kept in LMDB, and is replaced by the same transaction that brings the journal's
 * contents into LMDB (a checkpoint). So that transaction empties the journal, without touching
 * the file; and nothing a peer sends can be made to look like a record.
 *
 * Each record starts on a sector of its own: a write that is cut short cannot reach into one that
 * was acknowledged before.
 *
 * The file belongs to one daemon. The next one moves it aside before it reads it, and makes a new
 * one; the former owner sees, after its own sync and before it tells anybody, that the file is no
 * longer where it was (hf_journal_is_ours). What it acknowledged before that, the next one reads.
 *
 * Calls that can fail return 0 or an errno.
 */
#ifndef HF_STORE_JOURNAL_H
#define HF_STORE_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/hash.h"
#include "core/record.h"

enum {
    HF_JOURNAL_BYTES = 1 << 20,
    HF_JOURNAL_BATCH_MAX = HF_JOURNAL_BYTES / 8, /* beyond this LMDB alone is as good */
};

struct hf_journal {
    int fd; /* -1 when there is no file */
    dev_t dev;
    ino_t ino;
    struct hf_hash_key key;
    size_t end;     /* where the next record goes */
    uint64_t index; /* its number since the last checkpoint, from 0 */
};

/* No file yet. */
void hf_journal_init(struct hf_journal *journal);
void hf_journal_close(struct hf_journal *journal);

/*
 * What a former owner left: moves its journal aside and appends the operations of all records that
 * are valid under key to out. Without a journal that is none. EBADMSG if it is damaged.
 */
int hf_journal_recover(int dir_fd, const struct hf_hash_key *key, struct hf_batch *out);

/*
 * Makes the file, filled with zeros so that no later write has to allocate anything, and drops what
 * was moved aside.
 */
int hf_journal_create(struct hf_journal *journal, int dir_fd);

/* After a checkpoint that stored key: the journal is empty. */
void hf_journal_restart(struct hf_journal *journal, const struct hf_hash_key *key);

bool hf_journal_has_room(const struct hf_journal *journal, const struct hf_batch *batch);

/*
 * Durable on return. After a failure the record may or may not be there, and only a checkpoint can
 * make certain that it is not.
 */
int hf_journal_append(struct hf_journal *journal, const struct hf_batch *batch);

/* Is it still the file of that name in the directory at path? */
bool hf_journal_is_ours(const struct hf_journal *journal, const char *path);

#endif
