#include "daemon/administration.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "daemon/metrics.h"

/* ---- what only the daemon knows ---- */

static void find_rpcbind(const struct hf_finding *finding, struct hf_admin_health *out)
{
    static const char *const STATES[] = {
        [HF_RPCBIND_REGISTERED] = "registered", [HF_RPCBIND_LOST] = "lost",
        [HF_RPCBIND_REFUSED] = "refused",       [HF_RPCBIND_TAKEN] = "taken",
        [HF_RPCBIND_AWAY] = "silent",
    };

    if (finding->watch) {
        out->rpcbind = STATES[finding->watch->health.state];
        out->rpcbind_up = finding->watch->health.state == HF_RPCBIND_REGISTERED;
        hf_format(out->rpcbind_reason, sizeof(out->rpcbind_reason), "%s",
                  finding->watch->health.reason);
        return;
    }
    out->rpcbind = finding->without;
    out->rpcbind_up = strcmp(finding->without, "missing") != 0;
    hf_format(
        out->rpcbind_reason, sizeof(out->rpcbind_reason), "%s",
        "No rpcbind runs on this host, and port 111 needs root: clients cannot find us. Start "
        "rpcbind, then restart holdfastd");
}

static void health(void *ctx, struct hf_admin_health *out)
{
    struct hf_administration *a = ctx;
    struct hf_store_health store;

    hf_committer_health(&a->engine->commits->committer, &store);
    out->store_up = store.up;
    hf_format(out->reason, sizeof(out->reason), "The store is down: %s", store.reason);
    find_rpcbind(&a->finding, out);
}

static void totals(void *ctx, struct hf_admin_totals *out)
{
    const struct hf_engine *engine = ((struct hf_administration *)ctx)->engine;

    *out = (struct hf_admin_totals){
        .commits = hf_histogram_count(&engine->commits->commits_ns),
        .commits_ns = engine->commits->commits_ns.sum,
        .callbacks = hf_core_counters(engine->service.core)->callbacks_started,
    };
    for (int k = 0; k < HF_NLM_KINDS; k++) {
        out->requests += hf_histogram_count(&engine->nlm.durations_ns[k]);
        out->requests_ns += engine->nlm.durations_ns[k].sum;
    }
    for (unsigned p = 0; p < HF_NSM_PROCEDURES; p++) {
        out->requests += hf_histogram_count(&engine->nsm.durations_ns[p]);
        out->requests_ns += engine->nsm.durations_ns[p].sum;
    }
}

static void metrics(void *ctx, struct hf_exposition *out)
{
    static const struct hf_rpc_counters NONE;
    struct hf_administration *a = ctx;
    struct hf_admin_health now;

    find_rpcbind(&a->finding, &now);
    hf_metrics_expose(a->engine, a->server ? hf_rpc_server_counters(a->server) : &NONE, a->cluster,
                      out);
    hf_metrics_expose_rpcbind(now.rpcbind_up, a->finding.watch ? a->finding.watch->n_lost : 0, out);
}

static int check(void *ctx, const struct hf_view_client *client, struct hf_admin_check *out)
{
    return hf_path_checks_start(&((struct hf_administration *)ctx)->checks, client, out);
}

static void on_backed_up(struct hf_backup_request *request, int status)
{
    struct hf_administration *a = hf_container_of(request, struct hf_administration, backup);

    a->asked->out = request->out;
    a->asked->done(a->asked, status);
}

static int backup(void *ctx, struct hf_admin_backup *out)
{
    struct hf_administration *a = ctx;
    struct hf_commit_pump *pump = a->engine->commits;

    if (pump->backup)
        return HF_ELIMIT;
    a->asked = out;
    a->backup = (struct hf_backup_request){.out = out->out, .done = on_backed_up};
    return hf_commit_pump_back_up(pump, &a->backup);
}

static void did(void *ctx, const char *what, const char *text)
{
    hf_recorder_note(&((struct hf_administration *)ctx)->recorder, what, text);
}

static bool show_cluster(void *ctx, struct hf_admin_cluster *out)
{
    const struct hf_cluster *c = ((struct hf_administration *)ctx)->cluster;
    uint64_t now = hf_clock_boot_ms();

    if (!c)
        return false;
    *out = (struct hf_admin_cluster){
        .role = hf_cluster_role(c),
        .service = c->config->service,
        .node = c->config->node,
        .taken_at_ms = c->view.taken_at_ms,
        .epoch = hf_lease_epoch(&c->lease),
        .lease_left_ms = (int64_t)(hf_lease_valid_until(&c->lease) - now),
        .seen_ms = now - c->view.looked_ms,
        .takeovers = c->view.takeovers,
        .losses = c->view.losses,
        .expiries = c->view.expiries,
        .alarms = c->view.alarms,
        .last_take_ms = c->view.last_take_ms,
        .last_silence_ms = c->view.last_silence_ms,
    };
    if (out->epoch == 0)
        out->lease_left_ms = 0;
    hf_format(out->owner, sizeof(out->owner), "%s", out->epoch ? out->node : c->view.owner);
    for (; out->n_nodes < c->view.n_nodes; out->n_nodes++) {
        const struct hf_store_node *node = &c->view.nodes[out->n_nodes];

        hf_format(out->nodes[out->n_nodes].name, HF_ADMIN_NODE_MAX, "%s", node->name);
        hf_format(out->nodes[out->n_nodes].version, HF_ADMIN_NODE_MAX, "%s", node->version);
        out->nodes[out->n_nodes].seen_ms = node->seen_ms;
    }
    return true;
}

