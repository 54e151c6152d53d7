-- The previous version of the program can neither read a journal with lives nor tell the lives of a client apart.
DO $$
BEGIN
    IF EXISTS (SELECT FROM holdfast_journal j, server_state s WHERE j.number > s.journal_folded) THEN
        RAISE EXCEPTION 'the newest changes are in the journal only; start this version of holdfastd and stop it in order, then try again';
    END IF;
    IF EXISTS (SELECT FROM nsm_client_registrations WHERE lives <> '') THEN
        RAISE EXCEPTION 'a client has restarted and its notice has not come; until it comes, or the client is released (holdfastctl release), the version before could free locks that the client holds';
    END IF;
END
$$;
ALTER TABLE nsm_client_registrations DROP COLUMN lives;
