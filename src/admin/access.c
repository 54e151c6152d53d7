/*
 * Decides whether a request may read, and whether it may change something (SEC-10).
 *
 * Over TCP any local user and any page in a browser on this host can reach us, so without the token
 * a request may only read, and only under a name that is this host's own (host.h). A change needs
 * the token; and if a browser sends it, it must come from our own page (Origin names the same host
 * as Host). Over the unix socket the kernel names the peer's user: root and the daemon's own user
 * may make changes, other users may read.
 */
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "admin/host.h"
#include "admin/private.h"
#include "admin/token.h"
#include "base/log.h"
#include "base/text.h"

static int socket_of(const struct request *request)
{
    return MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CONNECTION_FD)
        ->connect_fd;
}

static bool peer_credentials(const struct request *request, struct ucred *out)
{
    socklen_t len = sizeof(*out);

    return getsockopt(socket_of(request), SOL_SOCKET, SO_PEERCRED, out, &len) == 0;
}

static bool end_of(int fd, int (*name)(int, struct sockaddr *restrict, socklen_t *restrict),
                   struct hf_addr *out)
{
    struct sockaddr_storage sa;
    socklen_t len = sizeof(sa);

    return name(fd, (struct sockaddr *)&sa, &len) == 0 &&
           hf_addr_from_sockaddr((struct sockaddr *)&sa, out) == 0;
}

static const char *header(const struct request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

/* True if the request does not come from a browser, or comes from our own page. */
static bool same_origin(const struct request *request)
{
    static const char SCHEME[] = "http://";
    const char *origin = header(request, "Origin");
    const char *host = header(request, MHD_HTTP_HEADER_HOST);

    return !origin || (host && strncmp(origin, SCHEME, strlen(SCHEME)) == 0 &&
                       strcasecmp(origin + strlen(SCHEME), host) == 0);
}

static bool has_token(const struct request *request)
{
    const char *token = request->admin->token;

    return token[0] && token_matches(token, header(request, MHD_HTTP_HEADER_AUTHORIZATION));
}

/* Why this request may not even look; NULL if it may. */
static const char *look_refusal(const struct request *request)
{
    struct hf_addr local;

    if (request->listener->local || has_token(request))
        return NULL;
    if (host_names_us(header(request, MHD_HTTP_HEADER_HOST),
                      end_of(socket_of(request), getsockname, &local) ? &local : NULL,
                      request->admin->config.server_name))
        return NULL;
    return "The Host header does not name this server. Ask under localhost, the address it listens "
           "on or its server.name; or send the token.";
}

static const char *change_refusal(const struct request *request, unsigned *status)
{
    struct ucred peer;

    *status = MHD_HTTP_FORBIDDEN;
    if (request->listener->local && peer_credentials(request, &peer) &&
        (peer.uid == 0 || peer.uid == geteuid()))
        return NULL;
    if (!same_origin(request))
        return "Changes are taken only from the page that this server serves itself.";
    if (has_token(request))
        return NULL;
    if (request->admin->token[0]) {
        *status = MHD_HTTP_UNAUTHORIZED;
        return "Changes need the token: Authorization: Bearer TOKEN.";
    }
    if (request->listener->local)
        return "On this socket only root and the daemon's own user may change something.";
    return "Changes over TCP need a token, and none is configured. Set admin.token_file; or use "
           "holdfastctl on the server as root, which goes by the unix socket.";
}

static bool refuse(struct request *request, unsigned status, const char *reason,
                   enum MHD_Result *answered)
{
    char who[WHO_MAX];

    hf_log_limited(HF_LOG_WARN, "operator refused", HF_STR("who", access_who(request, who)),
                   HF_STR("method", request->method), HF_STR("path", request->path),
                   HF_STR("reason", reason));
    *answered = reply_problem(request, status, reason);
    return false;
}

bool access_may_look(struct request *request, enum MHD_Result *answered)
{
    const char *reason = look_refusal(request);

    return !reason || refuse(request, MHD_HTTP_FORBIDDEN, reason, answered);
}

bool access_may_change(struct request *request, enum MHD_Result *answered)
{
    unsigned status;
    const char *reason = change_refusal(request, &status);

    return !reason || refuse(request, status, reason, answered);
}

const char *access_changes(const struct request *request)
{
    unsigned status;

    if (!change_refusal(request, &status))
        return "allowed";
    return status == MHD_HTTP_UNAUTHORIZED ? "with_token" : "refused";
}

const char *access_who(const struct request *request, char text[WHO_MAX])
{
    char address[HF_ADDR_TEXT_MAX];
    struct hf_addr peer;
    struct ucred cred;

    if (request->listener->local && peer_credentials(request, &cred))
        hf_format(text, WHO_MAX, "uid %u pid %d", cred.uid, cred.pid);
    else if (end_of(socket_of(request), getpeername, &peer))
        hf_format(text, WHO_MAX, "%s", hf_addr_format_port(&peer, address));
    else
        hf_format(text, WHO_MAX, "unknown");
    return text;
}
