/*
 * The peers by account (base/trust.h), that is, remote hosts by address and users of this host by
 * user id. It counts how much of the server each of them uses, so that none can take what others
 * need (SEC-02). A record exists while its host has a connection, a request in progress or an entry
 * in the duplicate request cache, and until the end of the turn of the loop in which it was used
 * last, because what the host has cost in this turn counts even if nothing else of it is left. So
 * the limits of these bound the number of records.
 */
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
    /* links the record into hosts->spare while it stands for no host, or into hosts->unused until
     * the end of the turn */
    struct hf_list spare;
    struct hf_addr addr;
    bool exempt; /* quotas do not apply: the account is that of root of our own host */
    unsigned n_conns;
    struct hf_list conns; /* the connections of the host; the first has been silent longest */
    unsigned n_calls;
    size_t unread; /* how many bytes of answers the host has not read */
    struct hf_dup_host dups;
    uint64_t turn;  /* the turn of the loop in which the next two were counted */
    unsigned spent; /* what the host has used over its connections, in simple requests */
    uint64_t nodes; /* how many nodes were visited for the host's datagrams */
};

struct hf_rpc_hosts {
    struct hf_map map;
    struct hf_list spare;
    struct hf_list unused; /* records that may go at the end of the turn */
    /* the record that was found last: datagrams of one host come in a row */
    struct hf_rpc_host *last;
    struct hf_hash_key key;
    const struct hf_alloc *alloc;
};

int hf_rpc_hosts_init(struct hf_rpc_hosts *hosts, const struct hf_hash_key *key,
                      const struct hf_alloc *alloc);
void hf_rpc_hosts_free(struct hf_rpc_hosts *hosts);

/* Returns the record of the account, made if there is none; NULL: out of memory. */
struct hf_rpc_host *hf_rpc_hosts_get(struct hf_rpc_hosts *hosts, const struct hf_addr *addr);

static inline bool hf_rpc_host_in_use(const struct hf_rpc_host *host)
{
    return host->n_calls > 0 || host->n_conns > 0 || host->dups.n > 0;
}

/* Gives the record back at the end of the turn, if the host uses nothing any more. */
void hf_rpc_hosts_release(struct hf_rpc_hosts *hosts, struct hf_rpc_host *host);
void hf_rpc_hosts_end_turn(struct hf_rpc_hosts *hosts);

#endif
