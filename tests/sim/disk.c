#include "disk.h"

#include <string.h>

#include "door.h"
#include "world.h"

static void read_client(struct sim_world *world, const struct stored_record *record)
{
    struct hf_record_client client;
    int host;

    if (hf_record_decode_client(record_bytes(record), &client) < 0 || client.n_addrs == 0) {
        if (record->len == 0)
            sim_world_violation(world, "records are well-formed", "an empty client record");
        return; /* an SM_MON registration may have no address */
    }
    host = sim_host_of_record(&client);
    if (client.protocol == HF_PROTOCOL_NLM && host >= 0 &&
        hf_bytes_equal(client.name, sim_host_name((unsigned)host, SIM_NAME_LONG)))
        world->server.registered[host] = true;
}

/* The host of a lock is the one its client record names; the record must be there. */
static int host_of_lock(struct sim_world *world, const struct hf_record_lock *lock)
{
    const struct stored_record *record =
        records_find(&world->server.records, HF_RECORD_CLIENT, lock->client_id);
    struct hf_record_client client;

    if (!record || hf_record_decode_client(record_bytes(record), &client) < 0 ||
        client.n_addrs == 0)
        return -1;
    return sim_host_of_record(&client);
}

/* Inserts a waiter by its place in the queue. */
static void add_waiter(struct sim_waiter *waiters, unsigned *n, const struct sim_waiter *waiter)
{
    unsigned i = *n;

    if (*n == SIM_WAITERS)
        return; /* reading the view reports that there are too many waiters */
    ++*n;
    for (; i > 0 && waiters[i - 1].id > waiter->id; i--)
        waiters[i] = waiters[i - 1];
    waiters[i] = *waiter;
}

static void read_share(struct sim_recorded *besides, const struct hf_record_lock *lock, int host,
                       int file)
{
    unsigned proc = lock->oh.len > 0 && lock->oh.data[0] == '1';

    if (besides->n_shares < SIM_SHARES)
        besides->shares[besides->n_shares++] =
            (struct sim_share){.owner = (uint8_t)sim_owner((unsigned)host, proc),
                               .file = (uint8_t)file,
                               .mode = lock->extra.mode,
                               .access = lock->extra.access};
}

static void read_waiter(struct sim_recorded *besides, const struct hf_record_lock *lock, int host,
                        struct sim_range range)
{
    struct sim_waiter waiter = {.owner = (uint8_t)sim_owner((unsigned)host, (unsigned)lock->svid),
                                .exclusive = lock->exclusive,
                                .passes = lock->extra.passes,
                                .range = range,
                                .id = lock->extra.place};

    if (lock->extra.what == HF_RECORD_GRANTED)
        add_waiter(besides->granting, &besides->n_granting, &waiter);
    else
        add_waiter(besides->waiters, &besides->n_waiters, &waiter);
}

static void read_lock(struct sim_world *world, const struct stored_record *record)
{
    struct sim_recorded *besides = &world->server.besides;
    struct hf_record_lock lock;
    struct sim_range range = {0};
    int rv = hf_record_decode_lock(record_bytes(record), &lock);
    int host = rv < 0 ? -1 : host_of_lock(world, &lock);
    int file = rv < 0 ? -1 : sim_file_of_handle(lock.fh);

    if (host >= 0 && file >= 0 && lock.extra.what == HF_RECORD_SHARED) {
        read_share(besides, &lock, host, file);
        return;
    }
    if (host < 0 || file < 0 || lock.svid < 0 || lock.svid >= SIM_PROCS ||
        !sim_range_of_bytes(world->config.layout, lock.first, lock.last, &range)) {
        sim_world_violation(world, "records are well-formed",
                            "lock %llx on disk has no client, file or range of this world",
                            (unsigned long long)record->id);
        return;
    }
    range.file = (uint8_t)file;
    if (lock.extra.what != HF_RECORD_HELD) {
        read_waiter(besides, &lock, host, range);
        return;
    }
    sim_oracle_set(&world->server.disk, sim_owner((unsigned)host, (unsigned)lock.svid), range,
                   lock.exclusive ? SIM_EXCLUSIVE : SIM_SHARED);
}

static void server_found(struct sim_world *world, const struct hf_record_server *record)
{
    struct sim_server *server = &world->server;

    if (record->epoch != server->durable_epoch) {
        server->pages.epoch_boot = server->pages.boot;
        server->recorded = world->config.durable;
        server->records_all = world->config.durable && world->config.continues;
        server->was_monitor = world->config.monitor;
        /* The batch of the start may reach the disk although SM_SIMU_CRASH has begun an epoch since
         * (seed 130021742). */
        server->durable_number =
            record->epoch == server->start_epoch ? server->start_number : record->epoch;
    }
    server->durable_epoch = record->epoch;
    server->clean = record->clean;
    server->complete = record->continuity == HF_CONTINUITY_COMPLETE;
}

void sim_disk_read(struct sim_world *world)
{
    struct sim_server *server = &world->server;
    struct hf_record_server decoded;

    memset(&server->disk, 0, sizeof(server->disk));
    memset(server->registered, 0, sizeof(server->registered));
    server->besides.n_waiters = server->besides.n_granting = server->besides.n_shares = 0;
    for (unsigned i = 0; i < server->records.count; i++) {
        const struct stored_record *record = server->records.at[i];

        if (record->kind == HF_RECORD_CLIENT)
            read_client(world, record);
        else if (record->kind == HF_RECORD_LOCK)
            read_lock(world, record);
        else if (hf_record_decode_server(record_bytes(record), &decoded) == 0)
            server_found(world, &decoded);
    }
}
