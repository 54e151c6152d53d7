#include "daemon/loading.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/text.h"

struct hf_loading {
    uv_work_t work;
    const struct hf_config *config;
    struct hf_core_config wanted;
    struct hf_loading_source source;
    struct hf_lease_row lease;
    _Atomic bool cancelled;
    hf_loading_done *done; /* called with the result; NULL: the load was abandoned */
    void *ctx;
    struct hf_loaded loaded;
    struct hf_loader *loader; /* loads records into loaded.core */
    char error[HF_STORE_ERROR_MAX];
};

/* ---- on the other thread ---- */

static int add_foreign(void *ctx, const struct hf_store_export *other)
{
    struct hf_export_rules *rules = ((struct hf_loading *)ctx)->loaded.rules;

    if (rules->n_foreign == HF_FOREIGN_EXPORTS_MAX)
        /* Foreign exports beyond the maximum stay unknown here; the services that own them still
         * serve them. */
        return 0;
    rules->foreign[rules->n_foreign++] = *other;
    return 0;
}

/* Makes the core when the first record arrives: all exports, which come before records, are known
 * then. */
static int need_core(struct hf_loading *l)
{
    if (!l->loaded.core)
        l->loaded.core = hf_new_core(l->config, &l->wanted, l->loaded.rules);
    if (l->loaded.core && !l->loader)
        l->loader = hf_loader_new(l->loaded.core);
    return l->loader ? 0 : HF_ENOMEM;
}

static int add_record(void *ctx, enum hf_record_kind kind, struct hf_bytes record)
{
    struct hf_loading *l = ctx;

    if (l->cancelled)
        return HF_ECANCELED;
    if (kind == HF_RECORD_SERVER && l->source.rehearsal &&
        hf_batch_put_encoded(l->source.rehearsal, kind, record) < 0)
        return HF_ENOMEM; /* the code below refuses a record that cannot be decoded */
    l->loaded.clients += kind == HF_RECORD_CLIENT;
    l->loaded.locks += kind == HF_RECORD_LOCK && hf_record_is_held(record);
    return need_core(l) < 0 ? HF_ENOMEM : hf_loader_add(l->loader, kind, record);
}

static int end_records(void *ctx)
{
    struct hf_loading *l = ctx;

    return need_core(l) < 0 ? HF_ENOMEM : hf_loader_end(l->loader);
}

static int load_open_store(struct hf_loading *l)
{
    struct hf_store store = hf_store_share(l->source.store);
    int rv = hf_store_load(&store, add_record, l);

    if (rv == 0)
        rv = hf_store_blame_record(&store, HF_RECORD_LOCK, end_records(l));
    hf_format(l->error, sizeof(l->error), "%s", hf_store_error(&store));
    return rv;
}

static int load_records(struct hf_loading *l)
{
    const struct hf_store_loading to = {
        .record = add_record, .end = end_records, .foreign = add_foreign, .ctx = l};

    l->loaded.rules = hf_calloc(&hf_alloc_heap, 1, sizeof(*l->loaded.rules));
    if (!l->loaded.rules)
        return HF_ENOMEM;
    return l->source.lease ? hf_store_load_owned(l->source.config, &l->lease, &to, l->error)
                           : load_open_store(l);
}

static const char *name_of(enum hf_record_kind kind)
{
    return kind == HF_RECORD_CLIENT ? "client" : "lock";
}

int hf_loading_blame_records(const struct hf_core *core, int code, char error[HF_STORE_ERROR_MAX])
{
    struct hf_load_conflict found;

    if (!core || (code != HF_EEXIST && code != HF_ENOENT))
        return code;
    found = hf_core_load_conflict(core);
    hf_format(error, HF_STORE_ERROR_MAX,
              "%s %" PRIu64 " and %s %" PRIu64 " do not go together: %s; nothing is changed. See "
              "\"Records that do not go together\" in docs/internals/STORE.md, and holdfastd "
              "--verify-store",
              name_of(found.kind), found.id, name_of(found.other_kind), found.other_id,
              code == HF_ENOENT ? "the second is missing" : "both claim the same");
    return HF_EFORMAT;
}

static void load(uv_work_t *work)
{
    struct hf_loading *l = work->data;
    int rv = load_records(l);

    l->loaded.status = hf_loading_blame_records(l->loaded.core, rv, l->error);
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
                                    struct hf_loading_source source, hf_loading_done *done,
                                    void *ctx)
{
    struct hf_loading *l = hf_calloc(&hf_alloc_heap, 1, sizeof(*l));

    if (!l)
        return NULL;
    l->config = config;
    l->wanted = hf_new_core_config(config, hash_key);
    l->source = source;
    if (source.lease)
        l->lease = *source.lease;
    l->done = done;
    l->ctx = ctx;
    l->work.data = l;
    uv_queue_work(loop, &l->work, load, on_loaded);
    return l;
}

void hf_loading_cancel(struct hf_loading *loading)
{
    loading->cancelled = true;
    /* cancelling succeeds only if the load has not begun */
    (void)uv_cancel((uv_req_t *)&loading->work);
}

void hf_loading_abandon(struct hf_loading *loading)
{
    loading->done = NULL;
    hf_loading_cancel(loading);
}
