-- The lease of a service with standbys (core/lease/row.h). The fence number is its epoch. beat, the
-- heartbeat, grows by one with every transaction of the owner, so that a standby sees that the owner
-- is alive, and that daemons notice a database that lost some of these transactions (a failover to an
-- asynchronous replica).

ALTER TABLE server_state
    ADD COLUMN nonce    bigint NOT NULL DEFAULT 0,     -- of the owner, chosen at random
    ADD COLUMN beat     bigint NOT NULL DEFAULT 0,
    ADD COLUMN released boolean NOT NULL DEFAULT true, -- given up: it may be taken at once
    ADD COLUMN alarm    boolean NOT NULL DEFAULT false, -- it went back in time: take nothing
    ADD COLUMN node     text NOT NULL DEFAULT '',      -- for people: the host that took it last
    ADD COLUMN taken_at timestamptz,
    ADD COLUMN session  text NOT NULL DEFAULT '';      -- application_name of the owner's sessions

-- The processes of this service. Each poll of a standby writes the standby's own row, and so proves
-- that the database can commit.
CREATE TABLE cluster_nodes (
    node    text PRIMARY KEY,
    version text NOT NULL,
    seen_at timestamptz NOT NULL
);

-- Every transaction of the owner begins with this function. Its row lock, kept to the end, makes a
-- standby that takes over wait for the owner's transaction in progress, and makes every later
-- transaction of that owner fail. A batch names the one heartbeat that it expects, so that a batch
-- which was still on its way from a lost connection cannot be applied after a later batch.
CREATE FUNCTION holdfast_renew_lease(my_epoch bigint, my_nonce bigint, from_beat bigint, to_beat bigint)
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
