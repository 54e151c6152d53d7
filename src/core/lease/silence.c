#include "core/lease/silence.h"

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t hf_silence_clock(struct hf_silence *silence, const struct hf_lease *lease, uint64_t now_ms,
                          uint64_t mono_ms)
{
    bool valid = hf_lease_is_valid(lease, now_ms);
    uint64_t until_ms = hf_lease_valid_until(lease);
    uint64_t late_ms = until_ms > 0 && now_ms > until_ms ? now_ms - until_ms : 0;

    if (!valid && silence->since_ms == 0)
        silence->since_ms = mono_ms - smaller(late_ms, mono_ms - silence->seen_ms);
    silence->seen_ms = mono_ms;
    if (valid && silence->since_ms != 0) {
        silence->total_ms += mono_ms - silence->since_ms;
        silence->since_ms = 0;
    }
    return (silence->since_ms != 0 ? silence->since_ms : mono_ms) - silence->total_ms;
}
