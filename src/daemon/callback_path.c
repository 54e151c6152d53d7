#include "daemon/callback_path.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/programs.h"
#include "base/text.h"
#include "rpcbind/rpcbind.h"

enum { NULL_PROCEDURE = 0 };

/* One step of the path to a client, and advice for the operator if the step fails. */
struct step_kind {
    const char *name;
    const char *what;         /* names the program in the sentence "... answers" */
    const char *unreachable;  /* advice if the host does not answer at all */
    const char *unregistered; /* advice if the host's rpcbind does not know the program */
    /* advice if the host answers but no program listens (so no firewall is in the way) */
    const char *refused;
};

static const struct step_kind RPCBIND_STEP = {
    "rpcbind", "rpcbind",
    "start rpcbind on the client, and let port 111 (UDP and TCP) from this server pass its "
    "firewall",
    "start rpcbind on the client",
    "the host is up, but nothing listens on its port 111: start rpcbind there (systemctl start "
    "rpcbind)"};
static const struct step_kind NLM_STEP = {
    "nlm", "the lock manager (NLM)",
    "let the client's lock manager port pass its firewall; fix the port first (Linux: "
    "lockd.nlm_tcpport and lockd.nlm_udpport, or [lockd] port= and udp-port= in nfs.conf)",
    "the client has no NFSv3 mount with locks (nolock?), or its lockd is not running",
    "the host is up, but nothing listens where its lock manager should be: start rpcbind there, "
    "and "
    "mount NFSv3 with locks, which starts its lockd"};
static const struct step_kind NSM_STEP = {
    "nsm", "the status monitor (NSM)",
    "let the client's rpc.statd port pass its firewall; fix the port first ([statd] port= in "
    "nfs.conf)",
    "start rpc.statd on the client (systemctl start rpc-statd); until then this server cannot "
    "notify "
    "it of a restart, after which its locks would be lost",
    "the host is up, but nothing listens where its status monitor should be: start rpcbind and "
    "rpc.statd there (systemctl start rpcbind rpc-statd)"};
static const struct step_kind CALLBACK_STEP = {
    "callback", "the program that registered by SM_MON",
    "let this program's port pass the firewall of its host",
    "the program that registered is gone; SM_UNMON it, or release this registration",
    "nothing listens where the program that registered should be; SM_UNMON it, or release this "
    "registration"};
#define UNREACHABLE_HERE                                                                         \
    "the client cannot reach us at this address; is it still an address of this host, and does " \
    "the firewall let port 111 and server.port pass?"
#define UNREGISTERED_HERE                                                                         \
    "our programs are not in this host's rpcbind: see rpcbind.mode, and restart holdfastd after " \
    "rpcbind was restarted"
#define REFUSED_HERE                                                                           \
    "nothing listens at this address: is rpcbind running here (see rpcbind.mode), and is the " \
    "address one of server.listen?"
static const struct step_kind REVERSE_NLM_STEP = {
    "reverse", "our own lock manager, as the client finds it,", UNREACHABLE_HERE, UNREGISTERED_HERE,
    REFUSED_HERE};
static const struct step_kind REVERSE_NSM_STEP = {
    "reverse", "our own status monitor, as the client finds it,", UNREACHABLE_HERE,
    UNREGISTERED_HERE, REFUSED_HERE};

struct probe {
    struct checking *checking;
    struct hf_admin_step *step;
    const struct step_kind *kind;
    struct hf_addr at;
};

struct checking {
    struct hf_path_checks *checks;
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

/* ---- findings ---- */

/* Writes the finding of a step that has ended, and the advice for the operator. */
static void describe(struct probe *probe, int error)
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
        advice = error == HF_EREFUSED ? probe->kind->refused : probe->kind->unreachable;
    }
    hf_format(step->advice, sizeof(step->advice), "%s", advice);
}

/* ---- the calls ---- */

static void on_answer(void *ctx, const struct hf_rpc_response *response)
{
    struct probe *probe = ctx;

    probe->step->elapsed_ms = response->elapsed_ms;
    describe(probe, response->error);
    if (--probe->checking->outstanding == 0)
        finish(probe->checking, 0);
}

struct target {
    const struct step_kind *kind;
    struct hf_addr at;
    struct hf_addr from;
    uint32_t prog, vers;
    uint16_t port; /* the port to call; 0: ask rpcbind for it */
};

