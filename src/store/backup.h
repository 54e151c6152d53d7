/*
 * A backup: all records of a store at one durable point, in one file that any backend can be
 * restored from. Numbers are big-endian.
 *
 *  - The header is 8 bytes "HFbackup", 32 bits version (1), 64 bits time (Unix, ms).
 *  - Each record is 32 bits length and the encoded record (core/record.h): first the server's, then
 *    clients, then locks.
 *  - The trailer is 32 bits 0, 64 bits number of records, 64 bits checksum over all bytes before.
 *
 * The checksum is SipHash-1-3 with a fixed key. It finds damage; what protects the file from
 * forgery is its mode (0600), not the checksum.
 */
#ifndef HF_STORE_BACKUP_H
#define HF_STORE_BACKUP_H

#include "base/buf.h"
#include "store/store.h"

/* Appends a backup of all records of an open store to out. Returns the codes of hf_store_load(). */
int hf_backup_write(struct hf_store *store, int64_t wall_ms, struct hf_buf *out);

/*
 * Makes a backup on a connection of its own (hf_store_can_read_aside()), without the store's
 * thread, so that commits and renewals of the lease go on meanwhile. Returns HF_ECANCELED soon
 * after *cancelled has become true.
 */
int hf_backup_write_aside(const struct hf_store_config *config, int64_t wall_ms,
                          const _Atomic bool *cancelled, struct hf_buf *out,
                          char error[HF_STORE_ERROR_MAX]);

struct hf_backup_content {
    int64_t made_at_ms;
    struct hf_record_server server;
    uint64_t clients, locks;
    uint64_t digest; /* the digest of the backup's clients and locks, as the daemon logs it */
};

/*
 * Checks a whole backup file and appends a put of each of its clients and locks to records. Returns
 * HF_EVERSION for a backup of a newer format, HF_EFORMAT with a reason if the file is damaged or no
 * backup, or HF_ENOMEM.
 */
int hf_backup_parse(struct hf_bytes file, struct hf_batch *records, struct hf_backup_content *out,
                    const char **reason);

/*
 * Makes the records of a parsed backup durable in an open store, all or none. Returns HF_EEXIST if
 * the store holds clients or locks.
 *
 * The restored server record makes the next start an unclean one, in a new epoch that counts locks
 * as unknown, because those granted after the backup are missing. The new epoch is far ahead of the
 * old one: clients ignore a reboot notice with a state number that they have seen, and the server
 * may have been restarted often between the backup and the loss of its store.
 */
int hf_backup_restore(struct hf_store *store, const struct hf_backup_content *content,
                      struct hf_batch *records);

#endif
