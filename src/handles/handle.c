#include "handles/handle.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/sysmacros.h>

/* Takes len bytes from the front of *from; NULL if there are fewer. */
static const uint8_t *take(struct hf_bytes *from, size_t len)
{
    const uint8_t *data = from->data;

    if (from->len < len)
        return NULL;
    from->data += len;
    from->len -= len;
    return data;
}

/* Reads a number in the byte order of this host, where the server that made the handle runs. */
static uint16_t number16(const uint8_t *p)
{
    uint16_t n;

    memcpy(&n, p, sizeof(n));
    return n;
}

static uint32_t number32(const uint8_t *p)
{
    uint32_t n;

    memcpy(&n, p, sizeof(n));
    return n;
}

static uint64_t number64(const uint8_t *p)
{
    uint64_t n;

    memcpy(&n, p, sizeof(n));
    return n;
}

/*
 * A handle of the kernel's has 4 bytes or more; type 0 is none of its own, and 255 means "invalid".
 */
static bool is_kernel_handle(const struct hf_handle *handle)
{
    return handle->fid.len >= 4 && handle->type > 0 && handle->type < 255;
}

/* ---- Ganesha ---- */

enum { GANESHA_VERSION = 0x43, GANESHA_HEADER = 5, GANESHA_DUMMY = 0x20 };

static bool read_ganesha_fsid(unsigned kind, struct hf_bytes *rest, struct hf_fsid *out)
{
    enum { NO_FSID, ONE_64, MAJOR_64, TWO_64, TWO_32, DEVICE };
    const uint8_t *p;

    switch (kind) {
    case NO_FSID:
        return true;
    case ONE_64:
    case MAJOR_64:
        return take(rest, 8) != NULL;
    case TWO_64:
        p = take(rest, 16);
        if (!p)
            return false;
        out->kind = HF_FSID_UUID;
        memcpy(out->uuid, p, 16);
        out->uuid_len = 16;
        return true;
    case TWO_32:
    case DEVICE:
        p = take(rest, 8);
        if (!p)
            return false;
        out->kind = kind == DEVICE ? HF_FSID_DEVICE : HF_FSID_STATFS;
        out->statfs[0] = number32(p);
        out->statfs[1] = number32(p + 4);
        out->device = makedev(out->statfs[0], out->statfs[1]);
        return true;
    default:
        return false;
    }
}

static bool read_ganesha_type(unsigned flags, struct hf_bytes *rest, int *out)
{
    size_t size = flags >> 6 == 3 ? 4 : flags >> 6;
    const uint8_t *p = size ? take(rest, size) : NULL;
    uint32_t type;

    if (!p)
        return false;
    type = size == 1 ? p[0] : size == 2 ? number16(p) : number32(p);
    *out = type < INT32_MAX ? (int)type : 0;
    return true;
}

static bool read_ganesha(struct hf_bytes bytes, struct hf_handle *out)
{
    struct hf_bytes rest = bytes;
    const uint8_t *header = take(&rest, GANESHA_HEADER);
    const uint8_t *flags;

    if (!header || header[0] != GANESHA_VERSION || header[4] > rest.len || rest.len - header[4] > 3)
        return false;
    rest.len = header[4]; /* the handle of the kernel follows the header, without padding */
    flags = take(&rest, 1);
    if (!flags || flags[0] & GANESHA_DUMMY)
        return false;
    if (!read_ganesha_fsid(flags[0] & 0x1f, &rest, &out->fsid) ||
        !read_ganesha_type(flags[0], &rest, &out->type))
        return false;
    out->kind = HF_HANDLE_KERNEL;
    out->fid = rest;
    return is_kernel_handle(out);
}

/* ---- the kernel's nfsd ---- */

static void take_uuid(const uint8_t *p, size_t len, struct hf_fsid *out)
{
    out->kind = HF_FSID_UUID;
    memcpy(out->uuid, p, len);
    out->uuid_len = len;
}

/* Takes a device number of the kernel apart: 12 bits major, 20 bits minor, of which 8 are at the
 * bottom. */
static dev_t kernel_device(uint32_t n)
{
    return makedev((n >> 8) & 0xfff, (n & 0xff) | ((n >> 12) & 0xfff00));
}

