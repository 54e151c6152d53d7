/*
 * The addresses of a service (SPEC HA-04, HA-07). An operator's program, the hook, brings them up
 * and down on this host; it is called as
 *
 *     HOOK take SERVICE ADDRESS...
 *     HOOK drop SERVICE ADDRESS...
 *
 * The daemon cannot run the hook: it is confined, has no CAP_NET_ADMIN, and may be stopped or dead
 * at the very moment at which the addresses must go. So hf_addresses_start() forks a small process,
 * the runner, before confinement. The runner keeps CAP_NET_ADMIN and CAP_NET_RAW, holds no other
 * file of the daemon's than one end of a socket pair, and knows hook, service and addresses from
 * its start: a daemon that was taken over by an attacker can have nothing but these addresses taken
 * or dropped.
 *
 * The runner drops the addresses
 *   - when the daemon asks for it;
 *   - when the lease that the daemon told it of runs out: the daemon hangs, or was stopped;
 *   - when the daemon ends, however it ends, even if another process has its end of the
 *     socket pair;
 *   - at its own start: an earlier runner may have been killed.
 * A lock keeps a second runner of the same addresses from starting on this host (lock.c), because
 * its first drop would take the addresses from the first runner.
 *
 * While the addresses are up, the kernel tells the runner of those that go, by an operator's
 * command or with their interface. The runner then calls the hook again, which takes and announces
 * them; if that does not bring back what was there, or addresses are lost again and again, the take
 * has FAILED.
 *
 * To drop means: the runner removes the addresses from the host's interfaces itself, by netlink,
 * because a hook can fail or hang, and bars IPv6 addresses from being a source; then it calls the
 * hook. DOWN is reported when the host has none of the addresses any more. As long as it has one,
 * the runner tries again.
 *
 * A lease is a moment on CLOCK_BOOTTIME, which runs through suspend, in milliseconds; see
 * hf_clock_boot_ms().
 */
#ifndef HF_ADDRESSES_ADDRESSES_H
#define HF_ADDRESSES_ADDRESSES_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/addr.h"

enum {
    HF_ADDRESSES_MAX = 8,
    HF_ADDRESSES_TEXT_MAX = 512, /* room for the hook's path, and for the service's name */
    HF_ADDRESSES_TAKE_MS = 5000, /* a hook that takes longer has failed, and is killed */
    HF_ADDRESSES_DROP_MS = 1000,
    /* The pause before another attempt to drop an address that is still there, and before a lost
     * address is taken again. */
    HF_ADDRESSES_PAUSE_MS = 200,
    /* How long a new runner waits for an earlier one to end; one that has not ended then belongs to
     * a daemon that runs. */
    HF_ADDRESSES_LOCK_MS = 7000,
};

struct hf_addresses_config {
    char hook[HF_ADDRESSES_TEXT_MAX]; /* an absolute path */
    char service[HF_ADDRESSES_TEXT_MAX];
    struct hf_addr addresses[HF_ADDRESSES_MAX];
    unsigned n_addresses;
    bool keep_privileges; /* the runner keeps its privileges (server.confine=no) */
    /* For each of these times, 0 stands for the default above. */
    unsigned take_ms;
    unsigned drop_ms;
    unsigned lock_ms;
};

enum hf_addresses_event {
    /* The hook has taken the addresses, as asked by the last hf_addresses_take(), or again after
     * the host had lost one. */
    HF_ADDRESSES_UP,
    /* The hook could not take the addresses, or they do not stay; DOWN follows. */
    HF_ADDRESSES_FAILED,
    /* The host has none of the addresses, because the daemon asked for it, by the runner's own
     * decision, or at the start; no take is in flight. */
    HF_ADDRESSES_DOWN,
    /* The runner has ended, which it must not do while the daemon runs: the daemon must end, too.
     * The addresses may still be up. */
    HF_ADDRESSES_GONE,
};

struct hf_addresses;

/* error: with FAILED, why the take failed; with DOWN, 0 or why the hook failed although the
 * addresses are gone. */
typedef void hf_addresses_cb(void *ctx, enum hf_addresses_event event, int error);

/*
 * Forks the runner, which begins by dropping the addresses. The caller must not be confined yet,
 * and must have no second thread, no child, and no open file that another process must not keep
 * open. Returns HF_EBUSY if another process on this host has one of these addresses.
 */
int hf_addresses_start(const struct hf_addresses_config *config, struct hf_addresses **out);

/* Reports events on this loop from now on, until hf_addresses_detach(). */
int hf_addresses_attach(struct hf_addresses *addresses, uv_loop_t *loop, hf_addresses_cb *report,
                        void *ctx);
/* Detaches the addresses from the loop between two terms of the daemon: the runner goes on, and
 * events wait for the next hf_addresses_attach(). */
void hf_addresses_detach(struct hf_addresses *addresses);

/*
 * Takes the addresses, and keeps them until the lease runs out. UP or FAILED follows; or DOWN
 * alone, if the lease ran out first or a drop was asked for. The call may be repeated while the
 * addresses are up: the hook is called again, to announce them anew.
 */
void hf_addresses_take(struct hf_addresses *addresses, uint64_t valid_until_ms);
/* Tells the runner that the lease was renewed. This does not bring back addresses that were
 * dropped. */
void hf_addresses_renew(struct hf_addresses *addresses, uint64_t valid_until_ms);
/* Drops the addresses, and interrupts a hook that is taking them. DOWN follows, unless a newer take
 * is asked for first. */
void hf_addresses_drop(struct hf_addresses *addresses);

/*
 * Detaches and ends the runner, which drops the addresses first if they are not down. This function
 * does not wait for the runner; a caller that must be sure drops the addresses first, and waits for
 * DOWN.
 */
void hf_addresses_stop(struct hf_addresses *addresses);

/* Drops the addresses of a service whose processes were killed, and waits until they are down.
 * Returns HF_EBUSY if the processes still run and handle the addresses. */
int hf_addresses_clear(const struct hf_addresses_config *config);

#endif
