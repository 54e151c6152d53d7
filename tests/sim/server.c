#include "server.h"

#include <string.h>

#include "answers.h"
#include "base/assert.h"
#include "base/error.h"
#include "calls.h"
#include "disk.h"
#include "door.h"
#include "invariants.h"
#include "world.h"

enum { RESTART_MS = 1000 };

/* ------------------------------------------------------------------ time */

/*
 * The server's monotonic clock: begins anywhere, never runs backwards, and runs a little fast or
 * slow against the world. Its wall clock jumps as the world likes.
 */
static uint64_t mono_at(const struct sim_world *world, uint64_t at_ms)
{
    int64_t drift = (int64_t)(at_ms - world->server.started_ms) * world->config.drift / 1000;

    return world->server.mono_base_ms + (at_ms - world->server.started_ms) + (uint64_t)drift;
}

struct hf_now sim_now(const struct sim_world *world)
{
    return (struct hf_now){.mono_ms = mono_at(world, world->now_ms),
                           .wall_ms =
                               1700000000000 + (int64_t)world->now_ms + world->wall_offset_ms};
}

/* The first moment of the world at which the server's own clock shows mono_ms. */
static uint64_t world_at(const struct sim_world *world, uint64_t mono_ms)
{
    uint64_t at_ms = world->server.started_ms;

    if (mono_ms > world->server.mono_base_ms)
        at_ms +=
            (mono_ms - world->server.mono_base_ms) * 1000 / (uint64_t)(1000 + world->config.drift);
    while (mono_at(world, at_ms) < mono_ms)
        at_ms++;
    return at_ms;
}

/* ------------------------------------------------------------------ messages */

void sim_server_on_message(struct sim_world *world, const struct sim_message *message)
{
    if (!world->server.core || world->server.stopping)
        return;
    if (message->answer) {
        sim_calls_on_answer(world, message);
    } else if (world->config.monitor && message->call < SIM_CALL_SM_NOTIFY) {
        return; /* the call goes to the kernel's lock manager, which is not simulated */
    } else if (sim_answers_repeat(world, message)) {
        return;
    } else {
        world->model.causes.server_event = true;
        sim_door_execute(world, message);
    }
    sim_server_pump(world);
}

/* ------------------------------------------------------------------ commits */

static uint32_t commit_time(struct sim_world *world, bool *in_doubt)
{
    const struct sim_config *config = &world->config;
    uint32_t pause_ms = sim_rng_range(&world->rng, 0, config->commit_ms);

    *in_doubt = !world->calm && sim_rng_chance(&world->rng, config->commit_unknown);
    if (*in_doubt) { /* the store must ask or send again until it knows (core.h) */
        sim_world_fault(world, SIM_FAULT_COMMIT_UNKNOWN);
        pause_ms += sim_rng_below(&world->rng, 8000);
    }
    if (!world->calm && sim_rng_chance(&world->rng, config->commit_slow)) {
        sim_world_fault(world, SIM_FAULT_COMMIT_SLOW);
        pause_ms += sim_rng_below(&world->rng, 3000);
    }
    return pause_ms;
}

static void push_commit(struct sim_world *world, uint32_t pause_ms)
{
    sim_queue_push(&world->queue, (struct sim_event){.at_ms = world->now_ms + pause_ms,
                                                     .kind = SIM_EVENT_COMMIT,
                                                     .generation = world->server.run});
}

static void begin_commit(struct sim_world *world)
{
    struct sim_server *server = &world->server;
    bool in_doubt;
    bool fails;
    uint32_t pause_ms;

    server->committing = hf_core_take_batch(server->core);
    if (!server->committing)
        return;
    server->committing_since = world->stats.events;
    server->writing = sim_pages_may_write(world, server->committing);
    /* The flush begins at the end of the turn, after everything that happens at this moment. */
    if (server->writing) {
        server->commit_result = 0;
        push_commit(world, 0);
        return;
    }
    pause_ms = commit_time(world, &in_doubt);
    server->commits++;
    fails = server->outage ||
            (world->fail_commit && server->commits - world->fail_commit < world->fail_commits) ||
            (!world->calm && sim_rng_chance(&world->rng, world->config.commit_fails));
    server->commit_result = !fails ? 0 : sim_rng_one_in(&world->rng, 2) ? HF_EIO : HF_ENOSPC;
    server->commit_twice = in_doubt;
    push_commit(world, pause_ms);
}

