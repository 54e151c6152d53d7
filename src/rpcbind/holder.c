#include "rpcbind/holder.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/programs.h"
#include "base/sockdiag.h"
#include "base/text.h"

/* True if this process has the socket open. */
static bool has_socket(const char *pid, const char *socket_name)
{
    char path[64];
    char target[64];
    struct dirent *entry;
    bool found = false;
    DIR *dir;

    hf_format(path, sizeof(path), "/proc/%s/fd", pid);
    dir = opendir(path);
    if (!dir)
        return false;
    while (!found && (entry = readdir(dir))) {
        ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);

        target[n > 0 ? n : 0] = '\0';
        found = strcmp(target, socket_name) == 0;
    }
    closedir(dir);
    return found;
}

static void find_process(uint32_t inode, struct hf_rpcbind_holder *out)
{
    DIR *dir = inode != 0 ? opendir("/proc") : NULL;
    char socket_name[32];
    struct dirent *entry;

    if (!dir)
        return;
    hf_format(socket_name, sizeof(socket_name), "socket:[%u]", inode);
    while (out->pid == 0 && (entry = readdir(dir))) {
        if (isdigit((unsigned char)entry->d_name[0]) && has_socket(entry->d_name, socket_name)) {
            char path[64];
            ssize_t n;

            out->pid = (int)strtol(entry->d_name, NULL, 10);
            hf_format(path, sizeof(path), "/proc/%s/exe", entry->d_name);
            n = readlink(path, out->program, sizeof(out->program) - 1);
            out->program[n > 0 ? n : 0] = '\0';
        }
    }
    closedir(dir);
}

bool hf_rpcbind_holder_find(const struct hf_rpcbind_service *service, uint16_t port,
                            struct hf_rpcbind_holder *out)
{
    struct hf_addr at;
    struct hf_sockdiag found;
    const struct passwd *user;
    int fd = hf_sockdiag_open();
    int rv;

    if (fd < 0)
        return false;
    (void)hf_addr_parse(service->addr.family == HF_ADDR_IPV6 ? "::1" : "127.0.0.1", &at);
    at.port = port;
    rv = hf_sockdiag_service(fd, service->transport, &at, &found);
    close(fd);
    if (rv < 0)
        return false;
    *out = (struct hf_rpcbind_holder){.uid = found.uid};
    user = getpwuid(found.uid);
    hf_format(out->user, sizeof(out->user), "%s", user ? user->pw_name : "?");
    find_process(found.inode, out);
    return true;
}

static bool is_statd(const struct hf_rpcbind_holder *holder)
{
    const char *name = strrchr(holder->program, '/');
    struct stat st;

    /* The program file must belong to root, because a user could give a program of his own the name
     * of rpc.statd. */
    return name && strcmp(name, "/rpc.statd") == 0 && stat(holder->program, &st) == 0 &&
           st.st_uid == 0;
}

bool hf_rpcbind_holder_is_respected(const struct hf_rpcbind_holder *holder, uint32_t prog)
{
    return holder->uid == 0 || holder->uid == geteuid() ||
           (prog == HF_PROGRAM_NSM && is_statd(holder));
}
