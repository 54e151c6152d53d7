/*
 * Preloaded into a daemon that starts as root: right after it has given a unix socket its name,
 * that name is a link to the file HOLDFAST_SWAPPED_FOR, as the user could have made it to whom the
 * directory belongs.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

/* As glibc declares it: gcc takes no other type of the address for the same. */
int bind(int fd, __CONST_SOCKADDR_ARG given, socklen_t len)
{
    const struct sockaddr *addr = given.__sockaddr__;
    const char *target = getenv("HOLDFAST_SWAPPED_FOR");
    const char *path = ((const struct sockaddr_un *)(const void *)addr)->sun_path;
    int rv = (int)syscall(SYS_bind, fd, addr, len);

    if (rv == 0 && target && addr->sa_family == AF_UNIX && path[0] == '/') {
        (void)unlink(path);
        (void)!symlink(target, path);
    }
    return rv;
}
