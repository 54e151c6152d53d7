/*
 * The share of the loop that administration may use (ADM-08). Requests and pieces of lists together
 * get TURNS_BUDGET_NS of every TURNS_WINDOW_MS, whatever the number of connections; work that comes
 * when the budget is used waits in one queue, in the order in which it came, while libmicrohttpd
 * leaves its connection alone. A piece of work that has begun is finished, so a window may take one
 * piece more.
 */
#ifndef HF_ADMIN_TURNS_H
#define HF_ADMIN_TURNS_H

#include <microhttpd.h>
#include <stdbool.h>
#include <uv.h>

#include "base/list.h"

enum { TURNS_WINDOW_MS = 1, TURNS_BUDGET_NS = 100 * 1000 };

struct listener;

struct turns {
    uv_timer_t timer; /* runs while work waits */
    struct hf_list queue;
    uint64_t window_ns; /* when it began */
    uint64_t used_ns;   /* in it */
    bool closing;
};

/* Work of one connection; all zero at first, but for an initialised link. */
struct turn {
    struct hf_list link; /* while it waits */
    struct MHD_Connection *connection;
    struct listener *listener;
    bool granted; /* it has waited, and may work now */
};

/* One handle on the loop: timer, to be closed by the owner. */
void turns_init(struct turns *turns, uv_loop_t *loop);

/* True if the work may be done now; then turns_used() says when it began. False: turns_wait(). */
bool turns_take(struct turns *turns, struct turn *turn);
void turns_used(struct turns *turns, uint64_t start_ns);

/* Suspends the connection until it is this work's turn, also if it could be done at once. */
void turns_wait(struct turns *turns, struct turn *turn, struct listener *listener,
                struct MHD_Connection *connection);
void turns_cancel(struct turn *turn);

/* Lets all that wait go on: libmicrohttpd must not be stopped while a connection is suspended. */
void turns_close(struct turns *turns);

#endif
