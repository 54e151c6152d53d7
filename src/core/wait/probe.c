/*
 * Probes find out whether the client of a waiter is still alive. A dead waiter costs the waiter
 * behind it all attempts of a GRANTED callback. A row of dead waiters must not cost that for each,
 * one after the other (SPEC section 3): 300 dead waiters would take more than an hour. So when a
 * callback is not answered soon, the clients of all waiters behind it are called at the same time
 * with NLM NULL, at the address and by the transport of their own callbacks. A client that leaves
 * call_attempts probes unanswered is given up, as it would be if its turn had come; if it is alive
 * after all, it asks again and waits anew.
 *
 * One attempt has three quarters of a callback's time, so that the probes end before the callback
 * that caused them is given up: a row of dead waiters costs no more than its first.
 *
 * A probe never takes a lock away at once. A waiter that was granted meanwhile has one more attempt
 * of its callback, because its GRANTED may have arrived with only the answer lost.
 */
#include "core/clients/clients.h"
#include "core/common/range.h"
#include "core/internal.h"
#include "core/outcall/outcall.h"
#include "core/table/table.h"
#include "core/wait/private.h"

static uint64_t timeout_ms(const struct hf_core *core)
{
    return core->config.call_timeout_ms * 3 / 4;
}

static struct hf_client *client_of(struct hf_outcall *outcall)
{
    return hf_container_of(outcall, struct hf_client, probe);
}

static void start(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall,
                  struct hf_outcall_attempt *out)
{
    const struct hf_waiter *w =
        hf_list_first(&client_of(outcall)->waiters, struct hf_waiter, in_client);

    (void)now;
    HF_ASSERT(w);
    core->counters.probes_started++;
    hf_grant_fill(w, out);
    out->kind = HF_OUTCALL_PROBE;
    out->timeout_ms = timeout_ms(core);
    out->proc = 0;
    out->msg = false;
}

static void done(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall,
                 enum hf_outcall_outcome outcome)
{
    struct hf_client *client = client_of(outcall);

    if (outcome != HF_OUTCALL_FAILED) {
        client->answered_ms = now.mono_ms;
        hf_outcall_end(core, outcall);
        return;
    }
    core->counters.probes_failed++;
    if (outcall->attempts < core->config.call_attempts)
        hf_outcall_pause(core, now, outcall, outcall->attempt_ms + timeout_ms(core));
    else
        hf_client_silent(core, now, client);
}

static const struct hf_outcall_ops probe_ops = {HF_OUTCALL_PROBES, start, done, NULL};

/* True if the client answered a call within the time that all attempts of a callback take. */
static bool answered_lately(const struct hf_core *core, struct hf_now now,
                            const struct hf_client *client)
{
    return client->answered_ms != 0 &&
           now.mono_ms <
               client->answered_ms + core->config.call_timeout_ms * core->config.call_attempts;
}

void hf_probe_behind(struct hf_core *core, struct hf_now now, const struct hf_waiter *waiter)
{
    hf_list_foreach (node, &waiter->file->queue->waiters) {
        struct hf_waiter *w = hf_list_entry(node, struct hf_waiter, in_file);
        struct hf_client *client = w->owner->client;

        core->table->work++;
        /* Clients that answered lately are known to be alive. */
        if (client != waiter->owner->client && client->probe.state == HF_OUTCALL_IDLE &&
            hf_range_overlap(w->first, w->last, waiter->first, waiter->last) &&
            !answered_lately(core, now, client))
            hf_outcall_begin(core, &client->probe, &probe_ops, 0);
    }
}

void hf_client_silent(struct hf_core *core, struct hf_now now, struct hf_client *client)
{
    int64_t n = 0;

    client->refs++;
    hf_outcall_end(core, &client->probe);
    hf_list_foreach_safe (node, &client->waiters) {
        struct hf_waiter *w = hf_list_entry(node, struct hf_waiter, in_client);
        core->table->work++;
        if (w->granting) {
            hf_outcall_cut_short(core, &w->outcall);
        } else {
            hf_waiter_end(core, w, HF_END_SILENT);
            n++;
        }
    }
    if (n > 0)
        hf_client_event(core, HF_EVENT_WAITERS_DROPPED, client, 0, n, 0);
    hf_client_idle(core, now, client);
    hf_client_unref(core, client);
}
