/* A short queue of things worth a line in the log; when nobody drains it, the newest are lost. */
#include "core/parts.h"

static struct hf_event *next_free(struct hf_core *core)
{
    if (core->events_n == HF_EVENTS_MAX) {
        core->counters.events_lost++;
        return NULL;
    }
    return &core->events[(core->events_head + core->events_n++) % HF_EVENTS_MAX];
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
    core->events_head = (core->events_head + 1) % HF_EVENTS_MAX;
    core->events_n--;
    return true;
}
