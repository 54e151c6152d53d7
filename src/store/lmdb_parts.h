/*
 * Checks that the files of an LMDB store's directory belong together. Everything that the daemon
 * acknowledged is in data.mdb and in the journal; if either is missing, or comes from elsewhere
 * (restored from a backup of another day), locks are lost. The store then refuses to open, and says
 * what the operator can do.
 *
 * LMDB holds the journal's key and the id of the journal's file. Opening a store goes: read the
 * journal; commit its operations under a new key with id 0; make a new journal; commit its id.
 * Until the last step no journal need be there, and none is needed, because nothing was
 * acknowledged since the one before. A crash between any two steps therefore leaves a store that
 * opens.
 *
 * Versions before this one know the key only, and replace it. The id is therefore stored with a
 * copy of the key: where the copy differs, such a version has had the store since, and the id says
 * nothing. The first versions cannot read a journal with two sides (journal.h), so while there is
 * one, the store has format 2, which they refuse. A clean stop leaves format 1.
 */
#ifndef HF_STORE_LMDB_PARTS_H
#define HF_STORE_LMDB_PARTS_H

#include <lmdb.h>

#include "base/hash.h"
#include "store/journal.h"
#include "store/lmdb_dir.h"

struct hf_lmdb_parts {
    struct hf_hash_key journal_key; /* the journal's key; zeros in a new store */
    uint64_t journal_id;            /* the id of the journal's file; 0: no journal need be there */
    struct hf_journal_layout layout;
    /* The boot of the host in which batches were not flushed, else zeros. */
    uint8_t boot_id[HF_BOOT_ID_SIZE];
};

/* Returns how to read the journal in this boot of the host. */
struct hf_journal_reading hf_lmdb_parts_reading(const struct hf_lmdb_parts *parts,
                                                const uint8_t boot_id[HF_BOOT_ID_SIZE]);

/*
 * Both return 0 or a code of LMDB. Writing also sets the format's number: a journal with two sides
 * needs a program that knows of them.
 */
int hf_lmdb_parts_read(MDB_txn *txn, MDB_dbi state, struct hf_lmdb_parts *out);
int hf_lmdb_parts_write(MDB_txn *txn, MDB_dbi state, const struct hf_lmdb_parts *parts);

/* Is called when there is no data.mdb. Returns 0 if nothing else is there either, so that a new
 * store can be made; HF_EFORMAT if a journal is there without it. */
int hf_lmdb_parts_check_new(struct hf_store *store, const struct hf_lmdb_dir *dir);

/* Sets the error for hf_journal_read()'s ENOENT, ESTALE and EBADMSG; for other errnos it does what
 * hf_lmdb_dir_fail() does. */
int hf_lmdb_parts_fail(struct hf_store *store, const struct hf_lmdb_dir *dir, int error);

/*
 * The operator may decide to go on without the journal by making a file journal.lost. True if the
 * error is one of a lost journal and that file is there. It counts once: forget removes it.
 */
bool hf_lmdb_parts_loss_accepted(const struct hf_lmdb_dir *dir, int error);
void hf_lmdb_parts_forget_loss(const struct hf_lmdb_dir *dir);

#endif
