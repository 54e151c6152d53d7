/* The small tools: map, list, buffer, hash, addresses, errors, log. */
#include "unit.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/log.h"
#include "base/log_queue.h"
#include "base/map.h"
#include "base/text.h"
#include "base/trust.h"
#include "base/utf8.h"

struct thing {
    struct hf_map_node node;
    struct hf_list link;
    uint64_t key;
};

static bool thing_matches(const struct hf_map_node *node, const void *key)
{
    return hf_container_of(node, struct thing, node)->key == *(const uint64_t *)key;
}

static struct thing *thing_find(struct hf_map *map, uint64_t hash, uint64_t key)
{
    struct hf_map_node *node = hf_map_find(map, hash, thing_matches, &key);

    return node ? hf_container_of(node, struct thing, node) : NULL;
}

static bool count_and_remove(struct hf_map_node *node, void *ctx)
{
    hf_map_remove(ctx, node);
    return true;
}

/* Given a map that grows through several doublings, every node is found at every step. */
static void map_finds_all_while_it_grows(void **state)
{
    enum { N = 5000 };
    static struct thing things[N];
    struct hf_hash_key key = {1, 2};
    struct hf_map map;

    (void)state;
    assert_int_equal(hf_map_init(&map, &hf_alloc_heap), 0);
    for (uint64_t i = 0; i < N; i++) {
        things[i].key = i;
        hf_map_insert(&map, &things[i].node, hf_hash_u64(&key, i, 0));
        assert_ptr_equal(thing_find(&map, hf_hash_u64(&key, i / 2, 0), i / 2), &things[i / 2]);
    }
    for (uint64_t i = 0; i < N; i += 2)
        hf_map_remove(&map, &things[i].node);
    for (uint64_t i = 0; i < N; i++)
        assert_int_equal(thing_find(&map, hf_hash_u64(&key, i, 0), i) != NULL, i % 2);
    assert_int_equal(map.count, N / 2);
    hf_map_each(&map, count_and_remove, &map);
    assert_int_equal(map.count, 0);
    hf_map_free(&map);
}

/* Given a heap that gives nothing after the first table, insertions still work. */
static void map_works_without_memory_to_grow(void **state)
{
    enum { N = 200 };
    static struct thing things[N];
    struct faulty_heap heap = {.after = 1};
    struct hf_alloc alloc = faulty_alloc(&heap);
    struct hf_map map;

    (void)state;
    assert_int_equal(hf_map_init(&map, &alloc), 0);
    for (uint64_t i = 0; i < N; i++) {
        things[i].key = i;
        hf_map_insert(&map, &things[i].node, i);
    }
    for (uint64_t i = 0; i < N; i++)
        assert_ptr_equal(thing_find(&map, i, i), &things[i]);
    hf_map_free(&map);
    assert_int_equal(heap.live, 0);
    assert_int_equal(hf_map_init(&map, &alloc), HF_ENOMEM);
}

static void list_keeps_order(void **state)
{
    struct thing a = {.key = 1};
    struct thing b = {.key = 2};
    struct thing c = {.key = 3};
    struct hf_list list;
    struct hf_list other;
    uint64_t seen = 0;

    (void)state;
    hf_list_init(&list);
    hf_list_init(&other);
    assert_null(hf_list_first(&list, struct thing, link));
    hf_list_add_tail(&list, &b.link);
    hf_list_add_head(&list, &a.link);
    hf_list_add_tail(&other, &c.link);
    hf_list_splice_tail(&list, &other);
    hf_list_splice_tail(&list, &other);
    assert_true(hf_list_empty(&other));
    hf_list_foreach_safe (n, &list) {
        seen = seen * 10 + hf_list_entry(n, struct thing, link)->key;
        hf_list_remove(n);
        assert_false(hf_list_linked(n));
    }
    assert_int_equal(seen, 123);
}

/* Reference values of SipHash-1-3 with the key 00..0f over 0, 1, 2, ... (its authors' vectors). */
static void siphash_is_siphash_1_3(void **state)
{
    struct hf_hash_key key = {0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL};
    uint8_t data[16];

    (void)state;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)i;
    assert_true(hf_siphash(&key, data, 0) == 0xabac0158050fc4dcULL);
    assert_true(hf_siphash(&key, data, 1) == 0xc9f49bf37d57ca93ULL);
    assert_true(hf_siphash(&key, data, 8) != hf_siphash(&key, data, 9));
    assert_true(hf_siphash_u64(&key, 1, 2) != hf_siphash_u64(&key, 2, 1));
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Hashes of every length up to 100, with each bit flipped in turn, and of zeros of each length, all
 * differ. */
