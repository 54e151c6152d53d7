/*
 * The service's own addresses as configured (HA-04, HA-07): starts the process that moves them
 * (src/addresses), and drops what killed processes left.
 */
#ifndef HF_DAEMON_OWN_ADDRESSES_H
#define HF_DAEMON_OWN_ADDRESSES_H

#include "addresses/addresses.h"
#include "daemon/config.h"

/* *out is NULL where Holdfast does not move the addresses. On failure the reason is in the log. */
int hf_own_addresses_start(const struct hf_config *config, struct hf_addresses **out);

/* --drop-addresses: drops them and waits for it. Returns an exit status. */
int hf_own_addresses_clear(const struct hf_config *config);

#endif
