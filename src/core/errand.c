/*
 * Outgoing calls (SPEC section 3): attempts, pauses, giving up. An errand begins READY; each
 * attempt makes it RUNNING; when the attempt failed it is PAUSED for a while and READY again, until
 * its owner ends it. An attempt owns call_timeout_ms even if it fails at once, so that three
 * attempts are fifteen seconds for a peer that refuses as for one that is silent.
 *
 * GRANTED callbacks go first and are not bounded; notices and status callbacks are, together.
 */
#include "core/parts.h"

void hf_errand_init(struct hf_errand *errand, enum hf_errand_role role)
{
    *errand = (struct hf_errand){.role = role};
    errand->timer.kind = HF_TIMER_ERRAND;
    hf_list_init(&errand->link);
}

static uint32_t *running(struct hf_core *core, const struct hf_errand *errand)
{
    return errand->role == HF_ERRAND_GRANT ? &core->grants_running : &core->notices_running;
}

static void make_ready(struct hf_core *core, struct hf_errand *errand)
{
    errand->state = HF_ERRAND_READY;
    hf_list_add_tail(errand->role == HF_ERRAND_GRANT ? &core->ready_grants : &core->ready_notices,
                     &errand->link);
}

void hf_errand_begin(struct hf_core *core, struct hf_errand *errand, uint64_t seq)
{
    hf_errand_end(core, errand);
    errand->id = hf_core_new_id(core);
    errand->seq = seq;
    errand->attempts = 0;
    errand->error = 0;
    hf_map_insert(&core->errands, &errand->by_id,
                  hf_hash_u64(&core->config.hash_key, errand->id, 0));
    make_ready(core, errand);
}

/* Out of whatever state it is in; an attempt that is under way is no longer ours. */
static void leave_state(struct hf_core *core, struct hf_errand *errand)
{
    if (errand->state == HF_ERRAND_RUNNING)
        --*running(core, errand);
    hf_list_remove(&errand->link);
    hf_timer_disarm(core, &errand->timer);
}

void hf_errand_end(struct hf_core *core, struct hf_errand *errand)
{
    if (errand->state == HF_ERRAND_IDLE)
        return;
    leave_state(core, errand);
    hf_map_remove(&core->errands, &errand->by_id);
    errand->state = HF_ERRAND_IDLE;
}

void hf_errand_pause(struct hf_core *core, struct hf_now now, struct hf_errand *errand,
                     uint64_t until_ms)
{
    leave_state(core, errand);
    if (until_ms <= now.mono_ms) {
        make_ready(core, errand);
        return;
    }
    errand->state = HF_ERRAND_PAUSED;
    hf_timer_arm(core, &errand->timer, until_ms);
}

void hf_errand_due(struct hf_core *core, struct hf_errand *errand)
{
    HF_ASSERT(errand->state == HF_ERRAND_PAUSED);
    make_ready(core, errand);
}

static bool same_id(const struct hf_map_node *node, const void *key)
{
    return hf_container_of(node, struct hf_errand, by_id)->id == *(const uint64_t *)key;
}

static struct hf_errand *find(const struct hf_core *core, uint64_t id)
{
    struct hf_map_node *node =
        hf_map_find(&core->errands, hf_hash_u64(&core->config.hash_key, id, 0), same_id, &id);

    return node ? hf_container_of(node, struct hf_errand, by_id) : NULL;
}

static struct hf_errand *next_ready(const struct hf_core *core, const struct hf_list *queue)
{
    struct hf_errand *errand = hf_list_first(queue, struct hf_errand, link);
    uint64_t seq = errand && errand->seq > core->epoch_seq ? errand->seq : core->epoch_seq;

    if (!errand || (!hf_core_is_durable(core, seq) && !HF_PLANTED(GRANT_BEFORE_DURABLE)))
        return NULL;
    return errand;
}

