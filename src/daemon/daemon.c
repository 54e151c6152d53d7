#include "daemon/daemon.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "base/trust.h"
#include "daemon/daemon_private.h"
#include "daemon/own_addresses.h"

enum { STOP_MS = 3000 };

/* ---- signals ---- */

/*
 * Ends the process when a stop takes too long. By then everything is recorded and closed, but a
 * blocking call on another thread has not returned: the resolver waits for a name server, or a call
 * to rpcbind hangs. Its result is no longer needed.
 */
static void on_overdue(uv_timer_t *timer)
{
    (void)timer;
    hf_log(HF_LOG_WARN, "stopped",
           HF_STR("reason", "a name lookup or rpcbind was still in flight"));
    hf_log_stop();
    _exit(EXIT_SUCCESS);
}

static void limit_stop(struct hf_daemon *d)
{
    uv_timer_start(&d->overdue, on_overdue, STOP_MS, 0);
    uv_unref((uv_handle_t *)&d->overdue);
}

/* Closes everything, in the reverse order of start(). */
void hf_daemon_shut_down(struct hf_daemon *d)
{
    if (d->shut_down)
        return;
    d->shut_down = true;
    hf_systemd_stopping();
    hf_rpcbind_watch_stop(&d->watch);
    if (d->term)
        hf_term_leave(d);
    /* stopping the pump also records a clean stop, and completes the last answers */
    hf_commit_pump_stop(&d->pump);
    if (d->term && !d->term->engine.service.loading)
        hf_engine_log_state(&d->term->engine, "durable at the end", false);
    if (d->term)
        hf_term_close_last(d);
    if (d->cluster.daemon)
        hf_cluster_close(&d->cluster);
    if (d->rpcbind_client)
        hf_rpc_client_close(d->rpcbind_client, NULL, NULL);
    hf_administration_close(&d->administration);
    uv_close((uv_handle_t *)&d->reaper, NULL);
    uv_close((uv_handle_t *)&d->sigterm, NULL);
    uv_close((uv_handle_t *)&d->sigint, NULL);
    uv_close((uv_handle_t *)&d->sighup, NULL);
    hf_systemd_close(&d->systemd);
    limit_stop(d);
}

static void on_stop_signal(uv_signal_t *handle, int number)
{
    struct hf_daemon *d = handle->data;

    if (d->stopping)
        return;
    d->stopping = true;
    hf_log(HF_LOG_INFO, "stopping", HF_STR("signal", number == SIGINT ? "SIGINT" : "SIGTERM"));
    limit_stop(d);
    if (d->clustered)
        hf_cluster_stop(&d->cluster);
    else if (d->term->loading) /* a load in progress uses the store until it ends */
        hf_loading_cancel(d->term->loading);
    else
        hf_daemon_shut_down(d);
}

static void report_unchangeable(const char *key)
{
    hf_log(HF_LOG_WARN, "changed value needs a restart", HF_STR("key", key));
}

/* True if systemd has been told that the daemon started. A daemon with standbys counts as started
 * as soon as it can take the service. */
static bool is_started(const struct hf_daemon *d)
{
    return d->clustered || d->term->phase == HF_TERM_SERVING;
}

static void on_reload_signal(uv_signal_t *handle, int number)
{
    struct hf_daemon *d = handle->data;
    struct hf_config *config = &d->options->config;
    char error[HF_CONFIG_ERROR_MAX];
    struct hf_config fresh;
    struct hf_rpc_access access;

    (void)number;
    if (is_started(d))
        hf_systemd_reloading();
    if (d->options->reread(&fresh, error) < 0) {
        hf_log(HF_LOG_ERROR, "configuration not reloaded", HF_STR("reason", error));
    } else {
        hf_config_reload(config, &fresh, report_unchangeable);
        hf_log_configure((enum hf_log_level)config->log_level,
                         (enum hf_log_format)config->log_format);
        hf_engine_reconfigure(&d->term->engine, config);
        access = hf_listening_access(config);
        if (d->term->server)
            hf_rpc_server_reconfigure(d->term->server, config->max_connections_per_host,
                                      config->max_calls_per_host, &access);
        hf_administration_reload(&d->administration);
        hf_log(HF_LOG_INFO, "configuration reloaded");
    }
    hf_rpcbind_watch_look(&d->watch);
    if (is_started(d))
        hf_systemd_ready(d->clustered ? hf_cluster_role(&d->cluster) : "serving");
}

