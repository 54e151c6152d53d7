#include "base/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"

int hf_socket_open(const struct hf_addr *addr, int type)
{
    bool ipv6 = addr->family == HF_ADDR_IPV6;
    int on = 1;
    int fd = socket(ipv6 ? AF_INET6 : AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return errno == EMFILE || errno == ENFILE ? HF_ELIMIT : HF_EUNAVAIL;
    if (ipv6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0) {
        close(fd);
        return HF_EUNAVAIL;
    }
    return fd;
}

static int bind_once(int fd, const struct hf_addr *addr)
{
    struct sockaddr_storage sa;
    unsigned len = hf_addr_to_sockaddr(addr, &sa);

    if (bind(fd, (const struct sockaddr *)&sa, len) == 0)
        return 0;
    switch (errno) {
    case EADDRINUSE:
        return HF_EBUSY;
    case EACCES:
    case EPERM:
        return HF_EDENIED;
    case EADDRNOTAVAIL: /* the host does not have this address, or does not have it yet */
        return HF_EUNAVAIL;
    default:
        return HF_EINVAL;
    }
}

int hf_socket_bind(int fd, const struct hf_addr *addr, enum hf_bind how)
{
    /* The ports that are tried, as in bindresvport(3): services with well-known ports use those
     * below 512. */
    enum { FIRST = 512, LAST = 1023, COUNT = LAST - FIRST + 1 };
    struct hf_addr try = *addr;
    uint16_t start = 0;
    int on = 1;

    if (how == HF_BIND_ABSENT && setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &on, sizeof(on)) < 0)
        /* should not happen: sockets of IPv4 and of IPv6 both have this option */
        return HF_EUNAVAIL;
    if (how != HF_BIND_RESERVED)
        return bind_once(fd, addr);
    if (getrandom(&start, sizeof(start), 0) < 0)
        start = 0; /* without randomness: the random start only spreads concurrent searches */
    for (unsigned i = 0; i < COUNT; i++) {
        int rv;

        try.port = (uint16_t)(FIRST + (start + i) % COUNT);
        rv = bind_once(fd, &try);
        if (rv != HF_EBUSY)
            return rv;
    }
    return HF_EBUSY;
}

/* ---- Unix sockets ---- */

static int fail(int error)
{
    errno = error;
    switch (error) {
    case EADDRINUSE:
        return HF_EBUSY;
    case EEXIST:
        return HF_EEXIST;
    case EACCES:
    case EPERM:
        return HF_EDENIED;
    case ENAMETOOLONG:
        return HF_EINVAL;
    default:
        return HF_EUNAVAIL;
    }
}

/* True if no process listens on this Unix socket any more. Only a refused connection shows that: a
 * busy process may not accept at once. */
static bool was_left_behind(const struct sockaddr_un *sun, int type)
{
    int fd = socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool refused = fd >= 0 && connect(fd, (const struct sockaddr *)sun, sizeof(*sun)) < 0 &&
                   errno == ECONNREFUSED;

    if (fd >= 0)
        close(fd);
    return refused;
}

static int clear(const struct sockaddr_un *sun, int type)
{
    struct stat st;

    if (lstat(sun->sun_path, &st) < 0)
        return 0; /* bind() will report a path that cannot be examined */
    if (!S_ISSOCK(st.st_mode))
        return fail(EEXIST);
    if (!was_left_behind(sun, type))
        return fail(EADDRINUSE);
    return unlink(sun->sun_path) == 0 ? 0 : fail(errno);
}

int hf_socket_clear_local(const char *path, int type)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};

    return hf_text_copy(sun.sun_path, sizeof(sun.sun_path), path) ? clear(&sun, type)
                                                                  : fail(ENAMETOOLONG);
}

static int bind_with_mode(int fd, const struct sockaddr_un *sun, mode_t mode)
{
    mode_t before = umask(0);
    int rv = fchmod(fd, mode);

    if (rv == 0)
        rv = bind(fd, (const struct sockaddr *)sun, sizeof(*sun));
    (void)umask(before);
    return rv;
}

int hf_socket_listen_local(const char *path, int type, mode_t mode, int backlog)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    int rv;
    int fd;

    if (!hf_text_copy(sun.sun_path, sizeof(sun.sun_path), path))
        return fail(ENAMETOOLONG);
    rv = clear(&sun, type);
    if (rv < 0)
        return rv;
    fd = socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fail(errno);
    if (bind_with_mode(fd, &sun, mode) < 0 || listen(fd, backlog) < 0) {
        int error = errno;

        close(fd);
        return fail(error);
    }
    return fd;
}

/* ---- addresses of this host ---- */

/* True if the kernel selects the destination itself as the source address, as it does for an
 * address of this host. */
static bool is_own_source(int fd, const struct hf_addr *addr)
{
    enum { ANY_PORT = 9 }; /* any port will do, because no packet is sent */
    struct hf_addr to = *addr;
    struct hf_addr from;
    struct sockaddr_storage sa;
    socklen_t len;

    to.port = ANY_PORT;
    len = hf_addr_to_sockaddr(&to, &sa);
    if (connect(fd, (const struct sockaddr *)&sa, len) < 0)
        return false;
    len = sizeof(sa);
    return getsockname(fd, (struct sockaddr *)&sa, &len) == 0 &&
           hf_addr_from_sockaddr((const struct sockaddr *)&sa, &from) == 0 &&
           hf_addr_same_host(&from, addr);
}

bool hf_socket_is_own_address(const struct hf_addr *addr)
{
    int fd = hf_socket_open(addr, SOCK_DGRAM);
    bool own;

    if (fd < 0)
        return false;
    own = is_own_source(fd, addr);
    close(fd);
    return own;
}
