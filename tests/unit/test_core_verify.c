/* The verification of crash notices by the core (SEC-04, recovery/verify.c). */
#include "core_world.h"

#define GRANTED HF_STAT_GRANTED
#define DENIED  HF_STAT_DENIED

static int open_verifying(void **state)
{
    struct world *w = test_malloc(sizeof(*w));

    world_open(w);
    w->config.verify_notices = true;
    world_start(w);
    *state = w;
    return 0;
}

static struct hf_sm_answer notify(struct world *w, int32_t state)
{
    struct hf_addr from = world_addr(1);
    struct hf_sm_answer answer =
        hf_core_sm_notify(w->core, w->now, &from, hf_bytes_str("client1.example"), state, false);

    world_step(w);
    return answer;
}

static uint64_t question(struct world *w)
{
    struct hf_outcall_attempt call = world_call_of(w, HF_OUTCALL_STAT);

    assert_int_not_equal(call.id, 0);
    return call.id;
}

static void monitor_names(struct world *w, uint64_t id, int32_t state)
{
    hf_core_stat_answered(w->core, w->now, id, state);
    world_step(w);
}

static struct hf_decision decision(struct world *w)
{
    struct hf_decision decision = {0};

    assert_true(hf_core_next_decision(w->core, &decision));
    world_check(w);
    return decision;
}

static uint64_t locks(struct world *w)
{
    return world_status(w).locks;
}

/* CRS-02, SEC-04a: a forged notice between the first LOCK of a new life and the true notice does
 * not make that LOCK one of a former life, however many are forged. */
static void a_forged_notice_ages_no_lock(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 1, .fh = "old", .state = 3);
    LOCK(w, .client = 1, .fh = "new", .state = 5);
    for (int32_t forged = 99; forged < 109; forged++) {
        notify(w, forged);
        monitor_names(w, question(w), 5);
        decision(w);
        world_later(w, 1000);
    }
    assert_int_equal(locks(w), 2);
    LOCK(w, .client = 1, .fh = "newer", .state = 5);
    notify(w, 5);
    assert_int_equal(TEST(w, .client = 2, .fh = "old"), GRANTED);
    assert_int_equal(TEST(w, .client = 2, .fh = "new"), DENIED);
    assert_int_equal(TEST(w, .client = 2, .fh = "newer"), DENIED);
}

/* CRS-02: nor does a forged notice hide that a state number is the first one that the client tells.
 */
static void a_forged_notice_before_the_first_state(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 1, .fh = "stateless");
    notify(w, 99);
    monitor_names(w, question(w), 5);
    decision(w);
    LOCK(w, .client = 1, .fh = "told", .state = 5);
    world_later(w, 10000);
    assert_int_equal(notify(w, 5).ticket.decision, 0); /* this notice tells nothing new */
    assert_int_equal(locks(w), 2);
}

/* SEC-04a */
static void the_monitor_decides(void **state)
{
    struct world *w = *state;
    struct hf_decision none;
    struct hf_sm_answer answer;
    struct hf_event event = {0};
    struct hf_outcall_attempt call;

    LOCK(w, .client = 1, .state = 3);
    answer = notify(w, 5);
    assert_true(answer.ok && answer.ticket.decision != 0);
    assert_int_equal(locks(w), 1);
    assert_false(hf_core_next_decision(w->core, &none));
    call = world_call_of(w, HF_OUTCALL_STAT);
    assert_int_equal(call.id, answer.ticket.decision);
    assert_true(call.prog == 100024 && call.vers == 1 && call.proc == 1);
    assert_int_equal(call.timeout_ms, 2000);
    assert_true(call.n_to == 1 &&
                hf_addr_same_host(&call.to[0], &(struct hf_addr){.family = HF_ADDR_IPV4,
                                                                 .bytes = {10, 0, 0, 1}}));
    monitor_names(w, call.id, 3);
    assert_int_equal(decision(w).id, answer.ticket.decision);
    assert_int_equal(locks(w), 1);
    assert_int_equal(hf_core_counters(w->core)->notifies_in_refuted, 1);
    assert_int_equal(hf_core_counters(w->core)->notifies_in_accepted, 0);
    assert_true(world_event(w, HF_EVENT_NOTICE_REFUTED, &event));
    assert_true(event.a == 5 && event.b == 3);

    world_later(w, 1000);
    answer = notify(w, 5);
    monitor_names(w, question(w), 5);
    assert_int_equal(locks(w), 0);
    assert_int_equal(decision(w).id, answer.ticket.decision);
    assert_int_equal(hf_core_counters(w->core)->notifies_in_accepted, 1);
    /* A repeat of the notice is answered at once. */
    assert_int_equal(notify(w, 5).ticket.decision, 0);
}

