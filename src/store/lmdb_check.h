/*
 * Is this file an LMDB database that can be mapped and walked without harm? LMDB trusts its file:
 * a truncated one kills the process with SIGBUS, a damaged page sends it astray. So the daemon
 * looks at every page that the newest tree uses before LMDB does: numbers, bounds, page types, and
 * that no page is used twice or both used and free.
 *
 * The format is that of LMDB 0.9 (data version 1), as it is on this machine: LMDB files do not move
 * between machines of different byte order or word size.
 */
#ifndef HF_STORE_LMDB_CHECK_H
#define HF_STORE_LMDB_CHECK_H

#include <stddef.h>

#include "base/alloc.h"

enum { HF_LMDB_REASON_MAX = 128 };

/*
 * 0, or HF_EFORMAT with a reason if the file is damaged, be it only empty; HF_EVERSION if a newer
 * LMDB wrote it; HF_EIO if it cannot be read; HF_ENOMEM.
 */
int hf_lmdb_check(int fd, const struct hf_alloc *alloc, char reason[HF_LMDB_REASON_MAX]);

#endif
