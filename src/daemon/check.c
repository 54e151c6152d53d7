#include "daemon/check.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "rpc/rpcbind.h"

enum { RPCBIND = 100000, NLM = 100021, NSM = 100024, NULL_PROCEDURE = 0 };

/* What a step looks for, and what helps where it is missing. */
struct step_kind {
    const char *name;
    const char *what;         /* "%s answers" must read well */
    const char *unreachable;  /* no answer at all */
    const char *unregistered; /* rpcbind knows no such program */
};

static const struct step_kind RPCBIND_STEP = {
    "rpcbind", "rpcbind",
    "start rpcbind on the client, and let port 111 (UDP and TCP) from this server pass its "
    "firewall",
    "start rpcbind on the client"};
static const struct step_kind NLM_STEP = {
    "nlm", "the lock manager (NLM)",
    "let the client's lock manager port pass its firewall; fix the port first (Linux: "
    "lockd.nlm_tcpport and lockd.nlm_udpport, or [lockd] port= and udp-port= in nfs.conf)",
    "the client has no NFSv3 mount with locks (nolock?), or its lockd is not running"};
static const struct step_kind NSM_STEP = {
    "nsm", "the status monitor (NSM)",
    "let the client's rpc.statd port pass its firewall; fix the port first ([statd] port= in "
    "nfs.conf)",
    "start rpc.statd on the client (systemctl start rpc-statd); until then it cannot be told that "
    "this server restarted, and its locks would be lost then"};
static const struct step_kind CALLBACK_STEP = {
    "callback", "the program that asked to be told",
    "let this program's port pass the firewall of its host",
    "the program that registered is gone; SM_UNMON it, or release this registration"};
#define UNREACHABLE_HERE                                                                         \
    "the client cannot reach us at this address; is it still an address of this host, and does " \
    "the firewall let port 111 and server.port pass?"
#define UNREGISTERED_HERE                                                                         \
    "our programs are not in this host's rpcbind: see rpcbind.mode, and restart holdfastd after " \
    "rpcbind was restarted"
static const struct step_kind REVERSE_NLM_STEP = {"reverse",
                                                  "our own lock manager, as the client finds it,",
                                                  UNREACHABLE_HERE, UNREGISTERED_HERE};
static const struct step_kind REVERSE_NSM_STEP = {"reverse",
                                                  "our own status monitor, as the client finds it,",
                                                  UNREACHABLE_HERE, UNREGISTERED_HERE};

struct probe {
    struct checking *checking;
    struct hf_admin_step *step;
    const struct step_kind *kind;
    struct hf_addr at;
};

struct checking {
    struct hf_checks *checks;
    struct hf_admin_check *check;
    struct hf_list link;
    unsigned outstanding;
    struct probe probes[HF_ADMIN_STEPS_MAX];
};

static void finish(struct checking *checking, int error)
{
    struct hf_admin_check *check = checking->check;

    hf_list_remove(&checking->link);
    checking->checks->n_running--;
    hf_free(&hf_alloc_heap, checking);
    check->done(check, error);
}

/* ---- in plain words ---- */

static void judge(struct probe *probe, int error)
{
    struct hf_admin_step *step = probe->step;
    char at[HF_ADDR_TEXT_MAX];
    const char *advice = "";

    hf_addr_format(&probe->at, at);
    step->ok = error == 0;
    switch (error) {
    case 0:
        hf_format(step->finding, sizeof(step->finding), "%s answers at %s", probe->kind->what, at);
        break;
    case HF_EUNREGISTERED:
        hf_format(step->finding, sizeof(step->finding), "%s is not registered at %s",
                  probe->kind->what, at);
        advice = probe->kind->unregistered;
        break;
    default:
        hf_format(step->finding, sizeof(step->finding), "%s does not answer at %s: %s",
                  probe->kind->what, at, hf_strerror(error));
        advice = probe->kind->unreachable;
    }
    hf_format(step->advice, sizeof(step->advice), "%s", advice);
}

/* ---- the calls ---- */

static void on_answer(void *ctx, const struct hf_rpc_response *response)
{
    struct probe *probe = ctx;

    probe->step->elapsed_ms = response->elapsed_ms;
    judge(probe, response->error);
    if (--probe->checking->outstanding == 0)
        finish(probe->checking, 0);
}

