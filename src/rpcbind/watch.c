#include "rpcbind/watch.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/log.h"
#include "base/programs.h"
#include "base/text.h"
#include "proto/rpcbind.h"

enum {
    LOOK_MS = 3 * 1000,
    ASK_TIMEOUT_MS = 5 * 1000,
};

static void on_timer(uv_timer_t *timer)
{
    hf_rpcbind_watch_look(timer->data);
}

static void look_later(struct hf_rpcbind_watch *w)
{
    uint64_t pause_ms = w->again ? 0 : LOOK_MS;

    w->again = false;
    uv_timer_start(&w->timer, on_timer, pause_ms, 0);
}

/* ---- registering again, on a worker thread ---- */

static void register_program(struct hf_rpcbind_watch *w, struct hf_rpcbind_watched_program *program)
{
    struct hf_rpcbind_service lost[HF_RPCBIND_SERVICES_MAX];
    size_t n = 0;

    for (size_t i = 0; i < w->n_services; i++) {
        if (w->lost[i] && w->services[i].prog == program->number)
            lost[n++] = w->services[i];
    }
    program->result = n ? hf_rpcbind_system_register(lost, n, w->key, program->error) : 0;
    program->n = program->result == 0 ? n : 0;
}

/* Registers each program that rpcbind lacks. Each is tried separately: if rpc.statd has taken over
 * NSM, clients must still find NLM. */
static void register_lost(uv_work_t *work)
{
    struct hf_rpcbind_watch *w = work->data;

    for (size_t i = 0; i < w->n_programs; i++)
        register_program(w, &w->programs[i]);
}

static void set_health(struct hf_rpcbind_watch *w, enum hf_rpcbind_state state, const char *reason)
{
    w->health.state = state;
    hf_format(w->health.reason, sizeof(w->health.reason), "%s", reason);
}

/* Sets the state of the watch after registering, to the worst outcome of all programs. */
static void review(struct hf_rpcbind_watch *w)
{
    set_health(w, HF_RPCBIND_REGISTERED, "");
    for (size_t i = 0; i < w->n_programs; i++) {
        const struct hf_rpcbind_watched_program *program = &w->programs[i];

        if (program->result == HF_EBUSY)
            set_health(w, HF_RPCBIND_TAKEN, program->error);
        else if (program->result < 0 && w->health.state != HF_RPCBIND_TAKEN)
            set_health(w, HF_RPCBIND_REFUSED, program->error);
    }
}

/* Logs an error of a program once, until the error is over or changes. */
static void report_trouble(struct hf_rpcbind_watched_program *program)
{
    if (program->result == 0)
        program->logged[0] = '\0';
    if (program->result == 0 || strcmp(program->logged, program->error) == 0)
        return;
    memcpy(program->logged, program->error, sizeof(program->logged));
    if (program->result == HF_EBUSY)
        hf_log(HF_LOG_ERROR, "another process has registered our program with rpcbind",
               HF_STR("reason", program->error));
    else
        hf_log(HF_LOG_ERROR, "cannot register with rpcbind", HF_STR("reason", program->error));
}

/* Unregisters our programs, except those that another process has registered meanwhile: their
 * entries stay. */
static void unregister(const struct hf_rpcbind_watch *w)
{
    bool last = hf_rpcbind_share_leave(w->share);

    for (size_t i = 0; last && i < w->n_services; i++) {
        bool taken = false;

        for (size_t p = 0; p < w->n_programs; p++)
            taken |=
                w->programs[p].number == w->services[i].prog && w->programs[p].result == HF_EBUSY;
        if (!taken)
            hf_rpcbind_system_unregister(&w->services[i], 1);
    }
    hf_rpcbind_share_end(w->share);
}

static void on_registered(uv_work_t *work, int status)
{
    struct hf_rpcbind_watch *w = work->data;
    size_t n = 0;

    (void)status;
    w->working = false;
    if (w->stopping) {
        unregister(w);
        return;
    }
    for (size_t i = 0; i < w->n_programs; i++) {
        report_trouble(&w->programs[i]);
        n += w->programs[i].n;
    }
    review(w);
    if (n > 0)
        hf_log(HF_LOG_WARN, "registered with the system's rpcbind again", HF_UINT("services", n));
    look_later(w);
}

/* ---- looking at rpcbind's table ---- */

