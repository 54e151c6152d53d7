/*
 * Verification of crash notices (SEC-04). A notice is one packet whose source address is its only
 * credential, and a forged one would release the locks of a client that is alive. So the status
 * monitor of that client is asked for its state number (SM_STAT), at the address we know:
 *   - it names the state that the notice claims: the client has restarted;
 *   - it names another state: the notice is ignored, counted and logged;
 *   - it cannot be asked (no answer in time, refused, not registered): the notice counts, because a
 *     client that is booting may have no monitor yet.
 *
 * A client is asked once at a time, and once a second at most, so that forged notices cannot be
 * used to flood it. What the client gets after its notice has arrived belongs to its new life and
 * stays, however long the verification takes (struct hf_lives).
 */
#include "base/programs.h"
#include "core/clients/clients.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/outcall/outcall.h"
#include "core/recovery/private.h"

enum {
    TIMEOUT_MS = 2000, /* sm-notify repeats its notice after this time */
    PAUSE_MS = 1000,   /* the pause between two questions to the same client */
    /* A state that the monitor has named within this time is not asked for again. */
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

static void start(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall,
                  struct hf_outcall_attempt *out)
{
    struct hf_client *client = client_of(outcall);

    verification_of(client)->asked_ms = now.mono_ms;
    out->kind = HF_OUTCALL_STAT;
    out->client_id = client->id;
    out->host = client->name;
    out->to[0] = client->addr;
    out->n_to = 1;
    out->from = client->m.local;
    out->transport = HF_TRANSPORT_TCP;
    out->prog = HF_PROGRAM_NSM;
    out->vers = 1;
    out->proc = SM_STAT_PROC;
    if (core->config.call_timeout_ms > TIMEOUT_MS)
        out->timeout_ms = TIMEOUT_MS;
}

/* Acts on the notice: the client has restarted, as it says. */
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

/* Decides about the notice. The reference that the verification holds goes when the decision has
 * been taken out. */
static void decide(struct hf_core *core, struct hf_now now, struct hf_client *client, bool believed)
{
    struct hf_verification *v = verification_of(client);
    uint64_t id = hf_outcall_cookie(core, &v->outcall);
    struct hf_ticket wait = {0};

    hf_outcall_end(core, &v->outcall);
    if (believed)
        believe(core, now, client, &wait);
    else if (v->began)
        hf_client_forget_state(core, now, client, v->claimed);
    if (wait.decision != 0)
        hf_pending_release_decides(client, &v->made, id);
    else
        hf_decision_made(core, &v->made, client, id, wait.seq);
}

/* Ends a question without an answer. If no question left this host, that says nothing about the
 * client; if it counted, a flood that uses up our files would make forged notices believed. */
static void done(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall,
                 enum hf_outcall_outcome outcome)
{
    (void)outcome;
    if (!outcall->tried)
        hf_outcall_pause(core, now, outcall, now.mono_ms + PAUSE_MS);
    else
        decide(core, now, client_of(outcall), true);
}

static const struct hf_outcall_ops verify_ops = {HF_OUTCALL_VERIFICATIONS, start, done, NULL};

/* True if the monitor's answer confirms the notice. A FREE_ALL of the recorded state is
 * contradicted as well: the client has not restarted since it got its locks. */
static bool confirms(const struct hf_client *client, int32_t state)
{
    return state == client->recovery->verification.claimed && state != client->m.state;
}

void hf_verify_answered(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall,
                        int32_t state)
{
    struct hf_client *client;
    struct hf_verification *v;
    bool believed;

    if (outcall->ops != &verify_ops)
        return;
    client = client_of(outcall);
    v = verification_of(client);
    believed = confirms(client, state);
    v->named = state;
    v->named_ms = now.mono_ms;
    if (!believed) {
        core->counters.notifies_in_refuted++;
        hf_client_event(core, HF_EVENT_NOTICE_REFUTED, client, v->claimed, state, 0);
    }
    decide(core, now, client, believed);
}

enum hf_verify_result hf_verify(struct hf_core *core, struct hf_now now, struct hf_client *client,
                                int32_t state, bool free_all, uint64_t *decision)
{
    const struct hf_pending_release *release = &hf_recovery_of(client)->release;
    struct hf_verification *v = verification_of(client);
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
        return HF_VERIFY_BUSY; /* the last decision about the client is about to be taken out */
    client->refs++;
    v->claimed = state;
    v->free_all = free_all;
    v->life = hf_client_restarts(core, client, state, free_all, &v->began);
    hf_outcall_begin(core, &v->outcall, &verify_ops, 0);
    if (v->asked_ms != 0)
        hf_outcall_pause(core, now, &v->outcall, v->asked_ms + PAUSE_MS);
    *decision = hf_outcall_cookie(core, &v->outcall);
    return HF_VERIFY_PENDING;
}

bool hf_verify_is_in_progress(const struct hf_client *client)
{
    return client->recovery->verification.outcall.state != HF_OUTCALL_IDLE;
}
