-- The lives of a client that are still told apart, as its record encodes them (core/record.h): how many lives there are, how many
-- of the oldest are over, then for each life, the newest first, its state number (4 bytes) and the first id of its locks (8
-- bytes). Empty: the client has one life, whose state number is nsm_state.

ALTER TABLE nsm_client_registrations ADD COLUMN lives bytea NOT NULL DEFAULT '';
