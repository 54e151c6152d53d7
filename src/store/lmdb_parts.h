/*
 * Checks that the files of an LMDB store's directory belong together. Everything that the daemon
 * acknowledged is in data.mdb and in the journal; if either is missing, or comes from elsewhere
 * (restored from a backup of another day), locks are lost. The store then refuses to open, and says
 * what the operator can do.
 *
 * LMDB holds the journal's key and the id of the journal's file. Opening a store takes four steps:
 * read the journal; commit its operations under a new key with id 0; make a new journal file;
 * commit the file's id. Between the second and the last step LMDB expects no journal, and none is
 * needed, because nothing was acknowledged since the second step. A crash between any two steps
 * therefore leaves a store that opens.
 *
 * Versions of Holdfast before this one know only the key, and replace it. The id is therefore
 * stored with a copy of the key: where the copy differs from the key, such a version has used the
 * store since, and the id says nothing. The first versions cannot read a journal with two sides
 * (journal.h), so as long as there is one, the store has format 2, which they refuse. A clean stop
 * leaves format 1.
 */
#ifndef HF_STORE_LMDB_PARTS_H
#define HF_STORE_LMDB_PARTS_H

#include <lmdb.h>

#include "base/hash.h"
#include "store/journal.h"
#include "store/lmdb_dir.h"

struct hf_lmdb_parts {
    struct hf_hash_key journal_key; /* the journal's key; zeros in a new store */
    /* the id of the journal's file; 0: the store needs no journal */
    uint64_t journal_id;
    struct hf_journal_layout layout;
    /* If batches were not flushed: the id of the host's boot in which they were written; else
     * zeros. */
    uint8_t boot_id[HF_BOOT_ID_SIZE];
    /* The file that data.mdb was when it was written; zeros: an older version wrote it. */
    struct hf_lmdb_home home;
};

/* True if the store's files were copied here, say from a backup of the directory: locks that were
 * granted since then are not in it. */
bool hf_lmdb_parts_is_copy(const struct hf_lmdb_parts *parts, const struct hf_lmdb_dir *dir);

/* Says how to read the journal in this boot of the host. */
struct hf_journal_reading hf_lmdb_parts_reading(const struct hf_lmdb_parts *parts,
                                                const uint8_t boot_id[HF_BOOT_ID_SIZE]);

/* Both return 0 or a code of LMDB. Writing also sets the store's format number, because a journal
 * with two sides needs a program that knows of them. */
int hf_lmdb_parts_read(MDB_txn *txn, MDB_dbi state, struct hf_lmdb_parts *out);
int hf_lmdb_parts_write(MDB_txn *txn, MDB_dbi state, const struct hf_lmdb_parts *parts);

/* Called when there is no data.mdb. Returns 0 if there is no journal either, so that a new store
 * can be made; HF_EFORMAT if there is a journal without data.mdb. */
int hf_lmdb_parts_check_new(struct hf_store *store, const struct hf_lmdb_dir *dir);

/* Sets the error text for the ENOENT, ESTALE and EBADMSG of hf_journal_read(); for other errnos it
 * does what hf_lmdb_dir_fail() does. */
int hf_lmdb_parts_fail(struct hf_store *store, const struct hf_lmdb_dir *dir, int error);

/*
 * An operator accepts the loss of a journal by making a file journal.lost. loss_accepted is true if
 * the error is one of a lost journal and that file exists. forget_loss removes the file, so that it
 * counts once.
 */
bool hf_lmdb_parts_loss_accepted(const struct hf_lmdb_dir *dir, int error);
void hf_lmdb_parts_forget_loss(const struct hf_lmdb_dir *dir);

#endif
