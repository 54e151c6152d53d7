-- Every commit of a service with standbys makes a new version of the row of server_state. While a transaction anywhere in the
-- database keeps a snapshot (a dump of hours), PostgreSQL keeps all versions, and each reader of the row walks over them. So the
-- newest version must be found first: pulse grows with the row, but not with each commit, and its index is read from the end. The
-- index has an entry for each pulse, and 63 of 64 updates stay in their page (HOT), so without such a snapshot the table stays
-- small as before.
--
-- Only the cost depends on pulse: whatever its value, a statement sees exactly one version of the row.

-- The index is not unique: a unique index would examine all versions of the row whenever it adds one.
ALTER TABLE server_state DROP CONSTRAINT server_state_pkey;
ALTER TABLE server_state ADD COLUMN pulse bigint GENERATED ALWAYS AS ((beat + journal_folded) / 64) STORED;
CREATE INDEX server_state_pulse ON server_state (pulse);

CREATE FUNCTION holdfast_keep_one_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM server_state) THEN
        RAISE EXCEPTION 'server_state has one row' USING ERRCODE = 'unique_violation';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER server_state_one_row BEFORE INSERT ON server_state
    FOR EACH ROW EXECUTE FUNCTION holdfast_keep_one_row();

-- These functions do what those of migrations 0002 and 0004 do, but find the row by its newest pulse.
CREATE OR REPLACE FUNCTION holdfast_check_fence(mine bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- The row lock makes a daemon that takes over wait for the transaction in progress, and makes
    -- every later one of ours see the number it took.
    PERFORM 1 FROM server_state WHERE fence = mine ORDER BY pulse DESC LIMIT 1 FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'another daemon has taken over' USING ERRCODE = 'HF001';
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION holdfast_renew_lease(my_epoch bigint, my_nonce bigint, from_beat bigint, to_beat bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    found_row server_state%ROWTYPE;
BEGIN
    SELECT * INTO found_row FROM server_state ORDER BY pulse DESC LIMIT 1 FOR NO KEY UPDATE;
    IF found_row.fence < my_epoch OR found_row.beat < from_beat OR found_row.alarm THEN
        RAISE EXCEPTION 'the database has lost transactions' USING ERRCODE = 'HF002';
    ELSIF found_row.fence <> my_epoch OR found_row.nonce <> my_nonce OR found_row.released THEN
        RAISE EXCEPTION 'another daemon has taken over' USING ERRCODE = 'HF001';
    ELSIF found_row.beat > to_beat THEN
        RAISE EXCEPTION 'the lease was renewed by another session' USING ERRCODE = 'HF003';
    END IF;
    UPDATE server_state SET beat = beat + 1 WHERE pulse = found_row.pulse;
    RETURN found_row.beat + 1;
END
$$;

-- The other changes of the lease (core/lease/row.h). Each function locks the row first and then searches for it again, because the
-- version that a statement found before it had to wait for the lock is no longer the newest.
CREATE FUNCTION holdfast_take_lease(seen_epoch bigint, seen_beat bigint, my_nonce bigint, new_epoch bigint, my_node text, my_session text, my_schema integer)
RETURNS SETOF server_state LANGUAGE plpgsql AS $$
DECLARE
    found_row server_state%ROWTYPE;
BEGIN
    SELECT * INTO found_row FROM server_state ORDER BY pulse DESC LIMIT 1 FOR NO KEY UPDATE;
    RETURN QUERY UPDATE server_state SET fence = new_epoch, nonce = my_nonce, beat = beat + 1, released = false, node = my_node,
            session = my_session, taken_at = clock_timestamp()
        WHERE pulse = found_row.pulse AND fence = seen_epoch AND beat = seen_beat AND NOT alarm
            AND (SELECT max(version) FROM holdfast_migrations) = my_schema
        RETURNING *;
END
$$;

CREATE FUNCTION holdfast_release_lease(my_epoch bigint, my_nonce bigint, clean_stop boolean)
RETURNS SETOF server_state LANGUAGE plpgsql AS $$
DECLARE
    found_row server_state%ROWTYPE;
BEGIN
    SELECT * INTO found_row FROM server_state ORDER BY pulse DESC LIMIT 1 FOR NO KEY UPDATE;
    RETURN QUERY UPDATE server_state SET released = true, beat = beat + 1, clean = clean OR clean_stop
        WHERE pulse = found_row.pulse AND fence = my_epoch AND nonce = my_nonce AND NOT alarm
        RETURNING *;
END
$$;

CREATE FUNCTION holdfast_stop_lease()
RETURNS SETOF server_state LANGUAGE plpgsql AS $$
DECLARE
    found_row server_state%ROWTYPE;
BEGIN
    SELECT * INTO found_row FROM server_state ORDER BY pulse DESC LIMIT 1 FOR NO KEY UPDATE;
    RETURN QUERY UPDATE server_state SET alarm = true, beat = beat + 1 WHERE pulse = found_row.pulse
        RETURNING *;
END
$$;

CREATE FUNCTION holdfast_clear_lease(new_epoch bigint)
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
