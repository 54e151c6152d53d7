/*
 * The connections of one listener, so that slow ones do not keep others out. A connection is cut
 * when it has not completed a request for too long, however busily it drips bytes; and when too
 * many are open, the one that has gone longest without completing a request gives way to the
 * newcomer.
 */
#ifndef HF_ADMIN_CONNECTIONS_H
#define HF_ADMIN_CONNECTIONS_H

#include <microhttpd.h>
#include <uv.h>

#include "base/list.h"

struct connections {
    struct hf_list list; /* in the order in which they completed a request, or else were opened */
    unsigned count;
    uv_timer_t sweep; /* runs while there are any */
};

/* One handle on the loop: sweep, to be closed by the owner. */
void connections_init(struct connections *connections, uv_loop_t *loop);

/* For MHD_OPTION_NOTIFY_CONNECTION; ctx is the struct connections. */
void connections_notify(void *ctx, struct MHD_Connection *connection, void **socket_context,
                        enum MHD_ConnectionNotificationCode code);

/* An answer has been sent: this connection is the last to give way. */
void connections_completed(struct connections *connections, struct MHD_Connection *connection);

#endif
