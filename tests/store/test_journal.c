/*
 * Reading a journal after a crash takes time in proportion to its size, whatever bytes clients have
 * put into it (SEC-05): the bytes that are hashed are counted, and not the time.
 */
#include "../unit/unit.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "fixture.h"
#include "store/journal.h"

static char dir[PATH_MAX];
static int dir_fd;
static struct hf_journal journal;
static const struct hf_hash_key KEY = {1, 2};
static uint64_t hashed;

/* The linker replaces hf_siphash() by the second of these functions, and gives the original the
 * first name. */
uint64_t __real_hf_siphash(const struct hf_hash_key *key, const void *data, size_t len);
uint64_t __wrap_hf_siphash(const struct hf_hash_key *key, const void *data, size_t len);

uint64_t __wrap_hf_siphash(const struct hf_hash_key *key, const void *data, size_t len)
{
    hashed += len;
    return __real_hf_siphash(key, data, len);
}

static int set_up(void **state)
{
    (void)state;
    scratch_make(dir, NULL);
    dir_fd = open(dir, O_RDONLY | O_DIRECTORY);
    MUST(dir_fd >= 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hf_journal_close(&journal);
    close(dir_fd);
    scratch_remove(dir);
    return 0;
}

static void make(const struct hf_journal_layout *layout)
{
    hf_journal_init(&journal);
    assert_int_equal(hf_journal_create(&journal, dir_fd, layout), 0);
    hf_journal_restart(&journal, &KEY);
}

/* Reads all records, and returns the number of operations, or a negative errno. */
static int64_t read_all(const struct hf_journal_layout *layout, const struct hf_hash_key *key)
{
    struct hf_journal_reading reading = {.key = *key, .id = journal.id, .layout = *layout};
    struct hf_batch batch;
    int64_t n;
    int error;

    hf_batch_init(&batch, &hf_alloc_heap);
    hashed = 0;
    error = hf_journal_read(dir_fd, &reading, &batch);
    n = error ? -error : (int64_t)batch.n_ops;
    hf_batch_free(&batch);
    return n;
}

/* What a client can write at the start of a sector: a header that claims a long record. */
struct claim {
    uint64_t checksum;
    uint64_t index;
    uint32_t len;
    uint32_t n_ops;
};

static void fill_with_claims(const struct hf_journal_layout *layout, const struct claim *claim)
{
    for (uint64_t at = 0; at < layout->side_bytes * layout->n_sides; at += 512)
        assert_int_equal(pwrite(journal.fd, claim, sizeof(*claim), (off_t)at), sizeof(*claim));
}

static void a_claim_longer_than_any_batch_costs_nothing(void **state)
{
    static const struct claim LONG = {.index = 5, .len = 3 << 20, .n_ops = 1};

    (void)state;
    make(&hf_journal_unflushed);
    fill_with_claims(&hf_journal_unflushed, &LONG);
    assert_int_equal(read_all(&hf_journal_unflushed, &KEY), 0);
    assert_int_equal(hashed, 0);
}

static void a_claim_to_be_a_record_far_ahead_costs_nothing(void **state)
{
    static const struct claim FAR = {.index = 1 << 20, .len = HF_JOURNAL_BATCH_MAX, .n_ops = 1};

    (void)state;
    make(&hf_journal_unflushed);
    fill_with_claims(&hf_journal_unflushed, &FAR);
    assert_int_equal(read_all(&hf_journal_unflushed, &KEY), 0);
    assert_int_equal(hashed, 0);
}

/* No record can begin inside a valid record. */
static void what_clients_put_into_valid_records_is_read_once(void **state)
{
    const struct claim claim = {.index = 30, .len = 100000, .n_ops = 10};
    uint8_t oh[HF_OH_MAX];
    uint8_t room[HF_FH_MAX];
    struct hf_batch batch;
    uint64_t total = 0;
    int64_t n_ops = 0;

    (void)state;
    make(&hf_journal_single);
    for (size_t i = 0; i + sizeof(claim) <= sizeof(oh); i += 8)
        memcpy(oh + i, (const uint8_t *)&claim + i % sizeof(claim), 8);
    hf_batch_init(&batch, &hf_alloc_heap);
    for (uint64_t id = 1; hf_buf_len(&batch.buf) < HF_JOURNAL_BATCH_MAX - 4096; id++) {
        struct hf_record_lock lock = make_lock(id, 1, room);

        lock.oh = hf_bytes(oh, sizeof(oh));
        assert_int_equal(hf_batch_put_lock(&batch, &lock), 0);
    }
    while (hf_journal_has_room(&journal, &batch)) {
        assert_int_equal(hf_journal_append(&journal, &batch), 0);
        n_ops += batch.n_ops;
        total += hf_buf_len(&batch.buf);
    }
    hf_batch_free(&batch);
    assert_int_equal(read_all(&hf_journal_single, &KEY), n_ops);
    assert_true(hashed <= total + HF_JOURNAL_BYTES);
}

int main(void)
{
#define STORY(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        STORY(a_claim_longer_than_any_batch_costs_nothing),
        STORY(a_claim_to_be_a_record_far_ahead_costs_nothing),
        STORY(what_clients_put_into_valid_records_is_read_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
