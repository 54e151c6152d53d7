#include "decided.h"

struct sim_decided sim_decided;
struct sim_reported sim_reported;

#define WRAP_NLM(name, type)                                                              \
    struct hf_answer __real_hf_core_##name(struct hf_core *core, struct hf_now now,       \
                                           const struct hf_peer *peer, const type *args); \
    struct hf_answer __wrap_hf_core_##name(struct hf_core *core, struct hf_now now,       \
                                           const struct hf_peer *peer, const type *args); \
    struct hf_answer __wrap_hf_core_##name(struct hf_core *core, struct hf_now now,       \
                                           const struct hf_peer *peer, const type *args)  \
    {                                                                                     \
        sim_decided.answer = __real_hf_core_##name(core, now, peer, args);                \
        sim_decided.asked = true;                                                         \
        return sim_decided.answer;                                                        \
    }

#define WRAP_NSM(name)                                                                 \
    struct hf_sm_answer __real_hf_core_##name(struct hf_core *core, struct hf_now now, \
                                              const struct hf_peer *peer,              \
                                              const struct hf_mon_args *args);         \
    struct hf_sm_answer __wrap_hf_core_##name(struct hf_core *core, struct hf_now now, \
                                              const struct hf_peer *peer,              \
                                              const struct hf_mon_args *args);         \
    struct hf_sm_answer __wrap_hf_core_##name(struct hf_core *core, struct hf_now now, \
                                              const struct hf_peer *peer,              \
                                              const struct hf_mon_args *args)          \
    {                                                                                  \
        sim_decided.sm = __real_hf_core_##name(core, now, peer, args);                 \
        sim_decided.asked = true;                                                      \
        return sim_decided.sm;                                                         \
    }

WRAP_NLM(test, struct hf_lock_args)
WRAP_NLM(lock, struct hf_lock_args)
WRAP_NLM(unlock, struct hf_lock_args)
WRAP_NLM(cancel, struct hf_lock_args)
WRAP_NLM(share, struct hf_share_args)
WRAP_NLM(unshare, struct hf_share_args)
WRAP_NSM(sm_mon)
WRAP_NSM(sm_unmon)
WRAP_NSM(sm_unmon_all)

struct hf_answer __real_hf_core_free_all(struct hf_core *core, struct hf_now now,
                                         const struct hf_peer *peer, int32_t state, bool proven);
struct hf_answer __wrap_hf_core_free_all(struct hf_core *core, struct hf_now now,
                                         const struct hf_peer *peer, int32_t state, bool proven);
struct hf_answer __wrap_hf_core_free_all(struct hf_core *core, struct hf_now now,
                                         const struct hf_peer *peer, int32_t state, bool proven)
{
    sim_decided.answer = __real_hf_core_free_all(core, now, peer, state, proven);
    sim_decided.asked = true;
    return sim_decided.answer;
}

struct hf_sm_answer __real_hf_core_sm_stat(struct hf_core *core);
struct hf_sm_answer __wrap_hf_core_sm_stat(struct hf_core *core);
struct hf_sm_answer __wrap_hf_core_sm_stat(struct hf_core *core)
{
    sim_decided.sm = __real_hf_core_sm_stat(core);
    sim_decided.asked = true;
    return sim_decided.sm;
}

struct hf_sm_answer __real_hf_core_sm_notify(struct hf_core *core, struct hf_now now,
                                             const struct hf_addr *from, struct hf_bytes mon_name,
                                             int32_t state, bool proven);
struct hf_sm_answer __wrap_hf_core_sm_notify(struct hf_core *core, struct hf_now now,
                                             const struct hf_addr *from, struct hf_bytes mon_name,
                                             int32_t state, bool proven);
struct hf_sm_answer __wrap_hf_core_sm_notify(struct hf_core *core, struct hf_now now,
                                             const struct hf_addr *from, struct hf_bytes mon_name,
                                             int32_t state, bool proven)
{
    sim_decided.sm = __real_hf_core_sm_notify(core, now, from, mon_name, state, proven);
    sim_decided.asked = true;
    return sim_decided.sm;
}

void __real_hf_core_outcall_done(struct hf_core *core, struct hf_now now, uint64_t call_id,
                                 enum hf_outcall_outcome outcome, int error);
void __wrap_hf_core_outcall_done(struct hf_core *core, struct hf_now now, uint64_t call_id,
                                 enum hf_outcall_outcome outcome, int error);
void __wrap_hf_core_outcall_done(struct hf_core *core, struct hf_now now, uint64_t call_id,
                                 enum hf_outcall_outcome outcome, int error)
{
    sim_reported.n++;
    sim_reported.id = call_id;
    sim_reported.outcome = outcome;
    __real_hf_core_outcall_done(core, now, call_id, outcome, error);
}

void __real_hf_core_stat_answered(struct hf_core *core, struct hf_now now, uint64_t call_id,
                                  int32_t state);
void __wrap_hf_core_stat_answered(struct hf_core *core, struct hf_now now, uint64_t call_id,
                                  int32_t state);
void __wrap_hf_core_stat_answered(struct hf_core *core, struct hf_now now, uint64_t call_id,
                                  int32_t state)
{
    sim_reported.n++;
    sim_reported.id = call_id;
    sim_reported.outcome = HF_OUTCALL_ACCEPTED;
    __real_hf_core_stat_answered(core, now, call_id, state);
}
