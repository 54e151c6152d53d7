/*
 * Verifies that a file is an LMDB database that can be mapped and walked safely. LMDB trusts its
 * file: a truncated one kills the process with SIGBUS, and a damaged page makes it read or write
 * anywhere. Before LMDB opens the file, the daemon therefore checks every page that the newest tree
 * uses: page numbers, bounds, flags, the order of keys, the numbers of entries, that the entries of
 * a page fill it without gaps, and that no page is used twice or is both used and free. A single
 * wrong bit in any of these is noticed. A wrong bit inside a record that still decodes is not
 * noticed.
 *
 * The format is that of LMDB 0.9 (data version 1) in the byte order and word size of this machine.
 * LMDB files cannot be moved between machines that differ in these; a file from such a machine is
 * reported as foreign, not as damaged.
 */
#ifndef HF_STORE_LMDB_VERIFY_H
#define HF_STORE_LMDB_VERIFY_H

#include <stddef.h>

#include "base/alloc.h"

enum { HF_LMDB_REASON_MAX = 128 };

/*
 * Verifies the file. Returns 0; HF_EFORMAT with a reason if the file is damaged or empty;
 * HF_EUNAVAIL with a reason if a machine of another byte order or word size wrote it; HF_EVERSION
 * if a newer LMDB wrote it; HF_EIO if it cannot be read; HF_ENOMEM.
 */
int hf_lmdb_verify(int fd, const struct hf_alloc *alloc, char reason[HF_LMDB_REASON_MAX]);

#endif
