#include "admin/sessions.h"

#include <string.h>
#include <sys/random.h>

#include "admin/token.h"
#include "base/hex.h"

enum { ID_BYTES = (SESSION_ID_MAX - 1) / 2 };

static bool is_live(const struct session *session, uint64_t now_ms)
{
    return session->id[0] && now_ms - session->used_ms < SESSION_IDLE_MS;
}

static struct session *find(struct sessions *sessions, const char *authorization)
{
    struct session *found = NULL;

    if (!authorization)
        return NULL;
    for (int i = 0; i < SESSIONS_MAX; i++) {
        struct session *session = &sessions->list[i];

        if (session->id[0] && hf_token_matches(session->id, authorization))
            found = session;
    }
    return found;
}

/* Returns a free place for a session, or the place of the session that must give way. */
static struct session *choose(struct sessions *sessions, enum access level, uint64_t now_ms)
{
    struct session *oldest = NULL;

    for (int i = 0; i < SESSIONS_MAX; i++) {
        struct session *session = &sessions->list[i];

        if (!is_live(session, now_ms))
            return session;
        if (session->level <= level && (!oldest || session->used_ms < oldest->used_ms))
            oldest = session;
    }
    return oldest;
}

const char *hf_sessions_begin(struct sessions *sessions, enum access level, uint64_t now_ms)
{
    struct session *session = choose(sessions, level, now_ms);
    uint8_t bytes[ID_BYTES];

    if (!session || getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return NULL;
    hf_hex_encode(bytes, sizeof(bytes), session->id);
    session->id[SESSION_ID_MAX - 1] = '\0';
    session->level = level;
    session->used_ms = now_ms;
    return session->id;
}

enum access hf_sessions_level(struct sessions *sessions, const char *authorization, uint64_t now_ms)
{
    struct session *session = find(sessions, authorization);

    if (!session || !is_live(session, now_ms))
        return ACCESS_NONE;
    session->used_ms = now_ms;
    return session->level;
}

void hf_sessions_end(struct sessions *sessions, const char *authorization)
{
    struct session *session = find(sessions, authorization);

    if (session)
        memset(session, 0, sizeof(*session));
}
