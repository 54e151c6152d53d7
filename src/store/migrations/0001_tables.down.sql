DROP TABLE nlm_locks;
DROP TABLE nsm_client_registrations;
DROP TABLE server_state;
