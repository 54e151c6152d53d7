/*
 * Finds out whether other programs of this host see the locks of a file system. It is tried once
 * for each file system, on the first file that is opened there. Locks that a server on another host
 * keeps (NFS, SMB, Ceph) or that a program keeps (FUSE) may be private to a client, may confuse
 * owners, and may block, so those are not tried at all.
 */
#ifndef HF_KEEPER_PROBE_H
#define HF_KEEPER_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { HF_PROBES_MAX = 64 };

struct hf_probes {
    struct {
        dev_t device;
        bool meets;
    } known[HF_PROBES_MAX];
    size_t count, next; /* `next` is the place that gives way when all are used */
};

/* True if locks taken through fd, a description of a regular file on device, are seen by others. */
bool hf_probe_meets(struct hf_probes *probes, dev_t device, int fd);

#endif
