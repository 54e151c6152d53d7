/*
 * holdfastctl backup FILE writes the file so that it is complete under its name, or does not exist.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "ctl/ctl.h"

static const char MAGIC[] = "HFbackup"; /* must equal the mark in src/store/backup.h */

static int complain(const char *path, const char *reason)
{
    (void)fprintf(stderr, "holdfastctl: %s: %s\n", path, reason);
    return CTL_REFUSED;
}

static bool write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);

        if (n < 0)
            return false;
        data += n;
        len -= (size_t)n;
    }
    return fsync(fd) == 0;
}

/* Writes a backup so that only the owner may read it: it names every client and file. */
static int save(const char *path, const char *data, size_t len)
{
    char temporary[PATH_MAX];
    bool ok;
    int error;
    int fd;

    if (strlen(path) + sizeof(".tmp") > sizeof(temporary))
        return complain(path, strerror(ENAMETOOLONG));
    hf_format(temporary, sizeof(temporary), "%s.tmp", path);
    (void)unlink(temporary); /* an interrupted run may have left the file */
    fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return complain(temporary, strerror(errno));
    ok = write_all(fd, data, len);
    error = errno;
    if (close(fd) < 0 && ok) {
        ok = false;
        error = errno;
    }
    if (ok && rename(temporary, path) < 0) {
        ok = false;
        error = errno;
    }
    if (ok)
        return CTL_OK;
    (void)unlink(temporary);
    return complain(path, strerror(error));
}

int ctl_backup(struct ctl *ctl, int argc, char **argv)
{
    char *data;
    size_t len;
    int rv;

    if (argc != 1)
        return CTL_USAGE;
    rv = ctl_download(ctl, "backup", &data, &len);
    if (rv != CTL_OK)
        return rv;
    if (len < sizeof(MAGIC) || memcmp(data, MAGIC, strlen(MAGIC)) != 0)
        rv = complain(argv[0], "the daemon sent something else than a backup");
    else
        rv = save(argv[0], data, len);
    if (rv == CTL_OK && !ctl->json)
        printf("%s: %zu bytes\n", argv[0], len);
    free(data);
    return rv;
}
