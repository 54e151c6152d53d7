#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "ctl/ctl.h"

enum { ANSWER_MAX = 1 << 28, TIMEOUT_S = 120, TOKEN_LINE_MAX = 300 };

struct answer {
    char *data;
    size_t len;
};

static size_t on_data(char *data, size_t size, size_t n, void *ctx)
{
    struct answer *answer = ctx;
    size_t len = size * n;
    char *grown;

    if (answer->len + len > ANSWER_MAX)
        return 0;
    grown = realloc(answer->data, answer->len + len + 1);
    if (!grown)
        return 0;
    memcpy(grown + answer->len, data, len);
    answer->data = grown;
    answer->len += len;
    return len;
}

/* Adds the token to the headers, if there is a file of it; false if it cannot be read. */
static bool add_token(const struct ctl *ctl, struct curl_slist **headers)
{
    char line[TOKEN_LINE_MAX] = "";
    char header[TOKEN_LINE_MAX + 32];
    FILE *file;

    if (!ctl->token_file)
        return true;
    errno = 0;
    file = fopen(ctl->token_file, "re");
    if (file && !fgets(line, sizeof(line), file))
        line[0] = '\0';
    line[strcspn(line, " \t\r\n")] = '\0';
    if (!line[0])
        (void)fprintf(stderr, "holdfastctl: %s: %s\n", ctl->token_file,
                      errno ? strerror(errno) : "there is no token in its first line");
    if (file)
        (void)fclose(file);
    hf_format(header, sizeof(header), "Authorization: Bearer %s", line);
    *headers = curl_slist_append(*headers, header);
    return line[0];
}

/* curl's error text for a unix socket names a TCP port, which would mislead the user. */
static void say_unreachable(const struct ctl *ctl, CURL *curl, const char *reason)
{
    long code = 0;

    curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, &code);
    if (!ctl->url && code != 0)
        reason = strerror((int)code);
    (void)fprintf(stderr, "holdfastctl: cannot reach holdfastd at %s: %s\n",
                  ctl->url ? ctl->url : ctl->socket, reason);
    if (!ctl->url && access(ctl->socket, F_OK) < 0)
        (void)fprintf(stderr,
                      "Is it running? Its socket is named by admin.socket; see --socket, --url.\n");
}

static int judge(long status, const json_t *json)
{
    const char *detail = ctl_text(json, "detail");

    if (status < 400)
        return CTL_OK;
    (void)fprintf(stderr, "holdfastctl: %s\n",
                  detail[0] ? detail : "the daemon refused and gave no reason");
    if (ctl_stands_by(json))
        return CTL_STANDBY;
    return status == 404 ? CTL_NOT_FOUND : CTL_REFUSED;
}

/* Makes one request and waits for its answer. If it fails, the reason has been printed. */
static int fetch(CURL *curl, const struct ctl *ctl, struct answer *answer, long *status)
{
    char error[CURL_ERROR_SIZE] = "";
    CURLcode code;

    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
    code = curl_easy_perform(curl);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, NULL);
    if (code != CURLE_OK) {
        say_unreachable(ctl, curl, error[0] ? error : curl_easy_strerror(code));
        free(answer->data);
        return CTL_UNREACHABLE;
    }
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, status);
    return CTL_OK;
}

/* Parses the answer's text, whose memory it takes over, and judges it and its status. */
static int judge_json(struct answer *answer, long status, json_t **out)
{
    json_error_t where;
    int rv;

    *out = json_loadb(answer->data ? answer->data : "", answer->len, 0, &where);
    free(answer->data);
    if (!*out) {
        (void)fprintf(stderr, "holdfastctl: no holdfastd answers there (%s)\n", where.text);
        return CTL_UNREACHABLE;
    }
    rv = judge(status, *out);
    if (rv != CTL_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return rv;
}

/* Returns the length of the base address without slashes at the end, so that the page's address can
 * be copied from a browser. */
static int base_length(const char *base)
{
    size_t len = strlen(base);

    while (len > 0 && base[len - 1] == '/')
        len--;
    return (int)len;
}

static int request(struct ctl *ctl, const char *method, const char *path, const char *body,
                   struct answer *answer, long *status)
{
    const char *base = ctl->url ? ctl->url : "http://localhost";
    char url[CTL_PATH_MAX];
    struct curl_slist *headers = NULL;
    CURL *curl;
    int rv = CTL_REFUSED;

    if (!add_token(ctl, &headers)) {
        curl_slist_free_all(headers);
        return CTL_USAGE;
    }
    curl = curl_easy_init();
    hf_format(url, sizeof(url), "%.*s/api/v1/%s", base_length(base), base, path);
    if (curl) {
        curl_easy_setopt(curl, CURLOPT_URL, url);
        curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
        curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
        curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)TIMEOUT_S);
        curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
        if (!ctl->url)
            curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, ctl->socket);
        if (body) {
            headers = curl_slist_append(headers, "Content-Type: application/json");
            curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
        }
        curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
        rv = fetch(curl, ctl, answer, status);
    }
    curl_easy_cleanup(curl);
    curl_slist_free_all(headers);
    return rv;
}

int ctl_ask(struct ctl *ctl, const char *method, const char *path, const char *body, json_t **out)
{
    struct answer answer = {0};
    long status = 0;
    int rv = request(ctl, method, path, body, &answer, &status);

    *out = NULL;
    return rv == CTL_OK ? judge_json(&answer, status, out) : rv;
}

