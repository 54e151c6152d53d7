#include "store/store.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"
#include "store/backend.h"

static const struct hf_store_backend *const BACKENDS[] = {
    &hf_store_memory,
    &hf_store_lmdb,
    &hf_store_postgres,
};

int hf_store_fail(struct hf_store *store, int code, const char *format, ...)
{
    va_list args;

    HF_ASSERT(code < 0);
    va_start(args, format);
    (void)vsnprintf(store->error, sizeof(store->error), format, args);
    va_end(args);
    return code;
}

const char *hf_store_kind_name(enum hf_record_kind kind)
{
    switch (kind) {
    case HF_RECORD_SERVER:
        return "server";
    case HF_RECORD_CLIENT:
        return "clients";
    case HF_RECORD_LOCK:
        return "locks";
    }
    HF_UNREACHABLE();
}

const char *hf_store_error(const struct hf_store *store)
{
    return store->error;
}

bool hf_store_survives(const struct hf_store *store)
{
    HF_ASSERT(store->backend);
    return store->backend->survives;
}

int hf_store_open(struct hf_store *store, const struct hf_store_config *config)
{
    const char *name = config->backend ? config->backend : "";
    int rv;

    *store = (struct hf_store){.alloc = config->alloc ? config->alloc : &hf_alloc_heap};
    for (size_t i = 0; i < HF_COUNT_OF(BACKENDS); i++) {
        if (strcmp(name, BACKENDS[i]->name) != 0)
            continue;
        rv = BACKENDS[i]->open(store, config);
        if (rv < 0)
            return rv;
        store->backend = BACKENDS[i];
        if (!store->backend->survives)
            hf_log(HF_LOG_WARN, "the store is in memory: no lock survives a restart",
                   HF_STR("backend", name));
        return 0;
    }
    return hf_store_fail(store, HF_EINVAL,
                         "store.backend = \"%s\" is unknown; use memory, lmdb or postgres", name);
}

void hf_store_close(struct hf_store *store)
{
    if (!store->backend)
        return;
    store->backend->close(store);
    store->backend = NULL;
    store->state = NULL;
}

/* What a visitor found wrong with a record, put in words here, where the kind is known. */
static int blame_record(struct hf_store *store, enum hf_record_kind kind, int code)
{
    const char *name = hf_store_kind_name(kind);

    if (code == HF_EVERSION)
        return hf_store_fail(store, code,
                             "a record under \"%s\" was written by a newer Holdfast; run that "
                             "version, or a later one",
                             name);
    if (code == HF_EFORMAT)
        return hf_store_fail(
            store, code,
            "a record under \"%s\" is damaged; restore the store from a backup, or "
            "move it away to start empty",
            name);
    return code;
}

/* Stands between a backend and the visitor, to tell the visitor's failures from the backend's. */
struct walk {
    hf_store_visit visit;
    void *ctx;
    int visitor_code;
};

static int walk_visit(void *ctx, enum hf_record_kind kind, struct hf_bytes record)
{
    struct walk *walk = ctx;

    walk->visitor_code = walk->visit(walk->ctx, kind, record);
    return walk->visitor_code;
}

int hf_store_list(struct hf_store *store, enum hf_record_kind kind, hf_store_visit visit, void *ctx)
{
    struct walk walk = {visit, ctx, 0};
    int rv;

    HF_ASSERT(store->backend);
    rv = store->backend->list(store, kind, walk_visit, &walk);
    return walk.visitor_code < 0 ? blame_record(store, kind, rv) : rv;
}

int hf_store_load(struct hf_store *store, hf_store_visit visit, void *ctx)
{
    static const enum hf_record_kind ORDER[] = {HF_RECORD_SERVER, HF_RECORD_CLIENT, HF_RECORD_LOCK};
    int rv = 0;

    for (size_t i = 0; i < HF_COUNT_OF(ORDER) && rv == 0; i++)
        rv = hf_store_list(store, ORDER[i], visit, ctx);
    return rv;
}

int hf_store_apply(struct hf_store *store, const struct hf_batch *batch)
{
    HF_ASSERT(store->backend);
    store->in_doubt = false;
    return batch->n_ops == 0 ? 0 : store->backend->apply(store, batch);
}

int hf_store_probe(struct hf_store *store)
{
    HF_ASSERT(store->backend);
    return store->backend->probe(store);
}

int hf_store_get(struct hf_store *store, enum hf_record_kind kind, uint64_t id, struct hf_buf *out)
{
    HF_ASSERT(store->backend);
    return store->backend->get(store, kind, id, out);
}

/* Applies a batch of the store's own making, given that gathering it went well so far (rv). */
static int apply_and_free(struct hf_store *store, struct hf_batch *batch, int rv)
{
    if (rv == HF_ENOMEM)
        hf_store_fail(store, rv, "out of memory");
    if (rv == 0)
        rv = hf_store_apply(store, batch);
    hf_batch_free(batch);
    return rv;
}

