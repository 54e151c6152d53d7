-- The server's encoded record (core/record.h): what the next start must know of this run besides epoch and clean, namely role,
-- durability and boot of the host. The record counts only if it has the epoch of its row: a program that does not know this column
-- leaves an old record in it.

ALTER TABLE server_state ADD COLUMN record bytea;
