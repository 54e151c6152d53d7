#include "daemon/loading.h"

#include "base/assert.h"
#include "base/error.h"

struct hf_loading {
    uv_work_t work;
    const struct hf_config *config;
    const struct hf_hash_key *hash_key;
    const struct hf_store_settings *settings;
    struct hf_lease_row lease;
    hf_loading_done *done; /* NULL: abandoned */
    void *ctx;
    struct hf_loaded loaded;
    struct hf_loader *loader; /* into loaded.core */
    char error[HF_STORE_ERROR_MAX];
};

/* ---- on the other thread ---- */

static int add_foreign(void *ctx, const struct hf_store_export *other)
{
    struct hf_export_rules *rules = ((struct hf_loading *)ctx)->loaded.rules;

    if (rules->n_foreign == HF_FOREIGN_EXPORTS_MAX)
        return 0; /* the others are still refused by their own service's locks: they have one */
    rules->foreign[rules->n_foreign++] = *other;
    return 0;
}

/* All exports are known when the first record arrives. */
static int need_core(struct hf_loading *l)
{
    if (!l->loaded.core)
        l->loaded.core = hf_engine_core_new(l->config, l->hash_key, l->loaded.rules);
    if (l->loaded.core && !l->loader)
        l->loader = hf_loader_new(l->loaded.core);
    return l->loader ? 0 : HF_ENOMEM;
}

static int add_record(void *ctx, enum hf_record_kind kind, struct hf_bytes record)
{
    struct hf_loading *l = ctx;

    l->loaded.clients += kind == HF_RECORD_CLIENT;
    l->loaded.locks += kind == HF_RECORD_LOCK;
    return need_core(l) < 0 ? HF_ENOMEM : hf_loader_add(l->loader, kind, record);
}

static int end_records(void *ctx)
{
    struct hf_loading *l = ctx;

    return need_core(l) < 0 ? HF_ENOMEM : hf_loader_end(l->loader);
}

static void load(uv_work_t *work)
{
    struct hf_loading *l = work->data;
    const struct hf_store_loading to = {
        .record = add_record, .end = end_records, .foreign = add_foreign, .ctx = l};

    l->loaded.rules = hf_calloc(&hf_alloc_heap, 1, sizeof(*l->loaded.rules));
    l->loaded.status = l->loaded.rules
                           ? hf_store_load_owned(&l->settings->store, &l->lease, &to, l->error)
                           : HF_ENOMEM;
    if (l->loaded.core)
        l->loaded.status = hf_engine_blame_records(l->loaded.core, l->loaded.status, l->error);
    hf_loader_del(l->loader);
}

/* ---- on the loop ---- */

static void drop(struct hf_loaded *loaded)
{
    if (loaded->core)
        hf_core_del(loaded->core);
    hf_free(&hf_alloc_heap, loaded->rules);
    loaded->core = NULL;
    loaded->rules = NULL;
}

static void on_loaded(uv_work_t *work, int status)
{
    struct hf_loading *l = work->data;

    if (status < 0)
        l->loaded.status = HF_ECANCELED;
    if (l->loaded.status < 0 || !l->done)
        drop(&l->loaded);
    l->loaded.reason = l->error[0] ? l->error : hf_strerror(l->loaded.status);
    if (l->done)
        l->done(l->ctx, &l->loaded);
    hf_free(&hf_alloc_heap, l);
}

struct hf_loading *hf_loading_start(uv_loop_t *loop, const struct hf_config *config,
                                    const struct hf_hash_key *hash_key,
                                    const struct hf_store_settings *settings,
                                    const struct hf_lease_row *lease, hf_loading_done *done,
                                    void *ctx)
{
    struct hf_loading *l = hf_calloc(&hf_alloc_heap, 1, sizeof(*l));

    if (!l)
        return NULL;
    l->config = config;
    l->hash_key = hash_key;
    l->settings = settings;
    l->lease = *lease;
    l->done = done;
    l->ctx = ctx;
    l->work.data = l;
    uv_queue_work(loop, &l->work, load, on_loaded);
    return l;
}

void hf_loading_abandon(struct hf_loading *loading)
{
    loading->done = NULL;
    (void)uv_cancel((uv_req_t *)&loading->work); /* succeeds only if it has not begun */
}
