#include "confine/confine.h"

#include <cap-ng.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"

/*
 * Programs with coverage or sanitizers write reports to any place, and run programs from any place.
 */
#ifdef HF_INSTRUMENTED
static const bool INSTRUMENTED = true;
#else
static const bool INSTRUMENTED = false;
#endif

static int give_up_privileges(const struct hf_confine_user *user)
{
    bool root = geteuid() == 0;
    int rv;

    if (capng_get_caps_process() != 0)
        return HF_EDENIED;
    if (!root && !capng_have_capability(CAPNG_PERMITTED, CAP_NET_BIND_SERVICE)) {
        capng_clear(CAPNG_SELECT_ALL);
        return capng_apply(CAPNG_SELECT_CAPS) == 0 ? 0 : HF_EDENIED;
    }
    capng_clear(CAPNG_SELECT_ALL);
    capng_update(CAPNG_ADD, CAPNG_EFFECTIVE | CAPNG_PERMITTED, CAP_NET_BIND_SERVICE);
    /* A daemon that stays root keeps DAC_OVERRIDE: its files may belong to other users. */
    if (root && !user->change)
        capng_update(CAPNG_ADD, CAPNG_EFFECTIVE | CAPNG_PERMITTED, CAP_DAC_OVERRIDE);
    if (user->change)
        rv = capng_change_id((int)user->uid, (int)user->gid,
                             CAPNG_INIT_SUPP_GRP | CAPNG_CLEAR_BOUNDING | CAPNG_CLEAR_AMBIENT);
    else
        rv = capng_apply(root ? CAPNG_SELECT_ALL : CAPNG_SELECT_CAPS);
    return rv == 0 ? 0 : HF_EDENIED;
}

static void warn(const char *what, int error)
{
    hf_log(HF_LOG_WARN, "not confined", HF_STR("by", what), HF_STR("reason", hf_strerror(error)),
           HF_STR("advice", "this kernel, or the container's policy, does not allow it"));
}

int hf_confine(const struct hf_confine *confine)
{
    const struct hf_confine_user *user = &confine->user;
    int files;
    int calls;
    int rv = give_up_privileges(user);

    if (rv < 0 || (user->change && (getuid() != user->uid || geteuid() != user->uid)) ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
        hf_log(
            HF_LOG_ERROR, "cannot give up privileges", HF_STR("user", user->name),
            HF_STR("reason", hf_strerror(HF_EDENIED)),
            HF_STR("advice", "start as root or as an ordinary user; server.confine=no to debug"));
        return HF_EDENIED;
    }
    if (user->change) /* libpq looks for certificates and passwords in the home directory */
        (void)setenv("HOME", user->home, 1);
    /* Otherwise the leak check could not look at the process, because it has changed its user. */
    if (INSTRUMENTED)
        (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    files = INSTRUMENTED ? HF_EUNAVAIL : hf_confine_files(confine);
    if (files < 0 && !INSTRUMENTED)
        warn("Landlock", files);
    calls = hf_confine_system_calls();
    if (calls < 0)
        warn("seccomp", calls);
    hf_log(HF_LOG_INFO, "confined", HF_UINT("uid", geteuid()),
           HF_STR("files", files < 0 ? "all" : "own"),
           HF_STR("system_calls", calls < 0 ? "all" : "own"));
    return 0;
}
