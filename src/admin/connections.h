/*
 * Watches the connections of one listener, so that slow ones do not keep others out, and new ones
 * cut no answer that is on its way (SEC-10). A connection is cut when it has not sent a whole
 * request for too long, or has not taken a piece of its answer for too long, however busily it
 * drips bytes.
 *
 * When many are open, one gives way to a newcomer: first one without a request, then one that
 * stopped taking its answer, the one that has gone longest without progress first. An answer that
 * is being taken gives way only when the table is full, and never that of a caller who may make
 * changes, as a backup: then the newcomer is closed.
 */
#ifndef HF_ADMIN_CONNECTIONS_H
#define HF_ADMIN_CONNECTIONS_H

#include <microhttpd.h>
#include <stdbool.h>
#include <uv.h>

#include "base/list.h"

struct connections {
    struct hf_list idle; /* connections without a whole request, the oldest first */
    /* Connections with a whole request; the first has gone longest without progress. */
    struct hf_list answered;
    unsigned count;
    uv_timer_t sweep; /* runs while there are connections */
};

/* Initialises the structure. It has one handle on the loop, sweep, which the owner closes. */
void hf_connections_init(struct connections *connections, uv_loop_t *loop);

/* Is for MHD_OPTION_NOTIFY_CONNECTION; ctx is the struct connections. */
void hf_connections_notify(void *ctx, struct MHD_Connection *connection, void **socket_context,
                           enum MHD_ConnectionNotificationCode code);

/* Tells that a whole request is there, of a caller that may make changes or not. */
void hf_connections_begin(struct connections *connections, struct MHD_Connection *connection,
                          bool privileged);
/* Tells that a piece of the answer has been taken. */
void hf_connections_moved(struct connections *connections, struct MHD_Connection *connection);
/* Tells that an answer has been sent. */
void hf_connections_completed(struct connections *connections, struct MHD_Connection *connection);

#endif
