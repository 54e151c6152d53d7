/* The layer that NLM, NSM and administration share: time, durability, and pools of waiting answers.
 */
#include "core_world.h"

#include "base/pool.h"
#include "service/service.h"

struct answer {
    struct hf_commit_waiter waiter;
    int calls;
    bool durable;
};

static void on_done(struct hf_commit_waiter *waiter, bool durable)
{
    struct answer *answer = hf_container_of(waiter, struct answer, waiter);

    answer->calls++;
    answer->durable = durable;
}

/* A started core whose batches the test commits through the service. */
struct scene {
    struct world *world;
    struct hf_service service;
};

static void open_scene(void **state, struct scene *scene)
{
    struct world *w = *state;

    w->by_hand = true;
    scene->world = w;
    hf_service_init(&scene->service, w->core, NULL, &w->alloc);
    scene->service.now = w->now;
    scene->service.durable = hf_core_durable(w->core);
}

static struct hf_answer lock(struct scene *scene, const char *fh)
{
    struct hf_peer peer = world_peer(scene->world, 1);
    struct hf_lock_args args = {.fh = hf_bytes_str(fh),
                                .oh = hf_bytes_str("o"),
                                .svid = 1,
                                .exclusive = true,
                                .version = 4};

    return hf_core_lock(scene->service.core, hf_service_now(&scene->service), &peer, &args);
}

static uint64_t commit(struct scene *scene, int error)
{
    const struct hf_batch *batch = hf_core_take_batch(scene->service.core);
    uint64_t seq;

    assert_non_null(batch);
    seq = batch->seq;
    hf_service_batch_done(&scene->service, seq, error);
    return seq;
}

/* Given a ticket with nothing to wait for, the answer completes before the call returns. */
static void completes_at_once(void **state)
{
    struct scene scene;
    struct answer answer = {.waiter.ticket.seq = 7};

    open_scene(state, &scene);
    assert_true(
        hf_service_when(&scene.service, (struct hf_ticket){.seq = 0}, &answer.waiter, on_done));
    assert_int_equal(answer.calls, 1);
    assert_true(answer.durable);
    assert_int_equal(answer.waiter.ticket.seq, 0);
    assert_true(hf_service_when(&scene.service, (struct hf_ticket){.seq = scene.service.durable},
                                &answer.waiter, on_done));
    assert_int_equal(answer.calls, 2);
}

/* Given a LOCK, its answer completes with its batch and not before. */
static void waits_for_its_batch(void **state)
{
    struct scene scene;
    struct answer answer = {0};
    uint64_t seq;

    open_scene(state, &scene);
    seq = lock(&scene, "f").ticket.seq;
    assert_false(
        hf_service_when(&scene.service, (struct hf_ticket){.seq = seq}, &answer.waiter, on_done));
    assert_int_equal(answer.calls, 0);
    assert_int_equal(commit(&scene, 0), seq);
    assert_int_equal(answer.calls, 1);
    assert_true(answer.durable);
    assert_int_equal(answer.waiter.ticket.seq, seq);
    assert_true(scene.service.durable == seq && scene.service.batch_done_ns > 0);
}

/* Given a batch in flight and one that is being filled, each answer completes with its own batch.
 */
static void batches_complete_in_order(void **state)
{
    struct scene scene;
    struct answer first = {0};
    struct answer second = {0};
    struct answer third = {0};
    const struct hf_batch *batch;
    uint64_t seq;

    open_scene(state, &scene);
    seq = lock(&scene, "f").ticket.seq;
    batch = hf_core_take_batch(scene.service.core);
    (void)hf_service_when(&scene.service, (struct hf_ticket){.seq = seq}, &first.waiter, on_done);
    (void)hf_service_when(&scene.service, (struct hf_ticket){.seq = lock(&scene, "g").ticket.seq},
                          &second.waiter, on_done);
    (void)hf_service_when(&scene.service, (struct hf_ticket){.seq = seq}, &third.waiter,
                          on_done); /* queued behind */
    hf_service_batch_done(&scene.service, batch->seq, 0);
    assert_true(first.calls == 1 && second.calls == 0 && third.calls == 0);
    commit(&scene, 0);
    assert_true(second.calls == 1 && second.durable && third.calls == 1 && third.durable);
}

