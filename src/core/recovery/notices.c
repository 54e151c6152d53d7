/*
 * Notices of restarts (NSM-07, NOT-01..03, SPEC section 2). When we restart, every registered
 * client gets SM_NOTIFY, except that a registration about this server gets its `status` callback.
 * When a monitored host restarts, every SM_MON registration about it gets its `status` callback
 * (NSM-05).
 */
#include <string.h>

#include "base/programs.h"
#include "core/clients/clients.h"
#include "core/common/names.h"
#include "core/core.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/outcall/outcall.h"
#include "core/recovery/private.h"

enum { PAUSE_MAX_MS = 120000 };

/* Fills in an SM_NOTIFY to the client's host. */
static void fill_notify(const struct hf_core *core, const struct hf_client *client,
                        struct hf_outcall_attempt *out)
{
    const struct hf_vouch *vouch = hf_vouch_of(core, client->name, &client->addr);
    struct hf_record_client record;

    hf_client_record(client, &record);
    if (vouch && !vouch->at_once)
        record.n_addrs = 1; /* another host may have the client's former addresses by now */
    out->kind = HF_OUTCALL_NOTIFY;
    if (client->protocol == HF_PROTOCOL_NSM)
        /* The address of ours that a local monitor used is mostly loopback, which no other host
         * can reach. */
        out->from = (struct hf_addr){0};
    out->host = client->name;
    memcpy(out->to, record.addrs, sizeof(out->to));
    out->n_to = record.n_addrs;
    out->prog = HF_PROGRAM_NSM;
    out->vers = 1;
    out->proc = 6;
    out->mon_name = core->config.server_name;
    out->mon_name_short = hf_name_short(core->config.server_name);
    out->state = hf_epoch_state(core);
}

/* Fills in a `status` callback, which only ever goes to the address that registered
 * (CVE-1999-0493). */
static void fill_status(const struct hf_client *client, int32_t state,
                        struct hf_outcall_attempt *out)
{
    out->kind = HF_OUTCALL_STATUS;
    out->host = client->my_name;
    out->to[0] = client->callback_host;
    out->n_to = 1;
    out->prog = client->prog;
    out->vers = client->vers;
    out->proc = client->proc;
    out->mon_name = client->name;
    out->state = state;
    memcpy(out->priv, client->m.priv, HF_PRIV_SIZE);
}

static void fill_common(struct hf_core *core, const struct hf_client *client,
                        struct hf_outcall_attempt *out)
{
    core->counters.notices_started++;
    out->client_id = client->id;
    out->from = client->m.local;
    out->transport = client->m.transport;
}

/* Returns when to try the call again; pauses grow once call_attempts attempts have failed. */
static uint64_t next_attempt_ms(const struct hf_core *core, const struct hf_outcall *outcall)
{
    uint64_t pause_ms = core->config.call_timeout_ms;

    for (uint32_t n = core->config.call_attempts; n <= outcall->attempts && pause_ms < PAUSE_MAX_MS;
         n++)
        pause_ms *= 2;
    return outcall->attempt_ms + (pause_ms < PAUSE_MAX_MS ? pause_ms : PAUSE_MAX_MS);
}

/* Schedules the next attempt after a failed one; false: the call is given up. */
static bool try_again(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall)
{
    uint64_t at_ms = next_attempt_ms(core, outcall);

    if (outcall->attempts >= core->config.call_attempts &&
        at_ms > outcall->begun_ms + core->config.retry_for_ms)
        return false;
    hf_outcall_pause(core, now, outcall, at_ms);
    return true;
}

static void log_result(struct hf_core *core, struct hf_now now, enum hf_event_kind kind,
                       const struct hf_client *client, const struct hf_outcall *outcall)
{
    hf_client_event(core, kind, client, outcall->attempts,
                    (int64_t)(now.mono_ms - outcall->begun_ms),
                    kind == HF_EVENT_NOTICE_DELIVERED ? 0 : outcall->error);
}

static void end(struct hf_core *core, struct hf_now now, struct hf_client *client,
                struct hf_outcall *outcall)
{
    hf_outcall_end(core, outcall);
    hf_client_idle(core, now, client);
}

/*
 * Ends a registration that another host made about this server and that has not answered since our
 * start. Any host can make one in another host's name, so it ends when the first round of calls
 * fails (SEC-02) or, if memory runs out, when a later round fails.
 */
static void expire(struct hf_core *core, struct hf_now now, struct hf_client *client)
{
    struct hf_txn txn;

    if (!client->monitors_us || client->confirmed || client->host->is_local || !client->registered)
        return;
    hf_txn_begin(&txn, core, now, NULL);
    if (hf_client_unregister(&txn, client) < 0) {
        hf_txn_abort(&txn);
        return;
    }
    hf_client_event(core, HF_EVENT_CLIENT_UNREGISTERED, client, 0, 0, 0);
    hf_txn_commit(&txn);
}

/* --- notices of our restart --- */

static void notice_start(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall,
                         struct hf_outcall_attempt *out)
{
    const struct hf_client *client = hf_container_of(outcall, struct hf_client, notice);

