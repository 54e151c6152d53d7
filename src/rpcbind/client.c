#include "rpcbind/client.h"

#include <netconfig.h>
#include <rpc/rpc.h>
#include <rpc/rpcb_clnt.h>
#include <string.h>
#include <sys/socket.h>
#include <uv.h>

#include "base/error.h"
#include "base/log.h"
#include "base/programs.h"
#include "base/text.h"
#include "proto/rpcbind.h"
#include "rpc/client.h"
#include "rpcbind/holder.h"

/* Registers and unregisters through libtirpc, because rpcbind identifies the user who calls over
 * its local socket. Questions to rpcbind go through our own RPC client, whose timeout we choose. */
enum { ASK_TIMEOUT_MS = 2000 };

static const char *netid_of(const struct hf_rpcbind_service *service)
{
    return hf_rpcbind_netid_name(service->addr.family, service->transport);
}

/* ---- questions ---- */

struct answer {
    int error;
    u_int port;
    bool wants_port;
};

static void on_answer(void *ctx, const struct hf_rpc_response *response)
{
    struct answer *answer = ctx;

    answer->error = response->error;
    if (answer->wants_port && response->error == 0 && !xdr_u_int(response->results, &answer->port))
        answer->error = HF_EFORMAT;
}

/* Makes one RPC call and waits for its answer, on an event loop of its own. */
static void ask(const struct hf_rpc_outcall_args *call_args, const struct hf_hash_key *key,
                struct answer *answer)
{
    struct hf_rpc_client *client;
    uv_loop_t loop;

    answer->error = HF_EUNAVAIL;
    if (uv_loop_init(&loop) < 0)
        return;
    if (hf_rpc_client_new(&loop, &hf_alloc_heap, key, &client) == 0) {
        if (hf_rpc_client_call(client, call_args, on_answer, answer, NULL) == 0) {
            while (hf_rpc_client_active(client) > 0)
                uv_run(&loop, UV_RUN_ONCE);
        }
        hf_rpc_client_close(client, NULL, NULL);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
}

static struct hf_addr loopback(uint8_t family, uint16_t port)
{
    struct hf_addr addr;

