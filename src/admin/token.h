/* A token that callers must show. It is read once from its file, and compared in constant time. */
#ifndef HF_ADMIN_TOKEN_H
#define HF_ADMIN_TOKEN_H

#include <stdbool.h>

/*
 * Reads the first line of the file that this key of the configuration names; with a path of ""
 * there is no token. If the file cannot be used, returns HF_EINVAL, with the reason in the log and
 * no token. token has room for TOKEN_MAX + 1 bytes.
 */
int hf_token_read(const char *path, const char *key, char *token);

/* True if an Authorization header ("Bearer ...", or NULL) carries this token. */
bool hf_token_matches(const char *token, const char *authorization);

#endif
