#include "single.h"

#include "base/error.h"

/* ---- reading ---- */

struct walk {
    enum hf_record_kind kind;
    hf_store_visit visit;
    void *ctx;
};

static int visit_kind(void *ctx, enum hf_record_kind kind, struct hf_bytes record)
{
    struct walk *walk = ctx;

    return kind == walk->kind ? walk->visit(walk->ctx, kind, record) : 0;
}

int store_list(struct hf_store *store, enum hf_record_kind kind, hf_store_visit visit, void *ctx)
{
    struct walk walk = {kind, visit, ctx};

    return hf_store_load(store, visit_kind, &walk);
}

static int id_of(enum hf_record_kind kind, struct hf_bytes record, uint64_t *id)
{
    struct hf_record_client client;
    struct hf_record_lock lock;
    int rv = 0;

    *id = 0;
    if (kind == HF_RECORD_CLIENT && (rv = hf_record_decode_client(record, &client)) == 0)
        *id = client.id;
    if (kind == HF_RECORD_LOCK && (rv = hf_record_decode_lock(record, &lock)) == 0)
        *id = lock.id;
    return rv;
}

struct search {
    uint64_t id;
    struct hf_buf *out;
    bool found;
};

static int search_visit(void *ctx, enum hf_record_kind kind, struct hf_bytes record)
{
    struct search *search = ctx;
    uint64_t id;
    int rv = id_of(kind, record, &id);

    if (rv < 0 || id != search->id)
        return rv;
    search->found = true;
    return hf_buf_append(search->out, record.data, record.len);
}

int store_get(struct hf_store *store, enum hf_record_kind kind, uint64_t id, struct hf_buf *out)
{
    struct search search = {.id = id, .out = out};
    int rv = store_list(store, kind, search_visit, &search);

    return rv < 0 || search.found ? rv : HF_ENOENT;
}

/* ---- changing ---- */

/* Applies the batch if it was filled without an error (rv), and frees it. */
static int apply_and_free(struct hf_store *store, struct hf_batch *batch, int rv)
{
    if (rv == 0)
        rv = hf_store_apply(store, batch);
    hf_batch_free(batch);
    return rv;
}

int store_put_server(struct hf_store *store, const struct hf_record_server *record)
{
    struct hf_batch batch;

    hf_batch_init(&batch, store->alloc);
    return apply_and_free(store, &batch, hf_batch_put_server(&batch, record));
}

int store_put_client(struct hf_store *store, const struct hf_record_client *record)
{
    struct hf_batch batch;

    hf_batch_init(&batch, store->alloc);
    return apply_and_free(store, &batch, hf_batch_put_client(&batch, record));
}

int store_put_lock(struct hf_store *store, const struct hf_record_lock *record)
{
    struct hf_batch batch;

    hf_batch_init(&batch, store->alloc);
    return apply_and_free(store, &batch, hf_batch_put_lock(&batch, record));
}

int store_delete(struct hf_store *store, enum hf_record_kind kind, uint64_t id)
{
    struct hf_batch batch;

    hf_batch_init(&batch, store->alloc);
    return apply_and_free(store, &batch, hf_batch_delete(&batch, kind, id));
}

/* ---- deleting many ---- */

/* Selects the records to delete; with neither name nor ids, all of the kind. */
struct selection {
    struct hf_batch *batch;
    const struct hf_bytes *name;     /* only clients of this name */
    const struct hf_buf *client_ids; /* only locks of these clients: an array of uint64_t */
};

static bool contains(const struct hf_buf *ids, uint64_t id)
{
    const uint64_t *all = (const uint64_t *)(const void *)hf_buf_view(ids).data;

    for (size_t i = 0; i < hf_buf_len(ids) / sizeof(id); i++) {
        if (all[i] == id)
            return true;
    }
    return false;
}

static int select_record(void *ctx, enum hf_record_kind kind, struct hf_bytes record)
{
    struct selection *selection = ctx;
    struct hf_record_client client;
    struct hf_record_lock lock;
    uint64_t id;
    int rv = id_of(kind, record, &id);

    if (rv < 0)
        return rv;
    if (selection->name && (hf_record_decode_client(record, &client) < 0 ||
                            !hf_bytes_equal(client.name, *selection->name)))
        return 0;
    if (selection->client_ids && (hf_record_decode_lock(record, &lock) < 0 ||
                                  !contains(selection->client_ids, lock.client_id)))
        return 0;
    return hf_batch_delete(selection->batch, kind, id);
}

static int delete_selected(struct hf_store *store, enum hf_record_kind kind,
                           struct selection selection, size_t *count)
{
    struct hf_batch batch;
    uint32_t n_ops;
    int rv;

    hf_batch_init(&batch, store->alloc);
    selection.batch = &batch;
    rv = store_list(store, kind, select_record, &selection);
    n_ops = batch.n_ops;
    rv = apply_and_free(store, &batch, rv);
    if (rv == 0 && count)
        *count = n_ops;
    return rv;
}

int store_delete_all(struct hf_store *store, enum hf_record_kind kind, size_t *count)
{
    return delete_selected(store, kind, (struct selection){0}, count);
}

int store_delete_clients_named(struct hf_store *store, struct hf_bytes name, size_t *count)
{
    return delete_selected(store, HF_RECORD_CLIENT, (struct selection){.name = &name}, count);
}

struct name_search {
    struct hf_bytes name;
    struct hf_buf *ids;
};

static int collect_id(void *ctx, enum hf_record_kind kind, struct hf_bytes record)
{
    struct name_search *search = ctx;
    struct hf_record_client client;
    int rv = hf_record_decode_client(record, &client);

    (void)kind;
    if (rv < 0 || !hf_bytes_equal(client.name, search->name))
        return rv;
    return hf_buf_append(search->ids, &client.id, sizeof(client.id));
}

int store_delete_locks_named(struct hf_store *store, struct hf_bytes name, size_t *count)
{
    struct hf_buf ids;
    struct name_search search = {name, &ids};
    int rv;

    hf_buf_init(&ids, store->alloc);
    rv = store_list(store, HF_RECORD_CLIENT, collect_id, &search);
    if (rv == 0)
        rv = delete_selected(store, HF_RECORD_LOCK, (struct selection){.client_ids = &ids}, count);
    hf_buf_free(&ids);
    return rv;
}
