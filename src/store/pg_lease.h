/*
 * The lease row of a service, and the exports of all services, in SQL (store/lease.h, migration
 * 0004). Private to this room.
 */
#ifndef HF_STORE_PG_LEASE_H
#define HF_STORE_PG_LEASE_H

#include "store/lease.h"
#include "store/pg_session.h"

/* Prepares the first session of a daemon with standbys: the database must be fit for it, and the
 * exports of the configuration must be ours. Returns HF_EINVAL if not. */
int hf_pg_lease_join(struct hf_pg_session *session);

/* Makes any transaction on the lease but COMMIT; a RENEW is a batch, and has been made already. */
int hf_pg_lease_do(struct hf_pg_session *session, struct hf_store_lease_call *call);

/* Notes the row as it is after a batch, which was durable (status 0) or not. */
void hf_pg_lease_note(struct hf_pg_session *session, int status);

/* Gives up, before loading, the exports that the owner's configuration no longer has. It is done on
 * the connection that loads, because the one that renews the lease must never wait for a table. */
int hf_pg_lease_forget_exports(struct hf_pg_session *session, const struct hf_lease_row *mine);

/* Begins a transaction that sees one state of the database, in which the lease is still ours; if
 * mine is NULL, any daemon may have it. */
int hf_pg_lease_see(struct hf_pg_session *session, const struct hf_lease_row *mine);

/* Passes on the exports that belong to other services. */
int hf_pg_lease_list_foreign(struct hf_pg_session *session, const struct hf_store_loading *to);

#endif
