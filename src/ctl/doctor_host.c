#include <dirent.h>
#include <errno.h>
#include <mntent.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/assert.h"
#include "base/text.h"
#include "ctl/doctor.h"

enum { CLOCK_OFF_MAX_S = 2 };

/* Returns /proc, or the directory that a test names instead. */
static const char *proc(void)
{
    const char *path = getenv("HOLDFAST_PROC");

    return path ? path : "/proc";
}

/* ---- other lock managers ---- */

struct rival {
    const char *command; /* the program's name in /proc/PID/comm */
    const char *finding;
    const char *advice;
    bool of_kernel; /* it serves locks itself, and a status monitor beside it is right */
};

static const struct rival RIVALS[] = {
    {"rpc.statd", "rpc.statd runs on this host, and serves crash notices (NSM) too",
     "holdfastd takes its place: systemctl disable --now rpc-statd", false},
    {"lockd", "the kernel's lock manager (lockd) runs on this host",
     "it takes the lock manager's place at rpcbind when it starts: end NFSv3 mounts on this host, "
     "or mount them with nolock, and stop the kernel's NFS server if there is another",
     true},
    {"nfsd", "the kernel's NFS server runs on this host, with a lock manager of its own",
     "beside it holdfastd serves crash notices (server.programs=nsm), or with holdfast-keeper "
     "locks, "
     "too: docs/operating/MIXED-ACCESS.md",
     true},
};

static void read_command(const char *pid, char command[64])
{
    char path[512];
    FILE *file;

    command[0] = '\0';
    hf_format(path, sizeof(path), "%.200s/%.200s/comm", proc(), pid);
    file = fopen(path, "re");
    if (!file)
        return; /* the process has ended */
    if (!fgets(command, 64, file))
        command[0] = '\0';
    (void)fclose(file);
    command[strcspn(command, "\n")] = '\0';
}

bool doctor_runs(const char *command)
{
    DIR *directory = opendir(proc());
    struct dirent *entry;
    bool found = false;

    while (directory && !found && (entry = readdir(directory))) {
        char other[64];

        if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
            continue;
        read_command(entry->d_name, other);
        found = strcmp(command, other) == 0;
    }
    if (directory)
        (void)closedir(directory);
    return found;
}

void doctor_lock_managers(struct doctor *doctor)
{
    bool any = false;

    for (size_t i = 0; i < HF_COUNT_OF(RIVALS); i++) {
        if (!doctor_runs(RIVALS[i].command) || (doctor->monitor_only && RIVALS[i].of_kernel))
            continue;
        any = true;
        doctor_find(doctor, "lock managers", DOCTOR_WARN, RIVALS[i].finding, RIVALS[i].advice);
    }
    if (!any && doctor->rival)
        doctor_find(doctor, "lock managers", DOCTOR_WARN,
                    "another lock manager or status monitor is registered with rpcbind",
                    "see the findings about rpcbind");
    else if (!any)
        doctor_find(doctor, "lock managers", DOCTOR_OK,
                    doctor->monitor_only ? "no other status monitor runs on this host"
                                         : "no other lock manager runs on this host",
                    NULL);
}

/* ---- NFS mounts of this host ---- */

static bool locks_by_nlm(const struct mntent *mount)
{
    return strcmp(mount->mnt_type, "nfs") == 0 && !hasmntopt(mount, "nolock") &&
           (hasmntopt(mount, "vers=3") || hasmntopt(mount, "nfsvers=3")) &&
           !hasmntopt(mount, "local_lock=all");
}

