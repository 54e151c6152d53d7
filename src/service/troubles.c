#include "service/troubles.h"

#include <string.h>

static struct hf_trouble_host host_of(const struct hf_event *event)
{
    struct hf_trouble_host host = {.addr = event->addr, .name_len = event->name_len};

    memcpy(host.name, event->name, event->name_len);
    return host;
}

static void note_loss(struct hf_troubles *troubles, const struct hf_event *event,
                      enum hf_loss reason, int64_t wall_ms)
{
    troubles->version++;
    if (troubles->n_losses == HF_TROUBLES_LOSSES_MAX)
        return;
    troubles->losses[troubles->n_losses++] =
        (struct hf_trouble_loss){host_of(event), reason, (uint64_t)event->b, wall_ms};
}

void hf_troubles_note(struct hf_troubles *troubles, const struct hf_event *event, int64_t wall_ms)
{
    if (event->kind == HF_EVENT_CLIENT_UNRECLAIMED)
        note_loss(troubles, event, HF_LOSS_UNRECLAIMED, wall_ms);
    else if (event->kind == HF_EVENT_CLIENT_UNREACHABLE)
        note_loss(troubles, event, HF_LOSS_UNREACHABLE, wall_ms);
    else if (event->kind == HF_EVENT_CLIENT_OUTSIDE)
        note_loss(troubles, event, HF_LOSS_OUTSIDE, wall_ms);
    else if (event->kind == HF_EVENT_LIMIT_HIT)
        troubles->limits[event->a] = (struct hf_trouble_limit){host_of(event), wall_ms};
}

static void sum(const struct hf_counters *counters, uint64_t *clients, uint64_t *locks)
{
    *clients = *locks = 0;
    for (int i = 0; i < HF_LOSSES; i++) {
        *clients += counters->clients_lost[i];
        *locks += counters->locks_lost[i];
    }
}

void hf_troubles_lost(const struct hf_troubles *troubles, const struct hf_counters *counters,
                      uint64_t *clients, uint64_t *locks)
{
    sum(counters, clients, locks);
    *clients += troubles->clients_earlier - troubles->clients_acknowledged;
    *locks += troubles->locks_earlier - troubles->locks_acknowledged;
}

void hf_troubles_acknowledge(struct hf_troubles *troubles, const struct hf_counters *counters)
{
    sum(counters, &troubles->clients_acknowledged, &troubles->locks_acknowledged);
    troubles->locks_earlier = 0;
    troubles->clients_earlier = 0;
    troubles->n_losses = 0;
    troubles->version++;
}
