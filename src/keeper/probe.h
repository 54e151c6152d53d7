/*
 * Finds out whether other programs of this host see the locks of a file system. Each file system is
 * tried once, on the first file that is opened there. File systems whose locks a server on another
 * host keeps (NFS, SMB, Ceph) or a program keeps (FUSE) are not tried at all: such locks may be
 * private to a client, may confuse owners, and may block.
 *
 * A file system is known by its device number, type and id, because the kernel gives the device
 * number of an unmounted one (tmpfs, btrfs, FUSE, ...) to the next that is mounted.
 */
#ifndef HF_KEEPER_PROBE_H
#define HF_KEEPER_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/vfs.h>

#include "keeper/protocol.h"

enum { HF_PROBES_MAX = 64 };

struct hf_probes {
    struct {
        dev_t device;
        __typeof__(((struct statfs *)0)->f_type) type;
        __typeof__(((struct statfs *)0)->f_fsid) id;
        bool meets;
    } known[HF_PROBES_MAX];
    size_t count, next; /* `next` is the place that is used again when all are in use */
};

/*
 * Returns HF_KEEPER_OK if other programs see locks taken through fd, a description of a regular
 * file on device, and HF_KEEPER_FOREIGN if they do not. Any other status says why it could not be
 * found out now; nothing is remembered then.
 */
enum hf_keeper_status hf_probe(struct hf_probes *probes, dev_t device, int fd);

#endif
