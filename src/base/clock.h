/*
 * The host's clocks. Wall time jumps when it is set; monotonic time and boot time only go forward.
 * Monotonic time stands still while the host sleeps. Boot time does not, so leases, on which other
 * hosts rely, use boot time.
 */
#ifndef HF_BASE_CLOCK_H
#define HF_BASE_CLOCK_H

#include <stdint.h>

int64_t hf_clock_wall_ms(void); /* Unix time */
uint64_t hf_clock_mono_ns(void);
uint64_t hf_clock_mono_ms(void);
uint64_t hf_clock_boot_ms(void);

#endif
