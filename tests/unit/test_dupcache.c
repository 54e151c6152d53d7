/* The duplicate request cache: an answer that was given once is given again to a repeat, for a
 * while. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "rpc/dupcache.h"
#include "rpc/program.h"

static struct faulty_heap heap;
static struct hf_alloc alloc;
static struct hf_dupcache cache;
static struct hf_addr alice, bob, local;
static enum hf_transport transport;
static struct hf_dup_host alice_dups, bob_dups;
static struct hf_dup_host *last_emptied;
static struct hf_rpc_call work; /* stands for a call that a handler works on */

static void on_emptied(void *ctx, struct hf_dup_host *host)
{
    assert_ptr_equal(ctx, &cache);
    /* The cache no longer uses this host, so it may be freed. */
    assert_ptr_not_equal(cache.largest, host);
    last_emptied = host;
}

static int begin(void **state)
{
    struct hf_hash_key key = {1, 2};

    (void)state;
    heap = (struct faulty_heap){.after = 1000000};
    alloc = faulty_alloc(&heap);
    work = (struct hf_rpc_call){0};
    hf_addr_parse("192.0.2.1", &alice);
    hf_addr_parse("2001:db8::2", &bob);
    hf_addr_parse("192.0.2.9", &local);
    transport = HF_TRANSPORT_TCP;
    alice.port = 700;
    alice_dups = bob_dups = (struct hf_dup_host){0};
    last_emptied = NULL;
    return hf_dupcache_init(&cache, &key, &alloc, on_emptied, &cache);
}

static int end(void **state)
{
    (void)state;
    hf_dupcache_free(&cache);
    return heap.live == 0 ? 0 : -1;
}

static enum hf_dup_verdict check(uint64_t now_ms, const struct hf_addr *peer, uint32_t xid,
                                 const char *message, struct hf_dup **entry)
{
    char bytes[64];
    /* The message contains the xid. */
    int len = snprintf(bytes, sizeof(bytes), "%u %s", xid, message);

    struct hf_dup_host *host = hf_addr_same_host(peer, &alice) ? &alice_dups : &bob_dups;
    const struct hf_dup_path path = {peer, &local, transport};

    return hf_dupcache_check(&cache, now_ms, host, xid,
                             hf_dupcache_hash(&cache, host, &path, hf_bytes(bytes, (size_t)len)),
                             entry);
}

/* Asks as dispatch does: the entry of a new request points at its call, and the call at the entry.
 */
static struct hf_dup *ask_new(uint64_t now_ms, uint32_t xid, const char *message)
{
    struct hf_dup *entry;

    assert_int_equal(check(now_ms, &alice, xid, message, &entry), HF_DUP_NEW);
    entry->call = &work;
    work.dup = entry;
    return entry;
}

static void expect_answer(uint64_t now_ms, uint32_t xid, const char *message, const char *answer)
{
    struct hf_dup *entry;

    assert_int_equal(check(now_ms, &alice, xid, message, &entry), HF_DUP_ANSWERED);
    assert_true(hf_bytes_equal(hf_dup_reply(entry), hf_bytes_str(answer)));
}

/* A request is first new; then in flight, by the same call; then answered, with the same bytes each
 * time. */
static void a_request_is_new_then_in_flight_then_answered(void **state)
{
    struct hf_dup *first = ask_new(1000, 5, "lock");
    struct hf_dup *again;

    (void)state;
    assert_int_equal(check(1001, &alice, 5, "lock", &again), HF_DUP_IN_FLIGHT);
    assert_ptr_equal(again, first);
    assert_ptr_equal(again->call, &work);
    hf_dup_answer(&cache, first, hf_bytes_str("granted"));
    expect_answer(1002, 5, "lock", "granted");
    expect_answer(1003, 5, "lock", "granted");
}

/* RPC-01b: another xid, other bytes, or another host make another request; another port does not.
 */
