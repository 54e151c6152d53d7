/* What the daemon's side, the runner and its parts share: the messages, the hook, the removal. */
#ifndef HF_ADDRESSES_PRIVATE_H
#define HF_ADDRESSES_PRIVATE_H

#include <sys/types.h>

#include "addresses/addresses.h"

/* ---- messages: one structure each, on a socket pair that keeps their bounds ---- */

enum hf_addresses_order { HF_ORDER_TAKE = 1, HF_ORDER_RENEW, HF_ORDER_DROP };

struct hf_addresses_request {
    uint32_t order;
    uint32_t take; /* TAKE: its number */
    uint64_t valid_until_ms;
};

struct hf_addresses_answer {
    uint32_t event; /* UP, FAILED, DOWN */
    uint32_t take;  /* UP, FAILED: which one it answers */
    int32_t error;
};

/* ---- one run of the hook ---- */

struct hf_hook {
    pid_t pid;    /* 0: none runs */
    int pidfd;    /* readable when it has ended */
    bool taking;  /* take, otherwise drop */
    bool overdue; /* killed because it took too long */
    bool stopped; /* killed because its result is no longer wanted */
    uint64_t deadline_ms;
};

/* Starts "HOOK take|drop SERVICE ADDRESS...", in a process group of its own. */
int hf_hook_start(struct hf_hook *hook, const struct hf_addresses_config *config, bool taking,
                  uint64_t now_ms);
/* Kills it, with its children; its end is still to be waited for. */
void hf_hook_kill(struct hf_hook *hook);
/* Once pidfd is readable: the result, 0 if it ended with status 0. The next can be started. */
int hf_hook_finish(struct hf_hook *hook);

/* ---- without the hook ---- */

/*
 * Removes the addresses from all interfaces of this host. Returns how many are still there, or a
 * negative error if the kernel does not say.
 */
int hf_addresses_remove(const struct hf_addr *addresses, unsigned n);

/*
 * Whether packets may leave with these addresses as their source although the host does not have
 * them; only IPv6 needs it (bar.c).
 */
int hf_addresses_bar(const struct hf_addr *addresses, unsigned n, bool barred);

/* ---- the runner ---- */

/* Serves the other end of socket until it is closed and the addresses are down. */
void hf_runner_run(const struct hf_addresses_config *config, int socket) __attribute__((noreturn));

#endif
