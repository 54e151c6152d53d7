-- The previous version of the program can read neither a journal with waiters and shares nor a server's record of version 4, and
-- cannot tell waiters and shares from locks.
DO $$
BEGIN
    IF EXISTS (SELECT FROM holdfast_journal j, server_state s WHERE j.number > s.journal_folded) THEN
        RAISE EXCEPTION 'the newest changes are in the journal only; start this version of holdfastd and stop it in order, then try again';
    END IF;
    IF EXISTS (SELECT FROM nlm_locks WHERE extra <> '') OR EXISTS (SELECT FROM server_state WHERE get_byte(record, 1) >= 4) THEN
        RAISE EXCEPTION 'waiting requests and share reservations are recorded; start this version of holdfastd with recovery.notify=always and stop it, then try again';
    END IF;
END
$$;
CREATE OR REPLACE FUNCTION holdfast_clear_lease(new_epoch bigint)
RETURNS SETOF server_state LANGUAGE plpgsql AS $$
DECLARE
    found_row server_state%ROWTYPE;
BEGIN
    SELECT * INTO found_row FROM server_state ORDER BY pulse DESC LIMIT 1 FOR NO KEY UPDATE;
    RETURN QUERY UPDATE server_state SET alarm = false, released = true, fence = new_epoch, nonce = 0, beat = beat + 1
        WHERE pulse = found_row.pulse AND alarm
        RETURNING *;
END
$$;
CREATE OR REPLACE VIEW nlm_locks_readable AS
    SELECT l.id, l.client_id, encode(c.mon_name, 'escape') AS client,
        encode(l.share, 'escape') AS share, encode(l.file_handle, 'hex') AS file_handle,
        encode(l.owner_handle, 'escape') AS owner, l.svid, l.first_byte, l.last_byte, l.exclusive,
        to_timestamp(l.acquired_at_ms / 1000.0) AS acquired_at, l.server_epoch
    FROM nlm_locks l LEFT JOIN nsm_client_registrations c ON c.id = l.client_id;
ALTER TABLE nlm_locks DROP COLUMN extra;
