#include "client.h"

#include <string.h>

#include "door.h"
#include "process.h"
#include "world.h"

enum {
    RESEND_MAX_MS = 10000,
    /* sm-notify waits 2 s after the first attempt, doubles the pause up to 2 min, and gives up
       after 15 min. */
    NOTIFY_FIRST_MS = 2000,
    NOTIFY_MAX_MS = 120000,
    NOTIFY_GIVE_UP_MS = 900000,
};

static bool is_notify(unsigned slot)
{
    return slot == SIM_SLOT_NOTIFY_LONG || slot == SIM_SLOT_NOTIFY_SHORT;
}

static void arm(struct sim_world *world, unsigned h, unsigned s)
{
    struct sim_slot *slot = &world->hosts[h].slots[s];

    sim_queue_push(&world->queue, (struct sim_event){.at_ms = world->now_ms + slot->pause_ms,
                                                     .kind = SIM_EVENT_RESEND,
                                                     .who = (uint16_t)h,
                                                     .what = s,
                                                     .generation = slot->generation});
}

void sim_client_call(struct sim_world *world, unsigned h, unsigned s, struct sim_message call)
{
    struct sim_host *host = &world->hosts[h];
    struct sim_slot *slot = &host->slots[s];

    call.host = (uint8_t)h;
    call.to_server = true;
    call.slot = (uint8_t)s;
    call.xid = ++host->xid;
    call.hidden.life = host->life;
    *slot = (struct sim_slot){.active = true,
                              .generation = slot->generation + 1,
                              .pause_ms = is_notify(s) ? NOTIFY_FIRST_MS : world->config.resend_ms,
                              .since_ms = world->now_ms,
                              .call = call};
    sim_net_send(world, &call);
    arm(world, h, s);
}

void sim_client_on_resend(struct sim_world *world, unsigned h, unsigned s, uint32_t generation)
{
    struct sim_slot *slot = &world->hosts[h].slots[s];
    uint32_t max_ms = is_notify(s) ? NOTIFY_MAX_MS : RESEND_MAX_MS;

    if (!slot->active || slot->generation != generation)
        return;
    if (is_notify(s) && world->now_ms - slot->since_ms > NOTIFY_GIVE_UP_MS) {
        slot->active = false;
        return;
    }
    sim_net_send(world, &slot->call);
    slot->pause_ms = slot->pause_ms * 2 < max_ms ? slot->pause_ms * 2 : max_ms;
    arm(world, h, s);
}

/* ------------------------------------------------------------------ its life and death */

static void say_restarted(struct sim_world *world, unsigned h)
{
    struct sim_message notice = {.call = SIM_CALL_SM_NOTIFY,
                                 .named = (uint8_t)h,
                                 .name = SIM_NAME_LONG,
                                 .state = world->hosts[h].state};

    sim_client_call(world, h, SIM_SLOT_NOTIFY_LONG, notice);
    notice.name = SIM_NAME_SHORT;
    sim_client_call(world, h, SIM_SLOT_NOTIFY_SHORT, notice);
}

void sim_client_start(struct sim_world *world, unsigned h)
{
    struct sim_host *host = &world->hosts[h];

    host->up = true;
    host->state = (int32_t)(2 * host->life + 1);
    host->monitor_ms = world->now_ms;
    if (host->life > 0 && sim_rng_one_in(&world->rng, 3))
        host->monitor_ms += sim_rng_below(&world->rng, 5000);
    host->server_state = 0;
    /* The xids of a new life do not repeat those of the last one. */
    host->xid = (host->life << 20) + h * 7919u;
    for (unsigned p = 0; p < SIM_PROCS; p++)
        sim_process_start(world, h, p);
}

static void crash_one(struct sim_world *world, unsigned h, uint32_t down_ms)
{
    struct sim_host *host = &world->hosts[h];

    host->up = false;
    host->dead = down_ms == 0;
    host->n_reclaims = host->next_reclaim = 0;
    for (unsigned s = 0; s < SIM_SLOTS; s++) {
        host->slots[s].active = false;
        host->slots[s].generation++;
    }
    for (unsigned p = 0; p < SIM_PROCS; p++)
        sim_process_stop(&host->procs[p]);
    sim_oracle_drop_host(&world->believed, h);
    sim_beliefs_host_gone(world, h);
    SIM_WORLD_TRACE(world, h, down_ms, 0, "h%u crashes%s", h, down_ms ? "" : " for good");
    if (down_ms)
        sim_queue_push(&world->queue, (struct sim_event){.at_ms = world->now_ms + down_ms,
                                                         .kind = SIM_EVENT_BOOT,
                                                         .who = (uint16_t)h,
                                                         .generation = ++host->timer});
}

void sim_client_crash(struct sim_world *world, unsigned h, uint32_t down_ms)
{
    for (unsigned s = 0; s < world->config.hosts; s++) {
        if (sim_machine(s) == sim_machine(h))
            crash_one(world, s, down_ms);
    }
}

bool sim_client_is_up(const struct sim_world *world, unsigned h)
{
    for (unsigned s = 0; s < world->config.hosts; s++) {
        if (sim_machine(s) == sim_machine(h) && !world->hosts[s].up)
            return false;
    }
    return true;
}

void sim_client_on_boot(struct sim_world *world, unsigned h, uint32_t generation)
{
    struct sim_host *host = &world->hosts[h];

    if (host->up || host->dead || host->timer != generation)
        return;
    host->life++;
    sim_client_start(world, h);
    SIM_WORLD_TRACE(world, h, host->state, 0, "h%u is up again, state %d", h, host->state);
    if (!host->unmonitored)
        say_restarted(world, h);
}

/* ------------------------------------------------------------------ when the server restarts */

