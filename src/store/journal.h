/*
 * The journal in front of LMDB: a file of fixed size to which batches are appended, each with one
 * write and one fdatasync. A commit of LMDB needs two flushes, one after the other. With the
 * journal a single lock is durable in half the time, and a lock that is granted and released
 * between two checkpoints never reaches LMDB.
 *
 * A record is a header and the bytes of a batch. A keyed checksum makes it valid. The key is random
 * and kept in LMDB; the transaction that moves all of the journal's contents into LMDB (a
 * checkpoint) also replaces the key. That transaction therefore empties the journal without
 * touching the file, and a client cannot send bytes that look like a record.
 *
 * The file has two sides: while the records of one side are moved to LMDB, the other side takes new
 * ones. Such a move keeps the key; LMDB stores the number of the first record that counts, and
 * older records are void.
 *
 * Each record starts on its own sector, so that a write that is cut short cannot damage a record
 * that was acknowledged before.
 *
 * With locks.durable=process (DUR-02) batches are appended without a flush. If the host crashes,
 * any of the last records may be missing or cut short, because the kernel writes pages in any
 * order: only the records before the first gap count.
 *
 * The file belongs to one daemon. The next daemon moves it aside before reading it, and makes a new
 * one. After each sync, and before it acknowledges a batch, a daemon checks that the file is still
 * in its place (hf_journal_is_ours). So the next daemon reads everything that was acknowledged
 * before the move. A daemon that does not flush cannot afford to ask the file system after each
 * append. Therefore the next daemon also marks the file that it moves, before it reads it, and a
 * daemon that does not flush checks that mark in mapped memory after each append
 * (hf_journal_is_taken).
 *
 * Behind the records stands the file's id, random and new for each file. LMDB holds the same id, so
 * that the daemon notices a journal that is missing or belongs to another data.mdb (lmdb_parts.h).
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
    /* the size of a journal side whose records are flushed one by one */
    HF_JOURNAL_BYTES = 1 << 20,
    /* The largest size of a journal side whose records are not flushed. */
    HF_JOURNAL_SIDE_BYTES_MAX = 4 << 20,
    HF_JOURNAL_SIDE_UNIT = 1 << 16, /* the size of a journal side is a multiple of this */
    HF_JOURNAL_BATCH_MAX =
        HF_JOURNAL_BYTES /
        /* A larger batch goes to LMDB directly: the journal would not be faster. */
        8,
};

/* How the records lie in the journal file. LMDB keeps a copy of this layout. */
struct hf_journal_layout {
    uint64_t side_bytes;
    uint64_t n_sides;     /* how many sides the journal has, 1 or 2 */
    uint64_t first_index; /* the number of the first record that is not in LMDB */
};

/*
 * The layouts of a journal whose batches are flushed one by one, and of one whose batches are not.
 */
extern const struct hf_journal_layout hf_journal_flushed;
extern const struct hf_journal_layout hf_journal_unflushed;

/* The layout with a single side: a clean stop leaves an empty journal like this, which earlier
 * versions can read. */
extern const struct hf_journal_layout hf_journal_single;

/* Returns how many bytes the largest batch has that a journal of this layout takes; a larger one
 * goes to LMDB. */
size_t hf_journal_batch_max(const struct hf_journal_layout *layout);

struct hf_journal_trailer;

struct hf_journal {
    int fd; /* the journal file; -1: none is open */
    dev_t dev;
    ino_t ino;
    uint64_t id; /* the id in the journal file and in LMDB; 0: there is no file */
    /* the mapped trailer of the journal file; NULL: there is no file */
    const struct hf_journal_trailer *trailer;
    struct hf_hash_key key;
    size_t side_bytes;
    unsigned n_sides;
    unsigned side;        /* the side of the journal that takes records at present */
    uint64_t first_index; /* the number of the first record on the side in use */
    size_t end;           /* the offset of the next record on the side in use */
    uint64_t index;       /* the number of the next record, from 0 for each key */
};

/* Initialises the structure without opening a file. */
void hf_journal_init(struct hf_journal *journal);
void hf_journal_close(struct hf_journal *journal);

/* Renames the previous daemon's journal to journal.old, unless an earlier start has done so, and
 * marks journal.old as taken. */
int hf_journal_move_aside(int dir_fd);

/* What a program must know to read a journal. */
struct hf_journal_reading {
    struct hf_hash_key key;
    uint64_t id; /* the id that the journal file must have; 0: no file need be there */
    struct hf_journal_layout layout;
    /* True after a crash of the host: records behind a gap were not flushed, and do not count. */
    bool tail_lost;
};

/*
 * Appends the operations of all valid records to out, from the file journal or, if that is missing,
 * from journal.old. Returns ENOENT if neither file is there, ESTALE if it has another id than
 * `reading` names, EBADMSG if it is damaged; out then has the operations from before the damage.
 */
int hf_journal_read(int dir_fd, const struct hf_journal_reading *reading, struct hf_batch *out);

/* True if there is a journal file that hf_journal_read() would read. */
bool hf_journal_exists(int dir_fd);

/* Creates the journal file with a new id, and removes journal.old. The file is filled with zeros,
 * so that no later write has to allocate blocks. */
int hf_journal_create(struct hf_journal *journal, int dir_fd,
                      const struct hf_journal_layout *layout);

/* Empties the journal after a checkpoint moved everything to LMDB and stored a new key there. */
void hf_journal_restart(struct hf_journal *journal, const struct hf_hash_key *key);

/* Turns to the other side of the journal, whose records are void. */
void hf_journal_turn(struct hf_journal *journal);

/* True if the side in use has room for the batch. */
bool hf_journal_has_room(const struct hf_journal *journal, const struct hf_batch *batch);

/*
 * Append writes a batch, which then survives the end of this process; sync makes appended batches
 * survive a crash of the host. If either fails, the record may or may not be in the file; only a
 * checkpoint of everything makes certain that it is not. One thread may sync while another appends.
 */
int hf_journal_append(struct hf_journal *journal, const struct hf_batch *batch);
int hf_journal_sync(const struct hf_journal *journal);

/* True if another daemon has moved the journal file aside and reads it, or is about to. */
bool hf_journal_is_taken(const struct hf_journal *journal);

/* True if the journal that is open is still the file of that name in the directory at path. */
bool hf_journal_is_ours(const struct hf_journal *journal, const char *path);

#endif
