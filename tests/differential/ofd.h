/* The kernel's locks of one open file description, made by holdfast-keeper's own functions, on a
 * file that nobody else uses. Modes are 0 (none), 1 (shared) and 2 (exclusive). */
#ifndef HF_DIFFERENTIAL_OFD_H
#define HF_DIFFERENTIAL_OFD_H

#include <stdbool.h>
#include <stdint.h>

struct ofd;

struct ofd *ofd_new(void);
void ofd_free(struct ofd *ofd);

/* The first function raises every byte of the range to at least the mode; the second sets it to
 * exactly the mode. */
void ofd_raise(struct ofd *ofd, uint64_t first, uint64_t last, unsigned mode);
void ofd_set(struct ofd *ofd, uint64_t first, uint64_t last, unsigned mode);

/* The strongest mode of any byte of the range, as another program finds it. */
unsigned ofd_seen(const struct ofd *ofd, uint64_t first, uint64_t last);

/* The last byte that the kernel can lock. */
uint64_t ofd_last(void);

#endif
