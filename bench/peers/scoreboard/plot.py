"""One SVG per table: the time of every library, and below it the ratio with its spread.

Written by hand, so that nothing has to be installed. Follows the reader's light or dark scheme.
"""

import math
from html import escape

from .contestants import PEER_COLUMNS
from .sizes import human

WIDTH, HEIGHT = 920, 640
LEFT, RIGHT = 84, 690
TIME_PANEL = (64, 372)     # top, bottom
RATIO_PANEL = (420, 572)
# name: (on light ground, on dark ground)
COLOURS = {"ground": ("#ffffff", "#16181c"), "ink": ("#1c1c1c", "#e8e8e8"),
           "faint": ("#d7d7d7", "#3c4047"), "tbccl": ("#0060a8", "#5ab4f0"),
           "gloo": ("#b37400", "#f0ae2e"), "openmpi": ("#007a57", "#2cc79b"),
           "tuned": ("#b0468a", "#e58fc4"), "mpich": ("#c04f00", "#ff8a4c")}
STYLE = """
text { font: 13px sans-serif; stroke: none; }
.title { font-size: 17px; font-weight: bold; }
.grid { stroke-width: 1; }
.one { stroke-width: 1.5; stroke-dasharray: 5 4; }
.curve { fill: none; stroke-width: 2; }
.spread { stroke-width: 5; opacity: 0.4; }
.thick { stroke-width: 2; }
"""
# column: (colour, marker, dash pattern)
LOOKS = {"tbccl": ("tbccl", "circle", ""), "gloo": ("gloo", "square", ""),
         "openmpi": ("openmpi", "triangle", ""), "openmpi tuned": ("tuned", "diamond", "7 3"),
         "mpich": ("mpich", "cross", "2 3")}
NAMES = {"gloo": "Gloo", "openmpi": "Open MPI", "openmpi tuned": "Open MPI, tuned",
         "mpich": "MPICH"}


class Axis:
    """A logarithmic axis from a value to a value, on pixels from one place to another."""

    def __init__(self, values, first, last, margin=1.0):
        self.low = min(values) / margin
        self.high = max(values) * margin
        if self.low == self.high:
            self.low, self.high = self.low / 2, self.high * 2
        self.first = first
        self.last = last

    def place(self, value):
        part = math.log(value / self.low) / math.log(self.high / self.low)
        return self.first + part * (self.last - self.first)

    def inside(self, values):
        return [value for value in values if self.low * 0.999 <= value <= self.high * 1.001]


def style():
    """Plain classes, which every viewer knows; those that know the dark scheme follow it."""
    def rules(which):
        return "".join(f".fill-{name} {{ fill: {both[which]}; }} .line-{name} {{ stroke: "
                       f"{both[which]}; }}\n" for name, both in COLOURS.items())
    return (f"<style>{STYLE}{rules(0)}@media (prefers-color-scheme: dark) {{\n{rules(1)}}}\n"
            "</style>")


def line(kind, x1, y1, x2, y2):
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def label(x, y, content, anchor="middle", kind="", turn=False):
    rotated = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turn else ""
    return (f'<text class="{kind} fill-ink" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
            f'{rotated}>{escape(content)}</text>')


