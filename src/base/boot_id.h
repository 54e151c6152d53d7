/*
 * The id of this boot of the host: the kernel draws it at random, once, when it starts. Two
 * processes that read the same id know that the host has not crashed in between (DUR-02).
 */
#ifndef HF_BASE_BOOT_ID_H
#define HF_BASE_BOOT_ID_H

#include <stdint.h>

enum { HF_BOOT_ID_BYTES = 16 };

/*
 * Reads the id from /proc, or, where a service manager hides that file (ProcSubset=pid), from the
 * environment variable HOLDFAST_BOOT_ID. Returns HF_ENOENT, and zeros, if it is in neither place.
 */
int hf_boot_id_read(uint8_t out[HF_BOOT_ID_BYTES]);

#endif
