#include "rpcbind/table.h"

#include <string.h>

#include "base/error.h"
#include "base/text.h"

struct hf_rpcbind_entry *hf_rpcbind_table_find(struct hf_rpcbind_table *table, uint32_t prog,
                                               uint32_t vers, const char *netid)
{
    for (size_t i = 0; i < table->n; i++) {
        struct hf_rpcbind_entry *e = &table->entries[i];

        if (e->prog == prog && e->vers == vers && strcmp(e->netid, netid) == 0)
            return e;
    }
    return NULL;
}

struct hf_rpcbind_entry *hf_rpcbind_table_find_nearest(struct hf_rpcbind_table *table,
                                                       uint32_t prog, uint32_t vers,
                                                       const char *netid)
{
    struct hf_rpcbind_entry *exact = hf_rpcbind_table_find(table, prog, vers, netid);

    if (exact)
        return exact;
    for (size_t i = 0; i < table->n; i++) {
        struct hf_rpcbind_entry *e = &table->entries[i];

        if (e->prog == prog && strcmp(e->netid, netid) == 0)
            return e;
    }
    return NULL;
}

static bool is_user(hf_rpcbind_owner owner)
{
    return owner != HF_RPCBIND_OWNER_SELF && owner != HF_RPCBIND_OWNER_ROOT;
}

bool hf_rpcbind_table_is_taken(const struct hf_rpcbind_table *table, uint32_t prog,
                               hf_rpcbind_owner owner)
{
    for (size_t i = 0; i < table->n; i++) {
        const struct hf_rpcbind_entry *e = &table->entries[i];

        if (e->prog == prog && e->owner != owner &&
            (is_user(owner) || e->owner == HF_RPCBIND_OWNER_SELF))
            return true;
    }
    return false;
}

static bool has_room(const struct hf_rpcbind_table *table, hf_rpcbind_owner owner)
{
    unsigned own = 0;
    unsigned users = 0;

    for (size_t i = 0; i < table->n; i++) {
        own += table->entries[i].owner == owner;
        users += is_user(table->entries[i].owner);
    }
    if (is_user(owner) && (own >= HF_RPCBIND_USER_MAX || users >= HF_RPCBIND_USERS_MAX))
        return false;
    return table->n < HF_RPCBIND_ENTRIES_MAX;
}

int hf_rpcbind_table_add(struct hf_rpcbind_table *table, uint32_t prog, uint32_t vers,
                         const char *netid, const char *uaddr, hf_rpcbind_owner owner)
{
    struct hf_rpcbind_entry *e;

    if (!has_room(table, owner))
        return HF_ELIMIT;
    e = &table->entries[table->n++];
    *e = (struct hf_rpcbind_entry){.prog = prog, .vers = vers, .owner = owner};
    hf_format(e->netid, sizeof(e->netid), "%s", netid);
    hf_format(e->uaddr, sizeof(e->uaddr), "%s", uaddr);
    return 0;
}

static bool may_remove(const struct hf_rpcbind_entry *e, hf_rpcbind_owner caller)
{
    return e->owner != HF_RPCBIND_OWNER_SELF &&
           (e->owner == caller || caller == HF_RPCBIND_OWNER_ROOT);
}

bool hf_rpcbind_table_remove(struct hf_rpcbind_table *table, uint32_t prog, uint32_t vers,
                             const char *netid, hf_rpcbind_owner caller)
{
    size_t before = table->n;
    size_t kept = 0;

    for (size_t i = 0; i < before; i++) {
        struct hf_rpcbind_entry *e = &table->entries[i];
        bool named = e->prog == prog && e->vers == vers &&
                     (netid[0] == '\0' || strcmp(e->netid, netid) == 0);

        if (!named || !may_remove(e, caller))
            table->entries[kept++] = *e;
    }
    table->n = kept;
    return kept < before;
}
