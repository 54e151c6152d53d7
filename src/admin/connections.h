/*
 * Watches the connections of one listener, so that slow ones do not keep others out, and new ones
 * cut no answer that is on its way (SEC-10). A connection is cut when it has not sent a whole
 * request for too long, or has not taken a piece of its answer for too long, however busily it
 * drips bytes.
 *
 * When many are open, one gives way to a newcomer: first one without a request, then one whose peer
 * stopped taking its answer; of several, the one that has gone longest without progress. An answer
 * that is being taken gives way only when the table is full. The answer to a caller who may make
 * changes, such as a backup, never gives way: then the newcomer is closed.
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
    uv_timer_t sweep; /* the timer runs while there are connections */
};

/* Initialises the structure. It has one handle on the loop, sweep, which the owner closes. */
void hf_connections_init(struct connections *connections, uv_loop_t *loop);

/* The callback for MHD_OPTION_NOTIFY_CONNECTION; ctx is the struct connections. */
void hf_connections_notify(void *ctx, struct MHD_Connection *connection, void **socket_context,
                           enum MHD_ConnectionNotificationCode code);

/* Must be called when a whole request has arrived. privileged: its caller may make changes. */
void hf_connections_begin(struct connections *connections, struct MHD_Connection *connection,
                          bool privileged);
/* Must be called when the peer has taken a piece of the answer. */
void hf_connections_moved(struct connections *connections, struct MHD_Connection *connection);
/* Must be called when an answer has been sent completely. */
void hf_connections_completed(struct connections *connections, struct MHD_Connection *connection);

#endif
