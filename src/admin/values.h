/*
 * Makes values in the forms of our JSON (SPEC section 7): 64-bit numbers as decimal strings,
 * because JavaScript would round them; times as RFC 3339 in UTC. Answers that are made with jansson
 * use these functions; lists use writer.h.
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
/* Makes a value of text from a peer, as hf_json_text() shows it. */
json_t *hf_value_text(struct hf_bytes bytes);
/* Makes a value of a text that may have any bytes: those that are not UTF-8 are quoted. A NULL
 * pointer becomes null. */
json_t *hf_value_str(const char *text);

#endif
