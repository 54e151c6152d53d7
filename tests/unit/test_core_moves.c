/* Clients whose address changes (TRK-02, clients/moves.c, recovery/arrival.c). */
#include "core_world.h"

#define GRANTED HF_STAT_GRANTED
#define DENIED  HF_STAT_DENIED
#define GRACE   HF_STAT_DENIED_GRACE_PERIOD

static struct hf_network networks[] = {{{.family = HF_ADDR_IPV4, .bytes = {10, 0, 1}}, 24},
                                       {{.family = HF_ADDR_IPV4, .bytes = {10, 0, 0, 1}}, 32}};
static struct hf_vouch vouch;

static void vouched(struct world *w)
{
    world_open(w);
    vouch = (struct hf_vouch){hf_bytes_str("client1.example"), networks, HF_COUNT_OF(networks)};
    w->config.vouches = &vouch;
    w->config.n_vouches = 1;
    w->config.verify_notices = true;
}

static int open_vouched(void **state)
{
    struct world *w = test_malloc(sizeof(*w));

    vouched(w);
    world_start(w);
    *state = w;
    return 0;
}

static int close_vouched(void **state)
{
    world_close(*state);
    test_free(*state);
    return 0;
}

/* Lets requests come from another address from now on: 10.0.1.n, or (0) the first address of
 * client 1. */
static void come_from(struct world *w, int n)
{
    w->at = n ? world_addr(256 + n) : (struct hf_addr){0};
}

static struct hf_outcall_attempt question(struct world *w)
{
    struct hf_outcall_attempt call = world_call_of(w, HF_OUTCALL_STAT);

    if (call.id == 0) { /* the client was asked less than a second ago */
        world_later(w, 1000);
        call = world_call_of(w, HF_OUTCALL_STAT);
    }
    assert_int_not_equal(call.id, 0);
    assert_true(call.n_to == 1 && call.prog == 100024 && call.proc == 1);
    return call;
}

/* A client locks at its first address, and then from another one; returns the question to the
 * first. */
static struct hf_outcall_attempt lock_and_arrive(struct world *w, int32_t state)
{
    assert_int_equal(LOCK(w, .client = 1, .state = state), GRANTED);
    come_from(w, 7);
    assert_int_equal(LOCK(w, .client = 1, .state = state), GRACE);
    return question(w);
}

static void is_to(const struct hf_outcall_attempt *call, struct hf_addr addr)
{
    assert_true(hf_addr_same_host(&call->to[0], &addr));
}

static void silence(struct world *w, const struct hf_outcall_attempt *call)
{
    hf_core_outcall_done(w->core, w->now, call->id, HF_OUTCALL_FAILED, HF_ETIMEDOUT);
    world_step(w);
}

static void names(struct world *w, const struct hf_outcall_attempt *call, int32_t state)
{
    hf_core_stat_answered(w->core, w->now, call->id, state);
    world_step(w);
}

static struct hf_view_client client(struct world *w)
{
    struct hf_view_client view = {0};
    uint64_t cursor = 0;

    assert_int_equal(hf_core_view_clients(w->core, &cursor, UINT64_MAX, &view, 1), 1);
    return view;
}

static uint64_t locks(struct world *w)
{
    return world_status(w).locks;
}

/* TRK-02a: a request from a new address is put off until the old address has been asked; then the
 * client finds its own locks. */
static void a_client_that_moves_finds_its_locks(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;
    struct hf_event event;

    assert_int_equal(LOCK(w, .client = 1, .state = 3), GRANTED);
    come_from(w, 7);
    assert_int_equal(LOCK(w, .client = 1, .state = 3), GRACE);
    /* It would find nothing, and leave the lock in place. */
    assert_true(ASK(w, hf_core_unlock, .client = 1).silent);
    assert_int_equal(TEST(w, .client = 1), GRACE);
    call = question(w);
    is_to(&call, world_addr(1));
    silence(w, &call);
    assert_true(world_event(w, HF_EVENT_CLIENT_MOVED, &event));
    assert_int_equal(LOCK(w, .client = 1, .state = 3), GRANTED); /* a repeat of its own lock */
    assert_int_equal(world_status(w).nlm_clients, 1);
    assert_int_equal(LOCK(w, .client = 2), DENIED);
    assert_int_equal(UNLOCK(w, .client = 1), GRANTED);
    assert_int_equal(locks(w), 0);
}

