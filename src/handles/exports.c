#include "handles/exports.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"

void hf_exports_init(struct hf_exports *exports)
{
    *exports = (struct hf_exports){.looked_ms = -1};
}

static void forget_roots(struct hf_exports *exports)
{
    hf_exports_close(exports);
    for (size_t i = 0; i < exports->n_roots; i++)
        free(exports->roots[i].path);
    exports->n_roots = 0;
}

void hf_exports_free(struct hf_exports *exports)
{
    forget_roots(exports);
    if (exports->mounts)
        (void)fclose(exports->mounts);
    for (size_t i = 0; i < exports->n_configured; i++)
        free(exports->configured[i]);
    hf_exports_init(exports);
}

int hf_exports_add(struct hf_exports *exports, const char *path)
{
    char *copy;

    if (path[0] != '/' || strlen(path) >= HF_PATH_BYTES_MAX)
        return HF_EINVAL;
    if (exports->n_configured == HF_EXPORTS_MAX)
        return HF_ELIMIT;
    copy = strdup(path);
    if (!copy)
        return HF_ENOMEM;
    exports->configured[exports->n_configured++] = copy;
    return 0;
}

/* ---- what a file system is known by ---- */

struct fs_uuid {
    uint8_t len;
    uint8_t bytes[16];
};
#define GET_FS_UUID _IOR(0x15, 0, struct fs_uuid) /* FS_IOC_GETFSUUID, Linux 6.9 */

/* Reads the uuid in text, with or without hyphens; false unless it has 16 bytes. */
static bool parse_uuid(const char *text, uint8_t out[16])
{
    unsigned digits = 0;

    memset(out, 0, 16);
    for (; *text && *text != '\n'; text++) {
        const char *found = strchr("0123456789abcdef", *text | 0x20);

        if (*text == '-')
            continue;
        if (!found || digits == 32)
            return false;
        out[digits / 2] |=
            (uint8_t)((found - "0123456789abcdef") << (digits % 2 ? 0 : 4)); /* NOLINT */
        digits++;
    }
    return digits == 32;
}

/* udev's database has the uuid that mountd and Ganesha get from libblkid. */
static bool uuid_of_udev(dev_t device, uint8_t out[16])
{
    char line[512];
    bool found = false;
    FILE *file;

    hf_format(line, sizeof(line), "/run/udev/data/b%u:%u", major(device), minor(device));
    file = fopen(line, "re");
    while (file && !found && fgets(line, sizeof(line), file)) {
        if (strncmp(line, "E:ID_FS_UUID=", 13) == 0)
            found = parse_uuid(line + 13, out);
    }
    if (file)
        (void)fclose(file);
    return found;
}

static bool identify(struct hf_root *root)
{
    struct fs_uuid uuid = {.len = 16};
    struct statfs fs;
    struct stat st;

    if (hf_root_open(root) < 0 || fstat(root->fd, &st) < 0 || !S_ISDIR(st.st_mode) ||
        fstatfs(root->fd, &fs) < 0)
        return false;
    root->device = st.st_dev;
    root->inode = st.st_ino;
    memcpy(root->statfs, &fs.f_fsid, sizeof(root->statfs));
    root->has_uuid = uuid_of_udev(st.st_dev, root->uuid);
    if (!root->has_uuid && ioctl(root->fd, GET_FS_UUID, &uuid) == 0 && uuid.len == 16) {
        memcpy(root->uuid, uuid.bytes, sizeof(root->uuid));
        root->has_uuid = true;
    }
    return true;
}

static bool same_folded(const struct hf_root *root, const struct hf_fsid *fsid)
{
    uint8_t folded[16] = {0};

    for (size_t i = 0; i < 16; i++)
        folded[i % fsid->uuid_len] ^= root->uuid[i];
    return memcmp(folded, fsid->uuid, fsid->uuid_len) == 0;
}

