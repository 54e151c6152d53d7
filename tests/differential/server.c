#include "server.h"

#include <stdlib.h>

#include "base/assert.h"
#include "claims.h"

struct server {
    struct hf_core_config config;
    struct hf_core *core;
    struct hf_now now;
    struct claims *claims; /* NULL: grants are not locked in the kernel */
};

static void commit(struct server *server)
{
    const struct hf_batch *batch;

    while ((batch = hf_core_take_batch(server->core)) != NULL)
        hf_core_batch_done(server->core, server->now, batch->seq, 0);
}

static bool turn(struct server *server)
{
    struct hf_outcall_attempt call;
    struct hf_decision decision;

    commit(server);
    while (hf_core_next_outcall(server->core, server->now, &call)) {
        hf_core_outcall_done(server->core, server->now, call.id, HF_OUTCALL_ACCEPTED, 0);
        commit(server);
    }
    while (hf_core_next_decision(server->core, &decision))
        ; /* server_ask() makes the only request itself again, so this does nothing */
    return server->claims && claims_turn(server->claims, server->core, server->now);
}

/* Makes everything durable at once, takes every callback, and does what the core asks of the
 * kernel. */
static void settle(struct server *server)
{
    while (turn(server))
        ;
    hf_core_verify_invariants(server->core);
}

struct server *server_new(bool coherent)
{
    struct server *server = calloc(1, sizeof(*server));

    HF_ASSERT(server);
    server->config = hf_core_config_default();
    server->config.coherent = coherent;
    server->now = (struct hf_now){.mono_ms = 1000, .wall_ms = 1700000000000};
    server->core = hf_core_new(&server->config, &hf_alloc_heap);
    HF_ASSERT(server->core && hf_core_start(server->core, server->now) == 0);
    if (coherent) {
        server->claims = claims_new();
        hf_core_claims_begin(server->core, server->now);
    }
    settle(server);
    return server;
}

void server_free(struct server *server)
{
    hf_core_del(server->core);
    if (server->claims)
        claims_free(server->claims);
    free(server);
}

/* The kernel's results have come, so the requests that waited for them are made again. */
static struct hf_answer again(struct server *server, server_call call, const struct hf_peer *peer,
                              const struct hf_lock_args *args)
{
    struct hf_decision decision;

    while (hf_core_next_decision(server->core, &decision))
        ;
    return call(server->core, server->now, peer, args);
}

struct hf_answer server_ask(struct server *server, server_call call, const struct server_ask *ask)
{
    static const char *const names[] = {"ant", "bee", "cat", "dog", "eel", "fly", "gnu", "hen"};
    struct hf_peer peer = {
        .name = hf_bytes_str(names[ask->owner]),
        .addr = {.family = HF_ADDR_IPV4, .port = 700, .bytes = {10, 0, 0, (uint8_t)ask->owner}},
        .local = {.family = HF_ADDR_IPV4, .port = 4045, .bytes = {10, 0, 0, 250}},
        .transport = HF_TRANSPORT_TCP,
    };
    struct hf_lock_args args = {
        .fh = hf_bytes_str("file"),
        .oh = hf_bytes_str("owner"),
        .svid = (int32_t)ask->owner + 1,
        .offset = ask->offset,
        .length = ask->length,
        .exclusive = ask->exclusive,
        .block = ask->block,
        .version = 4,
        .asked = hf_core_asked(server->core),
    };
    struct hf_answer answer;

    HF_ASSERT(ask->owner < HF_COUNT_OF(names));
    answer = call(server->core, server->now, &peer, &args);
    for (unsigned tries = 0; answer.claim != 0; tries++) {
        HF_ASSERT(tries < 3);
        (void)turn(server);
        answer = again(server, call, &peer, &args);
    }
    settle(server);
    if (server->claims)
        claims_check(server->claims, server->core);
    return answer;
}

uint32_t server_waits(const struct server *server)
{
    struct hf_view_waiter rows[16];
    uint64_t cursor = 0;
    uint32_t mask = 0;
    size_t n;

    while ((n = hf_core_view_waiters(server->core, &cursor, UINT64_MAX, rows, HF_COUNT_OF(rows))) >
           0) {
        for (size_t i = 0; i < n; i++)
            mask |= 1u << (rows[i].svid - 1);
    }
    return mask;
}

unsigned server_holder(const struct hf_answer *answer)
{
    return (unsigned)answer->holder.svid - 1;
}
