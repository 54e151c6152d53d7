/*
 * Single records of a store, for tests: one put, get or delete at a time. The daemon loads a store
 * once and then applies batches; these helpers are written in those two operations only.
 *
 * Each change is durable when the call returns. Deleting a record that is not there is no error.
 * The counts are of the records that were there, and may be NULL.
 */
#ifndef HF_TESTS_STORE_SINGLE_H
#define HF_TESTS_STORE_SINGLE_H

#include "base/buf.h"
#include "store/store.h"

int store_put_server(struct hf_store *store, const struct hf_record_server *record);
int store_put_client(struct hf_store *store, const struct hf_record_client *record);
int store_put_lock(struct hf_store *store, const struct hf_record_lock *record);
int store_delete(struct hf_store *store, enum hf_record_kind kind, uint64_t id);
int store_delete_all(struct hf_store *store, enum hf_record_kind kind, size_t *count);

/* Deletes the registrations for this monitored name, or the locks of every client of this name. */
int store_delete_clients_named(struct hf_store *store, struct hf_bytes name, size_t *count);
int store_delete_locks_named(struct hf_store *store, struct hf_bytes name, size_t *count);

/* Appends the encoded record to out, or returns HF_ENOENT. The server's record has the id 0. */
int store_get(struct hf_store *store, enum hf_record_kind kind, uint64_t id, struct hf_buf *out);

/* Visits the records of one kind. */
int store_list(struct hf_store *store, enum hf_record_kind kind, hf_store_visit visit, void *ctx);

#endif