/* Marks each service of ours that this entry of rpcbind's table leads to as registered. */
static void mark_registered(struct hf_rpcbind_watch *w, const hf_rpcb *entry)
{
    struct hf_addr addr;

    if (hf_addr_parse_uaddr(entry->addr, &addr) < 0)
        return; /* skips an entry with the address of a local socket */
    for (size_t i = 0; i < w->n_services; i++) {
        const struct hf_rpcbind_service *s = &w->services[i];

        if (entry->prog == s->prog && entry->vers == s->vers && addr.port == s->addr.port &&
            strcmp(entry->netid, hf_rpcbind_netid_name(s->addr.family, s->transport)) == 0)
            w->lost[i] = false;
    }
}

/*
 * Reads the results of rpcbind's DUMP: a linked list in XDR, in which a TRUE precedes each entry.
 */
static int read_entries(struct hf_rpcbind_watch *w, XDR *results)
{
    char netid[HF_RPCB_MAXNETID + 1], addr[HF_RPCB_MAXADDR + 1], owner[HF_RPCB_MAXOWNER + 1];
    hf_rpcb entry = {.netid = netid, .addr = addr, .owner = owner};
    bool_t more;

    for (size_t i = 0; i < w->n_services; i++)
        w->lost[i] = true;
    while (xdr_bool(results, &more)) {
        if (!more)
            return 0;
        if (!xdr_hf_rpcb(results, &entry))
            break;
        mark_registered(w, &entry);
    }
    return HF_EFORMAT;
}

static void set_away(struct hf_rpcbind_watch *w, int error)
{
    static const char ADVICE[] = "rpcbind does not answer: new clients cannot find us. Start it "
                                 "(systemctl start rpcbind)";
    bool away = error < 0;

    if (away)
        set_health(w, HF_RPCBIND_AWAY, ADVICE);
    if (away && !w->away)
        hf_log(HF_LOG_WARN, "rpcbind does not answer: new clients cannot find us",
               HF_STR("reason", hf_strerror(error)), HF_STR("advice", "start rpcbind"));
    if (!away && w->away)
        hf_log(HF_LOG_INFO, "rpcbind answers again");
    w->away = away;
}

/* Ends a check of rpcbind's table: either it is known which services are missing, or rpcbind did
 * not answer. */
static void conclude(struct hf_rpcbind_watch *w, int error)
{
    bool any = false;

    set_away(w, error);
    for (size_t i = 0; i < w->n_services && error == 0; i++)
        any |= w->lost[i];
    for (size_t i = 0; i < w->n_programs && error == 0 && !any; i++) {
        w->programs[i].result = 0;
        w->programs[i].logged[0] = '\0';
    }
    if (error == 0 && !any)
        review(w);
    /* otherwise the outcome of the previous check remains valid */
    else if (error == 0 && !w->missing)
        set_health(w, HF_RPCBIND_LOST, "rpcbind has forgotten us; registering again");
    if (error == 0) {
        w->n_lost += any && !w->missing;
        w->missing = any;
    }
    w->working = any && uv_queue_work(w->loop, &w->work, register_lost, on_registered) == 0;
    if (!w->working)
        look_later(w);
}

/* ---- one question for each service, where the table is too large ---- */

static void ask_next(struct hf_rpcbind_watch *w);

/* True if the watch asks for this service by GETVERSADDR, which answers for the transport of the
 * question (RFC 1833). We ask by TCP, and assume the result for UDP, too. */
static bool is_asked_for(const struct hf_rpcbind_service *s)
{
    return s->transport == HF_TRANSPORT_TCP;
}

static bool names_port(const struct hf_rpcbind_service *s, XDR *results)
{
    char text[HF_RPCB_MAXADDR + 1];
    char *p = text;
    struct hf_addr addr;

    return xdr_hf_rpcb_addr(results, &p) && hf_addr_parse_uaddr(text, &addr) == 0 &&
           addr.port == s->addr.port;
}

static void on_port(void *ctx, const struct hf_rpc_response *response)
{
    struct hf_rpcbind_watch *w = ctx;
    const struct hf_rpcbind_service *s = &w->services[w->asked];

    w->call = NULL;
    if (response->error < 0 && s->addr.family != HF_ADDR_IPV6) {
        conclude(w, response->error);
        return;
    }
    /* An error counts as registered: an rpcbind that does not serve IPv6 cannot be asked for IPv6
     * services, and forgets them only together with all others. */
    w->lost[w->asked] = response->error == 0 && !names_port(s, response->results);
    w->asked++;
    ask_next(w);
}

