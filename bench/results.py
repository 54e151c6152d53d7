"""What was measured: rows of a table, each a ratio with or without a goal, and series for the plots."""
import datetime
import os
import platform

SIGNS = {">=": lambda a, b: a >= b, "<=": lambda a, b: a <= b, "<": lambda a, b: a < b}


def number(value):
    """Three digits that count, at least."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def verdict(row):
    return {True: "met", False: "NOT MET", None: ""}[row["met"]]


class Results:
    def __init__(self):
        self.rows, self.series = [], {}

    def add(self, what, figure, unit, against, other, goal=""):
        """A goal is a sign and a number, for the ratio: ">= 15"; "": it is only said."""
        ratio = figure / other if other else 0
        sign, _, bound = goal.partition(" ")
        row = {"what": what, "figure": round(figure, 3), "unit": unit, "against": against,
               "other": round(other, 3), "ratio": round(ratio, 3), "goal": goal,
               "met": SIGNS[sign](ratio, float(bound)) if goal else None}
        self.rows.append(row)
        print(f"{what:42} {number(figure):>9} {unit:10} {number(ratio):>7} x {against} ({number(other)})"
              f"   {goal} {verdict(row)}", flush=True)

    def add_series(self, name, x, **lines):
        self.series[name] = {"x": list(x), "lines": lines}

    def as_dict(self, **more):
        return {"date": datetime.date.today().isoformat(), **machine(), **more, "rows": self.rows,
                "series": self.series}


def machine():
    with open("/proc/cpuinfo") as info:
        models = [line.partition(":")[2].strip() for line in info if line.startswith("model name")]
    return {"processor": models[0] if models else platform.machine(), "cores": os.cpu_count(),
            "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
            "system": f"{platform.system()} {platform.release()}"}
