#include <string.h>

#include "world.h"

/* ---- the kernel ---- */

/* The holder of a conflicting lock; -1: no holder has one. */
int kernel_conflict(const struct world *w, unsigned holder, struct range r, uint8_t mode)
{
    for (unsigned c = r.first; c <= r.last; c++) {
        for (unsigned h = 0; h < HOLDERS; h++) {
            uint8_t held = w->kernel[r.file][c][h];
            if (h != holder && held != HF_CLAIM_NONE &&
                (held == HF_CLAIM_EXCLUSIVE || mode == HF_CLAIM_EXCLUSIVE))
                return (int)h;
        }
    }
    return -1;
}

bool kernel_covers(const struct world *w, struct range r, uint8_t mode)
{
    for (unsigned c = r.first; c <= r.last; c++) {
        if (w->kernel[r.file][c][0] < mode && !w->refused[r.file][c])
            return false;
    }
    return true;
}

static void set(struct world *w, unsigned holder, struct range r, uint8_t mode, bool raise)
{
    for (unsigned c = r.first; c <= r.last; c++) {
        uint8_t *held = &w->kernel[r.file][c][holder];
        if (!raise || *held < mode)
            *held = mode;
    }
}

/* ---- programs outside ---- */

static void outsider_took(struct world *w, unsigned o)
{
    struct outsider *out = &w->outsiders[o];

    set(w, o + 1, out->range, out->mode, false);
    for (unsigned c = out->range.first; c <= out->range.last; c++)
        out->since[out->range.file][c] = w->step;
    out->waits = false;
    w->outside_grants++;
    TRACE(w, "outsider %u has file %u cells %u-%u mode %u", o, out->range.file, out->range.first,
          out->range.last, out->mode);
}

static void outsider_unlock(struct world *w, unsigned o, struct range r)
{
    set(w, o + 1, r, HF_CLAIM_NONE, false);
    TRACE(w, "outsider %u releases file %u cells %u-%u", o, r.file, r.first, r.last);
    kernel_changed(w);
}

static void outsider_dies(struct world *w, unsigned o)
{
    w->outsiders[o].waits = false;
    for (uint8_t f = 0; f < FILES; f++)
        outsider_unlock(w, o, (struct range){f, 0, CELLS - 1});
}

void outsider_step(struct world *w)
{
    unsigned o = sim_rng_below(&w->rng, OUTSIDE);
    struct outsider *out = &w->outsiders[o];

    if (sim_rng_one_in(&w->rng, 20)) {
        outsider_dies(w, o);
        return;
    }
    if (out->waits)
        return;
    out->range = any_range(w);
    if (sim_rng_one_in(&w->rng, 2)) {
        outsider_unlock(w, o, out->range);
        return;
    }
    out->mode = sim_rng_one_in(&w->rng, 2) ? HF_CLAIM_SHARED : HF_CLAIM_EXCLUSIVE;
    if (kernel_conflict(w, o + 1, out->range, out->mode) < 0)
        outsider_took(w, o);
    else
        out->waits = sim_rng_one_in(&w->rng, 2);
}

void outsiders_leave(struct world *w)
{
    for (unsigned o = 0; o < OUTSIDE; o++)
        outsider_dies(w, o);
}

/* ---- the keeper ---- */

static void answer(struct world *w, struct hf_claim_result result)
{
    if (w->n_results < PIPE)
        w->results[w->n_results++] = result;
    else
        violate(w, "the simulator", "too many results");
}

static bool wait_served(struct world *w, struct wait *wait)
{
    if (wait->id == 0 || kernel_conflict(w, 0, wait->range, wait->mode) >= 0)
        return false;
    set(w, 0, wait->range, wait->mode, true);
    answer(w, (struct hf_claim_result){.id = wait->id, .outcome = HF_CLAIM_DONE});
    wait->id = 0;
    w->waits_made++;
    return true;
}

/* Grants requests that wait in the kernel, in any order: fairness is the kernel's business. */
void kernel_changed(struct world *w)
{
    unsigned n = OUTSIDE + WAITS;
    unsigned from = sim_rng_below(&w->rng, n);

    for (unsigned i = 0; i < n; i++) {
        unsigned k = (from + i) % n;
        if (k >= OUTSIDE) {
            if (w->keeper_up)
                (void)wait_served(w, &w->waits[k - OUTSIDE]);
        } else if (w->outsiders[k].waits &&
                   kernel_conflict(w, k + 1, w->outsiders[k].range, w->outsiders[k].mode) < 0) {
            outsider_took(w, k);
        }
    }
}

