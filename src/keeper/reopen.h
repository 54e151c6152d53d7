/*
 * Makes a new description of a file that is open already, even if it is open for its path only.
 * Opening never waits: where a lease of another program must be broken first, the breaking begins,
 * and errno is EWOULDBLOCK until it has ended.
 */
#ifndef HF_KEEPER_REOPEN_H
#define HF_KEEPER_REOPEN_H

#include <stdbool.h>

#include "keeper/protocol.h"

/* Returns a new descriptor; -1, with errno, on failure. */
int hf_reopen(int fd, bool writable);

/* Says, by errno, why a file could not be opened or locked. */
enum hf_keeper_status hf_status_of_errno(int error);

#endif
