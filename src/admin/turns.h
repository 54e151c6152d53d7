/*
 * The share of the loop that administration may use (ADM-08). All that libmicrohttpd does for its
 * connections gets TURNS_BUDGET_NS of every TURNS_WINDOW_MS, whatever their number, and only one
 * request or piece of a list is made in a turn of the loop: a lock request waits at most that long
 * for administration. When the time or the turn is used up, further work waits in one queue, in the
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
    uv_timer_t timer; /* the timer fires at the next window, while work waits */
    /* Is active for one turn after the last piece of work, and while there is budget for more. */
    uv_idle_t idle;
    struct hf_list queue;
    uint64_t window_ns; /* when the current window began */
    uint64_t used_ns;   /* how much of the window's budget is used */
    bool taken;         /* a piece was made in this turn of the loop */
    bool closing;
};

/* The work of one connection; all zero at first, except for an initialised link. */
struct turn {
    struct hf_list link; /* links the work into the queue while it waits */
    struct MHD_Connection *connection;
    struct listener *listener;
    bool granted; /* the work has waited, and may be done now */
};

/* Initialises the structure. It has two handles on the loop, timer and idle, which the owner
 * closes. */
void hf_admin_turns_init(struct turns *turns, uv_loop_t *loop);

/* True if the work may be done now. If not, the caller calls hf_admin_turns_wait(). */
bool hf_admin_turns_take(struct turns *turns, struct turn *turn);

/* Counts the time that libmicrohttpd has worked since start_ns. */
void hf_admin_turns_used(struct turns *turns, uint64_t start_ns);
bool hf_admin_turns_has_budget(struct turns *turns);

/* Suspends the connection until it is this work's turn, even if it could be done at once. */
void hf_admin_turns_wait(struct turns *turns, struct turn *turn, struct listener *listener,
                         struct MHD_Connection *connection);
void hf_admin_turns_cancel(struct turn *turn);

/* Lets all waiting work go on, because libmicrohttpd must not be stopped while a connection is
 * suspended. */
void hf_admin_turns_close(struct turns *turns);

#endif