    (void)hf_addr_parse(family == HF_ADDR_IPV6 ? "::1" : "127.0.0.1", &addr);
    addr.port = port;
    return addr;
}

bool hf_rpcbind_system_present(const struct hf_hash_key *key)
{
    struct hf_rpc_outcall_args call_args = {
        .peer = loopback(HF_ADDR_IPV4, HF_RPCBIND_PORT),
        .transport = HF_TRANSPORT_TCP,
        .prog = HF_PROGRAM_RPCBIND,
        .vers = HF_PMAP_VERS,
        .timeout_ms = ASK_TIMEOUT_MS,
    };
    struct answer answer = {0};

    ask(&call_args, key, &answer);
    return answer.error == 0;
}

/* Returns the port that rpcbind has for this program, version and transport; 0 if it has none. */
static uint16_t registered_port(const struct hf_rpcbind_service *service,
                                const struct hf_hash_key *key)
{
    hf_pmap map = {service->prog, service->vers,
                   service->transport == HF_TRANSPORT_TCP ? IPPROTO_TCP : IPPROTO_UDP, 0};
    struct hf_rpc_outcall_args call_args = {
        .peer = loopback(HF_ADDR_IPV4, HF_RPCBIND_PORT),
        .transport = HF_TRANSPORT_TCP,
        .prog = HF_PROGRAM_RPCBIND,
        .vers = HF_PMAP_VERS,
        .proc = HF_PMAP_GETPORT,
        .timeout_ms = ASK_TIMEOUT_MS,
        .encode = xdr_hf_pmap,
        .args = &map,
    };
    struct answer answer = {.wants_port = true};

    ask(&call_args, key, &answer);
    return answer.error == 0 ? (uint16_t)answer.port : 0;
}

/* True if a process serves this program at the port, that is, if it answers a NULL call. */
static bool is_served(const struct hf_rpcbind_service *service, uint16_t port,
                      const struct hf_hash_key *key)
{
    struct hf_rpc_outcall_args call_args = {
        .peer = loopback(HF_ADDR_IPV4, port),
        .transport = service->transport,
        .prog = service->prog,
        .vers = service->vers,
        .timeout_ms = ASK_TIMEOUT_MS,
    };
    struct answer answer = {0};

    ask(&call_args, key, &answer);
    return answer.error == 0;
}

/* ---- registration ---- */

static bool set(const struct hf_rpcbind_service *service)
{
    struct netconfig *config = getnetconfigent(netid_of(service));
    struct sockaddr_storage sa;
    struct netbuf addr = {.buf = &sa};
    bool done;

    if (!config)
        return false;
    addr.len = addr.maxlen = hf_addr_to_sockaddr(&service->addr, &sa);
    done = rpcb_set(service->prog, service->vers, config, &addr);
    freenetconfigent(config);
    return done;
}

static void unset(const struct hf_rpcbind_service *service)
{
    struct netconfig *config = getnetconfigent(netid_of(service));

    if (config) {
        rpcb_unset(service->prog, service->vers, config);
        freenetconfigent(config);
    }
}

/* Returns HF_EBUSY if rpcbind has a registration that we would have to replace, and the process
 * that made it still serves the program and must be respected. */
static int check_owner(const struct hf_rpcbind_service *service, const struct hf_hash_key *key,
                       char error[HF_RPCBIND_ERROR_MAX])
{
    uint16_t port = registered_port(service, key);
    struct hf_rpcbind_holder holder;
    char by[256] = "";

    /* A registration for the port that we have just bound is a leftover of our previous run. */
    if (port == 0 || port == service->addr.port || !is_served(service, port, key))
        return 0;
    if (hf_rpcbind_holder_find(service, port, &holder)) {
        hf_format(by, sizeof(by), " (user %s, uid %u, process %d, %s)", holder.user, holder.uid,
                  holder.pid, holder.program[0] ? holder.program : "not known");
        if (!hf_rpcbind_holder_is_respected(&holder, service->prog)) {
            hf_log(HF_LOG_WARN, "a user had registered our program with rpcbind; taking it back",
                   HF_UINT("program", service->prog), HF_UINT("version", service->vers),
                   HF_UINT("port", port), HF_STR("user", holder.user), HF_UINT("uid", holder.uid),
                   HF_INT("pid", holder.pid), HF_STR("process", holder.program));
            return 0;
        }
    }
    hf_format(
        error, HF_RPCBIND_ERROR_MAX,
        "program %u version %u is already served by another process%s, on %s port %u. %s",
        service->prog, service->vers, by, netid_of(service), port,
        service->prog == HF_PROGRAM_NLM
            ? "New clients lock there, not here. If it is the kernel's lockd, unmount the NFSv3 "
              "file "
              "systems of this host (or mount them with nolock or vers=4) and stop nfs-server; if "
              "it is NFS-Ganesha, set Enable_NLM = false and restart it"
            : "If it is rpc.statd, stop it (systemctl stop rpc-statd)");
    return HF_EBUSY;
}

/*
 * Registers one service. rpcbind accepts a registration that it has already. If it refuses, it has
 * another address, left behind by a process that has ended, and that one is removed first. A
 * correct registration is never removed, not even for a moment, because another daemon may share
 * it.
 */
static bool register_one(const struct hf_rpcbind_service *service)
{
    if (set(service))
        return true;
    unset(service);
    return set(service);
}

int hf_rpcbind_system_register(const struct hf_rpcbind_service *services, size_t n,
                               const struct hf_hash_key *key, char error[HF_RPCBIND_ERROR_MAX])
{
    for (size_t i = 0; i < n; i++) {
        /* Check only the IPv4 entry: one process serves both IPv4 and IPv6. */
        if (services[i].addr.family == HF_ADDR_IPV4 && check_owner(&services[i], key, error) < 0)
            return HF_EBUSY;
    }
    for (size_t i = 0; i < n; i++) {
        if (!register_one(&services[i])) {
            hf_format(
                error, HF_RPCBIND_ERROR_MAX,
                "rpcbind refuses program %u version %u on %s. Is it running, and may this user "
                "register? If another user's program left it there, run as root: rpcinfo -d %u %u "
                "(rpcinfo -p shows what it has; rpcbind.mode=none does without it)",
                services[i].prog, services[i].vers, netid_of(&services[i]), services[i].prog,
                services[i].vers);
            hf_rpcbind_system_unregister(services, i);
            return HF_EDENIED;
        }
    }
    return 0;
}

void hf_rpcbind_system_unregister(const struct hf_rpcbind_service *services, size_t n)
{
    /* Remove TCP before UDP, the reverse of the order of registration, so that a client that
     * prefers UDP never finds TCP alone. */
    for (size_t i = n; i-- > 0;)
        unset(&services[i]);
}
