#include "daemon/daemon.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/text.h"
#include "daemon/administration.h"
#include "daemon/confinement.h"
#include "daemon/engine.h"
#include "daemon/systemd.h"
#include "rpc/server.h"
#include "rpcbind/server.h"
#include "rpcbind/watch.h"

enum {
    FILES_KEPT_BACK = 256, /* descriptors that are not connections */
    STOP_MS = 3000,
};
_Static_assert(HF_RPCBIND_SERVICES_MAX >= 2 * 4 * HF_CONFIG_LISTEN_MAX,
               "room for each transport, each version of NSM and NLM, each address");
_Static_assert((int)HF_CONFIG_ALLOW_MAX == (int)HF_RPC_NETWORKS_MAX, "config.h and rpc/server.h");

struct daemon {
    struct hf_daemon_options *options;
    uv_loop_t loop;
    uv_signal_t sigterm, sigint, sighup;
    uv_timer_t overdue; /* ends a stop that takes too long */
    struct hf_systemd systemd;
    struct hf_hash_key hash_key;
    char obstacle[HF_RPCBIND_ERROR_MAX]; /* why it cannot start, for the service manager */
    bool hopeless;                       /* only an operator can remove the obstacle */

    struct hf_engine engine;
    bool engine_open;
    const struct hf_rpc_program *programs[HF_RPCBIND_PROGRAMS_MAX];
    size_t n_programs;
    struct hf_rpc_server *server;
    struct hf_administration administration;
    struct hf_confinement confinement;

    struct hf_rpcbind_service services[HF_RPCBIND_SERVICES_MAX];
    size_t n_services;
    struct hf_rpcbind_share share; /* of the registration with other daemons on this host */
    struct hf_rpcbind_watch watch; /* open: registered with the system's rpcbind */
    struct hf_rpcbind_server *rpcbind;
    const struct hf_rpc_program *rpcbind_programs[1];
};

/* ---- limits of the process ---- */

/* Raises the limit of open files as far as allowed; returns how many connections fit. */
static unsigned raise_file_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return HF_RPC_CONNECTIONS_DEFAULT;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur <= 2 * (rlim_t)FILES_KEPT_BACK)
        return FILES_KEPT_BACK;
    if (limit.rlim_cur >= HF_RPC_CONNECTIONS_DEFAULT + FILES_KEPT_BACK)
        return HF_RPC_CONNECTIONS_DEFAULT;
    return (unsigned)limit.rlim_cur - FILES_KEPT_BACK;
}

/* ---- access ---- */

static struct hf_rpc_access access_of(const struct hf_config *config)
{
    struct hf_rpc_access access = {
        .n_allow = config->allow.n,
        .no_udp = !config->access_udp,
        .reserved_ports = config->access_reserved_ports,
    };

    memcpy(access.allow, config->allow.list, sizeof(access.allow));
    return access;
}

/* ---- listening ---- */

/*
 * Services on one host share their port and one registration with rpcbind, which holds one address
 * for each program, version and transport. So a service with addresses of its own is registered
 * without them, for each family once; rpcbind then answers with the address that it was asked at.
 */
static bool generalise(const struct daemon *d, struct hf_addr *addr)
{
    if (d->options->config.cluster_addresses.n == 0)
        return true;
    *addr = (struct hf_addr){.family = addr->family, .port = addr->port};
    for (size_t i = 0; i < d->n_services; i++) {
        if (d->services[i].addr.family == addr->family)
            return false;
    }
    return true;
}

static void add_services(struct daemon *d, struct hf_addr addr)
{
    if (!generalise(d, &addr))
        return;
    for (size_t p = 0; p < d->n_programs; p++) {
        for (size_t v = 0; v < d->programs[p]->n_versions; v++) {
            struct hf_rpcbind_service service = {
                .prog = d->programs[p]->number,
                .vers = d->programs[p]->versions[v].number,
                .addr = addr,
            };
            HF_ASSERT(d->n_services + 2 <= HF_RPCBIND_SERVICES_MAX);
            service.transport = HF_TRANSPORT_UDP;
            d->services[d->n_services++] = service;
            service.transport = HF_TRANSPORT_TCP;
            d->services[d->n_services++] = service;
        }
    }
}

