-- With recovery.notify=needed, waiting requests and share reservations are rows of nlm_locks as well. extra has the further
-- fields of such a row, encoded (core/record.h); empty: the row is a lock that is held.

ALTER TABLE nlm_locks ADD COLUMN extra bytea NOT NULL DEFAULT '';

CREATE OR REPLACE VIEW nlm_locks_readable AS
    SELECT l.id, l.client_id, encode(c.mon_name, 'escape') AS client,
        encode(l.share, 'escape') AS share, encode(l.file_handle, 'hex') AS file_handle,
        encode(l.owner_handle, 'escape') AS owner, l.svid, l.first_byte, l.last_byte, l.exclusive,
        to_timestamp(l.acquired_at_ms / 1000.0) AS acquired_at, l.server_epoch
    FROM nlm_locks l LEFT JOIN nsm_client_registrations c ON c.id = l.client_id
    WHERE l.extra = '';

-- Called when an operator has accepted a database that has lost commits. The next start must not continue as if nothing were
-- lost, so the function sets the last byte of the server's record of version 4 (core/record.c) to 3: records were lost. Otherwise
-- it does what that of migration 0007 does.
CREATE OR REPLACE FUNCTION holdfast_clear_lease(new_epoch bigint)
RETURNS SETOF server_state LANGUAGE plpgsql AS $$
DECLARE
    found_row server_state%ROWTYPE;
BEGIN
    SELECT * INTO found_row FROM server_state ORDER BY pulse DESC LIMIT 1 FOR NO KEY UPDATE;
    IF get_byte(found_row.record, 1) = 4 THEN
        found_row.record := set_byte(found_row.record, length(found_row.record) - 1, 3);
    END IF;
    RETURN QUERY UPDATE server_state SET alarm = false, released = true, fence = new_epoch, nonce = 0, beat = beat + 1,
            record = found_row.record
        WHERE pulse = found_row.pulse AND alarm
        RETURNING *;
END
$$;
