/*
 * Reads files that hold a secret (a token, a password), but only if other users cannot read them.
 */
#ifndef HF_BASE_SECRET_H
#define HF_BASE_SECRET_H

#include <stddef.h>

/*
 * Reads the first line of the file, without the white space at its end. On failure it returns
 * HF_EINVAL, out is "", and *reason says why, with advice. A group may read the file (root:holdfast
 * 0640), but not write it; others may do neither.
 */
int hf_secret_read(const char *path, char *out, size_t size, const char **reason);

#endif