int ctl_ask_quietly(struct ctl *ctl, const char *path, json_t **out)
{
    struct answer answer = {0};
    long status = 0;
    int rv = request(ctl, "GET", path, NULL, &answer, &status);

    *out = NULL;
    if (rv != CTL_OK)
        return rv;
    if (status < 400)
        return judge_json(&answer, status, out);
    free(answer.data);
    return CTL_REFUSED;
}

int ctl_download(struct ctl *ctl, const char *path, char **data, size_t *len)
{
    struct answer answer = {0};
    json_t *problem;
    long status = 0;
    int rv = request(ctl, "GET", path, NULL, &answer, &status);

    if (rv == CTL_OK && status >= 400) {
        rv = judge_json(&answer, status, &problem);
        return rv == CTL_OK ? CTL_REFUSED : rv;
    }
    *data = answer.data;
    *len = answer.len;
    return rv;
}

/* ---- lists ---- */

void ctl_add_query(char path[CTL_PATH_MAX], const char *key, const char *value)
{
    size_t len = strlen(path);
    char *escaped = value ? curl_easy_escape(NULL, value, 0) : NULL;

    if (escaped)
        hf_format(path + len, CTL_PATH_MAX - len, "%c%s=%s", strchr(path, '?') ? '&' : '?', key,
                  escaped);
    curl_free(escaped);
}

static int ask_page(struct ctl *ctl, const char *name, const char *cursor, size_t limit,
                    json_t **out)
{
    char path[CTL_PATH_MAX];
    char number[24];

    hf_format(path, sizeof(path), "%s", name);
    hf_format(number, sizeof(number), "%zu", limit);
    ctl_add_query(path, "limit", number);
    ctl_add_query(path, "cursor", cursor);
    ctl_add_query(path, "client", ctl->client);
    if (ctl->file && !strpbrk(ctl->file, "*?[")) /* holdfastctl itself matches a pattern (rows.c) */
        ctl_add_query(path, ctl->file[0] == '/' ? "path" : "file", ctl->file);
    ctl_add_query(path, "share", ctl->export);
    ctl_add_query(path, "owner", ctl->owner);
    ctl_add_query(path, "waited", ctl->only_waited ? "true" : NULL);
    return ctl_ask(ctl, "GET", path, NULL, out);
}

int ctl_ask_list(struct ctl *ctl, const char *name, json_t **out)
{
    enum { PAGE = 10000 };
    size_t left = ctl->limit ? strtoull(ctl->limit, NULL, 10) : (size_t)-1;
    json_t *rows = json_array();
    char cursor[32] = "0";
    double unnamed = 0;
    int rv = CTL_OK;

    while (left > 0 && cursor[0]) {
        json_t *page;

        rv = ask_page(ctl, name, cursor, left < PAGE ? left : PAGE, &page);
        if (rv != CTL_OK) {
            json_decref(rows);
            return rv;
        }
        left -= json_array_size(json_object_get(page, name));
        unnamed += ctl_number(page, "unnamed");
        json_array_extend(rows, json_object_get(page, name));
        hf_format(cursor, sizeof(cursor), "%s", ctl_text(page, "next"));
        json_decref(page);
    }
    if (unnamed > 0)
        (void)fprintf(stderr,
                      "holdfastctl: left out because no path is known for their file: %.0f %s\n",
                      unnamed, name);
    *out = rows;
    return rv;
}

int ctl_ask_waited(struct ctl *ctl, json_t **out)
{
    struct ctl waited = *ctl;

    /* --client, --owner and --limit choose the waiters, not the locks, so they are cleared here */
    waited.client = waited.owner = waited.limit = NULL;
    waited.only_waited = true;
    return ctl_ask_list(&waited, "locks", out);
}

bool ctl_is_named(const json_t *client, const char *word)
{
    return strcasecmp(ctl_text(client, "id"), word) == 0 ||
           strcasecmp(ctl_text(client, "name"), word) == 0 ||
           strcasecmp(ctl_text(client, "address"), word) == 0;
}

int ctl_match_clients(struct ctl *ctl, const char *word, char id[32], size_t *matches)
{
    struct ctl only = *ctl;
    json_t *clients;
    json_t *client;
    size_t i;
    int rv;

    *matches = 0;
    only.client = word;
    only.file = only.export = only.owner = only.limit = NULL;
    rv = ctl_ask_list(&only, "clients", &clients);
    if (rv != CTL_OK)
        return rv;
    json_array_foreach(clients, i, client)
    {
        if (!ctl_is_named(client, word))
            continue;
        ++*matches;
        hf_format(id, 32, "%s", ctl_text(client, "id"));
    }
    json_decref(clients);
    return CTL_OK;
}

int ctl_find_client(struct ctl *ctl, const char *word, char id[32])
{
    size_t matches;
    int rv = ctl_match_clients(ctl, word, id, &matches);

    if (rv != CTL_OK || matches == 1)
        return rv;
    if (matches == 0)
        (void)fprintf(stderr, "holdfastctl: no client is called \"%s\" (see holdfastctl clients)\n",
                      word);
    else
        (void)fprintf(stderr,
                      "holdfastctl: \"%s\" names %zu clients: give the id instead (see holdfastctl "
                      "clients)\n",
                      word, matches);
    return CTL_NOT_FOUND;
}

void ctl_print_json(const json_t *json)
{
    json_dumpf(json, stdout, JSON_INDENT(2));
    putchar('\n');
}
