/*
 * Reads what is on the simulated disk in the terms of the oracle: which cells are held according to
 * the lock records, which hosts are registered, which epoch it is. This is what a promise must be
 * backed by.
 */
#ifndef HF_SIM_DISK_H
#define HF_SIM_DISK_H

struct sim_world;

/* Brings disk, registered and durable_epoch of the server up to date with its records. */
void sim_disk_read(struct sim_world *world);

#endif
