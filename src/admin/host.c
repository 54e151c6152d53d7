#include "admin/host.h"

#include <string.h>
#include <strings.h>

#include "base/text.h"

enum { HOST_MAX = 256, PORT_DIGITS_MAX = 5 };

static bool is_port(const char *text)
{
    size_t digits = strspn(text, "0123456789");

    return digits > 0 && digits <= PORT_DIGITS_MAX && text[digits] == '\0';
}

/* Takes NAME, NAME:PORT, [ADDRESS] or [ADDRESS]:PORT, and returns the part before the port, without
 * brackets. */
static bool split(const char *host, char name[HOST_MAX])
{
    const char *end;

    if (!hf_text_copy(name, HOST_MAX, host))
        return false;
    if (host[0] == '[') {
        end = strchr(host, ']');
        if (!end || (end[1] != '\0' && (end[1] != ':' || !is_port(end + 2))))
            return false;
        memmove(name, name + 1, (size_t)(end - host - 1));
        name[end - host - 1] = '\0';
        return strchr(name, ':') != NULL;
    }
    end = strchr(host, ':');
    if (end && !is_port(end + 1))
        return false;
    if (end)
        name[end - host] = '\0';
    return name[0] != '\0';
}

static bool is_server_name(const char *name, const char *server_name)
{
    size_t short_len = strcspn(server_name, ".");

    return strcasecmp(name, server_name) == 0 ||
           (strlen(name) == short_len && strncasecmp(name, server_name, short_len) == 0);
}

/* True if the name is one of the words of the list, which spaces or commas separate. */
static bool is_listed(const char *name, const char *list)
{
    size_t len;

    for (; list && *list; list += len) {
        list += strspn(list, " ,");
        len = strcspn(list, " ,");
        if (len > 0 && len == strlen(name) && strncasecmp(list, name, len) == 0)
            return true;
    }
    return false;
}

bool hf_host_names_us(const char *host, const struct hf_addr *local, const char *server_name,
                      const char *names)
{
    char name[HOST_MAX];
    struct hf_addr addr;

    if (!host || !split(host, name))
        return false;
    if (hf_addr_parse(name, &addr) == 0)
        return hf_addr_is_loopback(&addr) || (local && hf_addr_same_host(&addr, local));
    return strcasecmp(name, "localhost") == 0 || is_server_name(name, server_name) ||
           is_listed(name, names);
}
