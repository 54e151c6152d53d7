/*
 * Events: what deserves a line in the log, queued until hf_core_next_event() takes it. The queue is
 * a ring that grows with what one moment brings (ten thousand clients that time out together). When
 * the ring cannot grow, new events are lost and counted.
 */
#ifndef HF_CORE_COMMON_EVENT_H
#define HF_CORE_COMMON_EVENT_H

#include "core/view.h"

/* Room for three events of each of 10,000 clients that come in one moment. */
enum { HF_EVENTS_MAX = 32768 };

struct hf_events {
    struct hf_event *ring;
    uint32_t room, head, n;
    uint32_t limits_told; /* a bit for each limit whose event is in the queue */
};
_Static_assert(HF_LIMITS <= 32, "limits_told");

void hf_events_free(struct hf_core *core);

/* Returns the queued event, so that the caller can add the host that it concerns; NULL: no room,
 * the event is lost. */
struct hf_event *hf_event_add(struct hf_core *core, enum hf_event_kind kind, int64_t a, int64_t b,
                              int error);
void hf_event_set_file(struct hf_event *event, struct hf_bytes fh);

/* Counts a request from this host that a limit refuses, and returns HF_ELIMIT. A host can repeat
 * such requests as fast as it likes, so the queue holds at most one event for each limit. */
int hf_limit_count(struct hf_core *core, enum hf_limit limit, const struct hf_addr *addr,
                   struct hf_bytes name);

void hf_event_set_host(struct hf_event *event, const struct hf_addr *addr, struct hf_bytes name);

#endif
