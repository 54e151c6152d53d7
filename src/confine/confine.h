/*
 * What the daemon may do once it serves (SPEC SEC-12). If an attacker takes over the process by a
 * fault in it, this bounds the damage.
 *
 * The daemon starts with what it was given, less the system calls that neither it nor its libraries
 * have a use for (hf_confine_begin()), opens what it needs, and then, while it still has only one
 * thread (capabilities and Landlock belong to a thread and are inherited by new ones), gives up the
 * rest for good, in this order:
 *
 *   1. its user, if it is root and has one of its own to become;
 *   2. all capabilities but CAP_NET_BIND_SERVICE, to call clients back from reserved ports;
 *   3. the way to new privileges by execve (no_new_privs);
 *   4. the file system, but for what it reads and its own store (Landlock, where there is one);
 *   5. system calls that only its start needed (seccomp).
 *
 * The store must be opened as the user that the daemon will become, or its files and its sessions
 * with PostgreSQL would be root's; hf_confine_borrow_user() serves for that.
 */
#ifndef HF_CONFINE_CONFINE_H
#define HF_CONFINE_CONFINE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { HF_CONFINE_PATHS_MAX = 8, HF_CONFINE_ERROR_MAX = 512 };

/* The user that the process becomes. */
struct hf_confine_user {
    bool change; /* false: the process stays the user it was started as */
    uid_t uid;
    gid_t gid;
    char name[64];
    char home[256];
};

struct hf_confine {
    struct hf_confine_user user;
    const char
        /* Directories in which files are made, changed and removed. */
        *write[HF_CONFINE_PATHS_MAX];
    const char *remove[HF_CONFINE_PATHS_MAX]; /* directories in which a socket is removed at exit */
    const char *read[HF_CONFINE_PATHS_MAX];   /* files that are read again while running */
    /* Each of these lists of paths ends with NULL. */
};

/*
 * Finds the user that the process is to become. wanted is a name or a number; "" means to stay;
 * "auto" means the user holdfast, if there is one. A process that is not root stays what it is.
 * Returns HF_ENOENT, with the reason in error, if the user does not exist.
 */
int hf_confine_find_user(const char *wanted, struct hf_confine_user *out,
                         char error[HF_CONFINE_ERROR_MAX]);

/*
 * Makes a directory, if it is missing, and gives it to the user, together with the files in it that
 * have one of these names (the list ends with NULL) and belong to root. So a store that root made
 * can still be used.
 */
int hf_confine_give_directory(const struct hf_confine_user *user, const char *path,
                              const char *const names[], char error[HF_CONFINE_ERROR_MAX]);

/* Finds the user who owns the file or directory; out->change is false without root, or if root owns
 * it. */
void hf_confine_find_owner(const char *path, struct hf_confine_user *out);

/*
 * Finds out whether the effective user may use the path in this way (R_OK and so on). Returns 0 or
 * a negative errno; 0 as well if this process cannot ask, and finds out when it uses the path.
 */
int hf_confine_check_access(const char *path, int mode);

/* Acts as the user until hf_confine_return_user(), so that files and sockets that are made
 * meanwhile belong to the user. */
int hf_confine_borrow_user(const struct hf_confine_user *user);
void hf_confine_return_user(const struct hf_confine_user *user);

/* Confines the process for good; it must have only one thread. The log says what could not be done.
 * This fails only where privileges could not be given up; then the process must end. */
int hf_confine(const struct hf_confine *confine);

/*
 * Must be called at the start, before any library is used that keeps what it learns about the
 * kernel. From here on, system calls that hf_confine() will refuse are refused (system_calls.c says
 * why). Without this call hf_confine() leaves system calls alone. It also sets no_new_privs.
 */
int hf_confine_begin(void);

/* The parts of hf_confine(). Each returns HF_EUNAVAIL if the kernel cannot do it. */
int hf_confine_files(const struct hf_confine *confine);
int hf_confine_system_calls(void);

#endif
