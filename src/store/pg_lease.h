/* The SQL of a service's lease row, and of the exports of all services (store/lease.h, migration
 * 0004). Private to src/store. */
#ifndef HF_STORE_PG_LEASE_H
#define HF_STORE_PG_LEASE_H

#include "store/lease.h"
#include "store/pg_session.h"

/* Prepares the first session of a daemon with standbys: checks that the database is fit for it, and
 * claims the exports of the configuration. Returns HF_EINVAL if either fails. */
int hf_pg_lease_join(struct hf_pg_session *session);

/* Makes any transaction on the lease but COMMIT. For a RENEW the caller has already applied an
 * empty batch. */
int hf_pg_lease_do(struct hf_pg_session *session, struct hf_store_lease_call *call);

/* Notes the lease's row after a batch, which was durable (status 0) or failed. */
void hf_pg_lease_note(struct hf_pg_session *session, int status);

/* Gives up the exports that the owner's configuration no longer has, before loading. This runs on
 * the connection that loads, because the one that renews the lease must never wait for a table. */
int hf_pg_lease_forget_exports(struct hf_pg_session *session, const struct hf_lease_row *mine);

/* Begins a transaction that sees one state of the database, in which the lease is still ours. If
 * mine is NULL, any daemon may have the lease. */
int hf_pg_lease_see(struct hf_pg_session *session, const struct hf_lease_row *mine);

/* Visits the exports of other services, which `to` receives. */
int hf_pg_lease_list_foreign(struct hf_pg_session *session, const struct hf_store_loading *to);

#endif
