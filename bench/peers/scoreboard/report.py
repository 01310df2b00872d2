"""Tables: text for the terminal, Markdown to be pasted, CSV of every figure."""

import csv
from dataclasses import dataclass

from . import figures
from .contestants import PEER_COLUMNS
from .measuring import median
from .sizes import human

NETWORK_TEXT = {"tcp": "loopback TCP", "host": "same host",
                "memalloc": "same host, tbccl's buffers from tbcclMemAlloc"}
COLLECTIVE_TEXT = {"all_reduce": "all-reduce, float32 sum in place",
                   "broadcast": "broadcast in place", "barrier": "barrier",
                   "reduce": "reduce, float32 sum", "all_gather": "all-gather",
                   "reduce_scatter": "reduce-scatter, float32 sum", "all_to_all": "all-to-all",
                   "gather": "gather", "scatter": "scatter", "scan": "scan, float32 sum",
                   "ping_pong": "ping-pong, half a round trip",
                   "exchange": "send to the next rank and receive from the one before"}
MPICH_NOTE = ("MPICH's figures are not counted: there are more ranks than processors, and it spins "
              "without yielding.")


@dataclass(frozen=True)
class Table:
    mode: str
    collective: str
    ranks: int
    section: object
    times: object        # measuring.Times
    rows: list
    summary: object

    @property
    def title(self):
        collective = COLLECTIVE_TEXT.get(self.collective, self.collective)
        return f"{NETWORK_TEXT[self.mode]}, {self.ranks} ranks: {collective}"

    @property
    def file_name(self):
        return f"{self.mode}-{self.collective}-{self.ranks}".replace("_", "-")

    @property
    def columns(self):
        return [column for column in PEER_COLUMNS if any(column in row.cells for row in self.rows)]

    @property
    def uncounted(self):
        return any(not contestant.counted for contestant in self.times.times)


def times_text(value):
    return f"{value:.2f}x" if value is not None else "-"


def microseconds(value):
    if value is None:
        return "-"
    return f"{value:.2f}" if value < 1000 else f"{value:.0f}"


def header(table):
    # The columns of libraries whose figures do not count are marked.
    marked = {contestant.column for contestant in table.times.times if not contestant.counted}
    return ["bytes", "tbccl", *(column + ("*" if column in marked else "")
                                for column in table.columns),
            "ratio", "spread", "tbccl is", "to defaults", "to tuned Open MPI", "best other"]


def cells(table, row):
    ratio = row.ratio
    return [human(row.bytes) if row.bytes else "none", microseconds(row.ours),
            *(microseconds(row.cells.get(column)) for column in table.columns),
            times_text(ratio.value if ratio else None),
            f"{ratio.low:.2f}..{ratio.high:.2f}" if ratio else "-",
            ratio.verdict if ratio else "-", times_text(row.defaults),
            times_text(row.tuned_openmpi), row.best.label if row.best else "-"]


def listed(sizes):
    return ", ".join(human(bytes_) if bytes_ else "none" for bytes_ in sizes) or "no size"


def at(row):
    return f" at {human(row.bytes)}" if row.bytes else ""


def summary_lines(table):
    summary = table.summary
    if summary is None:
        return ["Nothing to compare with."]
    worst = summary.worst
    means = [(summary.mean, "the best other"),
             (summary.mean_defaults, "the best with its defaults"),
             (summary.mean_tuned_openmpi, "the tuned Open MPI")]
    against = ", ".join(f"{times_text(mean)} against {whom}" for mean, whom in means
                        if mean is not None)
    lines = [f"Geometric mean {against}; worst {times_text(worst.ratio.value)}{at(worst)}.",
             f"Slower at: {listed(summary.slower)}. Even at: {listed(summary.even)}."]
    return lines + ([f"* {MPICH_NOTE}"] if table.uncounted else [])