static void write_to_disk(struct sim_world *world)
{
    struct sim_server *server = &world->server;

    if (server->writing) {
        sim_pages_write(world, server->committing);
        return;
    }
    records_apply(&server->records, server->committing);
    if (server->commit_twice)
        /* A batch that is written twice must change nothing. */
        records_apply(&server->records, server->committing);
    sim_pages_committed(world, server->committing);
    sim_disk_read(world);
}

static void stop_if_done(struct sim_world *world)
{
    struct sim_server *server = &world->server;

    if (server->stopping && hf_core_durable(server->core) >= server->stop_seq)
        sim_server_crash(world);
}

void sim_server_on_commit(struct sim_world *world, uint32_t run)
{
    struct sim_server *server = &world->server;
    uint64_t seq;
    int result = server->commit_result;

    if (!server->core || server->run != run || !server->committing)
        return;
    seq = server->committing->seq;
    world->model.causes.server_event = true;
    SIM_WORLD_TRACE(world, seq, (uint64_t)(int64_t)result, server->committing->n_ops,
                    "server: batch %llu of %u operations %s", (unsigned long long)seq,
                    server->committing->n_ops,
                    result            ? "failed"
                    : server->writing ? "is written"
                                      : "is durable");
    if (result == 0)
        write_to_disk(world);
    server->committing = NULL;
    if (result != 0) {
        sim_world_fault(world, SIM_FAULT_COMMIT_FAILED);
        world->model.causes.rolled_back = true;
    }
    sim_wire_batch_done(world, seq, result);
    if (result && server->stopping) {
        sim_server_crash(world);
        return;
    }
    sim_server_pump(world);
    stop_if_done(world);
}

/* ------------------------------------------------------------------ running */

static void schedule_wake(struct sim_world *world)
{
    struct sim_server *server = &world->server;
    uint64_t deadline = hf_core_deadline(server->core);
    uint64_t at_ms;

    if (deadline == UINT64_MAX)
        return;
    at_ms = world_at(world, deadline);
    if (at_ms < world->now_ms)
        at_ms = world->now_ms;
    if (server->wake_at_ms > world->now_ms && server->wake_at_ms <= at_ms)
        return; /* an earlier event is queued, and calls this function again */
    server->wake_at_ms = at_ms;
    sim_queue_push(
        &world->queue,
        (struct sim_event){.at_ms = at_ms, .kind = SIM_EVENT_WAKE, .generation = server->run});
}

static void read_events(struct sim_world *world)
{
    static const char *const names[] = {
        [HF_EVENT_CLIENT_REGISTERED] = "client registered",
        [HF_EVENT_CLIENT_UNREGISTERED] = "client unregistered",
        [HF_EVENT_CLIENT_CRASHED] = "client crashed",
        [HF_EVENT_CLIENT_UNREACHABLE] = "client unreachable",
        [HF_EVENT_CLIENT_OUTSIDE] = "lost to a holder outside",
        [HF_EVENT_CLIENT_UNRECLAIMED] = "client did not reclaim",
        [HF_EVENT_CLIENT_UNTOLD] = "client cannot be told",
        [HF_EVENT_CLIENT_DEAD] = "client declared dead",
        [HF_EVENT_CLIENT_RELEASED] = "client released",
        [HF_EVENT_CLIENT_MOVED] = "client moved",
        [HF_EVENT_CLIENT_DOUBLED] = "two hosts with one name",
        [HF_EVENT_STATE_HINT] = "another state in a LOCK",
        [HF_EVENT_NOTIFY_STRANGER] = "SM_NOTIFY of a stranger",
        [HF_EVENT_NOTICE_REFUTED] = "notice contradicted",
        [HF_EVENT_GRACE_BEGAN] = "grace began",
        [HF_EVENT_GRACE_ENDED] = "grace ended",
        [HF_EVENT_NOTICE_DELIVERED] = "notice delivered",
        [HF_EVENT_NOTICE_FAILED] = "notice failed",
        [HF_EVENT_NOTICE_GIVEN_UP] = "notice given up",
        [HF_EVENT_GRANT_FAILED] = "grant failed",
        [HF_EVENT_WAITERS_DROPPED] = "waiters dropped",
        [HF_EVENT_COMMIT_FAILED] = "commit failed",
        [HF_EVENT_LIMIT_HIT] = "limit reached",
    };
    struct hf_event event;

    while (hf_core_next_event(world->server.core, &event))
        SIM_WORLD_TRACE(world, event.kind, event.a, event.b,
                        "server: event: %s (client %llx: %lld, %lld)", names[event.kind],
                        (unsigned long long)event.client_id, (long long)event.a,
                        (long long)event.b);
}

