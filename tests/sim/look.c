/* Reads the core through its view into the terms of the model. */
#include "model.h"

#include <string.h>

#include "door.h"
#include "world.h"

enum { PAGE = 16 };

int sim_host_of_client(const struct sim_world *world, uint64_t client_id,
                       const struct hf_addr *addr)
{
    struct hf_view_client row;

    if (!world->config.twins)
        return sim_host_of_addr(addr);
    return hf_core_view_client(world->server.core, client_id, &row) < 0
               ? -1
               : sim_host_of_record(&row.record);
}

/* The owner's number in this world; reports an owner that cannot exist, and returns -1. */
static int owner_of(struct sim_world *world, uint64_t client_id, const struct hf_addr *addr,
                    struct hf_bytes name, int32_t svid, const char *what)
{
    int host = sim_host_of_client(world, client_id, addr);

    if (host >= 0 && host < world->config.hosts && svid >= 0 && svid < SIM_PROCS &&
        hf_bytes_equal(name, sim_host_name((unsigned)host, SIM_NAME_LONG)))
        return (int)sim_owner((unsigned)host, (unsigned)svid);
    sim_world_violation(world, "the naive model agrees",
                        "a %s of '%.*s' at host %d, svid %d, who was never given one", what,
                        (int)name.len, (const char *)name.data, host, svid);
    return -1;
}

static bool range_of(struct sim_world *world, struct hf_bytes fh, uint64_t first, uint64_t last,
                     struct sim_range *range)
{
    int file = sim_file_of_handle(fh);

    if (file >= 0 && sim_range_of_bytes(world->config.layout, first, last, range)) {
        range->file = (uint8_t)file;
        return true;
    }
    sim_world_violation(world, "the naive model agrees", "bytes %llx to %llx of file %d",
                        (unsigned long long)first, (unsigned long long)last, file);
    return false;
}

static void look_at_locks(struct sim_world *world, struct sim_seen *out)
{
    struct hf_view_lock rows[PAGE];
    uint64_t cursor = 0;
    size_t n;

    while ((n = hf_core_view_locks(world->server.core, &cursor, UINT64_MAX, rows, PAGE)) > 0) {
        for (size_t i = 0; i < n; i++) {
            const struct hf_record_lock *l = &rows[i].record;
            enum sim_mode mode = l->exclusive ? SIM_EXCLUSIVE : SIM_SHARED;
            struct sim_range range;
            int owner = owner_of(world, l->client_id, &rows[i].client_addr, rows[i].client_name,
                                 l->svid, "lock");

            if (owner < 0 || !range_of(world, l->fh, l->first, l->last, &range))
                return;
            if (!sim_oracle_holds(&out->held, (unsigned)owner, range, SIM_FREE))
                sim_world_violation(world, "the naive model agrees", "an owner's locks overlap");
            sim_oracle_set(&out->held, (unsigned)owner, range, mode);
            out->locks_of_owner[owner]++;
            out->edges[range.file][range.first][owner] |= SIM_BEGINS;
            out->edges[range.file][range.last][owner] |= SIM_ENDS;
            out->locks_of_host[(unsigned)owner / SIM_PROCS]++;
            out->locks_of_file[range.file]++;
            if (rows[i].unreclaimed)
                sim_oracle_set(&out->unreclaimed, (unsigned)owner, range, mode);
            if (rows[i].releasing)
                sim_oracle_set(&out->releasing, (unsigned)owner, range, mode);
        }
    }
}

/* Inserts a waiter in the order of the tickets, whatever order the pages of the view have. */
static void insert(struct sim_waiter *waiters, unsigned *n, struct sim_waiter waiter)
{
    unsigned i = (*n)++;

    for (; i > 0 && waiters[i - 1].id > waiter.id; i--)
        waiters[i] = waiters[i - 1];
    waiters[i] = waiter;
}

static void look_at_waiters(struct sim_world *world, struct sim_seen *out)
{
    struct hf_view_waiter rows[PAGE];
    uint64_t cursor = 0;
    size_t n;

    while ((n = hf_core_view_waiters(world->server.core, &cursor, UINT64_MAX, rows, PAGE)) > 0) {
        for (size_t i = 0; i < n; i++) {
            const struct hf_view_waiter *w = &rows[i];
            struct sim_waiter waiter = {
                .exclusive = w->exclusive, .passes = w->passes, .id = w->id};
            int owner =
                owner_of(world, w->client_id, &w->client_addr, w->client_name, w->svid, "waiter");

            if (owner < 0 || !range_of(world, w->fh, w->first, w->last, &waiter.range))
                return;
            if (out->n_waiters == SIM_WAITERS || out->n_granting == SIM_WAITERS) {
                sim_world_violation(world, "the naive model agrees", "far too many waiters");
                return;
            }
            waiter.owner = (uint8_t)owner;
            if (w->granting)
                insert(out->granting, &out->n_granting, waiter);
            else
                insert(out->waiters, &out->n_waiters, waiter);
        }
    }
}