/* TRK-02a: waiting requests are called back at the new address, and the state number that it gives
 * counts. */
static void callbacks_follow(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;

    assert_int_equal(LOCK(w, .client = 2), GRANTED);
    assert_int_equal(LOCK(w, .client = 1, .block = true, .state = 3), HF_STAT_BLOCKED);
    come_from(w, 7);
    assert_int_equal(LOCK(w, .client = 1, .fh = "g", .state = 3), GRACE);
    call = question(w);
    names(w, &call, 5); /* another host has the old address by now, and names its own state */
    assert_int_equal(LOCK(w, .client = 1, .fh = "g", .state = 3), GRANTED);
    come_from(w, 0);
    UNLOCK(w, .client = 2);
    call = world_call_of(w, HF_OUTCALL_GRANTED);
    assert_int_not_equal(call.id, 0);
    is_to(&call, world_addr(256 + 7));
}

/* TRK-02b: two live hosts with one name are two clients. */
static void two_hosts_with_one_name_are_not_merged(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;
    struct hf_event event;

    call = lock_and_arrive(w, 3);
    names(w, &call, 3);
    assert_true(world_event(w, HF_EVENT_CLIENT_DOUBLED, &event));
    assert_int_equal(event.addr.bytes[3], 7);
    assert_int_equal(LOCK(w, .client = 1, .state = 3), DENIED);
    assert_int_equal(LOCK(w, .client = 1, .state = 3, .fh = "g"), GRANTED);
    assert_int_equal(world_status(w).nlm_clients, 2);
}

/* TRK-02b: a request from the old address is as good as an answer. */
static void a_request_from_the_old_address_says_that_it_is_there(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;
    struct hf_event event;

    call = lock_and_arrive(w, 0);
    come_from(w, 0);
    assert_int_equal(LOCK(w, .client = 1, .fh = "g"), GRANTED);
    silence(w, &call);
    assert_true(
        hf_addr_same_host(&client(w).record.addrs[0],
                          &(struct hf_addr){.family = HF_ADDR_IPV4, .bytes = {10, 0, 0, 1}}));
    assert_true(world_event(w, HF_EVENT_CLIENT_DOUBLED, &event));
    come_from(w, 7); /* it is served as another client, and nobody is asked again */
    assert_int_equal(LOCK(w, .client = 1), DENIED);
    assert_int_equal(world_call_of(w, HF_OUTCALL_STAT).id, 0);
}

/* TRK-02b: that request also counts where the monitor there names another state than the LOCKs of
 * its host carry. Two hosts that count as one client would number their owners alike, and each
 * would be granted what the other holds. */
static void a_request_from_the_old_address_outweighs_its_monitor(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;

    call = lock_and_arrive(w, 3);
    come_from(w, 0);
    assert_int_equal(LOCK(w, .client = 1, .state = 3, .fh = "g"), GRANTED);
    names(w, &call, 9);
    come_from(w, 7);
    assert_int_equal(LOCK(w, .client = 1, .state = 3), DENIED);
}

/* TRK-02a, SEC-04: requests from ever more addresses, which may be forged, do not have a client
 * asked more than once a second. */
static void a_client_is_asked_once_a_second(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;

    call = lock_and_arrive(w, 3);
    names(w, &call, 3);
    come_from(w, 8);
    assert_int_equal(LOCK(w, .client = 1, .state = 3), GRACE);
    world_later(w, 999);
    assert_int_equal(world_call_of(w, HF_OUTCALL_STAT).id, 0);
    world_later(w, 1);
    call = question(w);
    names(w, &call, 3);
    assert_int_equal(LOCK(w, .client = 1, .state = 3), DENIED);
}

