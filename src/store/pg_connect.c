/*
 * Connects to the first host of store.dsn that accepts us, within timeout_ms for all of them. The
 * time that is left is divided among the hosts not yet tried, and the share of a host name among
 * its addresses, so that no silent host keeps us from the next.
 *
 * The lookup of a name blocks for as long as the system's resolver does. That delays only the
 * commit thread, and addresses in store.dsn avoid it.
 */
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "store/backend.h"
#include "store/pg_conn.h"
#include "store/pg_hosts.h"

enum {
    /* The least time for each address, even if a name lookup has used up timeout_ms. */
    SHARE_MIN_MS = 100,
    ADDRESSES_MAX = 8, /* how many addresses of one host name are tried */
    ADDRESS_TEXT_MAX = 64,
    FAILURES_MAX = HF_STORE_ERROR_MAX * 2 / 3,
};

/* One attempt to connect, which tries all hosts. */
struct attempt {
    struct hf_pg *pg;
    struct hf_pg_hosts hosts;
    uint64_t until_ms;
    bool silent_only; /* no host has answered in this attempt */
    char failures[FAILURES_MAX];
};

/* Returns the deadline for the next of n_left hosts, if all of them must be tried by until_ms. */
static uint64_t share_until(uint64_t until_ms, unsigned n_left)
{
    uint64_t now = hf_clock_mono_ms();
    uint64_t share = until_ms > now ? (until_ms - now) / n_left : 0;

    return now + (share > SHARE_MIN_MS ? share : SHARE_MIN_MS);
}

static void note_failure(struct attempt *a, const char *text)
{
    size_t len = strlen(a->failures);

    hf_format(a->failures + len, sizeof(a->failures) - len, "%s%s", len > 0 ? "; " : "", text);
}

/* Fails with libpq's message, and closes the connection. */
static int fail_said(struct attempt *a)
{
    char text[FAILURES_MAX];

    hf_pg_clean_text(a->pg, PQerrorMessage(a->pg->conn), text, sizeof(text));
    note_failure(a, text);
    a->silent_only = false;
    hf_pg_disconnect(a->pg);
    return HF_EUNREACH;
}

static int fail_silent(struct attempt *a, const struct hf_pg_host *host)
{
    char text[FAILURES_MAX];

    hf_format(text, sizeof(text), "no answer in time from %s%s%s%s%s",
              host->host       ? host->host
              : host->hostaddr ? host->hostaddr
                               : "the server",
              host->host && host->hostaddr ? " " : "",
              host->host && host->hostaddr ? host->hostaddr : "", host->port ? " port " : "",
              host->port ? host->port : "");
    note_failure(a, text);
    hf_pg_disconnect(a->pg);
    return HF_ETIMEDOUT;
}

/* Waits for the socket. Returns HF_ETIMEDOUT when it is not ready by until_ms. */
static int wait_until(struct hf_pg *pg, short events, uint64_t until_ms)
{
    struct pollfd fd = {.fd = PQsocket(pg->conn), .events = events};
    uint64_t now;
    int n = 0;

    while ((now = hf_clock_mono_ms()) < until_ms) {
        n = poll(&fd, 1, (int)(until_ms - now));
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            break;
    }
    return HF_ETIMEDOUT;
}

/*
 * Starts a connection. With these TCP settings the kernel notices a dead path within half a minute
 * even while nothing is sent, and the connection is replaced before a batch is sent on it
 * (hf_pg_drop_dead()); otherwise that batch would be in doubt, and its requests would wait.
 * Keywords before dbname are defaults, which the dsn may change; keywords after it override the
 * dsn. libpq ignores keywords without a value.
 */
static PGconn *start(struct attempt *a, const struct hf_pg_host *host, bool choice)
{
    const struct {
        const char *keyword;
        const char *value;
    } params[] = {
        {"keepalives_idle", "10"},
        {"keepalives_interval", "5"},
        {"keepalives_count", "3"},
        {"tcp_user_timeout", "15000"},
        {"dbname", a->pg->dsn},
        {"application_name", a->pg->name},
        {"host", host->host},
        {"hostaddr", host->hostaddr},
        {"port", host->port},
        /* With several hosts or addresses, a read-only server is passed over. */
        {"target_session_attrs", choice && a->hosts.any_session ? "read-write" : NULL},
    };
    const char *keywords[HF_COUNT_OF(params) + 1] = {NULL};
    const char *values[HF_COUNT_OF(params) + 1] = {NULL};

    for (size_t i = 0; i < HF_COUNT_OF(params); i++) {
        keywords[i] = params[i].keyword;
        values[i] = params[i].value;
    }
    return PQconnectStartParams(keywords, values, 1);
}

