#include "pages.h"

#include <string.h>

#include "base/assert.h"
#include "disk.h"
#include "world.h"

/* The simulator's own heap, which never fails; only the core's is made to. */
static const struct hf_alloc *const heap = &hf_alloc_heap;

/* Writes the oldest n batches to the disk. */
static void settle(struct sim_pages *pages, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        records_apply(&pages->stable, &pages->written[i].batch);
        hf_batch_free(&pages->written[i].batch);
    }
    pages->n_written -= n;
    memmove(&pages->written[0], &pages->written[n], pages->n_written * sizeof(pages->written[0]));
}

static void forget(struct sim_pages *pages)
{
    for (unsigned i = 0; i < pages->n_written; i++)
        hf_batch_free(&pages->written[i].batch);
    pages->n_written = 0;
}

void sim_pages_free(struct sim_pages *pages)
{
    forget(pages);
    records_free(&pages->stable);
}

static void schedule_flush(struct sim_world *world, uint32_t pause_ms)
{
    sim_queue_push(&world->queue, (struct sim_event){.at_ms = world->now_ms + pause_ms,
                                                     .kind = SIM_EVENT_FLUSH,
                                                     .generation = world->server.run});
}

static void keep_copy(struct sim_pages *pages, const struct hf_batch *batch, uint64_t now_ms)
{
    struct sim_written *written = &pages->written[pages->n_written++];
    struct hf_bytes bytes = hf_buf_view(&batch->buf);

    hf_batch_init(&written->batch, heap);
    HF_ASSERT(hf_buf_append(&written->batch.buf, bytes.data, bytes.len) == 0);
    written->batch.n_ops = batch->n_ops;
    written->at_ms = now_ms;
}

/* Without this, a host would hardly ever crash in the few milliseconds before a flush. */
static void crash_soon(struct sim_world *world)
{
    if (world->config.host_crash_ms == 0 || !sim_rng_one_in(&world->rng, 12))
        return;
    sim_queue_push(
        &world->queue,
        (struct sim_event){.at_ms = world->now_ms + sim_rng_below(&world->rng, SIM_FLUSH_WITHIN_MS),
                           .kind = SIM_EVENT_FAULT,
                           .who = 1,
                           .what = SIM_FAULT_HOST_CRASH});
}

bool sim_pages_may_write(struct sim_world *world, const struct hf_batch *batch)
{
    const struct sim_pages *pages = &world->server.pages;

    return batch->may_be_lost && !pages->flush_failed && pages->n_written < SIM_WRITTEN &&
           !world->server.outage && !sim_rng_one_in(&world->rng, 16);
}

void sim_pages_write(struct sim_world *world, const struct hf_batch *batch)
{
    struct sim_pages *pages = &world->server.pages;

    if (pages->n_written == 0)
        schedule_flush(world, sim_rng_range(&world->rng, 0, SIM_FLUSH_WITHIN_MS));
    keep_copy(pages, batch, world->now_ms);
    crash_soon(world);
    records_apply(&world->server.records, batch);
    sim_disk_read(world);
}

void sim_pages_committed(struct sim_world *world, const struct hf_batch *batch)
{
    struct sim_pages *pages = &world->server.pages;

    if (!world->config.process)
        return;
    settle(pages, pages->n_written);
    records_apply(&pages->stable, batch);
    pages->flush_failed = false;
}

void sim_pages_on_flush(struct sim_world *world, uint32_t run)
{
    enum { PROBE_MS = 100 };
    struct sim_pages *pages = &world->server.pages;

    if (!world->server.core || world->server.run != run || pages->n_written == 0)
        return;
    pages->flush_failed = world->server.outage;
    if (pages->flush_failed)
        schedule_flush(world, PROBE_MS);
    else
        settle(pages, pages->n_written);
}

void sim_pages_opened(struct sim_world *world)
{
    struct sim_pages *pages = &world->server.pages;

    settle(pages, pages->n_written);
    pages->flush_failed = false;
}

/* Checks that no batch is flushed too late: a crash would lose it although the store was healthy.
 */
static void check_flushed(struct sim_world *world)
{
    const struct sim_pages *pages = &world->server.pages;

    for (unsigned i = 0; i < pages->n_written; i++) {
        if (!pages->flush_failed && !world->server.outage &&
            world->now_ms > pages->written[i].at_ms + SIM_FLUSH_WITHIN_MS)
            sim_world_violation(world, "what was written is flushed within 10 ms",
                                "written %llu ms ago",
                                (unsigned long long)(world->now_ms - pages->written[i].at_ms));
    }
}

static void copy_records(struct records *to, const struct records *from)
{
    struct hf_batch batch;

    hf_batch_init(&batch, heap);
    for (unsigned i = 0; i < from->count; i++)
        HF_ASSERT(hf_batch_put_encoded(&batch, from->at[i]->kind, record_bytes(from->at[i])) == 0);
    records_free(to);
    records_apply(to, &batch);
    hf_batch_free(&batch);
}

void sim_pages_lose(struct sim_world *world, bool was_up)
{
    struct sim_pages *pages = &world->server.pages;

    if (was_up)
        check_flushed(world);
    if (sim_rng_one_in(&world->rng, 2))
        settle(pages, sim_rng_below(&world->rng, pages->n_written + 1));
    if (pages->n_written > 0)
        sim_world_fault(world, SIM_FAULT_TAIL_LOST);
    forget(pages);
    copy_records(&world->server.records, &pages->stable);
    sim_disk_read(world);
    pages->flush_failed = false;
    pages->boot++;
}
