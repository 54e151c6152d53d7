#include "daemon/term.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/log.h"
#include "daemon/daemon_private.h"

enum { REAP_MS = 20 };

enum hf_term_phase hf_term_phase(const struct hf_daemon *d)
{
    return d->term->phase;
}

/* ---- open ---- */

static void list_programs(struct hf_term *term)
{
    term->programs[term->n_programs++] = &term->engine.nsm.program;
    /* Without NLM (server.programs=nsm), program 100021 belongs to the host's kernel, which serves
     * locks. */
    if (term->daemon->options->config.programs == HF_PROGRAMS_ALL)
        term->programs[term->n_programs++] = &term->engine.nlm.program;
}

int hf_term_open(struct hf_daemon *d)
{
    struct hf_term *term = calloc(1, sizeof(*term));
    int rv;

    if (!term)
        return HF_ENOMEM;
    term->daemon = d;
    hf_list_init(&term->link);
    rv = hf_engine_open(&term->engine, &d->loop, &d->options->config, &d->hash_key, &d->pump,
                        d->clustered ? &d->cluster.gate : NULL);
    if (rv < 0) {
        free(term);
        return rv;
    }
    if (d->clustered) {
        term->engine.service.core_ms = hf_cluster_core_ms;
        term->engine.service.core_ms_ctx = &d->cluster;
    }
    list_programs(term);
    d->term = term;
    return 0;
}

/* ---- listen ---- */

int hf_term_listen(struct hf_daemon *d)
{
    const struct hf_config_addresses *own = &d->options->config.cluster_addresses;
    struct hf_term *term = d->term;
    int rv;

    term->phase = HF_TERM_LOADING;
    rv = hf_listening_open(d);
    if (rv == 0 && d->embeds_rpcbind)
        rv = hf_listening_serve_rpcbind(d, false);
    if (rv < 0)
        return rv;
    hf_new_core_warn(&d->options->config);
    hf_rpc_client_attach(term->engine.client, term->server);
    /* The loop goes backwards, because of several addresses of one family, the one that is set last
     * counts. */
    for (unsigned i = own->n; i-- > 0;)
        hf_rpc_client_set_source(term->engine.client, &own->list[i]);
    hf_administration_switch(&d->administration, &term->engine, term->server);
    return 0;
}

/* ---- start, when it is loaded ---- */

static void log_unknown_locks(const struct hf_core *core)
{
    static const char *const texts[] = {
        [HF_UNKNOWN_SINCE_EARLIER] = "locks may be unknown since an earlier start or a backup",
        [HF_UNKNOWN_NOT_DURABLE] = "the last run did not record locks (locks.durable=no)",
        [HF_UNKNOWN_HOST_CRASHED] = "the host has crashed: the newest locks may be unknown",
        [HF_UNKNOWN_OLD_FORMAT] = "locks may be unknown to a store of an earlier version",
    };
    enum hf_unknown_locks why = hf_core_unknown_locks(core);

    if (why != HF_UNKNOWN_NONE)
        hf_log(HF_LOG_WARN, texts[why],
               HF_STR("advice", "clients may reclaim locks that are not in the store"));
}

static void log_start(const struct hf_config *config, const struct hf_core *core)
{
    enum hf_recovers why = hf_core_recovers(core);

    log_unknown_locks(core);
    if (config->recovery_notify != HF_RECOVERY_NEEDED)
        return;
    if (why == HF_RECOVERS_NOT)
        hf_log(HF_LOG_INFO, "continuing where the last run ended: no client is told");
    else
        hf_log(why == HF_RECOVERS_FIRST ? HF_LOG_INFO : HF_LOG_WARN,
               "not continuing: clients are told and reclaim",
               HF_STR("reason", hf_recovers_text(why)));
}

