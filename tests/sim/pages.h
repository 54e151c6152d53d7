/*
 * The page cache of the server's host, for locks.durable=process (DUR-02): batches that were
 * written and not flushed. It survives a crash of the server's process. A crash of the host keeps
 * only the first of them, and as many more as the kernel happened to write in order.
 *
 * It stands for hf_store_write(), hf_store_flush() and the thread that flushes within 10 ms.
 */
#ifndef HF_SIM_PAGES_H
#define HF_SIM_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/record.h"
#include "support/records.h"

struct sim_world;

enum { SIM_WRITTEN = 32, SIM_FLUSH_WITHIN_MS = 10 };

struct sim_pages {
    struct records stable; /* what a crash of the host leaves on the disk */
    struct sim_written {
        struct hf_batch batch; /* a copy */
        uint64_t at_ms;
    } written[SIM_WRITTEN]; /* oldest first */
    unsigned n_written;
    bool flush_failed;  /* the store is down: nothing is written until a flush succeeds */
    uint8_t boot;       /* counts the boots of the host */
    uint8_t epoch_boot; /* the boot in which the epoch on the disk began */
};

void sim_pages_free(struct sim_pages *pages);

/* True if the batch may be lost, so that it is only written now; otherwise it must be committed. */
bool sim_pages_may_write(struct sim_world *world, const struct hf_batch *batch);
void sim_pages_write(struct sim_world *world, const struct hf_batch *batch);

/* A batch that had to be flushed is on the disk, and with it everything written before. */
void sim_pages_committed(struct sim_world *world, const struct hf_batch *batch);

void sim_pages_on_flush(struct sim_world *world, uint32_t run);

/* The server starts: everything that was written is in the tree, and flushed. */
void sim_pages_opened(struct sim_world *world);

/* The host crashes, and with it the server if that was up: the server's records become what is
 * left. */
void sim_pages_lose(struct sim_world *world, bool was_up);

#endif
