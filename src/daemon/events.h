/*
 * The core's events: each becomes a line of the log, losses and limits are kept for the operator,
 * and a client registered by name only has its address looked up. When all notices of a restart
 * have been tried, one line sums up the outcome.
 */
#ifndef HF_DAEMON_EVENTS_H
#define HF_DAEMON_EVENTS_H

#include "daemon/named_lines.h"
#include "daemon/recorder.h"
#include "nsm/nsm.h"
#include "service/service.h"

struct hf_events {
    struct hf_service *service;
    struct hf_nsm *nsm;
    struct hf_named_lines lines;
    struct hf_recorder *recorder; /* NULL: no administration */
    uint64_t notices_pending;     /* clients not yet tried since our restart, at most */
    uint64_t counted_ms;          /* when they were counted */
    int32_t summarized_state;     /* the state number whose notices have been summed up */
};

void hf_events_init(struct hf_events *events, struct hf_service *service, struct hf_nsm *nsm);

/* Takes all events from the core: once a turn of the loop. */
void hf_events_handle(struct hf_events *events);

#endif
