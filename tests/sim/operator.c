#include "operator.h"

#include "door.h"
#include "process.h"
#include "world.h"

static void end_grace(struct sim_world *world)
{
    world->server.grace_until_ms = world->now_ms; /* the operator ends the grace period */
    (void)hf_core_grace_end(world->server.core, sim_now(world));
}

/* Picks a random client of the view; NULL if the view has none of this protocol. */
static bool pick_client(struct sim_world *world, struct hf_view_client *out, int *host)
{
    struct hf_view_client row;
    uint64_t cursor = 0;
    uint32_t n = 0;

    while (hf_core_view_clients(world->server.core, &cursor, UINT64_MAX, &row, 1) > 0) {
        if (row.record.protocol == HF_PROTOCOL_NLM && sim_rng_below(&world->rng, ++n) == 0)
            *out = row;
    }
    if (n == 0)
        return false;
    *host = sim_host_of_record(&out->record);
    return *host >= 0;
}

static void release_client(struct sim_world *world)
{
    struct hf_view_client client;
    struct hf_ticket wait;
    int host;

    if (!pick_client(world, &client, &host))
        return;
    (void)hf_core_release_client(world->server.core, sim_now(world), client.record.id, &wait);
    sim_model_host_gone(&world->model, (unsigned)host, !world->heap.failed && wait.decision == 0);
    sim_beliefs_host_gone(world, (unsigned)host);
}

static void release_lock(struct sim_world *world)
{
    struct hf_view_lock row;
    struct sim_range range = {0};
    uint64_t cursor = 0;
    struct hf_ticket wait;
    int host;
    int file;

    if (hf_core_view_locks(world->server.core, &cursor, UINT64_MAX, &row, 1) == 0)
        return;
    host = sim_host_of_client(world, row.record.client_id, &row.client_addr);
    file = sim_file_of_handle(row.record.fh);
    if (host < 0 || file < 0 ||
        !sim_range_of_bytes(world->config.layout, row.record.first, row.record.last, &range))
        return; /* the next reading of the view reports the unknown client */
    range.file = (uint8_t)file;
    if (hf_core_release_lock(world->server.core, sim_now(world), row.record.id, &wait) < 0)
        return;
    sim_model_unlocked(&world->model, sim_owner((unsigned)host, (unsigned)row.record.svid), range);
    sim_model_lapse(&world->model, sim_owner((unsigned)host, (unsigned)row.record.svid), range,
                    SIM_LAPSE_OPERATOR);
    sim_process_released(world, sim_owner((unsigned)host, (unsigned)row.record.svid), range);
}

/* Releases a file. Its waiters are removed, too; their clients repeat the request within 30 s. */
static void release_file(struct sim_world *world)
{
    struct sim_range file = {(uint8_t)sim_rng_below(&world->rng, world->config.files), 0,
                             SIM_CELLS - 1};
    struct sim_model *model = &world->model;
    struct hf_ticket wait;

    if (hf_core_release_file(world->server.core, sim_now(world), sim_file_handle(file.file),
                             &wait) < 0)
        return;
    sim_beliefs_file_released(world, file.file);
    for (unsigned o = 0; o < SIM_OWNERS; o++) {
        sim_model_unlocked(model, o, file);
        sim_model_lapse(model, o, file, SIM_LAPSE_OPERATOR);
        sim_process_released(world, o, file);
        sim_model_grants_over(model, o, file);
    }
    for (unsigned i = 0; i < model->n_waiters;) {
        if (model->waiters[i].range.file == file.file)
            sim_model_remove_waiter(model, i);
        else
            i++;
    }
}

/* The local status monitor says that a host has restarted. */
static void host_restarted(struct sim_world *world)
{
    unsigned h = sim_rng_below(&world->rng, world->config.hosts);
    int32_t state = world->hosts[h].state;
    int32_t recorded = sim_recorded_state(world, h);

    struct hf_sm_answer answer = hf_core_host_restarted(world->server.core, sim_now(world),
                                                        sim_host_name(h, SIM_NAME_LONG), state);

    if (answer.ticket.decision != 0)
        sim_door_undecided(world, h, state, recorded);
    else if (answer.ok && recorded >= 0 && recorded != state)
        sim_model_host_gone(&world->model, h, !world->heap.failed && world->model.told[h] != state);
    if (answer.ticket.decision == 0 && answer.ok)
        sim_beliefs_host_gone(world, h);
}

void sim_operator_acts(struct sim_world *world)
{
    static void (*const acts[])(struct sim_world *) = {end_grace, release_client, release_lock,
                                                       release_file, host_restarted};
    unsigned which = sim_rng_below(&world->rng, 6);

    if (which == 4 && world->config.twins) /* a release by name would concern both mounts */
        which = 5;

    if (!world->server.core || world->server.stopping)
        return;
    world->model.causes.server_event = true;
    SIM_WORLD_TRACE(world, which, 0, 0, "operator: %s",
                    which == 0   ? "ends grace"
                    : which == 1 ? "releases a client"
                    : which == 2 ? "releases a lock"
                    : which == 3 ? "releases a file"
                    : which == 4 ? "says that a host restarted"
                                 : "sends the notices again");
    if (which < 5)
        acts[which](world);
    else
        (void)hf_core_notify_again(world->server.core, sim_now(world), 0);
    sim_server_pump(world);
}
