/* Checks whether the Host header names this host. */
#ifndef HF_ADMIN_HOST_H
#define HF_ADMIN_HOST_H

#include <stdbool.h>

#include "base/addr.h"

/*
 * True if the Host header names this host: "localhost", a loopback address, the address the
 * connection came to, the server's configured name in full or short, or one of `names` (separated
 * by spaces; NULL: none), for example that of a proxy or of a Kubernetes Service. Each may have any
 * port, because a tunnel or a proxy has its own. Without the header (host is NULL): false.
 *
 * Any other name may belong to a stranger, who can point it at us after a browser has loaded a page
 * from it; the browser then lets that page read our answers (DNS rebinding).
 */
bool hf_host_names_us(const char *host, const struct hf_addr *local, const char *server_name,
                      const char *names);

#endif