/* Ends the start of a term, because memory ran out. */
static void fail_start(struct hf_daemon *d)
{
    if (d->clustered) {
        hf_log(HF_LOG_ERROR, "out of memory: leaving the service to another node");
        hf_cluster_release(&d->cluster);
        return;
    }
    hf_log(HF_LOG_ERROR, "cannot start", HF_STR("reason", hf_strerror(HF_ENOMEM)));
    hf_daemon_cannot_start(d, HF_ENOMEM);
}

static void serve_if_ready(struct hf_daemon *d);

static void on_may_serve(void *ctx)
{
    serve_if_ready(ctx);
}

static void on_let_go(void *ctx)
{
    struct hf_daemon *d = ctx;

    hf_cluster_carry_on(&d->cluster);
}

static void start(struct hf_daemon *d, const struct hf_loaded *loaded)
{
    const struct hf_coherence_watcher watcher = {d, on_may_serve, on_let_go};
    struct hf_engine *engine = &d->term->engine;

    d->term->phase = HF_TERM_STARTING;
    hf_engine_adopt(engine, &d->options->config, loaded->core, loaded->rules, &watcher);
    if (d->clustered)
        hf_term_renewed(d, hf_lease_valid_until(&d->cluster.lease));
    if ((!d->clustered && hf_commit_pump_rehearse(&d->pump) < 0) ||
        hf_core_start(loaded->core, hf_service_now(&engine->service)) < 0) {
        fail_start(d);
        return;
    }
    log_start(&d->options->config, loaded->core);
    hf_log(HF_LOG_INFO, "store loaded", HF_UINT("clients", loaded->clients),
           HF_UINT("locks", loaded->locks), HF_UINT("digest", hf_core_digest(loaded->core)));
}

/* ---- load ---- */

static void fail_load(struct hf_daemon *d, int status, const char *reason)
{
    if (d->clustered) {
        hf_cluster_not_loaded(&d->cluster, status, reason);
        return;
    }
    hf_log(HF_LOG_ERROR, "cannot load the store", HF_STR("reason", reason));
    hf_daemon_cannot_start(d, status);
}

static void on_loaded(void *ctx, const struct hf_loaded *loaded)
{
    struct hf_daemon *d = ctx;

    d->term->loading = NULL;
    if (loaded->status == 0)
        start(d, loaded);
    /* a stop has waited until the load no longer used the store */
    if (d->stopping && !d->clustered)
        hf_daemon_shut_down(d);
    else if (loaded->status < 0)
        fail_load(d, loaded->status, loaded->reason);
    else if (d->clustered)
        hf_cluster_carry_on(&d->cluster);
}

int hf_term_load(struct hf_daemon *d, const struct hf_lease_row *lease)
{
    const struct hf_loading_source source = {d->clustered ? NULL : &d->pump.rehearsal,
                                             &d->pump.store, &d->settings.store, lease};

    d->term->loading =
        hf_loading_start(&d->loop, &d->options->config, &d->hash_key, source, on_loaded, d);
    return d->term->loading ? 0 : HF_ENOMEM;
}

/* ---- serve ---- */

static void serve(struct hf_daemon *d)
{
    struct hf_term *term = d->term;

    term->phase = HF_TERM_SERVING;
    hf_engine_serve(&term->engine);
    hf_log(HF_LOG_INFO, "ready", HF_STR("version", HF_VERSION),
           HF_STR("name", d->options->config.name),
           HF_INT("state", hf_core_sm_stat(term->engine.service.core).state));
    hf_rpc_server_read_on(term->server);
    if (d->clustered)
        hf_cluster_serving(&d->cluster);
    else
        hf_systemd_ready("serving");
}

static void serve_if_ready(struct hf_daemon *d)
{
    const struct hf_term *term = d->term;

    if (term->phase == HF_TERM_STARTING && term->recorded &&
        hf_coherence_may_serve(&term->engine.coherence))
        serve(d);
}

/* Handles the result of a batch. With standbys, a new epoch whose batch failed goes into the next
 * batch. */