static void hash_sees_every_bit_and_the_length(void **state)
{
    enum { LONGEST = 100 };
    static uint64_t seen[LONGEST * LONGEST * 8 + LONGEST + 1];
    struct hf_hash_key key = {0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL};
    struct hf_hash_key other = {key.k0 ^ 1, key.k1};
    size_t n = 0;

    (void)state;
    for (size_t len = 0; len <= LONGEST; len++) {
        uint8_t data[LONGEST] = {0};

        assert_true(hf_hash(&key, data, len) != hf_hash(&other, data, len));
        seen[n++] = hf_hash(&key, data, len);
        for (size_t bit = 0; bit < len * 8; bit++) {
            data[bit / 8] ^= (uint8_t)(1U << bit % 8);
            seen[n++] = hf_hash(&key, data, len);
            data[bit / 8] = 0;
        }
    }
    qsort(seen, n, sizeof(seen[0]), by_value);
    for (size_t i = 1; i < n; i++)
        assert_true(seen[i] != seen[i - 1]);
}

/* The key must not cancel out. In an earlier version, when the data ended with a number that
 * follows from its length (the golden ratio times the length, which is no secret), the bytes before
 * it made no difference, under any key. */
static void hash_cannot_be_aimed_without_the_key(void **state)
{
    (void)state;
    for (uint64_t k = 1; k <= 8; k++) {
        struct hf_hash_key key = {k * 0x9fb21c651e98df25ULL, k * 0xd6e8feb86659fd93ULL};

        for (size_t len = 16; len <= 64; len++) {
            uint64_t mix = len * 0x9e3779b97f4a7c15ULL;
            uint8_t data[64] = {0};
            uint64_t first;

            memcpy(data + len - sizeof(mix), &mix, sizeof(mix));
            /* The same number, at the place of the first factor. */
            memcpy(data + 8, &mix, sizeof(mix));
            first = hf_hash(&key, data, len);
            data[0] = 1;
            assert_true(hf_hash(&key, data, len) != first);
        }
    }
}

/* Counters in a file handle, as servers make them: no bucket gets far more than its part. */
static void hash_spreads_over_buckets(void **state)
{
    enum { BUCKETS = 1024, EACH = 64 };
    struct hf_hash_key key = {0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL};

    (void)state;
    for (unsigned stride = 1; stride <= 1U << 15; stride *= 2) {
        unsigned low[BUCKETS] = {0};
        unsigned high[BUCKETS] = {0};

        for (uint32_t i = 0; i < BUCKETS * EACH; i++) {
            uint32_t fh[8] = {1, 2, 3, 4, 5, 6, i * stride, 7};
            uint64_t h = hf_hash(&key, fh, sizeof(fh));
            low[h % BUCKETS]++;
            high[h >> 54]++;
        }
        for (unsigned i = 0; i < BUCKETS; i++)
            assert_true(low[i] < 2 * EACH && high[i] < 2 * EACH);
    }
}

static void buf_slides_and_grows(void **state)
{
    struct hf_buf buf;
    uint8_t chunk[200];

    (void)state;
    memset(chunk, 'x', sizeof(chunk));
    hf_buf_init(&buf, &hf_alloc_heap);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(hf_buf_append(&buf, chunk, sizeof(chunk)), 0);
        chunk[0] = (uint8_t)i;
        if (i > 0)
            hf_buf_consume(&buf, sizeof(chunk));
    }
    assert_int_equal(hf_buf_len(&buf), sizeof(chunk));
    assert_int_equal(hf_buf_view(&buf).data[0], 98);
    assert_true(buf.size <= 1024); /* it slid instead of growing */
    hf_buf_free(&buf);
}

