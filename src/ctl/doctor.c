#include "ctl/doctor.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

static const char *const LEVELS[] = {
    [DOCTOR_OK] = "ok", [DOCTOR_WARN] = "warn", [DOCTOR_FAIL] = "FAIL"};
static const enum ctl_color COLORS[] = {
    [DOCTOR_OK] = CTL_GREEN, [DOCTOR_WARN] = CTL_YELLOW, [DOCTOR_FAIL] = CTL_RED};

void doctor_find(struct doctor *doctor, const char *check, enum doctor_level level,
                 const char *finding, const char *advice)
{
    json_array_append_new(doctor->findings,
                          json_pack("{s:s, s:s, s:s, s:s?}", "check", check, "level", LEVELS[level],
                                    "finding", finding, "advice", advice));
    if (level > doctor->worst)
        doctor->worst = level;
}

static void find_store(struct doctor *doctor)
{
    const json_t *store = json_object_get(doctor->status, "store");

    if (json_is_true(json_object_get(store, "up")))
        doctor_find(doctor, "store", DOCTOR_OK, "the store takes changes", NULL);
    else
        doctor_find(
            doctor, "store", DOCTOR_FAIL, ctl_text(store, "reason"),
            "no lock is granted until the store is back; see \"The store\" in the operators' "
            "guide");
}

static void find_losses(struct doctor *doctor)
{
    const json_t *losses = json_object_get(doctor->status, "losses");
    char text[CTL_WORD_MAX];

    if (ctl_number(losses, "clients") == 0) {
        doctor_find(doctor, "losses", DOCTOR_OK, "no client has lost locks", NULL);
        return;
    }
    hf_format(text, sizeof(text), "%.0f clients lost %.0f locks after a restart",
              ctl_number(losses, "clients"), ctl_number(losses, "locks"));
    doctor_find(doctor, "losses", DOCTOR_WARN, text,
                "see holdfastctl losses, look after their applications, then holdfastctl losses "
                "ack");
}

static void find_limits(struct doctor *doctor)
{
    const json_t *limits = json_object_get(doctor->status, "limits");
    char text[CTL_WORD_MAX];
    const json_t *row;
    size_t i;

    json_array_foreach(limits, i, row)
    {
        hf_format(text, sizeof(text), "limits.%.60s refused %.0f requests, the last of %.200s",
                  ctl_text(row, "limit"), ctl_number(row, "hits"), ctl_text(row, "client"));
        doctor_find(
            doctor, "limits", DOCTOR_WARN, text,
            "applications got ENOLCK: raise the limit, or find the client that leaks locks");
    }
}

/* Checks the names of files. It finds nothing where names were never set up, because they are
 * optional. */
static void find_names(struct doctor *doctor)
{
    const json_t *names = json_object_get(doctor->status, "names");
    const char *namer = ctl_text(names, "namer");
    char text[CTL_WORD_MAX];

    if (strcmp(namer, "up") == 0) {
        doctor_find(doctor, "file names", DOCTOR_OK, "the namer answers", NULL);
    } else if (strcmp(namer, "down") == 0) {
        hf_format(text, sizeof(text), "the namer does not tell the names of files: %.200s",
                  ctl_text(names, "reason"));
        doctor_find(
            doctor, "file names", DOCTOR_WARN, text,
            "locks are shown by handle: see journalctl -u holdfast-namesd, and names.socket");
    }
}

static void find_role(struct doctor *doctor)
{
    const char *active = ctl_text(doctor->status, "active_node");
    char text[CTL_WORD_MAX];

    if (!ctl_stands_by(doctor->status))
        return;
    hf_format(text, sizeof(text), "this node stands by; %.100s%s", active[0] ? active : "no node",
              active[0] ? " took the service last" : " is known to serve");
    doctor_find(doctor, "cluster", active[0] ? DOCTOR_OK : DOCTOR_WARN, text,
                active[0] ? NULL : "see holdfastctl cluster");
}

static void find_daemon(struct doctor *doctor, const struct ctl *ctl)
{
    char text[CTL_WORD_MAX];

    if (!doctor->status) {
        doctor_find(doctor, "daemon", DOCTOR_FAIL, "holdfastd does not answer",
                    "start it: systemctl start holdfastd; why it stopped: journalctl -u holdfastd");
        return;
    }
    hf_format(text, sizeof(text), "holdfastd %s answers at %.200s",
              ctl_text(doctor->status, "version"), ctl->url ? ctl->url : ctl->socket);
    doctor_find(doctor, "daemon", DOCTOR_OK, text, NULL);
}

static void print_findings(const struct ctl *ctl, const struct doctor *doctor)
{
    json_t *finding;
    size_t i;

    if (ctl->json) {
        ctl_print_json(doctor->findings);
        return;
    }
    json_array_foreach(doctor->findings, i, finding)
    {
        const char *level = ctl_text(finding, "level");
        const char *advice = ctl_text(finding, "advice");
        char text[CTL_WORD_MAX];
        size_t k = DOCTOR_OK;

        while (k < DOCTOR_FAIL && strcmp(LEVELS[k], level) != 0)
            k++;
        hf_format(text, sizeof(text), "%-5s", level);
        ctl_paint(ctl, COLORS[k], text);
        printf(" %-14s ", ctl_text(finding, "check"));
        ctl_paint(ctl, CTL_PLAIN, ctl_text(finding, "finding"));
        putchar('\n');
        if (advice[0])
            printf("                     advice: %s\n", advice);
    }
}

static int conclude(const struct ctl *ctl, struct doctor *doctor)
{
    print_findings(ctl, doctor);
    json_decref(doctor->findings);
    return doctor->worst == DOCTOR_FAIL ? CTL_TROUBLE : CTL_OK;
}

int ctl_doctor(struct ctl *ctl, int argc, char **argv)
{
    struct doctor doctor = {.findings = json_array()};
    json_t *status = NULL;
    int rv;

    (void)argv;
    if (argc > 0 || (ctl->after_restart && !ctl->server) ||
        (ctl->server && !doctor_server(&doctor, ctl->server, ctl->after_restart))) {
        json_decref(doctor.findings);
        return CTL_USAGE;
    }
    if (ctl->server)
        return conclude(ctl, &doctor);
    /* ctl_ask() prints the reason of a failure on standard error. */
    (void)ctl_ask(ctl, "GET", "status", NULL, &status);
    doctor.status = status;
    find_daemon(&doctor, ctl);
    if (status) {
        find_store(&doctor);
        find_losses(&doctor);
        find_limits(&doctor);
        find_names(&doctor);
        find_role(&doctor);
        if (!ctl_stands_by(status))
            doctor_ports(&doctor);
        doctor_name(&doctor);
        if (!ctl_stands_by(status))
            doctor_mixed(&doctor, ctl);
    }
    doctor_rpcbind(&doctor);
    doctor_nfs4(&doctor);
    doctor_lock_managers(&doctor);
    doctor_mounts(&doctor);
    doctor_clock(&doctor);
    rv = conclude(ctl, &doctor);
    json_decref(status);
    return rv;
}
