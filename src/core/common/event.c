#include "core/common/event.h"

#include <string.h>

#include "core/internal.h"

enum { ROOM_FIRST = 64 };

/* Doubles the ring of events. */
static bool grow(struct hf_core *core)
{
    struct hf_events *events = core->events;
    uint32_t room = events->room ? events->room * 2 : ROOM_FIRST;
    /* How many events lie between the head and the end of the old ring. */
    uint32_t tail = events->room - events->head;
    struct hf_event *ring;

    if (room > HF_EVENTS_MAX)
        return false;
    ring = hf_malloc(core->alloc, room * sizeof(*ring));
    if (!ring)
        return false;
    if (events->n > 0) {
        memcpy(ring, events->ring + events->head, tail * sizeof(*ring));
        memcpy(ring + tail, events->ring, events->head * sizeof(*ring));
    }
    hf_free(core->alloc, events->ring);
    events->ring = ring;
    events->room = room;
    events->head = 0;
    return true;
}

struct hf_event *hf_event_add(struct hf_core *core, enum hf_event_kind kind, int64_t a, int64_t b,
                              int error)
{
    struct hf_events *events = core->events;
    struct hf_event *event;

    if (events->n == events->room && !grow(core)) {
        core->counters.events_lost++;
        return NULL;
    }
    event = &events->ring[(events->head + events->n++) % events->room];
    *event = (struct hf_event){.kind = kind, .a = a, .b = b, .error = error};
    return event;
}

void hf_event_set_file(struct hf_event *event, struct hf_bytes fh)
{
    event->fh_len = (uint16_t)(fh.len <= HF_EVENT_FH_MAX ? fh.len : 0);
    if (event->fh_len > 0)
        memcpy(event->fh, fh.data, event->fh_len);
}

void hf_event_set_host(struct hf_event *event, const struct hf_addr *addr, struct hf_bytes name)
{
    event->addr = *addr;
    event->name_len = (uint16_t)(name.len < HF_EVENT_NAME_MAX ? name.len : HF_EVENT_NAME_MAX);
    if (event->name_len > 0)
        memcpy(event->name, name.data, event->name_len);
}

static const char *const LIMIT_NAMES[HF_LIMITS] = {
    [HF_LIMIT_CLIENTS] = "clients",
    [HF_LIMIT_MONITORS] = "monitors",
    [HF_LIMIT_LOCKS_PER_OWNER] = "locks_per_owner",
    [HF_LIMIT_LOCKS_PER_CLIENT] = "locks_per_client",
    [HF_LIMIT_LOCKS_PER_FILE] = "locks_per_file",
    [HF_LIMIT_LOCKS] = "locks",
    [HF_LIMIT_WAITERS_PER_FILE] = "waiters_per_file",
    [HF_LIMIT_WAITERS_PER_OWNER] = "waiters_per_owner",
    [HF_LIMIT_WAITERS_PER_CLIENT] = "waiters_per_client",
    [HF_LIMIT_CLIENTS_PER_HOST] = "clients_per_host",
    [HF_LIMIT_LOCKS_PER_HOST] = "locks_per_host",
    [HF_LIMIT_REGISTRATIONS_PER_HOST] = "registrations_per_host",
};

const char *hf_limit_name(enum hf_limit limit)
{
    return LIMIT_NAMES[limit];
}

int hf_limit_count(struct hf_core *core, enum hf_limit limit, const struct hf_addr *addr,
                   struct hf_bytes name)
{
    struct hf_event *event;

    core->counters.limit_hits[limit]++;
    if (core->events->limits_told & 1u << limit)
        return HF_ELIMIT;
    event = hf_event_add(core, HF_EVENT_LIMIT_HIT, limit, 0, 0);
    if (event) {
        core->events->limits_told |= 1u << limit;
        hf_event_set_host(event, addr, name);
    }
    return HF_ELIMIT;
}

bool hf_core_next_event(struct hf_core *core, struct hf_event *out)
{
    struct hf_events *events = core->events;

    if (events->n == 0)
        return false;
    *out = events->ring[events->head];
    events->head = (events->head + 1) % events->room;
    events->n--;
    if (out->kind == HF_EVENT_LIMIT_HIT)
        events->limits_told &= ~(1u << out->a);
    return true;
}

void hf_events_free(struct hf_core *core)
{
    hf_free(core->alloc, core->events->ring);
}
