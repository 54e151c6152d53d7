/*
 * Outgoing calls (SPEC section 3): attempts, pauses, giving up. An errand begins READY; each
 * attempt makes it RUNNING; when the attempt failed it is PAUSED for a while and READY again, until
 * its owner ends it. An attempt owns call_timeout_ms even if it fails at once, so that three
 * attempts are fifteen seconds for a peer that refuses as for one that is silent.
 *
 * GRANTED callbacks go first and are not bounded; probes are; notices and status callbacks are,
 * together.
 */
#include "core/parts.h"

enum { SLOW_SHARE = 5 }; /* a callback unanswered for this part of its time looks dead */

void hf_errand_init(struct hf_errand *errand, enum hf_errand_role role)
{
    *errand = (struct hf_errand){.role = role};
    errand->timer.kind = HF_TIMER_ERRAND;
    hf_list_init(&errand->link);
}

static uint32_t *running(struct hf_core *core, const struct hf_errand *errand)
{
    switch (errand->role) {
    case HF_ERRAND_GRANT:
        return &core->grants_running;
    case HF_ERRAND_PROBE:
        return &core->probes_running;
    default:
        return &core->notices_running;
    }
}

static struct hf_list *queue(struct hf_core *core, const struct hf_errand *errand)
{
    switch (errand->role) {
    case HF_ERRAND_GRANT:
        return &core->ready_grants;
    case HF_ERRAND_PROBE:
        return &core->ready_probes;
    default:
        return &core->ready_notices;
    }
}

static void make_ready(struct hf_core *core, struct hf_errand *errand)
{
    errand->state = HF_ERRAND_READY;
    hf_list_add_tail(queue(core, errand), &errand->link);
}

void hf_errand_begin(struct hf_core *core, struct hf_errand *errand, uint64_t seq)
{
    hf_errand_end(core, errand);
    errand->id = hf_core_new_id(core);
    errand->seq = seq;
    errand->attempts = 0;
    errand->arrived = 0;
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

void hf_errand_due(struct hf_core *core, struct hf_now now, struct hf_errand *errand)
{
    if (errand->state == HF_ERRAND_RUNNING) {
        HF_ASSERT(errand->role == HF_ERRAND_GRANT);
        hf_probe_behind(core, now, hf_container_of(errand, struct hf_waiter, errand));
        return;
    }
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
    if (errand->role == HF_ERRAND_GRANT) {
        core->counters.callbacks_started++;
        hf_timer_arm(core, &errand->timer, now.mono_ms + core->config.call_timeout_ms / SLOW_SHARE);
    } else if (errand->role == HF_ERRAND_PROBE) {
        core->counters.probes_started++;
    } else {
        core->counters.notices_started++;
    }
}

bool hf_core_next_call(struct hf_core *core, struct hf_now now, struct hf_call *out)
{
    struct hf_errand *errand = next_ready(core, &core->ready_grants);

    if (!errand && core->probes_running < core->config.notify_in_flight)
        errand = next_ready(core, &core->ready_probes);
    if (!errand && core->notices_running < core->config.notify_in_flight)
        errand = next_ready(core, &core->ready_notices);
    if (!errand)
        return false;
    start(core, now, errand);
    *out = (struct hf_call){
        .id = errand->id,
        .attempt = errand->attempts,
        .timeout_ms = errand->role == HF_ERRAND_PROBE ? hf_probe_timeout_ms(core)
                                                      : core->config.call_timeout_ms,
    };
    if (errand->role == HF_ERRAND_GRANT)
        hf_waiter_fill(hf_container_of(errand, struct hf_waiter, errand), out);
    else if (errand->role == HF_ERRAND_PROBE)
        hf_probe_fill(errand, out);
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

/* To the next waiter; and whatever else this client waits for would fare no better. */
static void grant_given_up(struct hf_core *core, struct hf_now now, struct hf_errand *errand)
{
    struct hf_client *client = hf_container_of(errand, struct hf_waiter, errand)->owner->client;

    client->refs++;
    hf_event_add(core, HF_EVENT_GRANT_FAILED, client, errand->attempts, 0, errand->error);
    grant_over(core, now, errand, false);
    hf_client_silent(core, now, client);
    hf_client_unref(core, client);
}

static void grant_failed(struct hf_core *core, struct hf_now now, struct hf_errand *errand)
{
    core->counters.callbacks_failed++;
    if (errand->attempts >= core->config.call_attempts) {
        grant_given_up(core, now, errand);
        return;
    }
    hf_errand_pause(core, now, errand, errand->attempt_ms + core->config.call_timeout_ms);
    hf_probe_behind(core, now, hf_container_of(errand, struct hf_waiter, errand));
}

/*
 * A client says DENIED when it waits for no such lock. To the only call that can have arrived, that
 * means that it does not want it. If another may have arrived before, it may as well mean that it
 * took the lock then, and only its answer was lost (Linux forgets the wait when it takes the lock):
 * the lock is in use, and giving it to another would make two holders. So that is not believed; a
 * client that does not want the lock after all unlocks it.
 */
static bool is_believed(const struct hf_errand *errand)
{
    /* Answered late, after its time: then the call that is answered has been counted itself. */
    uint32_t itself = errand->state == HF_ERRAND_RUNNING ? 0 : 1;

    return errand->arrived <= itself || HF_PLANTED(REPEAT_DENIED);
}

static void grant_done(struct hf_core *core, struct hf_now now, struct hf_errand *errand,
                       enum hf_call_outcome outcome)
{
    struct hf_client *client = hf_container_of(errand, struct hf_waiter, errand)->owner->client;

    if (outcome == HF_CALL_DENIED && !is_believed(errand))
        outcome = HF_CALL_ACCEPTED;
    if (outcome == HF_CALL_FAILED) {
        grant_failed(core, now, errand);
        return;
    }
    client->answered_ms = now.mono_ms;
    if (outcome == HF_CALL_ACCEPTED)
        core->counters.callbacks_accepted++;
    else
        core->counters.callbacks_denied++;
    grant_over(core, now, errand, outcome == HF_CALL_ACCEPTED);
}

void hf_errand_cut_short(const struct hf_core *core, struct hf_errand *errand)
{
    if (errand->state != HF_ERRAND_IDLE && errand->attempts + 1 < core->config.call_attempts)
        errand->attempts = core->config.call_attempts - 1;
}

/* No file, memory or reserved port left here: that says nothing about the peer. */
static bool is_our_fault(int error)
{
    return error == HF_ENOMEM || error == HF_ELIMIT || error == HF_EBUSY;
}

void hf_core_call_done(struct hf_core *core, struct hf_now now, uint64_t call_id,
                       enum hf_call_outcome outcome, int error)
{
    struct hf_errand *errand = find(core, call_id);

    if (!errand || errand->state != HF_ERRAND_RUNNING)
        return; /* called off, or answered by GRANTED_RES meanwhile */
    if (outcome == HF_CALL_FAILED || outcome == HF_CALL_UNSENT) {
        errand->error = error;
        errand->attempts -= is_our_fault(error);
        errand->arrived += outcome == HF_CALL_FAILED;
        outcome = HF_CALL_FAILED;
    }
    if (errand->role == HF_ERRAND_GRANT)
        grant_done(core, now, errand, outcome);
    else if (errand->role == HF_ERRAND_PROBE)
        hf_probe_called(core, now, errand, outcome != HF_CALL_FAILED);
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
