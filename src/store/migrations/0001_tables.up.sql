-- Registrations (clients), locks, and the server's own state.
--
-- Names, file handles and owner handles are bytes that a peer chose: bytea, never text. The *_text
-- columns beside them are for people. Ids are 64-bit numbers kept as bigint, bit for bit. Addresses
-- are numeric text; an IPv6 scope stays with it (fe80::1%2), which inet cannot hold.

CREATE TABLE server_state (
    only_row  boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    epoch     bigint,           -- NULL until a daemon ran for the first time
    clean     boolean
);
INSERT INTO server_state DEFAULT VALUES;

CREATE TABLE nsm_client_registrations (
    id               bigint PRIMARY KEY,
    protocol         smallint NOT NULL,     -- 1 NLM, 2 NSM
    transport        smallint NOT NULL,     -- 1 UDP, 2 TCP
    mon_name         bytea NOT NULL,
    mon_name_text    text GENERATED ALWAYS AS (encode(mon_name, 'escape')) STORED,
    addresses        text NOT NULL,         -- separated by blanks
    local_address    text NOT NULL,         -- '' if unknown
    nsm_state        integer NOT NULL,
    ttl_ms           bigint NOT NULL,
    registered_at_ms bigint NOT NULL,       -- Unix time
    server_epoch     bigint NOT NULL,
    my_name          bytea NOT NULL,
    callback_prog    bigint NOT NULL,
    callback_vers    bigint NOT NULL,
    callback_proc    bigint NOT NULL,
    priv             bytea NOT NULL,
    callback_host    text NOT NULL          -- '' for a client without callback
);
CREATE INDEX nsm_client_registrations_callback_host ON nsm_client_registrations (callback_host);
CREATE INDEX nsm_client_registrations_registered_at ON nsm_client_registrations (registered_at_ms);
CREATE INDEX nsm_client_registrations_mon_name ON nsm_client_registrations (mon_name);

CREATE TABLE nlm_locks (
    id             bigint PRIMARY KEY,
    client_id      bigint NOT NULL,
    share          bytea NOT NULL,
    share_text     text GENERATED ALWAYS AS (encode(share, 'escape')) STORED,
    file_handle    bytea NOT NULL,
    owner_handle   bytea NOT NULL,
    svid           integer NOT NULL,
    first_byte     numeric(20) NOT NULL,
    last_byte      numeric(20) NOT NULL,    -- 18446744073709551615: to the end
    exclusive      boolean NOT NULL,
    acquired_at_ms bigint NOT NULL,         -- Unix time
    server_epoch   bigint NOT NULL
);
CREATE INDEX nlm_locks_client_id ON nlm_locks (client_id);
