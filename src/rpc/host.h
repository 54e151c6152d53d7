/* The peers by account (base/trust.h), that is, remote hosts by address and users of this host by
 * user id. A record counts how much of the server its host uses, so that no host can take what
 * others need (SEC-02). A record exists while its host has a connection, a request in progress or
 * an entry in the duplicate request cache. It also stays until the end of the turn of the loop in
 * which it was last used, because what the host has cost in this turn must count. So the limits on
 * connections, requests and entries also bound the number of records. */
#ifndef HF_RPC_HOST_H
#define HF_RPC_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/map.h"
#include "rpc/dupcache.h"

struct hf_rpc_host {
    struct hf_map_node node;
    /* Links the record into hosts->spare while no host has it, or into hosts->unused until the end
     * of the turn. */
    struct hf_list spare;
    struct hf_addr addr;
    bool exempt; /* quotas do not apply: this is the account of root of our own host */
    unsigned n_conns;
    /* the host's connections; the one that has been silent longest comes first */
    struct hf_list conns;
    unsigned n_calls;
    size_t unread; /* how many bytes of answers the host has not read yet */
    struct hf_dup_host dups;
    uint64_t turn; /* the last turn of the loop in which the host used the server */
    /* what the host's connections used in its last turn of the loop, in simple requests */
    unsigned spent;
    /* how many nodes of the core's tables were visited in the host's last turn for its datagrams */
    uint64_t nodes;
};

struct hf_rpc_hosts {
    struct hf_map map;
    struct hf_list spare;
    struct hf_list unused; /* records that may be freed at the end of the turn */
    /* The record that was found last: datagrams of one host often come in a row. */
    struct hf_rpc_host *last;
    struct hf_hash_key key;
    const struct hf_alloc *alloc;
    /* True for an address that a client may use together with others (TRK-02); NULL: none is. */
    bool (*roams)(void *ctx, const struct hf_addr *addr);
    void *ctx;
};

int hf_rpc_hosts_init(struct hf_rpc_hosts *hosts, const struct hf_hash_key *key,
                      const struct hf_alloc *alloc);
void hf_rpc_hosts_free(struct hf_rpc_hosts *hosts);

/* Returns the record of the account, and makes it if there is none; NULL: memory ran out. */
struct hf_rpc_host *hf_rpc_hosts_get(struct hf_rpc_hosts *hosts, const struct hf_addr *addr);

static inline bool hf_rpc_host_in_use(const struct hf_rpc_host *host)
{
    return host->n_calls > 0 || host->n_conns > 0 || host->dups.n > 0;
}

/* Lets a record be freed at the end of the turn, if its host uses nothing any more. */
void hf_rpc_hosts_release(struct hf_rpc_hosts *hosts, struct hf_rpc_host *host);
void hf_rpc_hosts_end_turn(struct hf_rpc_hosts *hosts);

#endif
