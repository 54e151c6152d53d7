"""Charts as SVG, by hand: bars in groups, or lines, on axes that are linear or logarithmic."""
import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 400
LEFT, RIGHT, TOP, BOTTOM = 90, 20, 72, 56
GREY, INK = "#d0d0d0", "#303030"


def short(value):
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size and value % (size / 10) == 0:
            return f"{value / size:g} {letter}"
    return f"{value:g}"


class Axis:
    """Maps values to pixels."""

    def __init__(self, low, high, from_px, to_px, log):
        self.low, self.high, self.log = low, high, log
        self.from_px, self.to_px = from_px, to_px

    def at(self, value):
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(max(value, self.low))
        return self.from_px + (value - low) / (high - low) * (self.to_px - self.from_px)

    def ticks(self):
        if self.log:
            return [10 ** n for n in range(round(math.log10(self.low)), round(math.log10(self.high)) + 1)]
        step = 10 ** math.floor(math.log10(self.high))
        step = next(s for s in (step, step / 2, step / 5) if self.high / s >= 4)
        return [n * step for n in range(int(self.high / step) + 1)]


def value_axis(values, log):
    """From a power of ten to a power of ten; or from 0 to a little more than the greatest."""
    high, low = max(values), min(v for v in values if v > 0)
    if log:
        low, high = 10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high * 1.01))
    else:
        low, high = 0, high * 1.1
    return Axis(low, high, HEIGHT - BOTTOM, TOP, log)


class Chart:
    """The parts of one picture; str() of it is the file."""

    def __init__(self, title, x_label, y_label, values, log=True):
        self.parts = []
        self.y = value_axis(values, log)
        self.text(LEFT, 22, title, "start", 16)
        self.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, x_label)
        self.parts.append(f'<g transform="translate(22 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)">')
        self.text(0, 0, y_label)
        self.parts.append("</g>")
        for tick in self.y.ticks():
            y = self.y.at(tick)
            self.line([(LEFT, y), (WIDTH - RIGHT, y)], GREY, 1)
            self.text(LEFT - 8, y + 4, short(tick), "end")

    def text(self, x, y, words, anchor="middle", size=12):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
                          f'fill="{INK}">{escape(words)}</text>')

    def line(self, points, colour, width=2.5):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" '
                          f'stroke-width="{width}"/>')

    def box(self, x, y, width, height, colour):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
                          f'fill="{colour}"/>')

    def legend(self, series):
        x = LEFT
        for name, colour, _ in series:
            self.box(x, 38, 14, 14, colour)
            self.text(x + 20, 50, name, "start")
            x += 44 + 6.6 * len(name)

    def bars(self, groups, series):
        """series: (name, colour, one value for each group)"""
        self.legend(series)
        group = (WIDTH - RIGHT - LEFT) / len(groups)
        width = group * 0.8 / len(series)
        for g, name in enumerate(groups):
            left = LEFT + g * group + group * 0.1
            self.text(left + group * 0.4, HEIGHT - BOTTOM + 18, name)
            for s, (_, colour, values) in enumerate(series):
                y = self.y.at(values[g])
                self.box(left + s * width + 1, y, width - 2, HEIGHT - BOTTOM - y, colour)
                self.text(left + (s + 0.5) * width, y - 4, short(float(f"{values[g]:.2g}")), size=10)
        return self

    def lines(self, x_values, series):
        self.legend(series)
        x = Axis(x_values[0], x_values[-1], LEFT + 20, WIDTH - RIGHT - 20, log=True)
        for value in x_values:
            self.text(x.at(value), HEIGHT - BOTTOM + 18, short(value))
        for _, colour, values in series:
            points = [(x.at(a), self.y.at(b)) for a, b in zip(x_values, values)]
            self.line(points, colour)
            for px, py in points:
                self.parts.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3.5" fill="{colour}"/>')
        return self

    def __str__(self):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
                f'font-family="sans-serif"><rect width="100%" height="100%" fill="#ffffff"/>\n'
                + "\n".join(self.parts) + "\n</svg>\n")