static void buf_survives_a_failed_allocation(void **state)
{
    struct faulty_heap heap = {.after = 1};
    struct hf_alloc alloc = faulty_alloc(&heap);
    struct hf_buf buf;
    char big[1000] = {0};

    (void)state;
    hf_buf_init(&buf, &alloc);
    assert_int_equal(hf_buf_append(&buf, "abc", 3), 0);
    assert_int_equal(hf_buf_append(&buf, big, sizeof(big)), HF_ENOMEM);
    assert_memory_equal(hf_buf_view(&buf).data, "abc", 3);
    hf_buf_free(&buf);
    assert_int_equal(heap.live, 0);
}

static void addr_texts_round_trip(void **state)
{
    static const char *const good[] = {
        "192.0.2.1", "0.0.0.0", "::", "::1", "2001:db8::5", "fe80::1%1"};
    static const char *const bad[] = {
        "",          "localhost",        "1.2.3",    "1.2.3.4.5", "::g",
        "1.2.3.4%1", "fe80::1%nosuchif", "1.2.3.4 ", "%1",        "::1%"};
    struct hf_addr addr;
    struct hf_addr back;
    struct sockaddr_storage sa;
    char text[HF_ADDR_TEXT_MAX];

    (void)state;
    for (size_t i = 0; i < HF_COUNT_OF(good); i++) {
        assert_int_equal(hf_addr_parse(good[i], &addr), 0);
        assert_string_equal(hf_addr_format(&addr, text), good[i]);
        addr.port = 4045;
        hf_addr_to_sockaddr(&addr, &sa);
        assert_int_equal(hf_addr_from_sockaddr((struct sockaddr *)&sa, &back), 0);
        assert_true(hf_addr_equal(&addr, &back));
    }
    for (size_t i = 0; i < HF_COUNT_OF(bad); i++)
        assert_int_equal(hf_addr_parse(bad[i], &addr), HF_EINVAL);
    assert_int_equal(hf_addr_parse("::ffff:192.0.2.7", &addr), 0);
    assert_string_equal(hf_addr_format_port(&addr, text), "192.0.2.7:0");
    assert_int_equal(hf_addr_parse("::1", &addr), 0);
    addr.port = 111;
    assert_string_equal(hf_addr_format_port(&addr, text), "[::1]:111");
}

static void uaddr_round_trips(void **state)
{
    static const char *const bad[] = {
        "",      "1.2.3.4",   "1.2.3.4.5", "1.2.3.4.5.256", "1.2.3.4.5.-1", "1.2.3.4.5.6.7",
        "x.1.2", "1.2.3.4.5."};
    struct hf_addr addr;
    char text[HF_ADDR_UADDR_MAX];

    (void)state;
    assert_int_equal(hf_addr_parse_uaddr("192.0.2.1.15.205", &addr), 0);
    assert_int_equal(addr.port, 4045);
    assert_string_equal(hf_addr_format_uaddr(&addr, text), "192.0.2.1.15.205");
    assert_int_equal(hf_addr_parse_uaddr("::1.0.111", &addr), 0);
    assert_int_equal(addr.port, 111);
    assert_string_equal(hf_addr_format_uaddr(&addr, text), "::1.0.111");
    for (size_t i = 0; i < HF_COUNT_OF(bad); i++)
        assert_int_equal(hf_addr_parse_uaddr(bad[i], &addr), HF_EINVAL);
}

static void addr_with_port_round_trips(void **state)
{
    static const char *const GOOD[] = {"192.0.2.1:8049", "[2001:db8::1]:1", "0.0.0.0:65535"};
    static const char *const BAD[] = {
        "",      "192.0.2.1", ":80",     "192.0.2.1:",     "192.0.2.1:65536", "192.0.2.1:8x",
        "::1:8", "[::1]",     "[::1:80", "[192.0.2.1]:80", "host:80",         "192.0.2.1:-1",
    };
    char text[HF_ADDR_TEXT_MAX];
    struct hf_addr addr;

    (void)state;
    for (size_t i = 0; i < HF_COUNT_OF(GOOD); i++) {
        assert_int_equal(hf_addr_parse_port(GOOD[i], &addr), 0);
        assert_string_equal(hf_addr_format_port(&addr, text), GOOD[i]);
    }
    for (size_t i = 0; i < HF_COUNT_OF(BAD); i++)
        assert_int_equal(hf_addr_parse_port(BAD[i], &addr), HF_EINVAL);
}

