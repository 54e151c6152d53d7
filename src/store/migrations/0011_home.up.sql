-- Where the server's record was written: which database, which table, and which timeline of it. A dump that was loaded, and a copy of
-- the database of an earlier moment that became the primary, are elsewhere: locks granted since then are not in them, so the next
-- start must not continue as if nothing were lost. home is written with the record; '' is unknown.

ALTER TABLE server_state ADD COLUMN home text NOT NULL DEFAULT '';

-- The timeline comes last: a synchronous standby that is promoted begins another one, and loses nothing. A role that may not see
-- these, and a server that cannot be written, know no home.
CREATE FUNCTION holdfast_home() RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT system_identifier FROM pg_control_system())
        || '/' || (SELECT oid FROM pg_database WHERE datname = current_database())
        || '/' || 'server_state'::regclass::oid
        || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8);
EXCEPTION WHEN insufficient_privilege OR undefined_function OR object_not_in_prerequisite_state THEN
    RETURN '';
END
$$;

-- The server's record as the next start must see it: if it was written elsewhere, its last byte (core/record.c) says that records
-- were lost, unless it says that nothing is continued anyway. replicated: another timeline has lost nothing.
CREATE FUNCTION holdfast_record_here(record bytea, written text, replicated boolean) RETURNS bytea LANGUAGE plpgsql STABLE AS $$
DECLARE
    here text := holdfast_home();
BEGIN
    IF replicated THEN
        written := regexp_replace(written, '/[^/]*$', '');
        here := regexp_replace(here, '/[^/]*$', '');
    END IF;
    IF written = '' OR here = '' OR written = here OR coalesce(length(record), 0) < 2 THEN
        RETURN coalesce(record, '');
    ELSIF get_byte(record, 1) < 4 OR get_byte(record, length(record) - 1) = 0 THEN
        RETURN record;
    END IF;
    RETURN set_byte(record, length(record) - 1, 3);
END
$$;
