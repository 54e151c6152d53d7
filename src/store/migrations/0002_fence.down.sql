DROP FUNCTION holdfast_check_fence(bigint);
ALTER TABLE server_state DROP COLUMN fence;
