#include "core/common/event.h"

#include <string.h>

#include "core/internal.h"

enum { ROOM_FIRST = 64 };

/* Doubles a ring that is full. */
static bool grow(struct hf_core *core)
{
    struct hf_events *events = core->events;
    uint32_t room = events->room ? events->room * 2 : ROOM_FIRST;
    uint32_t tail = events->room - events->head; /* from the head to the end of the old ring */
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

bool hf_core_next_event(struct hf_core *core, struct hf_event *out)
{
    struct hf_events *events = core->events;

    if (events->n == 0)
        return false;
    *out = events->ring[events->head];
    events->head = (events->head + 1) % events->room;
    events->n--;
    return true;
}

void hf_events_free(struct hf_core *core)
{
    hf_free(core->alloc, core->events->ring);
}
