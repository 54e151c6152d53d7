/*
 * Values in the forms of our JSON (SPEC section 7): 64-bit numbers as decimal strings, because
 * JavaScript would round them; times as RFC 3339 in UTC. For answers made with jansson; writer.h
 * has the same for lists.
 */
#ifndef HF_ADMIN_VALUES_H
#define HF_ADMIN_VALUES_H

#include <jansson.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/bytes.h"

json_t *hf_value_id(uint64_t id);
json_t *hf_value_time(int64_t wall_ms);
json_t *hf_value_addr(const struct hf_addr *addr);
json_t *hf_value_text(struct hf_bytes bytes); /* from a peer, as hf_json_text() shows it */
/* Of a text that may have any bytes: what is not UTF-8 is quoted. NULL: null. */
json_t *hf_value_str(const char *text);

#endif
