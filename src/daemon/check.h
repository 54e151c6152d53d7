/*
 * Can this client be called back (SPEC section 7, `holdfastctl check`)? Walks the way a GRANTED or
 * a crash notice takes: its rpcbind, its lock manager, its status monitor, all from the address it
 * knows us by; and the way it takes to us. All steps at once, each with the time of one attempt.
 *
 * Owned by whoever starts it, until done is called. At most HF_CHECKS_MAX at a time.
 */
#ifndef HF_DAEMON_CHECK_H
#define HF_DAEMON_CHECK_H

#include "admin/admin.h"
#include "base/list.h"
#include "core/view.h"
#include "rpc/client.h"

enum { HF_CHECKS_MAX = 16 };

struct hf_checks {
    struct hf_rpc_client *client;
    uint32_t timeout_ms;
    struct hf_list running;
    unsigned n_running;
};

void hf_checks_init(struct hf_checks *checks, struct hf_rpc_client *client, uint32_t timeout_ms);

/* HF_ELIMIT, HF_ENOMEM; HF_ENOENT if the client has no address yet. */
int hf_checks_start(struct hf_checks *checks, const struct hf_view_client *client,
                    struct hf_admin_check *check);

/* Ends all with HF_ECANCELED; after the RPC client was closed. */
void hf_checks_stop(struct hf_checks *checks);

#endif
