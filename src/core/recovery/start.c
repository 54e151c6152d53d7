/*
 * What a start means (SPEC section 14). The server's record says what the run before was: which
 * role it had, how durable its locks were, in which boot of the host it ran, and how it ended. With
 * the configuration of this run, and with what was loaded, that makes a set of facts. Three tables
 * turn the facts into a decision; in each, the first row counts whose facts are all there.
 *
 *   - Is this a new life of what clients rely on? Then it gets a new state number, and every
 *     registered host is told.
 *   - May it continue (recovery.notify=needed)? Then all that clients rely on is as it was: the
 *     start keeps the state number, tells no client, and recorded locks are held and not unclaimed.
 *   - May clients hold locks that are not recorded? Then each registered client may reclaim, in a
 *     strict grace period, what conflicts with nothing that is known to be held.
 *
 * A start that does not continue holds recorded locks as unclaimed from the first moment, and tells
 * registered clients of NLM.
 */
#include <assert.h>
#include <string.h>

#include "core/internal.h"
#include "core/recovery/private.h"

enum fact {
    MONITOR_WAS = 1 << 0, /* the previous run served NSM only: the kernel had the locks */
    MONITOR_IS = 1 << 1,  /* this run serves NSM only */
    SAME_BOOT = 1 << 2,   /* the host was not booted since the previous run */
    DURABLE_IS = 1 << 3,  /* this run records locks */
    UNRECORDED = 1 << 4,  /* the previous run did not record locks */
    /* The host crashed while the newest records were only in its memory. */
    TAIL_LOST = 1 << 5,
    /* An earlier start found that locks may be unknown, and its grace was cut off. */
    GRACE_CUT = 1 << 6,
    /* The previous run may or may not have recorded locks, and no lock is recorded. */
    OLD_FORMAT = 1 << 7,
    ALWAYS = 1 << 8, /* the configuration tells this run to recover */
    FIRST = 1 << 9,  /* there was no previous run */
    /* This run or the previous one does not record all that clients rely on. */
    INCOMPLETE = 1 << 10,
    RECORDS_LOST = 1 << 11,
    /* The previous run ended in grace, in a hold, or with locks of unclear life. */
    UNFINISHED = 1 << 12,
    MERGED = 1 << 13, /* a lock was dropped while loading, because two files became one */
};

static const struct {
    unsigned facts;
    enum hf_start_number number;
} NUMBERS[] = {
    /* A monitor's registrations are about locks in the kernel, which outlive the monitor. As with
     * rpc.statd, they end with the boot of the host. */
    {MONITOR_WAS | MONITOR_IS | SAME_BOOT, HF_START_KEEPS_NUMBER},
    {0, HF_START_NEW_NUMBER},
};

static const struct {
    unsigned facts;
    enum hf_recovers why;
} RECOVERS[] = {
    {ALWAYS, HF_RECOVERS_ALWAYS},
    {FIRST, HF_RECOVERS_FIRST},
    {MONITOR_WAS, HF_RECOVERS_ROLE},
    {MONITOR_IS, HF_RECOVERS_ROLE},
    {RECORDS_LOST, HF_RECOVERS_LOST},
    {TAIL_LOST, HF_RECOVERS_CRASHED},
    {GRACE_CUT, HF_RECOVERS_UNKNOWN},
    {INCOMPLETE, HF_RECOVERS_UNRECORDED},
    {UNFINISHED, HF_RECOVERS_UNFINISHED},
    {MERGED, HF_RECOVERS_MERGED},
    {0, HF_RECOVERS_NOT},
};

static const struct {
    unsigned facts;
    enum hf_unknown_locks why;
} UNKNOWN_LOCKS[] = {
    {DURABLE_IS | GRACE_CUT, HF_UNKNOWN_SINCE_EARLIER},
    {DURABLE_IS | UNRECORDED, HF_UNKNOWN_NOT_DURABLE},
    {DURABLE_IS | TAIL_LOST, HF_UNKNOWN_HOST_CRASHED},
    {DURABLE_IS | OLD_FORMAT, HF_UNKNOWN_OLD_FORMAT},
    {0, HF_UNKNOWN_NONE},
};

