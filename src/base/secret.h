/*
 * Reads files that hold a secret (a token, a password), but only if other users cannot read them.
 */
#ifndef HF_BASE_SECRET_H
#define HF_BASE_SECRET_H

#include <stddef.h>

/*
 * Reads the first line of a secret file, without the white space at its end. On failure it returns
 * HF_EINVAL, out is "", and *reason gives the reason, with advice. A group may be allowed to read
 * the file (root:holdfast 0640), but not to write it; other users may do neither.
 */
int hf_secret_read(const char *path, char *out, size_t size, const char **reason);

#endif
