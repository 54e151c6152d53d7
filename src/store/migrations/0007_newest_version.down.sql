DROP FUNCTION holdfast_clear_lease(bigint);
DROP FUNCTION holdfast_stop_lease();
DROP FUNCTION holdfast_release_lease(bigint, bigint, boolean);
DROP FUNCTION holdfast_take_lease(bigint, bigint, bigint, bigint, text, text, integer);
CREATE OR REPLACE FUNCTION holdfast_renew_lease(my_epoch bigint, my_nonce bigint, from_beat bigint, to_beat bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    found_row server_state%ROWTYPE;
BEGIN
    SELECT * INTO found_row FROM server_state FOR NO KEY UPDATE;
    IF found_row.fence < my_epoch OR found_row.beat < from_beat OR found_row.alarm THEN
        RAISE EXCEPTION 'the database has lost transactions' USING ERRCODE = 'HF002';
    ELSIF found_row.fence <> my_epoch OR found_row.nonce <> my_nonce OR found_row.released THEN
        RAISE EXCEPTION 'another daemon has taken over' USING ERRCODE = 'HF001';
    ELSIF found_row.beat > to_beat THEN
        RAISE EXCEPTION 'the lease was renewed by another session' USING ERRCODE = 'HF003';
    END IF;
    UPDATE server_state SET beat = beat + 1;
    RETURN found_row.beat + 1;
END
$$;
CREATE OR REPLACE FUNCTION holdfast_check_fence(mine bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- The row lock makes a daemon that takes over wait for the transaction in progress, and makes
    -- every later one of ours see the number it took.
    PERFORM 1 FROM server_state WHERE fence = mine FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'another daemon has taken over' USING ERRCODE = 'HF001';
    END IF;
END
$$;
DROP TRIGGER server_state_one_row ON server_state;
DROP FUNCTION holdfast_keep_one_row();
ALTER TABLE server_state DROP COLUMN pulse;
ALTER TABLE server_state ADD PRIMARY KEY (only_row);