static int move(void *ctx, enum hf_admin_move what)
{
    struct hf_cluster *c = ((struct hf_administration *)ctx)->cluster;

    if (what == HF_ADMIN_MOVE)
        return hf_cluster_move(c);
    if (what == HF_ADMIN_TAKE)
        hf_cluster_take(c);
    else
        hf_cluster_release(c);
    return 0;
}

static int exports(void *ctx, struct hf_admin_exports *asked, const char *path)
{
    return hf_coherence_exports(&((struct hf_administration *)ctx)->engine->coherence, asked, path);
}

_Static_assert((int)HF_ADMIN_NODES_MAX == (int)HF_STORE_NODES_MAX, "admin.h and store/lease.h");

static const struct hf_admin_ops OPS = {
    .health = health,
    .totals = totals,
    .metrics = metrics,
    .check = check,
    .backup = backup,
    .did = did,
    .exports = exports,
    .cluster = show_cluster,
    .move = move,
};

/* ---- opening and closing ---- */

bool hf_administration_wanted(const struct hf_config *config)
{
    return config->admin_listen[0] || config->admin_socket[0];
}

/* Returns the directory that systemd made for this service (RuntimeDirectory=): the last one, if
 * there are several. */
static const char *run_directory(void)
{
    const char *made = getenv("RUNTIME_DIRECTORY");
    const char *last = made ? strrchr(made, ':') : NULL;

    return last ? last + 1 : made && made[0] ? made : HF_RUN_DIRECTORY;
}

/* Chooses the admin socket's path for the setting "auto": the place where holdfastctl looks, if
 * that directory is writable; otherwise the directory of an LMDB store; "" if there is neither. */
static void choose_socket(const struct hf_config *config, char *out, size_t size)
{
    if (strcmp(config->admin_socket, "auto") != 0) {
        hf_format(out, size, "%s", config->admin_socket);
        return;
    }
    if (access(run_directory(), F_OK) < 0)
        (void)mkdir(HF_RUN_DIRECTORY, 0755);
    if (access(run_directory(), W_OK) == 0)
        hf_format(out, size, "%s/admin.sock", run_directory());
    else if (config->backend == HF_BACKEND_LMDB)
        hf_format(out, size, "%s/admin.sock", config->path);
    else
        out[0] = '\0';
}

/* Gives a term's engine the name lookups and the history, which administration owns. */
static void lend(struct hf_administration *a, struct hf_engine *engine)
{
    engine->names = hf_admin_names(a->admin);
    engine->recorder = &a->recorder;
    a->recorder.service = &engine->service;
}

int hf_administration_open(struct hf_administration *a, struct hf_engine *engine,
                           const struct hf_rpc_server *server, const struct hf_config *config,
                           struct hf_finding finding)
{
    struct hf_admin_config admin = {
        .loop = engine->loop,
        .service = &engine->service,
        .ops = OPS,
        .server_name = config->name,
        .server_listen = hf_config_served(config)->list,
        .n_server_listen = hf_config_served(config)->n,
        .server_port = (uint16_t)config->port,
        .listen = config->admin_listen,
        .socket = a->socket,
        .hosts = config->admin_hosts,
        .token_file = config->admin_token_file,
        .read_token_file = config->admin_read_token_file,
        .fh_map = config->admin_fh_map,
        .names = config->names_socket,
    };
    int rv;

    a->engine = engine;
    a->finding = finding;
    a->server = server;
    hf_path_checks_init(&a->checks, engine->client, config->notify_timeout * 1000);
    choose_socket(config, a->socket, sizeof(a->socket));
    admin.ops.ctx = a;
    hf_recorder_open(&a->recorder, engine->loop, config, &engine->service);
    admin.history = a->recorder.history;
    rv = hf_admin_new(&admin, &a->admin);
    if (rv < 0) {
        hf_recorder_close(&a->recorder);
        return rv;
    }
    a->recorder.lines.names = hf_admin_names(a->admin);
    lend(a, engine);
    return 0;
}

void hf_administration_suspend(struct hf_administration *a)
{
    if (a->admin)
        hf_path_checks_stop(&a->checks);
    a->server = NULL;
}

void hf_administration_switch(struct hf_administration *a, struct hf_engine *engine,
                              const struct hf_rpc_server *server)
{
    if (!a->admin)
        return;
    a->server = server;
    if (a->engine == engine)
        return;
    a->engine = engine;
    lend(a, engine);
    hf_admin_set_service(a->admin, &engine->service);
    hf_path_checks_init(&a->checks, engine->client, a->checks.timeout_ms);
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
    hf_path_checks_stop(&a->checks);
    hf_admin_close(a->admin); /* also writes the log lines that wait for the name of a file */
    a->engine->events.lines.names = NULL;
    a->recorder.lines.names = NULL;
    a->engine->recorder = a->engine->events.recorder = NULL;
    hf_recorder_close(&a->recorder);
    a->admin = NULL;
}
