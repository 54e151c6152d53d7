/*
 * FREE_ALL (NLM-05): the client has restarted or shut down, and releases all it has. Only the
 * client's own locks go, by its name and address, whichever of our addresses they were taken at.
 * Unless FREE_ALL is proven to come from there, it is verified as a crash notice is (SEC-04).
 */
#include "core/claims/claims.h"
#include "core/clients/clients.h"
#include "core/common/names.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/recovery/recovery.h"
#include "core/requests/requests.h"
#include "core/table/table.h"

static void free_client(struct hf_core *core, struct hf_now now, struct hf_client *client,
                        int32_t state, struct hf_answer *answer)
{
    bool began;
    uint32_t life = hf_client_restarts(core, client, state, true, &began);

    if (hf_client_release_before(core, now, client, life, &answer->ticket) < 0)
        answer->stat = HF_STAT_DENIED_NOLOCKS;
}

/* True if the client has nothing, so that its monitor need not be asked; a repeated FREE_ALL finds
 * this. */
static bool has_nothing(const struct hf_client *client)
{
    return client->n_locks + client->n_shares + client->n_waiters == 0;
}

struct hf_answer hf_core_free_all(struct hf_core *core, struct hf_now now,
                                  const struct hf_peer *peer, int32_t state, bool proven)
{
    struct hf_answer answer = {HF_STAT_GRANTED};
    struct hf_client *asked = NULL;
    struct hf_alias *next;

    hf_claims_departed(core, &peer->addr);
    for (struct hf_alias *alias = hf_alias_find(core, &peer->addr); alias; alias = next) {
        struct hf_client *client = alias->client;
        enum hf_verify_result result = HF_VERIFY_BELIEVED;
        uint64_t decision = answer.ticket.decision;
        bool believed; /* a proof says nothing about a client that has left this address (TRK-02) */
        core->table->work++;
        next = hf_alias_find_next(alias); /* a client without registration may be deleted below */
        if (client->protocol != HF_PROTOCOL_NLM || !hf_name_equal(client->name, peer->name))
            continue;
        believed = proven && hf_addr_same_host(&client->addr, &peer->addr);
        /* The client has nothing left; the release of what it had must be durable. */
        if (!believed && has_nothing(client)) {
            answer.ticket.seq = hf_seq_later(answer.ticket.seq, client->seq);
            continue;
        }
        if (!believed)
            result = hf_verify(core, now, client, state, true, &peer->addr, &asked,
                               &answer.ticket.decision);
        if (result == HF_VERIFY_BELIEVED)
            free_client(core, now, client, state, &answer);
        else if (result == HF_VERIFY_BUSY)
            answer.stat = HF_STAT_DENIED_NOLOCKS;
        /* A host that uses several of our addresses is several clients, which may need several
         * decisions. The answer can wait for only one of these, so the host must repeat its
         * request. */
        if (decision != 0 && answer.ticket.decision != decision)
            answer.stat = HF_STAT_DENIED_NOLOCKS;
    }
    return hf_request_answer(core, now, answer);
}
