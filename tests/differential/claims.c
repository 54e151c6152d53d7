#include "claims.h"

#include <stdlib.h>

#include "base/assert.h"
#include "ofd.h"

enum { OPS = 64, ROWS = 64 };

struct claims {
    struct ofd *ofd;
    struct hf_claim ops[OPS];
    unsigned n;
};

struct claims *claims_new(void)
{
    struct claims *claims = calloc(1, sizeof(*claims));

    HF_ASSERT(claims);
    claims->ofd = ofd_new();
    return claims;
}

void claims_free(struct claims *claims)
{
    ofd_free(claims->ofd);
    free(claims);
}

static void note(void *ctx, const struct hf_claim *claim)
{
    struct claims *claims = ctx;

    HF_ASSERT(claims->n < OPS);
    claims->ops[claims->n++] = *claim;
}

/* No program outside holds a lock, so the kernel refuses nothing, and no claim waits. */
static void make(struct claims *claims, const struct hf_claim *claim)
{
    if (claim->kind == HF_CLAIM_RAISE)
        ofd_raise(claims->ofd, claim->first, claim->last, claim->mode);
    else if (claim->kind == HF_CLAIM_SET)
        ofd_set(claims->ofd, claim->first, claim->last, claim->mode);
    else
        HF_ASSERT(claim->kind == HF_CLAIM_TEST);
}

bool claims_turn(struct claims *claims, struct hf_core *core, struct hf_now now)
{
    claims->n = 0;
    hf_core_claims_flush(core, now, note, claims);
    for (unsigned i = 0; i < claims->n; i++) {
        struct hf_claim_result result = {.id = claims->ops[i].id, .outcome = HF_CLAIM_DONE};

        make(claims, &claims->ops[i]);
        HF_ASSERT(hf_core_claim_done(core, now, &result) == 0);
    }
    return claims->n > 0;
}

/* ---- the check ---- */

static enum hf_claim_mode in_table(const struct hf_view_lock *rows, size_t n, uint64_t byte)
{
    enum hf_claim_mode mode = HF_CLAIM_NONE;

    for (size_t i = 0; i < n; i++) {
        const struct hf_record_lock *lock = &rows[i].record;
        enum hf_claim_mode held = lock->exclusive ? HF_CLAIM_EXCLUSIVE : HF_CLAIM_SHARED;

        if (lock->first <= byte && byte <= lock->last && held > mode)
            mode = held;
    }
    return mode;
}

void claims_check(const struct claims *claims, struct hf_core *core)
{
    struct hf_view_lock rows[ROWS];
    uint64_t cursor = 0;
    size_t n = hf_core_view_locks(core, &cursor, UINT64_MAX, rows, ROWS);

    HF_ASSERT(n < ROWS);
    for (size_t i = 0; i < n; i++) {
        const struct hf_record_lock *lock = &rows[i].record;
        uint64_t bytes[] = {lock->first, lock->last, lock->first - (lock->first > 0),
                            lock->last + (lock->last < UINT64_MAX)};

        for (size_t b = 0; b < HF_COUNT_OF(bytes); b++)
            HF_ASSERT(bytes[b] > ofd_last() ||
                      ofd_seen(claims->ofd, bytes[b], bytes[b]) == in_table(rows, n, bytes[b]));
    }
    HF_ASSERT(n > 0 || ofd_seen(claims->ofd, 0, UINT64_MAX) == 0);
}
