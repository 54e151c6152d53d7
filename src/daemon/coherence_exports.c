/* Answers the operator's questions about exports, and carries out orders to let an export go or
 * take it back (COH-07). */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "daemon/coherence_private.h"

static int find_released(const struct hf_coherence *c, const char *path)
{
    for (unsigned i = 0; i < c->n_released; i++) {
        if (strcmp(c->released[i], path) == 0)
            return (int)i;
    }
    return -1;
}

static int remember(struct hf_coherence *c, const char *path)
{
    if (find_released(c, path) >= 0)
        return 0;
    if (c->n_released == HF_COHERENCE_RELEASED_MAX)
        return HF_ELIMIT;
    c->released[c->n_released] = strdup(path);
    if (!c->released[c->n_released])
        return HF_ENOMEM;
    c->n_released++;
    return 0;
}

static void forget(struct hf_coherence *c, const char *path)
{
    int i = find_released(c, path);

    if (i < 0)
        return;
    free(c->released[i]);
    c->released[i] = c->released[--c->n_released];
}

void hf_coherence_forget_released(struct hf_coherence *c)
{
    while (c->n_released > 0)
        free(c->released[--c->n_released]);
}

int hf_coherence_exports(struct hf_coherence *c, struct hf_admin_exports *asked, const char *path)
{
    int rv;

    if (!c->service || !c->client || !c->up)
        return HF_EUNAVAIL;
    if (c->asked)
        return HF_ELIMIT;
    if (asked->act == HF_ADMIN_EXPORTS_LIST) {
        rv = hf_keeper_client_exports(c->client);
    } else {
        bool release = asked->act == HF_ADMIN_EXPORTS_RELEASE;

        rv = hf_keeper_client_path(c->client, HF_COHERENCE_CONTROL | HF_COHERENCE_PATH,
                                   release ? HF_KEEPER_LET_GO : HF_KEEPER_TAKE_BACK, path);
        if (rv == 0 && release)
            rv = remember(c, path);
        else if (rv == 0)
            forget(c, path);
    }
    if (rv == 0)
        c->asked = asked;
    return rv;
}

void hf_coherence_exports_end(struct hf_coherence *c, int error, const char *reason)
{
    struct hf_admin_exports *asked = c->asked;

    c->asked = NULL;
    if (asked)
        asked->done(asked, error, reason);
}

void hf_coherence_on_exported(void *ctx, const struct hf_keeper_export *export)
{
    struct hf_coherence *c = ctx;

    if (!export)
        hf_coherence_exports_end(c, 0, NULL);
    else if (c->asked)
        c->asked->one(c->asked, &(struct hf_admin_export){export->path, export->files,
                                                          export->ranges, export->let_go});
}

/* Takes the keeper's result of an operator's order. For an export that was taken back, the
 * connection is made anew, so that the locks below that export are claimed again. */
void hf_coherence_on_path(struct hf_coherence *c, const struct hf_keeper_result *result)
{
    bool ok = result->status == HF_KEEPER_OK;

    if (!c->asked)
        return;
    c->asked->closed = result->length;
    if (ok && c->asked->act == HF_ADMIN_EXPORTS_TAKE_BACK)
        c->broken = true;
    hf_coherence_exports_end(c, ok ? 0 : HF_EUNAVAIL,
                             ok ? NULL : hf_keeper_status_text(result->status));
}

bool hf_coherence_tell_released(struct hf_coherence *c)
{
    if (c->n_told >= c->n_released)
        return false;
    if (hf_keeper_client_path(c->client, HF_COHERENCE_CONTROL | HF_COHERENCE_RELEASED,
                              HF_KEEPER_LET_GO, c->released[c->n_told++]) < 0)
        c->broken = true;
    return true;
}