void hf_term_settled(struct hf_daemon *d, int status)
{
    struct hf_store_health health;

    if (d->term->phase != HF_TERM_STARTING || d->term->recorded)
        return;
    if (status == 0) {
        d->term->recorded = true;
        serve_if_ready(d);
    } else if (!d->clustered) {
        hf_committer_health(&d->pump.committer, &health);
        hf_log(HF_LOG_ERROR, "cannot write to the store", HF_STR("reason", hf_strerror(status)),
               HF_STR("detail", health.reason));
        hf_daemon_cannot_start(d, status);
    }
}

void hf_term_resume(struct hf_daemon *d)
{
    if (d->term->server)
        hf_rpc_server_gate_opened(d->term->server);
}

/* ---- leave ---- */

void hf_term_leave(struct hf_daemon *d)
{
    d->term->phase = HF_TERM_LEAVING;
    hf_engine_rest(&d->term->engine);
    if (d->term->loading)
        hf_loading_abandon(d->term->loading);
    d->term->loading = NULL;
}

void hf_term_renewed(struct hf_daemon *d, uint64_t valid_until_ms)
{
    hf_coherence_renew(&d->term->engine.coherence, valid_until_ms);
}

void hf_term_let_go(struct hf_daemon *d)
{
    hf_coherence_let_go(&d->term->engine.coherence);
}

uint64_t hf_term_free_at(const struct hf_daemon *d)
{
    return hf_coherence_free_at(&d->term->engine.coherence);
}

/* ---- close ---- */

static void on_server_closed(void *ctx)
{
    ((struct hf_term *)ctx)->server_open = false;
}

void hf_term_close_last(struct hf_daemon *d)
{
    struct hf_term *term = d->term;

    hf_engine_close(&term->engine);
    hf_administration_suspend(&d->administration);
    if (term->server)
        hf_rpc_server_close(term->server, on_server_closed, term);
    term->server = NULL;
}

static void free_term(struct hf_term *term)
{
    hf_engine_free(&term->engine);
    hf_rpcbind_server_del(term->rpcbind);
    free(term);
}

static bool is_closed(const struct hf_term *term)
{
    return !term->server_open && term->engine.open_handles == 0;
}

/* Frees ended terms to which no handle on the loop refers any more; a name lookup in progress may
 * keep one for long. */
static void on_reap(uv_timer_t *timer)
{
    struct hf_daemon *d = timer->data;
    bool closing = false;

    hf_list_foreach_safe (node, &d->ended) {
        struct hf_term *term = hf_list_entry(node, struct hf_term, link);

        closing = closing || !is_closed(term);
        if (!is_closed(term) || !hf_engine_is_gone(&term->engine))
            continue;
        hf_list_remove(&term->link);
        free_term(term);
    }
    if (hf_list_empty(&d->ended))
        uv_timer_stop(&d->reaper);
    if (closing || d->term->phase != HF_TERM_CLOSING)
        return;
    d->term->phase = HF_TERM_WAITING;
    hf_cluster_carry_on(&d->cluster);
}

void hf_term_close(struct hf_daemon *d)
{
    hf_term_close_last(d);
    hf_list_add_tail(&d->ended, &d->term->link);
    if (hf_term_open(d) < 0) {
        hf_log(HF_LOG_ERROR, "cannot stand by", HF_STR("reason", hf_strerror(HF_ENOMEM)));
        hf_log_stop();
        _Exit(EXIT_FAILURE); /* the service has been given up: systemd starts the daemon again */
    }
    d->term->phase = HF_TERM_CLOSING; /* the next term cannot begin before the old one is closed */
    hf_administration_switch(&d->administration, &d->term->engine, NULL);
    uv_timer_start(&d->reaper, on_reap, REAP_MS, REAP_MS);
}

void hf_term_free_all(struct hf_daemon *d)
{
    hf_list_foreach_safe (node, &d->ended)
        free_term(hf_list_entry(node, struct hf_term, link));
    if (d->term)
        free_term(d->term);
}
