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
    struct hf_recorder *recorder; /* writes the history; NULL: administration is off */
    /* an upper bound of how many clients have not been notified of our restart yet */
    uint64_t notices_pending;
    uint64_t counted_ms; /* when the clients with pending notices were last counted */
    /* the state number of the restart whose notices were last summed up */
    int32_t summarized_state;
};

void hf_events_init(struct hf_events *events, struct hf_service *service, struct hf_nsm *nsm);

/* Takes all events from the core and handles them. Called once in each turn of the loop. */
void hf_events_handle(struct hf_events *events);

#endif
