/*
 * Verification of crash notices (SEC-04). A notice is one packet whose source address is its only
 * credential, and a forged one would release the locks of a client that is alive. So the status
 * monitor of that client is asked for its state number (SM_STAT), at the address we know:
 *   - The monitor names the state that the notice claims: the client has restarted;
 *   - The monitor names another state: the notice is ignored, counted and logged;
 *   - The monitor does not answer (no answer in time, refused, not registered): the notice counts,
 *     because a client that is booting may have no monitor yet.
 *
 * A client that may come from several addresses (TRK-02) is asked where the notice came from, and
 * then, unless it is refuted there, at the address that it used last. A host that answers there
 * with a state that the client has had is the client, and has not restarted: the notice is about
 * another host of that name, or forged with the address and the state of any other host.
 *
 * A client is asked once at a time, and once a second at most, so that forged notices cannot be
 * used to flood the client. A notice about a host that is several clients (it uses several names,
 * transports or addresses of ours) makes us ask once for all of them, because its one packet may be
 * forged. What the client gets after its notice has arrived belongs to its new life and stays,
 * however long the verification takes (struct hf_lives).
 */
#include "base/programs.h"
#include "core/clients/clients.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/outcall/outcall.h"
#include "core/recovery/private.h"
#include "core/table/table.h"

enum {
    TIMEOUT_MS = 2000, /* sm-notify repeats a notice after this time */
    PAUSE_MS = 1000,   /* the pause between two questions to one client */
    /* For this time a state that the monitor has named is not asked for again. */
    RECENT_MS = 5000,
    SM_STAT_PROC = 1,
};

static struct hf_client *client_of(struct hf_outcall *outcall)
{
    return hf_container_of(outcall, struct hf_client_recovery, verification.outcall)->client;
}

static struct hf_verification *verification_of(struct hf_client *client)
{
    return &hf_recovery_of(client)->verification;
}

void hf_verify_ask(const struct hf_core *core, const struct hf_client *client,
                   const struct hf_addr *at, struct hf_outcall_attempt *out)
{
    out->kind = HF_OUTCALL_STAT;
    out->client_id = client->id;
    out->host = client->name;
    out->to[0] = *at;
    out->n_to = 1;
    out->from = client->m.local;
    out->transport = HF_TRANSPORT_TCP;
    out->prog = HF_PROGRAM_NSM;
    out->vers = 1;
    out->proc = SM_STAT_PROC;
    if (core->config.call_timeout_ms > TIMEOUT_MS)
        out->timeout_ms = TIMEOUT_MS;
}

static void start(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall,
                  struct hf_outcall_attempt *out)
{
    struct hf_client *client = client_of(outcall);
    struct hf_verification *v = verification_of(client);

    v->asked_ms = now.mono_ms;
    hf_verify_ask(core, client, v->from.family != HF_ADDR_NONE ? &v->from : &client->addr, out);
}

/* Acts on the crash notice: the client has restarted, as the notice says. */
static void believe(struct hf_core *core, struct hf_now now, struct hf_client *client,
                    struct hf_ticket *wait)
{
    const struct hf_verification *v = verification_of(client);

    if (v->free_all)
        (void)hf_client_release_before(core, now, client, v->life, wait);
    else
        (void)hf_client_crashed(core, now, client, v->claimed, v->life, wait);
    core->counters.notifies_in_accepted++;
}

/* What the client's status monitor has answered; `silent`: it gave no answer. */
struct verdict {
    bool silent;
    int32_t state;
};

/* True if the monitor's answer, or its silence, confirms the notice. An answer with the recorded
 * state contradicts a FREE_ALL, too: the client has not restarted since it got its locks. */
static bool confirms(const struct hf_client *client, const struct verdict *verdict)
{
    return verdict->silent || (verdict->state == client->recovery->verification.claimed &&
                               verdict->state != client->m.state);
}

/* Acts on the notice if the verdict confirms it; otherwise takes back the life that the notice
 * began. */
static void judge(struct hf_core *core, struct hf_now now, struct hf_client *client,
                  const struct verdict *verdict, struct hf_ticket *wait)
{
    struct hf_verification *v = verification_of(client);

    if (!verdict->silent) {
        v->named = verdict->state;
        v->named_ms = now.mono_ms;
    }
    if (confirms(client, verdict)) {
        believe(core, now, client, wait);
        return;
    }
    core->counters.notifies_in_refuted++;
    hf_client_event(core, HF_EVENT_NOTICE_REFUTED, client, v->claimed, verdict->state, 0);
    if (v->began)
        hf_client_forget_life(core, now, client, v->life);
}

/* Judges the notice for the clients at this address that have joined the question to `asked`. */
static void judge_joined_at(struct hf_core *core, struct hf_now now, const struct hf_client *asked,
                            const struct hf_addr *addr, const struct verdict *verdict)
{
    struct hf_alias *next;

    for (struct hf_alias *alias = hf_alias_find(core, addr); alias; alias = next) {
        struct hf_client *client = alias->client;
        struct hf_ticket wait = {0};

        core->table->work++;
        next = hf_alias_find_next(alias);
        if (verification_of(client)->joined != asked)
            continue;
        verification_of(client)->joined = NULL;
        judge(core, now, client, verdict, &wait);
        hf_client_unref(core, client);
    }
}

/* Judges the notice for all clients that have joined the question. They may have moved since, and
 * so may the client that was asked, but that one still has the address which they had in common
 * among its aliases (TRK-02). */
