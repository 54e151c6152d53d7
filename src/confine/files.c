/*
 * With Landlock the process may read the system's own files and the files it was configured with,
 * and change its store. Nothing can be executed, and exported files are out of reach.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "confine/confine.h"

#ifndef LANDLOCK_ACCESS_FS_REFER
#define LANDLOCK_ACCESS_FS_REFER (1ULL << 13) /* Linux 5.19 */
#endif
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14) /* Linux 6.2 */
#endif

static const uint64_t READ = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
static const uint64_t CHANGE = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR |
                               LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_FILE |
                               LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_TRUNCATE;

/*
 * These directories serve name services, time zones, TLS, shared libraries that are loaded when
 * first needed (the resolver's modules), and what the C library asks of the kernel. /run is among
 * them because resolv.conf often leads there.
 */
static const char *const SYSTEM[] = {"/etc",  "/usr", "/lib", "/lib64",
                                     "/proc", "/sys", "/run", NULL};

/* Accesses that can be granted on a file that is not a directory. */
static const uint64_t OF_FILES =
    LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE;

static uint64_t handled_by(long abi)
{
    uint64_t all = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;

    if (abi >= 2)
        all |= LANDLOCK_ACCESS_FS_REFER;
    if (abi >= 3)
        all |= LANDLOCK_ACCESS_FS_TRUNCATE;
    return all;
}

/* Grants access to a path. A path that does not exist cannot be granted, and need not be. */
static int grant(int ruleset, const char *path, uint64_t access)
{
    struct landlock_path_beneath_attr rule = {.allowed_access = access};
    struct stat st;
    long rv;

    rule.parent_fd = open(path, O_PATH | O_CLOEXEC);
    if (rule.parent_fd < 0)
        return 0;
    if (fstat(rule.parent_fd, &st) == 0 && !S_ISDIR(st.st_mode))
        rule.allowed_access &= OF_FILES;
    rv = syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
    close(rule.parent_fd);
    return rv < 0 ? HF_EUNAVAIL : 0;
}

static int grant_each(int ruleset, const char *const paths[], uint64_t access)
{
    int rv = 0;

    for (size_t i = 0; rv == 0 && paths[i]; i++)
        rv = grant(ruleset, paths[i], access);
    return rv;
}

static int grant_directory_of(int ruleset, const char *file)
{
    char path[PATH_MAX];

    return hf_text_copy(path, sizeof(path), file)
               ? grant(ruleset, dirname(path), LANDLOCK_ACCESS_FS_READ_FILE)
               : 0;
}

/*
 * Grants access to files. An editor replaces a file by another of its name, so access is granted to
 * the directory of the file, and if its name is a symbolic link, to the directory of the file that
 * the link leads to.
 */
static int grant_files(int ruleset, const char *const files[])
{
    char target[PATH_MAX];
    int rv = 0;

    for (size_t i = 0; rv == 0 && files[i]; i++) {
        if (files[i][0])
            rv = grant_directory_of(ruleset, files[i]);
        if (rv == 0 && files[i][0] && realpath(files[i], target))
            rv = grant_directory_of(ruleset, target);
    }
    return rv;
}

/* Grants what libpq reads in the home directory: certificates, passwords, names of services. */
static int grant_home(int ruleset)
{
    static const char *const names[] = {".postgresql", ".pgpass", ".pg_service.conf"};
    const char *home = getenv("HOME");
    char path[1024];
    int rv = 0;

    for (size_t i = 0; home && rv == 0 && i < sizeof(names) / sizeof(names[0]); i++) {
        hf_format(path, sizeof(path), "%.900s/%s", home, names[i]);
        rv = grant(ruleset, path, READ);
    }
    return rv;
}

static int grant_all(int ruleset, const struct hf_confine *confine, uint64_t handled)
{
    int rv = grant_each(ruleset, SYSTEM, READ);

    if (rv == 0)
        rv = grant(ruleset, "/dev/urandom", LANDLOCK_ACCESS_FS_READ_FILE);
    if (rv == 0)
        rv = grant(ruleset, "/dev/null",
                   LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE);
    if (rv == 0)
        rv = grant_home(ruleset);
    if (rv == 0)
        rv = grant_files(ruleset, confine->read);
    if (rv == 0)
        rv = grant_each(ruleset, confine->remove, LANDLOCK_ACCESS_FS_REMOVE_FILE);
    if (rv == 0)
        rv = grant_each(ruleset, confine->write, CHANGE & handled);
    return rv;
}

int hf_confine_files(const struct hf_confine *confine)
{
    struct landlock_ruleset_attr attr = {0};
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    long ruleset;
    int rv;

    if (abi < 1)
        return HF_EUNAVAIL;
    attr.handled_access_fs = handled_by(abi);
    ruleset = syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
    if (ruleset < 0)
        return HF_EUNAVAIL;
    rv = grant_all((int)ruleset, confine, attr.handled_access_fs);
    if (rv == 0 && syscall(SYS_landlock_restrict_self, (int)ruleset, 0) < 0)
        rv = HF_EUNAVAIL;
    close((int)ruleset);
    return rv;
}
