/* holdfastctl doctor finds what commonly goes wrong on the server's own host, and says what to do
 * about it. Every check adds findings; none changes anything. */
#ifndef HF_CTL_DOCTOR_H
#define HF_CTL_DOCTOR_H

#include <stdint.h>

#include "ctl/ctl.h"

enum doctor_level { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL };

struct doctor {
    const json_t *status; /* the answer of the daemon to GET status */
    json_t *findings;
    enum doctor_level worst;
    bool rival; /* rpcbind names a lock manager or status monitor that is not ours */
    /* The daemon serves the status monitor only, for the lock manager of this host's kernel. */
    bool monitor_only;
};

/* Adds a finding; advice is NULL if none is needed. */
void doctor_find(struct doctor *doctor, const char *check, enum doctor_level level,
                 const char *finding, const char *advice);

/* doctor_rpc.c: checks that NLM and NSM are served, and that rpcbind sends clients there.
 * doctor_ports() also finds out whether the daemon serves the status monitor only. */
void doctor_ports(struct doctor *doctor);
void doctor_rpcbind(struct doctor *doctor);
/* doctor_rpc.c: checks whether NFSv4 is served on this host, too. */
void doctor_nfs4(struct doctor *doctor);

/* doctor_mixed.c: checks whether our locks and those of NFSv4, SMB and local programs meet, and
 * what keeps exports busy. */
bool doctor_is_coherent(const struct doctor *doctor);
void doctor_mixed(struct doctor *doctor, struct ctl *ctl);

/* doctor_host.c: checks other lock managers, NFS mounts, the clock, and our own name. */
bool doctor_runs(const char *command); /* command is the name in /proc/PID/comm */
void doctor_lock_managers(struct doctor *doctor);
void doctor_mounts(struct doctor *doctor);
void doctor_clock(struct doctor *doctor);
void doctor_name(struct doctor *doctor);

/*
 * doctor_server.c: checks the handles of an NFS server, HOST:/DIRECTORY. With after_restart it asks
 * the operator to restart the server, and waits for a line on standard input. Returns false if the
 * text is no HOST:/DIRECTORY.
 */
bool doctor_server(struct doctor *doctor, const char *server, bool after_restart);

#endif
