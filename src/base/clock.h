/*
 * The host's clocks. Wall time may be set, and jumps then; the other two only go on. Monotonic time
 * stands still while the host sleeps, boot time does not: what another host counts on, a lease,
 * needs that one.
 */
#ifndef HF_BASE_CLOCK_H
#define HF_BASE_CLOCK_H

#include <stdint.h>

int64_t hf_clock_wall_ms(void); /* Unix time */
uint64_t hf_clock_mono_ns(void);
uint64_t hf_clock_mono_ms(void);
uint64_t hf_clock_boot_ms(void);

#endif
