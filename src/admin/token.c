#include "admin/token.h"

#include <string.h>
#include <strings.h>

#include "admin/private.h"
#include "base/error.h"
#include "base/log.h"
#include "base/secret.h"

static int refuse(const char *path, const char *key, const char *reason)
{
    hf_log(HF_LOG_ERROR, "cannot use a token", HF_STR("key", key), HF_STR("file", path),
           HF_STR("reason", reason),
           HF_STR("advice", "administration goes on without it; locks are served all the same"));
    return HF_EINVAL;
}

int hf_token_read(const char *path, const char *key, char *token)
{
    const char *reason;

    token[0] = '\0';
    if (!path[0])
        return 0;
    if (hf_secret_read(path, token, TOKEN_MAX + 1, &reason) < 0)
        return refuse(path, key, reason);
    token[strcspn(token, " \t")] = '\0';
    if (strlen(token) < TOKEN_MIN) {
        token[0] = '\0';
        return refuse(path, key, "its first line has fewer than 16 characters");
    }
    return 0;
}

bool hf_token_matches(const char *token, const char *authorization)
{
    static const char SCHEME[] = "Bearer ";
    unsigned different = 0;
    size_t len = strlen(token);
    const char *given;

    if (!authorization || strncasecmp(authorization, SCHEME, strlen(SCHEME)) != 0)
        return false;
    given = authorization + strlen(SCHEME);
    if (strlen(given) != len)
        return false;
    for (size_t i = 0; i < len; i++)
        different |= (unsigned char)(given[i] ^ token[i]);
    return different == 0;
}
