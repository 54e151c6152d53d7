/*
 * Tells whether two file handles name one file, as far as the handles themselves show it. Ganesha
 * writes the number of the export into a handle, so a file that is exported twice has two handles;
 * the rest of both is the file (COH-05). This makes no system call: only the keeper knows device
 * and inode.
 */
#ifndef HF_HANDLES_IDENTITY_H
#define HF_HANDLES_IDENTITY_H

#include "base/bytes.h"
#include "handles/handle.h"

/* Returns the canonical form of a handle, of the same length: handles of one file have one form
 * where that can be told. Any other handle is its own form, and is returned as it is. */
struct hf_bytes hf_handle_identity(struct hf_bytes handle, uint8_t out[HF_HANDLE_BYTES_MAX]);

#endif
