DO $$
BEGIN
    IF EXISTS (SELECT FROM holdfast_journal j, server_state s WHERE j.number > s.journal_folded) THEN
        RAISE EXCEPTION 'the newest changes are in the journal only; start this version of holdfastd and stop it in order, then try again';
    END IF;
END
$$;
DROP TABLE holdfast_journal;
ALTER TABLE server_state DROP COLUMN journal_folded;
