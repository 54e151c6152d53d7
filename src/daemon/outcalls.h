/* Begins the outgoing calls that the core has ready: GRANTED callbacks, probes, crash notices. */
#ifndef HF_DAEMON_OUTCALLS_H
#define HF_DAEMON_OUTCALLS_H

#include "nlm/nlm.h"
#include "nsm/nsm.h"

/*
 * Begins at most a fixed number of calls in one turn of the loop; returns true if there may be more
 * for the next turn. After a restart ten thousand calls may be ready. Begun all at once they would
 * delay requests, and their answers would overflow the socket's buffer before the loop reads it.
 */
bool hf_outcalls_begin(struct hf_service *service, struct hf_nlm *nlm, struct hf_nsm *nsm);

#endif
