/*
 * The clock that the core is given in a service with standbys (HA-04). It stands still while the
 * lease is not valid: no client can reach a silent service, so no grace period, pause or call may
 * run out meanwhile. When the lease is renewed, the clock continues from where it stood.
 */
#ifndef HF_CORE_LEASE_SILENCE_H
#define HF_CORE_LEASE_SILENCE_H

#include "core/lease/lease.h"

struct hf_silence {
    uint64_t total_ms; /* how long the clock stood still, in all silences that are over */
    uint64_t since_ms; /* when the present silence began, by the loop's clock; 0: no silence */
    uint64_t seen_ms;  /* the last reading of the loop's clock */
};

/*
 * Returns the core's time. now_ms is the time by which the lease counts, mono_ms that of the loop.
 * The loop may notice late that the lease ran out, so the silence counts from that moment, but
 * never from before the last reading, because the core's clock must not go back. So the clock must
 * be read often.
 */
uint64_t hf_silence_clock(struct hf_silence *silence, const struct hf_lease *lease, uint64_t now_ms,
                          uint64_t mono_ms);

#endif
