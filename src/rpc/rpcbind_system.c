#include <netconfig.h>
#include <rpc/rpc.h>
#include <rpc/rpcb_clnt.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <uv.h>

#include "base/error.h"
#include "base/text.h"
#include "proto/rpcbind.h"
#include "rpc/client.h"
#include "rpc/rpcbind.h"

/*
 * libtirpc sets and unsets (over rpcbind's local socket, where it knows us by our user); asking and
 * probing is done with our own client on a small loop, because that has a time limit we choose.
 */
enum { ASK_TIMEOUT_MS = 2000 };

const char *hf_rpcbind_netid(const struct hf_rpcbind_service *service)
{
    bool ipv6 = service->addr.family == HF_ADDR_IPV6;

    if (service->transport == HF_RPC_TCP)
        return ipv6 ? "tcp6" : "tcp";
    return ipv6 ? "udp6" : "udp";
}

/* ---- asking ---- */

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

/* One call on a loop of its own, from start to answer. */
static void ask(const struct hf_rpc_request *request, const struct hf_hash_key *key,
                struct answer *answer)
{
    struct hf_rpc_client *client;
    uv_loop_t loop;

    answer->error = HF_EUNAVAIL;
    if (uv_loop_init(&loop) < 0)
        return;
    if (hf_rpc_client_new(&loop, &hf_alloc_heap, key, &client) == 0) {
        if (hf_rpc_client_call(client, request, on_answer, answer, NULL) == 0) {
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
    struct hf_rpc_request request = {
        .peer = loopback(HF_ADDR_IPV4, HF_RPCBIND_PORT),
        .path = HF_RPC_BY_TCP,
        .prog = HF_RPCB_PROG,
        .vers = HF_PMAP_VERS,
        .timeout_ms = ASK_TIMEOUT_MS,
    };
    struct answer answer = {0};

    ask(&request, key, &answer);
    return answer.error == 0;
}

/* The port this program and version is registered at now; 0 if it is not. */
static uint16_t registered_port(const struct hf_rpcbind_service *service,
                                const struct hf_hash_key *key)
{
    hf_pmap map = {service->prog, service->vers,
                   service->transport == HF_RPC_TCP ? IPPROTO_TCP : IPPROTO_UDP, 0};
    struct hf_rpc_request request = {
        .peer = loopback(HF_ADDR_IPV4, HF_RPCBIND_PORT),
        .path = HF_RPC_BY_TCP,
        .prog = HF_RPCB_PROG,
        .vers = HF_PMAP_VERS,
        .proc = HF_PMAP_GETPORT,
        .timeout_ms = ASK_TIMEOUT_MS,
        .encode = (xdrproc_t)xdr_hf_pmap,
        .args = &map,
    };
    struct answer answer = {.wants_port = true};

    ask(&request, key, &answer);
    return answer.error == 0 ? (uint16_t)answer.port : 0;
}

/* True if somebody serves this program at the port: it answers a NULL call. */
static bool is_served(const struct hf_rpcbind_service *service, uint16_t port,
                      const struct hf_hash_key *key)
{
    struct hf_rpc_request request = {
        .peer = loopback(HF_ADDR_IPV4, port),
        .path = service->transport == HF_RPC_TCP ? HF_RPC_BY_TCP : HF_RPC_BY_UDP,
        .prog = service->prog,
        .vers = service->vers,
        .timeout_ms = ASK_TIMEOUT_MS,
    };
    struct answer answer = {0};

    ask(&request, key, &answer);
    return answer.error == 0;
}

/* ---- setting ---- */

static bool set(const struct hf_rpcbind_service *service)
{
    struct netconfig *config = getnetconfigent(hf_rpcbind_netid(service));
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
    struct netconfig *config = getnetconfigent(hf_rpcbind_netid(service));

    if (config) {
        rpcb_unset(service->prog, service->vers, config);
        freenetconfigent(config);
    }
}

/* Refuses where somebody else is alive behind a registration that we would have to replace. */
static int check_owner(const struct hf_rpcbind_service *service, const struct hf_hash_key *key,
                       char error[HF_RPCBIND_ERROR_MAX])
{
    uint16_t port = registered_port(service, key);

    /* Our own port, which we have just bound, means: left behind by our last run. */
    if (port == 0 || port == service->addr.port || !is_served(service, port, key))
        return 0;
    hf_format(
        error, HF_RPCBIND_ERROR_MAX,
        "program %u version %u is already served by another process, on %s port %u. %s",
        service->prog, service->vers, hf_rpcbind_netid(service), port,
        service->prog == 100021
            ? "If it is the kernel's lockd, unmount NFSv3 file systems and stop nfs-server; if it "
              "is NFS-Ganesha, set Enable_NLM = false and restart it"
            : "If it is rpc.statd, stop it (systemctl stop rpc-statd)");
    return HF_EBUSY;
}

int hf_rpcbind_system_register(const struct hf_rpcbind_service *services, size_t n,
                               const struct hf_hash_key *key, char error[HF_RPCBIND_ERROR_MAX])
{
    for (size_t i = 0; i < n; i++) {
        /* rpcbind keeps IPv4 and IPv6 apart, but one process owns both. */
        if (services[i].addr.family == HF_ADDR_IPV4 && check_owner(&services[i], key, error) < 0)
            return HF_EBUSY;
    }
    for (size_t i = 0; i < n; i++) {
        unset(&services[i]);
        if (!set(&services[i])) {
            hf_format(
                error, HF_RPCBIND_ERROR_MAX,
                "rpcbind refuses program %u version %u on %s. Is it running, and may this user "
                "register? (rpcinfo -p shows what it has; rpcbind.mode=none does without it)",
                services[i].prog, services[i].vers, hf_rpcbind_netid(&services[i]));
            hf_rpcbind_system_unregister(services, i);
            return HF_EDENIED;
        }
    }
    return 0;
}

void hf_rpcbind_system_unregister(const struct hf_rpcbind_service *services, size_t n)
{
    for (size_t i = 0; i < n; i++)
        unset(&services[i]);
}