/* For a file system without a uuid, mountd takes f_fsid as 16 hexadecimal digits. */
static bool same_statfs_text(const struct hf_root *root, const struct hf_fsid *fsid)
{
    struct hf_root other = *root;

    memset(other.uuid, 0, sizeof(other.uuid));
    for (size_t i = 0; i < 8; i++)
        other.uuid[i] = (uint8_t)(root->statfs[i / 4] >> (24 - 8 * (i % 4)));
    return same_folded(&other, fsid);
}

/* A uuid that differs does not prove that the file system is another one, because servers take
 * uuids from several places. */
unsigned hf_root_fits(const struct hf_root *root, const struct hf_fsid *fsid)
{
    switch (fsid->kind) {
    case HF_FSID_DEVICE:
        return root->device == fsid->device ? 2 : 0;
    case HF_FSID_STATFS:
        return memcmp(root->statfs, fsid->statfs, sizeof(fsid->statfs)) == 0 ? 2 : 0;
    case HF_FSID_UUID:
        return (root->has_uuid && same_folded(root, fsid)) || same_statfs_text(root, fsid) ? 2 : 1;
    default:
        return 1;
    }
}

/* ---- looking for roots ---- */

static void add_root(struct hf_exports *exports, const char *path, bool is_export)
{
    struct hf_root *root = &exports->roots[exports->n_roots];

    if (exports->n_roots == HF_ROOTS_MAX)
        return;
    *root = (struct hf_root){.path = strdup(path), .is_export = is_export, .fd = -1};
    if (root->path && identify(root)) {
        exports->n_roots++;
        return;
    }
    if (root->fd >= 0)
        close(root->fd);
    free(root->path);
}

/* Returns the part of path below root, without a slash in front; NULL if path is not below root. */
static const char *below(const struct hf_root *root, const char *path)
{
    size_t len = strlen(root->path);

    if (len == 1)
        return path[0] == '/' ? path + 1 : NULL;
    if (strncmp(root->path, path, len) != 0)
        return NULL;
    if (path[len] == '\0')
        return path + len;
    return path[len] == '/' ? path + len + 1 : NULL;
}

static struct hf_root *export_of(struct hf_exports *exports, const char *path, const char **rest)
{
    for (size_t i = 0; i < exports->n_roots && exports->roots[i].is_export; i++) {
        *rest = below(&exports->roots[i], path);
        if (*rest)
            return &exports->roots[i];
    }
    return NULL;
}

/* mountinfo writes white space and backslashes as three octal digits. */
static void unescape(char *text)
{
    char *out = text;

    for (const char *p = text; *p; out++) {
        if (p[0] == '\\' && p[1] && p[2] && p[3]) {
            *out = (char)((p[1] - '0') * 64 + (p[2] - '0') * 8 + (p[3] - '0'));
            p += 4;
        } else {
            *out = *p++;
        }
    }
    *out = '\0';
}

/* True for local file systems. A file system that another host serves can hang, and its files have
 * no handle of a server on this host. */
static bool is_local(const char *type)
{
    static const char *const OTHERS[] = {"nfs",  "nfs4",  "cifs",   "smb3",       "autofs",
                                         "proc", "sysfs", "devpts", "securityfs", "cgroup2"};

    for (size_t i = 0; i < sizeof(OTHERS) / sizeof(OTHERS[0]); i++) {
        if (strcmp(type, OTHERS[i]) == 0)
            return false;
    }
    return strncmp(type, "fuse", 4) != 0;
}

FILE *hf_exports_mounts(struct hf_exports *exports)
{
    if (!exports->mounts)
        exports->mounts = fopen("/proc/self/mountinfo", "re");
    return exports->mounts;
}

/* Notes the mount that each root is in: the one with the longest path, and of several mounts on one
 * directory the last one, which hides the others. */
static void mark_mount(struct hf_exports *exports, const char *path, bool from_top)
{
    struct hf_root mount = {.path = (char *)path};
    size_t len = strlen(path);

    for (size_t i = 0; i < exports->n_roots; i++) {
        struct hf_root *root = &exports->roots[i];

        if (len >= root->mount_len && below(&mount, root->path)) {
            root->mount_len = len;
            root->from_top = from_top;
            root->is_whole = from_top && strcmp(root->path, path) == 0;
        }
    }
}

