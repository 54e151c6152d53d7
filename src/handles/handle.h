/*
 * Reads what a file handle of NFSv3 says about its file, in the formats that are known here. A
 * handle is hostile input: it comes from the network, and any bytes may be in it. This file only
 * takes the handle apart (no system call); resolve.h finds the file, and proves that it is the one.
 *
 *   Ganesha, FSAL_VFS (versions 2.x to 6; numbers of two and more bytes as the server has them)
 *     0x43  flags  export id(2)  n  | f  fsid(0, 8 or 16)  type(1, 2 or 4)  kernel's handle | pad
 *     n counts the bytes from f to the padding; f has the kind of fsid in its low five bits, the
 *     size of type in its high two, and 0x20 for an object that has no handle of the kernel.
 *
 *   The kernel's nfsd (fh_version 1)
 *     0x01  0x00  kind of fsid  type  | fsid(4 to 24)  kernel's handle
 *     type 0 is the export's root.
 *
 *   unfs3 (numbers as the server has them)
 *     dev(4)  inode(8)  generation(4)  password's hash(4)  n  h(n)        from 0.9.23 or so
 *     dev(4)  inode(8)  generation(4)  n  h(n)
 *     dev(4)  inode(4)  generation(4)  n  h(n)                            up to 0.9.20 or so
 *     h: for each directory from the server's root to the file, and for the file, an 8-bit hash of
 *     its inode number, by which the tree can be searched.
 *
 * These formats have no common mark, so a handle can have several readings.
 */
#ifndef HF_HANDLES_HANDLE_H
#define HF_HANDLES_HANDLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/bytes.h"

enum {
    HF_HANDLE_BYTES_MAX = 64, /* RFC 1813: NFS3_FHSIZE */
    HF_HANDLE_READINGS_MAX = 4,
    HF_HANDLE_DEPTH_MAX = 51, /* how many directories a handle of unfs3 has at most */
};

/* Tells how a handle names the file system of its file. */
enum hf_fsid_kind {
    /* The handle names no file system, or names it by a number that only the server's configuration
     * explains. */
    HF_FSID_ANY,
    HF_FSID_DEVICE,
    HF_FSID_STATFS, /* the handle has the f_fsid of statfs(2) */
    HF_FSID_UUID,   /* the handle has the uuid, folded to uuid_len bytes by exclusive or */
};

struct hf_fsid {
    enum hf_fsid_kind kind;
    dev_t device;
    uint32_t statfs[2];
    uint8_t uuid[16];
    size_t uuid_len;
};

enum hf_handle_kind {
    HF_HANDLE_KERNEL, /* type and fid are for open_by_handle_at(2) */
    /* The handle has an inode number, and hashes of the directories on the way to it. */
    HF_HANDLE_INODE,
};

struct hf_handle {
    enum hf_handle_kind kind;
    struct hf_fsid fsid;
    int type;
    struct hf_bytes fid; /* the kernel's handle, a view into the whole handle */
    uint64_t ino;
    uint32_t device_low;    /* unfs3: the lower half of st_dev */
    uint32_t generation;    /* unfs3: the generation of the inode */
    struct hf_bytes hashes; /* the hashes, a view into the whole handle */
};

/* Reads a handle in all possible ways. Returns how many readings there are, 0 if the format is not
 * known. */
size_t hf_handle_read(struct hf_bytes bytes, struct hf_handle out[HF_HANDLE_READINGS_MAX]);

/* True if the handle has only one reading, and that is Ganesha's. */
bool hf_handle_is_ganesha_only(struct hf_bytes bytes);

/* Finds the inode generation in a handle that the kernel made (on ext4, XFS, btrfs and similar file
 * systems); false if handles of its file system have none that is known here. */
bool hf_handle_generation(int type, struct hf_bytes fid, uint64_t *generation);

/* Computes unfs3's hash of an inode number. */
uint8_t hf_handle_hash(uint64_t ino);

#endif