/* A question that could not be sent decides nothing. */
static void a_question_that_was_not_asked_decides_nothing(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;

    assert_int_equal(LOCK(w, .client = 1), GRANTED);
    come_from(w, 7);
    assert_int_equal(LOCK(w, .client = 1), GRACE);
    for (unsigned i = 0; i < w->config.call_attempts; i++) {
        call = question(w);
        hf_core_outcall_done(w->core, w->now, call.id, HF_OUTCALL_UNTRIED, HF_ENOMEM);
        assert_int_equal(LOCK(w, .client = 1), GRACE);
        world_later(w, 1000);
    }
    call = question(w);
    silence(w, &call);
    assert_int_equal(LOCK(w, .client = 1), GRANTED);
}

/* TRK-02b: if three questions in a row find no route to the old address, nobody there can talk to
 * us, and the client at the new address must not wait until there is a route. */
static void an_old_address_without_a_route_has_been_left(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;

    assert_int_equal(LOCK(w, .client = 1), GRANTED);
    come_from(w, 7);
    for (unsigned i = 0; i < w->config.call_attempts; i++) {
        assert_int_equal(LOCK(w, .client = 1), GRACE);
        call = question(w);
        hf_core_outcall_done(w->core, w->now, call.id, HF_OUTCALL_UNTRIED, HF_EUNREACH);
        world_later(w, 1000);
    }
    assert_int_equal(LOCK(w, .client = 1), GRANTED);
    assert_int_equal(locks(w), 1);
}

/* TRK-02c: the rule applies only to the vouched name, and only from the vouched networks. */
static void strangers_stay_strangers(void **state)
{
    struct world *w = *state;

    assert_int_equal(LOCK(w, .client = 1), GRANTED);
    w->at = world_addr(2 * 256 + 7); /* 10.0.2.7 */
    assert_int_equal(LOCK(w, .client = 1), DENIED);
    come_from(w, 7);
    assert_int_equal(LOCK(w, .client = 2), DENIED);
    assert_int_equal(world_call_of(w, HF_OUTCALL_STAT).id, 0);
}

/* TRK-02d: a client that uses several addresses at once is not asked. */
static void several_paths_are_one_client(void **state)
{
    struct world *w = *state;

    vouch.at_once = true;
    assert_int_equal(LOCK(w, .client = 1), GRANTED);
    for (int i = 0; i < 4; i++) {
        come_from(w, 7 * (i % 2));
        assert_int_equal(LOCK(w, .client = 1), GRANTED);
    }
    assert_int_equal(world_status(w).nlm_clients, 1);
    assert_int_equal(client(w).record.n_addrs, 2);
    assert_int_equal(world_call_of(w, HF_OUTCALL_STAT).id, 0);
}

/* TRK-02e: the store has the client's addresses, the newest first. The client is told of our
 * restart at the newest, and reclaims from a third address. */
static void a_restart_knows_the_address(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;

    assert_int_equal(LOCK(w, .client = 1), GRANTED);
    come_from(w, 7);
    LOCK(w, .client = 1);
    call = question(w);
    silence(w, &call);
    world_crash(w);
    world_start(w);
    call = world_call_of(w, HF_OUTCALL_NOTIFY);
    assert_int_equal(call.n_to, 1);
    is_to(&call, world_addr(256 + 7));
    come_from(w, 8);
    assert_true(ASK(w, hf_core_lock, .client = 1, .reclaim = true).silent);
    call = question(w);
    is_to(&call, world_addr(256 + 7));
    silence(w, &call);
    assert_int_equal(LOCK(w, .client = 1, .reclaim = true), GRANTED);
    assert_false(world_status(w).grace_active);
    assert_int_equal(client(w).record.n_addrs, 3);
}

/* TRK-02e: without the section in the configuration, only the newest recorded address is the
 * client's. */
