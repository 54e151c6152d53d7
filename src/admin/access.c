/*
 * Decides which level of access a request has (SEC-10, ADM-09; access.h has the levels).
 *
 * Over TCP any local user and any page in a browser on this host can reach us, so a request without
 * a token or a session is a reader's, and is served only under a name of this host (host.h). A
 * change that a browser sends must come from our own page (its Origin names the same host as its
 * Host). Over the unix socket the kernel names the peer's user: root and the daemon's own user may
 * do all, other users are readers unless they have a token.
 */
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "admin/host.h"
#include "admin/private.h"
#include "admin/sessions.h"
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

/* Returns the level of a token or a session that the request carries. */
static enum access shown_level(const struct request *request)
{
    const char *given = header(request, MHD_HTTP_HEADER_AUTHORIZATION);
    struct hf_admin *admin = request->admin;

    if (!given)
        return ACCESS_NONE;
    if (admin->token[0] && hf_token_matches(admin->token, given))
        return ACCESS_CHANGE;
    if (admin->read_token[0] && hf_token_matches(admin->read_token, given))
        return ACCESS_FILES;
    return hf_sessions_level(&admin->sessions, given, uv_now(admin->config.loop));
}

static bool is_trusted_user(const struct request *request)
{
    struct ucred peer;

    return request->listener->local && peer_credentials(request, &peer) &&
           (peer.uid == 0 || peer.uid == geteuid());
}

enum access hf_admin_access_level(const struct request *request)
{
    enum access shown = shown_level(request);
    struct hf_addr local;

    if (is_trusted_user(request))
        return ACCESS_CHANGE;
    if (shown > ACCESS_READER)
        return shown;
    if (request->listener->local ||
        hf_host_names_us(header(request, MHD_HTTP_HEADER_HOST),
                         end_of(socket_of(request), getsockname, &local) ? &local : NULL,
                         request->admin->config.server_name, request->admin->config.hosts))
        return ACCESS_READER;
    return ACCESS_NONE;
}

/* Returns why the request may not have this level of access, and sets the HTTP status of the
 * refusal; NULL: it may have it. */
static const char *refusal(const struct request *request, enum access needed, unsigned *status)
{
    const struct hf_admin *admin = request->admin;

    *status = MHD_HTTP_FORBIDDEN;
    if (request->level == ACCESS_NONE)
        return "The Host header does not name this server. Ask under localhost, the address it "
               "listens on, its server.name or one of admin.hosts; or send the token.";
    if (needed == ACCESS_CHANGE && !is_trusted_user(request) && !same_origin(request))
        return "Changes are taken only from the page that this server serves itself.";
    if (request->level >= needed)
        return NULL;
    if (admin->token[0] || (needed == ACCESS_FILES && admin->read_token[0])) {
        *status = MHD_HTTP_UNAUTHORIZED;
        return needed == ACCESS_CHANGE
                   ? "Changes need the token: Authorization: Bearer TOKEN."
                   : "The files of locks are shown with a token: Authorization: Bearer TOKEN.";
    }
    if (needed == ACCESS_FILES)
        return "The files of locks are shown only to root and to callers with a token, and none is "
               "configured. Use holdfastctl on the server as root, or set admin.read_token_file.";
    if (request->listener->local)
        return "On this socket only root and the daemon's own user may change something.";
    if (admin->no_token)
        return "Changes over TCP need a token, and admin.token_file cannot be used; the log says "
               "why. Use holdfastctl on the server as root, which goes by the unix socket.";
    return "Changes over TCP need a token, and none is configured. Set admin.token_file; or use "
           "holdfastctl on the server as root, which goes by the unix socket.";
}

static bool refuse(struct request *request, unsigned status, const char *reason,
                   enum MHD_Result *answered)
{
    char who[WHO_MAX];

    hf_log_limited(
        HF_LOG_WARN, "operator refused", HF_STR("who", hf_admin_access_who(request, who)),
        HF_STR("method", request->method), HF_STR("path", request->path), HF_STR("reason", reason));
    *answered = hf_admin_reply_problem(request, status, reason);
    return false;
}

bool hf_admin_access_may(struct request *request, enum access needed, enum MHD_Result *answered)
{
    unsigned status;
    const char *reason = refusal(request, needed, &status);

    return !reason || refuse(request, status, reason, answered);
}

const char *hf_admin_access_word(const struct request *request, enum access needed)
{
    unsigned status;

    if (!refusal(request, needed, &status))
        return "allowed";
    return status == MHD_HTTP_UNAUTHORIZED ? "with_token" : "refused";
}

const char *hf_admin_access_who(const struct request *request, char text[WHO_MAX])
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
