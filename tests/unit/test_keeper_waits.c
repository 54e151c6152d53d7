/* COH-03: the cost of waiting for holders outside. Turns of the loop are counted; no clock is read.
 */
#include "unit.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "keeper/kernel_locks.h"
#include "keeper/waits.h"

enum { FILES = 40, CROWD = 1000, THREADS = 2, HOUR_MS = 3600 * 1000, MINUTE_MS = 60 * 1000 };

struct place {
    struct hf_keeper_files files;
    struct hf_waits waits;
    int outside[FILES]; /* open file descriptions of a program outside */
    unsigned made;
};

static void on_made(void *ctx, const struct hf_wait *wait, enum hf_keeper_status status)
{
    struct place *place = ctx;

    (void)wait;
    place->made += status == HF_KEEPER_OK;
}

static struct hf_keeper_op wait_op(uint64_t id, unsigned file)
{
    struct hf_keeper_op op = {.id = id,
                              .length = 10,
                              .kind = HF_KEEPER_WAIT,
                              .mode = HF_KEEPER_EXCLUSIVE,
                              .handle_len = 1,
                              .handle = {(uint8_t)file}};

    return op;
}

/* Makes files that a program outside has locked. */
static int open_place(void **state)
{
    static const struct hf_span held = {0, 9, HF_KEEPER_EXCLUSIVE};
    struct place *place = test_calloc(1, sizeof(*place));

    assert_int_equal(hf_keeper_files_init(&place->files), 0);
    place->files.max = FILES;
    place->files.ranges_max = 100;
    assert_int_equal(hf_waits_init(&place->waits, &place->files, CROWD, THREADS, on_made, place),
                     0);
    for (unsigned i = 0; i < FILES; i++) {
        uint8_t handle = (uint8_t)i;
        int fd = memfd_create("file", MFD_CLOEXEC);
        char path[32];

        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        place->outside[i] = open(path, O_RDWR | O_CLOEXEC);
        assert_true(fd >= 0 && place->outside[i] >= 0);
        assert_int_equal(hf_kernel_lock(place->outside[i], &held), 0);
        hf_keeper_files_adopt(&place->files, 0, hf_bytes(&handle, 1), fd, true)->pins++;
    }
    *state = place;
    return 0;
}

static int close_place(void **state)
{
    struct place *place = *state;

    hf_waits_cancel_all(&place->waits, NULL, HF_KEEPER_CANCELLED);
    while (!hf_list_empty(&place->files.all))
        hf_keeper_files_close(&place->files,
                              hf_list_first(&place->files.all, struct hf_keeper_file, link));
    hf_waits_free(&place->waits);
    hf_keeper_files_free(&place->files);
    for (unsigned i = 0; i < FILES; i++)
        close(place->outside[i]);
    test_free(place);
    return 0;
}

/* The program outside unlocks, and the waits for which threads wait succeed. */
static void release(struct place *place, unsigned file)
{
    hf_kernel_unlock_all(place->outside[file]);
}

static void run_until_made(struct place *place, unsigned n)
{
    struct pollfd wake = {.fd = place->waits.wake[0], .events = POLLIN};

    while (place->made < n) {
        (void)hf_waits_step(&place->waits, 0);
        if (place->made < n)
            /* A thread wakes the loop, not the end of a pause. */
            assert_int_equal(poll(&wake, 1, 60000), 1);
        hf_waits_drain(&place->waits);
    }
}

/* A thousand waits behind one holder: one thread waits for all of them, and the loop sleeps without
 * a limit. */
static void a_crowd_is_never_tried_again(void **state)
{
    struct place *place = *state;

    for (unsigned i = 0; i < CROWD; i++) {
        struct hf_keeper_op op = wait_op(i + 1, 0);
        assert_int_equal(hf_waits_add(&place->waits, 0, &op), HF_KEEPER_OK);
    }
    (void)hf_waits_step(&place->waits, 0);
    assert_int_equal(place->waits.n_busy, 1);
    for (int64_t now = 0; now <= HOUR_MS; now += 1000)
        (void)hf_waits_step(&place->waits, now);
    assert_int_equal(place->waits.n_busy, 1);
    assert_int_equal(place->made, 0);
    release(place, 0);
    run_until_made(place, CROWD);
}

/* Begins this many waits, evenly spread over the files. */
static void begin_waits(struct place *place, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        struct hf_keeper_op op = wait_op(i + 1, i % FILES);
        assert_int_equal(hf_waits_add(&place->waits, 0, &op), HF_KEEPER_OK);
    }
}

/* Lets a minute pass; returns how many turns the loop made in it, and the longest pause between
 * two, once pauses have grown. */
static unsigned turns_of_a_minute(struct place *place, unsigned *longest_ms)
{
    int64_t now = 0;
    unsigned turns = 0;

    *longest_ms = 0;
    while (now < MINUTE_MS) {
        int pause = hf_waits_step(&place->waits, now);

        assert_true(pause >= 0);
        if ((unsigned)pause > *longest_ms)
            *longest_ms = (unsigned)pause;
        now += pause > 0 ? pause : 1;
        turns++;
    }
    assert_int_equal(place->waits.n_busy, THREADS);
    return turns;
}

/* More files than threads: the others are tried again after pauses, and no turn of the loop is made
 * between them. While they are few, none waits longer than 50 ms for a release. */
static void few_waits_without_a_thread_are_tried_within_50_ms(void **state)
{
    struct place *place = *state;
    unsigned turns, longest_ms;

    begin_waits(place, FILES);
    turns = turns_of_a_minute(place, &longest_ms);
    assert_between(longest_ms, HF_WAIT_PAUSE_LONG_MS, 40);
    /* All waits became due at one moment, and stay so: one turn tries all of them. */
    assert_between(turns, MINUTE_MS / 40, MINUTE_MS / HF_WAIT_PAUSE_LONG_MS + 10);
}

/* Many waits without a thread: the pauses grow with their number, so that tries stay rare. */
static void many_waits_without_a_thread_cost_little(void **state)
{
    struct place *place = *state;
    /* Waits behind one that a thread has are not tried. */
    unsigned tried = CROWD - CROWD / FILES * THREADS;
    unsigned turns, longest_ms;

    begin_waits(place, CROWD);
    turns = turns_of_a_minute(place, &longest_ms);
    assert_int_equal(place->waits.n_tried, tried);
    assert_between(longest_ms, tried / HF_WAIT_TRIES_PER_MS,
                   tried / HF_WAIT_TRIES_PER_MS + HF_WAIT_GRID_MS);
    assert_true((uint64_t)turns * tried <= (uint64_t)MINUTE_MS * HF_WAIT_TRIES_PER_MS * 11 / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_crowd_is_never_tried_again, open_place, close_place),
        cmocka_unit_test_setup_teardown(few_waits_without_a_thread_are_tried_within_50_ms,
                                        open_place, close_place),
        cmocka_unit_test_setup_teardown(many_waits_without_a_thread_cost_little, open_place,
                                        close_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