void sim_server_pump(struct sim_world *world)
{
    struct sim_server *server = &world->server;

    if (!server->core)
        return;
    sim_wire_settle(world);
    if (!server->committing)
        begin_commit(world);
    sim_calls_begin(world);
    read_events(world);
    schedule_wake(world);
}

void sim_server_on_wake(struct sim_world *world, uint32_t run)
{
    struct sim_server *server = &world->server;

    if (!server->core || server->run != run || server->stopping)
        return;
    if (server->wake_at_ms == world->now_ms)
        server->wake_at_ms = 0;
    world->model.causes.server_event = true;
    hf_core_tick(server->core, sim_now(world));
    sim_server_pump(world);
}

/* ------------------------------------------------------------------ start and end */

static struct hf_core_config core_config(const struct sim_world *world)
{
    const struct sim_config *c = &world->config;
    struct hf_core_config config = hf_core_config_default();

    config.server_name = sim_server_name();
    config.limits = (struct hf_limits){.clients = c->max_clients,
                                       .locks_per_owner = 1000,
                                       .locks_per_client = c->max_locks_per_client,
                                       .locks_per_file = c->max_locks_per_file,
                                       .locks = c->max_locks,
                                       .waiters_per_file = c->max_waiters,
                                       .waiters_per_owner = 1000,
                                       .waiters_per_client = 1000,
                                       .clients_per_host = 100,
                                       .locks_per_host = c->max_locks_per_host,
                                       .registrations_per_host = 100,
                                       .beyond = c->new_limits ? 3 : 1000};
    config.budgets.serve = c->serve_budget;
    config.budgets.release = c->release_budget;
    config.grace_mode = c->conflict_mode ? HF_GRACE_CONFLICT : HF_GRACE_STRICT;
    config.grace_ms = c->grace_ms;
    config.durable_locks = c->durable;
    config.role = c->monitor ? HF_ROLE_MONITOR : HF_ROLE_LOCKS;
    config.unflushed = c->process;
    config.continues = c->continues;
    config.boot_id[0] = (uint8_t)(world->server.pages.boot + 1);
    config.linger_ms = c->linger_ms;
    config.on_failure = c->keep_on_failure ? HF_ON_FAILURE_KEEP : HF_ON_FAILURE_RELEASE;
    config.notify_in_flight = c->in_flight;
    config.verify_notices = c->verify;
    config.hash_key = (struct hf_hash_key){c->seed, ~c->seed};
    return config;
}

/* True if an earlier start found that the host had crashed, and grace has not ended since. */
static bool recorded_tail_lost(const struct sim_server *server)
{
    const struct stored_record *record = records_find(&server->records, HF_RECORD_SERVER, 0);
    struct hf_record_server decoded;

    return record && hf_record_decode_server(record_bytes(record), &decoded) == 0 &&
           decoded.locks_unknown;
}

static int load_records(struct sim_server *server)
{
    struct hf_loader *loader = hf_loader_new(server->core);
    int rv = loader ? 0 : HF_ENOMEM;

    for (unsigned i = 0; i < server->records.count && rv == 0; i++) {
        const struct stored_record *record = server->records.at[i];

        rv = hf_loader_add(loader, record->kind, record_bytes(record));
    }
    if (rv == 0)
        rv = hf_loader_end(loader);
    hf_loader_del(loader);
    return rv;
}

/* Notes what clients may hold and the disk does not know: such locks come back only by being
 * reclaimed. */
static void note_unrecorded(struct sim_world *world)
{
    struct sim_server *server = &world->server;

    for (unsigned f = 0; f < SIM_FILES; f++) {
        for (unsigned c = 0; c < SIM_CELLS; c++) {
            for (unsigned o = 0; o < SIM_OWNERS; o++) {
                uint8_t had = world->believed.mode[f][c][o];

                if (had < world->model.held.mode[f][c][o])
                    had = world->model.held.mode[f][c][o];
                if (!world->hosts[o / SIM_PROCS].unmonitored && had > server->disk.mode[f][c][o])
                    server->lost.mode[f][c][o] = had;
            }
        }
    }
}

