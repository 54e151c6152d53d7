/* Record marking: records come out as they went in, however the stream was cut. */
#include "unit.h"

#include "base/error.h"
#include "rpc/marking.h"
#include "rpc_words.h"

enum { STREAM_MAX = 128 * 1024 };

/* A byte stream that the test puts together. */
struct stream {
    uint8_t bytes[STREAM_MAX];
    size_t len;
};

static struct stream stream;

static void mark(uint32_t len, bool last)
{
    uint32_t value = htobe32(len | (last ? HF_RPC_MARK_LAST : 0));

    assert_true(stream.len + 4 <= STREAM_MAX);
    memcpy(stream.bytes + stream.len, &value, 4);
    stream.len += 4;
}

static void fragment(const void *data, size_t len, bool last)
{
    mark((uint32_t)len, last);
    assert_true(stream.len + len <= STREAM_MAX);
    memcpy(stream.bytes + stream.len, data, len);
    stream.len += len;
}

static struct hf_marking marking;
static struct faulty_heap heap;
static struct hf_alloc alloc;

static int begin(void **state)
{
    (void)state;
    heap = (struct faulty_heap){.after = 1000000};
    alloc = faulty_alloc(&heap);
    hf_marking_init(&marking, &alloc);
    stream.len = 0;
    return 0;
}

static int end(void **state)
{
    (void)state;
    hf_marking_free(&marking);
    return heap.live == 0 ? 0 : -1;
}

/* The records that came out, one after the other, each with its length in front. */
struct heard {
    size_t n;
    uint8_t text[STREAM_MAX];
    size_t len;
};

static struct heard heard;

/* Feeds one piece; returns what the last call of hf_marking_next() returned. */
static int feed(const uint8_t *data, size_t len)
{
    struct hf_bytes input = hf_bytes(data, len);
    struct hf_bytes record;
    int rv;

    while ((rv = hf_marking_next(&marking, &input, &record)) > 0) {
        assert_true(heard.len + record.len + 1 <= STREAM_MAX);
        if (record.len > 0)
            memcpy(heard.text + heard.len, record.data, record.len);
        heard.len += record.len;
        heard.text[heard.len++] = '|';
        heard.n++;
    }
    assert_true(rv < 0 || input.len == 0);
    return rv;
}

static void expect_heard(const char *text)
{
    assert_int_equal(heard.len, strlen(text));
    assert_memory_equal(heard.text, text, heard.len);
}

/* Given whole records in one read, each is handed out where it lies, without a copy. */
static void whole_records_are_not_copied(void **state)
{
    struct hf_bytes input;
    struct hf_bytes record;

    (void)state;
    fragment("hello", 5, true);
    fragment("world", 5, true);
    input = hf_bytes(stream.bytes, stream.len);
    assert_int_equal(hf_marking_next(&marking, &input, &record), 1);
    assert_ptr_equal(record.data, stream.bytes + 4);
    assert_int_equal(record.len, 5);
    assert_int_equal(hf_marking_next(&marking, &input, &record), 1);
    assert_ptr_equal(record.data, stream.bytes + 13);
    assert_int_equal(hf_marking_next(&marking, &input, &record), 0);
    assert_false(hf_marking_partial(&marking));
    assert_int_equal(heap.live, 0);
}

/* Given three records, one of them in four fragments, cut into two reads at every place. */
static void a_stream_cut_anywhere_gives_the_same_records(void **state)
{
    (void)state;
    fragment("first", 5, true);
    fragment("in", 2, false);
    fragment("", 0, false);
    fragment(" frag", 5, false);
    fragment("ments", 5, true);
    fragment("", 0, true);
    fragment("last", 4, true);
    for (size_t cut = 0; cut <= stream.len; cut++) {
        heard.n = heard.len = 0;
        assert_int_equal(feed(stream.bytes, cut), 0);
        assert_int_equal(feed(stream.bytes + cut, stream.len - cut), 0);
        expect_heard("first|in fragments||last|");
        assert_false(hf_marking_partial(&marking));
    }
}

/* A stream that arrives byte by byte gives the same records; meanwhile the reader knows that the
 * rest of a record is due. */
static void a_stream_of_single_bytes_gives_the_same_records(void **state)
{
    (void)state;
    fragment("a", 1, false);
    fragment("bc", 2, true);
    fragment("def", 3, true);
    heard.n = heard.len = 0;
    for (size_t i = 0; i < stream.len; i++) {
        bool between = i + 1 == stream.len || i == 4 + 1 + 4 + 2 - 1;

        assert_int_equal(feed(stream.bytes + i, 1), 0);
        assert_int_equal(hf_marking_partial(&marking), !between);
    }
    expect_heard("abc|def|");
}

