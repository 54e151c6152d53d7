/* What the daemon's side, the runner and its parts share: the messages, the hook, the removal. */
#ifndef HF_ADDRESSES_PRIVATE_H
#define HF_ADDRESSES_PRIVATE_H

#include <linux/rtnetlink.h>
#include <sys/types.h>

#include "addresses/addresses.h"
#include "base/log.h"

/* ---- messages: one structure each, on a socket pair that keeps their bounds ---- */

enum hf_addresses_order { HF_ORDER_TAKE = 1, HF_ORDER_RENEW, HF_ORDER_DROP };

struct hf_addresses_request {
    uint32_t order;
    uint32_t take; /* TAKE: the number that this request to take the addresses has */
    uint64_t valid_until_ms;
};

struct hf_addresses_answer {
    uint32_t event; /* the event that is reported: UP, FAILED or DOWN */
    uint32_t take;  /* UP, FAILED: the number of the take that this message answers */
    int32_t error;
};

/* ---- one run of the hook ---- */

struct hf_hook {
    pid_t pid; /* the hook's process; 0: no hook runs */
    /* The hook before this one. It is not reaped yet, so that no other process group can have
     * its number; 0: none. */
    pid_t former;
    int pidfd;    /* is readable when the hook has ended */
    bool taking;  /* true: the hook takes the addresses; false: it drops them */
    bool overdue; /* the hook was killed because it took too long */
    bool stopped; /* the hook was killed because its result is no longer wanted */
    uint64_t deadline_ms;
};

/*
 * Starts "HOOK take|drop SERVICE ADDRESS...", in a process group of its own. Processes that the
 * hook before left running in its group are killed: they would announce an address that may have
 * moved since.
 */
int hf_hook_start(struct hf_hook *hook, const struct hf_addresses_config *config, bool taking,
                  uint64_t now_ms);
/* Kills the hook, with its children; the caller still waits for its end. */
void hf_hook_kill(struct hf_hook *hook);
/* Returns the result of the hook once pidfd is readable: 0 if it ended with status 0. The next hook
 * can be started then. */
int hf_hook_finish(struct hf_hook *hook);

/* ---- netlink ---- */

/* Opens a netlink socket of the routing family that hears of changes in these groups; negative:
 * errno. */
int hf_netlink_open(uint32_t groups);
/* Sends one order to the kernel, which must acknowledge it. Returns 0, or the kernel's refusal as a
 * negative errno. */
int hf_netlink_ask(int fd, const struct nlmsghdr *order);

/* ---- what the host has ---- */

enum { HF_HELD_MAX = 64 };

/* One of the configured addresses, by its number in the configuration, on one interface. */
struct hf_held {
    struct ifaddrmsg head;
    unsigned number;
};

struct hf_held_list {
    struct hf_held held[HF_HELD_MAX];
    unsigned n;
};

/* Lists which of the addresses the host has. Returns HF_EBUSY if addresses changed meanwhile, so
 * that some may be missing in the list. */
int hf_host_list(int fd, const struct hf_addr *addresses, unsigned n, struct hf_held_list *out);

/* Reads what the kernel has told about addresses; true if it told anything. Bit i of *added is set
 * if addresses[i] came to an interface, even if it has gone since. */
bool hf_host_news(int fd, const struct hf_addr *addresses, unsigned n, int *added);

/* Returns which of the addresses the host has: bit i stands for addresses[i]. Negative: the kernel
 * does not say. */
int hf_addresses_present(const struct hf_addr *addresses, unsigned n);

/*
 * Removes the addresses from all interfaces of this host, and logs each that was there. Returns how
 * many are still there, or a negative error if the kernel does not say.
 */
int hf_addresses_remove(const struct hf_addr *addresses, unsigned n, enum hf_log_level level,
                        const char *reason);

/* Sets whether packets may leave with these addresses as their source although the host does not
 * have them; only IPv6 needs it (bar.c). */
int hf_addresses_bar(const struct hf_addr *addresses, unsigned n, bool barred);

/* ---- one runner for each address ---- */

struct hf_addresses_lock {
    int fds[HF_ADDRESSES_MAX];
    unsigned n;
};

/*
 * Locks all addresses. Returns HF_EBUSY if another process has one of them, and kept it for
 * config->lock_ms; HF_EDENIED without CAP_NET_BIND_SERVICE. Children inherit the lock; it ends when
 * the last process has closed it.
 */
int hf_addresses_lock(const struct hf_addresses_config *config, struct hf_addresses_lock *lock);
void hf_addresses_unlock(struct hf_addresses_lock *lock);

/* ---- the runner ---- */

/* The runner serves the daemon at the other end of socket, until the daemon has ended or closed
 * that end, and the addresses are down. */
struct hf_runner_files {
    int socket;
    int daemon; /* a pidfd that is readable when the daemon has ended */
    struct hf_addresses_lock lock;
};

void hf_runner_run(const struct hf_addresses_config *config, struct hf_runner_files *files)
    __attribute__((noreturn));

#endif
