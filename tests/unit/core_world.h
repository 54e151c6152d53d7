/*
 * A small world around the core for unit tests: a heap that can fail, a clock that is turned by
 * hand, and records in memory as the store. Every operation is followed by
 * hf_core_verify_invariants().
 */
#ifndef HF_TESTS_CORE_WORLD_H
#define HF_TESTS_CORE_WORLD_H

#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "core/core.h"
#include "support/records.h"

struct world {
    struct faulty_heap heap;
    struct hf_alloc alloc;
    struct hf_core_config config;
    struct hf_core *core;
    struct hf_now now;
    struct records records; /* what is durable */
    bool by_hand;           /* the test commits; otherwise each step does */
    bool unchecked;         /* skip hf_core_verify_invariants() after each step */
    struct hf_addr at;      /* the address from which requests come, if its family is set */
};

/* A request of a test. What it leaves out is: client 1, svid 1, file "f", the whole file,
 * exclusive. */
struct ask {
    int client;
    int svid;
    const char *fh;
    const char *oh;
    uint64_t off, len;
    bool shared, block, reclaim, nm, msg;
    int32_t state;
    uint32_t mode, access;
    uint64_t asked;
};

static inline struct hf_addr world_addr(int n)
{
    struct hf_addr addr = {.family = HF_ADDR_IPV4, .port = 700};

    addr.bytes[0] = 10;
    addr.bytes[2] = (uint8_t)(n >> 8);
    addr.bytes[3] = (uint8_t)n;
    return addr;
}

static inline struct hf_peer world_peer(struct world *w, int n)
{
    static char names[8][32];
    static unsigned turn;
    char *name = names[turn++ % HF_COUNT_OF(names)];
    struct hf_peer peer = {.transport = HF_TRANSPORT_TCP};

    snprintf(name, sizeof(names[0]), "client%d.example", n);
    peer.name = hf_bytes_str(name);
    peer.addr = w->at.family ? w->at : world_addr(n);
    peer.local = world_addr(250);
    return peer;
}

static inline void world_check(struct world *w)
{
    if (!w->unchecked)
        hf_core_verify_invariants(w->core);
}

/* Takes one batch, if there is one, and reports it; error 0: durable. */
static inline bool world_commit_one(struct world *w, int error)
{
    const struct hf_batch *batch = hf_core_take_batch(w->core);

    if (!batch)
        return false;
    if (error == 0)
        records_apply(&w->records, batch);
    hf_core_batch_done(w->core, w->now, batch->seq, error);
    world_check(w);
    return true;
}

static inline void world_commit(struct world *w)
{
    while (world_commit_one(w, 0))
        ;
}

static inline void world_step(struct world *w)
{
    world_check(w);
    if (!w->by_hand)
        world_commit(w);
}

static inline size_t world_count(const struct world *w, enum hf_record_kind kind)
{
    return records_count(&w->records, kind);
}

static inline int world_load(struct world *w)
{
    struct hf_loader *loader = hf_loader_new(w->core);
    int rv = loader ? 0 : HF_ENOMEM;

    for (unsigned i = 0; i < w->records.count && rv == 0; i++) {
        const struct stored_record *record = w->records.at[i];

        rv = hf_loader_add(loader, record->kind, record_bytes(record));
    }
    if (rv == 0)
        rv = hf_loader_end(loader);
    hf_loader_del(loader);
    return rv;
}

static inline void world_start(struct world *w)
{
    w->core = hf_core_new(&w->config, &w->alloc);
    assert_non_null(w->core);
    assert_int_equal(world_load(w), 0);
    assert_int_equal(hf_core_start(w->core, w->now), 0);
    world_step(w);
}

static inline void world_open(struct world *w)
{
    *w = (struct world){.heap = {.after = -1}, .now = {1000, 1700000000000}};
    w->alloc = faulty_alloc(&w->heap);
    w->config = hf_core_config_default();
    /* The tests of verification switch it on (test_core_verify.c). */
    w->config.verify_notices = false;
    w->config.server_name = hf_bytes_str("holdfast.example");
    w->config.hash_key = (struct hf_hash_key){1, 2};
}

/* Ends the core as kill -9 does: what is not in the store is lost. */
static inline void world_crash(struct world *w)
{
    hf_core_del(w->core);
    w->core = NULL;
    assert_int_equal(w->heap.live, 0);
}

static inline void world_restart(struct world *w)
{
    world_crash(w);
    w->now.mono_ms += 100;
    world_start(w);
}

/* Empties the store, as if its disk were lost. */
static inline void world_forget(struct world *w)
{
    records_free(&w->records);
}