static const char *listen_advice(int error)
{
    switch (error) {
    case HF_EBUSY:
        return "another process has this port; stop it or set server.port";
    case HF_EDENIED:
        return "ports below 1024 need root or CAP_NET_BIND_SERVICE; set server.port";
    case HF_EINVAL:
        return "not an address of this host; set server.listen";
    default:
        return "set server.listen to addresses this host has";
    }
}

static int listen_all(struct daemon *d)
{
    const struct hf_config *config = &d->options->config;
    const struct hf_config_addresses *served = hf_config_served(config);
    unsigned listening = 0;

    for (unsigned i = 0; i < served->n; i++) {
        struct hf_addr addr = served->list[i];
        int rv;

        addr.port = (uint16_t)config->port;
        rv = hf_rpc_server_listen(d->server, &addr, d->programs, d->n_programs);
        /* On a kernel without IPv6, serve IPv4 alone. */
        if (rv == HF_EUNAVAIL && hf_addr_is_any(&addr) && served->n > 1) {
            hf_log(HF_LOG_WARN, "address family not available", HF_ADDR("address", &addr));
            continue;
        }
        if (rv < 0) {
            hf_log(HF_LOG_ERROR, "cannot listen", HF_ADDR("address", &addr),
                   HF_STR("reason", hf_strerror(rv)), HF_STR("advice", listen_advice(rv)));
            hf_format(d->obstacle, sizeof(d->obstacle), "port %u: %s", config->port,
                      hf_strerror(rv));
            return rv;
        }
        add_services(d, addr);
        listening++;
        hf_log(HF_LOG_INFO, "listening", HF_ADDR("address", &addr),
               HF_STR("transports", "udp,tcp"));
    }
    return listening > 0 ? 0 : HF_EUNAVAIL;
}

/* ---- rpcbind ---- */

/*
 * The socket in the file system is what rpcinfo and rpcb_set() try first on the host itself. A
 * socket that was left behind is replaced. If another process serves it, or if we may not write
 * there, programs go to port 111 instead.
 */
static void serve_rpcbind_locally(struct daemon *d)
{
    int rv = hf_rpcbind_socket_clear(HF_RPCBIND_SOCKET);

    if (rv == 0)
        rv = hf_rpc_server_listen_local(d->server, HF_RPCBIND_SOCKET, d->rpcbind_programs, 1);
    if (rv < 0)
        hf_log(HF_LOG_INFO, "no local rpcbind socket", HF_STR("path", HF_RPCBIND_SOCKET),
               HF_STR("reason", hf_strerror(rv)));
}

/* rpcbind lists itself, too. */
static void add_rpcbind_itself(struct daemon *d, const struct hf_addr *addr)
{
    const struct hf_rpc_program *program = d->rpcbind_programs[0];

    for (size_t v = 0; v < program->n_versions; v++) {
        struct hf_rpcbind_service service = {program->number, program->versions[v].number,
                                             HF_TRANSPORT_TCP, *addr};
        (void)hf_rpcbind_server_add(d->rpcbind, &service);
        service.transport = HF_TRANSPORT_UDP;
        (void)hf_rpcbind_server_add(d->rpcbind, &service);
    }
}

static int serve_rpcbind(struct daemon *d)
{
    const struct hf_config_addresses *served = hf_config_served(&d->options->config);
    int rv = hf_rpcbind_server_new(&hf_alloc_heap, &d->rpcbind);

    if (rv < 0)
        return rv;
    d->rpcbind_programs[0] = hf_rpcbind_server_program(d->rpcbind);
    for (unsigned i = 0; i < served->n; i++) {
        struct hf_addr addr = served->list[i];

        addr.port = HF_RPCBIND_PORT;
        rv = hf_rpc_server_listen(d->server, &addr, d->rpcbind_programs, 1);
        if (rv == HF_EUNAVAIL && hf_addr_is_any(&addr))
            continue; /* as in listen_all() */
        if (rv < 0)
            return rv;
        add_rpcbind_itself(d, &addr);
    }
    for (size_t i = 0; i < d->n_services; i++) {
        rv = hf_rpcbind_server_add(d->rpcbind, &d->services[i]);
        if (rv < 0)
            return rv;
    }
    serve_rpcbind_locally(d);
    hf_log(HF_LOG_INFO, "serving rpcbind", HF_INT("port", HF_RPCBIND_PORT));
    return 0;
}

