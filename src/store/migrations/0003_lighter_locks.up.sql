-- Every grant writes a row of nlm_locks and every release removes one, so the table keeps only what
-- the daemon itself needs: no index beside the primary key, no column that can be computed. People
-- read the view nlm_locks_readable.

DROP INDEX nlm_locks_client_id;
ALTER TABLE nlm_locks DROP COLUMN share_text;

CREATE VIEW nlm_locks_readable AS
    SELECT l.id, l.client_id, encode(c.mon_name, 'escape') AS client,
        encode(l.share, 'escape') AS share, encode(l.file_handle, 'hex') AS file_handle,
        encode(l.owner_handle, 'escape') AS owner, l.svid, l.first_byte, l.last_byte, l.exclusive,
        to_timestamp(l.acquired_at_ms / 1000.0) AS acquired_at, l.server_epoch
    FROM nlm_locks l LEFT JOIN nsm_client_registrations c ON c.id = l.client_id;