static void addr_knows_loopback(void **state)
{
    struct hf_addr addr;

    (void)state;
    hf_addr_parse("127.8.9.1", &addr);
    assert_true(hf_addr_is_loopback(&addr));
    hf_addr_parse("::1", &addr);
    assert_true(hf_addr_is_loopback(&addr));
    hf_addr_parse("192.0.2.1", &addr);
    assert_false(hf_addr_is_loopback(&addr));
    hf_addr_parse("::", &addr);
    assert_true(hf_addr_is_any(&addr));
    assert_false(hf_addr_is_loopback(&addr));
}

/* Formatted text is cut; copied text is whole, or not there. */
static void texts_end_with_their_buffer(void **state)
{
    char text[6];

    (void)state;
    hf_format(text, sizeof(text), "%s-%d", "abc", 1234);
    assert_string_equal(text, "abc-1");
    assert_false(hf_text_copy(text, sizeof(text), "123456"));
    assert_string_equal(text, "abc-1");
    assert_true(hf_text_copy(text, sizeof(text), "12345"));
    assert_string_equal(text, "12345");
}

static void errors_have_texts(void **state)
{
    (void)state;
    assert_string_equal(hf_strerror(0), "success");
    assert_string_equal(hf_strerror(HF_ENOMEM), "out of memory");
    assert_string_equal(hf_strerror(-9999), "unknown error");
}

/* Runs write with standard error in a file and gives back what it wrote there. */
static void capture(void (*write)(void), char *out, size_t size)
{
    FILE *file = tmpfile();
    int saved = dup(STDERR_FILENO);
    size_t len;

    assert_non_null(file);
    fflush(stderr);
    dup2(fileno(file), STDERR_FILENO);
    write();
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(file);
    len = fread(out, 1, size - 1, file);
    out[len] = '\0';
    fclose(file);
}

static void write_hostile_line(void)
{
    struct hf_addr addr;

    hf_addr_parse("192.0.2.9", &addr);
    addr.port = 700;
    hf_log(HF_LOG_INFO, "client registered",
           HF_BYTES("name", hf_bytes("a b\n\"%n\x9b\xc3\xa4\xe2\x80\xae", 12)), HF_INT("locks", -3),
           HF_ADDR("from", &addr), HF_STR("plain", "word"));
    hf_log(HF_LOG_DEBUG, "not shown at level info");
}

static void log_escapes_what_peers_send(void **state)
{
    char text[8192];

    (void)state;
    hf_log_configure(HF_LOG_INFO, HF_LOG_TEXT);
    capture(write_hostile_line, text, sizeof(text));
    assert_non_null(strstr(text, "info  client registered name=\"a b\\u000a\\\"%n\\u009bä\\u00e2"));
    assert_non_null(strstr(text, " locks=-3 from=192.0.2.9:700 plain=word\n"));
    assert_null(strstr(text, "not shown"));

    hf_log_configure(HF_LOG_INFO, HF_LOG_JSON);
    capture(write_hostile_line, text, sizeof(text));
    assert_non_null(strstr(text, "\"event\":\"client registered\",\"name\":\"a b\\u000a\\\"%n"));
    assert_non_null(strstr(text, ",\"locks\":-3,\"from\":\"192.0.2.9:700\",\"plain\":\"word\"}\n"));
    hf_log_configure(HF_LOG_INFO, HF_LOG_TEXT);
}

static void write_long_line(void)
{
    static char big[10000];

    memset(big, 'a', sizeof(big) - 1);
    hf_log(HF_LOG_INFO, "long", HF_INT("n", 1), HF_STR("big", big));
}

static void log_cuts_long_lines(void **state)
{
    char text[16384];

    (void)state;
    hf_log_configure(HF_LOG_INFO, HF_LOG_JSON);
    capture(write_long_line, text, sizeof(text));
    assert_non_null(strstr(text, "\"n\":1}\n"));
    hf_log_configure(HF_LOG_INFO, HF_LOG_TEXT);
    capture(write_long_line, text, sizeof(text));
    assert_true(strlen(text) <= 4096);
    assert_non_null(strstr(text, " ...\n"));
}

static void write_many_limited(void)
{
    for (int i = 0; i < 1000; i++)
        hf_log_limited(HF_LOG_WARN, "provoked", HF_INT("i", i));
}