static struct hf_claim_holder holder_of(const struct world *w, unsigned h, struct range r,
                                        uint8_t mode)
{
    for (unsigned c = r.first; c <= r.last; c++) {
        uint8_t held = w->kernel[r.file][c][h];
        if (held == HF_CLAIM_EXCLUSIVE || (held != HF_CLAIM_NONE && mode == HF_CLAIM_EXCLUSIVE)) {
            struct range cell = {r.file, (uint8_t)c, (uint8_t)c};
            return (struct hf_claim_holder){first_byte(cell), last_byte(cell),
                                            held == HF_CLAIM_EXCLUSIVE, 1000 + (int32_t)h};
        }
    }
    return (struct hf_claim_holder){0};
}

static void begin_wait(struct world *w, const struct op *op)
{
    for (unsigned i = 0; i < WAITS; i++) {
        struct wait *wait = &w->waits[i];
        if (wait->id != 0)
            continue;
        *wait = (struct wait){op->claim.id, op->range, (uint8_t)op->claim.mode};
        (void)wait_served(w, wait);
        return;
    }
    answer(w, (struct hf_claim_result){.id = op->claim.id, .outcome = HF_CLAIM_LATER});
}

static void cancel(struct world *w, uint64_t id)
{
    for (unsigned i = 0; i < WAITS; i++) {
        if (w->waits[i].id != id)
            continue;
        w->waits[i].id = 0;
        answer(w, (struct hf_claim_result){.id = id, .outcome = HF_CLAIM_CANCELLED});
    }
}

/* Lets one operation reach the keeper, which sends a result for each but CANCEL. */
void keeper_step(struct world *w)
{
    struct op op = w->ops[0];
    struct hf_claim_result result = {.id = op.claim.id};
    int holder = kernel_conflict(w, 0, op.range, (uint8_t)op.claim.mode);

    memmove(w->ops, w->ops + 1, --w->n_ops * sizeof(w->ops[0]));
    TRACE(w, "keeper: kind %d file %u cells %u-%u mode %d id %llx: %d", op.claim.kind,
          op.range.file, op.range.first, op.range.last, op.claim.mode,
          (unsigned long long)op.claim.id, holder);
    switch (op.claim.kind) {
    case HF_CLAIM_RAISE:
    case HF_CLAIM_TEST:
        if (!w->calm && sim_rng_one_in(&w->rng, w->later)) {
            result.outcome = HF_CLAIM_LATER;
        } else if (!w->calm && sim_rng_one_in(&w->rng, w->unmirrored)) {
            result.outcome = sim_rng_one_in(&w->rng, 2) ? HF_CLAIM_UNMIRRORED : HF_CLAIM_FULL;
            for (unsigned c = op.range.first; c <= op.range.last; c++)
                w->refused[op.range.file][c] |= op.claim.kind == HF_CLAIM_RAISE;
        } else if (holder >= 0) {
            result.outcome = HF_CLAIM_HELD;
            result.holder = holder_of(w, (unsigned)holder, op.range, (uint8_t)op.claim.mode);
            w->refusals++;
        } else if (op.claim.kind == HF_CLAIM_RAISE) {
            set(w, 0, op.range, (uint8_t)op.claim.mode, true);
        }
        answer(w, result);
        break;
    case HF_CLAIM_SET:
        for (unsigned c = op.range.first; c <= op.range.last; c++) {
            if (w->kernel[op.range.file][c][0] < (uint8_t)op.claim.mode)
                violate(w, "SET only lowers", "file %u cell %u", op.range.file, c);
        }
        set(w, 0, op.range, (uint8_t)op.claim.mode, false);
        answer(w, result);
        kernel_changed(w);
        break;
    case HF_CLAIM_WAIT:
        begin_wait(w, &op);
        break;
    case HF_CLAIM_CANCEL:
        cancel(w, op.claim.id);
        break;
    }
}

/* Loses the operations that the keeper has not read, and all results. What the keeper waits for in
 * the kernel is not granted. */
void keeper_disconnect(struct world *w)
{
    while (w->keeper_up && w->n_ops > 0 && !sim_rng_one_in(&w->rng, 3))
        keeper_step(w); /* the keeper may still read what was sent before the end */
    memset(w->waits, 0, sizeof(w->waits));
    w->n_ops = w->n_results = 0;
    w->connected = false;
}

void keeper_die(struct world *w)
{
    TRACE(w, "the keeper dies");
    w->keeper_up = w->synced = false;
    keeper_disconnect(w);
    for (unsigned f = 0; f < FILES; f++) {
        for (unsigned c = 0; c < CELLS; c++) {
            w->kernel[f][c][0] = HF_CLAIM_NONE;
            for (unsigned p = 0; p < PROCS; p++)
                w->procs[p].shaky[f][c] = true;
        }
    }
    kernel_changed(w);
}
