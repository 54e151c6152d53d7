/*
 * Preloaded into a daemon: while the file $HELD_LOAD exists, the store is not read by any thread
 * but the first. So a test can look at a daemon that loads its store, for as long as it likes.
 */
#include <dlfcn.h>
#include <lmdb.h>
#include <stdlib.h>
#include <unistd.h>

static int is_held(void)
{
    const char *path = getenv("HELD_LOAD");

    return path && gettid() != getpid() && access(path, F_OK) == 0;
}

int mdb_txn_begin(MDB_env *env, MDB_txn *parent, unsigned int flags, MDB_txn **out)
{
    static int (*real)(MDB_env *, MDB_txn *, unsigned int, MDB_txn **);

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "mdb_txn_begin");
    while (flags & MDB_RDONLY && is_held())
        usleep(10000);
    return real(env, parent, flags, out);
}
