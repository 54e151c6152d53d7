"""The curves of bench/scale as pictures and as tables, for docs/reference/SCALING.md."""
from scaling import table
from svg import Chart

BLUE, LIGHT, ORANGE, GREY = "#14507e", "#4fa3dd", "#d9822b", "#9a9a9a"
MIB = 2 ** 20
# file: curve, x, title, x label, y label, lines (name, colour, value of a point)
PICTURES = {
    "scale-restart": ("restarts", "clients", "A restart", "clients, 10 locks each", "seconds", (
        ("store loaded", LIGHT, lambda p: p["load_s"]),
        ("all told", ORANGE, lambda p: p["told_s"]),
        ("grace over", BLUE, lambda p: p["grace_s"]),
        ("processor time", GREY, lambda p: p["restart_cpu_s"]))),
    "scale-others": ("restarts", "clients", "Another client, meanwhile", "clients that are told and reclaim",
                     "microseconds", (
                         ("p99, quiet", GREY, lambda p: p["quiet"]["p99_us"]),
                         ("p50 meanwhile", LIGHT, lambda p: p["meanwhile"]["p50_us"]),
                         ("p99 meanwhile", ORANGE, lambda p: p["meanwhile"]["p99_us"]),
                         ("p99.9 meanwhile", BLUE, lambda p: p["meanwhile"]["p999_us"]))),
    "scale-memory": ("locks", "locks", "Memory and disk", "locks held", "MiB", (
        ("resident memory", BLUE, lambda p: p["resident_bytes"] / MIB),
        ("store on disk", ORANGE, lambda p: p["store_bytes"] / MIB))),
    "scale-locks": ("locks", "locks", "A restart, and the release of all that was not reclaimed", "locks held",
                    "seconds", (
                        ("all locked", GREY, lambda p: p["lock_s"]),
                        ("store loaded", LIGHT, lambda p: p["load_s"]),
                        ("all released", ORANGE, lambda p: p["release_s"]))),
}
TITLES = {"restarts": "A restart with its notices and the reclaims of all clients",
          "locks": "Locks of one client, each with a file and an owner of its own",
          "dead": "A restart when half of the clients are dead"}


def pictures(curves):
    """(file, picture) of each"""
    for file, (curve, x, title, x_label, y_label, lines) in PICTURES.items():
        points = curves.get(curve, [])
        if len(points) < 2:
            continue
        series = [(name, colour, [of(point) for point in points]) for name, colour, of in lines]
        chart = Chart(title, x_label, y_label, [v for _, _, values in series for v in values])
        yield file, str(chart.lines([point[x] for point in points], series))


def tables(data):
    yield (f"{data['date']}, {data['processor']}, {data['cores']} cores, {data['memory_gib']} GiB, "
           f"{data['system']}.\n")
    for curve, points in data["curves"].items():
        yield f"\n**{TITLES[curve]}.**\n\n{table.head(curve)}\n"
        for point in points:
            yield table.row(curve, point) + "\n"
