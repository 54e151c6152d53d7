#include "run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

#include "calls.h"
#include "door.h"
#include "invariants.h"
#include "tap.h"

/*
 * Small worlds, completely: two clients with one process each, one file, three ranges (two that
 * touch and one that overlaps both), and every sequence of operations up to a depth:
 *
 *     LOCK, blocking, shared or exclusive     2 clients x 3 ranges x 2
 *     LOCK, not blocking, beside a waiter     2 clients x 3 ranges x 2
 *     UNLOCK                                  2 clients x 3 ranges
 *     CANCEL of whatever waits                2 clients
 *     SM_NOTIFY with a new state              2 clients
 *
 * What is left out, and why nothing is lost by it:
 *   - the first LOCK is always client 0's: the clients differ only in their names;
 *   - an operation that changed nothing (model and digest are the same) is checked but not
 *     continued from: what follows is among the shorter sequences;
 *   - TEST, LOCK without block where it is denied, repeated LOCKs, CANCEL of nothing: they change
 *     nothing, so instead of branching every one of them is asked at every state (probe), and the
 *     state compared;
 *   - LOCK without block where it is granted and no request waits is the same as with block;
 *   - from the fourth operation on, sequences that lead to the same state (who holds what, who
 *     waits in which order, who is known) are continued only once. That is a real saving, and rests
 *     on the core having no memory besides, which hf_core_verify_invariants() checks after every
 *     step. How many sequences are covered that way is counted, not guessed.
 *
 * At every state, when it is first seen, the server is killed and started again: the state must be
 * the same, and every lock reclaimable by its owner only.
 *
 * The core cannot be copied, so each sequence is replayed from the start. Every commit succeeds at
 * once here; faults are the business of the other modes.
 */
enum {
    CLIENTS = 2,
    RANGES = 3,
    DEPTH_MAX = 8,
    MERGE_FROM = 4, /* from this many operations on, a state is continued only once */
    SEEN_SIZE = 1 << 20,
};

static const struct sim_range ranges[RANGES] = {{0, 0, 1}, {0, 2, 3}, {0, 1, 2}};

enum act { ACT_LOCK, ACT_LOCK_NOW, ACT_UNLOCK, ACT_CANCEL, ACT_NOTIFY, ACTS };

struct step {
    uint8_t act;
    uint8_t client;
    uint8_t range;
    bool exclusive;
};

/* A state and the number of operations that may still follow, with the number of sequences that
 * begin there. */
struct seen_state {
    uint64_t key; /* 0: free */
    uint64_t sequences;
};

struct search {
    struct sim_world world;
    struct seen_state *seen; /* open addressing */
    struct step steps[DEPTH_MAX];
    unsigned depth;
    bool strict;
    uint64_t states;
    uint64_t run[DEPTH_MAX + 1]; /* sequences executed */
    uint64_t dead_ends;          /* operations that changed nothing */
    uint64_t operations;
    uint64_t failed;
};

static struct sim_config small_world(bool strict)
{
    return (struct sim_config){.seed = 1,
                               .hosts = CLIENTS,
                               .files = 1,
                               .check_every = 1,
                               .durable = true,
                               .conflict_mode = !strict,
                               .grace_ms = 90000,
                               .linger_ms = 300000,
                               .in_flight = 16,
                               .max_clients = 100,
                               .max_locks = 1000,
                               .max_locks_per_client = 1000,
                               .max_locks_per_file = 1000,
                               .max_locks_per_host = 1000,
                               .serve_budget = 4000,
                               .release_budget = 8000,
                               .max_waiters = 1000};
}

