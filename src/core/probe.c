/*
 * Who waits, and is no longer there. A dead waiter costs the one behind it all attempts of a
 * callback; a row of dead ones must not cost that each, one after the other (SPEC section 3; a
 * third of a thousand would be an hour and more). So when a callback is not answered soon,
 * everybody who waits behind it is asked at the same time, by NLM NULL, whether they are there: at
 * the place, and in the way, that their own callback would go. Who answers nothing to call_attempts
 * of these is given up, as it would be if its turn had come; if it lives, it asks again and waits
 * anew.
 *
 * One attempt has three quarters of a callback's time, so that the probes are over before the
 * callback that made them necessary is given up: a row of dead waiters costs no more than its
 * first.
 *
 * No lock changes hands by a probe. One that was granted meanwhile is not taken away at once: its
 * GRANTED may have arrived, and only the answer be lost. It has one more attempt.
 */
#include "core/parts.h"

uint64_t hf_probe_timeout_ms(const struct hf_core *core)
{
    return core->config.call_timeout_ms * 3 / 4;
}

static struct hf_client *client_of(const struct hf_errand *errand)
{
    return hf_container_of(errand, struct hf_client, probe);
}

/* Who has answered something lately need not be asked: it has until then to die again. */
static bool answered_lately(const struct hf_core *core, struct hf_now now,
                            const struct hf_client *client)
{
    return client->answered_ms != 0 &&
           now.mono_ms <
               client->answered_ms + core->config.call_timeout_ms * core->config.call_attempts;
}

void hf_probe_behind(struct hf_core *core, struct hf_now now, const struct hf_waiter *waiter)
{
    hf_list_foreach (node, &waiter->file->crowd->waiters) {
        struct hf_waiter *w = hf_list_entry(node, struct hf_waiter, in_file);
        struct hf_client *client = w->owner->client;

        if (client != waiter->owner->client && client->probe.state == HF_ERRAND_IDLE &&
            hf_range_overlap(w->first, w->last, waiter->first, waiter->last) &&
            !answered_lately(core, now, client))
            hf_errand_begin(core, &client->probe, 0);
    }
}

void hf_probe_fill(const struct hf_errand *errand, struct hf_call *out)
{
    const struct hf_waiter *w =
        hf_list_first(&client_of(errand)->waiters, struct hf_waiter, in_client);

    HF_ASSERT(w);
    hf_waiter_fill(w, out);
    out->kind = HF_CALL_PROBE;
    out->proc = 0;
    out->msg = false;
}

void hf_probe_called(struct hf_core *core, struct hf_now now, struct hf_errand *errand,
                     bool answered)
{
    struct hf_client *client = client_of(errand);

    if (answered) {
        client->answered_ms = now.mono_ms;
        hf_errand_end(core, errand);
        return;
    }
    core->counters.probes_failed++;
    if (errand->attempts < core->config.call_attempts)
        hf_errand_pause(core, now, errand, errand->attempt_ms + hf_probe_timeout_ms(core));
    else
        hf_client_silent(core, now, client);
}

void hf_client_silent(struct hf_core *core, struct hf_now now, struct hf_client *client)
{
    int64_t n = 0;

    client->refs++;
    hf_errand_end(core, &client->probe);
    hf_list_foreach_safe (node, &client->waiters) {
        struct hf_waiter *w = hf_list_entry(node, struct hf_waiter, in_client);
        if (w->granting) {
            hf_errand_cut_short(core, &w->errand);
        } else {
            hf_waiter_remove(core, w);
            n++;
        }
    }
    if (n > 0)
        hf_event_add(core, HF_EVENT_WAITERS_DROPPED, client, 0, n, 0);
    hf_client_idle(core, now, client);
    hf_client_unref(core, client);
}
