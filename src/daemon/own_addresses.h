/* Handles the service's addresses as configured (HA-04, HA-07): starts the process that moves them
 * (src/addresses), and drops addresses that killed processes left up. */
#ifndef HF_DAEMON_OWN_ADDRESSES_H
#define HF_DAEMON_OWN_ADDRESSES_H

#include "addresses/addresses.h"
#include "daemon/config.h"

/* Starts the process that moves the service's addresses. *out is NULL where Holdfast does not move
 * them. On failure the reason is in the log. */
int hf_own_addresses_start(const struct hf_config *config, struct hf_addresses **out);

/* Implements --drop-addresses: drops the service's addresses, waits until they are down, and
 * returns an exit status. */
int hf_own_addresses_clear(const struct hf_config *config);

#endif