static void watch(struct hf_daemon *d, uv_signal_t *handle, int number, uv_signal_cb handler)
{
    uv_signal_init(&d->loop, handle);
    handle->data = d;
    uv_signal_start(handle, handler, number);
}

/* ---- start and end ---- */

void hf_daemon_tell_role(struct hf_daemon *d)
{
    hf_systemd_status(hf_cluster_role(&d->cluster), "");
}

/* Opens the store, the cluster if the service has standbys, and a term that has not begun yet. */
static int open_term(struct hf_daemon *d)
{
    const struct hf_config *config = &d->options->config;
    int rv;

    d->pump.daemon = d;
    d->pump.cluster = d->clustered ? &d->cluster : NULL;
    d->pump.store_config = &d->settings.store;
    rv = hf_commit_pump_open(&d->pump, &d->loop, config);
    if (rv == 0 && d->clustered)
        rv = hf_cluster_init(&d->cluster, d, &d->loop, config, &d->pump, d->addresses);
    return rv < 0 ? rv : hf_term_open(d);
}

static void blame_store(struct hf_daemon *d, int error)
{
    hf_format(d->obstacle, sizeof(d->obstacle), "the store: %s", hf_strerror(error));
    d->hopeless = error == HF_EFORMAT || error == HF_EVERSION || error == HF_EINVAL;
}

/* Opens the store as the user who will write it, so that its files, and its sessions with
 * PostgreSQL, belong to that user. */
static int open_as_user(struct hf_daemon *d)
{
    const struct hf_confine_user *user = &d->confinement.confine.user;
    int rv = hf_confinement_prepare(&d->confinement, &d->options->config, d->options->config_file);

    hf_trust_read_system();

    if (rv == 0)
        rv = hf_store_settings_from(&d->options->config, &d->settings);
    /* A wrong server.user or store.dsn_file is hopeless: only an operator can correct it. */
    d->hopeless = rv == HF_ENOENT || rv == HF_EINVAL;
    if (rv < 0)
        return rv;
    rv = hf_confine_borrow_user(user);
    if (rv == 0)
        rv = open_term(d);
    hf_confine_return_user(user);
    if (rv < 0)
        blame_store(d, rv);
    return rv;
}

static struct hf_finding finding_of(const struct hf_daemon *d)
{
    if (d->watch.open)
        return (struct hf_finding){.watch = &d->watch};
    if ((d->term->rpcbind || d->embeds_rpcbind) && !d->lacks_rpcbind)
        return (struct hf_finding){.without = "embedded"};
    return (struct hf_finding){
        .without = d->options->config.rpcbind_mode == HF_RPCBIND_NONE ? "none" : "missing"};
}

static int open_administration(struct hf_daemon *d)
{
    if (!hf_administration_wanted(&d->options->config))
        return 0;
    d->administration.cluster = d->clustered ? &d->cluster : NULL;
    return hf_administration_open(&d->administration, &d->term->engine, d->term->server,
                                  &d->options->config, finding_of(d));
}

static void *wait_for_turn(void *mutex)
{
    pthread_mutex_lock(mutex);
    pthread_mutex_unlock(mutex);
    return NULL;
}

/* libuv starts the threads of its pool when it first has work for them, and aborts where it cannot.
 * This function finds out before whether as many more threads can run at a time. */
