/* Serves the metrics that Prometheus' client libraries give for every process, so that a dashboard
 * that knows nothing of Holdfast can show this daemon too. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "admin/private.h"
#include "base/clock.h"

/* Opens /proc/self/statm before the process confines itself; each pread() later reads the figures
 * of its moment. */
void hf_admin_process_open(struct hf_admin *admin)
{
    admin->opened_ms = hf_clock_boot_ms();
    admin->started_wall_ms = hf_clock_wall_ms();
    admin->statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
}

void hf_admin_process_close(struct hf_admin *admin)
{
    if (admin->statm >= 0)
        (void)close(admin->statm);
}

double hf_admin_process_up_seconds(const struct hf_admin *admin)
{
    return (double)(hf_clock_boot_ms() - admin->opened_ms) / 1000;
}

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

/* Reads how much memory the process uses; false where /proc is not there. */
static bool read_memory(const struct hf_admin *admin, double *virtual_bytes, double *resident)
{
    char text[128] = "";
    unsigned long pages[2];

    if (admin->statm < 0 || pread(admin->statm, text, sizeof(text) - 1, 0) <= 0 ||
        sscanf(text, "%lu %lu", &pages[0], &pages[1]) != 2) /* NOLINT(cert-err34-c): the kernel's */
        return false;
    *virtual_bytes = (double)pages[0] * (double)sysconf(_SC_PAGESIZE);
    *resident = (double)pages[1] * (double)sysconf(_SC_PAGESIZE);
    return true;
}

void hf_admin_process_expose(const struct hf_admin *admin, struct hf_exposition *out)
{
    struct rusage usage = {0};
    struct rlimit files = {0};
    double virtual_bytes;
    double resident;

    (void)getrusage(RUSAGE_SELF, &usage);
    (void)getrlimit(RLIMIT_NOFILE, &files);
    hf_expose_family(out, "process_cpu_seconds_total", "counter", "Processor time used.");
    hf_expose_real(out, "process_cpu_seconds_total", NULL,
                   seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime));
    hf_expose_gauge(out, "process_start_time_seconds", "When the process was started, Unix time.",
                    (double)admin->started_wall_ms / 1000);
    hf_expose_gauge(out, "process_max_fds", "Files that the process may have open.",
                    (double)files.rlim_cur);
    if (!read_memory(admin, &virtual_bytes, &resident))
        return;
    hf_expose_gauge(out, "process_resident_memory_bytes", "Memory in use.", resident);
    hf_expose_gauge(out, "process_virtual_memory_bytes",
                    "Addresses in use, most of which have no memory behind them.", virtual_bytes);
}

void hf_admin_process_expose_backup(const struct hf_admin *admin, struct hf_exposition *out)
{
    if (admin->backup_wall_ms)
        hf_expose_gauge(out, "holdfast_backup_last_timestamp_seconds",
                        "When this process made its last backup, Unix time.",
                        (double)admin->backup_wall_ms / 1000);
}