void doctor_mounts(struct doctor *doctor)
{
    char text[CTL_WORD_MAX];
    struct mntent *mount;
    bool any = false;
    FILE *file;

    if (doctor->monitor_only)
        return; /* such mounts are what the kernel's lock manager and this monitor are for */
    hf_format(text, sizeof(text), "%.250s/self/mounts", proc());
    file = setmntent(text, "re");
    while (file && (mount = getmntent(file))) {
        if (!locks_by_nlm(mount))
            continue;
        any = true;
        hf_format(text, sizeof(text), "%.140s is mounted at %.140s by NFSv3, with locks",
                  mount->mnt_fsname, mount->mnt_dir);
        doctor_find(
            doctor, "local mounts", DOCTOR_FAIL, text,
            "such a mount starts the kernel's lockd, which takes the lock manager's place at "
            "rpcbind, and all locks hang: unmount it, or mount it with nolock, or by NFSv4");
    }
    if (file)
        endmntent(file);
    if (!any)
        doctor_find(doctor, "local mounts", DOCTOR_OK, "no NFSv3 mount with locks on this host",
                    NULL);
}

/* ---- the clock ---- */

void doctor_clock(struct doctor *doctor)
{
    struct timex state = {.modes = 0};
    char text[CTL_WORD_MAX];
    struct tm then = {0};
    double off = 0;

    if (doctor->status && strptime(ctl_text(doctor->status, "time"), "%Y-%m-%dT%H:%M:%S", &then))
        off = difftime(time(NULL), timegm(&then));
    if (off > CLOCK_OFF_MAX_S || off < -CLOCK_OFF_MAX_S) {
        hf_format(text, sizeof(text), "the daemon's clock and this host's differ by %.0f s", off);
        doctor_find(doctor, "clocks", DOCTOR_FAIL, text, "synchronise both by NTP");
    } else if (adjtimex(&state) == TIME_ERROR || (state.status & STA_UNSYNC)) {
        doctor_find(doctor, "clocks", DOCTOR_WARN, "the clock is not synchronised",
                    "ages in lists and times in the log may be wrong: timedatectl set-ntp true");
    } else {
        doctor_find(doctor, "clocks", DOCTOR_OK, "the clock is synchronised", NULL);
    }
}

/* ---- our own name ---- */

/* True if the address belongs to this host: no other address can be bound. */
static bool is_here(const struct addrinfo *found)
{
    int fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool here = fd >= 0 && bind(fd, found->ai_addr, found->ai_addrlen) == 0;

    if (fd >= 0)
        close(fd);
    return here;
}

static bool is_loopback(const struct addrinfo *found)
{
    struct hf_addr addr;

    return hf_addr_from_sockaddr(found->ai_addr, &addr) == 0 && hf_addr_is_loopback(&addr);
}

void doctor_name(struct doctor *doctor)
{
    const char *name = ctl_text(doctor->status, "name");
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM};
    struct addrinfo *all = NULL;
    int error = getaddrinfo(name, NULL, &hints, &all);
    bool here = false;
    bool away = false;
    char text[CTL_WORD_MAX];

    for (const struct addrinfo *found = all; found; found = found->ai_next) {
        if (!is_here(found))
            away = true;
        else
            here |= !is_loopback(found);
    }
    if (all)
        freeaddrinfo(all);
    if (error) {
        hf_format(text, sizeof(text), "our name, %.100s, cannot be resolved: %s", name,
                  gai_strerror(error));
        doctor_find(doctor, "name", DOCTOR_FAIL, text,
                    "clients must know the name in our notices: set server.name to the name that "
                    "they mount, and give it an address in DNS or /etc/hosts");
    } else if (here) {
        hf_format(text, sizeof(text), "our name, %.200s, is an address of this host", name);
        doctor_find(doctor, "name", DOCTOR_OK, text, NULL);
    } else {
        hf_format(text, sizeof(text), "our name, %.150s, is %s", name,
                  away ? "no address of this host" : "a loopback address only");
        doctor_find(doctor, "name", DOCTOR_WARN, text,
                    away ? "clients must reach us by the name in our notices: set server.name to "
                           "the name that they mount, and see its address in DNS and /etc/hosts"
                         : "as Debian's installer writes it into /etc/hosts, which is of no "
                           "consequence if clients resolve the name to another address of this "
                           "host; if not, set server.name to the name that they mount");
    }
}