static void only_the_same_request_of_the_same_host_is_a_repeat(void **state)
{
    struct hf_dup *entry = ask_new(1000, 5, "lock");
    struct hf_addr reconnected = alice;

    (void)state;
    hf_dup_answer(&cache, entry, hf_bytes_str("granted"));
    assert_int_equal(check(1001, &alice, 6, "lock", &entry), HF_DUP_NEW);
    assert_int_equal(check(1001, &alice, 5, "unlock", &entry), HF_DUP_NEW);
    assert_int_equal(check(1001, &bob, 5, "lock", &entry), HF_DUP_NEW);
    reconnected.port = 701;
    assert_int_equal(check(1001, &reconnected, 5, "lock", &entry), HF_DUP_ANSWERED);
}

/* RPC-01b, NLM-07a: equal bytes to another address of ours, or by another transport, come from
 * another client, which must not get the answer to the first. */
static void the_same_bytes_of_another_client_are_another_request(void **state)
{
    struct hf_dup *entry = ask_new(1000, 5, "lock");
    struct hf_addr first = local;

    (void)state;
    hf_dup_answer(&cache, entry, hf_bytes_str("granted"));
    hf_addr_parse("192.0.2.10", &local);
    assert_int_equal(check(1001, &alice, 5, "lock", &entry), HF_DUP_NEW);
    local = first;
    transport = HF_TRANSPORT_UDP;
    assert_int_equal(check(1001, &alice, 5, "lock", &entry), HF_DUP_NEW);
    transport = HF_TRANSPORT_TCP;
    expect_answer(1002, 5, "lock", "granted");
}

/* RPC-01b, TRK-02d: a client that uses several addresses at a time is one host. */
static void a_client_with_several_addresses_is_one_host(void **state)
{
    struct hf_dup *entry = ask_new(1000, 5, "lock");

    (void)state;
    hf_dup_forget(&cache, entry);
    alice_dups.roams = bob_dups.roams = true;
    entry = ask_new(1000, 5, "lock");
    hf_dup_answer(&cache, entry, hf_bytes_str("granted"));
    assert_int_equal(check(1001, &bob, 5, "lock", &entry), HF_DUP_ANSWERED);
    bob_dups.roams = false;
    assert_int_equal(check(1001, &bob, 5, "lock", &entry), HF_DUP_NEW);
}

static void an_answer_lasts_for_the_window_and_no_longer(void **state)
{
    struct hf_dup *entry = ask_new(1000, 5, "lock");

    (void)state;
    hf_dup_answer(&cache, entry, hf_bytes_str("granted"));
    expect_answer(1000 + HF_DUP_WINDOW_MS, 5, "lock", "granted");
    assert_int_equal(check(1000 + HF_DUP_WINDOW_MS + 1, &alice, 5, "lock", &entry), HF_DUP_NEW);
}

/* Given a host with as many entries as it may have, a new request takes the place of the oldest; a
 * call in progress is kept. */
static void the_oldest_makes_way_for_the_newest(void **state)
{
    struct hf_dup *first = ask_new(1000, 0, "lock");
    struct hf_rpc_call unfinished = {.dup = first};
    struct hf_dup *entry;

    (void)state;
    first->call = &unfinished;
    for (uint32_t xid = 1; xid < HF_DUP_HOST_MAX; xid++)
        hf_dup_answer(&cache, ask_new(1000, xid, "lock"), hf_bytes_str("granted"));
    assert_ptr_equal(unfinished.dup, first);
    expect_answer(1000, HF_DUP_HOST_MAX - 1, "lock", "granted");
    hf_dup_answer(&cache, ask_new(1000, HF_DUP_HOST_MAX, "lock"), hf_bytes_str("granted"));
    assert_null(unfinished.dup);
    assert_int_equal(check(1000, &alice, 0, "lock", &entry), HF_DUP_NEW);
}

/* The index has room for nearly all entries, and where it has none, an entry is forgotten. */
static void nearly_all_that_fit_are_found_again(void **state)
{
    uint32_t found = 0;

    (void)state;
    for (uint32_t xid = 0; xid < HF_DUP_HOST_MAX; xid++)
        hf_dup_answer(&cache, ask_new(1000, xid, "lock"), hf_bytes_str("granted"));
    for (uint32_t xid = HF_DUP_HOST_MAX; xid-- > 0;) {
        struct hf_dup *entry;
        enum hf_dup_verdict verdict = check(1000, &alice, xid, "lock", &entry);

        if (verdict == HF_DUP_NEW)
            hf_dup_forget(&cache, entry);
        else
            found += verdict == HF_DUP_ANSWERED;
    }
    assert_between(found, HF_DUP_HOST_MAX * 9 / 10, HF_DUP_HOST_MAX);
}

