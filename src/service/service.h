/* The layer above the core that NLM, NSM and administration share. It has the core, the time of the
 * current turn of the loop, whether the store accepts changes, and the answers that wait until a
 * batch is durable. All of it belongs to the loop thread.
 *
 * A request is served in three steps, whatever its protocol:
 *
 *    if (!service->store_up) refuse             nothing can be promised (SPEC section 5)
 *    answer = hf_core_...(service->core, hf_service_now(service), ...)
 *    hf_service_when(service, ticket, ...)      then send the answer
 *
 * The driver of the loop (src/daemon, or the simulator) takes batches from the core, commits them,
 * and reports each result by hf_service_batch_done(), which completes the answers. */
#ifndef HF_SERVICE_SERVICE_H
#define HF_SERVICE_SERVICE_H

#include <uv.h>

#include "base/commit_waiters.h"
#include "core/core.h"

enum {
    HF_UNDECIDED_LISTS = 64,
    /* How many answers may wait for a host other than the one that asked (SEC-02). */
    HF_UNDECIDED_MAX = 4096,
    /* how many of these waiting answers one account may have */
    HF_UNDECIDED_OF_ACCOUNT = HF_UNDECIDED_MAX / 8,
    HF_UNDECIDED_PLACES = 512,
};

struct hf_troubles;

struct hf_service {
    struct hf_core *core;
    /* what an operator must see; NULL in a simulator, which has no operator */
    struct hf_troubles *troubles;
    const struct hf_alloc *alloc; /* allocates what a request keeps while its answer waits */
    /* the daemon's loop; NULL in a simulator, which sets `now` itself */
    uv_loop_t *loop;
    struct hf_now now;      /* the time of the current turn, read through hf_service_now() */
    bool now_is_old;        /* the loop has slept since it set `now` */
    int64_t wall_offset_ms; /* the wall clock minus the loop's clock */
    /* The locks are not loaded yet. With standbys, clients that ask are told to repeat their
     * requests, unless requests are held back. */
    bool loading;
    /* Answers to SHARE wait for a commit; if the commit fails, the share reservation stays: with
     * standbys (HA-03), and where shares are recorded (REC-02). */
    bool shares_wait;
    /* With standbys: converts the loop's clock to the core's, which at times stands still. NULL:
     * the core uses the loop's clock. */
    uint64_t (*core_ms)(void *ctx, uint64_t mono_ms);
    void *core_ms_ctx;
    bool store_up;    /* The last commit succeeded; while this is false, requests are refused. */
    uint64_t durable; /* the number of the newest durable batch */
    uint64_t batch_done_ns; /* uv_hrtime() when the result of the last batch arrived */
    struct hf_commit_waiters waiters;
    /* Answers whose tickets name a decision or callback, hashed by its id. A decision is about a
     * crash notice that is being verified (SEC-04), a large release, or a request that waits for
     * the kernel. */
    struct hf_list undecided[HF_UNDECIDED_LISTS];
    unsigned n_undecided;
    /* How many undecided answers each account has. Accounts whose addresses hash to one place are
     * counted together. */
    uint16_t undecided_of[HF_UNDECIDED_PLACES];
};

/* Initialises the service; no batch of the core is durable yet. Core, loop and allocator must
 * outlive the service. */
void hf_service_init(struct hf_service *service, struct hf_core *core, uv_loop_t *loop,
                     const struct hf_alloc *alloc);

/* ---- time ---- */

/* Sets `now` from the loop's clock, which libuv reads once in each turn. */
void hf_service_read_clock(struct hf_service *service);

/*
 * Sets `now`, and also reads the wall clock, which may have been set. Called about once a second.
 */
void hf_service_read_wall_clock(struct hf_service *service);

/* Called when the loop is about to sleep: when the loop wakes, `now` will be out of date. */
static inline void hf_service_end_turn(struct hf_service *service)
{
    service->now_is_old = true;
}

/* Returns the time of this turn of the loop. The first caller after the loop has slept reads the
 * clock for all. */
static inline struct hf_now hf_service_now(struct hf_service *service)
{
    if (service->now_is_old)
        hf_service_read_clock(service);
    return service->now;
}

/* ---- waiting ---- */

/* Adds an answer whose ticket names a decision or callback. Only hf_service_when() calls it. */
void hf_service_add_undecided(struct hf_service *service, struct hf_ticket ticket,
                              struct hf_commit_waiter *waiter, hf_commit_done done);

/* Calls done when the ticket's decision, if it names one, has been made, and then the decision's
 * batch and the ticket's batch are durable (true), or when one of these has failed (false). With
 * nothing to wait for, done is called at once, with a waiter->ticket of 0, and the function returns
 * true. If it returns false, done will be called in a later turn: the caller must copy what must
 * outlive this call. */
static inline bool hf_service_when(struct hf_service *service, struct hf_ticket ticket,
                                   struct hf_commit_waiter *waiter, hf_commit_done done)
{
    if (ticket.decision != 0) {
        hf_service_add_undecided(service, ticket, waiter, done);
        return false;
    }
    if (ticket.seq <= service->durable) {
        waiter->ticket = (struct hf_ticket){0};
        done(waiter, true);
        return true;
    }
    hf_commit_waiters_add(&service->waiters, waiter, ticket.seq, done);
    return false;
}

/* Returns the place of an account, for waiter->place; an operator's place is 0. */
uint32_t hf_service_place_of(const struct hf_service *service, const struct hf_addr *account);

/* Returns false if too many answers wait for other hosts, in all or for this account: then an
 * answer with this ticket must not wait, and its peer, which gets no answer, repeats the request.
 * Requests of an operator may always wait. */
static inline bool hf_service_may_wait(const struct hf_service *service, struct hf_ticket ticket,
                                       uint32_t place)
{
    return ticket.decision == 0 || (service->n_undecided < HF_UNDECIDED_MAX &&
                                    service->undecided_of[place] < HF_UNDECIDED_OF_ACCOUNT);
}

/* Removes a waiting object: its done function will not be called. */
void hf_service_forget(struct hf_service *service, struct hf_commit_waiter *waiter);

/* Completes the waiters of the batches that are durable and, with coherence, whose releases the
 * kernel has made (core/claim.h). Also called after results of the kernel. */
static inline void hf_service_released(struct hf_service *service)
{
    service->durable = hf_core_released(service->core);
    hf_commit_waiters_reached(&service->waiters, service->durable);
}

/* Completes all waiters, because the core has undone a batch and all later changes. */
void hf_service_batch_failed(struct hf_service *service);

/* Takes the result of the batch in flight: it is durable (error 0), or certain not to be. Tells the
 * core, then completes the waiters that this decides. */
static inline void hf_service_batch_done(struct hf_service *service, uint64_t seq, int error)
{
    hf_core_batch_done(service->core, hf_service_now(service), seq, error);
    service->batch_done_ns = uv_hrtime();
    if (error < 0)
        hf_service_batch_failed(service);
    else
        hf_service_released(service);
}

/*
 * Lets the answers go on whose decisions the core has made. Called once in each turn of the loop.
 */
void hf_service_settle(struct hf_service *service);

/* Lets the answers leave that waited for the callback with this id, which has now ended. */
void hf_service_let_go(struct hf_service *service, uint64_t id);

/* Fails all waiters, because the service ends: no waiting answer can be given any more. */
void hf_service_fail_waiters(struct hf_service *service);

#endif