static void a_client_that_is_not_vouched_for_any_more(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;

    assert_int_equal(LOCK(w, .client = 1), GRANTED);
    come_from(w, 7);
    LOCK(w, .client = 1);
    call = question(w);
    silence(w, &call);
    world_crash(w);
    w->config.n_vouches = 0;
    world_start(w);
    assert_int_equal(world_call_of(w, HF_OUTCALL_NOTIFY).n_to, 2);
    assert_int_equal(LOCK(w, .client = 1, .reclaim = true), GRANTED);
    come_from(w, 0);
    assert_int_equal(LOCK(w, .client = 1, .reclaim = true), GRACE);
}

/* A failed commit undoes the move; the client moves again. */
static void a_failed_commit_takes_the_move_back(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;

    assert_int_equal(LOCK(w, .client = 1), GRANTED);
    w->by_hand = true;
    come_from(w, 7);
    LOCK(w, .client = 1);
    call = question(w);
    silence(w, &call);
    assert_true(world_commit_one(w, HF_EIO));
    assert_int_equal(client(w).record.n_addrs, 1);
    assert_int_equal(LOCK(w, .client = 1), GRACE);
    call = question(w);
    silence(w, &call);
    w->by_hand = false;
    world_step(w);
    assert_int_equal(LOCK(w, .client = 1), GRANTED);
}

/* SEC-02: a move that is undone charges the client to its old address again: another client at the
 * new one has that address's quota for itself. */
static void a_move_that_is_undone_changes_no_account(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;

    w->config.limits.clients_per_host = 1;
    world_restart(w);
    assert_int_equal(LOCK(w, .client = 1), GRANTED);
    w->by_hand = true;
    come_from(w, 7);
    LOCK(w, .client = 1);
    call = question(w);
    silence(w, &call);
    assert_true(world_commit_one(w, HF_EIO));
    w->by_hand = false;
    world_step(w);
    assert_int_equal(LOCK(w, .client = 2, .fh = "g"), GRANTED);
}

/* A client that has had many addresses forgets the oldest. */
static void the_oldest_address_goes(void **state)
{
    struct world *w = *state;

    assert_int_equal(LOCK(w, .client = 1), GRANTED);
    for (int i = 1; i <= 10; i++) {
        struct hf_outcall_attempt call;
        come_from(w, i);
        LOCK(w, .client = 1);
        call = question(w);
        silence(w, &call);
        assert_int_equal(LOCK(w, .client = 1), GRANTED);
    }
    assert_int_equal(client(w).record.n_addrs, HF_CLIENT_ADDRS_MAX);
    assert_int_equal(client(w).record.addrs[0].bytes[3], 10);
    assert_int_equal(world_status(w).nlm_clients, 1);
}

static struct hf_sm_answer notify(struct world *w, int n, int32_t state)
{
    struct hf_addr from = world_addr(256 + n);
    struct hf_sm_answer answer =
        hf_core_sm_notify(w->core, w->now, &from, hf_bytes_str("client1.example"), state, false);

    world_step(w);
    return answer;
}

/* TRK-02f: a client that was booted, and has another address since, is believed where it answers.
 */
static void a_notice_from_another_address_counts(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;

    assert_int_equal(LOCK(w, .client = 1, .state = 3), GRANTED);
    assert_true(notify(w, 7, 5).ticket.decision != 0);
    call = question(w);
    is_to(&call, world_addr(256 + 7));
    names(w, &call, 5);
    call = question(w);
    is_to(&call, world_addr(1));
    names(w, &call, 9); /* another host has the old address now, and names its own state */
    assert_int_equal(locks(w), 0);
}

