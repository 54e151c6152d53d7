/* What the files of core/clients share with each other only. */
#ifndef HF_CORE_CLIENTS_PRIVATE_H
#define HF_CORE_CLIENTS_PRIVATE_H

#include "core/clients/clients.h"

int hf_client_add_alias(struct hf_core *core, struct hf_client *client, const struct hf_addr *addr);
void hf_client_drop_alias(struct hf_core *core, struct hf_alias *alias);

uint64_t hf_client_hash_addr(const struct hf_core *core, const struct hf_addr *addr);

/* Gives the alias another address. */
void hf_alias_set_addr(struct hf_core *core, struct hf_alias *alias, const struct hf_addr *addr);

/* Puts the client where look-ups by its address find it, and takes it out of there. */
void hf_client_place(struct hf_core *core, struct hf_client *client);
void hf_client_displace(struct hf_core *core, struct hf_client *client);

/* Links the client into the list of its vouch, if there is one for its name. */
void hf_client_join_vouched(struct hf_core *core, struct hf_client *client);

/* Saves the fields of the client that a failed commit must bring back; writes its record. */
int hf_client_save(struct hf_txn *txn, struct hf_client *client);
int hf_client_put_record(struct hf_txn *txn, struct hf_client *client);

/*
 * Returns the host of this address, made if it is unknown, with a reference. NULL: out of memory.
 */
struct hf_host *hf_host_get(struct hf_core *core, const struct hf_addr *addr);
void hf_host_unref(struct hf_core *core, struct hf_host *host);

/* Returns an address without its port: clients are hosts, whatever port they call from. */
static inline struct hf_addr hf_addr_host(const struct hf_addr *addr)
{
    struct hf_addr host = *addr;

    host.port = 0;
    return host;
}

/* Is called when the linger timer fires. */
void hf_client_linger_over(struct hf_core *core, struct hf_now now, struct hf_timer *timer);

#endif
