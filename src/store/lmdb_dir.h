/*
 * The directory of an LMDB store, created if necessary, and locked by one daemon for as long as it
 * is open. It holds holdfast.lock (the lock, and the process id of its holder for operators), and
 * LMDB's own data.mdb and lock.mdb.
 */
#ifndef HF_STORE_LMDB_DIR_H
#define HF_STORE_LMDB_DIR_H

#include <sys/types.h>

#include "store/store.h"

struct hf_lmdb_dir {
    char *path;
    int fd;         /* the directory */
    int lock_fd;    /* the flock on this file makes the directory ours */
    dev_t data_dev; /* identifies data.mdb as it was when opened */
    ino_t data_ino;
};

/* Returns HF_EBUSY, with an error text that names the process that holds the directory. After a
 * failure there is nothing to close. */
int hf_lmdb_dir_open(struct hf_store *store, const char *path, struct hf_lmdb_dir *out);
void hf_lmdb_dir_close(struct hf_store *store, struct hf_lmdb_dir *dir);

/* Call it once data.mdb exists: makes its name durable and remembers which file it is. */
int hf_lmdb_dir_settle(struct hf_store *store, struct hf_lmdb_dir *dir);

/*
 * Gives files to the service's user. A daemon that root runs once, by hand, makes files in a
 * directory of that user, who could not open them otherwise. If this fails, the error of the
 * service says what to do.
 */
void hf_lmdb_dir_give(const struct hf_lmdb_dir *dir);

/*
 * True if root uses a directory of another user: a file that it makes must be given to that user.
 */
bool hf_lmdb_dir_is_of_another(const struct hf_lmdb_dir *dir);

/* Sets the error of a daemon whose store another one has taken. */
int hf_lmdb_dir_fail_fenced(struct hf_store *store, const struct hf_lmdb_dir *dir);

/* HF_EFENCED if data.mdb is no longer the file we opened, so that our writes would be lost. */
int hf_lmdb_dir_check(struct hf_store *store, const struct hf_lmdb_dir *dir);

/*
 * Sets an error text that begins with what was tried, and returns our code for an errno of the file
 * system.
 */
int hf_lmdb_dir_fail(struct hf_store *store, const struct hf_lmdb_dir *dir, int error,
                     const char *what);

#endif
