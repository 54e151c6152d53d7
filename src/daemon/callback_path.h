/*
 * Finds out whether a client can be called back (SPEC section 7, `holdfastctl check`). It calls
 * what a GRANTED callback or a crash notice would call, from the address by which the client knows
 * us: the client's rpcbind, lock manager and status monitor. It also calls our own programs, as the
 * client would find them. All calls are made at once, each with the timeout of one attempt.
 *
 * struct hf_admin_check belongs to the caller and stays valid until its done function is called. At
 * most HF_PATH_CHECKS_MAX checks run at a time.
 */
#ifndef HF_DAEMON_CALLBACK_PATH_H
#define HF_DAEMON_CALLBACK_PATH_H

#include "admin/admin.h"
#include "base/list.h"
#include "core/view.h"
#include "rpc/client.h"

enum { HF_PATH_CHECKS_MAX = 16 };

struct hf_path_checks {
    struct hf_rpc_client *client;
    uint32_t timeout_ms;
    struct hf_list running;
    unsigned n_running;
};

void hf_path_checks_init(struct hf_path_checks *checks, struct hf_rpc_client *client,
                         uint32_t timeout_ms);

/* Starts a check. Returns HF_ENOENT if the client has no address yet, HF_ELIMIT if too many checks
 * run, HF_ENOMEM. */
int hf_path_checks_start(struct hf_path_checks *checks, const struct hf_view_client *client,
                         struct hf_admin_check *check);

/* Ends all checks with HF_ECANCELED; the RPC client must have been closed. */
void hf_path_checks_stop(struct hf_path_checks *checks);

#endif
