#include "rpcbind/share.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

static bool lock(int fd, int how)
{
    int rv;

    while ((rv = flock(fd, how)) < 0 && errno == EINTR)
        ;
    return rv == 0;
}

void hf_rpcbind_share_join(struct hf_rpcbind_share *share, const char *path)
{
    /* A lock needs no right to write: daemons of different users can share the file. */
    int fd = open(path, O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);

    share->fd = 0;
    if (fd < 0)
        return;
    if (lock(fd, LOCK_SH))
        share->fd = fd;
    else
        close(fd);
}

/*
 * flock() gives up the shared lock before it asks for the other. So of two daemons that stop at the
 * same time, one gets it.
 */
bool hf_rpcbind_share_leave(struct hf_rpcbind_share *share)
{
    return share->fd == 0 || lock(share->fd, LOCK_EX | LOCK_NB);
}

void hf_rpcbind_share_end(struct hf_rpcbind_share *share)
{
    if (share->fd)
        close(share->fd);
    share->fd = 0;
}