static int connect_address(struct attempt *a, const struct hf_pg_host *host, bool choice,
                           uint64_t until_ms)
{
    PostgresPollingStatusType status = PGRES_POLLING_WRITING;
    struct hf_pg *pg = a->pg;

    pg->conn = start(a, host, choice);
    if (!pg->conn) {
        note_failure(a, "out of memory");
        return HF_ENOMEM;
    }
    while (status != PGRES_POLLING_OK) {
        if (PQstatus(pg->conn) == CONNECTION_BAD || status == PGRES_POLLING_FAILED)
            return fail_said(a);
        if (wait_until(pg, status == PGRES_POLLING_READING ? POLLIN : POLLOUT, until_ms) < 0)
            return fail_silent(a, host);
        status = PQconnectPoll(pg->conn);
    }
    return 0;
}

/* Looks up the addresses of a host name, as text. Returns how many there are, 0 if the lookup
 * failed. */
static unsigned look_up(struct attempt *a, const char *name,
                        char addresses[ADDRESSES_MAX][ADDRESS_TEXT_MAX])
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char text[FAILURES_MAX];
    unsigned count = 0;
    int error = getaddrinfo(name, NULL, &hints, &found);

    for (struct addrinfo *ai = found; error == 0 && ai && count < ADDRESSES_MAX; ai = ai->ai_next) {
        error = getnameinfo(ai->ai_addr, ai->ai_addrlen, addresses[count], ADDRESS_TEXT_MAX, NULL,
                            0, NI_NUMERICHOST);
        count += error == 0;
    }
    if (found)
        freeaddrinfo(found);
    if (count == 0) {
        hf_format(text, sizeof(text), "%s: %s", name, gai_strerror(error));
        note_failure(a, text);
        a->silent_only = false;
    }
    return count;
}

static int connect_host(struct attempt *a, const struct hf_pg_host *host, uint64_t until_ms)
{
    char addresses[ADDRESSES_MAX][ADDRESS_TEXT_MAX];
    struct hf_pg_host one = *host;
    unsigned count;
    int rv = HF_EUNREACH;

    if (!hf_pg_host_is_name(host))
        return connect_address(a, host, a->hosts.count > 1, until_ms);
    count = look_up(a, host->host, addresses);
    for (unsigned i = 0; i < count && rv < 0; i++) {
        one.hostaddr = addresses[i];
        rv = connect_address(a, &one, a->hosts.count > 1 || count > 1,
                             share_until(until_ms, count - i));
    }
    return rv;
}

/* Tries the hosts, beginning with the one that worked last, so that a silent host delays only the
 * first connect. */
static int connect_any(struct attempt *a)
{
    unsigned count = a->hosts.count;
    int rv = HF_EUNREACH;

    for (unsigned i = 0; i < count && rv < 0; i++) {
        unsigned which = (a->pg->last_host + i) % count;
        uint64_t until_ms = share_until(a->until_ms, count - i);
        uint64_t bound_ms = hf_clock_mono_ms() + a->hosts.connect_timeout_ms;

        if (a->hosts.connect_timeout_ms > 0 && bound_ms < until_ms)
            until_ms = bound_ms;
        rv = connect_host(a, &a->hosts.list[which], until_ms);
        if (rv == 0)
            a->pg->last_host = which;
    }
    return rv;
}

int hf_pg_connect(struct hf_pg *pg)
{
    struct attempt a = {
        .pg = pg, .until_ms = hf_clock_mono_ms() + pg->timeout_ms, .silent_only = true};
    int rv;

    HF_ASSERT(!pg->conn);
    if (hf_pg_hosts_read(pg->dsn, &a.hosts) < 0)
        return hf_store_fail(pg->store, HF_ENOMEM, "out of memory");
    rv = connect_any(&a);
    hf_pg_hosts_free(&a.hosts);
    if (rv < 0)
        return hf_store_fail(pg->store, a.silent_only ? HF_ETIMEDOUT : HF_EUNREACH,
                             "cannot connect to PostgreSQL: %s; see whether PostgreSQL runs, and "
                             "store.dsn",
                             a.failures);
    return hf_pg_begin(pg);
}