/* An answer may wait for a batch and for a decision: a notice about two clients of a host, of which
 * one has been released and the other is still being verified. If the batch fails, its release is
 * undone, and the answer must not leave with the decision. */
static void waits_for_its_batch_and_its_decision(void **state)
{
    for (int fails = 0; fails < 2; fails++) {
        struct scene scene;
        struct answer answer = {0};
        uint64_t seq;

        open_scene(state, &scene);
        seq = lock(&scene, fails ? "f" : "g").ticket.seq;
        assert_false(hf_service_when(&scene.service, (struct hf_ticket){.seq = seq, .decision = 5},
                                     &answer.waiter, on_done));
        if (fails) {
            commit(&scene, HF_ENOSPC);
            assert_true(answer.calls == 1 && !answer.durable);
            assert_int_equal(scene.service.n_undecided, 0);
            hf_service_let_go(&scene.service, 5);
            assert_int_equal(answer.calls, 1);
        } else {
            hf_service_let_go(&scene.service, 5);
            assert_int_equal(answer.calls, 0); /* the answer's batch is in flight */
            commit(&scene, 0);
            assert_true(answer.calls == 1 && answer.durable);
        }
    }
}

/* Given a failed batch, every waiting answer fails: the core has undone all that came after it. */
static void all_fail_with_a_batch(void **state)
{
    struct scene scene;
    struct answer first = {0};
    struct answer second = {0};
    const struct hf_batch *batch;
    uint64_t durable;
    uint64_t seq;

    open_scene(state, &scene);
    durable = scene.service.durable;
    seq = lock(&scene, "f").ticket.seq;
    batch = hf_core_take_batch(scene.service.core);
    (void)hf_service_when(&scene.service, (struct hf_ticket){.seq = seq}, &first.waiter, on_done);
    (void)hf_service_when(&scene.service, (struct hf_ticket){.seq = lock(&scene, "g").ticket.seq},
                          &second.waiter, on_done);
    hf_service_batch_done(&scene.service, batch->seq, HF_ENOSPC);
    assert_true(first.calls == 1 && !first.durable && second.calls == 1 && !second.durable);
    assert_int_equal(scene.service.durable, durable);
}

/* Given tickets that name decisions, an answer waits for its own; one that is forgotten frees its
 * place and is never called. */
static void tickets_wait_for_their_decision(void **state)
{
    struct scene scene;
    struct answer mine = {0};
    struct answer another = {0};
    struct answer forgotten = {0};
    struct hf_ticket one = {.decision = 1};
    struct hf_ticket same_list = {.decision = 1 + HF_UNDECIDED_LISTS};

    open_scene(state, &scene);
    assert_false(hf_service_when(&scene.service, one, &mine.waiter, on_done));
    assert_false(hf_service_when(&scene.service, one, &forgotten.waiter, on_done));
    assert_false(hf_service_when(&scene.service, same_list, &another.waiter, on_done));
    assert_int_equal(scene.service.n_undecided, 3);
    hf_service_forget(&scene.service, &forgotten.waiter);
    assert_int_equal(scene.service.n_undecided, 2);
    hf_service_let_go(&scene.service, 1);
    assert_true(mine.calls == 1 && mine.durable && another.calls == 0 && forgotten.calls == 0);
    assert_true(mine.waiter.ticket.decision != 0); /* it did wait */
    scene.service.n_undecided = HF_UNDECIDED_MAX;
    assert_false(hf_service_may_wait(&scene.service, one, 0));
    assert_true(hf_service_may_wait(&scene.service, (struct hf_ticket){.seq = 9}, 0));
    scene.service.n_undecided = 1;
    hf_service_fail_waiters(&scene.service);
    assert_true(another.calls == 1 && !another.durable && scene.service.n_undecided == 0);
}

/* SEC-02: one account may have an eighth of the answers that wait for other hosts. Other accounts
 * may still wait, and an answer that has completed frees its place. */