static void log_limits_what_peers_provoke(void **state)
{
    char text[65536];
    int lines = 0;

    (void)state;
    capture(write_many_limited, text, sizeof(text));
    for (const char *p = text; (p = strstr(p, "provoked")); p++)
        lines++;
    assert_true(lines >= 10 && lines <= 20); /* one window, or two if the clock turned meanwhile */
}

static int count_of(const char *text, const char *word)
{
    int n = 0;

    for (const char *p = text; (p = strstr(p, word)); p++)
        n++;
    return n;
}

static void log_many(void)
{
    for (int i = 0; i < 20000; i++)
        hf_log(HF_LOG_INFO, "not provoked", HF_INT("i", i));
    hf_log_stop(); /* tells what is left to tell */
}

static void log_limits_every_kind_and_counts(void **state)
{
    static char text[262144];
    const char *left_out;

    (void)state;
    assert_int_equal(hf_log_start(), 0);
    capture(log_many, text, sizeof(text));
    assert_between(count_of(text, "info  not provoked"), HF_LOG_BURST, 2 * HF_LOG_BURST);
    left_out = strstr(text, "log lines left out of=\"not provoked\" lines=");
    assert_non_null(left_out);
    assert_between(atoi(strstr(left_out, "lines=") + 6), 20000 - 2 * HF_LOG_BURST,
                   20000 - HF_LOG_BURST);
}

static bool report_nothing(uint64_t lost)
{
    assert_int_equal(lost, 0);
    return false;
}

enum {
    QUEUED_LINES = 12000,
    QUEUED_LEN = 211
}; /* twice the size of the queue, and not a divisor */

static void queue_lines(void)
{
    char line[QUEUED_LEN + 1];

    for (int i = 0; i < QUEUED_LINES; i++) {
        snprintf(line, sizeof(line), "%0*d", QUEUED_LEN - 1, i);
        line[QUEUED_LEN - 1] = '\n';
        hf_log_queue_put(line, QUEUED_LEN);
        if (i % 1000 == 999)
            hf_log_queue_flush(10000);
    }
    hf_log_queue_stop(10000);
}

/* SEC-09: a line that reaches over the end of the queue's memory arrives whole. */
static void the_log_queue_wraps_around(void **state)
{
    static char text[QUEUED_LINES * QUEUED_LEN + 1];

    (void)state;
    assert_int_equal(hf_log_queue_start(report_nothing), 0);
    capture(queue_lines, text, sizeof(text));
    assert_int_equal(strlen(text), QUEUED_LINES * QUEUED_LEN);
    for (int i = 0; i < QUEUED_LINES; i++)
        assert_int_equal(atoi(text + (size_t)i * QUEUED_LEN + QUEUED_LEN - 10), i);
}

static bool put_after_wait;

/* Replaces the function of the C library: another thread puts a line before the caller has the
 * mutex. */
int pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
                           const struct timespec *until)
{
    int (*real)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
    int rv;

    *(void **)&real = dlsym(RTLD_NEXT, "pthread_cond_clockwait");
    rv = real(cond, mutex, clock, until);
    if (put_after_wait) {
        put_after_wait = false;
        pthread_mutex_unlock(mutex);
        usleep(50000); /* the queue's thread has nothing to do, and ends */
        hf_log_queue_put("late", 4);
        pthread_mutex_lock(mutex);
    }
    return rv;
}

static void *read_all(void *arg)
{
    char *text = arg;
    int fd = atoi(text);
    size_t len = 0;
    ssize_t n;

    usleep(50000);
    while ((n = read(fd, text + len, 100000 - len)) > 0)
        len += (size_t)n;
    text[len] = '\0';
    return NULL;
}

/* SEC-09: a line that comes while the queue's thread is ending is written by its caller. */
static void no_line_is_lost_when_the_log_queue_stops(void **state)
{
    static char text[100001];
    int saved = dup(STDERR_FILENO);
    pthread_t reader;
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    assert_int_equal(hf_log_queue_start(report_nothing), 0);
    for (int i = 0; i < 90; i++) /* so many lines that a pipe cannot hold them */
        hf_log_queue_put(memset(text, 'x', 1000), 1000);
    snprintf(text, sizeof(text), "%d", ends[0]);
    assert_int_equal(pthread_create(&reader, NULL, read_all, text), 0);
    put_after_wait = true;
    hf_log_queue_stop(1000);
    dup2(saved, STDERR_FILENO);
    close(saved);
    pthread_join(reader, NULL);
    close(ends[0]);
    assert_int_equal(strlen(text), 90004);
    assert_string_equal(text + 90000, "late");
}

