/*
 * Events: things worth a line in the log, queued until hf_core_next_event() takes them. The queue
 * is a ring that grows with what one moment brings (ten thousand clients that time out together).
 * When it is full, new events are lost, and counted.
 */
#ifndef HF_CORE_COMMON_EVENT_H
#define HF_CORE_COMMON_EVENT_H

#include "core/view.h"

enum { HF_EVENTS_MAX = 32768 }; /* three for each of 10,000 clients, all at one moment */

struct hf_events {
    struct hf_event *ring;
    uint32_t room, head, n;
};

void hf_events_free(struct hf_core *core);

/* Returns the queued event, so that the caller can add the host it is about; NULL: it was lost. */
struct hf_event *hf_event_add(struct hf_core *core, enum hf_event_kind kind, int64_t a, int64_t b,
                              int error);
void hf_event_set_file(struct hf_event *event, struct hf_bytes fh);
void hf_event_set_host(struct hf_event *event, const struct hf_addr *addr, struct hf_bytes name);

#endif