static struct hf_sm_answer notify_of_address(struct world *w, int32_t state)
{
    struct hf_sm_answer answer =
        hf_core_sm_notify(w->core, w->now, &w->at, hf_bytes_str("10.0.0.1"), state, false);

    world_step(w);
    return answer;
}

/* SEC-03: one packet makes us ask once, even about a host that is several clients; what these get
 * after the notice came stays. */
static void one_question_for_all_clients_of_a_host(void **state)
{
    struct world *w = *state;
    uint64_t id;

    w->at = world_addr(1);
    LOCK(w, .client = 1, .fh = "a", .state = 3);
    LOCK(w, .client = 2, .fh = "b", .state = 3);
    /* There are two decisions, so the notice must be repeated. */
    assert_false(notify_of_address(w, 7).ok);
    id = question(w);
    assert_int_equal(world_call_of(w, HF_OUTCALL_STAT).id, 0);
    LOCK(w, .client = 2, .fh = "c", .state = 3);
    monitor_names(w, id, 3);
    decision(w);
    assert_int_equal(locks(w), 3);
    assert_int_equal(hf_core_counters(w->core)->notifies_in_refuted, 2);

    world_later(w, 10000);
    assert_false(notify_of_address(w, 5).ok);
    LOCK(w, .client = 2, .fh = "new");
    assert_false(notify_of_address(w, 5).ok);
    id = question(w);
    monitor_names(w, id, 5);
    decision(w);
    assert_int_equal(locks(w), 1);
    assert_int_equal(world_call_of(w, HF_OUTCALL_STAT).id, 0);
    assert_true(notify_of_address(w, 5).ok);
    assert_int_equal(notify_of_address(w, 5).ticket.decision, 0);

    LOCK(w, .client = 1, .fh = "a", .state = 5);
    world_later(w, 10000);
    assert_false(notify_of_address(w, 7).ok);
    world_called(w, question(w), HF_OUTCALL_FAILED);
    decision(w);
    assert_int_equal(locks(w), 0);
}

/* SEC-04b: no answer, or one that names no state, lets the notice count, because a booting client
 * may have no monitor yet. */
static void a_silent_monitor_lets_the_notice_count(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 1, .state = 3);
    notify(w, 5);
    world_called(w, question(w), HF_OUTCALL_FAILED);
    assert_int_equal(locks(w), 0);
    decision(w);
}

/* SEC-04c: a shortage of this host must not make the server believe a forged notice: it asks again
 * a second later. */
static void our_own_lack_decides_nothing(void **state)
{
    struct world *w = *state;
    struct hf_decision none;
    uint64_t id;

    LOCK(w, .client = 1, .state = 3);
    notify(w, 5);
    for (int i = 0; i < 5; i++) {
        id = question(w);
        hf_core_outcall_done(w->core, w->now, id, HF_OUTCALL_UNTRIED,
                             i % 2 ? HF_ELIMIT : HF_EUNAVAIL);
        world_step(w);
        assert_false(hf_core_next_decision(w->core, &none));
        assert_int_equal(world_call_of(w, HF_OUTCALL_STAT).id, 0);
        world_later(w, 1000);
    }
    monitor_names(w, question(w), 3);
    assert_int_equal(locks(w), 1);
    decision(w);
}

/* SEC-04e: a repeat of the same notice joins the question. A notice with another state is left to
 * be repeated; and one that the monitor has just confirmed is believed even while a forged one is
 * being verified. */
static void one_question_at_a_time(void **state)
{
    struct world *w = *state;
    struct hf_sm_answer first, second, forged;
    uint64_t id;

    LOCK(w, .client = 1, .state = 3);
    forged = notify(w, 99);
    second = notify(w, 99);
    assert_int_equal(second.ticket.decision, forged.ticket.decision);
    first = notify(w, 5);
    assert_true(!first.ok && first.ticket.decision == 0);
    id = question(w);
    assert_int_equal(world_call_of(w, HF_OUTCALL_STAT).id, 0);
    monitor_names(w, id, 5);
    assert_int_equal(locks(w), 1);
    assert_false(notify(w, 101).ok); /* the decision about it was not fetched yet */
    decision(w);

    forged = notify(w, 103);
    assert_int_not_equal(forged.ticket.decision, 0);
    first = notify(w, 5);
    assert_true(first.ok && first.ticket.decision == 0);
    assert_int_equal(locks(w), 0);
    /* Only one question a second is sent. */
    assert_int_equal(world_call_of(w, HF_OUTCALL_STAT).id, 0);
    world_later(w, 1000);
    monitor_names(w, question(w), 5);
    decision(w);
}

