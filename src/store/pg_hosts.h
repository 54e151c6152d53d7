/*
 * The hosts behind a connection string. libpq accepts lists ("host=a,b port=5432,5433"), but tries
 * them in turn only in its blocking calls: with the asynchronous ones the caller watches the time
 * and has no means to skip a silent host. So we take the lists apart and connect to one host at a
 * time.
 */
#ifndef HF_STORE_PG_HOSTS_H
#define HF_STORE_PG_HOSTS_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

enum { HF_PG_HOSTS_MAX = 16 };

/* One host of a connection string; NULL in a field means libpq's default. */
struct hf_pg_host {
    const char *host; /* name, address, or directory of a Unix socket */
    const char *hostaddr;
    const char *port;
};

struct hf_pg_hosts {
    struct hf_pg_host list[HF_PG_HOSTS_MAX];
    unsigned count;              /* how many hosts the connection string names, at least 1 */
    uint32_t connect_timeout_ms; /* the string's time limit for one host; 0: not set */
    /* target_session_attrs is unset or "any": the string would accept a read-only server */
    bool any_session;
    PQconninfoOption *options; /* libpq's options, which own the memory of the strings */
};

/*
 * Reads a connection string as libpq would, with its service file and PG* variables. Returns
 * HF_ENOMEM.
 *
 * Lists with empty elements, of unequal length or with too many hosts become one host with nothing
 * set: libpq then gets the string unchanged, and says what is wrong with it.
 */
int hf_pg_hosts_read(const char *dsn, struct hf_pg_hosts *out);
void hf_pg_hosts_free(struct hf_pg_hosts *hosts);

/* True if the host must be looked up: it has no hostaddr, and is not the directory of a Unix
 * socket. */
bool hf_pg_host_is_name(const struct hf_pg_host *host);

#endif