int hf_store_put_server(struct hf_store *store, const struct hf_record_server *record)
{
    struct hf_batch batch;

    hf_batch_init(&batch, store->alloc);
    return apply_and_free(store, &batch, hf_batch_put_server(&batch, record));
}

int hf_store_put_client(struct hf_store *store, const struct hf_record_client *record)
{
    struct hf_batch batch;

    hf_batch_init(&batch, store->alloc);
    return apply_and_free(store, &batch, hf_batch_put_client(&batch, record));
}

int hf_store_put_lock(struct hf_store *store, const struct hf_record_lock *record)
{
    struct hf_batch batch;

    hf_batch_init(&batch, store->alloc);
    return apply_and_free(store, &batch, hf_batch_put_lock(&batch, record));
}

int hf_store_delete(struct hf_store *store, enum hf_record_kind kind, uint64_t id)
{
    struct hf_batch batch;

    hf_batch_init(&batch, store->alloc);
    return apply_and_free(store, &batch, hf_batch_delete(&batch, kind, id));
}

/* Which records go: all of a kind, clients of a name, or the locks of some clients. */
struct condemned {
    struct hf_batch *batch;
    bool by_name;
    struct hf_bytes name;
    struct hf_buf *client_ids; /* ascending array of uint64_t */
};

static int compare_ids(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static size_t id_count(const struct hf_buf *ids)
{
    return hf_buf_len(ids) / sizeof(uint64_t);
}

static int condemn_client(struct condemned *c, struct hf_bytes bytes)
{
    struct hf_record_client client;
    int rv = hf_record_decode_client(bytes, &client);

    if (rv < 0)
        return rv;
    if (c->by_name && !hf_bytes_equal(client.name, c->name))
        return 0;
    if (c->client_ids)
        return hf_buf_append(c->client_ids, &client.id, sizeof(client.id));
    return hf_batch_delete(c->batch, HF_RECORD_CLIENT, client.id);
}

static bool is_among(const struct hf_buf *ids, uint64_t id)
{
    size_t n = id_count(ids);

    return n > 0 && bsearch(&id, hf_buf_view(ids).data, n, sizeof(id), compare_ids);
}

static int condemn_lock(struct condemned *c, struct hf_bytes bytes)
{
    struct hf_record_lock lock;
    int rv = hf_record_decode_lock(bytes, &lock);

    if (rv < 0)
        return rv;
    if (c->client_ids && !is_among(c->client_ids, lock.client_id))
        return 0;
    return hf_batch_delete(c->batch, HF_RECORD_LOCK, lock.id);
}

static int condemn(void *ctx, enum hf_record_kind kind, struct hf_bytes record)
{
    switch (kind) {
    case HF_RECORD_CLIENT:
        return condemn_client(ctx, record);
    case HF_RECORD_LOCK:
        return condemn_lock(ctx, record);
    case HF_RECORD_SERVER:
        break;
    }
    return hf_batch_delete(((struct condemned *)ctx)->batch, HF_RECORD_SERVER, 0);
}

static int delete_matching(struct hf_store *store, enum hf_record_kind kind, struct condemned *c,
                           size_t *count)
{
    struct hf_batch batch;
    uint32_t n_ops;
    int rv;

    hf_batch_init(&batch, store->alloc);
    c->batch = &batch;
    rv = hf_store_list(store, kind, condemn, c);
    n_ops = batch.n_ops;
    rv = apply_and_free(store, &batch, rv);
    if (rv == 0 && count)
        *count = n_ops;
    return rv;
}

int hf_store_delete_all(struct hf_store *store, enum hf_record_kind kind, size_t *count)
{
    struct condemned c = {0};

    return delete_matching(store, kind, &c, count);
}

int hf_store_delete_clients_named(struct hf_store *store, struct hf_bytes name, size_t *count)
{
    struct condemned c = {.by_name = true, .name = name};

    return delete_matching(store, HF_RECORD_CLIENT, &c, count);
}

int hf_store_delete_locks_named(struct hf_store *store, struct hf_bytes name, size_t *count)
{
    struct hf_buf ids;
    struct condemned c = {.by_name = true, .name = name, .client_ids = &ids};
    int rv;

    hf_buf_init(&ids, store->alloc);
    rv = hf_store_list(store, HF_RECORD_CLIENT, condemn, &c);
    if (rv < 0)
        goto out;
    if (id_count(&ids) > 0)
        qsort(ids.data, id_count(&ids), sizeof(uint64_t), compare_ids);
    rv = delete_matching(store, HF_RECORD_LOCK, &c, count);
out:
    hf_buf_free(&ids);
    return rv;
}
