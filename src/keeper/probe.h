/*
 * Finds out whether other programs of this host see the locks of a file system. Each file system is
 * tried once, on the first file that is opened there. File systems whose locks a server on another
 * host keeps (NFS, SMB, Ceph) or a program keeps (FUSE) are not tried at all: such locks may be
 * private to a client, may confuse owners, and may block.
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
    size_t count, next; /* `next` is the place that is used again when all are in use */
};

/* True if other programs see locks taken through fd, a description of a regular file on device. */
bool hf_probe_meets(struct hf_probes *probes, dev_t device, int fd);

#endif
