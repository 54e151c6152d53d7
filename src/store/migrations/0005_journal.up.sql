-- Under load the changes of a batch are written as they are encoded, in parts of at most 4000 bytes, into a fixed number of rows
-- that are used in turn. Later their net effect goes to the tables of records, in one transaction that also raises
-- journal_folded. So a lock that is taken and released meanwhile costs no row of nlm_locks.
--
-- The durable state is the tables, changed by the parts whose number is above journal_folded, in the order of their numbers.

-- Two versions of a row of 4000 bytes fit in a page, and no second row does: each update stays in its page and
-- removes the row's previous version (HOT), so the table needs no vacuum and does not grow.
CREATE TABLE holdfast_journal (
    slot    bigint PRIMARY KEY,
    number  bigint NOT NULL,
    changes bytea NOT NULL
) WITH (fillfactor = 50);
ALTER TABLE holdfast_journal ALTER COLUMN changes SET STORAGE PLAIN;

ALTER TABLE server_state ADD COLUMN journal_folded bigint NOT NULL DEFAULT 0;