static void write_empty_value(void)
{
    hf_log(HF_LOG_INFO, "empty", HF_STR("name", ""), HF_INT("n", 1));
}

static void log_quotes_an_empty_value(void **state)
{
    char text[256];

    (void)state;
    capture(write_empty_value, text, sizeof(text));
    assert_non_null(strstr(text, "empty name=\"\" n=1\n"));
}

/* Counts the bytes that form one character which can be shown, in a text that a peer chose; 0:
 * none. */
static void utf8_that_can_be_shown(void **state)
{
    static const struct {
        const char *text;
        size_t left, want;
    } cases[] = {
        {"\xc3\xa4", 2, 2},
        {"\xc3\xa4", 1, 0}, /* cut short */
        {"\xe2\x82\xac", 3, 3},
        {"\xe2\x82\xac", 2, 0},
        {"\xf0\x9f\x98\x80", 4, 4},
        {"\xf0\x9f\x98\x80", 3, 0},
        {"\xc1\xa1", 2, 0}, /* overlong, of two, */
        {"\xe0\x9f\xbf", 3, 0},
        {"\xe0\xa0\x80", 3, 3}, /* three */
        {"\xf0\x8f\xbf\xbf", 4, 0},
        {"\xf0\x90\x80\x80", 4, 4}, /* and four bytes */
        {"\xf4\x8f\xbf\xbd", 4, 4},
        {"\xf4\x90\x80\x80", 4, 0}, /* beyond Unicode */
        {"\xf5\x80\x80\x80", 4, 0},
        {"\xed\x9f\xbf", 3, 3},
        {"\xed\xa0\x80", 3, 0},
        {"\xc2\x9f", 2, 0},
        {"\xc2\xa0", 2, 0},
        {"\xc2\xa1", 2, 2}, /* the first behind C1 and no-break space */
        {"\xe2\x80\xae", 3, 0},
        {"\xe2\x80\xa8", 3, 0}, /* direction, line break */
        {"\xe2\x80\x8b", 3, 0},
        {"\xd8\x9c", 2, 0},
        {"\xe2\x81\xa0", 3, 0},
        {"\xe2\x81\xaf", 3, 0},
        {"\xe2\x81\xb0", 3, 3}, /* the first behind the format characters */
        {"\xc2\xad", 2, 0},
        {"\xcd\x8f", 2, 0},
        {"\xe3\x80\x80", 3, 0},
        {"\xe3\x85\xa4", 3, 0}, /* Hangul filler, as wide space */
        {"\xef\xb8\x8f", 3, 0},
        {"\xef\xbf\xbe", 3, 0},
        {"\xef\xbf\xbd", 3, 3}, /* the replacement character */
        {"\xf3\xa0\x81\x81", 4, 0},
        {"\xf3\xa0\x84\x80", 4, 0},
        {"\xf3\xa1\x80\x80", 4, 4}, /* the first behind tags and selectors */
        {"\xc3(", 2, 0},
        {"a", 1, 0},
    };

    (void)state;
    for (size_t i = 0; i < HF_COUNT_OF(cases); i++)
        assert_int_equal(hf_utf8_printable((const uint8_t *)cases[i].text, cases[i].left),
                         cases[i].want);
}

/* Given a pipe that no process reads, callers are not held up; a reader that comes back gets what
 * the queue had room for, in order, and the number of the lines it had not. */
