/*
 * Values as JSON shows them (SPEC section 7): 64-bit numbers as decimal strings, because JavaScript
 * would round them; times as RFC 3339 in UTC; bytes of peers as text where they are text, with the
 * rest written \xNN.
 */
#ifndef HF_ADMIN_VALUES_H
#define HF_ADMIN_VALUES_H

#include <jansson.h>

#include "base/addr.h"
#include "base/bytes.h"

json_t *value_id(uint64_t id);
json_t *value_time(int64_t wall_ms);
json_t *value_seconds(int64_t ms); /* of an age; a clock that was set back makes no negative one */
json_t *value_text(struct hf_bytes bytes);
json_t *value_hex(struct hf_bytes bytes);
json_t *value_addr(const struct hf_addr *addr); /* null: unknown */

#endif
