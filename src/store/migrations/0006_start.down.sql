ALTER TABLE server_state DROP COLUMN record;
