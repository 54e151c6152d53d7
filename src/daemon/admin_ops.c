#include "daemon/admin_ops.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "daemon/metrics.h"

#define RUN_DIRECTORY "/run/holdfast"

/* ---- looks ---- */

static struct hf_now now(void *ctx)
{
    return hf_engine_now(((struct hf_administration *)ctx)->engine);
}

static void health(void *ctx, struct hf_admin_health *out)
{
    struct hf_administration *a = ctx;
    struct hf_store_health store;

    hf_committer_health(&a->engine->committer, &store);
    out->store_up = store.up;
    hf_format(out->reason, sizeof(out->reason), "The store is down: %s", store.reason);
}

static void totals(void *ctx, struct hf_admin_totals *out)
{
    hf_metrics_totals(((struct hf_administration *)ctx)->engine, out);
}

static void metrics(void *ctx, struct hf_exposition *out)
{
    struct hf_administration *a = ctx;

    hf_metrics_expose(a->engine, hf_rpc_server_counters(a->server), out);
}

/* ---- changes ---- */

static int64_t release_client(void *ctx, uint64_t id, uint64_t *seq)
{
    struct hf_administration *a = ctx;

    return hf_core_release_client(a->engine->core, now(a), id, seq);
}

static int64_t release_lock(void *ctx, uint64_t id, uint64_t *seq)
{
    struct hf_administration *a = ctx;

    return hf_core_release_lock(a->engine->core, now(a), id, seq);
}

static int64_t release_file(void *ctx, struct hf_bytes fh, uint64_t *seq)
{
    struct hf_administration *a = ctx;

    return hf_core_release_file(a->engine->core, now(a), fh, seq);
}

static uint64_t end_grace(void *ctx)
{
    struct hf_administration *a = ctx;

    return hf_core_grace_end(a->engine->core, now(a));
}

static int notify(void *ctx, uint64_t client_id)
{
    struct hf_administration *a = ctx;

    return hf_core_notify_again(a->engine->core, now(a), client_id);
}

static bool is_durable(void *ctx, uint64_t seq)
{
    return seq <= hf_core_durable(((struct hf_administration *)ctx)->engine->core);
}

static void when_durable(void *ctx, uint64_t seq, struct hf_later *later,
                         void (*finish)(struct hf_later *later, bool reached))
{
    hf_later_add(&((struct hf_administration *)ctx)->engine->answers, later, seq, finish);
}

static int check(void *ctx, uint64_t client_id, struct hf_admin_check *out)
{
    struct hf_administration *a = ctx;
    struct hf_view_client client;
    int rv = hf_core_view_client(a->engine->core, client_id, &client);

    return rv < 0 ? rv : hf_checks_start(&a->checks, &client, out);
}

static const struct hf_admin_ops OPS = {
    .now = now,
    .health = health,
    .totals = totals,
    .metrics = metrics,
    .release_client = release_client,
    .release_lock = release_lock,
    .release_file = release_file,
    .end_grace = end_grace,
    .notify = notify,
    .is_durable = is_durable,
    .when_durable = when_durable,
    .check = check,
};

/* ---- life ---- */

bool hf_administration_wanted(const struct hf_config *config)
{
    return config->admin_listen[0] || config->admin_socket[0];
}

/* "auto": where holdfastctl looks, if we may write there; else beside the store. */
static void choose_socket(const struct hf_config *config, char *out, size_t size)
{
    if (strcmp(config->admin_socket, "auto") != 0) {
        hf_format(out, size, "%s", config->admin_socket);
        return;
    }
    (void)mkdir(RUN_DIRECTORY, 0755);
    if (access(RUN_DIRECTORY, W_OK) == 0)
        hf_format(out, size, RUN_DIRECTORY "/admin.sock");
    else if (config->backend == HF_BACKEND_LMDB)
        hf_format(out, size, "%s/admin.sock", config->path);
    else
        out[0] = '\0';
}

int hf_administration_open(struct hf_administration *a, struct hf_engine *engine,
                           const struct hf_rpc_server *server, const struct hf_config *config)
{
    struct hf_admin_config admin = {
        .loop = engine->loop,
        .core = engine->core,
        .ops = OPS,
        .server_name = config->name,
        .listen = config->admin_listen,
        .socket = a->socket,
        .token_file = config->admin_token_file,
        .fh_map = config->admin_fh_map,
    };

    a->engine = engine;
    a->server = server;
    hf_checks_init(&a->checks, engine->client, config->notify_timeout * 1000);
    choose_socket(config, a->socket, sizeof(a->socket));
    admin.ops.ctx = a;
    return hf_admin_new(&admin, &a->admin);
}

void hf_administration_reload(struct hf_administration *a)
{
    if (a->admin)
        hf_admin_reload(a->admin);
}

void hf_administration_close(struct hf_administration *a)
{
    if (!a->admin)
        return;
    hf_checks_stop(&a->checks);
    hf_admin_close(a->admin);
    a->admin = NULL;
}