static void start(struct hf_core *core, struct hf_now now, struct hf_errand *errand)
{
    hf_list_remove(&errand->link);
    errand->state = HF_ERRAND_RUNNING;
    ++*running(core, errand);
    if (errand->attempts++ == 0)
        errand->begun_ms = now.mono_ms;
    errand->attempt_ms = now.mono_ms;
    if (errand->role == HF_ERRAND_GRANT)
        core->counters.callbacks_started++;
    else
        core->counters.notices_started++;
}

bool hf_core_next_call(struct hf_core *core, struct hf_now now, struct hf_call *out)
{
    struct hf_errand *errand = next_ready(core, &core->ready_grants);

    if (!errand && core->notices_running < core->config.notify_in_flight)
        errand = next_ready(core, &core->ready_notices);
    if (!errand)
        return false;
    start(core, now, errand);
    *out = (struct hf_call){
        .id = errand->id,
        .attempt = errand->attempts,
        .timeout_ms = core->config.call_timeout_ms,
    };
    if (errand->role == HF_ERRAND_GRANT)
        hf_waiter_fill(hf_container_of(errand, struct hf_waiter, errand), out);
    else
        hf_notice_fill(core, errand, out);
    return true;
}

/* The callback came to an end; if the lock cannot be taken back now, the client is asked again. */
static void grant_over(struct hf_core *core, struct hf_now now, struct hf_errand *errand,
                       bool accepted)
{
    struct hf_waiter *waiter = hf_container_of(errand, struct hf_waiter, errand);

    if (hf_waiter_called(core, now, waiter, accepted) < 0)
        hf_errand_pause(core, now, errand, now.mono_ms + core->config.call_timeout_ms);
}

static void grant_done(struct hf_core *core, struct hf_now now, struct hf_errand *errand,
                       enum hf_call_outcome outcome)
{
    const struct hf_waiter *waiter = hf_container_of(errand, struct hf_waiter, errand);

    switch (outcome) {
    case HF_CALL_ACCEPTED:
        core->counters.callbacks_accepted++;
        grant_over(core, now, errand, true);
        break;
    case HF_CALL_DENIED:
        core->counters.callbacks_denied++;
        grant_over(core, now, errand, false);
        break;
    case HF_CALL_FAILED:
        core->counters.callbacks_failed++;
        if (errand->attempts < core->config.call_attempts) {
            hf_errand_pause(core, now, errand, errand->attempt_ms + core->config.call_timeout_ms);
            break;
        }
        hf_event_add(core, HF_EVENT_GRANT_FAILED, waiter->owner->client, errand->attempts, 0,
                     errand->error);
        grant_over(core, now, errand, false); /* to the next waiter */
        break;
    }
}

void hf_core_call_done(struct hf_core *core, struct hf_now now, uint64_t call_id,
                       enum hf_call_outcome outcome, int error)
{
    struct hf_errand *errand = find(core, call_id);

    if (!errand || errand->state != HF_ERRAND_RUNNING)
        return; /* called off, or answered by GRANTED_RES meanwhile */
    if (outcome == HF_CALL_FAILED)
        errand->error = error;
    if (errand->role == HF_ERRAND_GRANT)
        grant_done(core, now, errand, outcome);
    else
        hf_notice_called(core, now, errand, outcome != HF_CALL_FAILED);
    hf_core_settle(core, now);
}

void hf_core_granted_res(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                         uint64_t call_id, bool accepted)
{
    struct hf_errand *errand = find(core, call_id);
    const struct hf_waiter *waiter;

    if (!errand || errand->role != HF_ERRAND_GRANT || errand->attempts == 0)
        return; /* too late, or made up */
    waiter = hf_container_of(errand, struct hf_waiter, errand);
    if (!hf_addr_same_host(&waiter->owner->client->addr, &peer->addr)) {
        core->counters.granted_res_stranger++;
        return;
    }
    grant_done(core, now, errand, accepted ? HF_CALL_ACCEPTED : HF_CALL_DENIED);
    hf_core_settle(core, now);
}
