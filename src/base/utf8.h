/* Text that peers chose, and what of it may be shown to people. */
#ifndef HF_BASE_UTF8_H
#define HF_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Length of the valid UTF-8 sequence of two bytes or more at p that is safe to print, 0 if there is
 * none: nothing malformed, and nothing that is invisible, breaks lines or turns their direction. */
size_t hf_utf8_printable(const uint8_t *p, size_t left);

#endif
