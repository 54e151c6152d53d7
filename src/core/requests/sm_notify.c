/* SM_NOTIFY from another host, and NLM procedure 16 from the local status monitor (NSM-05). */
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/recovery/recovery.h"
#include "core/requests/requests.h"

static struct hf_sm_answer answer(struct hf_core *core, struct hf_now now,
                                  struct hf_notice_answer notice)
{
    hf_turn_end(core, now);
    return (struct hf_sm_answer){
        .ok = !notice.busy,
        .state = hf_epoch_state(core),
        .ticket = {hf_durable_answer_seq(core, notice.wait.seq), notice.wait.decision},
    };
}

struct hf_sm_answer hf_core_sm_notify(struct hf_core *core, struct hf_now now,
                                      const struct hf_addr *from, struct hf_bytes mon_name,
                                      int32_t state, bool proven)
{
    return answer(core, now, hf_peer_notified(core, now, from, mon_name, state, proven));
}

struct hf_sm_answer hf_core_host_restarted(struct hf_core *core, struct hf_now now,
                                           struct hf_bytes mon_name, int32_t state)
{
    return answer(core, now, hf_peer_restarted(core, now, mon_name, state));
}