/* An old confirmation is not used: the client may have crashed since. */
static void an_old_answer_is_not_used(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 1, .state = 3);
    notify(w, 99);
    monitor_names(w, question(w), 5);
    decision(w);
    world_later(w, 5000);
    assert_int_not_equal(notify(w, 5).ticket.decision, 0);
    assert_int_equal(locks(w), 1);
    monitor_names(w, question(w), 5);
    assert_int_equal(locks(w), 0);
    decision(w);
}

/* SEC-04d: what the client gets after its notice belongs to its new life. */
static void the_new_life_keeps_what_it_gets_meanwhile(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 1, .state = 3);
    LOCK(w, .client = 2, .fh = "g");
    assert_int_equal(LOCK(w, .client = 1, .fh = "g", .svid = 2, .block = true), HF_STAT_BLOCKED);
    SHARE(w, .client = 1, .fh = "s", .oh = "old", .mode = 0, .access = 1);
    notify(w, 5);
    assert_int_equal(LOCK(w, .client = 1, .fh = "h"), GRANTED);
    SHARE(w, .client = 1, .fh = "s", .oh = "new", .mode = 0, .access = 1);
    assert_int_equal(LOCK(w, .client = 1, .fh = "g", .svid = 3, .block = true), HF_STAT_BLOCKED);
    world_called(w, question(w), HF_OUTCALL_FAILED);
    decision(w);
    assert_int_equal(TEST(w, .client = 3), GRANTED);
    assert_int_equal(TEST(w, .client = 3, .fh = "h"), DENIED);
    assert_int_equal(world_status(w).shares, 1);
    assert_int_equal(world_status(w).waiters, 1);
}

/* A request of the old life that is granted while the notice is verified goes with the old life. */
static void a_former_waiter_loses_what_it_got_meanwhile(void **state)
{
    struct world *w = *state;
    uint64_t id;

    LOCK(w, .client = 1, .state = 3, .fh = "x");
    LOCK(w, .client = 2);
    assert_int_equal(LOCK(w, .client = 1, .state = 3, .block = true), HF_STAT_BLOCKED);
    notify(w, 5);
    id = question(w);
    UNLOCK(w, .client = 2);
    assert_int_equal(TEST(w, .client = 3), DENIED);
    world_called(w, id, HF_OUTCALL_FAILED);
    decision(w);
    assert_int_equal(TEST(w, .client = 3), GRANTED);
    assert_int_equal(locks(w), 0);
}

static struct hf_answer free_all(struct world *w, int32_t state, bool proven)
{
    struct hf_peer peer = world_peer(w, 1);
    struct hf_answer answer = hf_core_free_all(w->core, w->now, &peer, state, proven);

    world_step(w);
    return answer;
}

/* A FREE_ALL with the recorded state is contradicted as well: the client has not restarted. */
static void free_all_is_verified(void **state)
{
    struct world *w = *state;

    for (int32_t claimed = 0; claimed <= 5; claimed++) {
        LOCK(w, .client = 1, .state = 3);
        assert_int_not_equal(free_all(w, claimed, false).ticket.decision, 0);
        assert_int_equal(free_all(w, claimed + 1, false).stat, HF_STAT_DENIED_NOLOCKS);
        monitor_names(w, question(w), 3);
        decision(w);
        assert_int_equal(locks(w), 1);
        world_later(w, 1000);
    }
    free_all(w, 5, false);
    world_later(w, 1000);
    monitor_names(w, question(w), 5);
    decision(w);
    assert_int_equal(locks(w), 0);

    LOCK(w, .client = 1, .state = 3);
    assert_int_equal(free_all(w, 3, true).ticket.decision, 0);
    assert_int_equal(locks(w), 0);
}

/* SM_NOTIFY joins the FREE_ALL of the same state, and records that state. */
static void a_notice_joins_free_all(void **state)
{
    struct world *w = *state;
    uint64_t first;

    LOCK(w, .client = 1, .state = 3);
    first = free_all(w, 5, false).ticket.decision;
    assert_int_equal(notify(w, 5).ticket.decision, first);
    assert_int_equal(free_all(w, 5, false).ticket.decision, first);
    monitor_names(w, question(w), 5);
    decision(w);
    assert_int_equal(locks(w), 0);
    assert_int_equal(notify(w, 5).ticket.decision, 0);
    assert_int_equal(hf_core_counters(w->core)->notifies_in_repeated, 1);
}