/* Given twice as many requests as a host may have entries, the cache keeps no more than that for
 * it. */
static void the_cache_stays_bounded(void **state)
{
    (void)state;
    for (uint32_t xid = 0; xid < 2 * HF_DUP_HOST_MAX; xid++) {
        char large[HF_DUP_INLINE + 1];

        memset(large, 'x', sizeof(large));
        hf_dup_answer(&cache, ask_new(1000, xid, "lock"), hf_bytes(large, sizeof(large)));
        /* Blocks for large answers, sets and entries. */
        assert_true(heap.live <= HF_DUP_HOST_MAX + 2);
    }
}

/* ---- hosts ---- */

enum { CROWD = 64 };

static struct hf_dup_host crowd[CROWD];

static enum hf_dup_verdict check_for(struct hf_dup_host *host, uint64_t now_ms, uint32_t number,
                                     struct hf_dup **entry)
{
    uint32_t who = (uint32_t)(host - crowd);
    uint32_t words[] = {who, number};

    const struct hf_dup_path path = {&alice, &local, transport};

    return hf_dupcache_check(&cache, now_ms, host, number,
                             hf_dupcache_hash(&cache, host, &path, hf_bytes(words, sizeof(words))),
                             entry);
}

static void ask_for(struct hf_dup_host *host, uint64_t now_ms, uint32_t first, uint32_t n)
{
    for (uint32_t i = first; i < first + n; i++) {
        struct hf_dup *entry;

        assert_int_equal(check_for(host, now_ms, i, &entry), HF_DUP_NEW);
        hf_dup_answer(&cache, entry, hf_bytes_str("granted"));
    }
}

static uint32_t found_of(struct hf_dup_host *host, uint64_t now_ms, uint32_t first, uint32_t n)
{
    uint32_t found = 0;

    for (uint32_t i = first; i < first + n; i++) {
        struct hf_dup *entry;

        if (check_for(host, now_ms, i, &entry) == HF_DUP_ANSWERED)
            found++;
        else
            hf_dup_forget(&cache, entry);
    }
    return found;
}

/* SEC-08: a host that floods the cache pushes out its own answers, not those of another host. */
static void a_flood_of_one_host_leaves_the_answers_of_others(void **state)
{
    (void)state;
    memset(crowd, 0, sizeof(crowd));
    ask_for(&crowd[0], 1000, 0, 100);
    ask_for(&crowd[1], 1000, 0, 3 * HF_DUP_ENTRIES);
    assert_int_equal(found_of(&crowd[0], 1000, 0, 100), 100);
    assert_true(crowd[1].n <= HF_DUP_HOST_MAX);
}

/* Many hosts that fill the whole cache do not push out answers of a host that has no more than an
 * equal share. */
static void a_full_cache_is_shared(void **state)
{
    (void)state;
    memset(crowd, 0, sizeof(crowd));
    for (uint32_t i = 1; i < CROWD; i++)
        ask_for(&crowd[i], 1000, 0, HF_DUP_ENTRIES / 8);
    assert_int_equal(cache.n_used, HF_DUP_ENTRIES);
    ask_for(&crowd[0], 1000, 0, 500);
    for (uint32_t i = 1; i < CROWD; i++)
        ask_for(&crowd[i], 1000, HF_DUP_ENTRIES / 8, 1000);
    /* The index may have no slot for some. */
    assert_between(found_of(&crowd[0], 1000, 0, 500), 495, 500);
}

