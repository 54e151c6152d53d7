/*
 * A request comes from an address that no client has, under a name for which the operator vouches
 * at that address (TRK-02, config.vouches). It may come from the client that was at another address
 * before. So the core asks the host at the old address by SM_STAT:
 *
 *   - If that host names the client's state (or we know no state of the client), or a request comes
 *     from there meanwhile, the client is still there: two hosts use one name, and count as two
 *     clients.
 *   - If it names another state, or does not answer, or no route leads to it any more, the client
 *     has moved, and takes along all that it has.
 *
 * Meanwhile the request is put off. If it were served at once, its sender would wait for its own
 * locks, and its UNLOCK would find nothing. Where the operator says that the client uses several
 * addresses at once, nobody is asked.
 */
#include "base/error.h"
#include "core/clients/clients.h"
#include "core/core.h"
#include "core/internal.h"
#include "core/outcall/outcall.h"
#include "core/recovery/private.h"
#include "core/wait/wait.h"

enum {
    /* How long an answer of the old address counts; within this time a request that was put off is
     * repeated. */
    RECENT_MS = 60000,
    /* The pause between two questions to one client: requests with forged addresses must not be
     * used to flood it (SEC-04). */
    PAUSE_MS = 1000,
};

static struct hf_client *client_of(struct hf_outcall *outcall)
{
    return hf_container_of(outcall, struct hf_client_recovery, arrival.outcall)->client;
}

static struct hf_arrival *arrival_of(struct hf_client *client)
{
    return &hf_recovery_of(client)->arrival;
}

static void start(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall,
                  struct hf_outcall_attempt *out)
{
    struct hf_client *client = client_of(outcall);

    arrival_of(client)->asked_ms = now.mono_ms;
    hf_verify_ask(core, client, &client->addr, out);
}

static void tell(struct hf_core *core, enum hf_event_kind kind, const struct hf_client *client,
                 const struct hf_addr *addr, int32_t state)
{
    struct hf_event *event = hf_client_event(core, kind, client, state, 0, 0);

    if (event)
        event->addr = *addr;
}

/* True if a client of its own has taken the new address meanwhile. */
static bool is_taken(const struct hf_core *core, const struct hf_client *client,
                     const struct hf_addr *addr)
{
    const struct hf_peer peer = {.name = client->name,
                                 .addr = *addr,
                                 .local = client->m.local,
                                 .transport = client->m.transport};

    return hf_client_find_nlm(core, &peer) != NULL;
}

/* Moves the client to its new address. If memory runs out, the client's next request tries
 * again. */
static void move(struct hf_core *core, struct hf_now now, struct hf_client *client,
                 const struct hf_addr *addr)
{
    if (is_taken(core, client, addr) || hf_client_move(core, now, client, addr, false) < 0)
        return;
    tell(core, HF_EVENT_CLIENT_MOVED, client, addr, 0);
    hf_notice_follow(core, client);
    hf_grants_follow(core, client);
}

/*
 * Decides whether the client has moved, and ends the question with the reference to the client that
 * it holds. A request that came from the old address meanwhile outweighs the answer: the host there
 * may have no monitor, or LOCKs of another state than the monitor's. Two hosts that counted as one
 * client would each be granted what the other holds, because they number their owners alike.
 */
static void decide(struct hf_core *core, struct hf_now now, struct hf_client *client, bool there,
                   int32_t state)
{
    struct hf_arrival *arrival = arrival_of(client);

    if (there || client->n_heard != arrival->heard) {
        arrival->decided_ms = now.mono_ms;
        tell(core, HF_EVENT_CLIENT_DOUBLED, client, &arrival->to, state);
    } else {
        move(core, now, client, &arrival->to);
    }
    hf_outcall_end(core, &arrival->outcall);
    hf_client_idle(core, now, client);
    hf_client_unref(core, client);
}

/*
 * True if the last attempts found no route to the old address. That is no fault of ours as others
 * are that keep a question from being sent: the request shows that our address and our network
 * work, and a host at the old address could not talk to us. To wait for the route would leave a
 * client whose other path broke without an answer.
 */
static bool has_no_route(const struct hf_core *core, const struct hf_outcall *outcall)
{
    return outcall->error == HF_EUNREACH && outcall->begun >= core->config.call_attempts;
}

static void done(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall,
                 enum hf_outcall_outcome outcome)
{
    (void)outcome;
    if (outcall->tried || has_no_route(core, outcall))
        decide(core, now, client_of(outcall), false, 0);
    else
        hf_outcall_pause(core, now, outcall, now.mono_ms + PAUSE_MS);
}

static const struct hf_outcall_ops arrival_ops = {HF_OUTCALL_VERIFICATIONS, start, done, NULL};

/* True if this may be the client's NSM state: the client has told us no other. */
static bool may_have(const struct hf_client *client, int32_t state)
{
    int32_t newest = client->lives.states[0];

    return state == newest || state == client->m.state || (newest == 0 && client->m.state == 0);
}

bool hf_arrival_answered(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall,
                         int32_t state)
{
    struct hf_client *client;

    if (outcall->ops != &arrival_ops)
        return false;
    client = client_of(outcall);
    decide(core, now, client, may_have(client, state), state);
    return true;
}

/* Begins to ask the client's old address whether the client is still there. Returns false if that
 * address has answered lately. */
static bool ask(struct hf_core *core, struct hf_now now, struct hf_client *client,
                const struct hf_addr *addr)
{
    struct hf_arrival *arrival = arrival_of(client);

    if (arrival->outcall.state != HF_OUTCALL_IDLE)
        return true;
    if (arrival->decided_ms != 0 && now.mono_ms < arrival->decided_ms + RECENT_MS &&
        hf_addr_same_host(&arrival->to, addr))
        return false;
    client->refs++;
    arrival->to = *addr;
    arrival->to.port = 0;
    arrival->heard = client->n_heard;
    hf_outcall_begin(core, &arrival->outcall, &arrival_ops, 0);
    if (arrival->asked_ms != 0)
        hf_outcall_pause(core, now, &arrival->outcall, arrival->asked_ms + PAUSE_MS);
    return true;
}

struct hf_client *hf_client_arrives(struct hf_core *core, struct hf_now now,
                                    const struct hf_peer *peer, bool *pending)
{
    struct hf_client *client = hf_client_find_moved(core, peer);
    bool known;

    if (!client)
        return NULL;
    if (!hf_vouch_of(core, peer->name, &peer->addr)->at_once) {
        *pending = ask(core, now, client, &peer->addr);
        return NULL;
    }
    known = hf_client_is_known_at(client, &peer->addr);
    if (hf_client_move(core, now, client, &peer->addr, true) < 0) {
        *pending = true;
        return NULL;
    }
    if (!known) {
        tell(core, HF_EVENT_CLIENT_MOVED, client, &peer->addr, 0);
        hf_notice_follow(core, client);
    }
    return client;
}
