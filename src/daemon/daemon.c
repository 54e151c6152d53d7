#include "daemon/daemon.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/text.h"
#include "base/trust.h"
#include "daemon/daemon_private.h"
#include "daemon/own_addresses.h"

enum { STOP_MS = 3000 };

struct life *life_new(struct daemon *d)
{
    struct life *life = calloc(1, sizeof(*life));

    if (life) {
        life->daemon = d;
        hf_list_init(&life->link);
    }
    return life;
}

void life_list_programs(struct life *life)
{
    life->n_programs = 0;
    life->programs[life->n_programs++] = &life->engine.nsm.program;
    /* On a host whose kernel serves locks, program 100021 belongs to the kernel. */
    if (life->daemon->options->config.programs == HF_PROGRAMS_ALL)
        life->programs[life->n_programs++] = &life->engine.nlm.program;
}

void life_del(struct life *life)
{
    if (life)
        hf_rpcbind_server_del(life->rpcbind);
    free(life);
}

/* ---- signals ---- */

/*
 * Everything is recorded and closed, but a blocking call on another thread has not returned: the
 * resolver waits for a name server, or a call to rpcbind hangs. Its result is no longer needed.
 */
static void on_overdue(uv_timer_t *timer)
{
    (void)timer;
    hf_log(HF_LOG_WARN, "stopped",
           HF_STR("reason", "a name lookup or rpcbind was still under way"));
    hf_log_stop();
    _exit(EXIT_SUCCESS);
}

static void limit_stop(struct daemon *d)
{
    uv_timer_start(&d->overdue, on_overdue, STOP_MS, 0);
    uv_unref((uv_handle_t *)&d->overdue);
}

/* Closes in the reverse order of start_alone() or start_standby(). */
void daemon_shut_down(struct daemon *d)
{
    hf_systemd_stopping();
    hf_rpcbind_watch_stop(&d->watch);
    if (d->engine_open && d->clustered)
        lives_close(d);
    else if (d->engine_open)
        hf_engine_stop(&d->life->engine);
    hf_administration_close(&d->administration);
    uv_close((uv_handle_t *)&d->sigterm, NULL);
    uv_close((uv_handle_t *)&d->sigint, NULL);
    uv_close((uv_handle_t *)&d->sighup, NULL);
    hf_systemd_close(&d->systemd);
    if (d->life->server)
        hf_rpc_server_close(d->life->server, NULL, NULL);
    d->life->server = NULL;
    limit_stop(d);
}

static void on_stop_signal(uv_signal_t *handle, int number)
{
    struct daemon *d = handle->data;

    if (d->stopping)
        return;
    d->stopping = true;
    hf_log(HF_LOG_INFO, "stopping", HF_STR("signal", number == SIGINT ? "SIGINT" : "SIGTERM"));
    limit_stop(d);
    if (d->clustered)
        lives_stop(d);
    else
        daemon_shut_down(d);
}

static void report_unchangeable(const char *key)
{
    hf_log(HF_LOG_WARN, "changed value needs a restart", HF_STR("key", key));
}

static void on_reload_signal(uv_signal_t *handle, int number)
{
    struct daemon *d = handle->data;
    struct hf_config *config = &d->options->config;
    char error[HF_CONFIG_ERROR_MAX];
    struct hf_config fresh;
    struct hf_rpc_access access;

    (void)number;
    hf_systemd_reloading();
    if (d->options->reread(&fresh, error) < 0) {
        hf_log(HF_LOG_ERROR, "configuration not reloaded", HF_STR("reason", error));
    } else {
        hf_config_reload(config, &fresh, report_unchangeable);
        hf_log_configure((enum hf_log_level)config->log_level,
                         (enum hf_log_format)config->log_format);
        hf_engine_reconfigure(&d->life->engine, config);
        access = access_of(config);
        if (d->life->server)
            hf_rpc_server_reconfigure(d->life->server, config->max_connections_per_host,
                                      config->max_calls_per_host, &access);
        hf_administration_reload(&d->administration);
        hf_log(HF_LOG_INFO, "configuration reloaded");
    }
    hf_rpcbind_watch_look(&d->watch);
    hf_systemd_ready(d->clustered ? hf_cluster_role(&d->cluster) : "serving");
}

