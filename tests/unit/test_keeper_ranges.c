/* The locks of a file as ranges of bytes (src/keeper/ranges.h), compared with a table that has one
 * entry per byte. */
#include "unit.h"

#include <string.h>

#include "keeper/ranges.h"

enum { BYTES = 24 };

static uint64_t random_state;

static unsigned pick(unsigned n)
{
    random_state = random_state * 6364136223846793005U + 1442695040888963407U;
    return (unsigned)(random_state >> 33) % n;
}

/* Checks that spans are in order, joined where possible, and agree with the table about each byte.
 */
static void check(const struct hf_ranges *ranges, const uint8_t table[BYTES])
{
    uint32_t spans = 0;

    for (unsigned i = 0; i < BYTES; i++) {
        struct hf_span at = hf_ranges_at(ranges, i, BYTES - 1);

        assert_int_equal(at.mode, table[i]);
        assert_int_equal(at.first, i);
        for (uint64_t b = at.first; b <= at.last; b++)
            assert_int_equal(table[b], table[i]);
        assert_true(at.last == BYTES - 1 || table[at.last + 1] != table[i]);
        if (table[i] && (i == 0 || table[i - 1] != table[i]))
            spans++;
    }
    assert_int_equal(ranges->count, spans);
    for (uint32_t i = 1; i < ranges->count; i++)
        assert_true(ranges->spans[i - 1].last < ranges->spans[i].first);
}

static bool covered(const uint8_t table[BYTES], const struct hf_span *part)
{
    for (uint64_t b = part->first; b <= part->last; b++) {
        if (table[b] < part->mode)
            return false;
    }
    return true;
}

/* Given random changes, every byte has the mode that was set last, and the count was predicted. */
static void sets_are_as_one_entry_a_byte(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 300; seed++) {
        uint8_t table[BYTES] = {0};
        struct hf_ranges ranges;

        random_state = seed;
        hf_ranges_init(&ranges);
        for (unsigned step = 0; step < 60; step++) {
            struct hf_span part = {.first = pick(BYTES), .mode = (enum hf_keeper_mode)pick(3)};
            uint32_t count;

            part.last = part.first + pick(BYTES - (unsigned)part.first);
            assert_int_equal(hf_ranges_cover(&ranges, &part), covered(table, &part));
            count = hf_ranges_count_after(&ranges, &part);
            assert_int_equal(hf_ranges_reserve(&ranges, count), 0);
            hf_ranges_set(&ranges, &part);
            assert_int_equal(ranges.count, count);
            memset(table + part.first, part.mode, part.last - part.first + 1);
            check(&ranges, table);
            assert_int_equal(hf_ranges_any_exclusive(&ranges),
                             memchr(table, HF_KEEPER_EXCLUSIVE, BYTES) != NULL);
        }
        hf_ranges_free(&ranges);
        assert_int_equal(ranges.count, 0);
    }
}

/* The last byte that the kernel can lock is a byte like others. */
static void the_end_is_a_byte(void **state)
{
    struct hf_ranges ranges;
    struct hf_span all = {.last = HF_RANGE_LAST, .mode = HF_KEEPER_SHARED};
    struct hf_span end = {
        .first = HF_RANGE_LAST, .last = HF_RANGE_LAST, .mode = HF_KEEPER_EXCLUSIVE};

    (void)state;
    hf_ranges_init(&ranges);
    hf_ranges_set(&ranges, &all);
    assert_int_equal(hf_ranges_reserve(&ranges, hf_ranges_count_after(&ranges, &end)), 0);
    hf_ranges_set(&ranges, &end);
    assert_int_equal(ranges.count, 2);
    assert_int_equal(ranges.spans[0].last, HF_RANGE_LAST - 1);
    end.mode = HF_KEEPER_SHARED;
    hf_ranges_set(&ranges, &end);
    assert_int_equal(ranges.count, 1);
    assert_int_equal(ranges.spans[0].last, HF_RANGE_LAST);
    hf_ranges_free(&ranges);
}

static void check_clamp(uint64_t offset, uint64_t length, uint64_t first, uint64_t last)
{
    struct hf_span span;

    assert_true(hf_range_clamp(offset, length, &span));
    assert_int_equal(span.first, first);
    assert_int_equal(span.last, last);
}

/* The wire has 64 bits and the kernel 63, so offsets are clamped; length 0 is to the end. */
static void offsets_are_clamped(void **state)
{
    struct hf_span span;

    (void)state;
    check_clamp(0, 0, 0, HF_RANGE_LAST);
    check_clamp(0, 1, 0, 0);
    check_clamp(10, 5, 10, 14);
    check_clamp(10, UINT64_MAX, 10, HF_RANGE_LAST);
    check_clamp(10, HF_RANGE_LAST - 9, 10, HF_RANGE_LAST);
    check_clamp(10, HF_RANGE_LAST - 10, 10, HF_RANGE_LAST - 1);
    check_clamp(HF_RANGE_LAST, 1, HF_RANGE_LAST, HF_RANGE_LAST);
    check_clamp(HF_RANGE_LAST, 0, HF_RANGE_LAST, HF_RANGE_LAST);
    assert_false(hf_range_clamp(HF_RANGE_LAST + 1, 0, &span));
    assert_false(hf_range_clamp(UINT64_MAX, 1, &span));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_are_as_one_entry_a_byte),
        cmocka_unit_test(the_end_is_a_byte),
        cmocka_unit_test(offsets_are_clamped),
    };

    return cmocka_run_group_tests_name("keeper ranges", tests, NULL, NULL);
}