/* Forgets what was locked by NM_LOCK: a restart of the server ends such locks. */
static void drop_unrecorded(struct sim_world *world, unsigned h)
{
    for (unsigned f = 0; f < SIM_FILES; f++) {
        for (unsigned c = 0; c < SIM_CELLS; c++) {
            for (unsigned o = sim_owner(h, 0); o < sim_owner(h + 1, 0); o++) {
                if (world->unrecorded.mode[f][c][o] != SIM_FREE)
                    world->believed.mode[f][c][o] = SIM_FREE;
            }
        }
    }
}

/* The kernel reclaims from its own list of locks, with state 0 (docs/internals/PROTOCOL-NOTES.md).
 */
static void list_reclaims(struct sim_world *world, unsigned h)
{
    struct sim_host *host = &world->hosts[h];

    drop_unrecorded(world, h);
    /* The list does not wait for a reclaim that is in flight. */
    host->slots[SIM_SLOT_RECLAIM].active = false;
    host->n_reclaims = host->next_reclaim = 0;
    for (unsigned p = 0; p < SIM_PROCS; p++) {
        struct sim_range range = {0};
        enum sim_mode mode = SIM_FREE;

        while (sim_oracle_next_run(&world->believed, sim_owner(h, p), &range, &mode))
            host->reclaims[host->n_reclaims++] =
                (struct sim_reclaim){.proc = (uint8_t)p, .mode = (uint8_t)mode, .range = range};
    }
}

static void reclaim_next(struct sim_world *world, unsigned h)
{
    struct sim_host *host = &world->hosts[h];
    const struct sim_reclaim *next = &host->reclaims[host->next_reclaim];

    if (host->next_reclaim == host->n_reclaims) {
        for (unsigned p = 0; p < SIM_PROCS; p++)
            /* When all reclaims are done, the waiting processes ask again. */
            sim_process_repeat(world, h, p);
        return;
    }
    sim_client_call(world, h, SIM_SLOT_RECLAIM,
                    (struct sim_message){.call = SIM_CALL_LOCK,
                                         .named = (uint8_t)h,
                                         .proc = next->proc,
                                         .range = next->range,
                                         .exclusive = next->mode == SIM_EXCLUSIVE,
                                         .reclaim = true});
}

static void reclaim_answered(struct sim_world *world, unsigned h, const struct sim_message *answer)
{
    struct sim_host *host = &world->hosts[h];
    const struct sim_reclaim *done = &host->reclaims[host->next_reclaim];

    if (answer->stat != HF_STAT_GRANTED) {
        sim_world_fault(world, SIM_FAULT_RECLAIM_REFUSED);
        sim_oracle_set(&world->believed, sim_owner(h, done->proc), done->range, SIM_FREE);
    }
    host->next_reclaim++;
    reclaim_next(world, h);
}

static void server_restarted(struct sim_world *world, unsigned h, int32_t state)
{
    struct sim_host *host = &world->hosts[h];

    if (!host->up || host->server_state == state)
        return; /* a copy of a notice that the client has seen */
    host->server_state = state;
    if (host->unmonitored)
        return;
    /* Begins again from the start of the list, even if a reclaim was in flight. */
    list_reclaims(world, h);
    reclaim_next(world, h);
}

/* The kernel takes the address in the notice for the server that has restarted, whichever mount
 * uses it. */
static void on_notice(struct sim_world *world, const struct sim_message *notice)
{
    for (unsigned s = 0; s < world->config.hosts; s++) {
        if (sim_is_same_server(notice->host, s))
            server_restarted(world, s, notice->state);
    }
}

/* ------------------------------------------------------------------ messages */

static void answer_call(struct sim_world *world, const struct sim_message *call, uint8_t stat)
{
    struct sim_message answer = *call;

    answer.answer = true;
    answer.to_server = true;
    answer.stat = stat;
    answer.hidden.life = world->hosts[call->host].life;
    sim_net_send(world, &answer);
}

static void on_answer(struct sim_world *world, const struct sim_message *answer)
{
    struct sim_host *host = &world->hosts[answer->host];
    struct sim_slot *slot = &host->slots[answer->slot];

    if (!slot->active || slot->call.xid != answer->xid)
        return; /* a second answer to the same request */
    slot->active = false;
    if (answer->slot < SIM_PROCS)
        sim_process_answered(world, answer->host, answer->slot, answer);
    else if (answer->slot == SIM_SLOT_RECLAIM)
        reclaim_answered(world, answer->host, answer);
}

void sim_client_on_message(struct sim_world *world, const struct sim_message *message)
{
    if (!world->hosts[message->host].up)
        return;
    if (message->answer) {
        on_answer(world, message);
    } else if (message->call == SIM_CALL_GRANTED) {
        answer_call(world, message, sim_process_granted(world, message));
    } else if (message->call == SIM_CALL_STAT) {
        struct sim_message stat = *message;

        stat.state = world->hosts[message->host].state;
        if (world->now_ms >= world->hosts[message->host].monitor_ms)
            answer_call(world, &stat, HF_STAT_GRANTED);
    } else {
        if (message->call == SIM_CALL_NOTIFY)
            on_notice(world, message);
        answer_call(world, message, HF_STAT_GRANTED);
    }
}

bool sim_client_is_done(const struct sim_world *world, unsigned h)
{
    const struct sim_host *host = &world->hosts[h];

    if (!host->up)
        return host->dead;
    for (unsigned s = 0; s < SIM_SLOTS; s++) {
        if (host->slots[s].active)
            return false;
    }
    for (unsigned p = 0; p < SIM_PROCS; p++) {
        if (!host->procs[p].finished)
            return false;
    }
    return true;
}
