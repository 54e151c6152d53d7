/* Declarations that only the files of core/clients share. */
#ifndef HF_CORE_CLIENTS_PRIVATE_H
#define HF_CORE_CLIENTS_PRIVATE_H

#include "core/clients/clients.h"

int hf_client_add_alias(struct hf_core *core, struct hf_client *client, const struct hf_addr *addr);
void hf_client_drop_alias(struct hf_core *core, struct hf_alias *alias);

uint64_t hf_client_hash_addr(const struct hf_core *core, const struct hf_addr *addr);

/* Changes the address of an alias. */
void hf_alias_set_addr(struct hf_core *core, struct hf_alias *alias, const struct hf_addr *addr);

/* hf_client_place() makes look-ups by the client's address find it, hf_client_displace() ends
 * that. */
void hf_client_place(struct hf_core *core, struct hf_client *client);
void hf_client_displace(struct hf_core *core, struct hf_client *client);

/* Links the client into the list of the vouch for its name, if there is one. */
void hf_client_join_vouched(struct hf_core *core, struct hf_client *client);

/* hf_client_save() saves the fields that a failed commit must restore; hf_client_put_record()
 * writes the client's record. */
int hf_client_save(struct hf_txn *txn, struct hf_client *client);
int hf_client_put_record(struct hf_txn *txn, struct hf_client *client);

/*
 * Returns, with a reference, the host object that counts for this address, and makes it if there is
 * none. NULL: no memory.
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

/* Called when the linger timer of a client fires. */
void hf_client_linger_over(struct hf_core *core, struct hf_now now, struct hf_timer *timer);

#endif
