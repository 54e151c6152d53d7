/*
 * Another host says that it has restarted (NSM-05). The notice counts if it gives a name by which
 * we know a client, and comes from an address of that client. Even that may be forged, so the
 * status monitor of an NLM client is asked before its locks are released (verify.c). An SM_MON
 * registration gets its `status` callback without that question, as from rpc.statd: nothing of ours
 * is released, and on an NFS client the notice is about a server, whose address may have moved to a
 * host with another state number.
 *
 * Real peers send each notice twice, with their long and their short name. The second notice finds
 * the state number recorded already, and changes nothing.
 */
#include "core/claims/claims.h"
#include "core/clients/clients.h"
#include "core/common/event.h"
#include "core/common/names.h"
#include "core/core.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/recovery/private.h"
#include "core/table/table.h"

/* True if the client may be at this address, by which it is known. */
static bool may_be_at(const struct hf_core *core, const struct hf_client *client,
                      const struct hf_addr *addr)
{
    return client->protocol != HF_PROTOCOL_NLM || hf_client_may_be_at(core, client, addr);
}

/*
 * True if the notice names the client as we know it, in the long or short form or by its address.
 */
static bool known_as(const struct hf_core *core, const struct hf_client *client,
                     struct hf_bytes name, const struct hf_addr *from)
{
    struct hf_addr addr;

    if (hf_name_same_host(client->name, name))
        return true;
    if (!may_be_at(core, client, from))
        return false; /* the address may be another host's by now */
    if (hf_name_is_addr(client->name, &addr) && hf_addr_same_host(&addr, from))
        return true; /* Linux monitors a host by its address: any name will do */
    return hf_name_is_addr(name, &addr) && hf_addr_same_host(&addr, from);
}

/* True if the local status monitor names the client exactly as it is registered, wherever the
 * client is. A short form could mean another host with the same short name (SEC-01). */
static bool named(const struct hf_client *client, struct hf_bytes name)
{
    struct hf_addr addr;

    return hf_name_equal(client->name, name) ||
           (hf_name_is_addr(name, &addr) && hf_addr_same_host(&addr, &client->addr));
}

/* True unless this is an SM_MON client whose registration has ended, which no longer counts. */
static bool counts(const struct hf_client *client)
{
    return client->registered || client->protocol == HF_PROTOCOL_NLM;
}

/* A notice, and how many clients it concerns: how many have that name, how many of them have
 * restarted, and for how many a verification must decide. */
struct notice {
    struct hf_bytes name;
    const struct hf_addr *from; /* NULL: the local status monitor sent the notice */
    int32_t state;
    bool proven;
    unsigned known, news, pending;
    struct hf_client *asked; /* the client whose host was asked last because of this notice */
    struct hf_notice_answer answer;
};

/* True if the sender has proved the notice and the client is at the sender's address. For a client
 * that may be elsewhere the proof means nothing (TRK-02). */
static bool is_proven(const struct hf_client *client, const struct notice *notice)
{
    return notice->proven && hf_addr_same_host(&client->addr, notice->from);
}

static void restarted(struct hf_core *core, struct hf_now now, struct hf_client *client,
                      struct notice *notice)
{
    bool began;
    uint32_t life = hf_client_restarts(core, client, notice->state, false, &began);

    if (hf_client_crashed(core, now, client, notice->state, life, &notice->answer.wait) < 0) {
        notice->answer.busy = true;
        return;
    }
    if (client->protocol == HF_PROTOCOL_NSM)
        hf_status_call_begin(core, client, notice->answer.wait.seq);
    notice->news++;
}

static void consider(struct hf_core *core, struct hf_now now, struct hf_client *client,
                     struct notice *notice)
{
    enum hf_verify_result result = HF_VERIFY_BELIEVED;

    notice->known++;
    if (client->m.state == notice->state) {
        /* A repeated notice waits for the batch of the first one. */
        notice->answer.wait.seq = hf_seq_later(notice->answer.wait.seq, client->seq);
        return;
    }
    if (hf_pending_release_is_in_progress(client) &&
        client->recovery->release.state == notice->state) {
        /* The answer waits for the release that the first notice began. */
        hf_pending_release_wait(core, client, &notice->answer.wait);
        return;
    }
    if (client->protocol == HF_PROTOCOL_NLM && !is_proven(client, notice))
        result = hf_verify(core, now, client, notice->state, false, notice->from, &notice->asked,
                           &notice->answer.wait.decision);
    if (result == HF_VERIFY_BELIEVED)
        restarted(core, now, client, notice);
    else
        notice->pending++;
    notice->answer.busy |= result == HF_VERIFY_BUSY;
}