static bool same_boot(const struct hf_core *core, const struct hf_record_server *before)
{
    static const uint8_t unknown[HF_BOOT_ID_SIZE];

    return memcmp(before->boot_id, unknown, sizeof(unknown)) != 0 &&
           memcmp(before->boot_id, core->config.boot_id, sizeof(unknown)) == 0;
}

static unsigned continuity_facts(const struct hf_core *core, const struct hf_record_server *before)
{
    unsigned facts = 0;

    if (!core->config.continues)
        facts |= ALWAYS;
    if (before->epoch == 0)
        facts |= FIRST;
    if (!core->config.durable_locks || before->durability == HF_DURABILITY_NONE ||
        before->continuity == HF_CONTINUITY_NONE)
        facts |= INCOMPLETE;
    if (before->continuity == HF_CONTINUITY_LOST)
        facts |= RECORDS_LOST;
    if (before->continuity == HF_CONTINUITY_BROKEN)
        facts |= UNFINISHED;
    if (core->recovery->merged)
        facts |= MERGED;
    return facts;
}

static unsigned gather_facts(const struct hf_core *core)
{
    const struct hf_record_server *before = &core->recovery->before;
    bool same = same_boot(core, before);
    unsigned facts = continuity_facts(core, before);

    if (before->role == HF_ROLE_MONITOR)
        facts |= MONITOR_WAS;
    if (core->config.role == HF_ROLE_MONITOR)
        facts |= MONITOR_IS;
    if (same)
        facts |= SAME_BOOT;
    if (core->config.durable_locks)
        facts |= DURABLE_IS;
    if (before->durability == HF_DURABILITY_NONE)
        facts |= UNRECORDED;
    if (before->durability == HF_DURABILITY_PROCESS && !before->clean && !same)
        facts |= TAIL_LOST;
    if (before->locks_unknown)
        facts |= GRACE_CUT;
    if (before->epoch > 0 && before->durability == HF_DURABILITY_UNKNOWN &&
        core->clients->n_unclaimed == 0)
        facts |= OLD_FORMAT;
    return facts;
}

struct hf_start hf_start_decide(const struct hf_core *core)
{
    unsigned facts = gather_facts(core);
    size_t recovers = 0;
    size_t number = 0;
    size_t why = 0;

    while ((RECOVERS[recovers].facts & ~facts) != 0)
        recovers++;
    if (RECOVERS[recovers].why == HF_RECOVERS_NOT)
        return (struct hf_start){HF_START_KEEPS_NUMBER, HF_UNKNOWN_NONE, HF_RECOVERS_NOT};

    while ((NUMBERS[number].facts & ~facts) != 0)
        number++;
    while ((UNKNOWN_LOCKS[why].facts & ~facts) != 0)
        why++;
    return (struct hf_start){NUMBERS[number].number, UNKNOWN_LOCKS[why].why,
                             RECOVERS[recovers].why};
}

const char *hf_recovers_text(enum hf_recovers why)
{
    static const char *const TEXTS[] = {
        [HF_RECOVERS_NOT] = "",
        [HF_RECOVERS_ALWAYS] = "",
        [HF_RECOVERS_FIRST] = "this is the first run",
        [HF_RECOVERS_ROLE] = "server.programs has changed",
        [HF_RECOVERS_UNRECORDED] = "the last run did not record all that clients rely on",
        [HF_RECOVERS_LOST] = "the store has lost records, or is of an earlier moment",
        [HF_RECOVERS_CRASHED] = "the host has crashed with locks.durable=process",
        [HF_RECOVERS_UNKNOWN] = "locks may be unknown since an earlier start or a backup",
        [HF_RECOVERS_UNFINISHED] =
            "the last run had not ended its own grace period, a hold, or a client's former life",
        [HF_RECOVERS_MERGED] = "two handles have become one file, and a lock was lost",
    };

    static_assert(HF_COUNT_OF(TEXTS) == HF_RECOVERS_REASONS, "each reason has a text");
    return TEXTS[why];
}
