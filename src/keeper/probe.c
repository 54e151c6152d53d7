#include "keeper/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdint.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/assert.h"
#include "keeper/reopen.h"

#ifndef CEPH_SUPER_MAGIC
#define CEPH_SUPER_MAGIC 0x00c36400
#endif

/* True for file systems whose locks another host or a user-space program keeps. */
static bool is_kept_elsewhere(int fd)
{
    static const uint32_t KINDS[] = {
        NFS_SUPER_MAGIC,  SMB_SUPER_MAGIC,  CIFS_SUPER_MAGIC, SMB2_SUPER_MAGIC,
        FUSE_SUPER_MAGIC, CEPH_SUPER_MAGIC, V9FS_MAGIC,       AFS_SUPER_MAGIC,
        AFS_FS_MAGIC,     CODA_SUPER_MAGIC, NCP_SUPER_MAGIC,
    };
    struct statfs fs;

    if (fstatfs(fd, &fs) < 0)
        return true;
    for (size_t i = 0; i < HF_COUNT_OF(KINDS); i++) {
        if ((uint32_t)fs.f_type == KINDS[i])
            return true;
    }
    return false;
}

static bool sees(int fd, int command, const struct flock *wanted)
{
    struct flock lock = *wanted;

    return fcntl(fd, command, &lock) == 0 && lock.l_type != F_UNLCK;
}

/* Tries a shared lock on the last byte that the kernel can lock, which hardly any program locks.
 * Where a program does, the refusal proves that its locks are seen. */
static bool try_it(int fd)
{
    struct flock lock = {
        .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = INT64_MAX - 1, .l_len = 1};
    int mine = hf_reopen(fd, false), other = hf_reopen(fd, false);
    bool meets = false;

    if (mine >= 0 && other >= 0) {
        if (fcntl(mine, F_OFD_SETLK, &lock) == 0) {
            lock.l_type = F_WRLCK;
            meets = sees(other, F_OFD_GETLK, &lock) && sees(other, F_GETLK, &lock);
        } else {
            meets = errno == EAGAIN || errno == EACCES;
        }
    }
    if (mine >= 0)
        close(mine);
    if (other >= 0)
        close(other);
    return meets;
}

bool hf_probe_meets(struct hf_probes *probes, dev_t device, int fd)
{
    size_t i;

    for (i = 0; i < probes->count; i++) {
        if (probes->known[i].device == device)
            return probes->known[i].meets;
    }
    if (probes->count < HF_PROBES_MAX)
        probes->count++;
    else
        i = probes->next++ % HF_PROBES_MAX;
    probes->known[i].device = device;
    probes->known[i].meets = !is_kept_elsewhere(fd) && try_it(fd);
    return probes->known[i].meets;
}
