/* What hf_changes leaves of a batch: the last operation on each record, ordered by kind and id. */
#include "../unit/unit.h"

#include <stdlib.h>

#include "base/error.h"
#include "fixture.h"
#include "store/changes.h"

enum { OPS = 2000 };

struct world {
    struct faulty_heap heap;
    struct hf_alloc alloc;
    struct hf_batch batch;
    struct hf_changes changes;
};

static int set_up(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    assert_non_null(w);
    w->heap.after = -1;
    w->alloc = faulty_alloc(&w->heap);
    hf_batch_init(&w->batch, &w->alloc);
    hf_changes_init(&w->changes, &w->alloc);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;

    hf_changes_free(&w->changes);
    hf_batch_free(&w->batch);
    assert_int_equal(w->heap.live, 0);
    free(w);
    return 0;
}

static void put_lock(struct world *w, uint64_t id)
{
    const struct hf_record_lock lock = {.id = id, .client_id = 1, .last = 9};

    assert_int_equal(hf_batch_put_lock(&w->batch, &lock), 0);
}

static void put_client(struct world *w, uint64_t id)
{
    const struct hf_record_client client = {.id = id, .protocol = HF_PROTOCOL_NLM};

    assert_int_equal(hf_batch_put_client(&w->batch, &client), 0);
}

/* Finds the last operation of the batch on this record, the slow way. Each operation has its place
 * in the batch, also one without a value. */
static struct hf_op last_on(const struct world *w, enum hf_record_kind kind, uint64_t id)
{
    struct hf_op op, last = {0};

    for (size_t cursor = 0; hf_batch_next(&w->batch, &cursor, &op);) {
        if (op.kind == kind && op.id == id)
            last = op;
    }
    return last;
}

static size_t count_records(const struct world *w)
{
    size_t count = 0;
    struct hf_op op;

    for (size_t cursor = 0; hf_batch_next(&w->batch, &cursor, &op);)
        count += last_on(w, op.kind, op.id).value.data == op.value.data;
    return count;
}

static void assert_collapsed(struct world *w)
{
    const struct hf_changes *changes = &w->changes;

    assert_int_equal(hf_changes_collapse(&w->changes, &w->batch), 0);
    assert_int_equal(changes->count, count_records(w));
    for (size_t i = 0; i < changes->count; i++) {
        const struct hf_op *op = &changes->ops[i];
        struct hf_op last = last_on(w, op->kind, op->id);

        assert_int_equal(op->type, last.type);
        assert_ptr_equal(op->value.data, last.value.data);
        assert_true(hf_changes_find(changes, op->kind, op->id));
        assert_false(hf_changes_find(changes, op->kind, op->id + 1) &&
                     last_on(w, op->kind, op->id + 1).type == 0);
        if (i > 0)
            assert_true(op[-1].kind < op->kind || (op[-1].kind == op->kind && op[-1].id < op->id));
    }
}

/* Given records of both kinds with ids near each other, as one epoch gives them, only the last
 * operation on each is left. */
static void the_last_operation_on_each_record_is_left(void **state)
{
    struct world *w = *state;
    uint64_t first = hf_record_first_id(7);

    srandom(1);
    for (int i = 0; i < OPS; i++) {
        uint64_t id = first + (uint64_t)i / 2 - (uint64_t)(random() % 50 * (i > 100));

        if (random() % 10 == 0)
            put_client(w, id);
        else if (random() % 2)
            put_lock(w, id);
        else
            assert_int_equal(hf_batch_delete(&w->batch, HF_RECORD_LOCK, id), 0);
    }
    assert_collapsed(w);
}

/* Given locks that are released soon, after a few that are released late: each leaves one
 * operation, wherever in the batch the first one on it was. */
static void locks_released_soon(void **state)
{
    struct world *w = *state;
    uint64_t first = hf_record_first_id(7);

    for (uint64_t i = 0; i < OPS / 2; i++) {
        put_lock(w, first + OPS + i);
        assert_int_equal(
            hf_batch_delete(&w->batch, HF_RECORD_LOCK, i < 5 ? first + 5 - i : first + OPS + i - 3),
            0);
    }
    put_lock(w, first + OPS + 1); /* again, long after */
    assert_collapsed(w);
}

/* Given ids that differ in any of their bytes, the order is that of the whole number. */
static void ids_of_many_epochs_are_ordered(void **state)
{
    struct world *w = *state;

    srandom(2);
    for (int i = 0; i < OPS / 4; i++) {
        uint64_t id = (uint64_t)random() << (random() % 34);

        put_lock(w, id ? id : 1);
    }
    put_lock(w, UINT64_MAX);
    put_lock(w, 1);
    assert_collapsed(w);
}

/* Given a batch with no operation, with one, or with many on the same record, the result is right.
 */
static void small_batches(void **state)
{
    struct world *w = *state;

    assert_collapsed(w);
    assert_int_equal(w->changes.count, 0);
    put_lock(w, 300);
    assert_collapsed(w);
    for (int i = 2; i < 10; i++)
        put_lock(w, 300);
    assert_collapsed(w);
    assert_int_equal(w->changes.count, 1);
    assert_false(hf_changes_find(&w->changes, HF_RECORD_CLIENT, 300));
}

/* Given no memory for either array, the call says so, and works when there is memory. */
static void lack_of_memory(void **state)
{
    struct world *w = *state;

    put_lock(w, 2);
    put_lock(w, 1);
    for (long after = 0; after < 2; after++) {
        w->heap.after = after;
        assert_int_equal(hf_changes_collapse(&w->changes, &w->batch), HF_ENOMEM);
    }
    w->heap.after = -1;
    assert_collapsed(w);
}

#define STORY(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(the_last_operation_on_each_record_is_left),
        STORY(locks_released_soon),
        STORY(ids_of_many_epochs_are_ordered),
        STORY(small_batches),
        STORY(lack_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
