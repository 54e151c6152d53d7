/*
 * Parks requests that wait for the kernel (core/claim.h): a request is kept with copies of all that
 * it names, and made again when the core has decided. A message form is parked together with its
 * RPC call, so the RPC reply, which only says that the message has arrived, leaves with the answer.
 */
#include "base/assert.h"
#include "nlm/nlm_private.h"

struct parked_request {
    struct hf_commit_waiter waiter;
    struct hf_nlm *nlm;
    struct hf_rpc_call *call;
    enum hf_nlm_kind kind;
    struct hf_peer peer;
    struct hf_lock_args args;
    struct hf_bytes cookie;
    struct hf_buf copy; /* the bytes that peer, args and cookie point to */
};

static void on_decided(struct hf_commit_waiter *waiter, bool decided)
{
    struct parked_request *parked = hf_container_of(waiter, struct parked_request, waiter);
    struct hf_nlm *nlm = parked->nlm;
    nlm_obj cookie = to_obj(parked->cookie);

    if (decided)
        hf_nlm_ask_again(parked->call, parked->kind, &cookie, &parked->peer, &parked->args);
    else
        hf_rpc_reply_never(parked->call); /* the service ends, and gives the request no answer */
    hf_pool_give(&nlm->parked, parked);
}

static bool append(struct hf_buf *copy, struct hf_bytes bytes)
{
    return hf_buf_append(copy, bytes.data, bytes.len) == 0;
}

/* Copies the request's bytes into one buffer. Pointers into it are set when the last byte is in,
 * because the buffer moves as it grows. */
static bool keep(struct parked_request *parked)
{
    struct hf_bytes *const all[] = {&parked->cookie, &parked->peer.name, &parked->args.fh,
                                    &parked->args.oh};
    const uint8_t *at;

    hf_buf_clear(&parked->copy);
    for (size_t i = 0; i < HF_COUNT_OF(all); i++) {
        if (!append(&parked->copy, *all[i]))
            return false;
    }
    at = hf_buf_view(&parked->copy).data;
    for (size_t i = 0; i < HF_COUNT_OF(all); i++) {
        all[i]->data = at;
        at += all[i]->len;
    }
    return true;
}

void hf_nlm_park(struct hf_rpc_call *call, enum hf_nlm_kind kind, const nlm_obj *cookie,
                 const struct hf_peer *peer, const struct hf_lock_args *args, uint64_t decision)
{
    struct hf_nlm *nlm = nlm_of(call);
    struct hf_ticket ticket = {.decision = decision};
    uint32_t place = hf_service_place_of(nlm->service, hf_rpc_call_account(call));
    struct parked_request *parked =
        hf_service_may_wait(nlm->service, ticket, place) ? hf_pool_take(&nlm->parked) : NULL;

    if (!parked) {
        hf_rpc_reply_never(call); /* without an answer the client repeats its request */
        return;
    }
    if (!parked->nlm)
        hf_buf_init(&parked->copy, nlm->service->alloc);
    parked->nlm = nlm;
    parked->call = call;
    parked->kind = kind;
    parked->peer = *peer;
    parked->args = *args;
    if (args->asked == 0)
        parked->args.asked = hf_core_asked(nlm->service->core);
    parked->cookie = from_obj(cookie);
    if (!keep(parked)) {
        hf_pool_give(&nlm->parked, parked);
        hf_rpc_reply_never(call);
        return;
    }
    parked->waiter.place = place;
    (void)hf_service_when(nlm->service, ticket, &parked->waiter, on_decided);
}

void hf_nlm_parked_init(struct hf_nlm *nlm)
{
    hf_pool_init(&nlm->parked, nlm->service->alloc, sizeof(struct parked_request));
}

void hf_nlm_parked_free(struct hf_nlm *nlm)
{
    struct parked_request *parked;

    while ((parked = hf_pool_pop(&nlm->parked))) {
        hf_buf_free(&parked->copy);
        hf_free(nlm->service->alloc, parked);
    }
}