static void look_at_shares(struct sim_world *world, struct sim_seen *out)
{
    struct hf_view_share rows[PAGE];
    uint64_t cursor = 0;
    size_t n;

    while ((n = hf_core_view_shares(world->server.core, &cursor, UINT64_MAX, rows, PAGE)) > 0) {
        for (size_t i = 0; i < n; i++) {
            int host = sim_host_of_client(world, rows[i].client_id, &rows[i].client_addr);
            int file = sim_file_of_handle(rows[i].fh);
            unsigned proc = rows[i].oh.len > 0 && rows[i].oh.data[0] == '1';

            if (host < 0 || file < 0 || out->n_shares == SIM_SHARES) {
                sim_world_violation(world, "the naive model agrees",
                                    "a share of an unknown host or file");
                return;
            }
            out->shares[out->n_shares++] =
                (struct sim_share){.owner = (uint8_t)sim_owner((unsigned)host, proc),
                                   .file = (uint8_t)file,
                                   .mode = (uint8_t)rows[i].mode,
                                   .access = (uint8_t)rows[i].access};
        }
    }
}

void sim_model_look(struct sim_world *world, struct sim_seen *out)
{
    struct hf_view_status status;

    memset(&out->held, 0, sizeof(out->held));
    memset(&out->unreclaimed, 0, sizeof(out->unreclaimed));
    memset(&out->releasing, 0, sizeof(out->releasing));
    memset(out->edges, 0, sizeof(out->edges));
    memset(out->locks_of_owner, 0, sizeof(out->locks_of_owner));
    memset(out->locks_of_host, 0, sizeof(out->locks_of_host));
    memset(out->locks_of_file, 0, sizeof(out->locks_of_file));
    out->n_waiters = out->n_granting = out->n_shares = 0;
    hf_core_view_status(world->server.core, sim_now(world), &status);
    out->grace = status.grace_active;
    out->n_clients = (unsigned)status.nlm_clients;
    look_at_locks(world, out);
    look_at_waiters(world, out);
    if (status.shares > 0)
        look_at_shares(world, out);
}

static bool same_waiters(const struct sim_waiter *a, unsigned n_a, const struct sim_waiter *b,
                         unsigned n_b)
{
    if (n_a != n_b)
        return false;
    for (unsigned i = 0; i < n_a; i++) {
        if (a[i].id != b[i].id || a[i].owner != b[i].owner || a[i].exclusive != b[i].exclusive ||
            a[i].passes != b[i].passes)
            return false;
    }
    return true;
}

bool sim_seen_equal(const struct sim_seen *a, const struct sim_seen *b)
{
    return memcmp(&a->held, &b->held, sizeof(a->held)) == 0 &&
           memcmp(&a->unreclaimed, &b->unreclaimed, sizeof(a->unreclaimed)) == 0 &&
           memcmp(&a->releasing, &b->releasing, sizeof(a->releasing)) == 0 &&
           same_waiters(a->waiters, a->n_waiters, b->waiters, b->n_waiters) &&
           same_waiters(a->granting, a->n_granting, b->granting, b->n_granting) &&
           a->n_shares == b->n_shares && a->grace == b->grace &&
           memcmp(a->shares, b->shares, a->n_shares * sizeof(a->shares[0])) == 0;
}

void sim_model_print(const struct sim_world *world, FILE *out)
{
    const struct sim_model *model = &world->model;
    struct sim_range range;
    enum sim_mode mode;

    for (unsigned o = 0; o < SIM_OWNERS; o++) {
        range = (struct sim_range){0};
        mode = SIM_FREE;
        while (sim_oracle_next_run(&model->held, o, &range, &mode))
            fprintf(out, "# h%u/%u holds file %u cells %u-%u mode %d\n", o / SIM_PROCS,
                    o % SIM_PROCS, range.file, range.first, range.last, (int)mode);
        range = (struct sim_range){0};
        mode = SIM_FREE;
        while (sim_oracle_next_run(&world->believed, o, &range, &mode))
            fprintf(out, "# h%u/%u believes in file %u cells %u-%u mode %d\n", o / SIM_PROCS,
                    o % SIM_PROCS, range.file, range.first, range.last, (int)mode);
    }
    for (unsigned i = 0; i < model->seen.n_waiters; i++) {
        const struct sim_waiter *w = &model->seen.waiters[i];

        fprintf(out, "# h%u/%u waits for file %u cells %u-%u %s\n", w->owner / SIM_PROCS,
                w->owner % SIM_PROCS, w->range.file, w->range.first, w->range.last,
                w->exclusive ? "exclusive" : "shared");
    }
}