static void log_does_not_wait_for_its_reader(void **state)
{
    static char text[2 << 20];
    int saved = dup(STDERR_FILENO);
    size_t len = 0;
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    hf_log_configure(HF_LOG_DEBUG, HF_LOG_TEXT);
    assert_int_equal(hf_log_start(), 0);
    for (int i = 0; i < HF_LOG_BURST_DEBUG; i++)
        hf_log(HF_LOG_DEBUG, "flood", HF_INT("i", i),
               HF_STR("padding",
                      "0123456789012345678901234567890123456789012345678901234567890123456"
                      "7890123456789012345678901234567890123456789012345678901234567890"));
    while (len < sizeof(text) - 1 && !strstr(text, "log lines lost")) {
        ssize_t n = read(ends[0], text + len, sizeof(text) - 1 - len);
        assert_true(n > 0);
        len += (size_t)n;
        text[len] = '\0';
    }
    hf_log_stop();
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(ends[0]);
    hf_log_configure(HF_LOG_INFO, HF_LOG_TEXT);
    assert_int_equal(count_of(text, " flood ") +
                         atoi(strstr(strstr(text, "log lines lost"), "lines=") + 6),
                     HF_LOG_BURST_DEBUG);
}

static struct hf_addr from(const char *text, uint16_t port)
{
    struct hf_addr addr;

    assert_int_equal(hf_addr_parse(text, &addr), 0);
    addr.port = port;
    return addr;
}

/* SEC-01, SEC-02: trust depends on what a peer has proved, by its transport, address, port and
 * user. */
static void trust_is_what_a_peer_has_shown(void **state)
{
    struct hf_addr remote = from("192.0.2.7", 700);
    struct hf_addr local = from("127.0.0.9", 700);
    struct hf_addr local6 = from("::1", 5000);
    uint32_t other = geteuid() + 1;

    (void)state;
    hf_trust_set_first_user_port(1024);
    assert_int_equal(hf_trust_of(HF_TRANSPORT_UDP, &remote, HF_UID_UNKNOWN, false),
                     HF_TRUST_NOTHING);
    assert_int_equal(hf_trust_of(HF_TRANSPORT_TCP, &remote, HF_UID_UNKNOWN, false),
                     HF_TRUST_RESERVED);
    remote.port = 1024;
    assert_int_equal(hf_trust_of(HF_TRANSPORT_TCP, &remote, HF_UID_UNKNOWN, false),
                     HF_TRUST_CONNECTED);
    assert_int_equal(hf_trust_of(HF_TRANSPORT_UDP, &local, HF_UID_UNKNOWN, false), HF_TRUST_ROOT);
    assert_int_equal(hf_trust_of(HF_TRANSPORT_TCP, &local, other, false), HF_TRUST_USER);
    assert_int_equal(hf_trust_of(HF_TRANSPORT_TCP, &local6, HF_UID_UNKNOWN, false), HF_TRUST_USER);
    assert_int_equal(hf_trust_of(HF_TRANSPORT_TCP, &local6, 0, false), HF_TRUST_OURS);
    assert_int_equal(hf_trust_of(HF_TRANSPORT_TCP, &local6, geteuid(), false), HF_TRUST_OURS);
    hf_trust_set_first_user_port(80);
    assert_int_equal(hf_trust_of(HF_TRANSPORT_TCP, &local, 0, false), HF_TRUST_ROOT);
    assert_int_equal(hf_trust_of(HF_TRANSPORT_UDP, &local, HF_UID_UNKNOWN, false), HF_TRUST_USER);
    local.port = 79;
    assert_int_equal(hf_trust_of(HF_TRANSPORT_UDP, &local, HF_UID_UNKNOWN, false), HF_TRUST_ROOT);
    remote.port = 700; /* about the systems of other hosts nothing is known */
    assert_int_equal(hf_trust_of(HF_TRANSPORT_TCP, &remote, HF_UID_UNKNOWN, false),
                     HF_TRUST_RESERVED);
    /* A user of this host at another of its addresses, also when the kernel does not tell the user.
     */
    assert_int_equal(hf_trust_of(HF_TRANSPORT_TCP, &remote, other, true), HF_TRUST_USER);
    assert_int_equal(hf_trust_of(HF_TRANSPORT_TCP, &remote, HF_UID_UNKNOWN, true), HF_TRUST_USER);
    assert_int_equal(hf_trust_of(HF_TRANSPORT_UDP, &remote, HF_UID_UNKNOWN, true), HF_TRUST_USER);
    remote.port = 79;
    assert_int_equal(hf_trust_of(HF_TRANSPORT_TCP, &remote, HF_UID_UNKNOWN, true),
                     HF_TRUST_RESERVED);
    assert_int_equal(hf_trust_of(HF_TRANSPORT_UDP, &remote, HF_UID_UNKNOWN, true),
                     HF_TRUST_NOTHING);
    hf_trust_set_first_user_port(2000);
    local.port = 1024;
    assert_int_equal(hf_trust_of(HF_TRANSPORT_UDP, &local, HF_UID_UNKNOWN, false), HF_TRUST_USER);
    hf_trust_set_first_user_port(1024);
}