struct target {
    const struct step_kind *kind;
    struct hf_addr at;
    struct hf_addr from;
    uint32_t prog, vers;
    uint16_t port; /* 0: ask rpcbind */
};

static void begin(struct checking *checking, const struct target *target)
{
    struct hf_admin_check *check = checking->check;
    struct probe *probe = &checking->probes[check->n_steps];
    struct hf_rpc_request request = {
        .peer = target->at,
        .local = target->from,
        .path = HF_RPC_BY_TCP_OR_UDP,
        .prog = target->prog,
        .vers = target->vers,
        .proc = NULL_PROCEDURE,
        .timeout_ms = checking->checks->timeout_ms,
    };
    int rv;

    HF_ASSERT(check->n_steps < HF_ADMIN_STEPS_MAX);
    *probe = (struct probe){checking, &check->steps[check->n_steps++], target->kind, target->at};
    *probe->step = (struct hf_admin_step){.name = target->kind->name};
    request.peer.port = target->port;
    rv = hf_rpc_client_call(checking->checks->client, &request, on_answer, probe, NULL);
    if (rv < 0)
        judge(probe, rv);
    else
        checking->outstanding++;
}

static const struct hf_addr ANYWHERE = {0};

static void begin_nlm(struct checking *checking, const struct hf_record_client *r)
{
    begin(checking, &(struct target){&NLM_STEP, r->addrs[0], r->local, NLM, 4, 0});
    begin(checking, &(struct target){&NSM_STEP, r->addrs[0], r->local, NSM, 1, 0});
    if (r->local.family != HF_ADDR_NONE)
        begin(checking, &(struct target){&REVERSE_NLM_STEP, r->local, ANYWHERE, NLM, 4, 0});
}

/* Who asked is called from the address it talks to, mostly loopback; the host it asked about need
 * not be reachable from there (core/notice.c). */
static void begin_nsm(struct checking *checking, const struct hf_record_client *r)
{
    begin(checking,
          &(struct target){&CALLBACK_STEP, r->callback_host, r->local, r->prog, r->vers, 0});
    if (r->n_addrs > 0)
        begin(checking, &(struct target){&NSM_STEP, r->addrs[0], ANYWHERE, NSM, 1, 0});
    if (r->local.family != HF_ADDR_NONE)
        begin(checking, &(struct target){&REVERSE_NSM_STEP, r->local, ANYWHERE, NSM, 1, 0});
}

static void begin_all(struct checking *checking, const struct hf_view_client *client)
{
    const struct hf_record_client *r = &client->record;
    bool nsm = r->protocol == HF_PROTOCOL_NSM;
    struct hf_addr at = nsm ? r->callback_host : r->addrs[0];

    begin(checking, &(struct target){&RPCBIND_STEP, at, r->local, RPCBIND, 2, HF_RPCBIND_PORT});
    if (nsm)
        begin_nsm(checking, r);
    else
        begin_nlm(checking, r);
}

/* ---- life ---- */

void hf_checks_init(struct hf_checks *checks, struct hf_rpc_client *client, uint32_t timeout_ms)
{
    *checks = (struct hf_checks){.client = client, .timeout_ms = timeout_ms};
    hf_list_init(&checks->running);
}

int hf_checks_start(struct hf_checks *checks, const struct hf_view_client *client,
                    struct hf_admin_check *check)
{
    struct checking *checking;

    if (client->record.protocol == HF_PROTOCOL_NLM && client->record.n_addrs == 0)
        return HF_ENOENT;
    if (checks->n_running == HF_CHECKS_MAX)
        return HF_ELIMIT;
    checking = hf_calloc(&hf_alloc_heap, 1, sizeof(*checking));
    if (!checking)
        return HF_ENOMEM;
    checking->checks = checks;
    checking->check = check;
    check->n_steps = 0;
    begin_all(checking, client);
    if (checking->outstanding == 0) { /* not one call could be made */
        hf_free(&hf_alloc_heap, checking);
        return HF_ENOMEM;
    }
    hf_list_add_tail(&checks->running, &checking->link);
    checks->n_running++;
    return 0;
}

void hf_checks_stop(struct hf_checks *checks)
{
    hf_list_foreach_safe (node, &checks->running) {
        finish(hf_list_entry(node, struct checking, link), HF_ECANCELED);
    }
}
