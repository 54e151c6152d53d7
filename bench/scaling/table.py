"""The points of a curve as a table."""


def seconds(value):
    return f"{value * 1e3:.0f} ms" if value < 1 else f"{value:.1f} s"


def size(value):
    return f"{value / 2 ** 20:,.0f} MiB" if value < 2 ** 30 else f"{value / 2 ** 30:.1f} GiB"


def microseconds(value):
    return f"{value:,.0f} us" if value < 10000 else f"{value / 1000:,.0f} ms"


def count(value):
    return f"{value:,.0f}"


def nested(*keys):
    def of(point):
        for key in keys:
            point = point[key]
        return point
    return of


LOOKER = (("p99, quiet", nested("quiet", "p99_us"), microseconds),
          ("p99 meanwhile", nested("meanwhile", "p99_us"), microseconds),
          ("p99.9 meanwhile", nested("meanwhile", "p999_us"), microseconds))
COLUMNS = {
    "restarts": (
        ("clients", nested("clients"), count), ("locks", nested("locks"), count),
        ("all locked in", nested("lock_s"), seconds), ("memory", nested("resident_bytes"), size),
        ("at most", nested("peak_bytes"), size), ("store", nested("store_bytes"), size),
        ("loaded in", nested("load_s"), seconds), ("all told after", nested("told_s"), seconds),
        ("all reclaimed", nested("reclaimed_s"), seconds), ("grace over", nested("grace_s"), seconds),
        ("processor time", nested("restart_cpu_s"), seconds), *LOOKER),
    "locks": (
        ("locks", nested("locks"), count), ("taken in", nested("lock_s"), seconds),
        ("memory", nested("resident_bytes"), size), ("bytes a lock", nested("bytes_a_lock"), count),
        ("store", nested("store_bytes"), size), ("loaded in", nested("load_s"), seconds),
        ("TEST /s beside", nested("per_second"), count), ("released in", nested("release_s"), seconds),
        ("stopped in", nested("stop_s"), seconds), *LOOKER),
    "dead": (
        ("clients, half of them dead", nested("clients"), count), ("notify.in_flight", nested("in_flight"), count),
        ("living told after", nested("told_s"), seconds), ("dead tried once", nested("tried_s"), seconds),
        ("memory at most", nested("peak_bytes"), size), ("processor time", nested("restart_cpu_s"), seconds),
        LOOKER[1], LOOKER[2]),
    "continued": (
        ("recovery.notify", nested("mode"), str), ("clients", nested("clients"), count), ("locks", nested("locks"), count),
        ("loaded in", nested("load_s"), seconds), ("first new lock after kill -9", nested("first_lock_s"), seconds), *LOOKER),
}


def head(kind):
    names = [name for name, _, _ in COLUMNS[kind]]
    return f"| {' | '.join(names)} |\n|{'--:|' * len(names)}"


def row(kind, point):
    return f"| {' | '.join(form(of(point)) for _, of, form in COLUMNS[kind])} |"
