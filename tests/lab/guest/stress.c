/*
 * Many threads of one process lock parts of one file, as LTP's fcntl36 does: half of them with
 * POSIX locks, of which all threads together are one owner, and half with OFD locks, each an owner
 * of its own. Shared and exclusive, waiting and not.
 *
 *   stress FILE THREADS ROUNDS [ofd]      ofd: all of them with OFD locks
 *
 * POSIX threads have ranges of their own, since they are one owner; the range of each OFD thread
 * overlaps two of those. Under an exclusive lock a thread writes its range and reads it back; under
 * a shared one it reads it twice. What it reads must not have changed. An OFD owner never waits
 * with a lock in hand. So as long as only one process uses POSIX locks no cycle of held locks is
 * possible, and EDEADLK is wrong.
 *
 *   locked N refused N             then, if so: wrong WHAT ...
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIZE = 512, THREADS_MAX = 64 };

struct thread {
    pthread_t id;
    bool ofd;
    unsigned number;
    off_t offset;
};

static const char *path;
static unsigned rounds;
static atomic_uint locked, refused, wrong;

static void complain(const struct thread *t, const char *what)
{
    if (atomic_fetch_add(&wrong, 1) < 10)
        printf("wrong %s %u: %s\n", t->ofd ? "OFD" : "POSIX", t->number, what);
}

static int set(const struct thread *t, int file, short type, bool wait)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = t->offset, .l_len = SIZE};

    if (t->ofd)
        return fcntl(file, wait ? F_OFD_SETLKW : F_OFD_SETLK, &lock);
    return fcntl(file, wait ? F_SETLKW : F_SETLK, &lock);
}

static void read_range(const struct thread *t, int file, unsigned char *out)
{
    if (pread(file, out, SIZE, t->offset) != SIZE)
        complain(t, "a short read");
}

/* Checks that the lock excludes others: no other thread has changed what it covers. */
static void use(const struct thread *t, int file, short type, unsigned round)
{
    unsigned char first[SIZE], second[SIZE];

    if (type == F_WRLCK) {
        memset(first, (int)(t->number * 7 + round) & 0xff, SIZE);
        if (pwrite(file, first, SIZE, t->offset) != SIZE)
            complain(t, "a short write");
    } else {
        read_range(t, file, first);
    }
    read_range(t, file, second);
    if (memcmp(first, second, SIZE) != 0)
        complain(t, "changed under a lock");
}

static void *work(void *arg)
{
    const struct thread *t = arg;
    int file = open(path, O_RDWR); /* an open file description of the thread's own */

    for (unsigned round = 0; round < rounds; round++) {
        short type = (round + t->number) % 3 == 0 ? F_WRLCK : F_RDLCK;
        bool wait = (round + t->number) % 4 != 0;

        if (set(t, file, type, wait) == 0) {
            atomic_fetch_add(&locked, 1);
            use(t, file, type, round);
            if (set(t, file, F_UNLCK, false) < 0)
                complain(t, strerror(errno));
        } else if (!wait && (errno == EAGAIN || errno == EACCES)) {
            atomic_fetch_add(&refused, 1);
        } else {
            complain(t, strerror(errno));
        }
    }
    return NULL; /* closing the file would free the locks of all POSIX threads */
}

int main(int argc, char **argv)
{
    static struct thread threads[THREADS_MAX];
    unsigned n = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
    int file;

    if (argc < 4 || n == 0 || n > THREADS_MAX)
        return 2;
    path = argv[1];
    rounds = (unsigned)atoi(argv[3]);
    file = open(path, O_RDWR | O_CREAT, 0666);
    if (file < 0 || ftruncate(file, (off_t)(n + 1) * SIZE) < 0)
        return 2;
    for (unsigned i = 0; i < n; i++) {
        off_t place = (off_t)(i / 2) * SIZE;

        threads[i].ofd = i % 2 || argc > 4;
        threads[i].number = i;
        threads[i].offset = i % 2 ? place + SIZE / 2 : place;
        if (pthread_create(&threads[i].id, NULL, work, &threads[i]) != 0)
            return 2;
    }
    for (unsigned i = 0; i < n; i++)
        pthread_join(threads[i].id, NULL);
    printf("locked %u refused %u\n", locked, refused);
    return wrong != 0;
}
