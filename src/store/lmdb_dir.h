/*
 * The directory of an LMDB store, created if necessary, and locked by one daemon for as long as the
 * store is open. The directory has holdfast.lock (the lock, and the process id of its holder for
 * operators), the journal, and LMDB's own data.mdb and lock.mdb.
 */
#ifndef HF_STORE_LMDB_DIR_H
#define HF_STORE_LMDB_DIR_H

#include <sys/types.h>

#include "store/store.h"

/* Which file data.mdb is, in a form that can be stored: its inode, and when the inode was made (0
 * where the file system does not say). A copy of the file is another one. Zeros: unknown. */
struct hf_lmdb_home {
    uint64_t inode;
    uint64_t born_ns;
};

struct hf_lmdb_dir {
    char *path;
    int fd;         /* the directory */
    int lock_fd;    /* the locked lock file, which makes the directory ours */
    dev_t data_dev; /* the device of data.mdb as it was when opened */
    struct hf_lmdb_home home;
};

/* Opens and locks the directory. Returns HF_EBUSY, with an error text that names the process, if
 * another process holds it. After a failure there is nothing to close. */
int hf_lmdb_dir_open(struct hf_store *store, const char *path, struct hf_lmdb_dir *out);
void hf_lmdb_dir_close(struct hf_store *store, struct hf_lmdb_dir *dir);

/* Makes the name of data.mdb durable and remembers which file it is. To be called once data.mdb
 * exists. */
int hf_lmdb_dir_settle(struct hf_store *store, struct hf_lmdb_dir *dir);

/*
 * Gives the store's files to the service's user. When root runs a daemon once, by hand, it makes
 * files in that user's directory that the user could not open otherwise. If this fails, the service
 * itself reports the error at its next start and says what to do.
 */
void hf_lmdb_dir_give(const struct hf_lmdb_dir *dir);

/* True if root uses a directory of another user: the files that it makes must be given to that
 * user. */
bool hf_lmdb_dir_is_of_another(const struct hf_lmdb_dir *dir);

/* Sets the error text of a daemon whose store another daemon has taken, and returns HF_EFENCED. */
int hf_lmdb_dir_fail_fenced(struct hf_store *store, const struct hf_lmdb_dir *dir);

/* Returns HF_EFENCED if data.mdb is no longer the file that the daemon opened, so that its writes
 * would be lost. */
int hf_lmdb_dir_check(struct hf_store *store, const struct hf_lmdb_dir *dir);

/* Sets an error text that begins with `what` (what was tried), and returns our code for an errno of
 * the file system. */
int hf_lmdb_dir_fail(struct hf_store *store, const struct hf_lmdb_dir *dir, int error,
                     const char *what);

#endif