def text(table):
    grid = [header(table), *(cells(table, row) for row in table.rows)]
    widths = [max(len(line[i]) for line in grid) for i in range(len(grid[0]))]
    last = len(widths) - 1
    lines = ["  ".join(cell.ljust(width) if i == last else cell.rjust(width)
                       for i, (cell, width) in enumerate(zip(line, widths))).rstrip()
             for line in grid]
    return "\n".join(["", table.title + ", median microseconds", *lines, *summary_lines(table)])


def markdown(table):
    names = header(table)
    lines = [f"### {table.title[0].upper()}{table.title[1:]}", "", "Median microseconds.", "",
             "| " + " | ".join(name.replace("*", "\\*") for name in names) + " |",
             "|" + "---:|" * (len(names) - 1) + "---|"]
    lines += ["| " + " | ".join(cells(table, row)) + " |" for row in table.rows]
    return "\n".join([*lines, "", *(line.replace("*", "\\*") for line in summary_lines(table)), ""])


def write_markdown(path, tables, about):
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join([*about, "", *(markdown(table) for table in tables)]))


def overview_row(table, sizes):
    """Ratios by size; bold where tbccl is slower."""
    by_size = {row.bytes: row.ratio for row in table.rows if row.ratio}
    found = [by_size.get(size) for size in sizes]
    shown = [("-" if ratio is None else
              f"**{ratio.value:.2f}**" if ratio.verdict == "slower" else f"{ratio.value:.2f}")
             for ratio in found]
    if 0 in by_size:  # a barrier has no size
        shown[0] = f"**{by_size[0].value:.2f}**" if by_size[0].verdict == "slower" else (
            f"{by_size[0].value:.2f}")
    mean = f"{table.summary.mean:.2f}" if table.summary else "-"
    return f"| {table.collective.replace('_', '-')} | " + " | ".join(shown) + f" | {mean} |"


def overview(tables):
    lines = []
    for mode, ranks in dict.fromkeys((table.mode, table.ranks) for table in tables):
        group = [table for table in tables if (table.mode, table.ranks) == (mode, ranks)]
        sizes = sorted({row.bytes for table in group for row in table.rows if row.bytes})
        title = f"{NETWORK_TEXT[mode]}, {ranks} ranks"
        lines += [f"#### {title[0].upper()}{title[1:]}", "",
                  "| collective | " + " | ".join(human(size) for size in sizes) + " | mean |",
                  "|---" + "|---:" * (len(sizes) + 1) + "|",
                  *(overview_row(table, sizes) for table in group), ""]
    return lines


def write_overview(path, tables, about):
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join([*about, "", *overview(tables)]))


def csv_rows(table):
    """One line per contestant and size; the comparison stands in tbccl's lines."""
    ratios = {row.bytes: row for row in table.rows}
    mine = "tbccl memalloc" if table.mode == "memalloc" else "tbccl"
    for contestant, by_size in table.times.times.items():
        if contestant.library == "tbccl" and contestant.column != mine:
            continue
        for bytes_, rounds in by_size.items():
            row = ratios.get(bytes_) if contestant.library == "tbccl" else None
            ratio = row.ratio if row else None
            compared = ([f"{ratio.value:.4f}", f"{ratio.low:.4f}", f"{ratio.high:.4f}",
                         ratio.verdict, row.best.label] if ratio else [""] * 5)
            yield [table.mode, table.collective, table.ranks, bytes_, contestant.library,
                   contestant.variant, int(contestant.defaults), int(contestant.counted),
                   median(rounds), *compared, *("" if time is None else time for time in rounds)]


def write_csv(path, tables):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        rounds = max((table.times.rounds for table in tables), default=0)
        writer.writerow(["mode", "collective", "ranks", "bytes", "library", "variant", "defaults",
                         "counted", "median_us", "ratio", "low", "high", "verdict", "best_other",
                         *(f"round_{i + 1}_us" for i in range(rounds))])
        for table in tables:
            writer.writerows(csv_rows(table))


def table_of(mode, our_column, section, times):
    rows = figures.rows_of(times.times, section.wanted[mode], our_column)
    return Table(mode, section.collective, section.ranks, section, times, rows,
                 figures.summary_of(rows))
