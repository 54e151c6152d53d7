/* Checks whether the Host header names this host. */
#ifndef HF_ADMIN_HOST_H
#define HF_ADMIN_HOST_H

#include <stdbool.h>

#include "base/addr.h"

/*
 * True for "localhost", a loopback address, the address the connection came to, and the server's
 * configured name, in full or short; and for each of `names`, which have spaces between them: a
 * proxy, a Service of Kubernetes (NULL: none). Each with or without a port. The port may be any: a
 * tunnel or a proxy has its own. host NULL (no header): false.
 *
 * Any other name may belong to a stranger, who can point it at us after a browser has loaded a page
 * from it; the browser then lets that page read our answers (DNS rebinding).
 */
bool hf_host_names_us(const char *host, const struct hf_addr *local, const char *server_name,
                      const char *names);

#endif
