/*
 * The id of this boot of the host: the kernel draws it at random when it starts. Two processes that
 * read equal ids know that the host has not crashed between them (DUR-02).
 */
#ifndef HF_BASE_BOOT_ID_H
#define HF_BASE_BOOT_ID_H

#include <stdint.h>

enum { HF_BOOT_ID_BYTES = 16 };

/*
 * Reads the boot id from /proc or, where a service manager hides that file (ProcSubset=pid), from
 * the environment variable HOLDFAST_BOOT_ID. If neither place has it, returns HF_ENOENT, with zeros
 * in out.
 */
int hf_boot_id_read(uint8_t out[HF_BOOT_ID_BYTES]);

#endif
