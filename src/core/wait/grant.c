/*
 * GRANTED callbacks: one for each waiter that was granted its lock. There are three outcomes: the
 * client accepts the lock; the client does not want it; or no attempt is answered. In the last two
 * the lock goes to the next waiter.
 */
#include "base/programs.h"
#include "core/clients/clients.h"
#include "core/common/event.h"
#include "core/common/timer.h"
#include "core/internal.h"
#include "core/outcall/outcall.h"
#include "core/table/table.h"
#include "core/wait/private.h"

enum { OVERDUE_PART = 5 }; /* after a fifth of its time without an answer, the client may be dead */

static struct hf_waiter *waiter_of(struct hf_outcall *outcall)
{
    return hf_container_of(outcall, struct hf_waiter, outcall);
}

void hf_grant_fill(const struct hf_waiter *w, struct hf_outcall_attempt *out)
{
    const struct hf_client *client = w->owner->client;

    out->kind = HF_OUTCALL_GRANTED;
    out->client_id = client->id;
    out->host = client->name;
    out->to[0] = client->addr;
    out->n_to = 1;
    out->from = w->local;
    out->from.port = 0;
    out->transport = w->transport;
    out->prog = HF_PROGRAM_NLM;
    out->vers = w->version;
    out->proc = w->msg ? 10 : 5; /* the procedure numbers of GRANTED_MSG and GRANTED */
    out->fh = w->fh ? hf_bytes(w->fh, w->file->fh_len) : hf_file_fh(w->file);
    out->oh = hf_owner_oh(w->owner);
    out->svid = w->owner->svid;
    out->exclusive = w->exclusive;
    out->offset = w->offset;
    out->length = w->length;
    out->msg = w->msg;
    out->loaded = w->loaded;
}

static void start(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall,
                  struct hf_outcall_attempt *out)
{
    core->counters.callbacks_started++;
    hf_timer_arm(core, &outcall->timer, now.mono_ms + core->config.call_timeout_ms / OVERDUE_PART);
    hf_grant_fill(waiter_of(outcall), out);
}

static void overdue(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall)
{
    hf_probe_behind(core, now, waiter_of(outcall));
}

/* Ends the callback for good. If memory runs out while the lock is taken back, the client is called
 * again. */
static void end(struct hf_core *core, struct hf_now now, struct hf_waiter *waiter, bool accepted)
{
    if (hf_waiter_called(core, now, waiter, accepted) < 0)
        hf_outcall_pause(core, now, &waiter->outcall, now.mono_ms + core->config.call_timeout_ms);
}

/* Gives the lock to the next waiter. If the client is silent, callbacks for its other waiters would
 * fail, too, so these stop waiting. */
static void give_up(struct hf_core *core, struct hf_now now, struct hf_waiter *waiter, bool silent)
{
    struct hf_client *client = waiter->owner->client;
    struct hf_event *event;

    client->refs++;
    event = hf_client_event(core, HF_EVENT_GRANT_FAILED, client, waiter->outcall.attempts, 0,
                            waiter->outcall.error);
    if (event)
        hf_event_set_file(event, hf_file_fh(waiter->file));
    end(core, now, waiter, false);
    if (silent)
        hf_client_silent(core, now, client);
    hf_client_unref(core, client);
}

static void failed(struct hf_core *core, struct hf_now now, struct hf_waiter *waiter)
{
    struct hf_outcall *outcall = &waiter->outcall;

    core->counters.callbacks_failed++;
    if (outcall->attempts >= core->config.call_attempts) {
        give_up(core, now, waiter, true);
        return;
    }
    if (outcall->arrived == 0 && outcall->begun >= core->config.call_attempts) {
        /* No call can have reached the client (there is no route, say), so it does not know of the
         * lock, and others wait for that. The client asks again, and may then get its lock as an
         * answer. */
        give_up(core, now, waiter, false);
        return;
    }
    hf_outcall_pause(core, now, outcall, outcall->attempt_ms + core->config.call_timeout_ms);
    hf_probe_behind(core, now, waiter);
}

/*
 * True if the client's DENIED is believed. A client answers DENIED when it waits for no such lock.
 * If only one call can have reached the client, it does not want the lock. But if an earlier call
 * may have reached it, it may have taken the lock then, and only its answer was lost (Linux forgets
 * the wait when it takes the lock). Then the lock is in use, and giving it to another owner would
 * make two holders. So that DENIED is not believed; a client that does not want the lock after all
 * unlocks it.
 */
static bool is_believed(const struct hf_outcall *outcall)
{
    /* An answer that came after its own attempt timed out: `arrived` counts that attempt. */
    uint32_t itself = outcall->state == HF_OUTCALL_RUNNING ? 0 : 1;

    return outcall->arrived <= itself;
}

void hf_grant_answered(struct hf_core *core, struct hf_now now, struct hf_waiter *waiter,
                       bool accepted)
{
    if (!accepted && !is_believed(&waiter->outcall))
        accepted = true;
    waiter->owner->client->answered_ms = now.mono_ms;
    waiter->owner->client->last_seen_ms = now.wall_ms;
    if (accepted)
        core->counters.callbacks_accepted++;
    else
        core->counters.callbacks_denied++;
    end(core, now, waiter, accepted);
}

static void done(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall,
                 enum hf_outcall_outcome outcome)
{
    if (outcome == HF_OUTCALL_FAILED)
        failed(core, now, waiter_of(outcall));
    else
        hf_grant_answered(core, now, waiter_of(outcall), outcome == HF_OUTCALL_ACCEPTED);
}

static const struct hf_outcall_ops grant_ops = {HF_OUTCALL_GRANTS, start, done, overdue};

void hf_grant_begin(struct hf_core *core, struct hf_waiter *waiter, uint64_t seq)
{
    hf_outcall_begin(core, &waiter->outcall, &grant_ops, seq);
}

void hf_grant_resume(struct hf_core *core, struct hf_waiter *waiter)
{
    hf_grant_begin(core, waiter, 0);
    waiter->outcall.arrived = 1;
}

/* Calls again at the client's new address. As after a restart, the client may have taken the lock
 * at the first call. */
void hf_grants_follow(struct hf_core *core, struct hf_client *client)
{
    hf_list_foreach (node, &client->waiters) {
        struct hf_waiter *w = hf_list_entry(node, struct hf_waiter, in_client);

        core->table->work++;
        if (!w->granting || w->outcall.attempts == 0)
            continue;
        hf_grant_begin(core, w, w->outcall.seq);
        w->outcall.arrived = 1;
    }
    hf_outcall_end(core, &client->probe); /* nobody has to answer at the client's old address */
}

struct hf_waiter *hf_grant_find(const struct hf_core *core, uint64_t call_id)
{
    struct hf_outcall *outcall = hf_outcall_find(core, call_id);

    if (!outcall || outcall->ops != &grant_ops || outcall->attempts == 0)
        return NULL;
    return waiter_of(outcall);
}
