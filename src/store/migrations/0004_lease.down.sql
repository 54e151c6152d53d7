DROP FUNCTION holdfast_renew_lease(bigint, bigint, bigint, bigint);
DROP TABLE cluster_nodes;
ALTER TABLE server_state
    DROP COLUMN session,
    DROP COLUMN taken_at,
    DROP COLUMN node,
    DROP COLUMN alarm,
    DROP COLUMN released,
    DROP COLUMN beat,
    DROP COLUMN nonce;