/* Entries of hosts that have gone make room for those that come; the owner of the host is told. */
static void answers_out_of_date_make_way_first(void **state)
{
    uint64_t later = 1000 + HF_DUP_WINDOW_MS + 1;
    uint32_t left = 0;

    (void)state;
    memset(crowd, 0, sizeof(crowd));
    for (uint32_t i = 2; i < CROWD; i++)
        ask_for(&crowd[i], 1000, 0, HF_DUP_ENTRIES / (CROWD - 2) + 1);
    ask_for(&crowd[0], later, 0, HF_DUP_HOST_MAX);
    assert_int_equal(crowd[0].n, HF_DUP_HOST_MAX);
    for (uint32_t i = 1; i < 5; i++)
        ask_for(&crowd[1], later, i * HF_DUP_HOST_MAX, HF_DUP_HOST_MAX);
    for (uint32_t i = 2; i < CROWD; i++)
        left += crowd[i].n;
    assert_int_equal(left, HF_DUP_ENTRIES - crowd[0].n - crowd[1].n);
    for (uint32_t n = 0; n < 4; n++)
        ask_for(&bob_dups, later, n * HF_DUP_HOST_MAX, HF_DUP_HOST_MAX);
    assert_non_null(last_emptied);
    assert_int_equal(last_emptied->n, 0);
}

/* Two requests whose hashes are the same are told apart by host and by transaction id. */
static void equal_hashes_prove_nothing(void **state)
{
    const uint64_t hash = UINT64_C(0x123456789abcdef1);
    struct hf_dup *entry;

    (void)state;
    assert_int_equal(hf_dupcache_check(&cache, 1000, &alice_dups, 5, hash, &entry), HF_DUP_NEW);
    hf_dup_answer(&cache, entry, hf_bytes_str("granted"));
    assert_int_equal(hf_dupcache_check(&cache, 1000, &alice_dups, 6, hash, &entry), HF_DUP_NEW);
    assert_int_equal(hf_dupcache_check(&cache, 1000, &bob_dups, 5, hash, &entry), HF_DUP_NEW);
    assert_int_equal(hf_dupcache_check(&cache, 1000, &alice_dups, 5, hash, &entry),
                     HF_DUP_ANSWERED);
}

/* A host's oldest answer decides: a host that also has new answers gives up what is out of date. */
static void an_old_answer_makes_way_although_its_host_has_new_ones(void **state)
{
    const uint64_t later = 1000 + HF_DUP_WINDOW_MS + 1;

    (void)state;
    memset(crowd, 0, sizeof(crowd));
    ask_for(&crowd[0], 1000, 0, 100);
    ask_for(&crowd[0], later, 100, 1);
    for (uint32_t i = 1; i < 4; i++)
        ask_for(&crowd[i], later, 0, HF_DUP_HOST_MAX);
    ask_for(&crowd[4], later, 0, HF_DUP_ENTRIES - cache.n_used);
    ask_for(&crowd[5], later, 0, 1);
    assert_int_equal(crowd[0].n, 100);
}

enum { HOSTS = HF_DUP_ENTRIES };
static struct hf_dup_host many[HOSTS];

static void ask_once(struct hf_dup_host *host, uint64_t now_ms, uint32_t number)
{
    uint32_t words[] = {(uint32_t)(host - many), number};
    const struct hf_dup_path path = {&bob, &local, transport};
    struct hf_dup *entry;

    (void)hf_dupcache_check(&cache, now_ms, host, number,
                            hf_dupcache_hash(&cache, host, &path, hf_bytes(words, sizeof(words))),
                            &entry);
}

/* The owner of a host's entries frees the host when it is told that it has none: it must not be
 * told so of the host that is about to get one, and nothing may lead there afterwards. */
