#include "keeper/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "keeper/reopen.h"

#ifndef CEPH_SUPER_MAGIC
#define CEPH_SUPER_MAGIC 0x00c36400
#endif

/* True for file systems whose locks another host or a user-space program keeps. */
static bool is_kept_elsewhere(const struct statfs *fs)
{
    static const uint32_t KINDS[] = {
        NFS_SUPER_MAGIC,  SMB_SUPER_MAGIC,  CIFS_SUPER_MAGIC, SMB2_SUPER_MAGIC,
        FUSE_SUPER_MAGIC, CEPH_SUPER_MAGIC, V9FS_MAGIC,       AFS_SUPER_MAGIC,
        AFS_FS_MAGIC,     CODA_SUPER_MAGIC, NCP_SUPER_MAGIC,
    };

    for (size_t i = 0; i < HF_COUNT_OF(KINDS); i++) {
        if ((uint32_t)fs->f_type == KINDS[i])
            return true;
    }
    return false;
}

/* Returns what a failed lock says about the file system: some failures pass. */
static enum hf_keeper_status status_of_failure(int error)
{
    return error == ENOLCK || error == ENOMEM || error == EINTR ? HF_KEEPER_NO_MEMORY
                                                                : HF_KEEPER_FOREIGN;
}

static enum hf_keeper_status sees(int fd, int command, const struct flock *wanted)
{
    struct flock lock = *wanted;

    if (fcntl(fd, command, &lock) < 0)
        return status_of_failure(errno);
    return lock.l_type == F_UNLCK ? HF_KEEPER_FOREIGN : HF_KEEPER_OK;
}

/* Locks through `mine`, and looks for the lock through `other` and as a process. A refusal proves
 * that the locks of another program are seen. */
static enum hf_keeper_status try_both(int mine, int other)
{
    struct flock lock = {
        .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = INT64_MAX - 1, .l_len = 1};
    enum hf_keeper_status status;

    if (fcntl(mine, F_OFD_SETLK, &lock) < 0)
        return errno == EAGAIN || errno == EACCES ? HF_KEEPER_OK : status_of_failure(errno);
    lock.l_type = F_WRLCK;
    status = sees(other, F_OFD_GETLK, &lock);
    return status == HF_KEEPER_OK ? sees(other, F_GETLK, &lock) : status;
}

/* Tries a shared lock on the last byte that the kernel can lock, which hardly any program locks. */
static enum hf_keeper_status try_it(int fd)
{
    enum hf_keeper_status status;
    int mine = hf_reopen(fd, false);
    int other = mine < 0 ? -1 : hf_reopen(fd, false);

    status = other < 0 ? hf_status_of_errno(errno) : try_both(mine, other);
    if (mine >= 0)
        close(mine);
    if (other >= 0)
        close(other);
    return status;
}

enum hf_keeper_status hf_probe(struct hf_probes *probes, dev_t device, int fd)
{
    enum hf_keeper_status status;
    struct statfs fs;
    size_t i;

    if (fstatfs(fd, &fs) < 0)
        return hf_status_of_errno(errno);
    for (i = 0; i < probes->count; i++) {
        if (probes->known[i].device == device && probes->known[i].type == fs.f_type &&
            memcmp(&probes->known[i].id, &fs.f_fsid, sizeof(fs.f_fsid)) == 0)
            return probes->known[i].meets ? HF_KEEPER_OK : HF_KEEPER_FOREIGN;
    }
    status = is_kept_elsewhere(&fs) ? HF_KEEPER_FOREIGN : try_it(fd);
    if (status != HF_KEEPER_OK && status != HF_KEEPER_FOREIGN)
        return status;
    if (probes->count < HF_PROBES_MAX)
        probes->count++;
    else
        i = probes->next++ % HF_PROBES_MAX;
    probes->known[i].device = device;
    probes->known[i].type = fs.f_type;
    probes->known[i].id = fs.f_fsid;
    probes->known[i].meets = status == HF_KEEPER_OK;
    return status;
}
