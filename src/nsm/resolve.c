#include <netdb.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "nsm/nsm_private.h"

/*
 * Looks up addresses by name, on libuv's threads, for hosts that are registered by name only. The
 * resolver has no time limit that we could set, so an attempt that waits for it ends when its own
 * time is over; addresses that arrive later still go to the core, for the next attempt. libuv gives
 * lookups only half of its threads, so a resolver that hangs delays nothing but other lookups.
 */
/* The default limit on registrations is below this number of lookups, each of which takes about 1
 * KiB. */
enum { RESOLVING_MAX = 16384 };

struct lookup {
    uv_getaddrinfo_t getaddrinfo;
    uv_timer_t timer;
    struct hf_nsm *nsm;
    struct hf_list link; /* links the lookup into nsm->lookups until the resolver has answered */
    uint64_t client_id;
    resolved done; /* the function that is called once with the result; NULL afterwards */
    void *ctx;
    bool stopped; /* the lookup reports nothing to the core any more */
    /* Counts the resolver and the timer, which use the lookup; its memory is freed when both have
     * ended. */
    unsigned pending;
};

static void release(struct lookup *lookup)
{
    if (--lookup->pending == 0) {
        lookup->nsm->resolving--;
        hf_free(lookup->nsm->service->alloc, lookup);
    }
}

static void on_timer_closed(uv_handle_t *handle)
{
    release(handle->data);
}

static void report(struct lookup *lookup, int error, const struct hf_addr *addrs, unsigned n)
{
    resolved done = lookup->done;

    lookup->done = NULL;
    if (done)
        done(lookup->ctx, error, addrs, n);
}

static void on_timeout(uv_timer_t *timer)
{
    struct lookup *lookup = timer->data;

    /* uv_cancel() succeeds only if the lookup has not begun. */
    (void)uv_cancel((uv_req_t *)&lookup->getaddrinfo);
    report(lookup, HF_ETIMEDOUT, NULL, 0);
}

static void on_addresses(uv_getaddrinfo_t *getaddrinfo, int status, struct addrinfo *list)
{
    struct lookup *lookup = getaddrinfo->data;
    struct hf_nsm *nsm = lookup->nsm;
    struct hf_addr addrs[HF_CLIENT_ADDRS_MAX];
    unsigned n = 0;

    hf_list_remove(&lookup->link);
    for (struct addrinfo *a = list; a && n < HF_CLIENT_ADDRS_MAX; a = a->ai_next) {
        if (hf_addr_from_sockaddr(a->ai_addr, &addrs[n]) < 0)
            continue;
        addrs[n].port = 0;
        if (!lookup->stopped)
            (void)hf_core_client_learn(nsm->service->core, hf_service_now(nsm->service),
                                       lookup->client_id, &addrs[n]);
        n++;
    }
    uv_freeaddrinfo(list);
    report(lookup, status == 0 && n > 0 ? 0 : HF_EUNREACH, addrs, n);
    if (!lookup->stopped)
        uv_close((uv_handle_t *)&lookup->timer, on_timer_closed);
    release(lookup);
}

void hf_nsm_resolve_name(struct hf_nsm *nsm, uint64_t client_id, struct hf_bytes name,
                         uint32_t timeout_ms, resolved done, void *ctx)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct lookup *lookup = NULL;
    char text[HF_NAME_MAX + 1];

    if (nsm->resolving < RESOLVING_MAX)
        lookup = hf_calloc(nsm->service->alloc, 1, sizeof(*lookup));
    if (!lookup) {
        done(ctx, HF_ELIMIT, NULL, 0);
        return;
    }
    HF_ASSERT(name.len <= HF_NAME_MAX);
    memcpy(text, name.data, name.len);
    text[name.len] = '\0';
    lookup->nsm = nsm;
    lookup->client_id = client_id;
    lookup->getaddrinfo.data = lookup;
    if (uv_getaddrinfo(nsm->service->loop, &lookup->getaddrinfo, on_addresses, text, NULL, &hints) <
        0) {
        hf_free(nsm->service->alloc, lookup);
        done(ctx, HF_EUNREACH, NULL, 0);
        return;
    }
    lookup->done = done;
    lookup->ctx = ctx;
    lookup->pending = 2;
    nsm->resolving++;
    hf_list_add_tail(&nsm->lookups, &lookup->link);
    uv_timer_init(nsm->service->loop, &lookup->timer);
    lookup->timer.data = lookup;
    uv_timer_start(&lookup->timer, on_timeout, timeout_ms, 0);
}

void hf_nsm_resolve_stop(struct hf_nsm *nsm)
{
    hf_list_foreach (node, &nsm->lookups) {
        struct lookup *lookup = hf_list_entry(node, struct lookup, link);
        lookup->stopped = true;
        lookup->done = NULL;
        (void)uv_cancel((uv_req_t *)&lookup->getaddrinfo);
        uv_close((uv_handle_t *)&lookup->timer, on_timer_closed);
    }
}

/* on_addresses() has told the core already, and no attempt waits for the result. */
static void ignore_result(void *ctx, int error, const struct hf_addr *addrs, unsigned n)
{
    (void)ctx;
    (void)error;
    (void)addrs;
    (void)n;
}

void hf_nsm_resolve(struct hf_nsm *nsm, uint64_t client_id, struct hf_bytes name)
{
    enum { PATIENCE_MS = 60 * 1000 };

    hf_nsm_resolve_name(nsm, client_id, name, PATIENCE_MS, ignore_result, NULL);
}
