/*
 * holdfastctl doctor --server finds out whether the file handles of an NFS server are what locks
 * need. Locks belong to handles, so a file must have one handle: the same for all clients, for as
 * long as locks live, over restarts of the NFS server and renames; and no other file may have it. A
 * test file shows whether this holds.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "ctl/doctor.h"
#include "ctl/nfs_client.h"

enum { NAME_MAX_ = 64, HOST_MAX = 256, BACK_S = 60 };

static const char GUIDE[] = "see \"What a file handle must be\" in docs/operating/OPERATORS.md";

struct probe {
    struct doctor *doctor;
    char host[HOST_MAX];
    const char *directory;
    char name[NAME_MAX_], other[NAME_MAX_];
    struct nfs_client client;
    struct nfs_handle handle; /* the first handle that the server gave the test file */
};

static bool tell_failure(struct probe *p, const char *check, const char *advice)
{
    doctor_find(p->doctor, check, DOCTOR_FAIL, p->client.error, advice);
    return false;
}

static bool open_server(struct probe *p)
{
    if (!nfs_client_open(&p->client, p->host, p->directory))
        return tell_failure(p, "server",
                            "the server must export the directory to this host, by NFS version 3 "
                            "and TCP, and its rpcbind must know MOUNT and NFS");
    doctor_find(p->doctor, "server", DOCTOR_OK, "the server exports the directory to this host",
                NULL);
    return true;
}

static bool make_file(struct probe *p)
{
    if (nfs_client_create(&p->client, p->name) &&
        nfs_client_lookup(&p->client, p->name, &p->handle))
        return true;
    return tell_failure(
        p, "test file",
        "name a directory that root of this host may write: HOST:/EXPORT/DIRECTORY");
}

/*
 * Looks the test file up over the same connection, and over a second one, as another client would.
 */
static void check_lookups(struct probe *p)
{
    struct nfs_client second = {0};
    struct nfs_handle again, of_second;

    if (!nfs_client_lookup(&p->client, p->name, &again)) {
        tell_failure(p, "lookups", GUIDE);
    } else if (!nfs_client_open(&second, p->host, p->directory) ||
               !nfs_client_lookup(&second, p->name, &of_second)) {
        doctor_find(p->doctor, "lookups", DOCTOR_FAIL, second.error, GUIDE);
    } else if (!nfs_handle_equal(&again, &p->handle) || !nfs_handle_equal(&of_second, &p->handle)) {
        doctor_find(p->doctor, "lookups", DOCTOR_FAIL,
                    "two lookups of one file give two handles: two clients get one lock", GUIDE);
    } else {
        doctor_find(p->doctor, "lookups", DOCTOR_OK, "each lookup gives the same handle", NULL);
    }
    nfs_client_close(&second);
}

static void check_two_files(struct probe *p)
{
    struct nfs_handle other;

    if (!nfs_client_create(&p->client, p->other) ||
        !nfs_client_lookup(&p->client, p->other, &other))
        tell_failure(p, "two files", GUIDE);
    else if (nfs_handle_equal(&other, &p->handle))
        doctor_find(p->doctor, "two files", DOCTOR_FAIL,
                    "two files have one handle: a lock on one denies the other", GUIDE);
    else
        doctor_find(p->doctor, "two files", DOCTOR_OK, "two files have two handles", NULL);
    (void)nfs_client_remove(&p->client, p->other);
}

static void check_rename(struct probe *p)
{
    struct nfs_handle now;
    bool old_works;

    if (!nfs_client_rename(&p->client, p->name, p->other) ||
        !nfs_client_lookup(&p->client, p->other, &now)) {
        tell_failure(p, "rename", GUIDE);
        return;
    }
    old_works = nfs_client_getattr(&p->client, &p->handle);
    if (!nfs_handle_equal(&now, &p->handle))
        doctor_find(p->doctor, "rename", DOCTOR_WARN,
                    old_works ? "a renamed file has another handle: its locks do not go with it"
                              : "a renamed file has another handle, and the old one is dead: its "
                                "locks do not go with it",
                    "no application may rename a file that is locked");
    else
        doctor_find(p->doctor, "rename", DOCTOR_OK, "a renamed file keeps its handle", NULL);
    (void)nfs_client_rename(&p->client, p->other, p->name);
}

/*
 * Connects to the NFS server again, for a while, because the server may take its time to come back.
 */
static bool open_again(struct probe *p)
{
    for (int i = 0; i < BACK_S; i++) {
        nfs_client_close(&p->client);
        if (nfs_client_open(&p->client, p->host, p->directory))
            return true;
        sleep(1);
    }
    return false;
}

static void check_restart(struct probe *p, bool wanted)
{
    struct nfs_handle now;
    int got;

    if (wanted) {
        (void)fputs("Restart the NFS server now, then press Enter: ", stderr);
        while ((got = getchar()) != '\n' && got != EOF)
            ;
        wanted = got == '\n';
    }
    if (!wanted)
        doctor_find(p->doctor, "restart", DOCTOR_WARN, "a restart of the NFS server was not tried",
                    "try it before clients rely on it: doctor --server ... --after-restart");
    else if (!open_again(p) || !nfs_client_lookup(&p->client, p->name, &now))
        tell_failure(p, "restart", GUIDE);
    else if (!nfs_handle_equal(&now, &p->handle) || !nfs_client_getattr(&p->client, &p->handle))
        doctor_find(p->doctor, "restart", DOCTOR_FAIL,
                    "a restart of the NFS server changes handles: locks that clients hold protect "
                    "nothing after it, and two clients get one lock",
                    "choose stable handles (rclone: --nfs-cache-type disk or symlink); else "
                    "restart the clients with the server");
    else
        doctor_find(p->doctor, "restart", DOCTOR_OK, "handles outlive a restart of the NFS server",
                    NULL);
}

/*
 * Replaces the test file by a new one of its name, compares the handles, and removes the new file.
 */
static void check_new_file(struct probe *p)
{
    struct nfs_handle now;

    if (!nfs_client_remove(&p->client, p->name) || !nfs_client_create(&p->client, p->name) ||
        !nfs_client_lookup(&p->client, p->name, &now))
        tell_failure(p, "new file", GUIDE);
    else if (nfs_handle_equal(&now, &p->handle))
        doctor_find(p->doctor, "new file", DOCTOR_WARN,
                    "a new file has the handle of the removed one of its name, and its locks",
                    "applications that replace a locked file must take the lock again");
    else
        doctor_find(p->doctor, "new file", DOCTOR_OK, "a new file has a new handle", NULL);
    (void)nfs_client_remove(&p->client, p->name);
}

bool doctor_server(struct doctor *doctor, const char *server, bool after_restart)
{
    struct probe p = {.doctor = doctor};
    const char *colon = strstr(server, ":/");
    bool brackets = server[0] == '[';
    size_t len = colon ? (size_t)(colon - server) : 0;

    if (len < 1 + 2 * (size_t)brackets || len >= sizeof(p.host))
        return false;
    hf_format(p.host, sizeof(p.host), "%.*s", (int)len - 2 * brackets, server + brackets);
    p.directory = colon + 1;
    hf_format(p.name, sizeof(p.name), ".holdfast-doctor-%ld-%ld", (long)time(NULL), (long)getpid());
    hf_format(p.other, sizeof(p.other), "%s-other", p.name);
    if (open_server(&p) && make_file(&p)) {
        check_lookups(&p);
        check_two_files(&p);
        check_rename(&p);
        check_restart(&p, after_restart);
        check_new_file(&p);
    }
    nfs_client_close(&p.client);
    return true;
}