/* Procedure 16 leads to a question to each client that has that name, and to no other. */
static void the_local_monitor_is_verified(void **state)
{
    struct world *w = *state;
    struct hf_sm_answer answer;

    LOCK(w, .client = 1, .state = 3);
    answer = hf_core_host_restarted(w->core, w->now, hf_bytes_str("client1"), 5);
    assert_true(answer.ok && answer.ticket.decision == 0);
    answer = hf_core_host_restarted(w->core, w->now, hf_bytes_str("CLIENT1.example"), 5);
    assert_int_not_equal(answer.ticket.decision, 0);
    monitor_names(w, question(w), 3);
    decision(w);
    assert_int_equal(locks(w), 1);
}

/* SEC-04f: a proven notice is not verified, and neither is one to an SM_MON registration. */
static void what_is_not_verified(void **state)
{
    struct world *w = *state;
    struct hf_addr from = world_addr(1);
    struct hf_peer local = {.addr = world_addr(9), .local = world_addr(250)};
    struct hf_mon_args args = {.mon_name = hf_bytes_str("10.0.0.7"),
                               .my_name = hf_bytes_str("localhost"),
                               .prog = 100021,
                               .vers = 3,
                               .proc = 16};
    struct hf_sm_answer answer;

    LOCK(w, .client = 1, .state = 3);
    answer = hf_core_sm_notify(w->core, w->now, &from, hf_bytes_str("client1"), 5, true);
    world_step(w);
    assert_int_equal(answer.ticket.decision, 0);
    assert_int_equal(locks(w), 0);

    assert_true(hf_core_sm_mon(w->core, w->now, &local, &args).ok);
    world_step(w);
    from = world_addr(7);
    answer = hf_core_sm_notify(w->core, w->now, &from, hf_bytes_str("peer"), 5, false);
    world_step(w);
    assert_int_equal(answer.ticket.decision, 0);
    assert_int_not_equal(world_call_of(w, HF_OUTCALL_STATUS).id, 0);
}

/* A verification outlives the locks and the registration of its client, and ends with the core. */
static void the_client_leaves_meanwhile(void **state)
{
    struct world *w = *state;
    uint64_t id;

    LOCK(w, .client = 1, .state = 3, .nm = true);
    notify(w, 5);
    id = question(w);
    UNLOCK(w, .client = 1);
    assert_int_equal(world_status(w).nlm_clients, 1);
    monitor_names(w, id, 5);
    assert_int_equal(decision(w).id, id);
    assert_int_equal(world_status(w).nlm_clients, 0);
    monitor_names(w, id, 5); /* a late answer: nothing is left of the verification */

    LOCK(w, .client = 1, .state = 3);
    notify(w, 7);
    world_crash(w);
    world_start(w);
    assert_int_equal(locks(w), 1);
}

/* An answer to a call of another kind decides nothing. */
static void an_answer_to_another_call(void **state)
{
    struct world *w = *state;
    uint64_t id;

    LOCK(w, .client = 1, .state = 3);
    world_restart(w);
    id = world_call_of(w, HF_OUTCALL_NOTIFY).id;
    assert_int_not_equal(id, 0);
    hf_core_stat_answered(w->core, w->now, id, 5);
    world_step(w);
    assert_int_equal(locks(w), 1);
}

/* At most notify_in_flight questions are in flight at a time. */
static void questions_are_bounded(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;

    world_crash(w);
    w->config.notify_in_flight = 2;
    world_start(w);
    for (int client = 1; client <= 5; client++) {
        struct hf_addr from = world_addr(client);
        struct hf_peer peer = world_peer(w, client);

        LOCK(w, .client = client, .state = 3, .fh = (const char *)peer.name.data);
        hf_core_sm_notify(w->core, w->now, &from, peer.name, 5, false);
    }
    question(w);
    call = world_call_of(w, HF_OUTCALL_STAT);
    assert_int_not_equal(call.id, 0);
    assert_int_equal(world_call_of(w, HF_OUTCALL_STAT).id, 0);
    monitor_names(w, call.id, 5);
    decision(w);
    question(w);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, open_verifying, close_world)
    const struct CMUnitTest tests[] = {
        T(a_forged_notice_ages_no_lock),
        T(a_forged_notice_before_the_first_state),
        T(the_monitor_decides),
        T(one_question_for_all_clients_of_a_host),
        T(a_silent_monitor_lets_the_notice_count),
        T(our_own_lack_decides_nothing),
        T(one_question_at_a_time),
        T(an_old_answer_is_not_used),
        T(the_new_life_keeps_what_it_gets_meanwhile),
        T(a_former_waiter_loses_what_it_got_meanwhile),
        T(free_all_is_verified),
        T(a_notice_joins_free_all),
        T(the_local_monitor_is_verified),
        T(what_is_not_verified),
        T(the_client_leaves_meanwhile),
        T(an_answer_to_another_call),
        T(questions_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
