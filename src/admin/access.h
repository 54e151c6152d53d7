/*
 * The levels of access to administration (ADM-09) are one table for all of it: access.c decides
 * which level a request has, routes.c which one a path needs, and lists.c what a list shows.
 */
#ifndef HF_ADMIN_ACCESS_H
#define HF_ADMIN_ACCESS_H

enum access {
    ACCESS_NONE, /* a request over TCP, under a name that is not this host's: sees nothing */
    /* Any local user and, over TCP, any caller: sees health, metrics, counts, clients, and locks
     * without their files. */
    ACCESS_READER,
    /*
     * A caller with the reading token: sees also file handles and paths, and may search for them.
     */
    ACCESS_FILES,
    /* A caller with the token, and root and the daemon's user on the unix socket: may see and
     * change everything. */
    ACCESS_CHANGE,
};

#endif