/* Notes whether clients may hold locks that are not recorded (SPEC section 14). */
static void note_unknown(struct sim_world *world)
{
    struct sim_server *server = &world->server;
    bool crashed =
        world->config.process && server->pages.boot != server->pages.epoch_boot && !server->clean;
    bool unrecorded = server->durable_epoch > 0 && !server->recorded;

    server->tail_lost =
        world->config.durable &&
        (recorded_tail_lost(server) || (server->durable_epoch > 0 && crashed) || unrecorded);
    if (world->config.durable && unrecorded)
        note_unrecorded(world);
}

static int load(struct sim_world *world)
{
    struct sim_server *server = &world->server;
    int rv = load_records(server);

    if (rv == HF_ENOMEM)
        return rv;
    if (rv < 0)
        sim_world_violation(world, "after a crash the state is what was acknowledged",
                            "a stored record was refused: %s", hf_strerror(rv));
    server->loaded_digest = hf_core_digest(server->core);
    rv = hf_core_start(server->core, sim_now(world));
    if (rv == 0) {
        note_unknown(world);
        sim_pages_opened(world);
    }
    return rv;
}

/* The operator has changed the configuration since the last run. */
static void reconfigure(struct sim_world *world)
{
    struct sim_config *c = &world->config;
    bool durable = c->durable;

    if (!c->reconfigures || world->server.run == 0 || !sim_rng_one_in(&world->rng, 2))
        return;
    c->durable = !sim_rng_one_in(&world->rng, 3);
    c->process = c->durable && sim_rng_one_in(&world->rng, 3);
    c->conflict_mode = c->durable && sim_rng_one_in(&world->rng, 2);
    c->continues = !world->calm && c->durable && sim_rng_one_in(&world->rng, 2);
    if (c->durable != durable)
        /* With another configuration the digest has other locks. */
        world->server.idle_at_crash = false;
    sim_world_fault(world, SIM_FAULT_RECONFIGURED);
    SIM_WORLD_TRACE(world, c->durable, c->process, c->conflict_mode,
                    "server: durable %d, process %d, conflict mode %d", c->durable, c->process,
                    c->conflict_mode);
}

/*
 * The server becomes a status monitor, or serves locks again (SPEC section 14). Meanwhile a kernel
 * serves the locks: clients reclaim there, and the model drops what they believe to hold.
 */
static void change_role(struct sim_world *world)
{
    struct sim_config *c = &world->config;

    if (!c->roles || world->server.run == 0)
        return;
    c->monitor = !world->calm && !sim_rng_one_in(&world->rng, 3);
    if (!c->monitor)
        return;
    memset(&world->believed, 0, sizeof(world->believed));
    sim_world_fault(world, SIM_FAULT_MONITOR);
    SIM_WORLD_TRACE(world, 0, 0, 0, "server: is a status monitor only");
}

/* True if nothing was lost that clients rely on (REC-01). */
static bool may_continue(const struct sim_world *world)
{
    const struct sim_server *server = &world->server;
    bool crashed =
        world->config.process && server->pages.boot != server->pages.epoch_boot && !server->clean;

    return world->config.continues && world->config.durable && server->durable_epoch > 0 &&
           server->records_all && server->complete && !world->config.monitor &&
           !server->was_monitor && !crashed && !recorded_tail_lost(server);
}

/* Checks the state number: a monitor that is started again in the same boot of its host keeps its
 * number. */
static void note_number(struct sim_world *world)
{
    struct sim_server *server = &world->server;
    bool same_boot = server->pages.boot == server->pages.epoch_boot;

    server->continued = may_continue(world);
    server->number_epoch = server->continued || (server->durable_epoch > 0 && server->was_monitor &&
                                                 world->config.monitor && same_boot)
                               ? server->durable_number
                               : server->durable_epoch + 1;
}

/* Draws which of our addresses come up later than the server (NOT-03). */
static void draw_late_addresses(struct sim_world *world)
{
    struct sim_server *server = &world->server;

    server->late_until_ms = 0;
    if (world->config.late_ms_max == 0 || world->calm || sim_rng_one_in(&world->rng, 2))
        return;
    server->late_hosts = sim_rng_below(&world->rng, 1U << SIM_HOSTS);
    server->late_until_ms =
        world->now_ms + sim_rng_range(&world->rng, 100, world->config.late_ms_max);
    sim_world_fault(world, SIM_FAULT_ADDRESS_LATE);
}

