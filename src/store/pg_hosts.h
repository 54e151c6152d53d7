/*
 * The hosts behind a connection string. libpq takes lists ("host=a,b port=5432,5433"), and goes
 * through them by itself only with its blocking calls: with its asynchronous ones the caller keeps
 * the time, and has no means to skip a silent host. So we take the lists apart and connect to one
 * host at a time.
 */
#ifndef HF_STORE_PG_HOSTS_H
#define HF_STORE_PG_HOSTS_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

enum { HF_PG_HOSTS_MAX = 16 };

/* A host; NULL in a field means libpq's default. */
struct hf_pg_host {
    const char *host; /* name, address, or directory of a Unix socket */
    const char *hostaddr;
    const char *port;
};

struct hf_pg_hosts {
    struct hf_pg_host list[HF_PG_HOSTS_MAX];
    unsigned count;              /* how many hosts there are, at least 1 */
    uint32_t connect_timeout_ms; /* the time limit for one host; 0: not set */
    bool any_session;            /* target_session_attrs is not set: a read-only server will do */
    PQconninfoOption *options;   /* owns the memory of the strings */
};

/*
 * Reads a connection string as libpq would, with its service file and PG* variables. HF_ENOMEM.
 *
 * Lists with empty elements, of unequal length or with too many hosts come out as one host with
 * nothing set: libpq then sees the string as it is, and says what is wrong with it.
 */
int hf_pg_hosts_read(const char *dsn, struct hf_pg_hosts *out);
void hf_pg_hosts_free(struct hf_pg_hosts *hosts);

/* True if the host is a name to be looked up. */
bool hf_pg_host_is_name(const struct hf_pg_host *host);

#endif
