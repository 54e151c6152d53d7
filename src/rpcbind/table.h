/*
 * The table of services that the embedded rpcbind knows, and the rules for which of them a caller
 * may remove. Private to src/rpcbind.
 */
#ifndef HF_RPCBIND_TABLE_H
#define HF_RPCBIND_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/rpcbind.h"

enum {
    HF_RPCBIND_ENTRIES_MAX = 256,
    HF_RPCBIND_USER_MAX = 32, /* how many entries one user other than root may have */
    /* How many entries all users other than root may have together: the rest is for root and for
     * the daemon. */
    HF_RPCBIND_USERS_MAX = 128,
};

/* The owner of an entry: the id of the user who registered it, or SELF, which is no user's id, for
 * entries that the daemon itself added. */
typedef uint32_t hf_rpcbind_owner;

#define HF_RPCBIND_OWNER_ROOT ((hf_rpcbind_owner)0)
#define HF_RPCBIND_OWNER_SELF ((hf_rpcbind_owner)UINT32_MAX)

struct hf_rpcbind_entry {
    uint32_t prog;
    uint32_t vers;
    char netid[HF_RPCB_MAXNETID + 1];
    char uaddr[HF_RPCB_MAXADDR + 1];
    hf_rpcbind_owner owner;
};

struct hf_rpcbind_table {
    struct hf_rpcbind_entry entries[HF_RPCBIND_ENTRIES_MAX];
    size_t n;
};

/* Returns the entry for exactly this version on this transport, or NULL. */
struct hf_rpcbind_entry *hf_rpcbind_table_find(struct hf_rpcbind_table *table, uint32_t prog,
                                               uint32_t vers, const char *netid);

/* Returns the entry for this version or else for any version of the program on this transport (RFC
 * 1833, section 2.2.1). */
struct hf_rpcbind_entry *hf_rpcbind_table_find_nearest(struct hf_rpcbind_table *table,
                                                       uint32_t prog, uint32_t vers,
                                                       const char *netid);

/* True if any version of the program has an entry of another owner that this owner must respect:
 * the daemon or, where this owner is not root, any other user. */
bool hf_rpcbind_table_is_taken(const struct hf_rpcbind_table *table, uint32_t prog,
                               hf_rpcbind_owner owner);

/* Adds an entry. Returns HF_ELIMIT when the table is full, or when the owner has as many entries as
 * it may have. */
int hf_rpcbind_table_add(struct hf_rpcbind_table *table, uint32_t prog, uint32_t vers,
                         const char *netid, const char *uaddr, hf_rpcbind_owner owner);

/* Removes a version's entry on one transport, or on all (netid empty): a user can remove his own
 * entries, root those of all users. True if an entry was removed. */
bool hf_rpcbind_table_remove(struct hf_rpcbind_table *table, uint32_t prog, uint32_t vers,
                             const char *netid, hf_rpcbind_owner caller);

#endif
