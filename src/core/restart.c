/*
 * A host says that it has restarted (NSM-05). It is believed if it is a host we know, by a name it
 * is known by, and the notice comes from an address it is known by: SM_NOTIFY carries no proof, and
 * a spoofed one would free somebody's locks. Real peers send each notice twice, with their long and
 * their short name; the second finds the state number recorded already and changes nothing.
 */
#include "core/parts.h"

/* The host calls itself by our name for it, in the long or short form, or by its address. */
static bool known_as(const struct hf_client *client, struct hf_bytes name,
                     const struct hf_addr *from)
{
    struct hf_addr addr;

    if (hf_name_same_host(client->name, name))
        return true;
    if (hf_name_is_addr(client->name, &addr) && hf_addr_same_host(&addr, from))
        return true; /* monitored by address, as Linux does: any name will do */
    return hf_name_is_addr(name, &addr) && hf_addr_same_host(&addr, from);
}

/* On the word of the local status monitor: the name alone, or the address as text. */
static bool named(const struct hf_client *client, struct hf_bytes name)
{
    struct hf_addr addr;

    return hf_name_same_host(client->name, name) ||
           (hf_name_is_addr(name, &addr) && hf_addr_same_host(&addr, &client->addr));
}

/* Returns false if that is no news. */
static bool restarted(struct hf_core *core, struct hf_now now, struct hf_client *client,
                      int32_t state, uint64_t *seq)
{
    if (client->m.state == state) {
        *seq = *seq > client->seq ? *seq : client->seq; /* a repeat waits for what it repeats */
        return false;
    }
    hf_client_crashed(core, now, client, state, seq);
    if (client->protocol == HF_PROTOCOL_NSM)
        hf_told_begin(core, client, *seq);
    return true;
}

/* An SM_MON client whose registration is gone, or going, is nobody. */
static bool counts(const struct hf_client *client)
{
    return client->registered || client->protocol == HF_PROTOCOL_NLM;
}

struct tally {
    unsigned known, news;
    uint64_t seq;
};

static void tell(struct hf_core *core, struct hf_now now, struct hf_client *client, int32_t state,
                 struct tally *tally)
{
    tally->known++;
    tally->news += restarted(core, now, client, state, &tally->seq);
}

static void tell_at_address(struct hf_core *core, struct hf_now now, const struct hf_addr *from,
                            struct hf_bytes name, int32_t state, struct tally *tally)
{
    struct hf_alias *next;

    for (struct hf_alias *alias = hf_alias_find(core, from); alias; alias = next) {
        struct hf_client *client = alias->client;
        next = hf_alias_find_next(alias); /* a client without registration may go now */
        if (counts(client) && known_as(client, name, from))
            tell(core, now, client, state, tally);
    }
}

static void tell_by_name(struct hf_core *core, struct hf_now now, struct hf_bytes name,
                         int32_t state, struct tally *tally)
{
    hf_list_foreach_safe (node, &core->clients) {
        struct hf_client *client = hf_list_entry(node, struct hf_client, all);
        if (counts(client) && named(client, name))
            tell(core, now, client, state, tally);
    }
}

/* 0 is "unknown" and no host has a negative state; an even one is a host that is going down. */
static bool sane(struct hf_core *core, struct hf_bytes name, int32_t state)
{
    if (state > 0 && name.len > 0 && name.len <= HF_NAME_MAX)
        return true;
    core->counters.notifies_in_bad++;
    return false;
}

static uint64_t finish(struct hf_core *core, struct hf_now now, const struct tally *tally)
{
    if (tally->known == 0)
        core->counters.notifies_in_stranger++;
    else if (tally->news == 0)
        core->counters.notifies_in_repeated++;
    else
        core->counters.notifies_in_accepted++;
    hf_core_settle(core, now);
    return hf_core_answer_seq(core, tally->seq);
}

uint64_t hf_core_sm_notify(struct hf_core *core, struct hf_now now, const struct hf_addr *from,
                           struct hf_bytes mon_name, int32_t state)
{
    struct tally tally = {0};

    if (!sane(core, mon_name, state))
        return hf_core_answer_seq(core, 0);
    if (HF_PLANTED(NOTIFY_ANY_ADDRESS))
        tell_by_name(core, now, mon_name, state, &tally);
    else
        tell_at_address(core, now, from, mon_name, state, &tally);
    if (tally.known == 0)
        hf_event_add_stranger(core, from, mon_name, state);
    return finish(core, now, &tally);
}

uint64_t hf_core_host_restarted(struct hf_core *core, struct hf_now now, struct hf_bytes mon_name,
                                int32_t state)
{
    struct tally tally = {0};

    if (!sane(core, mon_name, state))
        return hf_core_answer_seq(core, 0);
    tell_by_name(core, now, mon_name, state, &tally);
    return finish(core, now, &tally);
}
