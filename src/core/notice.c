/*
 * Telling of restarts (NSM-07, NOT-01..03, SPEC section 2). Of ours: every registered client gets
 * SM_NOTIFY, a registration about ourselves its `status` callback. Of a monitored host's: every
 * SM_MON registration about it gets its `status` callback (NSM-05).
 */
#include "core/parts.h"

enum { PAUSE_MAX_MS = 120000 };

static struct hf_client *client_of(const struct hf_errand *errand)
{
    if (errand->role == HF_ERRAND_NOTICE)
        return hf_container_of(errand, struct hf_client, notice);
    return hf_container_of(errand, struct hf_client, told);
}

static void begin(struct hf_core *core, struct hf_client *client)
{
    hf_errand_begin(core, &client->notice, client->seq);
    client->notice_status = HF_NOTICE_PENDING;
}

void hf_notice_begin_all(struct hf_core *core)
{
    hf_list_foreach (node, &core->clients) {
        struct hf_client *client = hf_list_entry(node, struct hf_client, all);
        if (client->registered)
            begin(core, client);
    }
}

int hf_core_notify_again(struct hf_core *core, struct hf_now now, uint64_t client_id)
{
    struct hf_client *client;

    (void)now;
    if (client_id == 0) {
        hf_notice_begin_all(core);
        return 0;
    }
    client = hf_client_find_id(core, client_id);
    if (!client || !client->registered)
        return HF_ENOENT;
    begin(core, client);
    return 0;
}

void hf_told_begin(struct hf_core *core, struct hf_client *client, uint64_t seq)
{
    hf_errand_begin(core, &client->told, seq);
}

/* SM_NOTIFY to the host itself. */
static void fill_notify(const struct hf_core *core, const struct hf_client *client,
                        struct hf_call *out)
{
    struct hf_record_client record;

    hf_client_record(client, &record);
    out->kind = HF_CALL_NOTIFY;
    if (client->protocol == HF_PROTOCOL_NSM)
        out->from = (struct hf_addr){0}; /* how the one who asked talks to us; mostly loopback */
    out->host = client->name;
    memcpy(out->to, record.addrs, sizeof(out->to));
    out->n_to = record.n_addrs;
    out->prog = 100024;
    out->vers = 1;
    out->proc = 6;
    out->mon_name = core->config.server_name;
    out->mon_name_short = hf_name_short(core->config.server_name);
    out->state = hf_core_state(core);
}

/* Only ever to the address the registration came from (CVE-1999-0493). */
static void fill_status(const struct hf_core *core, const struct hf_client *client, bool of_us,
                        struct hf_call *out)
{
    out->kind = HF_CALL_STATUS;
    out->host = client->my_name;
    out->to[0] = client->callback_host;
    out->n_to = 1;
    out->prog = client->prog;
    out->vers = client->vers;
    out->proc = client->proc;
    out->mon_name = client->name;
    out->state = of_us ? hf_core_state(core) : client->m.state;
    memcpy(out->priv, client->m.priv, HF_PRIV_SIZE);
}

void hf_notice_fill(const struct hf_core *core, const struct hf_errand *errand, struct hf_call *out)
{
    const struct hf_client *client = client_of(errand);
    bool notice = errand->role == HF_ERRAND_NOTICE;

    out->client_id = client->id;
    out->from = client->m.local;
    out->transport = client->m.transport;
    if (notice && !client->monitors_us)
        fill_notify(core, client, out);
    else
        fill_status(core, client, notice, out);
}

/* When to try again; the pauses grow once the first attempts have failed. */
static uint64_t next_attempt_ms(const struct hf_core *core, const struct hf_errand *errand)
{
    uint64_t pause_ms = core->config.call_timeout_ms;

    for (uint32_t n = core->config.call_attempts; n <= errand->attempts && pause_ms < PAUSE_MAX_MS;
         n++)
        pause_ms *= 2;
    return errand->attempt_ms + (pause_ms < PAUSE_MAX_MS ? pause_ms : PAUSE_MAX_MS);
}

static void set_status(struct hf_errand *errand, enum hf_notice_status status)
{
    if (errand->role == HF_ERRAND_NOTICE)
        client_of(errand)->notice_status = status;
}

static void delivered(struct hf_core *core, struct hf_now now, struct hf_errand *errand)
{
    struct hf_client *client = client_of(errand);

    core->counters.notices_delivered++;
    set_status(errand, HF_NOTICE_DELIVERED);
    hf_event_add(core, HF_EVENT_NOTICE_DELIVERED, client, errand->attempts,
                 (int64_t)(now.mono_ms - errand->begun_ms), 0);
    hf_errand_end(core, errand);
    hf_client_idle(core, now, client);
}

static void failed(struct hf_core *core, struct hf_now now, struct hf_errand *errand)
{
    struct hf_client *client = client_of(errand);
    uint64_t at_ms = next_attempt_ms(core, errand);

    core->counters.notices_failed++;
    set_status(errand, HF_NOTICE_FAILING);
    hf_event_add(core, HF_EVENT_NOTICE_FAILED, client, errand->attempts,
                 (int64_t)(now.mono_ms - errand->begun_ms), errand->error);
    if (errand->attempts == core->config.call_attempts && errand->role == HF_ERRAND_NOTICE)
        hf_client_unreachable(core, now, client); /* NOT-03 */
    if (errand->attempts < core->config.call_attempts ||
        at_ms <= errand->begun_ms + core->config.retry_for_ms) {
        hf_errand_pause(core, now, errand, at_ms);
        return;
    }
    set_status(errand, HF_NOTICE_GIVEN_UP);
    hf_event_add(core, HF_EVENT_NOTICE_GIVEN_UP, client, errand->attempts,
                 (int64_t)(now.mono_ms - errand->begun_ms), errand->error);
    hf_errand_end(core, errand);
    hf_client_idle(core, now, client);
}

void hf_notice_called(struct hf_core *core, struct hf_now now, struct hf_errand *errand,
                      bool answered)
{
    if (answered)
        delivered(core, now, errand);
    else
        failed(core, now, errand);
}
