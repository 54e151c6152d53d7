#include "work.h"

#include "process.h"
#include "world.h"

enum { LATEST_MS = 10000 }; /* more than the longest delay that config.c draws */

static struct sim_range draw_range(struct sim_world *world)
{
    struct sim_rng *rng = &world->rng;
    uint8_t first = (uint8_t)sim_rng_below(rng, SIM_CELLS);
    uint8_t longest = (uint8_t)(SIM_CELLS - 1 - first);
    uint8_t more = (uint8_t)sim_rng_below(rng, sim_rng_one_in(rng, 3) ? longest + 1u : 2);

    if (more > longest)
        more = longest;
    return (struct sim_range){(uint8_t)sim_rng_below(rng, world->config.files), first,
                              (uint8_t)(first + more)};
}

static struct sim_range whole_file(unsigned file)
{
    return (struct sim_range){(uint8_t)file, 0, SIM_CELLS - 1};
}

/* Picks a random lock that the owner has; false if it has none. */
static bool pick_held(struct sim_world *world, unsigned owner, struct sim_range *out)
{
    struct sim_range range = {0};
    enum sim_mode mode = SIM_FREE;
    uint32_t seen = 0;

    while (sim_oracle_next_run(&world->believed, owner, &range, &mode)) {
        if (sim_rng_below(&world->rng, ++seen) == 0)
            *out = range;
    }
    return seen > 0;
}

/* Unlocks a held lock or a part of it: an end, or a hole in the middle. */
static struct sim_message unlock_some(struct sim_world *world, struct sim_range held)
{
    struct sim_range range = held;

    if (sim_rng_one_in(&world->rng, 3)) {
        range.first = (uint8_t)sim_rng_range(&world->rng, held.first, held.last);
        range.last = (uint8_t)sim_rng_range(&world->rng, range.first, held.last);
    } else if (sim_rng_one_in(&world->rng, 6)) {
        range = whole_file(held.file);
    }
    return (struct sim_message){.call = SIM_CALL_UNLOCK, .range = range};
}

/* Makes a thread lock near a range that another thread waits for. */
static void lock_beside(struct sim_world *world, unsigned h, unsigned p, struct sim_message *lock)
{
    const struct sim_host *host = &world->hosts[h];
    const struct sim_message *other;

    for (unsigned i = 0; host->threaded && i < SIM_PROCS; i++) {
        other = &host->procs[i].want;
        if (i == p || host->procs[i].phase != SIM_WAITING || sim_rng_one_in(&world->rng, 2))
            continue;
        lock->exclusive = other->exclusive;
        lock->range.file = other->range.file;
        lock->range.first = (uint8_t)sim_rng_below(&world->rng, other->range.last + 1u);
        lock->range.last = (uint8_t)sim_rng_range(
            &world->rng,
            lock->range.first > other->range.first ? lock->range.first : other->range.first,
            SIM_CELLS - 1);
    }
}

/* A program asks for more around what it has, or for the same in another mode. */
static void lock_more(struct sim_world *world, unsigned h, unsigned p, struct sim_message *lock)
{
    struct sim_rng *rng = &world->rng;
    unsigned owner = sim_owner(h, sim_svid(&world->hosts[h], p));
    struct sim_range held = {0};

    if (!sim_rng_chance(rng, world->config.grows) || !pick_held(world, owner, &held))
        return;
    lock->range = held;
    lock->range.first = (uint8_t)sim_rng_below(rng, held.first + 1u);
    lock->range.last = (uint8_t)sim_rng_range(rng, held.last, SIM_CELLS - 1);
}

static struct sim_message lock_some(struct sim_world *world, unsigned h, unsigned p)
{
    struct sim_rng *rng = &world->rng;
    bool unmonitored = world->hosts[h].unmonitored || sim_rng_chance(rng, world->config.mixed);

    struct sim_message lock = {
        .call = unmonitored ? SIM_CALL_NM_LOCK : SIM_CALL_LOCK,
        .range = draw_range(world),
        .exclusive = sim_rng_below(rng, 5) < 3,
        .block = !world->hosts[h].unmonitored && sim_rng_one_in(rng, 2),
        .async = sim_rng_one_in(rng, 6),
    };

    lock_more(world, h, p, &lock);
    lock_beside(world, h, p, &lock);
    return lock;
}