/* A connection that is idle after a split record holds no memory for it. */
static void a_split_record_gives_its_memory_back(void **state)
{
    (void)state;
    fragment("hello", 5, true);
    heard.n = heard.len = 0;
    assert_int_equal(feed(stream.bytes, 6), 0);
    assert_int_equal(heap.live, 1);
    assert_int_equal(feed(stream.bytes + 6, stream.len - 6), 0);
    expect_heard("hello|");
    assert_int_equal(heap.live, 0);
}

static void the_largest_record_passes(void **state)
{
    static uint8_t half[HF_RPC_RECORD_MAX / 2];

    (void)state;
    fragment(half, sizeof(half), false);
    fragment(half, sizeof(half), true);
    heard.n = heard.len = 0;
    assert_int_equal(feed(stream.bytes, stream.len), 0);
    assert_int_equal(heard.n, 1);
    assert_int_equal(heard.len, HF_RPC_RECORD_MAX + 1);
}

/* A record that is too long by one byte, in one fragment or in the sum of two, ends the stream at
 * its header. */
static void a_longer_record_is_refused_by_its_header(void **state)
{
    static uint8_t half[HF_RPC_RECORD_MAX / 2];

    (void)state;
    mark(HF_RPC_RECORD_MAX + 1, true);
    assert_int_equal(feed(stream.bytes, stream.len), HF_EFORMAT);

    hf_marking_free(&marking);
    begin(NULL);
    fragment(half, sizeof(half), false);
    mark(sizeof(half) + 1, true);
    assert_int_equal(feed(stream.bytes, stream.len), HF_EFORMAT);
}

static void a_length_of_two_gigabytes_is_refused(void **state)
{
    (void)state;
    mark(INT32_MAX, true);
    assert_int_equal(feed(stream.bytes, stream.len), HF_EFORMAT);

    hf_marking_free(&marking);
    begin(NULL);
    fragment("x", 1, false);
    mark(INT32_MAX, false); /* the sum of the lengths must not wrap */
    assert_int_equal(feed(stream.bytes, stream.len), HF_EFORMAT);
}

/* A record may have as many fragments as the limit says, and one more is refused. */
static void a_record_of_too_many_fragments_is_refused(void **state)
{
    (void)state;
    for (int i = 0; i < HF_RPC_FRAGMENTS_MAX - 1; i++)
        fragment("", 0, false);
    fragment("x", 1, true);
    heard.n = heard.len = 0;
    assert_int_equal(feed(stream.bytes, stream.len), 0);
    expect_heard("x|");

    stream.len = 0;
    for (int i = 0; i < HF_RPC_FRAGMENTS_MAX + 1; i++)
        fragment("", 0, false);
    assert_int_equal(feed(stream.bytes, stream.len - 4), 0);
    assert_int_equal(feed(stream.bytes + stream.len - 4, 4), HF_EFORMAT);
}

static void empty_records_are_records(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++)
        fragment("", 0, true);
    heard.n = heard.len = 0;
    assert_int_equal(feed(stream.bytes, stream.len), 0);
    assert_int_equal(heard.n, 1000);
    assert_int_equal(heap.live, 0);
}

/* Without memory, a record that must be put together fails; one that arrives as a whole does not.
 */
static void only_split_records_need_memory(void **state)
{
    (void)state;
    heap.after = 0;
    fragment("whole", 5, true);
    heard.n = heard.len = 0;
    assert_int_equal(feed(stream.bytes, stream.len), 0);
    expect_heard("whole|");
    assert_int_equal(feed(stream.bytes, stream.len - 1), HF_ENOMEM);
}

static void our_own_mark_is_understood(void **state)
{
    uint8_t record[HF_RPC_MARK_SIZE + 3] = {0};

    (void)state;
    memcpy(record + HF_RPC_MARK_SIZE, "abc", 3);
    hf_marking_put(record, 3);
    heard.n = heard.len = 0;
    assert_int_equal(feed(record, sizeof(record)), 0);
    expect_heard("abc|");
}

#define STORY(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(whole_records_are_not_copied),
        STORY(a_stream_cut_anywhere_gives_the_same_records),
        STORY(a_stream_of_single_bytes_gives_the_same_records),
        STORY(a_split_record_gives_its_memory_back),
        STORY(the_largest_record_passes),
        STORY(a_longer_record_is_refused_by_its_header),
        STORY(a_length_of_two_gigabytes_is_refused),
        STORY(a_record_of_too_many_fragments_is_refused),
        STORY(empty_records_are_records),
        STORY(only_split_records_need_memory),
        STORY(our_own_mark_is_understood),
    };
    return cmocka_run_group_tests_name("marking", tests, NULL, NULL);
}