static int register_with_system(struct daemon *d)
{
    char path[64];
    int rv;

    (void)mkdir(HF_RUN_DIRECTORY, 0755);
    hf_format(path, sizeof(path), HF_RUN_DIRECTORY "/rpcbind-%u.lock", d->options->config.port);
    hf_rpcbind_share_join(&d->share, path);
    rv = hf_rpcbind_system_register(d->services, d->n_services, &d->hash_key, d->obstacle);
    if (rv < 0) {
        hf_log(HF_LOG_ERROR, "cannot register with rpcbind", HF_STR("reason", d->obstacle));
        hf_rpcbind_share_end(&d->share);
        return rv;
    }
    hf_rpcbind_watch_start(&d->watch, &d->loop, d->engine.client, &d->hash_key, d->services,
                           d->n_services, &d->share);
    hf_log(HF_LOG_INFO, "registered with the system's rpcbind", HF_UINT("services", d->n_services));
    return 0;
}

static int set_up_rpcbind(struct daemon *d)
{
    uint32_t mode = d->options->config.rpcbind_mode;
    bool automatic = mode == HF_RPCBIND_AUTO;
    int rv;

    if (automatic)
        mode = hf_rpcbind_system_present(&d->hash_key) ? HF_RPCBIND_SYSTEM : HF_RPCBIND_EMBEDDED;
    if (mode == HF_RPCBIND_NONE)
        return 0;
    if (mode == HF_RPCBIND_SYSTEM)
        return register_with_system(d);
    rv = serve_rpcbind(d);
    if (rv == HF_EDENIED && automatic) {
        hf_log(HF_LOG_WARN, "no rpcbind: clients will not find us",
               HF_STR("reason", "none is running, and port 111 needs root"),
               HF_STR("advice", "start rpcbind, or run as root"));
        return 0;
    }
    if (rv < 0) {
        hf_log(HF_LOG_ERROR, "cannot serve rpcbind", HF_INT("port", HF_RPCBIND_PORT),
               HF_STR("reason", hf_strerror(rv)),
               HF_STR("advice", "set rpcbind.mode to system or none"));
        hf_format(d->obstacle, sizeof(d->obstacle), "port %d (rpcbind): %s", HF_RPCBIND_PORT,
                  hf_strerror(rv));
    }
    return rv;
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

/* Closes in the reverse order of start(). */
static void shut_down(struct daemon *d)
{
    hf_systemd_stopping();
    hf_rpcbind_watch_stop(&d->watch);
    if (d->engine_open)
        hf_engine_stop(&d->engine);
    hf_administration_close(&d->administration);
    uv_close((uv_handle_t *)&d->sigterm, NULL);
    uv_close((uv_handle_t *)&d->sigint, NULL);
    uv_close((uv_handle_t *)&d->sighup, NULL);
    hf_systemd_close(&d->systemd);
    if (d->server)
        hf_rpc_server_close(d->server, NULL, NULL);
    d->server = NULL;
    uv_timer_start(&d->overdue, on_overdue, STOP_MS, 0);
    uv_unref((uv_handle_t *)&d->overdue);
}

static void on_stop_signal(uv_signal_t *handle, int number)
{
    hf_log(HF_LOG_INFO, "stopping", HF_STR("signal", number == SIGINT ? "SIGINT" : "SIGTERM"));
    shut_down(handle->data);
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
        hf_engine_reconfigure(&d->engine, config);
        access = access_of(config);
        hf_rpc_server_reconfigure(d->server, config->max_connections_per_host,
                                  config->max_calls_per_host, &access);
        hf_administration_reload(&d->administration);
        hf_log(HF_LOG_INFO, "configuration reloaded");
    }
    hf_rpcbind_watch_look(&d->watch);
    hf_systemd_ready("serving");
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

    if (rv < 0)
        return rv;
    rv = hf_confine_borrow_user(user);
    if (rv == 0)
        rv = hf_engine_open(&d->engine, &d->loop, &d->options->config, &d->hash_key);
    hf_confine_return_user(user);
    d->engine_open = rv == 0;
    if (rv < 0) {
        hf_format(d->obstacle, sizeof(d->obstacle), "the store: %s", hf_strerror(rv));
        d->hopeless = rv == HF_EFORMAT || rv == HF_EVERSION || rv == HF_EINVAL;
    }
    return rv;
}