static struct sim_message share_some(struct sim_world *world, unsigned h, unsigned p)
{
    struct sim_rng *rng = &world->rng;
    struct sim_process *process = &world->hosts[h].procs[p];
    struct sim_message share = {
        .call = sim_rng_one_in(rng, 2) ? SIM_CALL_SHARE : SIM_CALL_UNSHARE,
        .named = (uint8_t)h,
        .range = {.file = (uint8_t)sim_rng_below(rng, world->config.files)},
        .mode = (uint8_t)sim_rng_below(rng, 4),
        .access = (uint8_t)sim_rng_range(rng, 1, 3),
    };

    if (share.call == SIM_CALL_SHARE && process->shared.call && sim_rng_one_in(rng, 3))
        return process->shared;
    if (share.call == SIM_CALL_SHARE)
        process->shared = share;
    return share;
}

/* The program of a host that was booted opens what it had open. */
static bool opens_again(struct sim_world *world, struct sim_process *process)
{
    bool again = process->again && process->shared.call && sim_rng_one_in(&world->rng, 2);

    process->again = false;
    return again;
}

static void monitor_some(struct sim_world *world, unsigned h)
{
    static const enum sim_call calls[] = {SIM_CALL_SM_MON, SIM_CALL_SM_MON, SIM_CALL_SM_UNMON,
                                          SIM_CALL_SM_UNMON_ALL, SIM_CALL_SM_STAT};
    struct sim_message call = {.call = (uint8_t)calls[sim_rng_below(&world->rng, 5)],
                               .named =
                                   (uint8_t)sim_rng_below(&world->rng, world->config.hosts + 1u)};

    sim_client_call(world, h, SIM_SLOT_MISC, call);
}

/*
 * What a hostile or confused host sends: another's name from its own address, or a reclaim of
 * something it never had. None of this may change anything for another host.
 */
static void lie(struct sim_world *world, unsigned h)
{
    static const enum sim_call calls[] = {SIM_CALL_UNLOCK, SIM_CALL_CANCEL, SIM_CALL_FREE_ALL,
                                          SIM_CALL_SM_NOTIFY, SIM_CALL_LOCK};
    struct sim_rng *rng = &world->rng;
    struct sim_message call = {
        .call = (uint8_t)calls[sim_rng_below(rng, 5)],
        .named = (uint8_t)sim_rng_below(rng, world->config.hosts),
        .name = (uint8_t)sim_rng_below(rng, 2),
        .proc = (uint8_t)sim_rng_below(rng, SIM_PROCS),
        .range = draw_range(world),
        .exclusive = sim_rng_one_in(rng, 2),
        .state = (int32_t)(2 * sim_rng_below(rng, 50) + 1001),
    };

    /* The host's own name, but a reclaim of a lock that it never had. */
    if (call.call == SIM_CALL_LOCK) {
        call.named = (uint8_t)h;
        call.reclaim = true;
        call.proc = SIM_PROCS; /* an owner that never locks anything in earnest */
        call.state = 0;
        /* Where locks are not recorded, or may be lost, a reclaim can be checked only per client,
         * and a lie is not noticed. */
        if (world->hosts[h].unmonitored || !world->config.durable || world->config.host_crash_ms ||
            world->config.reconfigures)
            return;
    } else if (call.named == h) {
        return;
    }
    sim_client_call(world, h, SIM_SLOT_MISC, call);
}

/*
 * A notice in the name of another host, in a packet that carries that host's address. Its answer
 * goes to that host, which has not asked. While the host's status monitor answers, nothing may come
 * of it (SEC-04).
 */
static void forge(struct sim_world *world)
{
    struct sim_rng *rng = &world->rng;
    unsigned victim = sim_rng_below(rng, world->config.hosts);
    struct sim_message notice = {
        .call = SIM_CALL_SM_NOTIFY,
        .host = (uint8_t)victim,
        .named = (uint8_t)victim,
        .name = (uint8_t)sim_rng_below(rng, 2),
        .to_server = true,
        .slot = SIM_SLOT_MISC,
        .xid = 0x80000000u | sim_rng_below(rng, 0x40000000),
        .state = (int32_t)(2 * sim_rng_below(rng, 50) + 1001),
        .hidden.life = world->hosts[victim].life,
    };

    sim_world_fault(world, SIM_FAULT_FORGED);
    sim_net_send(world, &notice);
}

static bool all_idle(const struct sim_host *host)
{
    for (unsigned p = 0; p < SIM_PROCS; p++) {
        if (host->procs[p].phase != SIM_IDLE)
            return false;
    }
    return true;
}

/* Unlocks every file as a whole, even where this client believes to hold nothing: the server may
 * have granted a lock whose answer was lost. */
static struct sim_message tidy(struct sim_world *world, unsigned h, unsigned p)
{
    struct sim_process *process = &world->hosts[h].procs[p];

