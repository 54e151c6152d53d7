#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/socket.h"
#include "base/text.h"
#include "daemon/daemon_private.h"

/* How many file descriptors are reserved for files other than connections. */
enum { FILES_KEPT_BACK = 256 };

_Static_assert(HF_RPCBIND_SERVICES_MAX >= 2 * 4 * HF_CONFIG_LISTEN_MAX,
               "room for each transport, each version of NSM and NLM, each address");
_Static_assert((int)HF_CONFIG_ALLOW_MAX == (int)HF_RPC_NETWORKS_MAX, "config.h and rpc/server.h");

/* ---- limits of the process ---- */

void hf_listening_raise_file_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* Returns how many connections fit into the limit of open files. */
static unsigned connections_that_fit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return HF_RPC_CONNECTIONS_DEFAULT;
    if (limit.rlim_cur <= 2 * (rlim_t)FILES_KEPT_BACK)
        return (unsigned)limit.rlim_cur / 2;
    if (limit.rlim_cur >= HF_RPC_CONNECTIONS_DEFAULT + FILES_KEPT_BACK)
        return HF_RPC_CONNECTIONS_DEFAULT;
    return (unsigned)limit.rlim_cur - FILES_KEPT_BACK;
}

/* ---- access ---- */

struct hf_rpc_access hf_listening_access(const struct hf_config *config)
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
 * Generalises an address before it is registered with rpcbind. Services on one host share their
 * port and one registration, because rpcbind holds one address for each program, version and
 * transport. So a service with addresses of its own is registered with the "any" address, once for
 * each family; rpcbind then answers with the address on which it was asked.
 */
static bool generalise(const struct hf_daemon *d, struct hf_addr *addr)
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