static void judge_joined(struct hf_core *core, struct hf_now now, const struct hf_client *asked,
                         const struct verdict *verdict)
{
    for (const struct hf_alias *alias = asked->aliases; alias; alias = alias->next)
        judge_joined_at(core, now, asked, &alias->addr, verdict);
}

/* Decides about the notice. The verification's reference to the client goes when the decision is
 * taken out. */
static void decide(struct hf_core *core, struct hf_now now, struct hf_client *client,
                   const struct verdict *verdict)
{
    struct hf_verification *v = verification_of(client);
    uint64_t id = hf_outcall_cookie(core, &v->outcall);
    struct hf_ticket wait = {0};

    hf_outcall_end(core, &v->outcall);
    judge_joined(core, now, client, verdict);
    judge(core, now, client, verdict, &wait);
    if (wait.decision != 0)
        hf_pending_release_decides(client, &v->made, id);
    else
        hf_decision_made(core, &v->made, client, id, wait.seq);
}

/* Asks at the client's own address next. */
static void ask_at_home(struct hf_core *core, struct hf_now now, struct hf_verification *v)
{
    v->from = (struct hf_addr){0};
    hf_outcall_pause(core, now, &v->outcall, now.mono_ms);
}

/* Ends a question that was not answered. If no packet of it left this host, that says nothing about
 * the client: counting it as silence would let a flood that uses up our files make forged notices
 * believed. */
static void done(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall,
                 enum hf_outcall_outcome outcome)
{
    struct hf_verification *v = verification_of(client_of(outcall));

    (void)outcome;
    if (outcall->tried && v->from.family != HF_ADDR_NONE) {
        /* The notice's source address is silent: the notice is forged if the client still answers
         * at its own address. */
        ask_at_home(core, now, v);
    } else if (!outcall->tried) {
        hf_outcall_pause(core, now, outcall, now.mono_ms + PAUSE_MS);
    } else {
        decide(core, now, client_of(outcall), &(struct verdict){.silent = true});
    }
}

static const struct hf_outcall_ops verify_ops = {HF_OUTCALL_VERIFICATIONS, start, done, NULL};

/* True if the client has had this state, as far as we know. */
static bool has_had(const struct hf_client *client, int32_t state)
{
    bool had = state == client->m.state || client->m.state == 0;

    for (unsigned i = 0; i < HF_CLIENT_LIVES; i++)
        had |= client->lives.states[i] == state;
    return had;
}

static void answered(struct hf_core *core, struct hf_now now, struct hf_client *client,
                     int32_t state)
{
    struct hf_verification *v = verification_of(client);
    struct verdict verdict = {.state = state};

    if (v->from.family != HF_ADDR_NONE && confirms(client, &verdict)) {
        v->elsewhere = true;
        ask_at_home(core, now, v);
        return;
    }
    /* Another host now has the address that the client has left. */
    verdict.silent = v->elsewhere && !has_had(client, state);
    decide(core, now, client, &verdict);
}

void hf_verify_answered(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall,
                        int32_t state)
{
    if (!hf_arrival_answered(core, now, outcall, state) && outcall->ops == &verify_ops)
        answered(core, now, client_of(outcall), state);
}

enum hf_verify_result hf_verify(struct hf_core *core, struct hf_now now, struct hf_client *client,
                                int32_t state, bool free_all, const struct hf_addr *from,
                                struct hf_client **asked, uint64_t *decision)
{
    const struct hf_pending_release *release = &hf_recovery_of(client)->release;
    struct hf_verification *v = verification_of(client);
    bool same_host = *asked && hf_addr_same_host(&(*asked)->addr, &client->addr);
    bool recent = v->named_ms != 0 && now.mono_ms < v->named_ms + RECENT_MS;

    if (!core->config.verify_notices || (recent && v->named == state && state != client->m.state))
        return HF_VERIFY_BELIEVED;
    if (v->outcall.state != HF_OUTCALL_IDLE) {
        if (v->claimed != state)
            return HF_VERIFY_BUSY;
        v->free_all = v->free_all && free_all;
        *decision = hf_outcall_cookie(core, &v->outcall);
        return HF_VERIFY_PENDING;
    }
    if (release->also == &v->made && v->claimed == state) {
        *decision = release->decision_id;
        return HF_VERIFY_PENDING;
    }
    if (release->also == &v->made || hf_list_linked(&v->made.link))
        return HF_VERIFY_BUSY; /* the last decision about this client has not been taken out yet */
    if (v->joined || (same_host && !hf_addr_same_host(&(*asked)->m.local, &client->m.local)))
        return HF_VERIFY_BUSY;
    client->refs++;
    v->claimed = state;
    v->free_all = free_all;
    v->life = hf_client_restarts(core, client, state, free_all, &v->began);
    v->joined = same_host ? *asked : NULL;
    if (v->joined)
        /* When the notice is repeated, it is decided for this client as well. */
        return HF_VERIFY_BUSY;
    *asked = client;
    v->elsewhere = false;
    v->from = (struct hf_addr){0};
    if (from && !hf_addr_same_host(from, &client->addr)) {
        v->from = *from;
        v->from.port = 0;
    }
    hf_outcall_begin(core, &v->outcall, &verify_ops, 0);
    if (v->asked_ms != 0)
        hf_outcall_pause(core, now, &v->outcall, v->asked_ms + PAUSE_MS);
    *decision = hf_outcall_cookie(core, &v->outcall);
    return HF_VERIFY_PENDING;
}

bool hf_verify_is_in_progress(const struct hf_client *client)
{
    const struct hf_verification *v = &client->recovery->verification;

    return v->joined || v->outcall.state != HF_OUTCALL_IDLE;
}
