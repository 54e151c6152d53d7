/*
 * A queue of things worth a line in the log. It grows with what one moment brings (ten thousand
 * clients that time out together); when nobody drains it, the newest are lost, and counted.
 */
#include "core/parts.h"

enum { ROOM_FIRST = 64 };

static bool grow(struct hf_core *core)
{
    uint32_t room = core->events_room ? core->events_room * 2 : ROOM_FIRST;
    uint32_t tail = core->events_room - core->events_head; /* up to the end of the old ring */
    struct hf_event *ring;

    if (room > HF_EVENTS_MAX)
        return false;
    ring = hf_malloc(core->alloc, room * sizeof(*ring));
    if (!ring)
        return false;
    if (core->events_n > 0) { /* the old ring is full: in two parts */
        memcpy(ring, core->events + core->events_head, tail * sizeof(*ring));
        memcpy(ring + tail, core->events, core->events_head * sizeof(*ring));
    }
    hf_free(core->alloc, core->events);
    core->events = ring;
    core->events_room = room;
    core->events_head = 0;
    return true;
}

static struct hf_event *next_free(struct hf_core *core)
{
    if (core->events_n == core->events_room && !grow(core)) {
        core->counters.events_lost++;
        return NULL;
    }
    return &core->events[(core->events_head + core->events_n++) % core->events_room];
}

static void set_name(struct hf_event *event, struct hf_bytes name)
{
    event->name_len = (uint16_t)(name.len < HF_EVENT_NAME_MAX ? name.len : HF_EVENT_NAME_MAX);
    if (event->name_len > 0)
        memcpy(event->name, name.data, event->name_len);
}

void hf_event_add(struct hf_core *core, enum hf_event_kind kind, const struct hf_client *client,
                  int64_t a, int64_t b, int error)
{
    struct hf_event *event = next_free(core);

    if (!event)
        return;
    *event = (struct hf_event){.kind = kind, .a = a, .b = b, .error = error};
    if (client) {
        event->client_id = client->id;
        event->addr = client->protocol == HF_PROTOCOL_NSM ? client->callback_host : client->addr;
        set_name(event, client->name);
    }
}

void hf_event_add_stranger(struct hf_core *core, const struct hf_addr *addr, struct hf_bytes name,
                           int64_t state)
{
    struct hf_event *event = next_free(core);

    if (!event)
        return;
    *event = (struct hf_event){.kind = HF_EVENT_NOTIFY_STRANGER, .addr = *addr, .a = state};
    set_name(event, name);
}

bool hf_core_next_event(struct hf_core *core, struct hf_event *out)
{
    if (core->events_n == 0)
        return false;
    *out = core->events[core->events_head];
    core->events_head = (core->events_head + 1) % core->events_room;
    core->events_n--;
    return true;
}