static void a_host_without_entries_is_forgotten(void **state)
{
    const uint64_t later = 1000 + HF_DUP_WINDOW_MS + 1;

    (void)state;
    memset(many, 0, sizeof(many));
    ask_once(&many[0], 1000, 1);
    ask_once(&many[0], 1000, 2);
    for (uint32_t i = 1; i < HOSTS - 1; i++)
        ask_once(&many[i], later, 1);
    assert_int_equal(cache.n_used, HF_DUP_ENTRIES);
    assert_ptr_equal(cache.largest, &many[0]);
    ask_once(&many[0], later, 3); /* this host gives up one of its own entries */
    cache.hand = 0;
    ask_once(&many[HOSTS - 1], later, 1);
    assert_int_equal(many[0].n, 1);
    cache.hand = 0;
    cache.entries[many[0].oldest].born_ms = 1000;
    ask_once(&many[0], later, 4);
    assert_int_equal(many[0].n, 1);
    assert_null(last_emptied);
    cache.hand = 0;
    cache.entries[many[0].oldest].born_ms = 1000;
    ask_once(&many[HOSTS - 1], later, 2);
    assert_ptr_equal(last_emptied, &many[0]);
    assert_ptr_not_equal(cache.largest, &many[0]);
}

static void answers_of_every_size_come_back_whole(void **state)
{
    static const size_t sizes[] = {1, HF_DUP_INLINE, HF_DUP_INLINE + 1, 60000};
    static uint8_t answer[60000];
    struct hf_dup *entry;

    (void)state;
    for (size_t i = 0; i < sizeof(answer); i++)
        answer[i] = (uint8_t)(i * 7);
    for (uint32_t i = 0; i < HF_COUNT_OF(sizes); i++) {
        hf_dup_answer(&cache, ask_new(1000, i, "dump"), hf_bytes(answer, sizes[i]));
        assert_int_equal(check(1000, &alice, i, "dump", &entry), HF_DUP_ANSWERED);
        assert_true(hf_bytes_equal(hf_dup_reply(entry), hf_bytes(answer, sizes[i])));
    }
}

/* An answer for which there is no memory is forgotten: its repeat is executed anew, and not
 * answered wrongly. */
static void an_answer_that_finds_no_memory_is_forgotten(void **state)
{
    char large[HF_DUP_INLINE + 1] = {0};
    struct hf_dup *entry = ask_new(1000, 5, "lock");

    (void)state;
    heap.after = 0;
    hf_dup_answer(&cache, entry, hf_bytes(large, sizeof(large)));
    assert_null(work.dup);
    assert_int_equal(check(1001, &alice, 5, "lock", &entry), HF_DUP_NEW);
    entry->call = &work;
    hf_dup_answer(&cache, entry, hf_bytes_str("small answers need none"));
    expect_answer(1002, 5, "lock", "small answers need none");
}

static void a_forgotten_request_is_new_again(void **state)
{
    struct hf_dup *entry = ask_new(1000, 5, "lock");

    (void)state;
    hf_dup_forget(&cache, entry);
    assert_null(work.dup);
    ask_new(1001, 5, "lock");
}

static void it_does_not_start_without_memory(void **state)
{
    struct hf_hash_key key = {1, 2};
    struct hf_dupcache other;
    long live = heap.live;

    (void)state;
    for (long after = 0; after < 2; after++) {
        heap.after = after;
        assert_int_equal(hf_dupcache_init(&other, &key, &alloc, NULL, NULL), HF_ENOMEM);
        assert_int_equal(heap.live, live);
    }
}

#define STORY(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_request_is_new_then_in_flight_then_answered),
        STORY(only_the_same_request_of_the_same_host_is_a_repeat),
        STORY(the_same_bytes_of_another_client_are_another_request),
        STORY(a_client_with_several_addresses_is_one_host),
        STORY(an_answer_lasts_for_the_window_and_no_longer),
        STORY(the_oldest_makes_way_for_the_newest),
        STORY(nearly_all_that_fit_are_found_again),
        STORY(the_cache_stays_bounded),
        STORY(a_flood_of_one_host_leaves_the_answers_of_others),
        STORY(a_full_cache_is_shared),
        STORY(answers_out_of_date_make_way_first),
        STORY(equal_hashes_prove_nothing),
        STORY(an_old_answer_makes_way_although_its_host_has_new_ones),
        STORY(a_host_without_entries_is_forgotten),
        STORY(answers_of_every_size_come_back_whole),
        STORY(an_answer_that_finds_no_memory_is_forgotten),
        STORY(a_forgotten_request_is_new_again),
        STORY(it_does_not_start_without_memory),
    };
    return cmocka_run_group_tests_name("dupcache", tests, NULL, NULL);
}
