/*
 * The journal in front of LMDB: a file of fixed size to which batches are appended, each with one
 * write and one fdatasync. A commit of LMDB needs two flushes, one after the other. With the
 * journal a single lock is durable in half the time, and a lock that is taken and released between
 * two checkpoints never reaches LMDB.
 *
 * A record is a header and the bytes of a batch. A keyed checksum makes it valid. The key is random
 * and kept in LMDB; the transaction that moves all of the journal's contents into LMDB (a
 * checkpoint) also replaces the key. That transaction therefore empties the journal without
 * touching the file, and a peer cannot send bytes that look like a record.
 *
 * The file has two sides: while the records of one are moved to LMDB, the other one takes new ones.
 * The key stays; LMDB holds the number of the first record that counts, and older ones are void.
 *
 * Each record starts on its own sector, so that a write that is cut short cannot damage a record
 * that was acknowledged before.
 *
 * With locks.durable=process (DUR-02) batches are appended without a flush. If the host crashes,
 * records at the end may be missing or cut short, in any order, because the kernel writes pages in
 * any order: those before the first gap count.
 *
 * The file belongs to one daemon. The next daemon moves it aside before reading it, and makes a new
 * one. After each sync, and before it acknowledges a batch, a daemon checks that the file is still
 * in its place (hf_journal_is_ours). The next daemon reads everything that was acknowledged before
 * the move. Without a flush, asking the file system would take a noticeable part of the time. So
 * the next daemon also marks the file that it moves, before it reads it, and a daemon that does not
 * flush looks at the mark, which it has mapped, after each append (hf_journal_is_taken).
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
    HF_JOURNAL_BYTES = 1 << 20, /* the size of a side whose records are flushed one by one */
    /* The largest size of a side whose records are not flushed. */
    HF_JOURNAL_SIDE_BYTES_MAX = 4 << 20,
    HF_JOURNAL_SIDE_UNIT = 1 << 16, /* the size of a side is a multiple of this */
    HF_JOURNAL_BATCH_MAX =
        HF_JOURNAL_BYTES /
        8, /* a larger batch goes to LMDB directly: the journal would not be faster */
};

/* How the records lie in the file. LMDB has a copy of it. */
struct hf_journal_layout {
    uint64_t side_bytes;
    uint64_t n_sides;     /* how many sides there are, 1 or 2 */
    uint64_t first_index; /* the number of the first record that is not in LMDB */
};

/* The layout of a journal whose batches are all flushed, and of one whose batches are not. */
extern const struct hf_journal_layout hf_journal_flushed;
extern const struct hf_journal_layout hf_journal_unflushed;

/* The layout with one side, which a clean stop leaves, empty, and which earlier versions wrote. */
extern const struct hf_journal_layout hf_journal_single;

/* The bytes of the largest batch that goes into such a journal; a larger one goes to LMDB. */
size_t hf_journal_batch_max(const struct hf_journal_layout *layout);

struct hf_journal_trailer;

struct hf_journal {
    int fd; /* the file; -1 when there is none */
    dev_t dev;
    ino_t ino;
    uint64_t id; /* the id in the file and in LMDB; 0 when there is no file */
    const struct hf_journal_trailer *trailer; /* the mapped trailer; NULL when there is no file */
    struct hf_hash_key key;
    size_t side_bytes;
    unsigned n_sides;
    unsigned side;        /* the side that takes records now */
    uint64_t first_index; /* the index of the first record on this side */
    size_t end;           /* the offset of the next record on this side */
    uint64_t index;       /* the number of the next record, from 0 for each key */
};

/* Initialises the structure; no file is opened yet. */
void hf_journal_init(struct hf_journal *journal);
void hf_journal_close(struct hf_journal *journal);

/* Moves the journal of the previous owner aside, to journal.old, unless that happened before, and
 * marks it as taken. */
int hf_journal_move_aside(int dir_fd);

/* What a reader of the journal must know. */
struct hf_journal_reading {
    struct hf_hash_key key;
    uint64_t id; /* the id of the file that must be there; 0: no file need be there */
    struct hf_journal_layout layout;
    /* The host crashed: records behind a gap were not flushed, and do not count. */
    bool tail_lost;
};

/*
 * Appends the operations of all records that are valid to out, from journal or, without one, from
 * journal.old. Returns ENOENT if the file is missing, ESTALE if it has another id than the reading
 * names, EBADMSG if it is damaged; out then has the operations from before the damage.
 */
int hf_journal_read(int dir_fd, const struct hf_journal_reading *reading, struct hf_batch *out);

/* True if there is a file that hf_journal_read() would read. */
bool hf_journal_exists(int dir_fd);

/*
 * Creates the file, filled with zeros so that no later write has to allocate blocks, with a new id,
 * and removes the one moved aside.
 */
int hf_journal_create(struct hf_journal *journal, int dir_fd,
                      const struct hf_journal_layout *layout);

/* Empties the journal after a checkpoint of everything, which stored the key. */
void hf_journal_restart(struct hf_journal *journal, const struct hf_hash_key *key);

/* Turns to the other side, whose records are void. */
void hf_journal_turn(struct hf_journal *journal);

/* True if this side has room for the batch. */
bool hf_journal_has_room(const struct hf_journal *journal, const struct hf_batch *batch);

/*
 * Appends a batch, which survives this process on return, and after a sync the host. After a
 * failure of either the record may or may not be in the file; only a checkpoint of everything makes
 * certain that it is not. One thread may sync while another appends.
 */
int hf_journal_append(struct hf_journal *journal, const struct hf_batch *batch);
int hf_journal_sync(const struct hf_journal *journal);

/* True if another daemon has moved the file and reads it, or is about to. */
bool hf_journal_is_taken(const struct hf_journal *journal);

/* True if the file is still the one of that name in the directory at path. */
bool hf_journal_is_ours(const struct hf_journal *journal, const char *path);

#endif