static void add_services(struct hf_daemon *d, struct hf_addr addr)
{
    if (!generalise(d, &addr))
        return;
    for (size_t p = 0; p < d->term->n_programs; p++) {
        for (size_t v = 0; v < d->term->programs[p]->n_versions; v++) {
            struct hf_rpcbind_service service = {
                .prog = d->term->programs[p]->number,
                .vers = d->term->programs[p]->versions[v].number,
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
    case HF_EUNAVAIL:
        return "not an address of this host; set server.listen";
    default:
        return "set server.listen to addresses this host has";
    }
}

static int listen_all(struct hf_daemon *d)
{
    const struct hf_config *config = &d->options->config;
    const struct hf_config_addresses *served = hf_config_served(config);
    unsigned listening = 0;

    for (unsigned i = 0; i < served->n; i++) {
        struct hf_addr addr = served->list[i];
        int rv;

        addr.port = (uint16_t)config->port;
        rv = hf_rpc_server_listen(d->term->server, &addr, d->term->programs, d->term->n_programs);
        /* The kernel has no IPv6: serve IPv4 alone. */
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
        if (!d->clustered)
            add_services(d, addr);
        listening++;
        hf_log(HF_LOG_INFO, "listening", HF_ADDR("address", &addr),
               HF_STR("transports", "udp,tcp"));
    }
    return listening > 0 ? 0 : HF_EUNAVAIL;
}

/* With standbys: lists the programs to be served, because they are registered before they are
 * served. */
void hf_listening_list_services(struct hf_daemon *d)
{
    const struct hf_config_addresses *served = hf_config_served(&d->options->config);

    for (unsigned i = 0; i < served->n; i++) {
        struct hf_addr addr = served->list[i];

        addr.port = (uint16_t)d->options->config.port;
        add_services(d, addr);
    }
}

/* Returns the counter of the core's work. A connection whose requests make the core visit many
 * objects gets a shorter slice of the turn. */
static uint64_t core_work(void *ctx)
{
    return hf_core_work(((struct hf_daemon *)ctx)->term->engine.service.core);
}

/* True if the operator says of a client that it may use this address together with others. */
static bool roams(void *ctx, const struct hf_addr *addr)
{
    const struct hf_config *config = &((const struct hf_daemon *)ctx)->options->config;

    for (unsigned i = 0; i < config->n_clients; i++) {
        const struct hf_config_client *client = &config->clients[i];

        for (unsigned k = 0; client->at_once && k < client->addresses.n; k++) {
            if (hf_network_contains(&client->addresses.list[k], addr))
                return true;
        }
    }
    return false;
}

int hf_listening_open(struct hf_daemon *d)
{
    struct hf_rpc_server_config server = {
        .loop = &d->loop,
        .alloc = &hf_alloc_heap,
        .hash_key = d->hash_key,
        .max_connections = connections_that_fit(),
        .max_connections_per_host = d->options->config.max_connections_per_host,
        .max_calls_per_host = d->options->config.max_calls_per_host,
        .access = hf_listening_access(&d->options->config),
        .work = core_work,
        .work_ctx = d,
        .roams = roams,
        .roams_ctx = d,
        .idle_ms = HF_RPC_IDLE_MS_DEFAULT,
        .stall_ms = HF_RPC_STALL_MS_DEFAULT,
        .busy_poll_ns = hf_daemon_busy_poll_ns(&d->options->config),
        .timed = hf_administration_wanted(&d->options->config),
        .gate = d->term->engine.gate,
        /*
         * No request is read until the epoch is durable (NSM-06). With standbys, however, clients
         * are told of a grace period while the locks are loaded (HA-05), if there will be a grace
         * period.
         */
        .held = !d->clustered || d->options->config.recovery_notify == HF_RECOVERY_NEEDED,
        .bind = d->options->config.cluster_addresses.n > 0 ? HF_BIND_ABSENT : HF_BIND_EXACTLY,
    };
    int rv = hf_rpc_server_new(&server, &d->term->server);

    if (rv < 0)
        return rv;
    d->term->server_open = true;
    return listen_all(d);
}

/* ---- rpcbind ---- */

/*
 * Serves rpcbind's Unix socket, which rpcinfo and rpcb_set() try first on the host itself. A socket
 * that a killed process left behind is replaced. If another process serves the socket, or if we may
 * not write there, programs use port 111 instead.
 */
static void serve_rpcbind_locally(struct hf_daemon *d)
{
    int rv = hf_rpc_server_listen_local(d->term->server, HF_RPCBIND_SOCKET,
                                        d->term->rpcbind_programs, 1);

    if (rv < 0)
        hf_log(HF_LOG_INFO, "no local rpcbind socket", HF_STR("path", HF_RPCBIND_SOCKET),
               HF_STR("reason", hf_strerror(rv)));
}

/* Lists rpcbind itself in the embedded rpcbind. */
static void add_rpcbind_itself(struct hf_daemon *d, const struct hf_addr *addr)
{
    const struct hf_rpc_program *program = d->term->rpcbind_programs[0];

    for (size_t v = 0; v < program->n_versions; v++) {
        struct hf_rpcbind_service service = {program->number, program->versions[v].number,
                                             HF_TRANSPORT_TCP, *addr};
        (void)hf_rpcbind_server_add(d->term->rpcbind, &service);
        service.transport = HF_TRANSPORT_UDP;
        (void)hf_rpcbind_server_add(d->term->rpcbind, &service);
    }
}

int hf_listening_serve_rpcbind(struct hf_daemon *d, bool locally)
{
    const struct hf_config_addresses *served = hf_config_served(&d->options->config);
    int rv = hf_rpcbind_server_new(&hf_alloc_heap, &d->term->rpcbind);

    if (rv < 0)
        return rv;
    d->term->rpcbind_programs[0] = hf_rpcbind_server_program(d->term->rpcbind);
    for (unsigned i = 0; i < served->n; i++) {
        struct hf_addr addr = served->list[i];

        addr.port = HF_RPCBIND_PORT;
        rv = hf_rpc_server_listen(d->term->server, &addr, d->term->rpcbind_programs, 1);
        if (rv == HF_EUNAVAIL && hf_addr_is_any(&addr))
            continue; /* an address family that the kernel lacks is skipped, as in listen_all() */
        if (rv < 0)
            return rv;
        add_rpcbind_itself(d, &addr);
    }
    for (size_t i = 0; i < d->n_services; i++) {
        rv = hf_rpcbind_server_add(d->term->rpcbind, &d->services[i]);
        if (rv < 0)
            return rv;
    }
    if (locally)
        serve_rpcbind_locally(d);
    hf_log(HF_LOG_INFO, "serving rpcbind", HF_INT("port", HF_RPCBIND_PORT));
    return 0;
}

static int register_with_system(struct hf_daemon *d)
{
    char path[64];
    int rv;

    rv = hf_rpc_client_new(&d->loop, &hf_alloc_heap, &d->hash_key, &d->rpcbind_client);
    if (rv < 0)
        return rv;
    (void)mkdir(HF_RUN_DIRECTORY, 0755);
    hf_format(path, sizeof(path), HF_RUN_DIRECTORY "/rpcbind-%u.lock", d->options->config.port);
    hf_rpcbind_share_join(&d->share, path);
    rv = hf_rpcbind_system_register(d->services, d->n_services, &d->hash_key, d->obstacle);
    if (rv < 0) {
        hf_log(HF_LOG_ERROR, "cannot register with rpcbind", HF_STR("reason", d->obstacle));
        hf_rpcbind_share_end(&d->share);
        return rv;
    }
    hf_rpcbind_watch_start(&d->watch, &d->loop, d->rpcbind_client, &d->hash_key, d->services,
                           d->n_services, &d->share);
    hf_log(HF_LOG_INFO, "registered with the system's rpcbind", HF_UINT("services", d->n_services));
    return 0;
}

int hf_listening_set_up_rpcbind(struct hf_daemon *d)
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
    if (d->clustered) {
        d->embeds_rpcbind = true;
        return 0;
    }
    rv = hf_listening_serve_rpcbind(d, true);
    if (rv == HF_EDENIED && automatic) {
        hf_log(HF_LOG_WARN, "no rpcbind: clients will not find us",
               HF_STR("reason", "none is running, and port 111 needs root"),
               HF_STR("advice", "start rpcbind, or run as root"));
        d->lacks_rpcbind = true;
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
