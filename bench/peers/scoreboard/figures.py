"""What the times say: ratios, their spread, and a judgement per size.

The ratio at a size is the other library's median time over tbccl's. Its spread comes from the
ratios of the single rounds, in which both ran one after the other: their quartiles, or with fewer
than five rounds their extremes. tbccl is `faster` where even the low end is above 1, `slower` where
even the high end is below 1, and `even` between; after fewer than three rounds all is `unsure`.
"""

import math
import statistics
from dataclasses import dataclass

from .contestants import PEER_COLUMNS
from .measuring import median

ROUNDS_FOR_QUARTILES = 5
ROUNDS_FOR_VERDICT = 3


@dataclass(frozen=True)
class Ratio:
    value: float
    low: float
    high: float
    rounds: int

    @property
    def verdict(self):
        if self.rounds < ROUNDS_FOR_VERDICT:
            return "unsure"
        if self.low > 1:
            return "faster"
        return "slower" if self.high < 1 else "even"


@dataclass(frozen=True)
class Row:
    """One size: median microseconds (None: not measured) and ratios to tbccl (None: no such)."""
    bytes: int
    ours: float
    cells: dict           # {column of the peers: median microseconds}
    best: object          # the contestant with the least median among those that count
    ratio: Ratio          # to the best
    defaults: float       # to the best of the libraries as installed
    tuned_openmpi: float


def spread(rounds):
    """(low, high) of the ratios of the rounds."""
    if len(rounds) < ROUNDS_FOR_QUARTILES:
        return min(rounds), max(rounds)
    quartiles = statistics.quantiles(rounds, n=4, method="inclusive")
    return quartiles[0], quartiles[2]


def ratio_between(theirs, ours):
    """Of two rows of rounds; None unless some round has both."""
    both = [their / our for their, our in zip(theirs, ours)
            if their is not None and our is not None]
    if not both:
        return None
    value = median(theirs) / median(ours)
    low, high = spread(both)
    return Ratio(value, min(low, value), max(high, value), len(both))


def fastest(times, bytes_, allowed):
    """(microseconds, contestant) of the fastest allowed one at this size, or None."""
    found = [(median(by_size[bytes_]), contestant) for contestant, by_size in times.items()
             if allowed(contestant) and bytes_ in by_size]
    return min(found, key=lambda entry: entry[0], default=None)


def row_of(times, bytes_, our_column):
    """The row of one size, or None if tbccl has no figure there."""
    def is_peer(contestant):
        return contestant.library != "tbccl"

    ours = fastest(times, bytes_, lambda c: c.column == our_column)
    if ours is None:
        return None
    cells = {}
    for column in PEER_COLUMNS:
        found = fastest(times, bytes_, lambda c, column=column: c.column == column)
        if found:
            cells[column] = found[0]
    best = fastest(times, bytes_, lambda c: is_peer(c) and c.counted)
    defaults = fastest(times, bytes_, lambda c: is_peer(c) and c.counted and c.defaults)
    tuned = cells.get("openmpi tuned")
    return Row(bytes_, ours[0], cells, best[1] if best else None,
               ratio_between(times[best[1]][bytes_], times[ours[1]][bytes_]) if best else None,
               defaults[0] / ours[0] if defaults else None, tuned / ours[0] if tuned else None)


def rows_of(times, sizes, our_column):
    rows = [row_of(times, bytes_, our_column) for bytes_ in sizes]
    return [row for row in rows if row is not None]


def geometric_mean(values):
    values = [value for value in values if value is not None]
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


@dataclass(frozen=True)
class Summary:
    mean: float
    mean_defaults: float
    mean_tuned_openmpi: float
    worst: Row
    slower: list
    even: list


def summary_of(rows):
    """None if nothing was compared."""
    compared = [row for row in rows if row.ratio is not None]
    if not compared:
        return None
    return Summary(geometric_mean([row.ratio.value for row in compared]),
                   geometric_mean([row.defaults for row in rows]),
                   geometric_mean([row.tuned_openmpi for row in rows]),
                   min(compared, key=lambda row: row.ratio.value),
                   [row.bytes for row in compared if row.ratio.verdict == "slower"],
                   [row.bytes for row in compared if row.ratio.verdict == "even"])
