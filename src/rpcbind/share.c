#include "rpcbind/share.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Tries to lock the file, a limited number of times, so that a process that keeps the lock does not
 * block us for ever. */
static bool lock(int fd, int how, unsigned tries)
{
    const struct timespec pause = {.tv_nsec = 50 * 1000 * 1000};

    while (flock(fd, how | LOCK_NB) < 0) {
        if (errno != EINTR && errno != EWOULDBLOCK)
            return false;
        if (--tries == 0)
            return false;
        (void)nanosleep(&pause, NULL);
    }
    return true;
}

void hf_rpcbind_share_join(struct hf_rpcbind_share *share, const char *path)
{
    /* Together five seconds, in which the last daemon can remove its registrations. */
    enum { TRIES = 100 };
    /* Open the file so that only root, or the user we run as, can open it: a user who holds a lock
     * on it would keep daemons from starting, and from removing their registrations. */
    int fd = open(path, O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    share->fd = 0;
    if (fd < 0)
        return;
    (void)fchmod(fd, 0600); /* an older version made the file readable for all users */
    if (lock(fd, LOCK_SH, TRIES))
        share->fd = fd;
    else
        close(fd);
}

/* Takes the exclusive lock, without waiting. flock() gives up the shared lock before it asks for
 * the exclusive one, so of two daemons that stop at the same time, one gets the lock. */
bool hf_rpcbind_share_leave(struct hf_rpcbind_share *share)
{
    return share->fd == 0 || lock(share->fd, LOCK_EX, 1);
}

void hf_rpcbind_share_end(struct hf_rpcbind_share *share)
{
    if (share->fd)
        close(share->fd);
    share->fd = 0;
}
