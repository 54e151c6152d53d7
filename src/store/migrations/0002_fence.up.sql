-- Each daemon that opens the store takes the next fence number, and shows it in every transaction.
-- A daemon whose number is no longer the newest is refused, whatever it was about to write.

ALTER TABLE server_state ADD COLUMN fence bigint NOT NULL DEFAULT 0;

CREATE FUNCTION holdfast_check_fence(mine bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- The row lock makes a daemon that takes over wait for the transaction in progress, and makes
    -- every later one of ours see the number it took.
    PERFORM 1 FROM server_state WHERE fence = mine FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'another daemon has taken over' USING ERRCODE = 'HF001';
    END IF;
END
$$;
