/*
 * Handles the core's events: each becomes a line of the log, losses and limits are kept for the
 * operator, and the address of a client registered by name only is looked up. When all notices of a
 * restart have been tried, one line sums up the outcome.
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
    struct hf_recorder *recorder; /* writes the history; NULL: no administration */
    uint64_t notices_pending;     /* how many clients, at most, were not tried since our restart */
    uint64_t counted_ms;          /* when these clients were counted */
    int32_t summarized_state;     /* the state number whose notices have been summed up */
};

void hf_events_init(struct hf_events *events, struct hf_service *service, struct hf_nsm *nsm);

/* Takes all events from the core. It is called once a turn of the loop. */
void hf_events_handle(struct hf_events *events);

#endif
