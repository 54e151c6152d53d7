#include "rpc/proven.h"

#include <string.h>

static unsigned set_of(const struct hf_proven *proven, const struct hf_addr *host)
{
    uint64_t words[2];

    memcpy(words, host->bytes, sizeof(words));
    return (unsigned)(hf_hash_u64(&proven->key, words[0], words[1]) % HF_PROVEN_SETS);
}

void hf_proven_add(struct hf_proven *proven, const struct hf_addr *host, uint64_t now_ms)
{
    struct hf_proven_entry *set = proven->sets[set_of(proven, host)];
    struct hf_proven_entry *place = &set[0];

    for (unsigned i = 0; i < HF_PROVEN_WAYS; i++) {
        if (hf_addr_same_host(&set[i].host, host)) {
            set[i].proved_ms = now_ms;
            return;
        }
        if (set[i].proved_ms < place->proved_ms)
            place = &set[i];
    }
    *place = (struct hf_proven_entry){*host, now_ms};
}

bool hf_proven_has(const struct hf_proven *proven, const struct hf_addr *host, uint64_t now_ms)
{
    const struct hf_proven_entry *set = proven->sets[set_of(proven, host)];

    for (unsigned i = 0; i < HF_PROVEN_WAYS; i++) {
        if (hf_addr_same_host(&set[i].host, host))
            return now_ms - set[i].proved_ms <= HF_PROVEN_KEEP_MS;
    }
    return hf_addr_is_loopback(host);
}
