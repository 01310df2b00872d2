"""Rounds: every contestant in turn, A B A B, one group of sizes after the other."""

import statistics
import time
from dataclasses import dataclass, field
from types import SimpleNamespace

from . import contestants, running, sizes

# A variant that is this close to the best of its library at a size does as well as the best.
CLOSE = 1.05
# Times a contestant may fail in one section before it is left out of it.
PATIENCE = 2


@dataclass(frozen=True)
class Section:
    """What is measured side by side."""
    network: str
    collective: str
    ranks: int
    wanted: dict  # {mode: sizes of its table}

    @property
    def modes(self):
        return tuple(self.wanted)

    @property
    def sizes(self):
        return sorted({bytes_ for each in self.wanted.values() for bytes_ in each})

    @property
    def name(self):
        return f"{self.network}, {self.collective}, {self.ranks} ranks"


@dataclass
class Times:
    """{contestant: {bytes: [microseconds of each round]}}; a round without a figure is None."""
    rounds: int
    times: dict = field(default_factory=dict)
    failures: dict = field(default_factory=dict)  # {contestant: [why]}

    def add(self, contestant, round_, figures):
        for bytes_, time_ in figures.items():
            row = self.times.setdefault(contestant, {}).setdefault(bytes_, [None] * self.rounds)
            row[round_] = time_

    def fail(self, contestant, why):
        self.failures.setdefault(contestant, []).append(why)

    def is_out(self, contestant):
        return len(self.failures.get(contestant, [])) >= PATIENCE


def best_cover(found, group, most):
    """The fewest variants of a library such that at each size one is close to its best; not more
    than `most`, those first that do so at more sizes.

    found: {contestant: {bytes: microseconds}}
    """
    chosen = []
    open_sizes = [bytes_ for bytes_ in group if any(bytes_ in each for each in found.values())]
    while open_sizes and len(chosen) < most:
        def covers(contestant, left=tuple(open_sizes)):
            by_size = found[contestant]
            return [bytes_ for bytes_ in left if bytes_ in by_size and by_size[bytes_] <=
                    CLOSE * min(each[bytes_] for each in found.values() if bytes_ in each)]
        best = max(found, key=lambda contestant: len(covers(contestant)))
        chosen.append(best)
        done = covers(best)
        open_sizes = [bytes_ for bytes_ in open_sizes if bytes_ not in done]
    return chosen


class Clock:
    """Of something that may take so many seconds; None: as many as it takes."""

    def __init__(self, seconds):
        self.start = time.monotonic()
        self.seconds = seconds

    def elapsed(self):
        return time.monotonic() - self.start

    def is_late(self, share):
        """Whether this share of the time is used up."""
        return self.seconds is not None and self.elapsed() > share * self.seconds


class Rounds:
    """Measures one section."""

    def __init__(self, section, programs, options, say, seconds=None):
        self.section = section
        self.programs = programs
        self.options = options
        self.say = say
        self.times = Times(options.rounds)
        self.seconds = seconds  # that may be spent; None: as many as it takes

    def run_one(self, contestant, group, options):
        """The figures of one run, or None after a failure."""
        inside = [bytes_ for bytes_ in group if bytes_ <= contestant.most]
        if not inside or self.times.is_out(contestant):
            return None
        try:
            return running.run(contestant, self.programs[contestant.library],
                               self.section.collective, self.section.ranks, inside, options)
        except running.Failure as failure:
            self.times.fail(contestant, str(failure))
            out = "; left out" if self.times.is_out(contestant) else ""
            self.say(f"{self.section.name}, {sizes.human(inside[0])} to "
                     f"{sizes.human(inside[-1])}: {contestant.label}: {failure}{out}")
            return None

    def scout(self, family, group, clock, share):
        """The variants of one library that are worth measuring for this group of sizes, of those
        that this share of the time is enough to try."""
        if len(family) == 1:
            return family
        quick = SimpleNamespace(batch_ms=max(self.options.batch_ms // 2, 5),
                                batches=min(self.options.batches, 3), limit=self.options.limit)
        found = {}
        for contestant in family:
            figures = self.run_one(contestant, group, quick)
            if figures:
                found[contestant] = figures
            if clock.is_late(share):
                break
        return best_cover(found, group, self.options.keep)

    def measure(self):
        groups = sizes.grouped(self.section.sizes)
        if self.options.quick:
            groups = [self.section.sizes]
        for group in groups:
            self.measure_group(group, self.seconds / len(groups) if self.seconds else None)
        return self.times

    def measure_group(self, group, seconds):
        section, rounds = self.section, self.options.rounds
        clock = Clock(seconds)
        fixed, families = contestants.peers(self.programs, section.network, section.collective,
                                            section.ranks, self.options.show_mpich)
        turn = contestants.ours(section.network, section.modes) + fixed
        for i, family in enumerate(families):
            # What is left of the time is for the rounds.
            turn += self.scout(family, group, clock, 0.4 * (i + 1) / len(families))
        here = f"{section.name}: {sizes.human(group[0])} to {sizes.human(group[-1])}"
        for round_ in range(rounds):
            if round_ > 0 and clock.is_late((round_ + 1) / (rounds + 1)):
                self.say(f"{here}: the time is over after {round_} of {rounds} rounds")
                break
            for contestant in turn:
                figures = self.run_one(contestant, group, self.options)
                if figures:
                    self.times.add(contestant, round_, figures)
        self.say(f"{here} done, {clock.elapsed():.0f} s; in turn: "
                 + "; ".join(contestant.label for contestant in turn))


def median(row):
    """Of the rounds that have a figure; None if there is none."""
    present = [time_ for time_ in row if time_ is not None]
    return statistics.median(present) if present else None
