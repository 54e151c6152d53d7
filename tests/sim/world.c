#include "world.h"

#include <stdarg.h>
#include <string.h>

#include "calls.h"
#include "door.h"
#include "invariants.h"
#include "trouble.h"

enum {
    /* The world must run this long: notices are repeated for 15 minutes, grace may begin after
       that, and registrations outlive the last lock by up to 5 minutes. */
    REST_MS = 2000000,
    EVENTS_MAX = 200000, /* a world that does not come to rest is broken */
    REST_CHECK_EVERY = 32,
};

static void on_alloc_failure(void *ctx)
{
    sim_world_fault(ctx, SIM_FAULT_ALLOC_FAILED);
}

void sim_world_init(struct sim_world *world, const struct sim_config *config, FILE *trace)
{
    memset(world, 0, sizeof(*world));
    world->config = *config;
    world->trace.out = trace;
    world->heap = (struct faulty_heap){.after = -1, .on_failure = on_alloc_failure, .ctx = world};
    world->alloc = faulty_alloc(&world->heap);
    world->call_attempts = hf_core_config_default().call_attempts;
    sim_names_begin(config->twins);
    sim_rng_init(&world->rng, config->seed);
    sim_queue_init(&world->queue);
    sim_net_init(&world->net);
    sim_model_init(&world->model);
}

void sim_world_free(struct sim_world *world)
{
    if (world->server.core) {
        sim_wire_stop(world);
        hf_core_del(world->server.core);
    }
    records_free(&world->server.records);
    sim_pages_free(&world->server.pages);
    sim_net_free(&world->net);
    sim_queue_free(&world->queue);
}

void sim_world_violation(struct sim_world *world, const char *invariant, const char *format, ...)
{
    va_list args;

    if (world->violation)
        return;
    world->violation = invariant;
    va_start(args, format);
    vsnprintf(world->detail, sizeof(world->detail), format, args);
    va_end(args);
    if (world->trace.out)
        sim_trace_print(&world->trace, world->now_ms, "VIOLATION: %s: %s", invariant,
                        world->detail);
}

/*
 * Linux looks neither at the cookie of GRANTED nor at the kind of lock. A client that waits for the
 * same range again, perhaps in another mode, takes the GRANTED of an outcall that has ended, or of
 * a server that has died, for its own.
 */
/* True for a late copy of a callback that was sent before the process made its present request. The
 * server may have granted that by now, too, but not durably, so that it has promised nothing yet
 * (seed 100321955). */
static bool is_from_before(const struct sim_process *process, const struct sim_message *call)
{
    return call->hidden.sent_ms < process->since_ms;
}

/* True if a process asks for the range in exclusive mode and gets the callback to an old copy of a
 * shared request. The server could not know that, if it sent the callback before it saw the new
 * request. */
static bool is_for_an_old_request(const struct sim_process *process, uint32_t asked_op,
                                  const struct sim_message *call)
{
    return process->want.exclusive && !call->exclusive && asked_op != process->op;
}

void sim_world_callback_taken(struct sim_world *world, unsigned p, const struct sim_message *call)
{
    const struct sim_process *process = &world->hosts[call->host].procs[p];
    unsigned owner = sim_owner(call->host, call->proc);

    if (!world->server.core || call->hidden.epoch != world->server.epoch ||
        !sim_model_is_granting(&world->model, owner, call->range) ||
        is_from_before(process, call) ||
        is_for_an_old_request(process, world->model.asked_op[sim_owner(call->host, p)], call))
        sim_model_lapse(&world->model, owner, call->range, SIM_LAPSE_OLD_CALLBACK);
}

static void begin(struct sim_world *world)
{
    const struct sim_config *config = &world->config;

    for (unsigned h = 0; h < config->hosts; h++) {
        /* The last machine may be one that monitors nothing. */
        world->hosts[h].unmonitored =
            (config->nm_locks || config->shares) && h == config->hosts - 1u && !config->twins;
        world->hosts[h].threaded = config->threads && h % 2 == 1;
        sim_client_start(world, h);
    }
    sim_trouble_init(world);
    sim_queue_push(&world->queue,
                   (struct sim_event){.at_ms = config->busy_ms, .kind = SIM_EVENT_CALM});
    sim_server_start(world);
    sim_check_event(world);
}

static void on_message(struct sim_world *world, const struct sim_event *event)
{
    struct sim_message message = sim_net_take(&world->net, event->what);

    if (message.to_server)
        sim_server_on_message(world, &message);
    else
        sim_client_on_message(world, &message);
}

static void dispatch(struct sim_world *world, const struct sim_event *event)
{
    switch ((enum sim_event_kind)event->kind) {
    case SIM_EVENT_MESSAGE:
        on_message(world, event);
        break;
    case SIM_EVENT_RESEND:
        sim_client_on_resend(world, event->who, event->what, (uint32_t)event->generation);
        break;
    case SIM_EVENT_PROCESS:
        sim_client_on_process(world, event->who, event->what, (uint32_t)event->generation);
        break;
    case SIM_EVENT_BOOT:
        sim_client_on_boot(world, event->who, (uint32_t)event->generation);
        break;
    case SIM_EVENT_COMMIT:
        sim_server_on_commit(world, (uint32_t)event->generation);
        break;
    case SIM_EVENT_FLUSH:
        sim_pages_on_flush(world, (uint32_t)event->generation);
        break;
    case SIM_EVENT_WAKE:
        sim_server_on_wake(world, (uint32_t)event->generation);
        break;
    case SIM_EVENT_CALL:
        sim_calls_on_timeout(world, event->what, event->generation);
        break;
    case SIM_EVENT_FAULT:
        sim_trouble_strikes(world, event);
        break;
    case SIM_EVENT_HEAL:
        sim_trouble_heals(world, event);
        break;
    case SIM_EVENT_START:
        sim_server_start(world);
        break;
    case SIM_EVENT_CALM:
        sim_trouble_ends(world);
        break;
    case SIM_EVENT_LAST_RESTART:
        sim_trouble_restarts(world);
        break;
    }
}

/* True when no event is left for which the world has to run on. */
static bool at_rest(const struct sim_world *world)
{
    struct hf_view_status status;

    if (!world->calm || world->restart_due || !world->server.core || world->server.committing)
        return false;
    for (unsigned h = 0; h < world->config.hosts; h++) {
        if (!sim_client_is_done(world, h))
            return false;
    }
    hf_core_view_status(world->server.core, sim_now(world), &status);
    return !status.grace_active && !status.waiters && !status.locks &&
           !status.notices[HF_NOTICE_PENDING] && !status.notices[HF_NOTICE_FAILING] &&
           !status.nlm_clients;
}

bool sim_world_run(struct sim_world *world)
{
    struct sim_event event;

    begin(world);
    while (!world->violation && sim_queue_pop(&world->queue, &event)) {
        world->now_ms = event.at_ms;
        world->stats.events++;
        sim_trace_mix(&world->trace, event.kind, event.at_ms, event.who);
        dispatch(world, &event);
        sim_check_event(world);
        if (world->calm && world->stats.events % REST_CHECK_EVERY == 0 && at_rest(world))
            break;
        if (world->calm && world->now_ms > world->calm_since_ms + REST_MS)
            break;
        if (world->stats.events > EVENTS_MAX)
            sim_world_violation(world, "everything heals", "the world does not come to rest");
    }
    if (!world->violation)
        sim_check_calm(world);
    return !world->violation;
}
