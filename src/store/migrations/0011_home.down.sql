DROP FUNCTION holdfast_record_here(bytea, text, boolean);
DROP FUNCTION holdfast_home();
ALTER TABLE server_state DROP COLUMN home;
