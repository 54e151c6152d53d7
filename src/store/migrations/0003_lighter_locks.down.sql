DROP VIEW nlm_locks_readable;
ALTER TABLE nlm_locks ADD COLUMN share_text text GENERATED ALWAYS AS (encode(share, 'escape')) STORED;
CREATE INDEX nlm_locks_client_id ON nlm_locks (client_id);