static void begin(struct checking *checking, const struct target *target)
{
    struct hf_admin_check *check = checking->check;
    struct probe *probe = &checking->probes[check->n_steps];
    struct hf_rpc_outcall_args rpc = {
        .peer = target->at,
        .local = target->from,
        .transport = HF_TRANSPORT_TCP,
        .udp_fallback = true,
        .prog = target->prog,
        .vers = target->vers,
        .proc = NULL_PROCEDURE,
        .timeout_ms = checking->checks->timeout_ms,
    };
    int rv;

    HF_ASSERT(check->n_steps < HF_ADMIN_STEPS_MAX);
    *probe = (struct probe){checking, &check->steps[check->n_steps++], target->kind, target->at};
    *probe->step = (struct hf_admin_step){
        .name = target->kind->name,
        .back = target->kind == &REVERSE_NLM_STEP || target->kind == &REVERSE_NSM_STEP,
    };
    rpc.peer.port = target->port;
    rv = hf_rpc_client_call(checking->checks->client, &rpc, on_answer, probe, NULL);
    if (rv < 0)
        describe(probe, rv);
    else
        checking->outstanding++;
}

static const struct hf_addr ANYWHERE = {0};

static void begin_nlm(struct checking *checking, const struct hf_record_client *r)
{
    begin(checking, &(struct target){&NLM_STEP, r->addrs[0], r->local, HF_PROGRAM_NLM, 4, 0});
    begin(checking, &(struct target){&NSM_STEP, r->addrs[0], r->local, HF_PROGRAM_NSM, 1, 0});
    if (r->local.family != HF_ADDR_NONE)
        begin(checking,
              &(struct target){&REVERSE_NLM_STEP, r->local, ANYWHERE, HF_PROGRAM_NLM, 4, 0});
}

/* Checks the path of an NSM registration. The program that registered is called from the address
 * that it used to talk to us, mostly loopback. The host that it monitors may not be reachable from
 * loopback, so that host is called from any address. */
static void begin_nsm(struct checking *checking, const struct hf_record_client *r)
{
    begin(checking,
          &(struct target){&CALLBACK_STEP, r->callback_host, r->local, r->prog, r->vers, 0});
    if (r->n_addrs > 0)
        begin(checking, &(struct target){&NSM_STEP, r->addrs[0], ANYWHERE, HF_PROGRAM_NSM, 1, 0});
    if (r->local.family != HF_ADDR_NONE)
        begin(checking,
              &(struct target){&REVERSE_NSM_STEP, r->local, ANYWHERE, HF_PROGRAM_NSM, 1, 0});
}

static void begin_all(struct checking *checking, const struct hf_view_client *client)
{
    const struct hf_record_client *r = &client->record;
    bool nsm = r->protocol == HF_PROTOCOL_NSM;
    struct hf_addr at = nsm ? r->callback_host : r->addrs[0];

    begin(checking,
          &(struct target){&RPCBIND_STEP, at, r->local, HF_PROGRAM_RPCBIND, 2, HF_RPCBIND_PORT});
    if (nsm)
        begin_nsm(checking, r);
    else
        begin_nlm(checking, r);
}

/* ---- start and end ---- */

void hf_path_checks_init(struct hf_path_checks *checks, struct hf_rpc_client *client,
                         uint32_t timeout_ms)
{
    *checks = (struct hf_path_checks){.client = client, .timeout_ms = timeout_ms};
    hf_list_init(&checks->running);
}

int hf_path_checks_start(struct hf_path_checks *checks, const struct hf_view_client *client,
                         struct hf_admin_check *check)
{
    struct checking *checking;

    if (client->record.protocol == HF_PROTOCOL_NLM && client->record.n_addrs == 0)
        return HF_ENOENT;
    if (checks->n_running == HF_PATH_CHECKS_MAX)
        return HF_ELIMIT;
    checking = hf_calloc(&hf_alloc_heap, 1, sizeof(*checking));
    if (!checking)
        return HF_ENOMEM;
    checking->checks = checks;
    checking->check = check;
    check->n_steps = 0;
    begin_all(checking, client);
    if (checking->outstanding == 0) { /* no call could be begun */
        hf_free(&hf_alloc_heap, checking);
        return HF_ENOMEM;
    }
    hf_list_add_tail(&checks->running, &checking->link);
    checks->n_running++;
    return 0;
}

void hf_path_checks_stop(struct hf_path_checks *checks)
{
    hf_list_foreach_safe (node, &checks->running) {
        finish(hf_list_entry(node, struct checking, link), HF_ECANCELED);
    }
}