static int ask_for(struct hf_rpcbind_watch *w, const struct hf_rpcbind_service *s)
{
    static char empty[] = "";
    bool ipv6 = s->addr.family == HF_ADDR_IPV6;
    hf_rpcb map = {s->prog, s->vers, empty, empty, empty};
    struct hf_rpc_outcall_args call_args = {
        .transport = HF_TRANSPORT_TCP,
        .prog = HF_PROGRAM_RPCBIND,
        .vers = HF_RPCB_VERS4,
        .proc = HF_RPCB4_GETVERSADDR,
        .timeout_ms = ASK_TIMEOUT_MS,
        .encode = xdr_hf_rpcb,
        .args = &map,
    };

    (void)hf_addr_parse(ipv6 ? "::1" : "127.0.0.1", &call_args.peer);
    call_args.peer.port = HF_RPCBIND_PORT;
    return hf_rpc_client_call(w->client, &call_args, on_port, w, &w->call);
}

static void adopt_fates(struct hf_rpcbind_watch *w)
{
    for (size_t i = 0; i < w->n_services; i++) {
        for (size_t j = 0; j < w->n_services && !is_asked_for(&w->services[i]); j++) {
            if (w->services[j].prog == w->services[i].prog &&
                w->services[j].vers == w->services[i].vers && is_asked_for(&w->services[j]) &&
                w->services[j].addr.family == w->services[i].addr.family)
                w->lost[i] = w->lost[j];
        }
    }
}

static void ask_next(struct hf_rpcbind_watch *w)
{
    while (w->asked < w->n_services && !is_asked_for(&w->services[w->asked]))
        w->asked++;
    if (w->asked == w->n_services) {
        adopt_fates(w);
        conclude(w, 0);
    } else if (ask_for(w, &w->services[w->asked]) < 0) {
        look_later(w);
    }
}

/* ---- the whole table ---- */

/* Takes the table that rpcbind sent. Any user can register entries that are longer than we accept,
 * or so many that the table is longer than a record may be. In that case the watch asks for each
 * service separately. */
static void on_entries(void *ctx, const struct hf_rpc_response *response)
{
    struct hf_rpcbind_watch *w = ctx;
    int error = response->error;

    w->call = NULL;
    if (error == 0)
        error = read_entries(w, response->results);
    if (error == HF_EFORMAT) {
        w->asked = 0;
        ask_next(w);
    } else {
        conclude(w, error);
    }
}

void hf_rpcbind_watch_look(struct hf_rpcbind_watch *w)
{
    struct hf_rpc_outcall_args call_args = {
        .transport = HF_TRANSPORT_TCP,
        .prog = HF_PROGRAM_RPCBIND,
        .vers = HF_RPCB_VERS4,
        .proc = HF_RPCB4_DUMP,
        .timeout_ms = ASK_TIMEOUT_MS,
    };

    if (!w->open)
        return;
    if (w->call || w->working) {
        w->again = true;
        return;
    }
    (void)hf_addr_parse("127.0.0.1", &call_args.peer);
    call_args.peer.port = HF_RPCBIND_PORT;
    if (hf_rpc_client_call(w->client, &call_args, on_entries, w, &w->call) < 0)
        look_later(w);
}

/* ---- start and end ---- */

static void add_program(struct hf_rpcbind_watch *w, uint32_t number)
{
    for (size_t i = 0; i < w->n_programs; i++) {
        if (w->programs[i].number == number)
            return;
    }
    HF_ASSERT(w->n_programs < HF_RPCBIND_PROGRAMS_MAX);
    w->programs[w->n_programs++].number = number;
}

void hf_rpcbind_watch_start(struct hf_rpcbind_watch *w, uv_loop_t *loop,
                            struct hf_rpc_client *client, const struct hf_hash_key *key,
                            const struct hf_rpcbind_service *services, size_t n,
                            struct hf_rpcbind_share *share)
{
    HF_ASSERT(n <= HF_RPCBIND_SERVICES_MAX);
    *w = (struct hf_rpcbind_watch){
        .loop = loop,
        .client = client,
        .key = key,
        .services = services,
        .n_services = n,
        .share = share,
        .open = true,
    };
    for (size_t i = 0; i < n; i++)
        add_program(w, services[i].prog);
    w->work.data = w;
    uv_timer_init(loop, &w->timer);
    w->timer.data = w;
    look_later(w);
}

void hf_rpcbind_watch_stop(struct hf_rpcbind_watch *w)
{
    if (!w->open)
        return;
    w->open = false;
    w->stopping = true;
    uv_close((uv_handle_t *)&w->timer, NULL);
    if (w->call)
        hf_rpc_client_cancel(w->call);
    w->call = NULL;
    if (w->working)
        /* cancelled or not, the work ends in on_registered(), which unregisters */
        (void)uv_cancel((uv_req_t *)&w->work);
    else if (!w->away) /* without an rpcbind, libtirpc would wait a minute for each service */
        unregister(w);
}
