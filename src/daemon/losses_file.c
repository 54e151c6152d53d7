#include "daemon/losses_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hex.h"
#include "base/log.h"
#include "base/text.h"

/* The first line of the file says how many clients and locks were lost in all. One line for each
 * listed client follows: time, reason, locks, address, name in hex. */
static const char HEAD[] = "holdfast losses 1 clients %20s locks %20s";
static const char HEAD_OUT[] = "holdfast losses 1 clients %" PRIu64 " locks %" PRIu64 "\n";
static const char NO_NAME[] = "-";
enum { LINE_MAX_BYTES = 512, NUMBER_MAX = 20 };

/* ---- reading ---- */

static bool to_number(const char *text, uint64_t max, uint64_t *out)
{
    char *end;
    uint64_t value;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value > max)
        return false;
    *out = value;
    return true;
}

static bool read_entry(const char *line, struct hf_trouble_loss *out)
{
    char addr[HF_ADDR_TEXT_MAX + 1];
    char name[2 * HF_EVENT_NAME_MAX + 1];
    char numbers[3][NUMBER_MAX + 1];
    uint64_t at_ms;
    uint64_t reason;
    int len;

    *out = (struct hf_trouble_loss){0};
    if (sscanf(line, "%20s %20s %20s %71s %256s", numbers[0], numbers[1], numbers[2], addr, name) !=
            5 ||
        !to_number(numbers[0], INT64_MAX, &at_ms) ||
        !to_number(numbers[1], HF_LOSSES - 1, &reason) ||
        !to_number(numbers[2], UINT64_MAX, &out->locks) ||
        hf_addr_parse(addr, &out->client.addr) < 0)
        return false;
    len = strcmp(name, NO_NAME) == 0
              ? 0
              : hf_hex_decode(name, strlen(name), out->client.name, sizeof(out->client.name));
    if (len < 0)
        return false;
    out->client.name_len = (uint16_t)len;
    out->at_ms = (int64_t)at_ms;
    out->reason = (enum hf_loss)reason;
    return true;
}

static bool read_all(FILE *stream, struct hf_troubles *troubles)
{
    char line[LINE_MAX_BYTES];
    char clients[NUMBER_MAX + 1];
    char locks[NUMBER_MAX + 1];

    if (!fgets(line, sizeof(line), stream) || sscanf(line, HEAD, clients, locks) != 2 ||
        !to_number(clients, UINT64_MAX, &troubles->clients_earlier) ||
        !to_number(locks, UINT64_MAX, &troubles->locks_earlier))
        return false;
    while (troubles->n_losses < HF_TROUBLES_LOSSES_MAX && fgets(line, sizeof(line), stream)) {
        if (!read_entry(line, &troubles->losses[troubles->n_losses]))
            return false;
        troubles->n_losses++;
    }
    return true;
}

void hf_losses_file_open(struct hf_losses_file *file, struct hf_service *service,
                         const char *directory)
{
    FILE *stream;

    *file = (struct hf_losses_file){.service = service};
    hf_buf_init(&file->text, &hf_alloc_heap);
    if (!directory)
        return;
    hf_format(file->path, sizeof(file->path), "%.512s/losses", directory);
    stream = fopen(file->path, "re");
    if (!stream ? errno != ENOENT : !read_all(stream, service->troubles))
        hf_log(HF_LOG_WARN, "cannot read the list of losses", HF_STR("file", file->path),
               HF_STR("advice", "it says which clients lost locks in an earlier run; remove it"));
    if (stream)
        (void)fclose(stream);
}

/* ---- writing ---- */

static void put(struct hf_buf *text, const char *line)
{
    /* if memory runs out, the list of losses is written shorter */
    (void)hf_buf_append(text, line, strlen(line));
}

static void compose(struct hf_losses_file *file)
{
    const struct hf_troubles *troubles = file->service->troubles;
    char line[LINE_MAX_BYTES];
    char name[2 * HF_EVENT_NAME_MAX + 1];
    char addr[HF_ADDR_TEXT_MAX];
    uint64_t clients;
    uint64_t locks;

    hf_troubles_lost(troubles, hf_core_counters(file->service->core), &clients, &locks);
    hf_buf_clear(&file->text);
    hf_format(line, sizeof(line), HEAD_OUT, clients, locks);
    put(&file->text, line);
    for (size_t i = 0; i < troubles->n_losses; i++) {
        const struct hf_trouble_loss *loss = &troubles->losses[i];

        hf_hex_encode(loss->client.name, loss->client.name_len, name);
        name[2 * (size_t)loss->client.name_len] = '\0';
        hf_format(line, sizeof(line), "%" PRId64 " %d %" PRIu64 " %s %s\n", loss->at_ms,
                  (int)loss->reason, loss->locks, hf_addr_format(&loss->client.addr, addr),
                  name[0] ? name : NO_NAME);
        put(&file->text, line);
    }
}

static int write_file(const char *path, struct hf_bytes text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    int error = 0;

    if (fd < 0)
        return errno;
    if (write(fd, text.data, text.len) != (ssize_t)text.len || fsync(fd) < 0)
        error = errno ? errno : ENOSPC;
    close(fd);
    return error;
}

/* Writes the file of losses; runs on a worker thread. */
static void write_list(uv_work_t *work)
{
    struct hf_losses_file *file = work->data;
    char fresh[HF_LOSSES_PATH_MAX + 8];

    hf_format(fresh, sizeof(fresh), "%s.new", file->path);
    file->error = write_file(fresh, hf_buf_view(&file->text));
    if (file->error == 0 && rename(fresh, file->path) < 0)
        file->error = errno;
}

static void on_written(uv_work_t *work, int status)
{
    struct hf_losses_file *file = work->data;

    (void)status;
    file->writing = false;
    if (file->error && !file->failed)
        hf_log(HF_LOG_WARN, "cannot keep the list of losses", HF_STR("file", file->path),
               HF_STR("reason", strerror(file->error)));
    file->failed = file->error != 0;
}

void hf_losses_file_follow(struct hf_losses_file *file)
{
    if (file->version == file->service->troubles->version || file->writing || !file->path[0])
        return;
    file->version = file->service->troubles->version;
    compose(file);
    file->work.data = file;
    file->writing = uv_queue_work(file->service->loop, &file->work, write_list, on_written) == 0;
}

void hf_losses_file_free(struct hf_losses_file *file)
{
    hf_buf_free(&file->text);
}
