/* core-scale CLIENTS: runs a core in which this many clients take three locks each; then a second
 * one, which loads all of it, tells every client of the restart, takes their reclaims, and ends
 * grace. It measures nothing: tests/perf/test_scale.py counts its instructions, which are the same
 * in each run, and compares the cost of a client among few and among many. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "core/core.h"
#include "core/view.h"

enum { LOCKS = 3, TURN_MS = 1 };

struct record {
    enum hf_record_kind kind;
    uint64_t id;
    size_t len;
    uint8_t *value;
};

/* The records as they were written; the first one is the server's own. */
static struct record *records;
static size_t n_records, max_records;
static struct hf_core *core;
static struct hf_now now = {1, 1};

/* ---- the store ---- */

static void put(const struct hf_op *op)
{
    struct record *r = &records[n_records];

    if (op->kind == HF_RECORD_SERVER)
        r = &records[0];
    else
        n_records++;
    HF_ASSERT(op->type == HF_OP_PUT && n_records < max_records);
    free(r->value);
    *r = (struct record){op->kind, op->id, op->value.len, malloc(op->value.len)};
    HF_ASSERT(r->value);
    memcpy(r->value, op->value.data, op->value.len);
}

static void commit_all(bool keep)
{
    const struct hf_batch *batch;

    while ((batch = hf_core_take_batch(core)) != NULL) {
        struct hf_op op;
        size_t cursor = 0;

        while (keep && hf_batch_next(batch, &cursor, &op))
            put(&op);
        hf_core_batch_done(core, now, batch->seq, 0);
    }
}

static void load_all(enum hf_record_kind kind)
{
    for (size_t i = 0; i < n_records; i++) {
        if (records[i].kind == kind)
            HF_ASSERT(hf_core_load(core, kind, hf_bytes(records[i].value, records[i].len)) == 0);
    }
}

/* ---- the clients ---- */

static void lock(uint32_t client, uint32_t number, bool reclaim)
{
    char name[24];
    char fh[24];
    struct hf_peer peer = {.addr = {.family = HF_ADDR_IPV4, .bytes = {10}},
                           .local = {.family = HF_ADDR_IPV4, .bytes = {192, 0, 2, 1}},
                           .transport = HF_TRANSPORT_TCP};
    struct hf_lock_args args = {.oh = hf_bytes_str("owner"),
                                .svid = 1,
                                .exclusive = true,
                                .reclaim = reclaim,
                                .version = 4};

    (void)snprintf(name, sizeof(name), "client%u", client);
    (void)snprintf(fh, sizeof(fh), "%u.%u", client, number);
    peer.addr.bytes[1] = (uint8_t)(client >> 16);
    peer.addr.bytes[2] = (uint8_t)(client >> 8);
    peer.addr.bytes[3] = (uint8_t)client;
    peer.name = hf_bytes_str(name);
    args.fh = hf_bytes_str(fh);
    HF_ASSERT(hf_core_lock(core, now, &peer, &args).stat == HF_STAT_GRANTED);
}

static void lock_all(uint32_t clients, bool reclaim)
{
    for (uint32_t client = 0; client < clients; client++) {
        for (uint32_t number = 0; number < LOCKS; number++)
            lock(client, number, reclaim);
        commit_all(!reclaim);
    }
}

/* Tells all clients of the restart: each turn begins the calls that may begin, and the next one
 * answers them. */
static void tell_all(uint32_t clients)
{
    enum { A_TURN = 64 };
    uint64_t running[A_TURN];
    unsigned n = 0;
    uint32_t told = 0;

    while (told < clients) {
        struct hf_outcall_attempt call;

        for (; n > 0; told++)
            hf_core_outcall_done(core, now, running[--n], HF_OUTCALL_ACCEPTED, 0);
        while (n < A_TURN && hf_core_next_outcall(core, now, &call))
            running[n++] = call.id;
        now.mono_ms += TURN_MS;
        hf_core_tick(core, now);
        commit_all(false);
    }
}

static void start(void)
{
    struct hf_core_config config = hf_core_config_default();

    config.server_name = hf_bytes_str("server.example");
    config.limits =
        (struct hf_limits){UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX,
                           UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};
    config.hash_key = (struct hf_hash_key){11, 22};
    core = hf_core_new(&config, &hf_alloc_heap);
    HF_ASSERT(core);
    for (enum hf_record_kind kind = HF_RECORD_SERVER; kind <= HF_RECORD_LOCK; kind++)
        load_all(kind);
    HF_ASSERT(hf_core_start(core, now) == 0);
}

int main(int argc, char **argv)
{
    uint32_t clients = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1000;
    struct hf_view_status status;

    max_records = 2 + (size_t)clients * (LOCKS + 1);
    records = calloc(max_records, sizeof(*records));
    HF_ASSERT(records);
    start();
    n_records = 1;
    commit_all(true);
    lock_all(clients, false);
    hf_core_del(core); /* the core is deleted without writing anything more, as in a crash */
    start();
    commit_all(false);
    tell_all(clients);
    lock_all(clients, true);
    hf_core_tick(core, now);
    hf_core_view_status(core, now, &status);
    HF_ASSERT(!status.grace_active && status.locks == (uint64_t)clients * LOCKS);
    hf_core_del(core);
    for (size_t i = 0; i < n_records; i++)
        free(records[i].value);
    free(records);
    return 0;
}