static bool read_nfsd_fsid(unsigned kind, struct hf_bytes *rest, struct hf_fsid *out)
{
    enum { DEV, NUM, MAJOR_MINOR, ENCODE_DEV, UUID4_INUM, UUID8, UUID16, UUID16_INUM, KINDS };
    static const size_t LENGTHS[KINDS] = {8, 4, 12, 8, 8, 8, 16, 24};
    const uint8_t *p = kind < KINDS ? take(rest, LENGTHS[kind]) : NULL;

    if (!p)
        return false;
    switch (kind) {
    case DEV:
        out->kind = HF_FSID_DEVICE;
        out->device = makedev(ntohl(number32(p)) >> 16, ntohl(number32(p)) & 0xffff);
        break;
    case MAJOR_MINOR:
        out->kind = HF_FSID_DEVICE;
        out->device = makedev(ntohl(number32(p)), ntohl(number32(p + 4)));
        break;
    case ENCODE_DEV:
        out->kind = HF_FSID_DEVICE;
        out->device = kernel_device(number32(p));
        break;
    case UUID4_INUM:
        take_uuid(p + 4, 4, out);
        break;
    case UUID8:
        take_uuid(p, 8, out);
        break;
    case UUID16:
        take_uuid(p, 16, out);
        break;
    case UUID16_INUM:
        take_uuid(p + 8, 16, out);
        break;
    default:
        break; /* NUM: the number that fsid= gives an export does not identify a file system */
    }
    return true;
}

static bool read_nfsd(struct hf_bytes bytes, struct hf_handle *out)
{
    struct hf_bytes rest = bytes;
    const uint8_t *header = take(&rest, 4);

    if (!header || header[0] != 1 || header[1] != 0)
        return false;
    if (!read_nfsd_fsid(header[2], &rest, &out->fsid))
        return false;
    out->kind = HF_HANDLE_KERNEL;
    out->type = header[3];
    out->fid = rest;
    return is_kernel_handle(out);
}

bool hf_handle_generation(int type, struct hf_bytes fid, uint64_t *generation)
{
    static const struct {
        int type;
        size_t len, at;
    } FORMS[] = {
        {0x01, 8, 4},   /* the fields inode(4) generation(4): ext4, XFS with small inode numbers */
        {0x81, 12, 8},  /* inode(8) generation(4): XFS */
        {0x4d, 20, 16}, /* the fields inode(8) subvolume(8) generation(4): btrfs */
    };

    for (size_t i = 0; i < sizeof(FORMS) / sizeof(FORMS[0]); i++) {
        if (type == FORMS[i].type && fid.len == FORMS[i].len) {
            *generation = number32(fid.data + FORMS[i].at);
            return true;
        }
    }
    return false;
}

/* ---- unfs3 ---- */

uint8_t hf_handle_hash(uint64_t ino)
{
    uint8_t hash = 0;

    for (unsigned shift = 0; shift < 64; shift += 8)
        hash ^= (uint8_t)(ino >> shift);
    return hash;
}

/* Reads a handle of unfs3. ino_size and header tell its versions apart: the last byte of the header
 * counts the hashes. */
static bool read_unfs3(struct hf_bytes bytes, size_t ino_size, size_t header, struct hf_handle *out)
{
    if (bytes.len <= header || bytes.data[header - 1] != bytes.len - header ||
        bytes.len - header > HF_HANDLE_DEPTH_MAX)
        return false;
    out->kind = HF_HANDLE_INODE;
    out->device_low = number32(bytes.data);
    out->ino = ino_size == 8 ? number64(bytes.data + 4) : number32(bytes.data + 4);
    out->generation = number32(bytes.data + 4 + ino_size);
    out->hashes = hf_bytes(bytes.data + header, bytes.len - header);
    return out->ino != 0 && out->hashes.data[out->hashes.len - 1] == hf_handle_hash(out->ino);
}

/* The sizes of inode number and header in each version of unfs3. */
static const size_t UNFS3[][2] = {{8, 21}, {8, 17}, {4, 13}};

bool hf_handle_is_ganesha_only(struct hf_bytes bytes)
{
    struct hf_handle reading = {0};

    if (bytes.len > HF_HANDLE_BYTES_MAX || !read_ganesha(bytes, &reading))
        return false;
    for (size_t i = 0; i < sizeof(UNFS3) / sizeof(UNFS3[0]); i++) {
        if (read_unfs3(bytes, UNFS3[i][0], UNFS3[i][1], &reading))
            return false;
    }
    return true;
}

size_t hf_handle_read(struct hf_bytes bytes, struct hf_handle out[HF_HANDLE_READINGS_MAX])
{
    size_t n = 0;

    memset(out, 0, HF_HANDLE_READINGS_MAX * sizeof(*out));
    if (bytes.len > HF_HANDLE_BYTES_MAX)
        return 0;
    if (read_ganesha(bytes, &out[n]) || read_nfsd(bytes, &out[n]))
        n++;
    else
        memset(&out[n], 0, sizeof(out[n]));
    for (size_t i = 0; i < sizeof(UNFS3) / sizeof(UNFS3[0]); i++) {
        if (read_unfs3(bytes, UNFS3[i][0], UNFS3[i][1], &out[n]))
            n++;
        else
            memset(&out[n], 0, sizeof(out[n]));
    }
    return n;
}
