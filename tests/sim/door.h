/*
 * The server's door: a simulated message goes through the handlers (wire.h) to the core, and the
 * core's answer back through them.
 *
 * What the answer must be is worked out from the naive model before the core is asked
 * (predict.h), and the model follows the answer.
 */
#ifndef HF_SIM_DOOR_H
#define HF_SIM_DOOR_H

#include "config.h"
#include "core/core.h"
#include "message.h"

struct sim_world;

/* Executes a request and sees to its answer. */
/* A host's status monitor has named its state, or (0) could not be asked: a notice that waits for
 * this is believed or not. */
void sim_door_verified(struct sim_world *world, unsigned host, int32_t state);

/* The same for the other mounts of its machine, if they have joined the question; when the core has
 * heard the answer. */
void sim_door_twins_verified(struct sim_world *world, unsigned host, int32_t state);

/* The core has begun to verify a notice of this host, or one forged in its name; or it believes the
 * notice and has begun to release what the host had. */
void sim_door_undecided(struct sim_world *world, unsigned host, int32_t claimed, int32_t recorded);

/* Whether what a notice says is still being verified, for any of the clients that it concerns. */
bool sim_door_is_undecided(struct sim_world *world, const struct sim_message *notice,
                           unsigned hosts);

void sim_door_execute(struct sim_world *world, const struct sim_message *request);

/* A host's NSM state as the server has it recorded; -1 if the server does not know the host. */
int32_t sim_recorded_state(struct sim_world *world, unsigned host);

/* Addresses and names of simulated machines; host config.hosts is the server's name. */
void sim_names_begin(enum sim_twins kind);
unsigned sim_machine(unsigned host); /* the first host of the machine */
bool sim_is_same_address(unsigned host, unsigned other);
bool sim_is_same_server(unsigned host, unsigned other); /* and the same machine */
struct hf_addr sim_host_addr(unsigned host);
struct hf_addr sim_server_addr(unsigned host); /* the server's address that the host talks to */
enum hf_transport sim_host_transport(unsigned host);
struct hf_bytes sim_host_name(unsigned host, enum sim_name name);
struct hf_bytes sim_server_name(void);
struct hf_bytes sim_file_handle(unsigned file);
struct hf_bytes sim_owner_handle(unsigned host, unsigned proc);

/* Back again: -1 for one that is not of this world. */
int sim_host_of_addr(const struct hf_addr *addr);
int sim_host_of_record(const struct hf_record_client *client);
int sim_host_of_client(const struct sim_world *world, uint64_t client_id,
                       const struct hf_addr *addr);
int sim_file_of_handle(struct hf_bytes fh);

#endif
