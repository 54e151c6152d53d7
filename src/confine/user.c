#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "confine/confine.h"

static const char OWN_USER[] = "holdfast";

static const struct passwd *find(const char *wanted)
{
    char *end;
    unsigned long uid;

    if (!isdigit((unsigned char)wanted[0]))
        return getpwnam(wanted);
    uid = strtoul(wanted, &end, 10);
    return *end ? NULL : getpwuid((uid_t)uid);
}

int hf_confine_find_user(const char *wanted, struct hf_confine_user *out,
                         char error[HF_CONFINE_ERROR_MAX])
{
    bool automatic = strcmp(wanted, "auto") == 0;
    const struct passwd *pw;

    *out = (struct hf_confine_user){0};
    if (geteuid() != 0 || wanted[0] == '\0')
        return 0;
    pw = find(automatic ? OWN_USER : wanted);
    if (!pw && automatic) {
        hf_log(HF_LOG_WARN, "running as root",
               HF_STR("reason", "there is no user holdfast to become"),
               HF_STR("advice", "run useradd --system holdfast; or name a user in server.user"));
        return 0;
    }
    if (!pw) {
        hf_format(error, HF_CONFINE_ERROR_MAX, "there is no user \"%.100s\" (server.user)", wanted);
        return HF_ENOENT;
    }
    out->change = pw->pw_uid != 0;
    out->uid = pw->pw_uid;
    out->gid = pw->pw_gid;
    if (!hf_text_copy(out->name, sizeof(out->name), pw->pw_name) ||
        !hf_text_copy(out->home, sizeof(out->home), pw->pw_dir)) {
        hf_format(error, HF_CONFINE_ERROR_MAX, "the name or home of user \"%.100s\" is too long",
                  wanted);
        return HF_EINVAL;
    }
    return 0;
}

void hf_confine_find_owner(const char *path, struct hf_confine_user *out)
{
    const struct passwd *pw;
    struct stat st;

    *out = (struct hf_confine_user){0};
    if (geteuid() != 0 || stat(path, &st) < 0 || st.st_uid == 0)
        return;
    *out = (struct hf_confine_user){.change = true, .uid = st.st_uid, .gid = st.st_gid};
    pw = getpwuid(st.st_uid);
    if (pw && hf_text_copy(out->name, sizeof(out->name), pw->pw_name))
        out->gid = pw->pw_gid;
    else
        out->name[0] = '\0';
}

/*
 * Gives a file of root's to the user; files of other users stay as they are. The user can replace a
 * name in his directory at any moment, so the file that was opened is looked at and given, not its
 * name.
 */
static int give(const struct hf_confine_user *user, int dir, const char *name)
{
    struct stat st;
    int rv = 0;
    int fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    if (fstat(fd, &st) == 0 && st.st_uid == 0 &&
        (S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && st.st_nlink == 1)) &&
        fchownat(fd, "", user->uid, user->gid, AT_EMPTY_PATH) < 0)
        rv = -errno;
    close(fd);
    return rv;
}

int hf_confine_check_access(const char *path, int mode)
{
    /* EPERM is never the kernel's own answer. Filters of containers that were written before Linux
     * 5.8 give it, because they do not know the system call. */
    return faccessat(AT_FDCWD, path, mode, AT_EACCESS) == 0 || errno == EPERM ? 0 : -errno;
}

/* Finds out what the user, without root's rights, will be able to do with the path. */
static int try_as_user(const struct hf_confine_user *user, const char *path)
{
    int rv = hf_confine_borrow_user(user) < 0 ? -EPERM : 0;

    if (rv == 0)
        rv = hf_confine_check_access(path, R_OK | W_OK | X_OK);
    hf_confine_return_user(user);
    return rv;
}

int hf_confine_give_directory(const struct hf_confine_user *user, const char *path,
                              const char *const names[], char error[HF_CONFINE_ERROR_MAX])
{
    int dir;
    int rv;

    if (!user->change)
        return 0;
    (void)mkdir(path, 0755); /* if the directory is still missing, open() will say why */
    dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rv = dir < 0 ? -errno : give(user, dir, ".");
    for (size_t i = 0; rv == 0 && names[i]; i++)
        rv = give(user, dir, names[i]);
    if (dir >= 0)
        close(dir);
    if (rv == 0)
        rv = try_as_user(user, path);
    if (rv == -EINVAL) /* the kernel's answer to chown() then */
        hf_format(error, HF_CONFINE_ERROR_MAX,
                  "user %s cannot be given %.200s: this container's user namespace has no such "
                  "user; give the container more users, or choose another one (server.user)",
                  user->name, path);
    else if (rv < 0)
        hf_format(error, HF_CONFINE_ERROR_MAX,
                  "user %s cannot use %.200s: %s; give it to that user (chown -R %s), or choose "
                  "another user (server.user) or place",
                  user->name, path, strerror(-rv), user->name);
    return rv < 0 ? HF_EDENIED : 0;
}

int hf_confine_borrow_user(const struct hf_confine_user *user)
{
    if (!user->change)
        return 0;
    if ((user->name[0] ? initgroups(user->name, user->gid) : setgroups(0, NULL)) < 0 ||
        setegid(user->gid) < 0 || seteuid(user->uid) < 0)
        return HF_EDENIED;
    return 0;
}

void hf_confine_return_user(const struct hf_confine_user *user)
{
    if (!user->change)
        return;
    if (seteuid(0) < 0 || setegid(0) < 0)
        abort(); /* seteuid(0) cannot fail, because the real user is still root */
}
