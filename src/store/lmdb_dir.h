/*
 * The directory of an LMDB store, held by one daemon: made if need be, locked for as long as it is
 * open. Inside: holdfast.lock (the lock, and the holder's process id for people), and LMDB's own
 * data.mdb and lock.mdb.
 */
#ifndef HF_STORE_LMDB_DIR_H
#define HF_STORE_LMDB_DIR_H

#include <sys/types.h>

#include "store/store.h"

struct hf_lmdb_dir {
    char *path;
    int fd;         /* the directory */
    int lock_fd;    /* its flock is the daemon's claim */
    dev_t data_dev; /* data.mdb as it was when opened */
    ino_t data_ino;
};

/* HF_EBUSY names the process that has it. Nothing to close after a failure. */
int hf_lmdb_dir_open(struct hf_store *store, const char *path, struct hf_lmdb_dir *out);
void hf_lmdb_dir_close(struct hf_store *store, struct hf_lmdb_dir *dir);

/* Once data.mdb is there: makes its name durable, and remembers which file it is. */
int hf_lmdb_dir_settle(struct hf_store *store, struct hf_lmdb_dir *dir);

/* HF_EFENCED once data.mdb is no longer the file we opened: what we write is then lost. */
int hf_lmdb_dir_check(struct hf_store *store, const struct hf_lmdb_dir *dir);

/* The code for an errno of the file system, and a sentence that begins with what was tried. */
int hf_lmdb_dir_fail(struct hf_store *store, const struct hf_lmdb_dir *dir, int error,
                     const char *what);

#endif
