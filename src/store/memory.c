/*
 * The store in memory, whose records are lost when it is closed. It keeps the encoded bytes of
 * records, so that a faulty record fails here as it would in LMDB. It copies all records of a batch
 * before it changes the first one, so that a batch is applied completely or not at all.
 */
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/map.h"
#include "store/backend.h"

enum { KINDS = HF_RECORD_LOCK + 1 };

struct entry {
    struct hf_map_node node;
    struct entry *next; /* links the copies that were made for one batch */
    uint64_t id;
    size_t len;
    uint8_t bytes[];
};

struct memory {
    struct hf_map kinds[KINDS]; /* the records, one map for each kind; kind 0 does not exist */
};

/* Hashes a record's id with a fixed key: the daemon chooses the ids, so no client can provoke
 * collisions. */
static uint64_t hash_id(uint64_t id)
{
    static const struct hf_hash_key KEY = {0x9ae16a3b2f90404fULL, 0xc3a5c85c97cb3127ULL};

    return hf_hash_u64(&KEY, id, 0);
}

static bool has_id(const struct hf_map_node *node, const void *key)
{
    return hf_container_of(node, struct entry, node)->id == *(const uint64_t *)key;
}

static struct entry *find(struct memory *memory, enum hf_record_kind kind, uint64_t id)
{
    struct hf_map_node *node = hf_map_find(&memory->kinds[kind], hash_id(id), has_id, &id);

    return node ? hf_container_of(node, struct entry, node) : NULL;
}

static struct entry *entry_new(const struct hf_alloc *alloc, const struct hf_op *op)
{
    struct entry *entry = hf_malloc(alloc, sizeof(*entry) + op->value.len);

    if (!entry)
        return NULL;
    *entry = (struct entry){.id = op->id, .len = op->value.len};
    memcpy(entry->bytes, op->value.data, op->value.len);
    return entry;
}

static void memory_close(struct hf_store *store);

static int memory_open(struct hf_store *store, const struct hf_store_config *config)
{
    struct memory *memory = hf_calloc(store->alloc, 1, sizeof(*memory));

    (void)config;
    store->state = memory;
    if (!memory)
        return hf_store_fail(store, HF_ENOMEM, "out of memory");
    for (size_t i = 0; i < KINDS; i++) {
        if (hf_map_init(&memory->kinds[i], store->alloc) < 0) {
            memory_close(store);
            return hf_store_fail(store, HF_ENOMEM, "out of memory");
        }
    }
    return 0;
}

static bool drop(struct hf_map_node *node, void *ctx)
{
    const struct hf_store *store = ctx;

    hf_free(store->alloc, hf_container_of(node, struct entry, node));
    return true;
}

static void memory_close(struct hf_store *store)
{
    struct memory *memory = store->state;

    for (size_t i = 0; i < KINDS; i++) {
        if (memory->kinds[i].alloc)
            hf_map_each(&memory->kinds[i], drop, store);
        hf_map_free(&memory->kinds[i]);
    }
    hf_free(store->alloc, memory);
}

static void free_copies(const struct hf_alloc *alloc, struct entry *copies)
{
    while (copies) {
        struct entry *next = copies->next;
        hf_free(alloc, copies);
        copies = next;
    }
}

/* Copies the records of all puts of a batch, in order. */
static int copy_puts(struct hf_store *store, const struct hf_batch *batch, struct entry **out)
{
    struct entry *first = NULL;
    struct entry **tail = &first;
    struct hf_op op;

    for (size_t cursor = 0; hf_batch_next(batch, &cursor, &op);) {
        if (op.type != HF_OP_PUT)
            continue;
        *tail = entry_new(store->alloc, &op);
        if (!*tail) {
            free_copies(store->alloc, first);
            return hf_store_fail(store, HF_ENOMEM, "out of memory");
        }
        tail = &(*tail)->next;
    }
    *out = first;
    return 0;
}

static int memory_apply(struct hf_store *store, const struct hf_batch *batch)
{
    struct memory *memory = store->state;
    struct entry *copies = NULL;
    struct hf_op op;
    int rv = copy_puts(store, batch, &copies);

    if (rv < 0)
        return rv;
    for (size_t cursor = 0; hf_batch_next(batch, &cursor, &op);) {
        struct entry *old = find(memory, op.kind, op.id);

        if (old) {
            hf_map_remove(&memory->kinds[op.kind], &old->node);
            hf_free(store->alloc, old);
        }
        if (op.type == HF_OP_PUT) {
            struct entry *copy = copies;
            HF_ASSERT(copy);
            copies = copy->next;
            hf_map_insert(&memory->kinds[op.kind], &copy->node, hash_id(op.id));
        }
    }
    HF_ASSERT(!copies);
    return 0;
}

static int memory_probe(struct hf_store *store)
{
    (void)store;
    return 0;
}

struct listing {
    enum hf_record_kind kind;
    hf_store_visit visit;
    void *ctx;
    int rv;
};

static bool list_one(struct hf_map_node *node, void *ctx)
{
    struct listing *listing = ctx;
    struct entry *entry = hf_container_of(node, struct entry, node);

    listing->rv = listing->visit(listing->ctx, listing->kind, hf_bytes(entry->bytes, entry->len));
    return listing->rv == 0;
}

static int memory_list(struct hf_store *store, enum hf_record_kind kind, hf_store_visit visit,
                       void *ctx)
{
    struct memory *memory = store->state;
    struct listing listing = {kind, visit, ctx, 0};

    hf_map_each(&memory->kinds[kind], list_one, &listing);
    return listing.rv;
}

const struct hf_store_backend hf_store_memory = {
    .name = "memory",
    .survives = false,
    .open = memory_open,
    .close = memory_close,
    .apply = memory_apply,
    .probe = memory_probe,
    .list = memory_list,
};
