/*
 * A configuration file of any bytes (CFG-01): it is refused with a text that names the file, or
 * accepted; and an accepted one is printed, and accepted again.
 */
#include "fuzz.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/config.h"

static char path[64];
static int fd;

static void open_once(void)
{
    if (fd > 0)
        return;
    fd = memfd_create("config", 0);
    HF_ASSERT(fd > 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
}

static void print_and_read(const struct hf_config *config)
{
    char error[HF_CONFIG_ERROR_MAX];
    struct hf_config again;
    FILE *file = fopen(path, "w");

    HF_ASSERT(file);
    hf_config_print(config, file);
    fclose(file);
    hf_config_init(&again);
    HF_ASSERT(hf_config_read(&again, path, error) == 0);
    HF_ASSERT(again.port == config->port && again.n_export_rules == config->n_export_rules);
    HF_ASSERT(again.n_clients == config->n_clients &&
              memcmp(again.clients, config->clients, sizeof(again.clients)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[HF_CONFIG_ERROR_MAX];
    struct hf_config config;

    open_once();
    HF_ASSERT(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    hf_config_init(&config);
    memset(error, 0, sizeof(error));
    if (hf_config_read(&config, path, error) < 0)
        HF_ASSERT(strncmp(error, path, strlen(path)) == 0 && strlen(error) < sizeof(error));
    else
        print_and_read(&config);
    return 0;
}