def marker(shape, x, y, colour):
    kind = f'class="fill-{colour}"'
    if shape == "circle":
        return f'<circle {kind} cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
    if shape == "square":
        return f'<rect {kind} x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7"/>'
    if shape == "cross":
        return (f'<path class="thick line-{colour}" '
                f'd="M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8"/>')
    points = {"triangle": ((0, -5), (5, 4), (-5, 4)),
              "diamond": ((0, -5), (5, 0), (0, 5), (-5, 0))}[shape]
    return (f'<polygon {kind} points="' +
            " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in points) + '"/>')


def polyline(points, look):
    colour, _, dash = look
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline class="curve line-{colour}" points="{path}"{dashes}/>'


def curve(points, look):
    colour, shape, _ = look
    return [polyline(points, look), *(marker(shape, x, y, colour) for x, y in points)]


def legend(x, y, look, name):
    colour, shape, _ = look
    return [polyline([(x, y), (x + 34, y)], look), marker(shape, x + 17, y, colour),
            label(x + 46, y + 4, name, "start")]


def duration(value):
    for unit, scale in (("s", 1e6), ("ms", 1e3)):
        if value >= scale:
            return f"{value / scale:g} {unit}"
    return f"{value:g} µs"


def ticks_of(axis, *choices):
    """Multiples of powers of ten: of these choices of digits the densest with at most 8 ticks."""
    found = []
    for digits in choices:
        ticks = axis.inside([digit * 10.0 ** power for power in range(-3, 9) for digit in digits])
        if not found or len(ticks) <= 8:
            found = ticks
    return found


def frame(axis_x, axis_y, panel, ticks, names, sizes, title):
    """Grid, ticks and the title of the vertical axis of one panel."""
    top, bottom = panel
    out = []
    for tick, name in zip(ticks, names):
        y = axis_y.place(tick)
        out += [line("grid line-faint", LEFT, y, RIGHT, y), label(LEFT - 8, y + 4, name, "end")]
    last = math.inf
    for bytes_ in reversed(sizes):
        x = axis_x.place(max(bytes_, 1))
        out.append(line("grid line-faint", x, top, x, bottom))
        if last - x >= 38:  # room for the label
            out.append(label(x, bottom + 18, human(bytes_) if bytes_ else "none"))
            last = x
    out.append(label(22, (top + bottom) / 2, title, turn=True))
    return out


def series_of(table):
    """[(column, [(bytes, microseconds)])], tbccl first."""
    out = [("tbccl", [(row.bytes, row.ours) for row in table.rows])]
    for column in PEER_COLUMNS:
        points = [(row.bytes, row.cells[column]) for row in table.rows if column in row.cells]
        if points:
            out.append((column, points))
    return out


def time_panel(table, axis_x, sizes):
    series = series_of(table)
    times = [time for _, points in series for _, time in points]
    axis_y = Axis(times, TIME_PANEL[1], TIME_PANEL[0], 1.3)
    ticks = ticks_of(axis_y, (1,), (1, 3), (1, 2, 5))
    out = frame(axis_x, axis_y, TIME_PANEL, ticks, [duration(tick) for tick in ticks], sizes,
                "time of a call")
    for i, (column, points) in enumerate(series):
        out += curve([(axis_x.place(max(bytes_, 1)), axis_y.place(time))
                      for bytes_, time in points], LOOKS[column])
        uncounted = column == "mpich" and table.uncounted
        out += legend(RIGHT + 20, TIME_PANEL[0] + 12 + 24 * i, LOOKS[column],
                      NAMES.get(column, column) + (", not counted" if uncounted else ""))
    return out


def ratio_panel(table, axis_x, sizes):
    rows = [row for row in table.rows if row.ratio is not None]
    if not rows:
        return []
    ends = [end for row in rows for end in (row.ratio.low, row.ratio.high)]
    axis_y = Axis([*ends, 0.8, 1.6], RATIO_PANEL[1], RATIO_PANEL[0], 1.1)
    ticks = ticks_of(axis_y, (1,), (1, 2, 5), (1, 1.5, 2, 3, 5, 7), (1, 1.2, 1.5, 2, 3, 5, 7, 8))
    out = frame(axis_x, axis_y, RATIO_PANEL, ticks, [f"{tick:g}x" for tick in ticks], sizes,
                "best other / tbccl")
    out.append(line("one line-ink", LEFT, axis_y.place(1), RIGHT, axis_y.place(1)))
    for row in rows:
        x = axis_x.place(max(row.bytes, 1))
        out.append(line("spread line-tbccl", x, axis_y.place(row.ratio.low), x,
                        axis_y.place(row.ratio.high)))
    out += curve([(axis_x.place(max(row.bytes, 1)), axis_y.place(row.ratio.value))
                  for row in rows], LOOKS["tbccl"])
    summary = table.summary
    notes = ["above 1: tbccl is faster", f"geometric mean {summary.mean:.2f}x",
             f"worst {summary.worst.ratio.value:.2f}x" +
             (f" at {human(summary.worst.bytes)}" if summary.worst.bytes else ""),
             "bars: spread of the rounds"]
    for i, note in enumerate(notes):
        out.append(label(RIGHT + 20, RATIO_PANEL[0] + 14 + 20 * i, note, "start"))
    return out


def svg(table):
    sizes = [row.bytes for row in table.rows]
    axis_x = Axis([max(bytes_, 1) for bytes_ in sizes], LEFT + 14, RIGHT - 14)
    title = table.title[0].upper() + table.title[1:]
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
             f'width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{escape(title)}">',
             style(),
             f'<rect class="fill-ground" width="{WIDTH}" height="{HEIGHT}"/>',
             label(WIDTH / 2, 32, title, kind="title"), *time_panel(table, axis_x, sizes),
             *ratio_panel(table, axis_x, sizes),
             label((LEFT + RIGHT) / 2, RATIO_PANEL[1] + 46, "bytes of a rank's vector"), "</svg>"]
    return "\n".join(parts) + "\n"