/* A user has one account, whichever loopback address the user comes from; root has none. */
static void trust_accounts(void **state)
{
    struct hf_addr a = from("127.0.0.1", 5000);
    struct hf_addr b = from("::1", 5001);
    struct hf_addr first = hf_trust_account(HF_TRUST_USER, &a, 1000);
    struct hf_addr second = hf_trust_account(HF_TRUST_USER, &b, 1000);
    struct hf_addr other = hf_trust_account(HF_TRUST_USER, &a, 1001);
    struct hf_addr root = hf_trust_account(HF_TRUST_ROOT, &a, 0);

    (void)state;
    assert_true(hf_addr_equal(&first, &second));
    assert_false(hf_addr_same_host(&first, &other));
    assert_true(hf_trust_account_has_quota(&first));
    assert_false(hf_trust_account_has_quota(&root));
    assert_false(hf_addr_same_host(&first, &root));
    a = from("192.0.2.7", 700);
    first = hf_trust_account(HF_TRUST_NOTHING, &a, HF_UID_UNKNOWN);
    second = hf_trust_account(HF_TRUST_RESERVED, &a, HF_UID_UNKNOWN);
    assert_true(hf_addr_same_host(&first, &a) && hf_addr_equal(&first, &second));
}

/* SEC-02: a thousand accounts take all that they may: an account that has a few still gets more,
 * and one that has none gets one. */
static void trust_shares_leave_room(void **state)
{
    enum { TOTAL = 65536, GREEDY = 17, MANY = 1000 };
    uint32_t used = 0;

    (void)state;
    for (unsigned i = 0; i < GREEDY; i++) {
        for (uint32_t has = 0; hf_trust_has_share(TOTAL, used, has); has++)
            used++;
    }
    assert_int_equal(used, TOTAL / 4 * 3 + (GREEDY - 1) * 16);
    assert_true(hf_trust_has_share(TOTAL, used, 15));
    for (unsigned i = 0; i < MANY; i++) {
        for (uint32_t has = 0; hf_trust_has_share(TOTAL, used, has); has++)
            used++;
    }
    assert_true(hf_trust_has_share(TOTAL, used, 0));
    assert_false(hf_trust_has_share(TOTAL, used, 1));
    assert_false(hf_trust_has_share(TOTAL, TOTAL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(map_finds_all_while_it_grows),
        cmocka_unit_test(map_works_without_memory_to_grow),
        cmocka_unit_test(list_keeps_order),
        cmocka_unit_test(siphash_is_siphash_1_3),
        cmocka_unit_test(hash_sees_every_bit_and_the_length),
        cmocka_unit_test(hash_cannot_be_aimed_without_the_key),
        cmocka_unit_test(hash_spreads_over_buckets),
        cmocka_unit_test(trust_is_what_a_peer_has_shown),
        cmocka_unit_test(trust_accounts),
        cmocka_unit_test(trust_shares_leave_room),
        cmocka_unit_test(buf_slides_and_grows),
        cmocka_unit_test(buf_survives_a_failed_allocation),
        cmocka_unit_test(addr_texts_round_trip),
        cmocka_unit_test(uaddr_round_trips),
        cmocka_unit_test(addr_with_port_round_trips),
        cmocka_unit_test(addr_knows_loopback),
        cmocka_unit_test(errors_have_texts),
        cmocka_unit_test(texts_end_with_their_buffer),
        cmocka_unit_test(log_escapes_what_peers_send),
        cmocka_unit_test(log_cuts_long_lines),
        cmocka_unit_test(log_quotes_an_empty_value),
        cmocka_unit_test(the_log_queue_wraps_around),
        cmocka_unit_test(no_line_is_lost_when_the_log_queue_stops),
        cmocka_unit_test(utf8_that_can_be_shown),
        cmocka_unit_test(log_limits_what_peers_provoke),
        cmocka_unit_test(log_limits_every_kind_and_counts),
        cmocka_unit_test(log_does_not_wait_for_its_reader),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