/* Lets commits and callbacks succeed at once, until the network holds no message. */
static void settle(struct sim_world *world)
{
    struct sim_server *server = &world->server;
    bool more = true;

    while (more && !world->violation) {
        more = false;
        sim_check_event(world);
        if (server->committing) {
            sim_server_on_commit(world, server->run);
            more = true;
        }
        for (unsigned i = 0; i < SIM_CALLS_OUT && !more; i++) {
            if (!server->calls[i].used)
                continue;
            sim_server_on_message(world, &(struct sim_message){.call = SIM_CALL_GRANTED,
                                                               .answer = true,
                                                               .to_server = true,
                                                               .host = server->calls[i].host,
                                                               .cookie = server->calls[i].cookie,
                                                               .stat = HF_STAT_GRANTED});
            more = true;
        }
    }
    while (world->queue.count > 0) {
        struct sim_event event;

        sim_queue_pop(&world->queue, &event);
        if (event.kind == SIM_EVENT_MESSAGE)
            sim_net_take(&world->net, event.what);
    }
}

static void ask(struct sim_world *world, struct sim_message request)
{
    request.named = request.host;
    request.to_server = true;
    request.xid = ++world->hosts[0].xid;
    request.hidden.op = 0;
    world->model.causes.server_event = true;
    sim_door_execute(world, &request);
    sim_server_pump(world);
}

static void start(struct search *search)
{
    struct sim_config config = small_world(search->strict);
    struct sim_world *world = &search->world;

    sim_world_init(world, &config, NULL);
    for (unsigned h = 0; h < CLIENTS; h++) {
        world->hosts[h].up = true;
        world->hosts[h].state = 1;
    }
    sim_server_start(world);
    settle(world);
}

/* True if the step is possible here: CANCEL needs a waiter, and so does a LOCK beside one. */
static bool applies(const struct search *search, const struct step *step)
{
    const struct sim_model *model = &search->world.model;

    if (step->act == ACT_LOCK_NOW)
        return model->n_waiters > 0 &&
               sim_oracle_conflict(&model->held, sim_owner(step->client, 0), ranges[step->range],
                                   step->exclusive) < 0;
    return step->act != ACT_CANCEL ||
           sim_model_find_waiter(model, sim_owner(step->client, 0), ranges[step->range],
                                 step->exclusive) >= 0;
}

static void apply(struct search *search, const struct step *step)
{
    struct sim_world *world = &search->world;
    struct sim_message request = {.host = step->client,
                                  .range = ranges[step->range],
                                  .exclusive = step->exclusive,
                                  .state = world->hosts[step->client].state};

    switch ((enum act)step->act) {
    case ACT_LOCK:
        request.call = SIM_CALL_LOCK;
        request.block = true;
        break;
    case ACT_LOCK_NOW:
        request.call = SIM_CALL_LOCK;
        break;
    case ACT_UNLOCK:
        request.call = SIM_CALL_UNLOCK;
        break;
    case ACT_CANCEL:
        request.call = SIM_CALL_CANCEL;
        break;
    default:
        request.call = SIM_CALL_SM_NOTIFY;
        request.state = world->hosts[step->client].state += 2;
        break;
    }
    search->operations++;
    ask(world, request);
    settle(world);
}

/* Sends each request that must change nothing in this state, and compares the states. */
static void probe(struct search *search)
{
    struct sim_world *world = &search->world;
    struct sim_seen before = world->model.seen;

    for (uint8_t h = 0; h < CLIENTS; h++) {
        for (unsigned r = 0; r < RANGES * 2; r++) {
            struct sim_message request = {.call = SIM_CALL_TEST,
                                          .host = h,
                                          .range = ranges[r / 2],
                                          .exclusive = r % 2,
                                          .state = world->hosts[h].state};

            ask(world, request);
            if (sim_oracle_conflict(&world->model.held, sim_owner(h, 0), request.range,
                                    request.exclusive) >= 0) {
                request.call = SIM_CALL_LOCK;
                ask(world, request);
            }
            request.call = SIM_CALL_CANCEL;
            if (sim_model_find_waiter(&world->model, sim_owner(h, 0), request.range,
                                      request.exclusive) < 0)
                ask(world, request);
            search->operations += 3;
        }
    }
    settle(world);
    if (!sim_seen_equal(&before, &world->model.seen))
        sim_world_violation(world, "a repeated request changes nothing", "a probe did");
}

