/*
 * The lives of a service with standbys: what is opened when the lease was taken, and closed when it
 * is lost (cluster.h says when).
 */
#include <stdlib.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/text.h"
#include "daemon/daemon_private.h"

enum { REAP_MS = 20 };

/* ---- a life begins ---- */

static int on_open(void *ctx)
{
    struct daemon *d = ctx;
    const struct hf_config_addresses *own = &d->options->config.cluster_addresses;
    struct life *life = d->life;
    int rv;

    life_list_programs(life);
    rv = open_server(d);
    if (rv == 0 && d->embeds_rpcbind)
        rv = serve_rpcbind(d, false);
    if (rv < 0)
        return rv;
    hf_rpc_client_attach(life->engine.client, life->server);
    for (unsigned i = own->n; i-- > 0;) /* the first is the last set */
        hf_rpc_client_set_source(life->engine.client, &own->list[i]);
    hf_administration_switch(&d->administration, &life->engine, life->server);
    return 0;
}

static void on_adopt(void *ctx, struct hf_core *core, struct hf_export_rules *rules)
{
    struct daemon *d = ctx;
    struct hf_engine *engine = &d->life->engine;

    hf_engine_adopt(engine, core, rules);
    if (hf_core_start(core, hf_service_now(&engine->service)) < 0) {
        hf_log(HF_LOG_ERROR, "out of memory: leaving the service to another node");
        hf_cluster_release(&d->cluster);
        return;
    }
    hf_log_unknown_locks(core);
}

static void on_serve(void *ctx)
{
    struct daemon *d = ctx;

    hf_engine_serve(&d->life->engine);
    hf_log(HF_LOG_INFO, "ready", HF_STR("version", HF_VERSION),
           HF_STR("name", d->options->config.name),
           HF_INT("state", hf_core_sm_stat(d->life->engine.service.core).state));
}

static void on_resume(void *ctx)
{
    struct daemon *d = ctx;

    if (d->life->server)
        hf_rpc_server_gate_opened(d->life->server);
}

/* ---- a life ends ---- */

static void on_leave(void *ctx)
{
    hf_engine_rest(&((struct daemon *)ctx)->life->engine);
}

static bool is_closed(const struct life *life)
{
    return !life->server_open && life->engine.open_handles == 0;
}

/* Frees what nothing on the loop refers to any more; a name lookup may take its time. */
static void on_reap(uv_timer_t *timer)
{
    struct daemon *d = timer->data;
    bool closing = false;

    hf_list_foreach_safe (node, &d->ended) {
        struct life *life = hf_list_entry(node, struct life, link);

        closing = closing || !is_closed(life);
        if (!is_closed(life) || !hf_engine_is_gone(&life->engine))
            continue;
        hf_list_remove(&life->link);
        hf_engine_free(&life->engine);
        life_del(life);
    }
    if (hf_list_empty(&d->ended))
        uv_timer_stop(&d->reaper);
    if (!closing && d->cluster.phase == HF_PHASE_CLOSING)
        hf_cluster_closed(&d->cluster);
}

static void on_server_closed(void *ctx)
{
    ((struct life *)ctx)->server_open = false;
}

/* Makes an engine that waits. */
static int open_life(struct daemon *d)
{
    int rv = hf_engine_open_empty(&d->life->engine, &d->loop, &d->options->config, &d->hash_key,
                                  &d->pump, &d->cluster.gate);

    d->life->engine.service.core_ms = hf_cluster_core_ms;
    d->life->engine.service.core_ms_ctx = &d->cluster;
    return rv;
}

static void end_life(struct daemon *d, struct life *life)
{
    hf_engine_abandon(&life->engine);
    hf_administration_suspend(&d->administration);
    if (life->server)
        hf_rpc_server_close(life->server, on_server_closed, life);
    life->server = NULL;
    hf_list_add_tail(&d->ended, &life->link);
}

static void on_close(void *ctx)
{
    struct daemon *d = ctx;
    struct life *old = d->life;

    end_life(d, old);
    d->life = life_new(d);
    if (!d->life || open_life(d) < 0) {
        hf_log(HF_LOG_ERROR, "cannot stand by", HF_STR("reason", hf_strerror(HF_ENOMEM)));
        hf_log_stop();
        _Exit(EXIT_FAILURE); /* the service is given up; systemd starts the daemon again */
    }
    hf_administration_switch(&d->administration, &d->life->engine, NULL);
    uv_timer_start(&d->reaper, on_reap, REAP_MS, REAP_MS);
}

/* ---- as seen from outside ---- */

static void on_changed(void *ctx)
{
    struct daemon *d = ctx;

    hf_systemd_status(hf_cluster_role(&d->cluster), "");
}

static void on_stopped(void *ctx)
{
    daemon_shut_down(ctx);
}

/* ---- the process ---- */

int lives_open(struct daemon *d)
{
    const struct hf_cluster_ops ops = {
        .open = on_open,
        .adopt = on_adopt,
        .serve = on_serve,
        .resume = on_resume,
        .leave = on_leave,
        .close = on_close,
        .changed = on_changed,
        .stopped = on_stopped,
        .ctx = d,
    };
    int rv = hf_commit_pump_open(&d->pump, &d->options->config, &d->settings);

    if (rv < 0)
        return rv;
    uv_timer_init(&d->loop, &d->reaper);
    d->reaper.data = d;
    rv = hf_cluster_init(&d->cluster, &d->loop, &d->options->config, &d->hash_key, &d->settings,
                         &d->pump, d->addresses, &ops);
    if (rv == 0)
        rv = hf_rpc_client_new(&d->loop, &hf_alloc_heap, &d->hash_key, &d->rpcbind_client);
    if (rv == 0)
        rv = open_life(d);
    if (rv == 0)
        rv = hf_commit_pump_attach(&d->pump, &d->loop);
    HF_ASSERT(rv == 0 || rv == HF_ENOMEM);
    if (rv == 0)
        list_services(d);
    return rv;
}

int lives_start(struct daemon *d)
{
    int rv = hf_commit_pump_start(&d->pump);

    if (rv < 0) {
        hf_log(HF_LOG_ERROR, "cannot start", HF_STR("reason", "no thread for the store"));
        return rv;
    }
    d->administration.cluster = &d->cluster;
    hf_cluster_start(&d->cluster);
    return 0;
}

void lives_stop(struct daemon *d)
{
    hf_cluster_stop(&d->cluster);
}

void lives_close(struct daemon *d)
{
    hf_engine_abandon(&d->life->engine);
    hf_commit_pump_end(&d->pump);
    hf_cluster_close(&d->cluster);
    hf_rpc_client_close(d->rpcbind_client, NULL, NULL);
    uv_close((uv_handle_t *)&d->reaper, NULL);
}

void lives_free(struct daemon *d)
{
    hf_list_foreach_safe (node, &d->ended) {
        struct life *life = hf_list_entry(node, struct life, link);

        hf_list_remove(&life->link);
        hf_engine_free(&life->engine);
        life_del(life);
    }
}
