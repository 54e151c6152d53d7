#include "service/service.h"

#include "base/clock.h"

void hf_service_init(struct hf_service *service, struct hf_core *core, uv_loop_t *loop,
                     const struct hf_alloc *alloc)
{
    *service = (struct hf_service){
        .core = core,
        .alloc = alloc,
        .loop = loop,
        .store_up = true,
    };
    hf_commit_waiters_init(&service->waiters);
    for (size_t i = 0; i < HF_UNDECIDED_LISTS; i++)
        hf_list_init(&service->undecided[i]);
    if (loop)
        hf_service_read_wall_clock(service);
}

void hf_service_read_clock(struct hf_service *service)
{
    uint64_t loop_ms = uv_now(service->loop);
    uint64_t mono_ms = service->core_ms ? service->core_ms(service->core_ms_ctx, loop_ms) : loop_ms;

    service->now = (struct hf_now){mono_ms, (int64_t)loop_ms + service->wall_offset_ms};
    service->now_is_old = false;
}

void hf_service_read_wall_clock(struct hf_service *service)
{
    service->wall_offset_ms = hf_clock_wall_ms() - (int64_t)uv_now(service->loop);
    hf_service_read_clock(service);
}

static struct hf_list *undecided_list(struct hf_service *service, uint64_t decision)
{
    return &service->undecided[decision % HF_UNDECIDED_LISTS];
}

void hf_service_add_undecided(struct hf_service *service, struct hf_ticket ticket,
                              struct hf_commit_waiter *waiter, hf_commit_done done)
{
    waiter->ticket = ticket;
    waiter->done = done;
    hf_list_add_tail(undecided_list(service, ticket.decision), &waiter->link);
    service->n_undecided++;
    service->undecided_of[waiter->place]++;
}

uint32_t hf_service_place_of(const struct hf_service *service, const struct hf_addr *account)
{
    uint64_t hash =
        hf_hash(hf_core_hash_key(service->core), account->bytes, sizeof(account->bytes));

    return 1 + (uint32_t)(hf_hash_u64(hf_core_hash_key(service->core), hash, account->scope) %
                          (HF_UNDECIDED_PLACES - 1));
}

void hf_service_forget(struct hf_service *service, struct hf_commit_waiter *waiter)
{
    if (waiter->ticket.decision != 0) {
        service->n_undecided--;
        service->undecided_of[waiter->place]--;
    }
    hf_list_remove(&waiter->link);
}

/* Lets the answers that waited for this decision go on: they now wait for its batch and their own.
 * If these are durable, or the decision has failed, the answers are completed at once. */
static void go_on(struct hf_service *service, const struct hf_decision *decision)
{
    hf_list_foreach_safe (node, undecided_list(service, decision->id)) {
        struct hf_commit_waiter *waiter = hf_list_entry(node, struct hf_commit_waiter, link);
        uint64_t own = waiter->ticket.seq;
        uint64_t seq = decision->seq > own ? decision->seq : own;
        if (waiter->ticket.decision != decision->id)
            continue;
        hf_service_forget(service, waiter);
        if (decision->failed || seq <= service->durable)
            waiter->done(waiter, !decision->failed);
        else
            hf_commit_waiters_add(&service->waiters, waiter, seq, waiter->done);
    }
}

void hf_service_settle(struct hf_service *service)
{
    struct hf_decision decision;

    while (hf_core_next_decision(service->core, &decision))
        go_on(service, &decision);
}

void hf_service_let_go(struct hf_service *service, uint64_t id)
{
    go_on(service, &(struct hf_decision){.id = id});
}

/* Fails answers that wait for a decision and whose own batch is not durable; with `all`, every
 * answer that waits for a decision. */
static void fail_undecided(struct hf_service *service, uint64_t durable, bool all)
{
    for (size_t i = 0; i < HF_UNDECIDED_LISTS; i++) {
        hf_list_foreach_safe (node, &service->undecided[i]) {
            struct hf_commit_waiter *waiter = hf_list_entry(node, struct hf_commit_waiter, link);
            if (!all && waiter->ticket.seq <= durable)
                continue;
            hf_service_forget(service, waiter);
            waiter->done(waiter, false);
        }
    }
}

void hf_service_batch_failed(struct hf_service *service)
{
    uint64_t durable = hf_core_durable(service->core);

    /* Answer a durable change as done, even if the kernel has not released its claim yet. */
    hf_commit_waiters_reached(&service->waiters, durable);
    hf_commit_waiters_failed(&service->waiters);
    if (service->n_undecided > 0)
        fail_undecided(service, durable, false);
}

void hf_service_fail_waiters(struct hf_service *service)
{
    hf_commit_waiters_failed(&service->waiters);
    fail_undecided(service, 0, true);
}