/* TRK-02f: a forged notice does not count: its sender does not answer, and the client does. */
static void a_forged_notice_from_a_vouched_address_is_refuted(void **state)
{
    struct world *w = *state;
    struct hf_decision made;
    struct hf_outcall_attempt call;

    assert_int_equal(LOCK(w, .client = 1, .state = 3), GRANTED);
    notify(w, 7, 5);
    call = question(w);
    silence(w, &call);
    call = question(w);
    is_to(&call, world_addr(1));
    names(w, &call, 3);
    assert_int_equal(locks(w), 1);
    assert_int_equal(hf_core_counters(w->core)->notifies_in_refuted, 1);
    assert_true(hf_core_next_decision(w->core, &made));
    world_later(w, 10000);
    notify(w, 7, 5);
    call = question(w);
    silence(w, &call);
    call = question(w);
    silence(w, &call); /* no host answers anywhere, as while a client boots */
    assert_int_equal(locks(w), 0);
}

/* Memory runs out once at each point of a move. */
static void memory_runs_out(void **state)
{
    struct world *w = *state;

    for (long n = 0; n < 40; n++) {
        struct hf_outcall_attempt call;
        come_from(w, 0);
        assert_int_equal(LOCK(w, .client = 1), GRANTED);
        w->heap.after = n;
        come_from(w, 7);
        LOCK(w, .client = 1);
        call = world_call_of(w, HF_OUTCALL_STAT);
        if (call.id)
            silence(w, &call);
        w->heap.after = -1;
        for (int i = 0; i < 2 && LOCK(w, .client = 1) != GRANTED; i++) {
            call = question(w);
            silence(w, &call);
        }
        assert_int_equal(LOCK(w, .client = 1), GRANTED);
        assert_int_equal(world_status(w).nlm_clients, 1);
        world_close(w);
        vouched(w);
        world_start(w);
    }
}

/* Moves client 1 to 10.0.1.n: no host answers at its old address. */
static void move_to(struct world *w, int n)
{
    struct hf_outcall_attempt call;

    come_from(w, n);
    LOCK(w, .client = 1);
    call = question(w);
    silence(w, &call);
}

/* TRK-02e: a move back to an earlier address is a move, too: if its commit fails, the client must
 * not be at that address without a record that says so. */
static void a_failed_commit_takes_the_way_back_back(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;

    assert_int_equal(LOCK(w, .client = 1), GRANTED);
    move_to(w, 7);
    w->by_hand = true;
    move_to(w, 0);
    assert_true(world_commit_one(w, HF_EIO));
    w->by_hand = false;
    if (LOCK(w, .client = 1, .fh = "g") == GRACE) { /* the client moves once more */
        call = question(w);
        silence(w, &call);
        assert_int_equal(LOCK(w, .client = 1, .fh = "g"), GRANTED);
    }
    world_crash(w);
    world_start(w);
    call = world_call_of(w, HF_OUTCALL_NOTIFY);
    is_to(&call, world_addr(1));
}

/* A move that is undone must not lead to the address of another client of that name. */
static void a_move_back_to_an_address_that_is_taken(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;
    struct hf_view_client views[4];
    uint64_t cursor = 0;
    size_t n;

    assert_int_equal(LOCK(w, .client = 1, .state = 3), GRANTED);
    w->by_hand = true;
    move_to(w, 7);
    come_from(w, 0);
    assert_int_equal(LOCK(w, .client = 1, .state = 3), GRACE);
    call = question(w);
    names(w, &call, 3); /* the old host answers, so there are two hosts */
    assert_int_equal(LOCK(w, .client = 1, .state = 3, .block = true), HF_STAT_BLOCKED);
    assert_true(world_commit_one(w, HF_EIO));
    n = hf_core_view_clients(w->core, &cursor, UINT64_MAX, views, 4);
    for (size_t i = 1; i < n; i++)
        assert_false(hf_addr_same_host(&views[0].record.addrs[0], &views[i].record.addrs[0]));
    w->by_hand = false;
    come_from(w, 7);
    assert_int_equal(LOCK(w, .client = 1, .fh = "g", .state = 3), GRANTED);
    world_crash(w);
    world_start(w);
    call = world_call_of(w, HF_OUTCALL_NOTIFY); /* the record has followed the client */
    is_to(&call, world_addr(256 + 7));
}

