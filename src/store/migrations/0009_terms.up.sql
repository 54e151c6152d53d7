-- The terms of the lease (core/lease/row.h): which nonce took which epoch, and at which heartbeat. A process that was away asks
-- for the term of the last epoch that it knows. If that term ended at a heartbeat which the process has seen already, or was
-- another process's, the database has lost transactions, although the numbers of later transactions have passed theirs.
--
-- The functions run with the rights of the tables' owner, so that the daemon's role needs no right on the table.

CREATE TABLE lease_terms (
    epoch bigint PRIMARY KEY,
    nonce bigint NOT NULL,
    beat  bigint NOT NULL  -- of the row when the term began
);

INSERT INTO lease_terms (epoch, nonce, beat) SELECT fence, nonce, beat FROM server_state WHERE fence <> 0;

CREATE FUNCTION holdfast_begin_term() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    -- Without a nonce: an operator has accepted the state of the database, or a daemon without standbys has taken it.
    DELETE FROM lease_terms WHERE NEW.nonce = 0 OR epoch <= NEW.fence - 1000;
    INSERT INTO lease_terms (epoch, nonce, beat) VALUES (NEW.fence, NEW.nonce, NEW.beat);
    RETURN NULL;
END
$$;
-- A commit changes the heartbeat and not the fence number, so this trigger costs commits nothing.
CREATE TRIGGER server_state_term AFTER UPDATE OF fence ON server_state
    FOR EACH ROW WHEN (OLD.fence IS DISTINCT FROM NEW.fence) EXECUTE FUNCTION holdfast_begin_term();

CREATE FUNCTION holdfast_past(known bigint, OUT past_epoch bigint, OUT past_nonce bigint, OUT past_until bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    SELECT t.epoch, t.nonce INTO past_epoch, past_nonce FROM lease_terms t WHERE t.epoch <= known ORDER BY t.epoch DESC LIMIT 1;
    SELECT t.beat INTO past_until FROM lease_terms t WHERE t.epoch > known ORDER BY t.epoch LIMIT 1;
    past_epoch := coalesce(past_epoch, 0);
    past_nonce := coalesce(past_nonce, 0);
    past_until := coalesce(past_until, 0);
END
$$;
