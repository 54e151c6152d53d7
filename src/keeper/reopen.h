/*
 * A new description of a file that is open already, also if that is open for its path only. It
 * never waits: where a lease of another program must be broken first, that begins, and errno is
 * EWOULDBLOCK until it has ended.
 */
#ifndef HF_KEEPER_REOPEN_H
#define HF_KEEPER_REOPEN_H

#include <stdbool.h>

#include "keeper/protocol.h"

/* -1, with errno. */
int hf_reopen(int fd, bool writable);

/* Why a file could not be opened or locked, by errno. */
enum hf_keeper_status hf_status_of_errno(int error);

#endif
