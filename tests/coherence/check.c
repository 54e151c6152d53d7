#include <string.h>

#include "world.h"

/* Computes for each cell the strongest mode of the locks that the core holds, for one process or
 * for all. */
static void sum_of(const struct world *w, int proc, uint8_t sum[FILES][CELLS])
{
    struct hf_view_lock rows[16];
    uint64_t cursor = 0;
    size_t n;

    memset(sum, 0, sizeof(uint8_t[FILES][CELLS]));
    while ((n = hf_core_view_locks(w->core, &cursor, UINT64_MAX, rows, 16)) > 0) {
        for (size_t i = 0; i < n; i++) {
            const struct hf_record_lock *lock = &rows[i].record;
            struct range r = range_of((unsigned)file_of(lock->fh), lock->first, lock->last);
            uint8_t mode = lock->exclusive ? HF_CLAIM_EXCLUSIVE : HF_CLAIM_SHARED;

            for (unsigned c = r.first; c <= r.last && (proc < 0 || proc == lock->svid); c++) {
                if (sum[r.file][c] < mode)
                    sum[r.file][c] = mode;
            }
        }
    }
}

void sum_of_locks(const struct world *w, uint8_t sum[FILES][CELLS])
{
    sum_of(w, -1, sum);
}

/* Finds the first durable lock that the kernel does not hold. False: the kernel holds all. */
static bool find_missing(const struct world *w, struct range *out)
{
    for (unsigned i = 0; i < w->records.count; i++) {
        struct hf_record_lock lock;

        if (w->records.at[i]->kind != HF_RECORD_LOCK ||
            hf_record_decode_lock(record_bytes(w->records.at[i]), &lock) < 0)
            continue;
        *out = range_of((unsigned)file_of(lock.fh), lock.first, lock.last);
        if (!kernel_covers(w, *out, lock.exclusive ? HF_CLAIM_EXCLUSIVE : HF_CLAIM_SHARED))
            return true;
    }
    return false;
}

/* COH-10: the kernel holds every durable lock, also while the daemon is down, as long as the keeper
 * lives. The rule begins when a new keeper has been told of every lock, and the release of what was
 * lost meanwhile is durable. */
static void check_durable(struct world *w)
{
    struct range r;
    bool missing = find_missing(w, &r);

    if (w->synced && missing)
        violate(w, "the kernel holds at least what is durable", "file %u cells %u-%u", r.file,
                r.first, r.last);
    if (w->core && w->connected && hf_core_claims_ready(w->core) && !missing)
        w->synced = true;
}

static void check_beliefs(struct world *w)
{
    for (unsigned p = 0; p < PROCS; p++) {
        const struct proc *proc = &w->procs[p];

        for (uint8_t f = 0; f < FILES; f++) {
            for (uint8_t c = 0; c < CELLS; c++) {
                struct range cell = {f, c, c};
                uint8_t mode = proc->believes[f][c];

                if (mode == HF_CLAIM_NONE || proc->shaky[f][c] || w->refused[f][c])
                    continue;
                if (kernel_conflict(w, 0, cell, mode) >= 0)
                    violate(w, "no holder outside beside a received grant", "c%u, file %u cell %u",
                            p, f, c);
            }
        }
    }
}

/* When a new keeper is up to date, processes forget those earlier locks that the core has lost
 * meanwhile. */
static void settle_beliefs(struct world *w)
{
    uint8_t sum[FILES][CELLS];

    if (!w->core || !w->synced || !w->started || !hf_core_claims_ready(w->core) || w->committing)
        return;
    for (unsigned p = 0; p < PROCS; p++) {
        sum_of(w, (int)p, sum);
        for (unsigned f = 0; f < FILES; f++) {
            for (unsigned c = 0; c < CELLS; c++) {
                struct proc *proc = &w->procs[p];
                if (!proc->shaky[f][c])
                    continue;
                if (proc->believes[f][c] > sum[f][c])
                    proc->believes[f][c] = sum[f][c]; /* a reported loss */
            }
        }
    }
}

/* While the keeper counts as up to date, the kernel holds every lock that it can hold. A lock that
 * comes back with a failed batch, or for want of memory, is claimed a little later. */
static void check_ready(struct world *w)
{
    uint8_t sum[FILES][CELLS];

    if (!w->core || !w->connected || !hf_core_claims_ready(w->core) || w->commit_fails ||
        w->no_memory)
        return;
    sum_of_locks(w, sum);
    for (unsigned f = 0; f < FILES; f++) {
        for (unsigned c = 0; c < CELLS; c++) {
            if (w->kernel[f][c][0] < sum[f][c] && !w->refused[f][c])
                violate(w, "what is corrected is held", "file %u cell %u", f, c);
        }
    }
}

bool is_coarse(const struct world *w)
{
    struct hf_view_status status;

    hf_core_view_status(w->core, w->now, &status);
    return status.coarse_files > 0;
}

/* If no operation is in flight, the kernel must hold exactly the sum of the clients' locks. */
static void check_sum(struct world *w)
{
    uint8_t sum[FILES][CELLS];

    if (!w->core || !w->connected || !hf_core_claims_ready(w->core) || w->n_ops || w->n_results ||
        w->committing || is_coarse(w))
        return;
    for (unsigned p = 0; p < PROCS; p++) {
        if (w->procs[p].claim != 0 || w->procs[p].blocked || w->procs[p].answered)
            return;
    }
    for (unsigned i = 0; i < WAITS; i++) {
        if (w->waits[i].id != 0)
            return;
    }
    sum_of_locks(w, sum);
    for (unsigned f = 0; f < FILES; f++) {
        for (unsigned c = 0; c < CELLS; c++) {
            if (w->kernel[f][c][0] != sum[f][c] && !w->refused[f][c])
                violate(w, "at rest the kernel holds the sum", "file %u cell %u: kernel %u, sum %u",
                        f, c, w->kernel[f][c][0], sum[f][c]);
        }
    }
}

void check(struct world *w)
{
    check_durable(w);
    settle_beliefs(w);
    check_beliefs(w);
    check_ready(w);
    if (w->core)
        w->coarse_made += is_coarse(w);
    if (w->core)
        hf_core_verify_invariants(w->core);
}

/* Checks the end: everything is released, and no claim outlives its last owner. */
void check_rest(struct world *w)
{
    struct hf_view_status status;

    hf_core_view_status(w->core, w->now, &status);
    for (unsigned p = 0; p < PROCS; p++)
        TRACE(w, "c%u: what %d, again %d, asked %d, blocked %d, claim %llx, answered %d", p,
              w->procs[p].ask.what, w->procs[p].again.what, w->procs[p].asked, w->procs[p].blocked,
              (unsigned long long)w->procs[p].claim, w->procs[p].answered);
    TRACE(w, "ready %d, grace %d", hf_core_claims_ready(w->core), status.grace_active);
    if (!nlm_is_idle(w) || status.waiters > 0 || status.locks > 0)
        violate(w, "everything ends", "%llu locks, %llu waiters", (unsigned long long)status.locks,
                (unsigned long long)status.waiters);
    if (status.claimed_files > 0 || status.claimed_ranges > 0)
        violate(w, "no claim stays after its last owner", "%llu files, %llu ranges",
                (unsigned long long)status.claimed_files,
                (unsigned long long)status.claimed_ranges);
    check_sum(w);
}