static void start_failed(struct sim_world *world)
{
    if (world->server.core)
        hf_core_del(world->server.core);
    world->server.core = NULL;
    sim_queue_push(&world->queue, (struct sim_event){.at_ms = world->now_ms + RESTART_MS,
                                                     .kind = SIM_EVENT_START});
}

void sim_server_start(struct sim_world *world)
{
    struct sim_server *server = &world->server;
    struct hf_core_config config;

    if (server->core)
        return;
    if (world->config.new_limits && server->run > 0)
        sim_config_new_limits(&world->config, &world->rng);
    reconfigure(world);
    change_role(world);
    note_number(world);
    draw_late_addresses(world);
    config = core_config(world);
    server->started_ms = world->now_ms;
    server->mono_base_ms = sim_rng_below(&world->rng, 1000000);
    server->core = hf_core_new(&config, &world->alloc);
    if (!server->core || load(world) < 0) {
        start_failed(world);
        return;
    }
    sim_wire_start(world);
    server->run++;
    server->stopping = false;
    server->wake_at_ms = 0;
    memset(server->notices_failed, 0, sizeof(server->notices_failed));
    server->grace_until_ms = world_at(world, sim_now(world).mono_ms + world->config.grace_ms);
    world->model.causes.server_event = true;
    world->model.causes.restarted = true;
    if (server->continued) {
        sim_world_fault(world, SIM_FAULT_CONTINUED);
    } else {
        memset(world->model.locked_op, 0, sizeof(world->model.locked_op));
        sim_check_crashed(world);
    }
    SIM_WORLD_TRACE(world, server->run, server->records.count, 0,
                    "server: starts with %u records on disk", server->records.count);
    sim_check_started(world);
    sim_server_pump(world);
}

/* Draws how much of the batches in flight the disk has: each is there completely or not at all.
 * Returns the last batch that the disk has. */
static uint64_t lose_or_keep_batch(struct sim_world *world)
{
    struct sim_server *server = &world->server;
    uint64_t durable = hf_core_durable(server->core);

    if (!server->committing)
        return durable;
    sim_world_fault(world, SIM_FAULT_CRASH_IN_COMMIT);
    if (server->commit_result == 0 && sim_rng_one_in(&world->rng, 2)) {
        durable = server->committing->seq;
        write_to_disk(world);
    }
    server->committing = NULL;
    return durable;
}

/* A lock that comes back from the disk does not belong to the life that took it anew in a lost
 * batch (seed 110018596): the model then does not know its life. */
static void forget_lives(struct sim_model *model, uint64_t durable)
{
    for (unsigned f = 0; f < SIM_FILES; f++) {
        for (unsigned c = 0; c < SIM_CELLS; c++) {
            for (unsigned o = 0; o < SIM_OWNERS; o++) {
                if (model->fresh[f][c][o] > durable + 1)
                    model->life[f][c][o] = 0;
            }
        }
    }
}

/* The new run counts batches from the start, so no grant of the old one is undone any more. */
static void forget_waits(struct sim_model *model)
{
    memset(model->granted, 0, sizeof(model->granted));
    model->n_granted = 0;
}

/* True if the disk has the life of which the host's latest LOCK told, and a lock of it. */
static bool has_recorded_life(const struct sim_world *world, unsigned host)
{
    const struct sim_model *model = &world->model;

    for (unsigned f = 0; f < SIM_FILES; f++) {
        for (unsigned c = 0; c < SIM_CELLS; c++) {
            for (unsigned o = sim_owner(host, 0); o < sim_owner(host + 1, 0); o++) {
                if (world->server.disk.mode[f][c][o] != SIM_FREE &&
                    model->life[f][c][o] == model->told[host])
                    return true;
            }
        }
    }
    return false;
}