/* Kills and starts the server: the state must be the same, and each lock must be reclaimable by its
 * owner only. */
static void crash(struct search *search)
{
    struct sim_world *world = &search->world;
    struct sim_oracle held = world->model.held;

    sim_server_crash(world);
    sim_server_start(world);
    settle(world);
    for (uint8_t h = 0; h < CLIENTS && !world->violation; h++) {
        struct sim_range range = {0};
        enum sim_mode mode = SIM_FREE;

        while (sim_oracle_next_run(&held, sim_owner(h, 0), &range, &mode)) {
            struct sim_message request = {.call = SIM_CALL_LOCK,
                                          .range = range,
                                          .reclaim = true,
                                          .exclusive = mode == SIM_EXCLUSIVE};

            request.host = (uint8_t)(CLIENTS - 1 - h);
            if (sim_oracle_holds(&held, sim_owner(request.host, 0), range, SIM_FREE))
                ask(world, request); /* a reclaim by another owner: the model says DENIED */
            request.host = h;
            ask(world, request);
            settle(world);
        }
    }
    if (memcmp(&held, &world->model.held, sizeof(held)) != 0)
        sim_world_violation(world, "after a crash the state is what was acknowledged",
                            "after everything was reclaimed it differs");
    if (world->model.seen.grace)
        sim_world_violation(world, "grace ends early", "all is reclaimed and it goes on");
}

static void report(struct search *search, unsigned depth)
{
    static const char *const acts[ACTS] = {"lock", "lock now", "unlock", "cancel", "restart"};

    if (search->failed++ >= 5)
        return;
    printf("# %s: %s, after:", search->world.violation, search->world.detail);
    for (unsigned i = 0; i < depth; i++)
        printf(" %s(%u, %u-%u%s)", acts[search->steps[i].act], search->steps[i].client,
               ranges[search->steps[i].range].first, ranges[search->steps[i].range].last,
               search->steps[i].exclusive ? " x" : "");
    putchar('\n');
}

/* A hash of everything in a state that can influence what follows. */
static uint64_t key_of(const struct search *search, unsigned left)
{
    const struct sim_model *model = &search->world.model;
    struct sim_trace mix = {.hash = left + 1};

    for (unsigned c = 0; c < SIM_CELLS; c++)
        sim_trace_mix(&mix, model->held.mode[0][c][sim_owner(0, 0)],
                      model->held.mode[0][c][sim_owner(1, 0)], c);
    for (unsigned i = 0; i < model->n_waiters; i++)
        sim_trace_mix(&mix, model->waiters[i].owner, model->waiters[i].range.first,
                      model->waiters[i].range.last * 4u + model->waiters[i].passes * 2u +
                          model->waiters[i].exclusive);
    sim_trace_mix(&mix, search->world.server.registered[0], search->world.server.registered[1], 0);
    return mix.hash | 1;
}

/* The table entry of a key, or the free entry where it belongs. */
static struct seen_state *find_state(struct search *search, uint64_t key)
{
    uint64_t i = key >> 1;

    while (search->seen[i % SEEN_SIZE].key != 0 && search->seen[i % SEEN_SIZE].key != key)
        i++;
    return &search->seen[i % SEEN_SIZE];
}

/* Remembers the state, whatever number of operations may follow; true if it is new. */
static bool is_new(struct search *search)
{
    struct seen_state *state = find_state(search, key_of(search, DEPTH_MAX + 1));

    if (state->key != 0)
        return false;
    state->key = key_of(search, DEPTH_MAX + 1);
    search->states++;
    return true;
}

/* Replays the first `depth` steps in a new world. */
static void replay(struct search *search, unsigned depth)
{
    start(search);
    /* Earlier steps were checked when they were the last of their sequence. */
    search->world.config.check_every = 0;
    for (unsigned i = 0; i < depth; i++)
        apply(search, &search->steps[i]);
    search->world.config.check_every = 1;
}

