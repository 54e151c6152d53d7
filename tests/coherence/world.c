#include "world.h"

#include <stdarg.h>
#include <string.h>

enum { BUSY_STEPS = 3000, CALM_STEPS = 60000 };

static const char *const handles[FILES] = {"file0", "file1"};

struct hf_bytes handle_of(unsigned file)
{
    return hf_bytes_str(handles[file]);
}

int file_of(struct hf_bytes fh)
{
    for (int f = 0; f < FILES; f++) {
        if (hf_bytes_equal(fh, handle_of((unsigned)f)))
            return f;
    }
    return -1;
}

struct range range_of(unsigned file, uint64_t first, uint64_t last)
{
    return (struct range){(uint8_t)file, first < CELLS ? (uint8_t)first : CELLS - 1,
                          last < CELLS ? (uint8_t)last : CELLS - 1};
}

struct range any_range(struct world *w)
{
    uint8_t a = (uint8_t)sim_rng_below(&w->rng, CELLS);
    uint8_t b = (uint8_t)sim_rng_below(&w->rng, CELLS);

    return (struct range){(uint8_t)sim_rng_below(&w->rng, FILES), a < b ? a : b, a < b ? b : a};
}

void violate(struct world *w, const char *what, const char *format, ...)
{
    va_list args;

    if (w->violation)
        return;
    w->violation = what;
    va_start(args, format);
    vsnprintf(w->detail, sizeof(w->detail), format, args);
    va_end(args);
    TRACE(w, "VIOLATION: %s: %s", what, w->detail);
}

static unsigned rate(struct world *w, unsigned one_in, unsigned low, unsigned high)
{
    return sim_rng_one_in(&w->rng, one_in) ? sim_rng_range(&w->rng, low, high) : 0;
}

static void init(struct world *w, uint64_t seed, FILE *trace)
{
    memset(w, 0, sizeof(*w));
    w->seed = seed;
    w->trace = trace;
    w->heap = (struct faulty_heap){.after = -1};
    w->alloc = faulty_alloc(&w->heap);
    w->now = (struct hf_now){1000, 1700000000000};
    sim_rng_init(&w->rng, seed);
    w->crashes = rate(w, 2, 100, 1000);
    w->keeper_deaths = rate(w, 2, 100, 1000);
    w->commit_fails = rate(w, 3, 5, 50);
    w->outside = sim_rng_range(&w->rng, 1, 12);
    w->no_memory = rate(w, 4, 20, 200);
    w->later = rate(w, 4, 5, 30);
    w->unmirrored = rate(w, 6, 10, 50);
    w->grant_unmirrored = w->unmirrored && sim_rng_one_in(&w->rng, 2);
    w->durable = !sim_rng_one_in(&w->rng, 4);
    w->simulated = rate(w, 3, 300, 1000);
    w->ranges = sim_rng_one_in(&w->rng, 4) ? sim_rng_range(&w->rng, 1, 3) : 1000;
    if (w->ranges < 1000) { /* the kernel reports UNMIRRORED when it has too few ranges */
        w->keeper_deaths = 0;
        w->grant_unmirrored = false;
    }
    w->keeper_up = true;
    TRACE(w, "durable %d, unmirrored 1 in %u%s, later 1 in %u, no memory 1 in %u", w->durable,
          w->unmirrored, w->grant_unmirrored ? " granted" : "", w->later, w->no_memory);
    for (unsigned p = 0; p < PROCS; p++)
        w->procs[p].life = 1;
}

/* Lets memory run out, perhaps, in whatever the daemon does in this step. */
static void may_run_out(struct world *w)
{
    w->heap.failed = false;
    w->heap.after =
        !w->calm && sim_rng_one_in(&w->rng, w->no_memory) ? (long)sim_rng_below(&w->rng, 4) : -1;
    w->heap.fail_n = 1;
}

static void trouble(struct world *w)
{
    if (w->core && sim_rng_one_in(&w->rng, w->crashes))
        daemon_crash(w);
    if (w->keeper_up && sim_rng_one_in(&w->rng, w->keeper_deaths)) {
        bool told = w->core && w->connected;

        keeper_die(w);
        if (told)
            hf_core_claims_lost(w->core, w->now);
    }
    if (w->core && w->started && sim_rng_one_in(&w->rng, w->simulated))
        nlm_simulate_crash(w);
    if (w->core && w->started && sim_rng_one_in(&w->rng, 400))
        nlm_reboot(w, sim_rng_below(&w->rng, PROCS));
}

static void later(struct world *w)
{
    w->now.mono_ms += sim_rng_below(&w->rng, LATE_MS);
    w->now.wall_ms = 1700000000000 + (int64_t)w->now.mono_ms;
    if (w->core)
        hf_core_tick(w->core, w->now);
}

static void daemon_step(struct world *w)
{
    switch (sim_rng_below(&w->rng, 5)) {
    case 0:
        if (w->committing)
            daemon_commit_done(w, !w->calm && sim_rng_one_in(&w->rng, w->commit_fails));
        break;
    case 1:
        if (w->n_results > 0)
            daemon_result(w);
        break;
    case 2:
        if (!w->connected && w->keeper_up && sim_rng_one_in(&w->rng, 4))
            daemon_connect(w);
        break;
    case 3:
        nlm_step(w);
        break;
    default:
        daemon_turn(w);
        break;
    }
}

static void step(struct world *w)
{
    w->step++;
    may_run_out(w);
    if (!w->calm)
        trouble(w);
    if (!w->core) {
        if (sim_rng_one_in(&w->rng, 10))
            daemon_start(w);
    } else if (sim_rng_one_in(&w->rng, 12)) {
        later(w);
    } else {
        daemon_step(w);
    }
    w->heap.after = -1;
    if (!w->keeper_up && sim_rng_one_in(&w->rng, 10))
        w->keeper_up = true;
    if (w->n_ops > 0 && sim_rng_one_in(&w->rng, 2))
        keeper_step(w);
    if (!w->calm && sim_rng_one_in(&w->rng, w->outside))
        outsider_step(w);
    check(w);
}

/* Lets the daemon do what is left, turn after turn, until nothing happens; true if nothing is left.
 */
static bool at_rest(const struct world *w)
{
    struct hf_view_status status;

    if (!w->core || !w->connected || !hf_core_claims_ready(w->core) || w->committing || w->n_ops ||
        w->n_results || !nlm_is_idle(w))
        return false;
    hf_core_view_status(w->core, w->now, &status);
    return !status.grace_active && status.locks == 0 && status.claimed_files == 0;
}

bool world_run(struct world *w, uint64_t seed, FILE *trace)
{
    init(w, seed, trace);
    daemon_start(w);
    while (!w->violation && w->step < BUSY_STEPS)
        step(w);
    w->calm = true;
    TRACE(w, "calm");
    outsiders_leave(w);
    for (unsigned i = 0; i < CALM_STEPS && !w->violation && !at_rest(w); i++) {
        if (i % 5000 == 4999 && w->core && w->started)
            (void)hf_core_grace_end(w->core, w->now);
        step(w);
    }
    if (!w->core)
        daemon_start(w);
    if (!w->violation)
        check_rest(w);
    return !w->violation;
}

void world_free(struct world *w)
{
    if (w->core)
        hf_core_del(w->core);
    if (w->heap.live != 0)
        violate(w, "no memory is leaked", "%ld blocks", w->heap.live);
    w->core = NULL;
    records_free(&w->records);
}
