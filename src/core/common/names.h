/* Host names in requests are data: the core never resolves them, and compares them without ASCII
 * case. */
#ifndef HF_CORE_COMMON_NAMES_H
#define HF_CORE_COMMON_NAMES_H

#include <stdbool.h>

#include "base/addr.h"
#include "base/bytes.h"

bool hf_name_equal(struct hf_bytes a, struct hf_bytes b);

/* True if the names are equal, or one equals the part of the other before its first dot. */
bool hf_name_same_host(struct hf_bytes a, struct hf_bytes b);

/* Makes a name lower case for hashing, so that equal names give equal bytes. out has room for
 * name.len bytes; returns name.len. */
size_t hf_name_fold(struct hf_bytes name, uint8_t *out);

/* Returns the part of the name before its first dot; empty if there is no dot. */
struct hf_bytes hf_name_short(struct hf_bytes name);

/* True if the name is an address in text form, which *out then has. */
bool hf_name_is_addr(struct hf_bytes name, struct hf_addr *out);

#endif
