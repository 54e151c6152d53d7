/*
 * The share of the loop that administration may use (ADM-08). All that libmicrohttpd does for its
 * connections gets TURNS_BUDGET_NS of every TURNS_WINDOW_MS, whatever their number, and of requests
 * and pieces of lists one is made in a turn of the loop: that is how long a lock request may have
 * to wait for administration. Work that comes when either is used up waits in one queue, in the
 * order in which it came, while libmicrohttpd leaves its connection alone. A piece of work that has
 * begun is finished, so a window may take one piece more.
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
    uv_timer_t timer; /* until the next window, while work waits */
    uv_idle_t idle;   /* for one turn after the last piece, and while there is budget for more */
    struct hf_list queue;
    uint64_t window_ns; /* when it began */
    uint64_t used_ns;   /* in it */
    bool taken;         /* a piece was made in this turn of the loop */
    bool closing;
};

/* Work of one connection; all zero at first, but for an initialised link. */
struct turn {
    struct hf_list link; /* while it waits */
    struct MHD_Connection *connection;
    struct listener *listener;
    bool granted; /* it has waited, and may work now */
};

/* Two handles on the loop, timer and idle, to be closed by the owner. */
void hf_admin_turns_init(struct turns *turns, uv_loop_t *loop);

/* True if the work may be done now. False: hf_admin_turns_wait(). */
bool hf_admin_turns_take(struct turns *turns, struct turn *turn);

/* What libmicrohttpd has done since then counts. */
void hf_admin_turns_used(struct turns *turns, uint64_t start_ns);
bool hf_admin_turns_has_budget(struct turns *turns);

/* Suspends the connection until it is this work's turn, also if it could be done at once. */
void hf_admin_turns_wait(struct turns *turns, struct turn *turn, struct listener *listener,
                         struct MHD_Connection *connection);
void hf_admin_turns_cancel(struct turn *turn);

/* Lets all that wait go on: libmicrohttpd must not be stopped while a connection is suspended. */
void hf_admin_turns_close(struct turns *turns);

#endif
