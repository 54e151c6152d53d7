-- The lives of a client that are still told apart, as they are encoded in its record (core/record.h): how many, how many of
-- the oldest are over, then of each, the newest first, its state number (4 bytes) and the first id of its locks (8 bytes). Empty: one life, that of nsm_state.

ALTER TABLE nsm_client_registrations ADD COLUMN lives bytea NOT NULL DEFAULT '';
