-- An older version may not be able to read what is in the journal only.
DO $$
BEGIN
    IF EXISTS (SELECT FROM holdfast_journal j, server_state s WHERE j.number > s.journal_folded) THEN
        RAISE EXCEPTION 'the newest changes are in the journal only; start this version of holdfastd and stop it in order, then try again';
    END IF;
END
$$;
DROP FUNCTION holdfast_record_here(bytea, text, boolean);
DROP FUNCTION holdfast_home();
ALTER TABLE server_state DROP COLUMN home;