void sim_server_crash(struct sim_world *world)
{
    struct sim_server *server = &world->server;

    if (!server->core)
        return;
    SIM_WORLD_TRACE(world, server->run, server->stopping, hf_list_empty(&server->wire.asked),
                    "server: %s%s", server->stopping ? "stops" : "is killed",
                    hf_list_empty(&server->wire.asked) ? "" : " with answers unsent");
    server->idle_at_crash = !server->committing;
    server->idle_digest = hf_core_digest(server->core);
    forget_lives(&world->model, lose_or_keep_batch(world));
    sim_wire_stop(world);
    hf_core_del(server->core);
    server->core = NULL;
    if (world->heap.live != 0)
        sim_world_violation(world, "no leak", "%lld blocks are left after the core was deleted",
                            (long long)world->heap.live);
    memset(server->cache, 0, sizeof(server->cache));
    memset(server->calls, 0, sizeof(server->calls));
    for (unsigned h = 0; h < SIM_HOSTS; h++) {
        world->model.doubtful[h] |= world->model.notice[h].pending;
        world->model.told_unsure[h] |= !has_recorded_life(world, h);
    }
    memset(world->model.notice, 0, sizeof(world->model.notice));
    forget_waits(&world->model);
    memset(world->model.releasing, 0, sizeof(world->model.releasing));
    sim_queue_push(&world->queue,
                   (struct sim_event){.at_ms = world->now_ms + sim_rng_range(&world->rng, 1, 4000),
                                      .kind = SIM_EVENT_START});
}

/* Notes what a crash has cost: a lock whose reclaim will fail because another client's lock, whose
 * release was lost, is still on the disk (DUR-02). */
static void note_lost(struct sim_world *world, const struct sim_oracle *before)
{
    struct sim_server *server = &world->server;

    for (uint8_t f = 0; f < SIM_FILES; f++) {
        for (uint8_t c = 0; c < SIM_CELLS; c++) {
            for (unsigned o = 0; o < SIM_OWNERS; o++) {
                uint8_t had = before->mode[f][c][o];
                struct sim_range cell = {f, c, c};

                if (had <= server->disk.mode[f][c][o])
                    continue;
                server->lost.mode[f][c][o] = had;
                if (sim_oracle_conflict(&server->disk, o, cell, had == SIM_EXCLUSIVE) >= 0)
                    sim_model_lapse(&world->model, o, cell, SIM_LAPSE_CONFLICTS);
            }
        }
    }
}

void sim_server_host_crash(struct sim_world *world)
{
    bool was_up = world->server.core != NULL;
    struct sim_oracle before;

    SIM_WORLD_TRACE(world, world->server.pages.n_written, 0, 0,
                    "server: its host crashes with %u batches not flushed",
                    world->server.pages.n_written);
    sim_server_crash(world);
    if (!world->config.process) { /* all is flushed */
        world->server.pages.boot++;
        return;
    }
    before = world->server.disk;
    sim_pages_lose(world, was_up);
    note_lost(world, &before);
    world->server.idle_at_crash = false;
}

bool sim_server_is_blind(const struct sim_world *world)
{
    return !world->config.durable || world->server.tail_lost;
}

void sim_server_stop(struct sim_world *world)
{
    struct sim_server *server = &world->server;

    if (!server->core || server->stopping)
        return;
    world->model.causes.server_event = true;
    server->stop_seq = hf_core_stop(server->core, sim_now(world));
    server->stopping = true;
    sim_server_pump(world);
    stop_if_done(world);
}

void sim_server_simu_crash(struct sim_world *world)
{
    struct sim_server *server = &world->server;
    struct sim_asked *asked;

    if (!server->core || server->stopping)
        return;
    world->model.causes.server_event = true;
    world->model.causes.restarted = true;
    asked = sim_wire_ask(world, &(struct sim_message){.call = SIM_CALL_SIMU_CRASH});
    server->number_epoch = ++server->epoch;
    server->continued = false;
    forget_waits(&world->model);
    memset(world->model.locked_op, 0, sizeof(world->model.locked_op));
    sim_wire_leave(asked);
    sim_check_crashed(world);
    /* Hosts that the core has given up, and could not strip of their locks yet, stay given up. */
    if (!server->committing && world->now_ms > world->model.redo_until_ms)
        memset(server->notices_failed, 0, sizeof(server->notices_failed));
    server->grace_until_ms = world_at(world, sim_now(world).mono_ms + world->config.grace_ms);
    SIM_WORLD_TRACE(world, server->run, 0, 0, "server: SM_SIMU_CRASH");
    sim_server_pump(world);
}
