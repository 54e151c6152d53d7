#include "rpc/credit.h"

#include <string.h>

static struct hf_credit *set_of(struct hf_credits *credits, const struct hf_addr *host)
{
    uint64_t words[2];

    memcpy(words, host->bytes, sizeof(words));
    return credits->sets[hf_hash_u64(&credits->key, words[0], words[1]) % HF_CREDIT_SETS];
}

static struct hf_credit *find(struct hf_credits *credits, const struct hf_addr *host)
{
    struct hf_credit *set = set_of(credits, host);

    for (unsigned i = 0; i < HF_CREDIT_WAYS; i++) {
        if (hf_addr_same_host(&set[i].host, host))
            return &set[i];
    }
    return NULL;
}

static bool shows_less(const struct hf_credit *a, const struct hf_credit *b)
{
    return a->shown_ms != b->shown_ms ? a->shown_ms < b->shown_ms : a->bytes < b->bytes;
}

static struct hf_credit *get(struct hf_credits *credits, const struct hf_addr *host)
{
    struct hf_credit *credit = find(credits, host);
    struct hf_credit *set = set_of(credits, host);

    if (credit)
        return credit;
    credit = set;
    for (unsigned i = 1; i < HF_CREDIT_WAYS; i++) {
        if (shows_less(&set[i], credit))
            credit = &set[i];
    }
    *credit = (struct hf_credit){.host = *host};
    return credit;
}

void hf_credit_came(struct hf_credits *credits, const struct hf_addr *host, size_t size)
{
    struct hf_credit *credit = get(credits, host);
    size_t more = hf_trust_rights[HF_TRUST_NOTHING].bytes_out * (size + HF_CREDIT_HEADERS);
    int64_t sum = credit->bytes + (int64_t)more;

    credit->bytes = sum < HF_CREDIT_MAX ? (int32_t)sum : HF_CREDIT_MAX;
}

void hf_credit_answered(struct hf_credits *credits, const struct hf_addr *host, size_t size)
{
    struct hf_credit *credit = find(credits, host);

    if (credit)
        credit->bytes -= (int32_t)(size + HF_CREDIT_HEADERS);
}

void hf_credit_shown(struct hf_credits *credits, const struct hf_addr *host, uint64_t now_ms)
{
    get(credits, host)->shown_ms = now_ms;
}

enum hf_trust hf_credit_trust(const struct hf_credits *credits, const struct hf_addr *host,
                              uint64_t now_ms)
{
    const struct hf_credit *credit = find((struct hf_credits *)(uintptr_t)credits, host);

    return credit && credit->shown_ms != 0 && now_ms - credit->shown_ms <= HF_CREDIT_KEEP_MS
               ? HF_TRUST_ANSWERED
               : HF_TRUST_NOTHING;
}

bool hf_credit_has(const struct hf_credits *credits, const struct hf_addr *host, size_t size)
{
    const struct hf_credit *credit = find((struct hf_credits *)(uintptr_t)credits, host);

    return credit && credit->bytes >= (int32_t)(size + HF_CREDIT_HEADERS);
}

bool hf_credit_spend(struct hf_credits *credits, const struct hf_addr *host, size_t size)
{
    if (!hf_credit_has(credits, host, size))
        return false;
    hf_credit_answered(credits, host, size);
    return true;
}
