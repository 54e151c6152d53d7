/*
 * Outgoing calls. An attempt owns its whole time even if it fails at once: the module that began
 * the outcall pauses it until that time is over, so three attempts last as long against a peer that
 * refuses as against a silent one.
 */
#include "core/outcall/outcall.h"

#include "core/common/timer.h"
#include "core/durable/durable.h"
#include "core/internal.h"

/*
 * The id of a GRANTED callback is its cookie. A host that does not see the callback must not be
 * able to guess it, or that host could answer in the client's place. So ids leave the core
 * enciphered, by four rounds of a Feistel network over both halves.
 */
enum { ROUNDS = 4 };

static uint32_t mixed(const struct hf_core *core, uint32_t half, unsigned round)
{
    /* No other use of this key hashes such an input. */
    uint64_t input[2] = {half, ~(uint64_t)round};

    return (uint32_t)hf_siphash(&core->config.hash_key, input, sizeof(input));
}

uint64_t hf_outcall_cookie(const struct hf_core *core, const struct hf_outcall *outcall)
{
    uint32_t left = (uint32_t)(outcall->id >> 32);
    uint32_t right = (uint32_t)outcall->id;

    for (unsigned round = 0; round < ROUNDS; round++) {
        uint32_t next = left ^ mixed(core, right, round);
        left = right;
        right = next;
    }
    return (uint64_t)left << 32 | right;
}

static uint64_t deciphered(const struct hf_core *core, uint64_t cookie)
{
    uint32_t left = (uint32_t)(cookie >> 32);
    uint32_t right = (uint32_t)cookie;

    for (unsigned round = ROUNDS; round-- > 0;) {
        uint32_t before = right ^ mixed(core, left, round);
        right = left;
        left = before;
    }
    return (uint64_t)left << 32 | right;
}

int hf_outcalls_init(struct hf_core *core)
{
    for (size_t i = 0; i < HF_OUTCALL_QUEUES; i++) {
        hf_list_init(&core->outcalls->queues[i].ready);
        hf_list_init(&core->outcalls->queues[i].fresh);
    }
    core->outcalls->room_ms = UINT64_MAX;
    return hf_map_init(&core->outcalls->by_id, core->alloc);
}

void hf_outcalls_free(struct hf_core *core)
{
    hf_map_free(&core->outcalls->by_id);
}

uint32_t hf_outcalls_running(const struct hf_core *core)
{
    uint32_t n = 0;

    for (size_t i = 0; i < HF_OUTCALL_QUEUES; i++)
        n += core->outcalls->queues[i].running;
    return n;
}

static void make_ready(struct hf_core *core, struct hf_outcall *outcall)
{
    outcall->state = HF_OUTCALL_READY;
    hf_list_add_tail(&core->outcalls->queues[outcall->ops->queue].ready, &outcall->link);
}

static void timer_fired(struct hf_core *core, struct hf_now now, struct hf_timer *timer)
{
    struct hf_outcall *outcall = hf_container_of(timer, struct hf_outcall, timer);

    if (outcall->state == HF_OUTCALL_RUNNING) {
        outcall->ops->overdue(core, now, outcall);
        return;
    }
    HF_ASSERT(outcall->state == HF_OUTCALL_PAUSED);
    make_ready(core, outcall);
}

void hf_outcall_init(struct hf_outcall *outcall)
{
    *outcall = (struct hf_outcall){.timer.fire = timer_fired};
    hf_list_init(&outcall->link);
}

void hf_outcall_begin(struct hf_core *core, struct hf_outcall *outcall,
                      const struct hf_outcall_ops *ops, uint64_t seq)
{
    hf_outcall_end(core, outcall);
    outcall->id = hf_core_new_id(core);
    outcall->ops = ops;
    outcall->seq = seq;
    outcall->begun = 0;
    outcall->attempts = 0;
    outcall->arrived = 0;
    outcall->error = 0;
    hf_map_insert(&core->outcalls->by_id, &outcall->by_id,
                  hf_hash_u64(&core->config.hash_key, outcall->id, 0));
    make_ready(core, outcall);
}

static void link_fresh(struct hf_core *core, struct hf_outcall *outcall)
{
    core->outcalls->queues[outcall->ops->queue].n_fresh++;
    hf_list_add_tail(&core->outcalls->queues[outcall->ops->queue].fresh, &outcall->link);
}

static void unlink_fresh(struct hf_core *core, struct hf_outcall *outcall)
{
    core->outcalls->queues[outcall->ops->queue].n_fresh--;
    hf_list_remove(&outcall->link);
}

/* Takes the outcall out of its present state. The result of an attempt in flight will be
 * ignored. */
static void leave_state(struct hf_core *core, struct hf_outcall *outcall)
{
    if (outcall->state == HF_OUTCALL_RUNNING) {
        core->outcalls->queues[outcall->ops->queue].running--;
        if (hf_list_linked(&outcall->link))
            unlink_fresh(core, outcall);
    }
    hf_list_remove(&outcall->link);
    hf_timer_disarm(core, &outcall->timer);
}

void hf_outcall_end(struct hf_core *core, struct hf_outcall *outcall)
{
    if (outcall->state == HF_OUTCALL_IDLE)
        return;
    leave_state(core, outcall);
    hf_map_remove(&core->outcalls->by_id, &outcall->by_id);
    outcall->state = HF_OUTCALL_IDLE;
}

