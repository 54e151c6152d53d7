/*
 * A session is what a page holds instead of the token (ADM-09). A caller that has shown a token, or
 * is root on the unix socket, gets a random id that stands for its level of access, in this process
 * only: a program that listens on our port while we are down learns nothing that it could use
 * later. A session ends when it is not used for SESSION_IDLE_MS, on request, and with the process.
 */
#ifndef HF_ADMIN_SESSIONS_H
#define HF_ADMIN_SESSIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "admin/access.h"

enum { SESSION_ID_MAX = 65, SESSIONS_MAX = 64, SESSION_IDLE_MS = 12 * 3600 * 1000 };

struct session {
    char id[SESSION_ID_MAX]; /* the id of the session; "": this place is free */
    enum access level;
    uint64_t used_ms;
};

struct sessions {
    struct session list[SESSIONS_MAX];
};

/*
 * Returns the id of a new session; NULL if no place can be had. Where all places are in use, the
 * session that was used longest ago gives way, among those of no higher level: a reader cannot end
 * the sessions of operators.
 */
const char *hf_sessions_begin(struct sessions *sessions, enum access level, uint64_t now_ms);

/* Returns the level of the session that an Authorization header names; ACCESS_NONE: there is no
 * such session. */
enum access hf_sessions_level(struct sessions *sessions, const char *authorization,
                              uint64_t now_ms);

/* Ends the session that the Authorization header names, if there is one. */
void hf_sessions_end(struct sessions *sessions, const char *authorization);

#endif
