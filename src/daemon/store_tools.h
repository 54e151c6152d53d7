/*
 * Implements `holdfastd --verify-store` and `holdfastd --restore FILE`, for a store that no daemon
 * uses. Each function prints its result, or its failure on standard error, and returns an exit
 * status.
 */
#ifndef HF_DAEMON_STORE_TOOLS_H
#define HF_DAEMON_STORE_TOOLS_H

#include "daemon/config.h"

/* Checks every page and record of the store, and prints the number of records and their digest. */
int hf_store_tools_verify(const struct hf_config *config);

/* Fills an empty store from a backup. */
int hf_store_tools_restore(const struct hf_config *config, const char *file);

#endif
