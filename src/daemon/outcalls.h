/* Begins the outgoing calls that the core has ready: callbacks, probes, notices. */
#ifndef HF_DAEMON_OUTCALLS_H
#define HF_DAEMON_OUTCALLS_H

#include "nlm/nlm.h"
#include "nsm/nsm.h"

/*
 * Begins at most a fixed number in one turn of the loop; true if there may be more for the next
 * turn. After a restart ten thousand calls may be ready. Begun all at once they would keep requests
 * waiting, and their answers would overflow the socket's buffer before the loop reads it.
 */
bool hf_outcalls_begin(struct hf_service *service, struct hf_nlm *nlm, struct hf_nsm *nsm);

#endif