/* TRK-02b: a request of any kind says that the client is there, also one that finds nothing. */
static void an_unlock_of_nothing_from_the_old_address_counts(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;

    call = lock_and_arrive(w, 0);
    come_from(w, 0);
    assert_int_equal(UNLOCK(w, .client = 1, .fh = "g"), GRANTED);
    assert_int_equal(TEST(w, .client = 1, .fh = "g"), GRANTED);
    silence(w, &call);
    is_to(&(struct hf_outcall_attempt){.to = {client(w).record.addrs[0]}}, world_addr(1));
}
static struct hf_sm_answer notify_as(struct world *w, const char *name, struct hf_addr from,
                                     int32_t state)
{
    struct hf_sm_answer answer =
        hf_core_sm_notify(w->core, w->now, &from, hf_bytes_str(name), state, false);

    world_step(w);
    return answer;
}

/* Another host has the address now, and has just booted. */
static void boot(struct world *w, const char *name, struct hf_addr from, int32_t state)
{
    struct hf_outcall_attempt call;

    notify_as(w, name, from, state);
    while ((call = world_call_of(w, HF_OUTCALL_STAT)).id != 0)
        names(w, &call, hf_addr_same_host(&call.to[0], &from) ? state : 3);
}

/* TRK-02c: a host that got the client's former address is another client. It has just booted, and
 * gives its address as its name. */
static void the_next_host_at_an_old_address_is_another(void **state)
{
    struct world *w = *state;

    assert_int_equal(LOCK(w, .client = 1, .state = 3), GRANTED);
    move_to(w, 7);
    notify_as(w, "10.0.0.1", world_addr(1), 9);
    /* The notice is about a stranger, so no host is asked. */
    assert_int_equal(world_call_of(w, HF_OUTCALL_STAT).id, 0);
    assert_int_equal(locks(w), 1);
}

/* TRK-02b: of two hosts with one name one is booted; the other keeps its locks. */
static void one_of_two_hosts_with_one_name_is_booted(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;

    assert_int_equal(LOCK(w, .client = 1, .state = 3), GRANTED);
    come_from(w, 7);
    LOCK(w, .client = 1, .fh = "g", .state = 5);
    call = question(w);
    names(w, &call, 3);
    assert_int_equal(LOCK(w, .client = 1, .fh = "g", .state = 5), GRANTED);
    boot(w, "client1.example", world_addr(256 + 7), 7);
    assert_int_equal(locks(w), 1);
}

/* TRK-02f, SEC-01: the short name of a host may be that of other hosts as well. */
static void a_short_name_is_that_of_others_too(void **state)
{
    struct world *w = *state;

    assert_int_equal(LOCK(w, .client = 1, .state = 3), GRANTED);
    notify_as(w, "client1", world_addr(256 + 7), 9);
    /* The notice is about a stranger, so no host is asked. */
    assert_int_equal(world_call_of(w, HF_OUTCALL_STAT).id, 0);
    assert_int_equal(locks(w), 1);
}

/* TRK-02f, SEC-04: a notice is forged with the address and the state number of any host of the
 * networks; the client is alive, and its monitor contradicts it. */
static void a_notice_forged_with_the_state_of_another_host(void **state)
{
    struct world *w = *state;

    assert_int_equal(LOCK(w, .client = 1, .state = 3), GRANTED);
    boot(w, "client1.example", world_addr(256 + 9), 11);
    assert_int_equal(locks(w), 1);
    assert_int_equal(hf_core_counters(w->core)->notifies_in_refuted, 1);
    assert_int_equal(LOCK(w, .client = 2), DENIED);
}

/* TRK-02b, SEC-04f: root of a host proves what it says of its own host, not of another one. */
static void what_another_host_proves_is_verified(void **state)
{
    struct world *w = *state;
    struct hf_addr from = world_addr(256 + 7);
    struct hf_outcall_attempt call;

    assert_int_equal(LOCK(w, .client = 1, .state = 3), GRANTED);
    hf_core_sm_notify(w->core, w->now, &from, hf_bytes_str("client1.example"), 7, true);
    world_step(w);
    assert_int_equal(locks(w), 1);
    call = question(w);
    is_to(&call, from);
    names(w, &call, 7);
    call = question(w);
    is_to(&call, world_addr(1));
    names(w, &call, 3);
    assert_int_equal(locks(w), 1);
}