/*
 * Considers one of the clients of a host that uses several of our addresses. An answer can wait for
 * one decision only: if more are needed, the notice is left unanswered, and its repeat needs fewer.
 */
static void consider_one_of_several(struct hf_core *core, struct hf_now now,
                                    struct hf_client *client, struct notice *notice)
{
    uint64_t before = notice->answer.wait.decision;

    consider(core, now, client, notice);
    notice->answer.busy |= before != 0 && notice->answer.wait.decision != before;
}

static void restart_by_address(struct hf_core *core, struct hf_now now, const struct hf_addr *from,
                               struct notice *notice)
{
    struct hf_alias *next;

    for (struct hf_alias *alias = hf_alias_find(core, from); alias; alias = next) {
        struct hf_client *client = alias->client;
        core->table->work++;
        next = hf_alias_find_next(alias); /* a client without registration may be deleted below */
        if (counts(client) && known_as(core, client, notice->name, from))
            consider_one_of_several(core, now, client, notice);
    }
}

/* A client that was booted may come back with another address, which its notice is the first to
 * tell of (TRK-02). */
static void restart_by_vouch(struct hf_core *core, struct hf_now now, const struct hf_addr *from,
                             struct notice *notice)
{
    for (unsigned i = 0; i < core->config.n_vouches; i++) {
        const struct hf_vouch *vouch = &core->config.vouches[i];
        struct hf_client *next;

        /* A short form of the name may also be that of other hosts (SEC-01). */
        if (!hf_name_equal(vouch->name, notice->name) || !hf_vouch_of(core, vouch->name, from))
            continue;
        for (struct hf_client *client = hf_vouched_next(core, vouch, NULL); client; client = next) {
            core->table->work++;
            next = hf_vouched_next(core, vouch, client);
            if (!hf_client_is_known_at(client, from))
                consider_one_of_several(core, now, client, notice);
        }
    }
}

static void restart_by_name(struct hf_core *core, struct hf_now now, struct notice *notice)
{
    hf_list_foreach_safe (node, &core->clients->all) {
        struct hf_client *client = hf_list_entry(node, struct hf_client, all);
        core->table->work++;
        if (counts(client) && named(client, notice->name))
            consider_one_of_several(core, now, client, notice);
    }
}

/* True if the notice makes sense: state 0 means unknown, and no state is negative. An even state
 * says that the host is going down. */
static bool is_valid(struct hf_core *core, struct hf_bytes name, int32_t state)
{
    if (state > 0 && name.len > 0 && name.len <= HF_NAME_MAX)
        return true;
    core->counters.notifies_in_bad++;
    return false;
}

/* Counts the notice, unless a verification will decide and count it. */
static struct hf_notice_answer count(struct hf_core *core, const struct notice *notice)
{
    if (notice->known == 0)
        core->counters.notifies_in_stranger++;
    else if (notice->news > 0)
        core->counters.notifies_in_accepted++;
    else if (notice->pending == 0)
        core->counters.notifies_in_repeated++;
    return notice->answer;
}

static void log_stranger(struct hf_core *core, const struct hf_addr *from,
                         const struct notice *notice)
{
    struct hf_event *event = hf_event_add(core, HF_EVENT_NOTIFY_STRANGER, notice->state, 0, 0);

    if (event)
        hf_event_set_host(event, from, notice->name);
}

struct hf_notice_answer hf_peer_notified(struct hf_core *core, struct hf_now now,
                                         const struct hf_addr *from, struct hf_bytes mon_name,
                                         int32_t state, bool proven)
{
    struct notice notice = {.name = mon_name, .from = from, .state = state, .proven = proven};

    if (!is_valid(core, mon_name, state))
        return notice.answer;
    hf_claims_departed(core, from); /* also drops the first request of a new client, if it waits */
    restart_by_address(core, now, from, &notice);
    restart_by_vouch(core, now, from, &notice);
    if (notice.known == 0)
        log_stranger(core, from, &notice);
    return count(core, &notice);
}

struct hf_notice_answer hf_peer_restarted(struct hf_core *core, struct hf_now now,
                                          struct hf_bytes mon_name, int32_t state)
{
    struct notice notice = {.name = mon_name, .state = state};

    if (!is_valid(core, mon_name, state))
        return notice.answer;
    restart_by_name(core, now, &notice);
    return count(core, &notice);
}
