/* What the files of core/clients share with each other only. */
#ifndef HF_CORE_CLIENTS_PRIVATE_H
#define HF_CORE_CLIENTS_PRIVATE_H

#include "core/clients/clients.h"

int hf_client_add_alias(struct hf_core *core, struct hf_client *client, const struct hf_addr *addr);
void hf_client_drop_alias(struct hf_core *core, struct hf_alias *alias);

uint64_t hf_client_hash_addr(const struct hf_core *core, const struct hf_addr *addr);

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
