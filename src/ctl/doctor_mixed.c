/* holdfastctl doctor: checks whether locks of NFSv3 clients and those of NFSv4, SMB and local
 * programs meet (COH-09). */
#include <string.h>

#include "base/text.h"
#include "ctl/doctor.h"

bool doctor_is_coherent(const struct doctor *doctor)
{
    const json_t *coherence = json_object_get(doctor->status, "coherence");

    return coherence && strcmp(ctl_text(coherence, "state"), "off") != 0;
}

/* Looks for other file servers. It finds nothing where there are none, because the keeper is
 * optional then. */
static void find_neighbours(struct doctor *doctor)
{
    if (doctor_runs("smbd"))
        doctor_find(doctor, "mixed access", DOCTOR_WARN,
                    "Samba runs on this host: locks of SMB and of NFSv3 clients on the same file "
                    "do not exclude each other",
                    "run holdfast-keeper (docs/operating/MIXED-ACCESS.md), or let each file be "
                    "reached by one of them only");
}

static void find_unmirrored(struct doctor *doctor, const json_t *coherence)
{
    char text[CTL_WORD_MAX];

    if (ctl_number(coherence, "unmirrored_files") == 0)
        return;
    hf_format(text, sizeof(text), "%.0f files have locks that the kernel cannot hold for us",
              ctl_number(coherence, "unmirrored_files"));
    doctor_find(doctor, "mixed access", DOCTOR_WARN, text,
                "programs outside do not meet these locks; journalctl -u holdfastd says why "
                "(\"the kernel cannot hold a lock for us\"); see export= of holdfast-keeper");
}

static void find_busy(struct doctor *doctor, struct ctl *ctl)
{
    char text[CTL_WORD_MAX], advice[CTL_WORD_MAX];
    json_t *answer = NULL, *export;
    size_t i;

    if (ctl_ask(ctl, "GET", "exports", NULL, &answer) != CTL_OK)
        return;
    json_array_foreach(json_object_get(answer, "exports"), i, export)
    {
        const char *path = ctl_text(export, "path");

        if (json_is_true(json_object_get(export, "released"))) {
            hf_format(text, sizeof(text), "%.200s is released: no new lock is granted there", path);
            hf_format(advice, sizeof(advice),
                      "when it is mounted again: holdfastctl exports "
                      "take-back %.200s",
                      path);
            doctor_find(doctor, "exports", DOCTOR_WARN, text, advice);
        } else if (ctl_number(export, "files") > 0) {
            hf_format(text, sizeof(text),
                      "%.200s: %.0f files are open for clients' locks, and keep it busy", path,
                      ctl_number(export, "files"));
            hf_format(advice, sizeof(advice),
                      "before it is unmounted: holdfastctl exports release %.200s", path);
            doctor_find(doctor, "exports", DOCTOR_OK, text, advice);
        }
    }
    json_decref(answer);
}

void doctor_mixed(struct doctor *doctor, struct ctl *ctl)
{
    const json_t *coherence = json_object_get(doctor->status, "coherence");
    const char *state = ctl_text(coherence, "state");
    char text[CTL_WORD_MAX];

    if (strcmp(state, "off") == 0) {
        find_neighbours(doctor);
    } else if (strcmp(state, "down") == 0) {
        doctor_find(doctor, "mixed access", DOCTOR_FAIL,
                    "the keeper is away, or has not claimed all yet: no new lock is granted",
                    "systemctl status holdfast-keeper; see keeper.socket");
    } else if (strcmp(state, "up") == 0) {
        hf_format(text, sizeof(text), "the kernel holds %.0f ranges of %.0f files for clients",
                  ctl_number(coherence, "ranges"), ctl_number(coherence, "files"));
        doctor_find(doctor, "mixed access", DOCTOR_OK, text, NULL);
        find_unmirrored(doctor, coherence);
        find_busy(doctor, ctl);
    }
}