static void one_account_does_not_fill_what_may_wait(void **state)
{
    const struct hf_addr addrs[] = {world_addr(1), world_addr(2)};
    struct answer *answers = test_malloc(HF_UNDECIDED_MAX * sizeof(answers[0]));
    struct scene scene;
    uint32_t places[2];
    unsigned n = 0;

    memset(answers, 0, HF_UNDECIDED_MAX * sizeof(answers[0]));
    open_scene(state, &scene);
    for (int i = 0; i < 2; i++)
        places[i] = hf_service_place_of(&scene.service, &addrs[i]);
    assert_int_not_equal(places[0], places[1]);
    while (hf_service_may_wait(&scene.service, (struct hf_ticket){.decision = 9}, places[0])) {
        answers[n].waiter.place = places[0];
        assert_false(hf_service_when(&scene.service, (struct hf_ticket){.decision = 9},
                                     &answers[n++].waiter, on_done));
        assert_true(n < HF_UNDECIDED_MAX);
    }
    assert_int_equal(n, HF_UNDECIDED_MAX / 8);
    assert_true(hf_service_may_wait(&scene.service, (struct hf_ticket){.seq = 1}, places[0]));
    assert_true(hf_service_may_wait(&scene.service, (struct hf_ticket){.decision = 9}, places[1]));
    hf_service_let_go(&scene.service, 9);
    assert_int_equal(answers[n - 1].calls, 1);
    assert_true(hf_service_may_wait(&scene.service, (struct hf_ticket){.decision = 9}, places[0]));
    test_free(answers);
}

/* Given a loop, the time of its last turn counts until the loop has slept. */
static void time_is_set_once_a_turn(void **state)
{
    struct world *w = *state;
    struct hf_service service;
    uv_loop_t loop;
    struct hf_now now;

    assert_int_equal(uv_loop_init(&loop), 0);
    hf_service_init(&service, w->core, &loop, &w->alloc);
    now = hf_service_now(&service);
    assert_int_equal(now.mono_ms, uv_now(&loop));
    assert_true(now.wall_ms > INT64_C(1600000000000));
    while (uv_now(&loop) == now.mono_ms)
        uv_update_time(&loop);
    assert_int_equal(hf_service_now(&service).mono_ms, now.mono_ms);
    hf_service_end_turn(&service);
    assert_int_equal(hf_service_now(&service).mono_ms, uv_now(&loop));
    assert_int_equal(hf_service_now(&service).wall_ms - now.wall_ms, uv_now(&loop) - now.mono_ms);
    assert_int_equal(uv_loop_close(&loop), 0);
}

/* A new object is zero. The object that was given back last is handed out first, with its content.
 */
static void pools_reuse_objects(void **state)
{
    struct world *w = *state;
    struct hf_pool pool;
    struct answer *a;
    struct answer *b;

    hf_pool_init(&pool, &w->alloc, sizeof(*a));
    a = hf_pool_take(&pool);
    b = hf_pool_take(&pool);
    assert_true(a && b && a->calls == 0 && b->calls == 0);
    a->calls = 1;
    b->calls = 2;
    hf_pool_give(&pool, a);
    hf_pool_give(&pool, b);
    w->heap.after = 0;
    assert_int_equal(((struct answer *)hf_pool_take(&pool))->calls, 2);
    assert_int_equal(((struct answer *)hf_pool_take(&pool))->calls, 1);
    assert_null(hf_pool_take(&pool));
    w->heap.after = -1;
    hf_pool_give(&pool, a);
    assert_ptr_equal(hf_pool_pop(&pool), a);
    assert_null(hf_pool_pop(&pool));
    hf_free(&w->alloc, a);
    hf_free(&w->alloc, b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(completes_at_once, open_world, close_world),
        cmocka_unit_test_setup_teardown(waits_for_its_batch, open_world, close_world),
        cmocka_unit_test_setup_teardown(batches_complete_in_order, open_world, close_world),
        cmocka_unit_test_setup_teardown(waits_for_its_batch_and_its_decision, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(all_fail_with_a_batch, open_world, close_world),
        cmocka_unit_test_setup_teardown(tickets_wait_for_their_decision, open_world, close_world),
        cmocka_unit_test_setup_teardown(one_account_does_not_fill_what_may_wait, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(time_is_set_once_a_turn, open_world, close_world),
        cmocka_unit_test_setup_teardown(pools_reuse_objects, open_world, close_world),
    };
    return cmocka_run_group_tests_name("service", tests, NULL, NULL);
}
