#include "keeper/reopen.h"

#include <errno.h>
#include <fcntl.h>

#include "base/text.h"

int hf_reopen(int fd, bool writable)
{
    char path[64];

    hf_format(path, sizeof(path), "/proc/self/fd/%d", fd);
    return openat(AT_FDCWD, path,
                  (writable ? O_RDWR : O_RDONLY) | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

enum hf_keeper_status hf_status_of_errno(int error)
{
    switch (error) {
    /* EWOULDBLOCK has this number as well: an open must wait. A refused lock does not come here. */
    case EAGAIN:
        return HF_KEEPER_NOT_YET;
    case EROFS:
    case EPERM:
    case EACCES:
        return HF_KEEPER_READ_ONLY;
    case ETXTBSY:
        return HF_KEEPER_EXECUTED;
    case EMFILE:
    case ENFILE:
        return HF_KEEPER_TOO_MANY_FILES;
    case ESTALE:
    case ENOENT:
        return HF_KEEPER_STALE;
    case ENOMEM:
    case ENOLCK:
        return HF_KEEPER_NO_MEMORY;
    default:
        return HF_KEEPER_FAILED;
    }
}
