-- The lease of a service with standbys. The fence number is its epoch. The owner counts beat up in
-- every transaction, so that a standby sees that it is alive; acked counts the transactions of all
-- owners, so that a database that lost some of them (a failover to an asynchronous replica) is
-- noticed. A released lease may be taken at once.

ALTER TABLE server_state
    ADD COLUMN nonce    bigint NOT NULL DEFAULT 0,     -- of the owner; chosen at random for each take
    ADD COLUMN beat     bigint NOT NULL DEFAULT 0,
    ADD COLUMN acked    bigint NOT NULL DEFAULT 0,
    ADD COLUMN released boolean NOT NULL DEFAULT true,
    ADD COLUMN node     text NOT NULL DEFAULT '',      -- for people: the host that took it last
    ADD COLUMN taken_at timestamptz,
    ADD COLUMN session  text NOT NULL DEFAULT '';      -- application_name of the owner's sessions

-- What people want to know: which processes of this service are there.
CREATE TABLE cluster_nodes (
    node    text PRIMARY KEY,
    version text NOT NULL,
    seen_at timestamptz NOT NULL
);

-- Every transaction of the owner begins with this. The row lock, kept to the end, makes a standby
-- that takes over wait for the transaction in progress, and makes every later one of ours fail.
CREATE FUNCTION holdfast_renew_lease(my_epoch bigint, my_nonce bigint, acked_before bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    now_acked bigint;
BEGIN
    UPDATE server_state SET beat = beat + 1, acked = acked + 1
        WHERE fence = my_epoch AND nonce = my_nonce AND acked >= acked_before AND NOT released
        RETURNING acked INTO now_acked;
    IF FOUND THEN
        RETURN now_acked;
    END IF;
    PERFORM 1 FROM server_state WHERE fence < my_epoch OR acked < acked_before;
    IF FOUND THEN
        RAISE EXCEPTION 'the database has lost transactions' USING ERRCODE = 'HF002';
    END IF;
    RAISE EXCEPTION 'another daemon has taken over' USING ERRCODE = 'HF001';
END
$$;
