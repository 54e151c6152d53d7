/*
 * hf-differential: the core against the kernel's own POSIX locks.
 *
 *     hf-differential [--sequences N] [--from SEED]    N random sequences (10,000 from seed 1)
 *     hf-differential --seed SEED                      one of them, with what was asked and
 * answered
 *     hf-differential --keeper yes ...                 what is granted is locked in the kernel, too
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sequence.h"
#include "tap.h"

/* Seeds of sequences that once found something, and run before the others. */
static const uint64_t kept[] = {
    26, 31,       /* F_SETLK was refused because another request waited */
    6,  283, 354, /* a cycle through places in a queue was called a deadlock */
};

static bool with_keeper;

static unsigned run(struct kernel *kernel, uint64_t seed, struct figures *figures, bool show)
{
    const char *why;
    bool good = sequence_run(kernel, seed, with_keeper, figures, &why);

    if (!good || show)
        fputs(why, stdout);
    return !good;
}

static void print(const struct figures *f)
{
    printf("# note: %" PRIu64 " sequences, %" PRIu64 " operations: %" PRIu64 " locks (%" PRIu64
           " denied, %" PRIu64 " waited, %" PRIu64 " of these granted, %" PRIu64
           " interrupted, %" PRIu64 " deadlocks), %" PRIu64 " tests\n",
           f->sequences, f->operations, f->locks, f->denied, f->waited, f->granted_later,
           f->interrupted, f->deadlocks, f->tests);
    printf("# note: taken back because the specification lets the two differ: %" PRIu64
           " for a turn in the queue, %" PRIu64 " for a deadlock that the kernel did not see\n",
           f->turns, f->missed);
    printf("# note: ended early: %" PRIu64 " for a turn in the queue, %" PRIu64
           " for the order of grants, %" PRIu64 " for a grant that only adds\n",
           f->parted_by_turn, f->parted_by_order, f->parted_by_grant);
}

/* A sequence that ended early does not test the rest of its requests, so there must not be too
 * many. */
static void check_parted(const struct figures *f)
{
    enum { AT_MOST_PERCENT = 4 };
    uint64_t parted = f->parted_by_turn + f->parted_by_order + f->parted_by_grant;

    tap_result(parted * 100 <= f->sequences * AT_MOST_PERCENT,
               "at most %d of 100 sequences end early: %" PRIu64 " of %" PRIu64, AT_MOST_PERCENT,
               parted, f->sequences);
}

int main(int argc, char **argv)
{
    uint64_t count = 10000, from = 1, seed = 0;
    struct figures figures = {0};
    struct kernel *kernel;
    unsigned failed = 0;

    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t value = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--sequences") == 0)
            count = value;
        else if (strcmp(argv[i], "--from") == 0)
            from = value;
        else if (strcmp(argv[i], "--seed") == 0)
            seed = value;
        else if (strcmp(argv[i], "--keeper") == 0)
            with_keeper = strcmp(argv[i + 1], "yes") == 0;
    }
    kernel = kernel_new();
    if (!kernel) {
        puts("1..0 # SKIP /proc does not say in which system call a process sleeps");
        return 0;
    }
    if (seed != 0) {
        failed = run(kernel, seed, &figures, true);
        kernel_free(kernel);
        return failed != 0;
    }
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
        failed += run(kernel, kept[i], &figures, false);
    tap_result(failed == 0, "sequences that once found something");
    failed = 0;
    for (uint64_t i = 0; i < count && failed < 5; i++)
        failed += run(kernel, from + i, &figures, false);
    kernel_free(kernel);
    print(&figures);
    check_parted(&figures);
    tap_result(failed == 0, "%" PRIu64 " random sequences: the kernel and the core agree", count);
    return tap_done();
}