static int try_pool_threads(void)
{
    enum { POOL_THREADS = 4 }; /* libuv's own default */
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_t threads[POOL_THREADS];
    unsigned n = 0;

    pthread_mutex_lock(&mutex);
    while (n < POOL_THREADS && pthread_create(&threads[n], NULL, wait_for_turn, &mutex) == 0)
        n++;
    pthread_mutex_unlock(&mutex);
    for (unsigned i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    return n == POOL_THREADS ? 0 : HF_EUNAVAIL;
}

static int start_threads(struct hf_daemon *d)
{
    int rv = hf_commit_pump_start(&d->pump);

    if (rv == 0)
        rv = try_pool_threads();
    if (rv < 0)
        hf_format(d->obstacle, sizeof(d->obstacle),
                  "too few threads: raise TasksMax= or LimitNPROC= of the unit, the container's "
                  "limit of processes, or memory");
    return rv;
}

/* Opens everything that needs privileges, and drops them. Then the term begins: at once or, with
 * standbys, when the daemon has taken the lease. */
static int start(struct hf_daemon *d)
{
    int rv;

    hf_listening_raise_file_limit();
    rv = open_as_user(d);
    if (rv == 0 && d->clustered)
        hf_listening_list_services(d);
    else if (rv == 0)
        rv = hf_term_listen(d);
    if (rv == 0)
        rv = hf_listening_set_up_rpcbind(d);
    if (rv == 0)
        rv = open_administration(d);
    if (rv == 0)
        rv = hf_confinement_apply(&d->confinement, d->administration.socket,
                                  d->term->rpcbind && !d->lacks_rpcbind ? HF_RPCBIND_SOCKET : NULL);
    if (rv < 0)
        return rv;
    /* A failure is harmless: without the log's thread, a slow reader of the log delays requests. */
    (void)hf_log_start();
    rv = start_threads(d);
    if (rv < 0 || !d->clustered)
        return rv < 0 ? rv : hf_term_load(d, NULL);
    hf_log(HF_LOG_INFO, "standing by", HF_STR("version", HF_VERSION),
           HF_STR("service", d->options->config.service), HF_STR("node", d->options->config.node));
    hf_systemd_ready("standby");
    hf_cluster_carry_on(&d->cluster);
    return 0;
}

/*
 * Gives up the start. The daemon does not wait for an obstacle to go away: it exits, and the
 * service manager starts it again after a pause. Each attempt then begins with fresh sockets and
 * reads the configuration and the store again, and a signal stops it at once.
 */
static int give_up_start(struct hf_daemon *d, int rv)
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

static void fail(struct hf_daemon *d, int error)
{
    hf_daemon_shut_down(d);
    d->status = give_up_start(d, error);
}

void hf_daemon_cannot_start(struct hf_daemon *d, int error)
{
    blame_store(d, error);
    fail(d, error);
}

int hf_daemon_run(struct hf_daemon_options *options)
{
    struct hf_daemon *d = calloc(1, sizeof(*d));
    int status;
    int rv;

    if (!d)
        return EXIT_FAILURE;
    d->options = options;
    d->clustered = options->config.cluster_mode == HF_CLUSTER_STANDBY;
    /* Fork the runner before this process has anything that the runner must not keep: the runner
     * outlives it. */
    if (hf_own_addresses_start(&options->config, &d->addresses) < 0) {
        hf_systemd_status("waits to start again: ", "another process has the service's addresses");
        free(d);
        return EXIT_FAILURE;
    }
    if (options->config.confine)
        (void)hf_confine_begin(); /* a failure is reported later, by hf_confine() */
    if (getrandom(&d->hash_key, sizeof(d->hash_key), 0) < 0 || uv_loop_init(&d->loop) < 0) {
        hf_log(HF_LOG_ERROR, "cannot start", HF_STR("reason", "no memory, entropy or event loop"));
        free(d);
        return EXIT_FAILURE;
    }
    hf_list_init(&d->ended);
    /* Neither may end the daemon: a client that closes its connection (CVE-2004-1014), and a limit
     * of the size of files, which the store reports. */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN);
    watch(d, &d->sigterm, SIGTERM, on_stop_signal);
    watch(d, &d->sigint, SIGINT, on_stop_signal);
    watch(d, &d->sighup, SIGHUP, on_reload_signal);
    hf_systemd_init(&d->systemd, &d->loop);
    uv_timer_init(&d->loop, &d->overdue);
    uv_timer_init(&d->loop, &d->reaper);
    d->reaper.data = d;

    rv = start(d);
    if (rv < 0)
        fail(d, rv);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&d->overdue, NULL);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    uv_loop_close(&d->loop);
    hf_term_free_all(d);
    status = d->status;
    free(d);
    if (status == EXIT_SUCCESS)
        hf_log(HF_LOG_INFO, "stopped");
    hf_log_stop();
    return status;
}