/* Executes one more step; false if it changed nothing. */
static bool step_on(struct search *search, const struct step *step)
{
    struct sim_world *world = &search->world;
    struct sim_seen before = world->model.seen;
    uint64_t digest = hf_core_digest(world->server.core);

    apply(search, step);
    return digest != hf_core_digest(world->server.core) ||
           !sim_seen_equal(&before, &world->model.seen);
}

static uint64_t extend(struct search *search, unsigned depth);

/*
 * The world stands at the end of a sequence that ends in a change: looks at the state, ends the
 * world, and goes on with what follows. Returns how many sequences that covers.
 */
static uint64_t visit(struct search *search, unsigned depth)
{
    struct sim_world *world = &search->world;
    uint64_t key = key_of(search, search->depth - depth);
    bool good;

    search->run[depth]++;
    if (!world->violation && is_new(search)) {
        probe(search);
        if (!world->violation)
            crash(search);
    }
    good = !world->violation;
    if (!good)
        report(search, depth);
    sim_world_free(world);
    if (!good || depth == search->depth)
        return good;
    if (depth < MERGE_FROM || find_state(search, key)->key != key) {
        uint64_t sequences = extend(search, depth);

        *find_state(search, key) = (struct seen_state){key, sequences};
    }
    return 1 + find_state(search, key)->sequences;
}

/* Tries one step from where the world stands; *ready says whether it still stands there. */
static uint64_t try(struct search *search, unsigned depth, struct step step, bool *ready)
{
    if (!*ready)
        replay(search, depth);
    *ready = true;
    if (!applies(search, &step))
        return 0;
    search->steps[depth] = step;
    if (!step_on(search, &step) && !search->world.violation) {
        search->dead_ends++;
        return 0;
    }
    *ready = false;
    return visit(search, depth + 1);
}

static uint64_t extend(struct search *search, unsigned depth)
{
    uint64_t covered = 0;
    bool ready = false;

    for (uint8_t client = 0; client < (depth == 0 ? 1 : CLIENTS); client++) {
        for (uint8_t act = 0; act < ACTS; act++) {
            unsigned n_ranges = act == ACT_NOTIFY ? 1 : RANGES;
            unsigned n_modes = act == ACT_UNLOCK || act == ACT_NOTIFY ? 1 : 2;

            for (unsigned i = 0; i < n_ranges * n_modes; i++) {
                struct step step = {act, client, (uint8_t)(i / n_modes), i % n_modes};

                covered += try(search, depth, step, &ready);
            }
        }
    }
    if (ready)
        sim_world_free(&search->world);
    return covered;
}

static void explore(struct search *search, bool strict, unsigned depth)
{
    uint64_t run = 0;
    uint64_t covered;

    memset(search, 0, sizeof(*search));
    search->seen = calloc(SEEN_SIZE, sizeof(search->seen[0]));
    HF_ASSERT(search->seen);
    search->depth = depth < DEPTH_MAX ? depth : DEPTH_MAX;
    search->strict = strict;
    covered = extend(search, 0);
    for (unsigned d = 1; d <= search->depth; d++) {
        printf("# %u operations: %" PRIu64 " sequences run\n", d, search->run[d]);
        run += search->run[d];
    }
    tap_result(search->failed == 0,
               "%s grace: %" PRIu64 " sequences of up to %u operations, covered by %" PRIu64
               " runs through %" PRIu64 " states; %" PRIu64 " operations without effect; %" PRIu64
               " operations in all",
               strict ? "strict" : "conflict", covered, search->depth, run, search->states,
               search->dead_ends, search->operations);
    free(search->seen);
}

int sim_run_exhaustive(unsigned depth)
{
    static struct search search;

    explore(&search, true, depth);
    /* Durability makes a difference only after a restart. */
    explore(&search, false, depth > 1 ? depth - 1 : depth);
    return tap_done();
}
