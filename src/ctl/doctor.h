/*
 * holdfastctl doctor: what commonly goes wrong on the server's own host, each with what to do.
 * Every check adds findings; none changes anything.
 */
#ifndef HF_CTL_DOCTOR_H
#define HF_CTL_DOCTOR_H

#include <stdint.h>

#include "ctl/ctl.h"

enum doctor_level { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL };

struct doctor {
    const json_t *status; /* of the daemon */
    json_t *findings;
    enum doctor_level worst;
    bool rival; /* rpcbind names a lock manager or status monitor that is not ours */
};

/* advice NULL: none is needed. */
void doctor_find(struct doctor *doctor, const char *check, enum doctor_level level,
                 const char *finding, const char *advice);

/* doctor_rpc.c: are NLM and NSM served, and does rpcbind send clients there? */
void doctor_ports(struct doctor *doctor);
void doctor_rpcbind(struct doctor *doctor);
/* doctor_rpc.c: is NFSv4 served on this host too? */
void doctor_nfs4(struct doctor *doctor);

/* doctor_mixed.c: do our locks and those of NFSv4, SMB and local programs meet? What keeps exports
 * busy? */
bool doctor_is_coherent(const struct doctor *doctor);
void doctor_mixed(struct doctor *doctor, struct ctl *ctl);

/* doctor_host.c: other lock managers, NFS mounts, the clock, our own name. */
bool doctor_runs(const char *command); /* as in /proc/PID/comm */
void doctor_lock_managers(struct doctor *doctor);
void doctor_mounts(struct doctor *doctor);
void doctor_clock(struct doctor *doctor);
void doctor_name(struct doctor *doctor);

/* doctor_server.c: the handles of an NFS server, HOST:/DIRECTORY. after_restart: asks the operator
 * to restart it, and waits for a line on standard input. False: that is no HOST:/DIRECTORY. */
bool doctor_server(struct doctor *doctor, const char *server, bool after_restart);

#endif
