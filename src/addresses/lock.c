/*
 * Lets only one runner handle each address in each network of this host. The lock is a TCP socket
 * that is bound to the address and never listens: the kernel lets only one process bind it, asks
 * for CAP_NET_BIND_SERVICE, and frees it when the process ends. A lock file would not do:
 * containers of one host may share the network and not /run. Other hosts see nothing of the lock.
 */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "addresses/private.h"
#include "base/clock.h"
#include "base/error.h"

enum {
    /* Port 404 is reserved, not assigned to a service that is in use, and below the range that RPC
     * clients bind to (512 to 1023). */
    LOCK_PORT = 404,
    WAIT_MS = 20,
};

static int try_one(const struct hf_addr *address, int *out)
{
    struct hf_addr own = *address;
    struct sockaddr_storage sa;
    unsigned len;
    int on = 1;
    int fd;
    int rv;

    own.port = LOCK_PORT;
    len = hf_addr_to_sockaddr(&own, &sa);
    fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return HF_EUNAVAIL;
    /* IPV6_FREEBIND lets us bind although the host does not have the address yet. */
    if (sa.ss_family == AF_INET6)
        rv = setsockopt(fd, IPPROTO_IPV6, IPV6_FREEBIND, &on, sizeof(on));
    else
        rv = setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &on, sizeof(on));
    if (rv == 0)
        rv = bind(fd, (const struct sockaddr *)&sa, len);
    if (rv < 0) {
        rv = errno == EADDRINUSE ? HF_EBUSY : errno == EACCES ? HF_EDENIED : HF_EUNAVAIL;
        close(fd);
        return rv;
    }
    *out = fd;
    return 0;
}

void hf_addresses_unlock(struct hf_addresses_lock *lock)
{
    while (lock->n > 0)
        close(lock->fds[--lock->n]);
}

/* True if the configuration has this address in an earlier place: each address is locked once. */
static bool is_repeated(const struct hf_addresses_config *config, unsigned at)
{
    for (unsigned i = 0; i < at; i++) {
        if (hf_addr_same_host(&config->addresses[i], &config->addresses[at]))
            return true;
    }
    return false;
}

/* The lock is tried for a while, because the runner of a daemon that has just ended needs a moment
 * to drop the addresses. */
int hf_addresses_lock(const struct hf_addresses_config *config, struct hf_addresses_lock *lock)
{
    static const struct timespec pause = {.tv_nsec = WAIT_MS * 1000000L};
    unsigned patience_ms = config->lock_ms ? config->lock_ms : HF_ADDRESSES_LOCK_MS;
    uint64_t end = hf_clock_boot_ms() + patience_ms;

    lock->n = 0;
    for (unsigned i = 0; i < config->n_addresses; i++) {
        int rv;

        if (is_repeated(config, i))
            continue;
        while ((rv = try_one(&config->addresses[i], &lock->fds[lock->n])) == HF_EBUSY &&
               hf_clock_boot_ms() < end)
            (void)nanosleep(&pause, NULL);
        if (rv < 0) {
            hf_addresses_unlock(lock);
            return rv;
        }
        lock->n++;
    }
    return 0;
}
