-- What the next start must know of this run besides epoch and clean, as it is encoded (core/record.h): role, durability, boot of the host.
-- It counts only if its epoch is that of the row: a program that does not know this column leaves it behind.

ALTER TABLE server_state ADD COLUMN record bytea;
