/* The loader of many records. It loads a lock some records after its record came, and meanwhile
 * fetches, step by step, the memory that the lock will touch (table/fetch.c). */
#include "core/core.h"
#include "core/internal.h"
#include "core/recovery/private.h"
#include "core/table/table.h"

enum {
    /*
     * The number of records between two fetching steps: enough for memory to arrive, few enough to
     * stay cached.
     */
    STEP = 8,
    ROOM = STEP * HF_LOCK_FETCH_STEPS,
};

struct entry {
    struct hf_buf bytes; /* the bytes that `record` points into */
    struct hf_record_lock record;
    struct hf_lock_fetch fetch;
};

struct hf_loader {
    struct hf_core *core;
    /* How many locks were added and how many loaded; the difference is in the ring. */
    uint64_t added, loaded;
    struct entry ring[ROOM];
};

struct hf_loader *hf_loader_new(struct hf_core *core)
{
    struct hf_loader *loader = hf_calloc(core->alloc, 1, sizeof(*loader));

    if (!loader)
        return NULL;
    loader->core = core;
    for (unsigned i = 0; i < ROOM; i++)
        hf_buf_init(&loader->ring[i].bytes, core->alloc);
    return loader;
}

void hf_loader_del(struct hf_loader *loader)
{
    if (!loader)
        return;
    for (unsigned i = 0; i < ROOM; i++)
        hf_buf_free(&loader->ring[i].bytes);
    hf_free(loader->core->alloc, loader);
}

static struct entry *entry_of(struct hf_loader *loader, uint64_t number)
{
    return &loader->ring[number % ROOM];
}

static int load_oldest(struct hf_loader *loader)
{
    return hf_load_lock(loader->core, &entry_of(loader, loader->loaded++)->record);
}

static int keep(struct entry *entry, struct hf_bytes bytes)
{
    hf_buf_clear(&entry->bytes);
    if (hf_buf_append(&entry->bytes, bytes.data, bytes.len) < 0)
        return HF_ENOMEM;
    return hf_record_decode_lock(hf_buf_view(&entry->bytes), &entry->record);
}

/* Makes the first fetching step for the newest lock, and the next steps for those that came STEP, 2
 * * STEP, ... records earlier. */
static void fetch(struct hf_loader *loader)
{
    for (unsigned step = 0; step < HF_LOCK_FETCH_STEPS; step++) {
        uint64_t behind = (uint64_t)step * STEP + 1;
        struct entry *entry;

        if (loader->added < loader->loaded + behind)
            return;
        entry = entry_of(loader, loader->added - behind);
        hf_lock_fetch(loader->core, &entry->record, &entry->fetch, step);
    }
}

int hf_loader_add(struct hf_loader *loader, enum hf_record_kind kind, struct hf_bytes bytes)
{
    int rv = 0;

    if (kind != HF_RECORD_LOCK)
        return hf_core_load(loader->core, kind, bytes);
    if (loader->added - loader->loaded == ROOM)
        rv = load_oldest(loader);
    if (rv == 0)
        rv = keep(entry_of(loader, loader->added), bytes);
    if (rv < 0)
        return rv;
    loader->added++;
    fetch(loader);
    return 0;
}

int hf_loader_end(struct hf_loader *loader)
{
    int rv = 0;

    while (rv == 0 && loader->loaded < loader->added)
        rv = load_oldest(loader);
    return rv;
}