static void watch(struct daemon *d, uv_signal_t *handle, int number, uv_signal_cb handler)
{
    uv_signal_init(&d->loop, handle);
    handle->data = d;
    uv_signal_start(handle, handler, number);
}

/* ---- start and end ---- */

/* The store is the user's who will write it: its files, and its sessions with PostgreSQL. */
static int open_engine(struct daemon *d)
{
    const struct hf_confine_user *user = &d->confinement.confine.user;
    int rv = hf_confinement_prepare(&d->confinement, &d->options->config, d->options->config_file);

    hf_trust_read_system();

    if (rv == 0)
        rv = hf_store_settings_from(&d->options->config, &d->settings);
    d->hopeless = rv == HF_ENOENT || rv == HF_EINVAL; /* of server.user or store.dsn_file */
    if (rv < 0)
        return rv;
    rv = hf_confine_borrow_user(user);
    if (rv == 0)
        rv = d->clustered ? lives_open(d)
                          : hf_engine_open(&d->life->engine, &d->loop, &d->options->config,
                                           &d->hash_key, &d->pump, &d->settings);
    hf_confine_return_user(user);
    d->engine_open = rv == 0;
    if (rv < 0) {
        hf_format(d->obstacle, sizeof(d->obstacle), "the store: %s", hf_strerror(rv));
        d->hopeless = rv == HF_EFORMAT || rv == HF_EVERSION || rv == HF_EINVAL;
    }
    return rv;
}

static struct hf_finding finding_of(const struct daemon *d)
{
    if (d->watch.open)
        return (struct hf_finding){.watch = &d->watch};
    if ((d->life->rpcbind || d->embeds_rpcbind) && !d->lacks_rpcbind)
        return (struct hf_finding){.without = "embedded"};
    return (struct hf_finding){
        .without = d->options->config.rpcbind_mode == HF_RPCBIND_NONE ? "none" : "missing"};
}

static int open_administration(struct daemon *d, const struct hf_rpc_server *server)
{
    return hf_administration_open(&d->administration, &d->life->engine, server, &d->options->config,
                                  finding_of(d));
}

/* The new epoch is durable. */
static void on_begun(void *ctx)
{
    const struct daemon *d = ctx;

    hf_log(HF_LOG_INFO, "ready", HF_STR("version", HF_VERSION),
           HF_STR("name", d->options->config.name),
           HF_INT("state", hf_core_sm_stat(d->life->engine.service.core).state));
    hf_systemd_ready("serving");
}

/* Without standbys: everything is opened once. */
static int start_alone(struct daemon *d)
{
    const struct hf_config_addresses *own = &d->options->config.cluster_addresses;
    struct life *life = d->life;
    int rv = open_engine(d);

    if (rv < 0)
        return rv;
    life_list_programs(life);
    rv = open_server(d);
    if (rv == 0)
        rv = set_up_rpcbind(d);
    if (rv == 0 && hf_administration_wanted(&d->options->config))
        rv = open_administration(d, life->server);
    if (rv == 0)
        rv = hf_confinement_apply(&d->confinement, d->administration.socket,
                                  life->rpcbind && !d->lacks_rpcbind ? HF_RPCBIND_SOCKET : NULL);
    if (rv < 0)
        return rv;
    (void)hf_log_start(); /* without a thread a slow reader of the log delays requests, no more */
    /* Notify clients only now that NLM serves: a Linux client silently gives up a reclaim that is
     * refused (docs/PROTOCOL-NOTES.md). */
    hf_rpc_client_attach(life->engine.client, life->server);
    for (unsigned i = own->n; i-- > 0;) /* the first is the last set */
        hf_rpc_client_set_source(life->engine.client, &own->list[i]);
    return hf_engine_start(&life->engine, on_begun, d);
}

