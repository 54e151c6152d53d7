/*
 * The clock that the core is given in a service with standbys (HA-04). It stands still while the
 * lease is not valid: no client can reach a silent service, so no grace period, pause or call may
 * run out meanwhile. When the lease is renewed, the clock goes on from where it stood.
 */
#ifndef HF_CORE_LEASE_SILENCE_H
#define HF_CORE_LEASE_SILENCE_H

#include "core/lease/lease.h"

struct hf_silence {
    uint64_t total_ms; /* how long the clock has stood still, in silences that have ended */
    uint64_t since_ms; /* when the present silence began, by the loop's clock; 0: there is none */
    uint64_t seen_ms;  /* the last reading of the loop's clock */
};

/*
 * Reads the clock. now_ms is the time that the lease counts by, mono_ms the loop's. The loop may be
 * late, so a silence counts from when the lease ran out, but never from before the last reading,
 * because the clock must not go back; so it must be read often enough.
 */
uint64_t hf_silence_clock(struct hf_silence *silence, const struct hf_lease *lease, uint64_t now_ms,
                          uint64_t mono_ms);

#endif
