/*
 * One random sequence of requests, put to the kernel's POSIX locks and to the core alike. Each
 * owner is one thread: it asks for nothing else while it waits, but may be interrupted.
 *
 * A third account, the naive table of cells that the simulator uses, says what the rule allows
 * (NLM-02, NLM-03, NLM-06). Kernel and core must both keep to it, and must say the same, except:
 *
 *   - turn: a blocking request that no held lock conflicts with may wait for its turn with us, if
 * an earlier request that waits conflicts with it. The kernel grants it.
 *   - order: where a lock is freed that several wait for, the kernel and we may choose differently.
 *     Each choice must leave only such requests waiting that still have a reason to.
 *   - grant: a shared request that waited makes shared, in the kernel, what its owner holds
 *     exclusively of the range. With us a grant after a wait only adds, because the waiter may be a
 *     late copy of an old request (core/wait/wait.h).
 *   - deadlock: we look at all locks in the way of a request, the kernel at one of them; so it may
 *     not see a cycle that is there.
 *
 * After a difference by turn or deadlock the request is taken back on both sides, and the sequence
 * goes on; not if the kernel, having granted a weaker mode, may have let others pass. In the other
 * cases the two are in different states, and the sequence ends. Even then each of the two is
 * compared, cell by cell, with what it ought to hold itself.
 */
#ifndef HF_DIFFERENTIAL_SEQUENCE_H
#define HF_DIFFERENTIAL_SEQUENCE_H

#include <stdint.h>

#include "kernel.h"

struct figures {
    uint64_t sequences, operations, locks, tests, denied, waited, granted_later, interrupted;
    uint64_t deadlocks;
    /* Requests that only one of the two granted, and cycles that only the core saw. */
    uint64_t turns, missed;
    uint64_t parted_by_turn, parted_by_order, parted_by_grant;
};

/* Runs a sequence. False: kernel and core differ, and *why, which belongs to this function, says
 * how, with the whole sequence. */
bool sequence_run(struct kernel *kernel, uint64_t seed, bool with_keeper, struct figures *figures,
                  const char **why);

#endif
