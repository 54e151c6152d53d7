/*
 * Who may change something (SPEC section 7). A browser is a special danger: any page it has open
 * can make it send requests to this host. So a change must come from our own page (Origin names the
 * same host as Host), and without a token only under an address or "localhost", so that no name a
 * stranger owns can be pointed at us.
 */
#include <stdio.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

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

static bool from_this_host(const struct request *request)
{
    struct hf_addr peer;
    struct hf_addr local;

    return end_of(socket_of(request), getpeername, &peer) &&
           end_of(socket_of(request), getsockname, &local) &&
           (hf_addr_is_loopback(&peer) || hf_addr_same_host(&peer, &local));
}

static const char *header(const struct request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

/* No browser, or one that shows our own page. */
static bool same_origin(const struct request *request)
{
    static const char SCHEME[] = "http://";
    const char *origin = header(request, "Origin");
    const char *host = header(request, MHD_HTTP_HEADER_HOST);

    return !origin || (host && strncmp(origin, SCHEME, strlen(SCHEME)) == 0 &&
                       strcasecmp(origin + strlen(SCHEME), host) == 0);
}

static bool host_is_plain(const struct request *request)
{
    const char *host = header(request, MHD_HTTP_HEADER_HOST);
    char text[HF_ADDR_TEXT_MAX + 8];
    struct hf_addr addr;

    if (!host)
        return true;
    if (strncasecmp(host, "localhost", 9) == 0 && (host[9] == '\0' || host[9] == ':'))
        return true;
    if (hf_addr_parse_port(host, &addr) == 0)
        return true;
    return snprintf(text, sizeof(text), "%s:80", host) < (int)sizeof(text) &&
           hf_addr_parse_port(text, &addr) == 0;
}

static const char *refusal(const struct request *request, unsigned *status)
{
    const char *token = request->admin->token;
    struct ucred peer;

    *status = MHD_HTTP_FORBIDDEN;
    if (request->listener->local && peer_credentials(request, &peer) &&
        (peer.uid == 0 || peer.uid == geteuid()))
        return NULL;
    if (!same_origin(request))
        return "Changes are taken only from the page that this server serves itself.";
    if (token[0]) {
        *status = MHD_HTTP_UNAUTHORIZED;
        return token_matches(token, header(request, MHD_HTTP_HEADER_AUTHORIZATION))
                   ? NULL
                   : "Changes need the token: Authorization: Bearer TOKEN.";
    }
    if (request->listener->local)
        return "On this socket only root and the daemon's own user may change something.";
    if (!from_this_host(request))
        return "No token is configured (admin.token_file), so changes are taken from this host "
               "only.";
    if (!host_is_plain(request))
        return "Without a token, changes are taken under an address or localhost only.";
    return NULL;
}

bool access_may_change(struct request *request, enum MHD_Result *answered)
{
    unsigned status;
    const char *reason = refusal(request, &status);
    char who[WHO_MAX];

    if (!reason)
        return true;
    hf_log_limited(HF_LOG_WARN, "operator refused", HF_STR("who", access_who(request, who)),
                   HF_STR("method", request->method), HF_STR("path", request->path),
                   HF_STR("reason", reason));
    *answered = reply_problem(request, status, reason);
    return false;
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
        hf_format(text, WHO_MAX, "somebody");
    return text;
}