    (void)now;
    fill_common(core, client, out);
    if (client->monitors_us)
        fill_status(client, hf_epoch_state(core), out);
    else
        fill_notify(core, client, out);
}

/*
 * Records that the client was told of our state number, because the next start may keep that
 * number. A host that was booted in between has forgotten the number: if it were told again, it
 * would free locks that its kernel has taken since. If memory runs out or the commit fails, the
 * client is told again nevertheless.
 */
static void remember_told(struct hf_core *core, struct hf_now now, struct hf_client *client)
{
    struct hf_txn txn;

    if (!core->config.continues &&
        (core->config.role != HF_ROLE_MONITOR || client->protocol != HF_PROTOCOL_NSM))
        return;
    hf_txn_begin(&txn, core, now, NULL);
    if (hf_client_told(&txn, client) < 0)
        hf_txn_abort(&txn);
    else
        hf_txn_commit(&txn);
}

/* Sets the status of a notice that operators see; only notices of our own restart have one. */
static void set_status(struct hf_client *client, const struct hf_outcall *outcall,
                       enum hf_notice_status status)
{
    if (outcall == &client->notice)
        client->notice_status = status;
}

/* Ends an attempt at a notice or a `status` callback: it was delivered, or it failed. */
static void call_done(struct hf_core *core, struct hf_now now, struct hf_client *client,
                      struct hf_outcall *outcall, enum hf_outcall_outcome outcome)
{
    bool is_ours = outcall == &client->notice;

    if (outcome != HF_OUTCALL_FAILED) {
        core->counters.notices_delivered++;
        client->confirmed = true;
        set_status(client, outcall, HF_NOTICE_DELIVERED);
        log_result(core, now, HF_EVENT_NOTICE_DELIVERED, client, outcall);
        if (is_ours)
            remember_told(core, now, client);
        end(core, now, client, outcall);
        return;
    }
    core->counters.notices_failed++;
    set_status(client, outcall, HF_NOTICE_FAILING);
    log_result(core, now, HF_EVENT_NOTICE_FAILED, client, outcall);
    if (is_ours && outcall->tried && outcall->attempts == core->config.call_attempts)
        hf_client_unreachable(core, now, client); /* NOT-03 */
    if (try_again(core, now, outcall))
        return;
    set_status(client, outcall, HF_NOTICE_GIVEN_UP);
    log_result(core, now, HF_EVENT_NOTICE_GIVEN_UP, client, outcall);
    end(core, now, client, outcall);
    expire(core, now, client);
}

static void notice_done(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall,
                        enum hf_outcall_outcome outcome)
{
    call_done(core, now, hf_container_of(outcall, struct hf_client, notice), outcall, outcome);
}

static const struct hf_outcall_ops notice_ops = {HF_OUTCALL_NOTICES, notice_start, notice_done,
                                                 NULL};

/* --- notices of the restart of a monitored host --- */

static void status_start(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall,
                         struct hf_outcall_attempt *out)
{
    const struct hf_client *client = hf_container_of(outcall, struct hf_client, status_call);

    (void)now;
    fill_common(core, client, out);
    fill_status(client, client->m.state, out);
}

static void status_done(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall,
                        enum hf_outcall_outcome outcome)
{
    call_done(core, now, hf_container_of(outcall, struct hf_client, status_call), outcall, outcome);
}

static const struct hf_outcall_ops status_ops = {HF_OUTCALL_NOTICES, status_start, status_done,
                                                 NULL};

void hf_notice_begin(struct hf_core *core, struct hf_client *client)
{
    hf_outcall_begin(core, &client->notice, &notice_ops, client->seq);
    client->notice_status = HF_NOTICE_PENDING;
}

void hf_notice_follow(struct hf_core *core, struct hf_client *client)
{
    if (client->notice_status != HF_NOTICE_NONE && client->notice_status != HF_NOTICE_DELIVERED)
        hf_notice_begin(core, client);
}

/*
 * True if the client must be told of this start. A registration is told of a state number that is
 * newer than the registration, or than the number it was last told of (NSM-07). A client that holds
 * locks here is also told at each start that does not continue.
 */
static bool is_to_be_told(const struct hf_core *core, const struct hf_client *client)
{
    return client->registered && (client->epoch < core->recovery->number_epoch ||
                                  (client->protocol == HF_PROTOCOL_NLM &&
                                   core->recovery->start.recovers != HF_RECOVERS_NOT));
}

void hf_notice_begin_all(struct hf_core *core, bool by_operator)
{
    hf_list_foreach (node, &core->clients->all) {
        struct hf_client *client = hf_list_entry(node, struct hf_client, all);
        if (is_to_be_told(core, client) ||
            (by_operator && client->registered && client->protocol == HF_PROTOCOL_NLM))
            hf_notice_begin(core, client);
    }
}

void hf_status_call_begin(struct hf_core *core, struct hf_client *client, uint64_t seq)
{
    hf_outcall_begin(core, &client->status_call, &status_ops, seq);
}
