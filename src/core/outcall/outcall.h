/*
 * Outgoing calls (SPEC section 3): a machine that attempts a call, pauses, and attempts it again,
 * until the module that began the call ends it. It is the same for all kinds of calls; a kind is a
 * table of operations.
 *
 *     IDLE -> READY -> RUNNING -> PAUSED -> READY ...
 *
 * READY calls wait in the queue of their kind until the changes they tell of are durable and there
 * is room. Queues are served in the order of enum hf_outcall_queue. GRANTED callbacks are not
 * bounded; of the others, notify_in_flight of each queue run at a time. An outcall lives inside the
 * object it is about: a waiter or a client.
 *
 * A peer that lives answers within a few milliseconds, and each answer is work for the loop. If
 * thousands of calls were begun at once their answers would arrive together, and every request that
 * arrives meanwhile would wait for all of them. So of the calls of a queue that are fresh, only
 * HF_OUTCALL_FRESH may run at a time. A call is fresh for HF_OUTCALL_FRESH_MS and until the loop
 * has asked for calls HF_OUTCALL_FRESH_TURNS times since (a turn may take longer than that time,
 * and answers that it has not seen yet are not missing). A call that has run for longer is one to a
 * peer that may be dead; such calls are no work until they time out, and notify_in_flight alone
 * bounds them.
 */
#ifndef HF_CORE_OUTCALL_OUTCALL_H
#define HF_CORE_OUTCALL_OUTCALL_H

#include "base/list.h"
#include "base/map.h"
#include "core/common/timer.h"
#include "core/outcall.h"

struct hf_outcall;

enum {
    HF_OUTCALL_FRESH = 64,
    HF_OUTCALL_FRESH_MS = 3,
    /* Long enough: a notice that is answered at once takes five turns. */
    HF_OUTCALL_FRESH_TURNS = 8,
};

enum hf_outcall_queue {
    HF_OUTCALL_GRANTS,
    HF_OUTCALL_VERIFICATIONS,
    HF_OUTCALL_PROBES,
    HF_OUTCALL_NOTICES, /* SM_NOTIFY and status callbacks */
    HF_OUTCALL_QUEUES,
};

struct hf_outcall_ops {
    enum hf_outcall_queue queue;

    /* Is called when an attempt starts: counts it and fills in the call. id, attempt and timeout_ms
     * are set, and may be changed. */
    void (*start)(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall,
                  struct hf_outcall_attempt *out);

    /* Is called when the attempt has ended (each failure is HF_OUTCALL_FAILED here): ends the
     * outcall or pauses it. */
    void (*done)(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall,
                 enum hf_outcall_outcome outcome);

    /* Is called when the timer that start() armed has fired before the attempt ended. NULL if
     * start() arms none. */
    void (*overdue)(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall);
};

enum hf_outcall_state {
    HF_OUTCALL_IDLE,
    HF_OUTCALL_READY,
    HF_OUTCALL_RUNNING, /* an attempt is in flight */
    HF_OUTCALL_PAUSED,  /* the outcall waits until its timer fires */
};

struct hf_outcall {
    uint64_t id; /* the id of its calls; a new one each time the outcall begins */
    const struct hf_outcall_ops *ops;
    struct hf_map_node by_id;
    /* Links the outcall into its queue: ready when READY, fresh when RUNNING since a moment ago. */
    struct hf_list link;
    struct hf_timer timer;
    enum hf_outcall_state state;
    uint32_t begun;    /* how many attempts were begun, in all */
    uint32_t attempts; /* how many attempts put a packet on the wire, or are about to */
    /* The last attempt that ended put a packet on the wire, and is counted in attempts. */
    bool tried;
    uint32_t arrived;    /* how many failed attempts may have reached the peer nevertheless */
    int error;           /* the error of the last failed attempt */
    uint64_t seq;        /* the batch that must be durable first */
    uint64_t begun_ms;   /* when the first of `attempts` began */
    uint64_t attempt_ms; /* when the latest attempt began */
    uint64_t attempt_turn;
};

struct hf_outcalls {
    struct hf_map by_id;
    struct {
        struct hf_list ready;
        struct hf_list fresh; /* attempts that are fresh, the oldest first */
        uint32_t n_fresh;
        uint32_t running;
    } queues[HF_OUTCALL_QUEUES];
    uint64_t turn; /* counts how often the loop was told that no more may start now */
    /* When an attempt is no longer fresh, if others wait for that; UINT64_MAX: none do. It is not a
     * timer, because timers live in the arena. */
    uint64_t room_ms;
};

int hf_outcalls_init(struct hf_core *core);
void hf_outcalls_free(struct hf_core *core);
uint32_t hf_outcalls_running(const struct hf_core *core);

void hf_outcall_init(struct hf_outcall *outcall);

/* Begins the call, or begins it anew if it is in flight already. */
void hf_outcall_begin(struct hf_core *core, struct hf_outcall *outcall,
                      const struct hf_outcall_ops *ops, uint64_t seq);
void hf_outcall_end(struct hf_core *core, struct hf_outcall *outcall);
void hf_outcall_pause(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall,
                      uint64_t until_ms);

/* Lets only one more attempt be made after the one in flight, if there is one. */
void hf_outcall_cut_short(const struct hf_core *core, struct hf_outcall *outcall);

/* Returns the id by which other rooms, and the cookies of callbacks, name the outcall: it cannot be
 * guessed from another's. */
uint64_t hf_outcall_cookie(const struct hf_core *core, const struct hf_outcall *outcall);

/* Returns the outcall that is in flight with this cookie, or NULL. */
struct hf_outcall *hf_outcall_find(const struct hf_core *core, uint64_t cookie);

/* Returns the next attempt that may start now; false: there is none. */
bool hf_outcall_next(struct hf_core *core, struct hf_now now, struct hf_outcall_attempt *out);
void hf_outcall_attempt_done(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall,
                             enum hf_outcall_outcome outcome, int error);

#endif
