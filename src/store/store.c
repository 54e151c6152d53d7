#include "store/store.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
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

static const struct hf_store_backend *find_backend(const char *name)
{
    for (size_t i = 0; i < HF_COUNT_OF(BACKENDS); i++) {
        if (name && strcmp(name, BACKENDS[i]->name) == 0)
            return BACKENDS[i];
    }
    return NULL;
}

static int fail_unknown(struct hf_store *store, const char *name)
{
    return hf_store_fail(store, HF_EINVAL,
                         "store.backend = \"%s\" is unknown; use memory, lmdb or postgres",
                         name ? name : "");
}

int hf_store_open(struct hf_store *store, const struct hf_store_config *config)
{
    const struct hf_store_backend *backend = find_backend(config->backend);
    int rv;

    *store = (struct hf_store){.alloc = config->alloc ? config->alloc : &hf_alloc_heap};
    if (!backend)
        return fail_unknown(store, config->backend);
    rv = backend->open(store, config);
    if (rv < 0)
        return rv;
    store->backend = backend;
    if (!backend->survives)
        hf_log(HF_LOG_WARN, "the store is in memory: no lock survives a restart",
               HF_STR("backend", backend->name));
    return 0;
}

void hf_store_close(struct hf_store *store)
{
    if (!store->backend)
        return;
    store->backend->close(store);
    store->backend = NULL;
    store->state = NULL;
}

int hf_store_blame_record(struct hf_store *store, enum hf_record_kind kind, int code)
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

/* Wraps the caller's visitor, to tell its failures from those of the backend. */
struct walk {
    hf_store_visit visit;
    void *ctx;
    int visitor_code;
    enum hf_record_kind kind; /* the kind of the record on which the visitor failed */
};

static int walk_visit(void *ctx, enum hf_record_kind kind, struct hf_bytes record)
{
    struct walk *walk = ctx;

    walk->visitor_code = walk->visit(walk->ctx, kind, record);
    walk->kind = kind;
    return walk->visitor_code;
}

static int end_walk(struct hf_store *store, const struct walk *walk, int rv)
{
    return walk->visitor_code < 0 ? hf_store_blame_record(store, walk->kind, rv) : rv;
}

int hf_store_load(struct hf_store *store, hf_store_visit visit, void *ctx)
{
    static const enum hf_record_kind ORDER[] = {HF_RECORD_SERVER, HF_RECORD_CLIENT, HF_RECORD_LOCK};
    struct walk walk = {.visit = visit, .ctx = ctx};
    int rv = 0;

    HF_ASSERT(store->backend);
    if (store->backend->load)
        return end_walk(store, &walk, store->backend->load(store, walk_visit, &walk));
    for (size_t i = 0; i < HF_COUNT_OF(ORDER) && rv == 0; i++)
        rv = store->backend->list(store, ORDER[i], walk_visit, &walk);
    return end_walk(store, &walk, rv);
}

struct hf_store hf_store_share(const struct hf_store *store)
{
    return (struct hf_store){
        .backend = store->backend, .alloc = store->alloc, .state = store->state};
}

bool hf_store_is_shared(const struct hf_store *store)
{
    return store->backend->load != NULL;
}

int hf_store_apply(struct hf_store *store, const struct hf_batch *batch)
{
    HF_ASSERT(store->backend);
    store->in_doubt = false;
    return batch->n_ops == 0 && !store->leased ? 0 : store->backend->apply(store, batch);
}

bool hf_store_write(struct hf_store *store, const struct hf_batch *batch)
{
    HF_ASSERT(store->backend && batch->may_be_lost);
    return store->backend->write && store->backend->write(store, batch);
}

bool hf_store_is_full(const struct hf_store *store)
{
    return store->backend->is_full && store->backend->is_full(store);
}

int hf_store_move(struct hf_store *store)
{
    return store->backend->move ? store->backend->move(store) : 0;
}

int hf_store_flush(struct hf_store *store)
{
    HF_ASSERT(store->backend);
    return store->backend->flush ? store->backend->flush(store) : 0;
}

int hf_store_tidy(struct hf_store *store)
{
    HF_ASSERT(store->backend);
    return store->backend->tidy ? store->backend->tidy(store) : 0;
}

int hf_store_probe(struct hf_store *store)
{
    HF_ASSERT(store->backend);
    return store->backend->probe(store);
}

int hf_store_lease(struct hf_store *store, struct hf_store_lease_call *call)
{
    HF_ASSERT(store->backend && store->backend->lease);
    store->in_doubt = false;
    return store->backend->lease(store, call);
}

bool hf_store_lease_row(const struct hf_store *store, struct hf_lease_row *out)
{
    return store->backend->lease_row && store->backend->lease_row(store, out);
}

bool hf_store_can_read_aside(const struct hf_store_config *config)
{
    const struct hf_store_backend *backend = find_backend(config->backend);

    return backend && backend->load_owned;
}

int hf_store_load_owned(const struct hf_store_config *config, const struct hf_lease_row *mine,
                        const struct hf_store_loading *to, char error[HF_STORE_ERROR_MAX])
{
    const struct hf_store_backend *backend = find_backend(config->backend);
    struct hf_store store = {.alloc = config->alloc ? config->alloc : &hf_alloc_heap};
    int rv;

    HF_ASSERT(backend && backend->load_owned);
    rv = backend->load_owned(&store, config, mine, to);
    memcpy(error, store.error, sizeof(store.error));
    return rv;
}

int hf_store_read(struct hf_store *store, const struct hf_store_config *config,
                  hf_store_visit visit, void *ctx)
{
    const struct hf_store_backend *backend = find_backend(config->backend);
    struct walk walk = {.visit = visit, .ctx = ctx};
    int rv;

    *store = (struct hf_store){.alloc = config->alloc ? config->alloc : &hf_alloc_heap};
    if (!backend)
        return fail_unknown(store, config->backend);
    if (!backend->survives)
        return hf_store_fail(store, HF_EINVAL,
                             "store.backend = \"%s\" keeps nothing that could be read",
                             backend->name);
    if (backend->read)
        return end_walk(store, &walk, backend->read(store, config, walk_visit, &walk));
    rv = hf_store_open(store, config);
    if (rv == 0)
        rv = hf_store_load(store, visit, ctx);
    hf_store_close(store);
    return rv;
}