static inline void world_close(struct world *w)
{
    if (w->core)
        world_crash(w);
    world_forget(w);
}

static inline struct hf_lock_args world_args(const struct ask *a)
{
    return (struct hf_lock_args){
        .fh = hf_bytes_str(a->fh ? a->fh : "f"),
        .oh = hf_bytes_str(a->oh ? a->oh : "owner"),
        .svid = a->svid ? a->svid : 1,
        .offset = a->off,
        .length = a->len,
        .exclusive = !a->shared,
        .block = a->block,
        .reclaim = a->reclaim,
        .unmonitored = a->nm,
        .msg = a->msg,
        .state = a->state,
        .version = 4,
        .asked = a->asked,
    };
}

typedef struct hf_answer (*world_call)(struct hf_core *core, struct hf_now now,
                                       const struct hf_peer *peer, const struct hf_lock_args *args);

static inline struct hf_answer world_ask(struct world *w, world_call call, struct ask a)
{
    struct hf_peer peer = world_peer(w, a.client ? a.client : 1);
    struct hf_lock_args args = world_args(&a);
    struct hf_answer answer = call(w->core, w->now, &peer, &args);

    world_step(w);
    return answer;
}

static inline enum hf_stat world_stat(struct world *w, world_call call, struct ask a)
{
    return world_ask(w, call, a).stat;
}

#define ASK(w, call, ...) world_ask(w, call, (struct ask){__VA_ARGS__})
#define LOCK(w, ...)      world_stat(w, hf_core_lock, (struct ask){__VA_ARGS__})
#define UNLOCK(w, ...)    world_stat(w, hf_core_unlock, (struct ask){__VA_ARGS__})
#define TEST(w, ...)      world_stat(w, hf_core_test, (struct ask){__VA_ARGS__})
#define CANCEL(w, ...)    world_stat(w, hf_core_cancel, (struct ask){__VA_ARGS__})

static inline enum hf_stat world_share(struct world *w, bool un, struct ask a)
{
    struct hf_peer peer = world_peer(w, a.client ? a.client : 1);
    struct hf_share_args args = {
        .fh = hf_bytes_str(a.fh ? a.fh : "f"),
        .oh = hf_bytes_str(a.oh ? a.oh : "owner"),
        .mode = a.mode,
        .access = a.access,
        .reclaim = a.reclaim,
    };
    enum hf_stat stat = un ? hf_core_unshare(w->core, w->now, &peer, &args).stat
                           : hf_core_share(w->core, w->now, &peer, &args).stat;

    world_step(w);
    return stat;
}

#define SHARE(w, ...)   world_share(w, false, (struct ask){__VA_ARGS__})
#define UNSHARE(w, ...) world_share(w, true, (struct ask){__VA_ARGS__})

/* Returns the next call of this kind that may start; id 0 if there is none. Calls of other kinds
 * are answered. */
static inline struct hf_outcall_attempt world_call_of(struct world *w, enum hf_outcall_kind kind)
{
    struct hf_outcall_attempt call;

    while (hf_core_next_outcall(w->core, w->now, &call)) {
        if (call.kind == kind)
            return call;
        hf_core_outcall_done(w->core, w->now, call.id, HF_OUTCALL_ACCEPTED, 0);
    }
    return (struct hf_outcall_attempt){0};
}

static inline void world_called(struct world *w, uint64_t id, enum hf_outcall_outcome outcome)
{
    hf_core_outcall_done(w->core, w->now, id, outcome,
                         outcome >= HF_OUTCALL_FAILED ? HF_ETIMEDOUT : 0);
    world_step(w);
}

static inline void world_later(struct world *w, uint64_t ms)
{
    w->now.mono_ms += ms;
    w->now.wall_ms += (int64_t)ms;
    hf_core_tick(w->core, w->now);
    world_step(w);
}

static inline struct hf_view_status world_status(struct world *w)
{
    struct hf_view_status status;

    hf_core_view_status(w->core, w->now, &status);
    return status;
}

/* True if an event of this kind was in the queue; drains it. */
static inline bool world_event(struct world *w, enum hf_event_kind kind, struct hf_event *out)
{
    struct hf_event event;
    bool found = false;

    while (hf_core_next_event(w->core, &event)) {
        if (event.kind == kind && !found) {
            found = true;
            if (out)
                *out = event;
        }
    }
    return found;
}

/* The fixture of a test: a world whose core has started. */
static inline int open_world(void **state)
{
    struct world *w = test_malloc(sizeof(*w));

    world_open(w);
    world_start(w);
    *state = w;
    return 0;
}

static inline int close_world(void **state)
{
    world_close(*state);
    test_free(*state);
    return 0;
}

#endif