/* Requests that make the core visit many objects end their connection's slice of the turn. */
static uint64_t core_work(void *ctx)
{
    return hf_core_work(((struct daemon *)ctx)->engine.service.core);
}

static int start(struct daemon *d)
{
    struct hf_rpc_server_config server = {
        .loop = &d->loop,
        .alloc = &hf_alloc_heap,
        .hash_key = d->hash_key,
        .max_connections = raise_file_limit(),
        .max_connections_per_host = d->options->config.max_connections_per_host,
        .max_calls_per_host = d->options->config.max_calls_per_host,
        .access = access_of(&d->options->config),
        .work = core_work,
        .work_ctx = d,
        .idle_ms = HF_RPC_IDLE_MS_DEFAULT,
        .stall_ms = HF_RPC_STALL_MS_DEFAULT,
        .timed = hf_administration_wanted(&d->options->config),
        .bind = d->options->config.cluster_addresses.n > 0 ? HF_BIND_ABSENT : HF_BIND_EXACTLY,
    };
    int rv = open_engine(d);

    if (rv < 0)
        return rv;
    d->programs[d->n_programs++] = &d->engine.nsm.program;
    /* On a host whose kernel serves locks, program 100021 belongs to the kernel. */
    if (d->options->config.programs == HF_PROGRAMS_ALL)
        d->programs[d->n_programs++] = &d->engine.nlm.program;
    rv = hf_rpc_server_new(&server, &d->server);
    if (rv == 0)
        rv = listen_all(d);
    if (rv == 0)
        rv = set_up_rpcbind(d);
    if (rv == 0 && server.timed)
        rv = hf_administration_open(&d->administration, &d->engine, d->server, &d->options->config);
    if (rv == 0)
        rv = hf_confinement_apply(&d->confinement, d->administration.socket,
                                  d->rpcbind ? HF_RPCBIND_SOCKET : NULL);
    if (rv < 0)
        return rv;
    (void)hf_log_start(); /* without a thread a slow reader of the log delays requests, no more */
    /* Notify clients only now that NLM serves: a Linux client silently gives up a reclaim that is
     * refused (docs/PROTOCOL-NOTES.md). */
    hf_rpc_client_attach(d->engine.client, d->server);
    for (unsigned i = d->options->config.cluster_addresses.n;
         i-- > 0;) /* the first is the last set */
        hf_rpc_client_set_source(d->engine.client, &d->options->config.cluster_addresses.list[i]);
    return hf_engine_start(&d->engine);
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

    if (!d || getrandom(&d->hash_key, sizeof(d->hash_key), 0) < 0 || uv_loop_init(&d->loop) < 0) {
        hf_log(HF_LOG_ERROR, "cannot start", HF_STR("reason", "no memory, entropy or event loop"));
        free(d);
        return EXIT_FAILURE;
    }
    d->options = options;
    (void)signal(
        SIGPIPE,
        SIG_IGN); /* a peer that closes its connection must not end the daemon (CVE-2004-1014) */
    watch(d, &d->sigterm, SIGTERM, on_stop_signal);
    watch(d, &d->sigint, SIGINT, on_stop_signal);
    watch(d, &d->sighup, SIGHUP, on_reload_signal);
    hf_systemd_init(&d->systemd, &d->loop);
    uv_timer_init(&d->loop, &d->overdue);

    rv = start(d);
    if (rv == 0) {
        hf_log(HF_LOG_INFO, "ready", HF_STR("version", HF_VERSION),
               HF_STR("name", options->config.name),
               HF_INT("state", hf_core_sm_stat(d->engine.service.core).state));
        hf_systemd_ready("serving");
    } else {
        shut_down(d);
        status = give_up_start(d, rv);
    }
    uv_run(&d->loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&d->overdue, NULL);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    uv_loop_close(&d->loop);
    if (d->engine_open)
        hf_engine_free(&d->engine);
    hf_rpcbind_server_del(d->rpcbind);
    free(d);
    if (rv == 0)
        hf_log(HF_LOG_INFO, "stopped");
    hf_log_stop();
    return status;
}
