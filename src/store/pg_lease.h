/*
 * The lease row of a service, and the exports of all services, in SQL (store/lease.h, migration
 * 0004). Private to this room.
 */
#ifndef HF_STORE_PG_LEASE_H
#define HF_STORE_PG_LEASE_H

#include "store/lease.h"
#include "store/pg_session.h"

/*
 * For the first session of a daemon with standbys: the database must be fit for it, and the exports
 * of the configuration must be ours. HF_EINVAL if not.
 */
int hf_pg_lease_join(struct hf_pg_session *session);

/* All but COMMIT; a RENEW is a batch, and has been done. */
int hf_pg_lease_do(struct hf_pg_session *session, struct hf_store_lease_call *call);

/* A batch was durable (0) or not: notes the row as it is now. */
void hf_pg_lease_note(struct hf_pg_session *session, int status);

/*
 * Before loading: an owner gives up the exports that its configuration no longer has. It is done on
 * the connection that loads, because the one that renews the lease must never wait for a table.
 */
int hf_pg_lease_forget_exports(struct hf_pg_session *session, const struct hf_lease_row *mine);

/* Begins a transaction that sees one state of the database, in which the lease is still ours; mine
 * NULL: whosever it is. */
int hf_pg_lease_see(struct hf_pg_session *session, const struct hf_lease_row *mine);

/* Passes on the exports that belong to other services. */
int hf_pg_lease_list_foreign(struct hf_pg_session *session, const struct hf_store_loading *to);

#endif