void hf_outcall_pause(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall,
                      uint64_t until_ms)
{
    leave_state(core, outcall);
    if (until_ms <= now.mono_ms) {
        make_ready(core, outcall);
        return;
    }
    outcall->state = HF_OUTCALL_PAUSED;
    hf_timer_arm(core, &outcall->timer, until_ms);
}

void hf_outcall_cut_short(const struct hf_core *core, struct hf_outcall *outcall)
{
    if (outcall->state != HF_OUTCALL_IDLE && outcall->attempts + 1 < core->config.call_attempts)
        outcall->attempts = core->config.call_attempts - 1;
}

static bool same_id(const struct hf_map_node *node, const void *key)
{
    return hf_container_of(node, struct hf_outcall, by_id)->id == *(const uint64_t *)key;
}

struct hf_outcall *hf_outcall_find(const struct hf_core *core, uint64_t cookie)
{
    uint64_t id = deciphered(core, cookie);
    struct hf_map_node *node = hf_map_find(
        &core->outcalls->by_id, hf_hash_u64(&core->config.hash_key, id, 0), same_id, &id);

    return node ? hf_container_of(node, struct hf_outcall, by_id) : NULL;
}

static bool is_fresh(const struct hf_core *core, struct hf_now now,
                     const struct hf_outcall *outcall)
{
    return now.mono_ms < outcall->attempt_ms + HF_OUTCALL_FRESH_MS ||
           core->outcalls->turn < outcall->attempt_turn + HF_OUTCALL_FRESH_TURNS;
}

/* True if one more attempt of this queue may run. If only the passing of time can make room,
 * has_room() arranges that the core is woken then. */
static bool has_room(struct hf_core *core, struct hf_now now, enum hf_outcall_queue queue)
{
    struct hf_list *fresh = &core->outcalls->queues[queue].fresh;
    struct hf_outcall *oldest;

    if (queue == HF_OUTCALL_GRANTS)
        return true;
    if (core->outcalls->queues[queue].running >= core->config.notify_in_flight)
        return false;
    while ((oldest = hf_list_first(fresh, struct hf_outcall, link)) && !is_fresh(core, now, oldest))
        unlink_fresh(core, oldest);
    if (core->outcalls->queues[queue].n_fresh < HF_OUTCALL_FRESH)
        return true;
    /* An attempt that is still fresh only by turns needs no waking: the next turns come at once. */
    if (core->outcalls->room_ms > oldest->attempt_ms + HF_OUTCALL_FRESH_MS)
        core->outcalls->room_ms = oldest->attempt_ms + HF_OUTCALL_FRESH_MS;
    return false;
}

/* Returns the first outcall of the queue if it may start now, else NULL. */
static struct hf_outcall *next_ready(struct hf_core *core, struct hf_now now,
                                     enum hf_outcall_queue queue)
{
    uint64_t epoch_seq = core->durable->epoch_seq;
    struct hf_outcall *outcall =
        hf_list_first(&core->outcalls->queues[queue].ready, struct hf_outcall, link);

    if (!outcall || !has_room(core, now, queue))
        return NULL;
    if (!hf_durable_has(core, outcall->seq > epoch_seq ? outcall->seq : epoch_seq))
        return NULL;
    return outcall;
}

static void start(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall,
                  struct hf_outcall_attempt *out)
{
    hf_list_remove(&outcall->link);
    outcall->state = HF_OUTCALL_RUNNING;
    core->outcalls->queues[outcall->ops->queue].running++;
    outcall->begun++;
    if (outcall->attempts++ == 0)
        outcall->begun_ms = now.mono_ms;
    outcall->attempt_ms = now.mono_ms;
    outcall->attempt_turn = core->outcalls->turn;
    if (outcall->ops->queue != HF_OUTCALL_GRANTS)
        link_fresh(core, outcall);
    *out = (struct hf_outcall_attempt){
        .id = hf_outcall_cookie(core, outcall),
        .attempt = outcall->begun,
        .timeout_ms = core->config.call_timeout_ms,
    };
    outcall->ops->start(core, now, outcall, out);
}

bool hf_outcall_next(struct hf_core *core, struct hf_now now, struct hf_outcall_attempt *out)
{
    for (unsigned queue = 0; queue < HF_OUTCALL_QUEUES; queue++) {
        struct hf_outcall *outcall = next_ready(core, now, (enum hf_outcall_queue)queue);
        if (outcall) {
            start(core, now, outcall, out);
            return true;
        }
    }
    core->outcalls->turn++;
    return false;
}

void hf_outcall_attempt_done(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall,
                             enum hf_outcall_outcome outcome, int error)
{
    outcall->tried = outcome != HF_OUTCALL_UNTRIED;
    if (outcome >= HF_OUTCALL_FAILED) {
        outcall->error = error;
        outcall->attempts -= !outcall->tried;
        outcall->arrived += outcome == HF_OUTCALL_REPEATED ? 2 : outcome == HF_OUTCALL_FAILED;
        outcome = HF_OUTCALL_FAILED;
    }
    outcall->ops->done(core, now, outcall, outcome);
}
