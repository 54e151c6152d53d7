#include "message.h"

#include "base/assert.h"

const char *sim_call_name(enum sim_call call)
{
    static const char *const names[SIM_CALLS] = {
        [SIM_CALL_NONE] = "nothing",      [SIM_CALL_TEST] = "TEST",
        [SIM_CALL_LOCK] = "LOCK",         [SIM_CALL_NM_LOCK] = "NM_LOCK",
        [SIM_CALL_UNLOCK] = "UNLOCK",     [SIM_CALL_CANCEL] = "CANCEL",
        [SIM_CALL_SHARE] = "SHARE",       [SIM_CALL_UNSHARE] = "UNSHARE",
        [SIM_CALL_FREE_ALL] = "FREE_ALL", [SIM_CALL_SM_NOTIFY] = "SM_NOTIFY",
        [SIM_CALL_SM_MON] = "SM_MON",     [SIM_CALL_SM_UNMON] = "SM_UNMON",
        [SIM_CALL_SM_STAT] = "SM_STAT",   [SIM_CALL_SM_UNMON_ALL] = "SM_UNMON_ALL",
        [SIM_CALL_GRANTED] = "GRANTED",   [SIM_CALL_SIMU_CRASH] = "SIMU_CRASH",
        [SIM_CALL_NOTIFY] = "NOTIFY",     [SIM_CALL_STATUS] = "STATUS",
        [SIM_CALL_STAT] = "STAT",
    };

    HF_ASSERT(call < SIM_CALLS);
    return names[call];
}

const char *sim_stat_name(unsigned stat)
{
    static const char *const names[] = {"GRANTED", "DENIED", "DENIED_NOLOCKS", "BLOCKED", "GRACE",
                                        "DEADLCK", "ROFS",   "STALE_FH",       "FBIG",    "FAILED"};

    HF_ASSERT(stat < HF_COUNT_OF(names));
    return names[stat];
}
