/*
 * Tells whether two file handles name one file, as far as the handles themselves show it. Ganesha
 * writes the number of the export into a handle, so a file that is exported twice has two handles,
 * which differ in nothing else (COH-05). This module makes no system call: only the keeper knows a
 * file's device and inode.
 */
#ifndef HF_HANDLES_IDENTITY_H
#define HF_HANDLES_IDENTITY_H

#include "base/bytes.h"
#include "handles/handle.h"

/*
 * Returns the canonical form of a handle, which has the handle's length. Handles of one file have
 * one canonical form where handles can show that; every other handle is its own form, and is
 * returned as it is.
 */
struct hf_bytes hf_handle_identity(struct hf_bytes handle, uint8_t out[HF_HANDLE_BYTES_MAX]);

#endif
