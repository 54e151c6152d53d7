#include "store/pg_hosts.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static char *value_of(const PQconninfoOption *options, const char *keyword)
{
    for (const PQconninfoOption *o = options; o->keyword; o++) {
        if (strcmp(o->keyword, keyword) == 0)
            return o->val && *o->val ? o->val : NULL;
    }
    return NULL;
}

/*
 * Asks libpq how it reads a connection string, without connecting. libpq first fills in all
 * options, then checks them and stops at an invalid value: the invalid channel_binding makes it
 * stop before it connects.
 */
static PQconninfoOption *resolve(const char *dsn)
{
    const char *const keywords[] = {"dbname", "channel_binding", NULL};
    const char *const values[] = {dsn, "do not connect", NULL};
    PGconn *conn = PQconnectStartParams(keywords, values, 1);
    PQconninfoOption *options = conn ? PQconninfo(conn) : NULL;

    PQfinish(conn);
    return options;
}

/* Splits a list at its commas, in place. Returns the number of elements; 0 if an element is empty
 * or there are too many. */
static unsigned split(char *text, const char *elements[HF_PG_HOSTS_MAX])
{
    unsigned count = 0;

    for (char *element; (element = strsep(&text, ","));) {
        if (!*element || count == HF_PG_HOSTS_MAX)
            return 0;
        elements[count++] = element;
    }
    return count;
}

/* The list of values that one keyword gives, one for each host. */
struct column {
    char *text; /* the text of the list; NULL if the keyword is not set */
    const char *elements[HF_PG_HOSTS_MAX];
    unsigned count;
};

static struct column read_column(const PQconninfoOption *options, const char *keyword)
{
    struct column column = {.text = value_of(options, keyword)};

    if (column.text)
        column.count = split(column.text, column.elements);
    return column;
}

static bool fits(const struct column *column, unsigned n_hosts)
{
    return !column->text || column->count == n_hosts;
}

static unsigned list_hosts(const PQconninfoOption *options, struct hf_pg_host *list)
{
    struct column hosts = read_column(options, "host");
    struct column addrs = read_column(options, "hostaddr");
    struct column ports = read_column(options, "port");
    unsigned count = hosts.text ? hosts.count : addrs.count;

    if (count == 0 || !fits(&addrs, count) || !(fits(&ports, count) || ports.count == 1))
        return 0;
    for (unsigned i = 0; i < count; i++)
        list[i] = (struct hf_pg_host){.host = hosts.elements[i],
                                      .hostaddr = addrs.elements[i],
                                      .port = ports.elements[ports.count == 1 ? 0 : i]};
    return count;
}

int hf_pg_hosts_read(const char *dsn, struct hf_pg_hosts *out)
{
    PQconninfoOption *options = resolve(dsn);
    const char *timeout;
    const char *attrs;
    long seconds;

    if (!options)
        return HF_ENOMEM;
    *out = (struct hf_pg_hosts){.options = options};
    out->count = list_hosts(options, out->list);
    if (out->count == 0)
        out->count = 1;
    timeout = value_of(options, "connect_timeout");
    seconds = timeout ? strtol(timeout, NULL, 10) : 0;
    if (seconds > 0 && seconds < INT32_MAX / 1000)
        out->connect_timeout_ms = (uint32_t)seconds * 1000;
    attrs = value_of(options, "target_session_attrs");
    out->any_session = !attrs || strcmp(attrs, "any") == 0;
    return 0;
}

void hf_pg_hosts_free(struct hf_pg_hosts *hosts)
{
    PQconninfoFree(hosts->options);
    hosts->options = NULL;
}

bool hf_pg_host_is_name(const struct hf_pg_host *host)
{
    return host->host && !host->hostaddr && host->host[0] != '/' && host->host[0] != '@';
}
