DROP FUNCTION holdfast_past(bigint);
DROP TRIGGER server_state_term ON server_state;
DROP FUNCTION holdfast_begin_term();
DROP TABLE lease_terms;
