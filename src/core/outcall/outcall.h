/*
 * Outgoing calls (SPEC section 3): a machine that attempts a call, pauses, and attempts it again,
 * until the module that began the call ends it. This machine serves all kinds of calls; a kind is a
 * table of operations.
 *
 *     IDLE -> READY -> RUNNING -> PAUSED -> READY ...
 *
 * READY calls wait in the queue of their kind until the changes they tell of are durable and there
 * is room. Queues are served in the order of enum hf_outcall_queue. GRANTED callbacks are not
 * bounded; of the others, notify_in_flight of each queue run at a time. An outcall is a field of
 * the waiter or client that it concerns.
 *
 * A peer that lives answers within a few milliseconds, and each answer is work for the loop. If
 * thousands of calls were begun at once their answers would arrive together, and every request that
 * arrives meanwhile would wait for all of them. So only HF_OUTCALL_FRESH fresh calls of a queue may
 * run at a time. A call is fresh for HF_OUTCALL_FRESH_MS, and until the loop has since asked for
 * calls HF_OUTCALL_FRESH_TURNS times: a turn may take longer than those milliseconds, and an answer
 * that the loop has not read yet is not missing. A call that is no longer fresh may be to a dead
 * peer; such calls are no work until they time out, and notify_in_flight alone bounds them.
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
    /* Enough turns: a notice that is answered at once takes five. */
    HF_OUTCALL_FRESH_TURNS = 8,
};

enum hf_outcall_queue {
    HF_OUTCALL_GRANTS,
    HF_OUTCALL_VERIFICATIONS,
    HF_OUTCALL_PROBES,
    HF_OUTCALL_NOTICES, /* SM_NOTIFY and `status` callbacks */
    HF_OUTCALL_QUEUES,
};

struct hf_outcall_ops {
    enum hf_outcall_queue queue;

    /* Called when an attempt starts: counts the attempt and fills in the call. id, attempt and
     * timeout_ms are set already, and may be changed. */
    void (*start)(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall,
                  struct hf_outcall_attempt *out);

    /* Called when an attempt has ended (each kind of failure is HF_OUTCALL_FAILED here): ends the
     * outcall or pauses it. */
    void (*done)(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall,
                 enum hf_outcall_outcome outcome);

    /* Called when the timer that start() armed fires before the attempt ends. NULL if start() arms
     * no timer. */
    void (*overdue)(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall);
};

enum hf_outcall_state {
    HF_OUTCALL_IDLE,
    HF_OUTCALL_READY,
    HF_OUTCALL_RUNNING, /* an attempt is in flight */
    HF_OUTCALL_PAUSED,  /* the outcall waits until its timer fires */
};

struct hf_outcall {
    uint64_t id; /* names the outcall's calls; a new id each time the outcall begins */
    const struct hf_outcall_ops *ops;
    struct hf_map_node by_id;
    /* Links a READY outcall into its queue's list `ready`, a RUNNING one that is still fresh into
     * `fresh`. */
    struct hf_list link;
    struct hf_timer timer;
    enum hf_outcall_state state;
    uint32_t begun;    /* how many attempts have begun in all */
    uint32_t attempts; /* how many attempts put a packet on the wire, or may still do so */
    /* The last attempt that ended put a packet on the wire, so `attempts` counts it. */
    bool tried;
    uint32_t arrived;    /* how many failed attempts may still have reached the peer */
    int error;           /* the error of the last failed attempt */
    uint64_t seq;        /* the batch that must be durable before the call leaves */
    uint64_t begun_ms;   /* when the first attempt that counts began */
    uint64_t attempt_ms; /* when the latest attempt began */
    uint64_t attempt_turn;
};

struct hf_outcalls {
    struct hf_map by_id;
    struct {
        struct hf_list ready;
        struct hf_list fresh; /* attempts that are still fresh, oldest first */
        uint32_t n_fresh;
        uint32_t running;
    } queues[HF_OUTCALL_QUEUES];
    uint64_t turn; /* counts how often the loop was told that no more attempts may start */
    /* When the oldest fresh attempt stops being fresh, if a call waits for that; UINT64_MAX: none
     * waits. This is not a timer because timers live in the arena. */
    uint64_t room_ms;
};

int hf_outcalls_init(struct hf_core *core);
void hf_outcalls_free(struct hf_core *core);
uint32_t hf_outcalls_running(const struct hf_core *core);

void hf_outcall_init(struct hf_outcall *outcall);

/* Begins the outcall; one that is in flight already begins anew. */
void hf_outcall_begin(struct hf_core *core, struct hf_outcall *outcall,
                      const struct hf_outcall_ops *ops, uint64_t seq);
void hf_outcall_end(struct hf_core *core, struct hf_outcall *outcall);
void hf_outcall_pause(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall,
                      uint64_t until_ms);

/* Allows at most one more attempt after the one in flight. */
void hf_outcall_cut_short(const struct hf_core *core, struct hf_outcall *outcall);

/* Returns the id by which other rooms and the cookies of callbacks name the outcall, and which
 * cannot be guessed from that of another outcall. */
uint64_t hf_outcall_cookie(const struct hf_core *core, const struct hf_outcall *outcall);

/* Returns the outcall with this cookie, or NULL if it has ended. */
struct hf_outcall *hf_outcall_find(const struct hf_core *core, uint64_t cookie);

/* Returns true and the next attempt that may start now; false: there is none. */
bool hf_outcall_next(struct hf_core *core, struct hf_now now, struct hf_outcall_attempt *out);
void hf_outcall_attempt_done(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall,
                             enum hf_outcall_outcome outcome, int error);

#endif