    if (world->hosts[h].unmonitored && process->tidied == 0) {
        /* The last UNLOCK ends the process's shares as well. */
        process->tidied = world->config.files;
        return (struct sim_message){.call = SIM_CALL_FREE_ALL};
    }
    if (process->tidied < world->config.files)
        return (struct sim_message){.call = SIM_CALL_UNLOCK,
                                    .range = whole_file(process->tidied++)};
    /* A FREE_ALL after a notice that was never verified leaves shares (CRS-02, seed 130076984). */
    if ((!world->hosts[h].unmonitored || world->model.doubtful[h]) && world->config.shares > 0 &&
        process->tidied < 2 * world->config.files)
        return (struct sim_message){
            .call = SIM_CALL_UNSHARE,
            .range = whole_file((unsigned)process->tidied++ - world->config.files)};
    process->finished = true;
    return (struct sim_message){.call = SIM_CALL_NONE};
}

/* What another thread of the process has in flight in this range; NULL if there is nothing. */
static const struct sim_message *other_thread(const struct sim_world *world, unsigned h, unsigned p,
                                              struct sim_range range)
{
    const struct sim_host *host = &world->hosts[h];

    for (unsigned i = 0; host->threaded && i < SIM_PROCS; i++) {
        if (i != p && host->procs[i].phase != SIM_IDLE &&
            sim_range_overlaps(host->procs[i].want.range, range))
            return &host->procs[i].want;
    }
    return NULL;
}

bool sim_work_is_asked_by_thread(const struct sim_world *world, unsigned h, unsigned p,
                                 struct sim_range range)
{
    const struct sim_message *other = other_thread(world, h, p, range);

    return other && sim_is_lock(other);
}

/*
 * Two requests of one owner that are in flight at the same time may arrive in either order. A sane
 * program sends only such pairs whose order makes no difference: locks of the same mode, or
 * unlocks.
 */
static bool clashes(const struct sim_world *world, unsigned h, unsigned p,
                    const struct sim_message *want)
{
    const struct sim_message *other = other_thread(world, h, p, want->range);

    if (!other || (!sim_is_lock(want) && want->call != SIM_CALL_UNLOCK))
        return false;
    return sim_is_lock(want) ? !sim_is_lock(other) || other->exclusive != want->exclusive
                             : sim_is_lock(other) || other->call == SIM_CALL_CANCEL;
}

static struct sim_message next_of_busy(struct sim_world *world, unsigned h, unsigned p)
{
    const struct sim_config *config = &world->config;
    struct sim_host *host = &world->hosts[h];
    struct sim_process *process = &host->procs[p];
    struct sim_rng *rng = &world->rng;
    struct sim_range held = {0};
    bool misc_free = !host->slots[SIM_SLOT_MISC].active;

    if (misc_free && sim_rng_chance(rng, config->mons))
        monitor_some(world, h);
    else if (misc_free && sim_rng_chance(rng, config->lies))
        sim_rng_one_in(rng, 4) ? forge(world) : lie(world, h);
    if (sim_rng_chance(rng, config->free_alls) && all_idle(host))
        return (struct sim_message){.call = SIM_CALL_FREE_ALL};
    if (config->shares && opens_again(world, process))
        return process->shared;
    if (sim_rng_chance(rng, config->shares))
        return share_some(world, h, p);
    if (sim_rng_chance(rng, config->tests))
        return (struct sim_message){
            .call = SIM_CALL_TEST, .range = draw_range(world), .exclusive = sim_rng_one_in(rng, 2)};
    if (pick_held(world, sim_owner(h, sim_svid(host, p)), &held) &&
        (process->shy || sim_rng_below(rng, 9) < 4))
        return process->shy ? (struct sim_message){.call = SIM_CALL_UNLOCK, .range = held}
                            : unlock_some(world, held);
    process->shy = false;
    return lock_some(world, h, p);
}

struct sim_message sim_work_next(struct sim_world *world, unsigned h, unsigned p)
{
    const struct sim_host *host = &world->hosts[h];
    struct sim_message none = {.call = SIM_CALL_NONE};
    struct sim_message want;

    if (!world->calm) {
        want = next_of_busy(world, h, p);
        return clashes(world, h, p, &want) ? none : want;
    }
    /* The process waits for the last late copy of a LOCK, and for threads that still lock. */
    if (world->now_ms <= world->calm_since_ms + LATEST_MS || (host->threaded && !all_idle(host)))
        return none;
    return tidy(world, h, p);
}