/* TRK-02a: a callback that is on its way to the old address is made again at the new one. What the
 * next host at the old address says about it is not the client's answer. */
static void a_callback_on_its_way_follows(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt stat, call, again;

    assert_int_equal(LOCK(w, .client = 2), GRANTED);
    assert_int_equal(LOCK(w, .client = 1, .block = true, .state = 3), HF_STAT_BLOCKED);
    come_from(w, 7);
    assert_int_equal(LOCK(w, .client = 1, .block = true, .state = 3), GRACE);
    stat = question(w);
    come_from(w, 0);
    UNLOCK(w, .client = 2);
    call = world_call_of(w, HF_OUTCALL_GRANTED);
    is_to(&call, world_addr(1));
    names(w, &stat, 9); /* another host has that address now, and names its own state */
    world_called(w, call.id, HF_OUTCALL_DENIED);
    assert_int_equal(LOCK(w, .client = 2), DENIED);
    again = world_call_of(w, HF_OUTCALL_GRANTED);
    assert_int_not_equal(again.id, 0);
    is_to(&again, world_addr(256 + 7));
    /* The client had taken the lock at the first call. */
    world_called(w, again.id, HF_OUTCALL_DENIED);
    assert_int_equal(LOCK(w, .client = 2), DENIED);
}

/* TRK-02f, SEC-04f: FREE_ALL from an address that the client has left is verified, whoever sends
 * it. */
static void free_all_from_an_old_address_is_verified(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;
    struct hf_peer peer;

    assert_int_equal(LOCK(w, .client = 1, .state = 3), GRANTED);
    move_to(w, 7);
    come_from(w, 0);
    peer = world_peer(w, 1);
    hf_core_free_all(w->core, w->now, &peer, 9, true);
    world_step(w);
    assert_int_equal(locks(w), 1);
    call = question(w);
    is_to(&call, world_addr(1));
    names(w, &call, 9);
    call = question(w);
    is_to(&call, world_addr(256 + 7));
    names(w, &call, 3);
    assert_int_equal(locks(w), 1);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, open_vouched, close_vouched)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_client_that_moves_finds_its_locks),
        CASE(callbacks_follow),
        CASE(two_hosts_with_one_name_are_not_merged),
        CASE(a_request_from_the_old_address_says_that_it_is_there),
        CASE(a_request_from_the_old_address_outweighs_its_monitor),
        CASE(a_client_is_asked_once_a_second),
        CASE(a_question_that_was_not_asked_decides_nothing),
        CASE(an_old_address_without_a_route_has_been_left),
        CASE(strangers_stay_strangers),
        CASE(several_paths_are_one_client),
        CASE(a_restart_knows_the_address),
        CASE(a_client_that_is_not_vouched_for_any_more),
        CASE(a_failed_commit_takes_the_move_back),
        CASE(a_move_that_is_undone_changes_no_account),
        CASE(the_oldest_address_goes),
        CASE(a_notice_from_another_address_counts),
        CASE(a_forged_notice_from_a_vouched_address_is_refuted),
        CASE(memory_runs_out),
        CASE(a_failed_commit_takes_the_way_back_back),
        CASE(a_move_back_to_an_address_that_is_taken),
        CASE(an_unlock_of_nothing_from_the_old_address_counts),
        CASE(the_next_host_at_an_old_address_is_another),
        CASE(one_of_two_hosts_with_one_name_is_booted),
        CASE(a_notice_forged_with_the_state_of_another_host),
        CASE(what_another_host_proves_is_verified),
        CASE(a_callback_on_its_way_follows),
        CASE(free_all_from_an_old_address_is_verified),
        CASE(a_short_name_is_that_of_others_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
