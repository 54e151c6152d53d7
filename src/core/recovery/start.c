/*
 * What a start means (SPEC section 14). The server's record says what the run before was: which
 * role it had, how durable its locks were, in which boot of the host it ran, and how it ended. With
 * the configuration of this run, and with what was loaded, that makes a set of facts. Two tables
 * turn the facts into a decision; in each, the first row counts whose facts are all there.
 *
 *   - Is this a new life of what clients rely on? Then it gets a new state number, and every
 *     registered host is told.
 *   - May clients hold locks that are not recorded? Then each registered client may reclaim, in a
 *     strict grace period, what conflicts with nothing that is known to be held.
 *
 * Recorded locks are unclaimed from the first moment, and registered clients of NLM are told, at
 * each start.
 */
#include <string.h>

#include "core/clients/clients.h"
#include "core/internal.h"
#include "core/recovery/private.h"

enum fact {
    MONITOR_WAS = 1 << 0, /* the run before served NSM only: the locks were the kernel's */
    MONITOR_IS = 1 << 1,  /* this one does */
    SAME_BOOT = 1 << 2,   /* the host has not been booted since */
    DURABLE_IS = 1 << 3,  /* this run records locks */
    UNRECORDED = 1 << 4,  /* the run before did not */
    TAIL_LOST = 1 << 5,   /* its newest records were in the host's memory, and the host crashed */
    GRACE_CUT = 1 << 6,   /* locks may be unknown since an earlier start, whose grace was cut off */
    OLD_FORMAT = 1 << 7,  /* it is unknown whether the run before recorded locks; none is there */
};

static const struct {
    unsigned facts;
    enum hf_start_number number;
} NUMBERS[] = {
    /* A monitor's registrations tell of locks in the kernel, which outlive it. They end with the
     * boot of the host, as rpc.statd has it. */
    {MONITOR_WAS | MONITOR_IS | SAME_BOOT, HF_START_KEEPS_NUMBER},
    {0, HF_START_NEW_NUMBER},
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

static unsigned gather_facts(const struct hf_core *core)
{
    const struct hf_record_server *before = &core->recovery->before;
    bool same = same_boot(core, before);
    unsigned facts = 0;

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
    size_t number = 0;
    size_t why = 0;

    while ((NUMBERS[number].facts & ~facts) != 0)
        number++;
    while ((UNKNOWN_LOCKS[why].facts & ~facts) != 0)
        why++;
    return (struct hf_start){NUMBERS[number].number, UNKNOWN_LOCKS[why].why};
}