static void add_mounts(struct hf_exports *exports)
{
    static char line[3 * HF_PATH_BYTES_MAX], path[sizeof(line)], top[sizeof(line)], type[256];
    FILE *file = hf_exports_mounts(exports);
    const char *rest;
    const char *dash;

    if (!file)
        return;
    rewind(file);
    while (fgets(line, sizeof(line), file)) {
        dash = strstr(line, " - ");
        if (!dash || sscanf(dash, " - %255s", type) != 1 ||
            sscanf(line, "%*d %*d %*s %12287s %12287s", top, path) != 2)
            continue;
        unescape(path);
        if (is_local(type) && export_of(exports, path, &rest) && rest[0])
            add_root(exports, path, false);
        mark_mount(exports, path, strcmp(top, "/") == 0);
    }
}

void hf_exports_look(struct hf_exports *exports, int64_t now_ms)
{
    if (exports->looked_ms >= 0 && now_ms - exports->looked_ms < HF_EXPORTS_FRESH_MS)
        return;
    exports->looked_ms = now_ms;
    forget_roots(exports);
    for (size_t i = 0; i < exports->n_configured; i++) {
        char *real = realpath(exports->configured[i], NULL);

        if (real)
            add_root(exports, real, true);
        free(real);
    }
    add_mounts(exports);
}

/* ---- opening ---- */

static bool is_same(const struct stat *st, dev_t device, ino_t inode)
{
    return st->st_dev == device && st->st_ino == inode;
}

/* Opens the root's directory. Its path had no symbolic link when the roots were looked for. A link
 * that is there now, or another directory, was put there to show files outside the exports. */
int hf_root_open(struct hf_root *root)
{
    struct open_how how = {
        .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK,
        .resolve = RESOLVE_NO_SYMLINKS,
    };
    struct stat st;

    if (root->fd >= 0)
        return root->fd;
    root->fd = (int)syscall(SYS_openat2, AT_FDCWD, root->path, &how, sizeof(how));
    if (root->fd >= 0 && root->inode &&
        (fstat(root->fd, &st) < 0 || !is_same(&st, root->device, root->inode))) {
        close(root->fd);
        root->fd = -1;
    }
    return root->fd;
}

void hf_exports_close(struct hf_exports *exports)
{
    for (size_t i = 0; i < exports->n_roots; i++) {
        if (exports->roots[i].fd >= 0)
            close(exports->roots[i].fd);
        exports->roots[i].fd = -1;
    }
}

int hf_root_open_below(struct hf_root *root, const char *relative, int flags, bool across)
{
    struct open_how how = {
        .flags = (uint64_t)(unsigned)(flags | O_CLOEXEC | O_NOFOLLOW),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };

    if (!across)
        how.resolve |= RESOLVE_NO_XDEV;
    if (hf_root_open(root) < 0)
        return -1;
    return (int)syscall(SYS_openat2, root->fd, relative[0] ? relative : ".", &how, sizeof(how));
}

bool hf_exports_has(struct hf_exports *exports, const char *path)
{
    const char *rest;
    struct hf_root *root = export_of(exports, path, &rest);

    return root && hf_root_open(root) >= 0;
}

int hf_exports_open(struct hf_exports *exports, const char *path, const struct stat *file)
{
    const char *rest;
    struct hf_root *root = export_of(exports, path, &rest);
    int fd = root ? hf_root_open_below(root, rest, O_PATH, true) : -1;
    struct stat st;

    if (fd >= 0 && (fstat(fd, &st) < 0 || !is_same(&st, file->st_dev, file->st_ino))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

bool hf_exports_holds(struct hf_exports *exports, const char *path, const struct stat *file)
{
    int fd = hf_exports_open(exports, path, file);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}