/* With standbys: what outlives a life; the lease decides about all else (lives.c). */
static int start_standby(struct daemon *d)
{
    int rv = open_engine(d);

    if (rv == 0)
        rv = set_up_rpcbind(d);
    if (rv == 0 && hf_administration_wanted(&d->options->config))
        rv = open_administration(d, NULL);
    if (rv == 0)
        rv = hf_confinement_apply(&d->confinement, d->administration.socket, NULL);
    if (rv < 0)
        return rv;
    (void)hf_log_start();
    rv = lives_start(d);
    if (rv < 0)
        return rv;
    hf_log(HF_LOG_INFO, "standing by", HF_STR("version", HF_VERSION),
           HF_STR("service", d->options->config.service), HF_STR("node", d->options->config.node));
    hf_systemd_ready("standby");
    return 0;
}

/*
 * The daemon does not wait for an obstacle to go away: it exits, and the service manager starts it
 * again after a pause. Each attempt then begins with fresh sockets, a fresh look at the
 * configuration and the store, and a signal stops it at once.
 */
static int give_up_start(struct daemon *d, int rv)
{
    const char *obstacle = d->obstacle[0] ? d->obstacle : hf_strerror(rv);

    if (d->hopeless) {
        hf_log(HF_LOG_ERROR, "cannot start until an operator repairs it",
               HF_STR("obstacle", obstacle), HF_INT("status", HF_EXIT_HOPELESS));
        hf_systemd_status("cannot start until an operator repairs it: ", obstacle);
        return HF_EXIT_HOPELESS;
    }
    hf_log(HF_LOG_WARN, "cannot start yet", HF_STR("obstacle", obstacle),
           HF_STR("advice", "systemd starts it again every 2 seconds; without systemd, start it "
                            "again when the obstacle is gone"));
    hf_systemd_status("waits to start again: ", obstacle);
    return EXIT_FAILURE;
}

int hf_daemon_run(struct hf_daemon_options *options)
{
    struct daemon *d = calloc(1, sizeof(*d));
    int status = EXIT_SUCCESS;
    int rv;

    if (!d)
        return EXIT_FAILURE;
    d->options = options;
    d->clustered = options->config.cluster_mode == HF_CLUSTER_STANDBY;
    /* Its process is forked before this one has anything that it must not keep, and outlives it. */
    if (hf_own_addresses_start(&options->config, &d->addresses) < 0) {
        hf_systemd_status("waits to start again: ", "another process has the service's addresses");
        free(d);
        return EXIT_FAILURE;
    }
    if (options->config.confine)
        (void)hf_confine_begin(); /* a failure is told by hf_confine() */
    if (getrandom(&d->hash_key, sizeof(d->hash_key), 0) < 0 || uv_loop_init(&d->loop) < 0) {
        hf_log(HF_LOG_ERROR, "cannot start", HF_STR("reason", "no memory, entropy or event loop"));
        free(d);
        return EXIT_FAILURE;
    }
    d->life = life_new(d);
    hf_list_init(&d->ended);
    (void)signal(
        SIGPIPE,
        SIG_IGN); /* a peer that closes its connection must not end the daemon (CVE-2004-1014) */
    watch(d, &d->sigterm, SIGTERM, on_stop_signal);
    watch(d, &d->sigint, SIGINT, on_stop_signal);
    watch(d, &d->sighup, SIGHUP, on_reload_signal);
    hf_systemd_init(&d->systemd, &d->loop);
    uv_timer_init(&d->loop, &d->overdue);

    rv = d->life ? (d->clustered ? start_standby(d) : start_alone(d)) : HF_ENOMEM;
    if (rv < 0) {
        daemon_shut_down(d);
        status = give_up_start(d, rv);
    }
    uv_run(&d->loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&d->overdue, NULL);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    uv_loop_close(&d->loop);
    if (d->engine_open)
        hf_engine_free(&d->life->engine);
    if (d->clustered)
        lives_free(d);
    life_del(d->life);
    free(d);
    if (rv == 0)
        hf_log(HF_LOG_INFO, "stopped");
    hf_log_stop();
    return status;
}
