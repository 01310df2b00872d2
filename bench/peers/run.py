#!/usr/bin/env python3
"""tbccl beside Gloo, Open MPI and MPICH, on this machine.

Builds a driver per installed library, runs all in turn (A B A B, a round after the other, one group
of sizes at a time, so that a slow minute of the machine hits all alike), and prints the median
times and the ratio of the best other library to tbccl. README.md has the rules.

    bench/peers/run.py                        everything; two to three hours on two idle processors
    bench/peers/run.py --quick                all-reduce of 2 ranks at five sizes; under 3 minutes
    bench/peers/run.py --mode host --collective all_reduce --ranks 2 --max 1M --rounds 9
    bench/peers/run.py --filter 'host/all_reduce/2/*M' --filter '*/barrier/*'
    bench/peers/run.py --markdown peers.md --csv peers.csv --svg plots

Debian: apt-get install libgloo-dev openmpi-bin libopenmpi-dev mpich libmpich-dev
"""

import argparse
import fnmatch
import os
import shlex
import signal
import sys
import tempfile
import time

from scoreboard import build, contestants, machine, plot, report, sizes
from scoreboard.measuring import Rounds, Section

QUICK_SIZES = [8, 2 << 10, 64 << 10, 2 << 20, 32 << 20]


def say(text):
    print(f"# {text}", file=sys.stderr, flush=True)


def words(allowed):
    """A comma-separated list of these words."""
    def parse(text):
        found = [word for word in text.split(",") if word]
        unknown = [word for word in found if word not in allowed]
        if unknown or not found:
            raise argparse.ArgumentTypeError(f"{text!r}: choose from {', '.join(allowed)}")
        return found
    return parse


def numbers(text):
    found = [int(word) for word in text.split(",")]
    if min(found) < 2:
        raise argparse.ArgumentTypeError(f"{text!r}: at least two ranks")
    return found


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    others = [name for name in build.LIBRARIES if name != "tbccl"]
    add("--mode", type=words(contestants.MODES), default=list(contestants.MODES),
        help="tcp (loopback), host (each library's own choice), memalloc (tbcclMemAlloc); all")
    add("--collective", type=words(contestants.COLLECTIVES),
        help=f"{','.join(contestants.COLLECTIVES)}; all")
    add("--ranks", type=numbers, help="numbers of ranks (2,4)")
    add("--min", type=sizes.parse, help="smallest size in bytes (8)")
    add("--max", type=sizes.parse, help="largest size (256M)")
    add("--factor", type=int, help="between sizes (4)")
    add("--filter", action="append", default=[],
        help="only rows mode/collective/ranks/size that match this pattern; may be repeated")
    add("--rounds", type=int, help="runs of each contestant (5)")
    add("--batches", type=int, help="batches per size and run (5)")
    add("--batch-ms", type=int, help="length of a batch (30)")
    add("--keep", type=int, help="best variants of a library that are measured (4)")
    add("--limit", type=int, help="seconds a run may take (240)")
    add("--only", type=words(others), default=others,
        help=f"only these others: {','.join(others)}")
    add("--show-mpich", action="store_true",
        help="measure MPICH also with more ranks than processors; marked, not counted")
    add("--minutes", type=float,
        help="leave out rounds rather than measure for longer (no limit; --quick: 2.5)")
    add("--quick", action="store_true",
        help="a first look: all_reduce, 2 ranks, five sizes, 3 short rounds, unless told otherwise")
    add("--library", default=os.path.join(build.ROOT, "build", "release"),
        help="folder that libtbccl was built in (build/release)")
    add("--csv", help="write every figure to this file")
    add("--markdown", help="write the tables to this file")
    add("--overview", help="write the ratios alone there, a row per collective")
    add("--svg", help="write a plot per table into this folder")
    return with_defaults(parser.parse_args())


def with_defaults(options):
    usual = {"collective": list(contestants.COLLECTIVES), "ranks": [2, 4], "rounds": 5,
             "batches": 5, "batch_ms": 30, "keep": 4, "limit": 240, "minutes": None}
    quick = {"collective": ["all_reduce"], "ranks": [2], "rounds": 3, "batches": 3,
             "batch_ms": 15, "keep": 2, "limit": 20, "minutes": 2.5}
    for name, value in (quick if options.quick else usual).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    options.rounds = max(options.rounds, 1)
    if options.quick and options.min is options.max is options.factor is None:
        options.sizes = QUICK_SIZES
    else:
        options.sizes = sizes.listed(options.min or 8, options.max or 256 << 20,
                                     options.factor or 4)
    return options


def wanted(options, mode, collective, ranks):
    """The sizes of one table that the filters leave."""
    listed = [0] if collective in contestants.WITHOUT_SIZE else options.sizes
    if mode == "memalloc" and collective in contestants.WITHOUT_SIZE:
        return []
    if ranks % 2 != 0 and collective in contestants.IN_PAIRS:
        return []
    return [bytes_ for bytes_ in listed if not options.filter or any(
        fnmatch.fnmatchcase(f"{mode}/{collective}/{ranks}/{sizes.human(bytes_)}", pattern)
        for pattern in options.filter)]


def sections(options):
    """Modes that differ in tbccl's part alone are measured together."""
    out = []
    for ranks in options.ranks:
        for network in ("tcp", "host"):
            modes = [mode for mode in options.mode if contestants.MODES[mode][0] == network]
            for collective in options.collective:
                by_mode = {mode: wanted(options, mode, collective, ranks) for mode in modes}
                by_mode = {mode: found for mode, found in by_mode.items() if found}
                if by_mode:
                    out.append(Section(network, collective, ranks, by_mode))
    return out


def write_files(options, tables, about):
    """After every section, so that an interrupted run leaves what it has found."""
    if options.csv:
        report.write_csv(options.csv, tables)
    if options.markdown:
        report.write_markdown(options.markdown, tables, about)
    if options.overview:
        report.write_overview(options.overview, tables, about)
    if options.svg:
        os.makedirs(options.svg, exist_ok=True)
        for table in tables:
            path = os.path.join(options.svg, table.file_name + ".svg")
            with open(path, "w", encoding="utf-8") as file:
                file.write(plot.svg(table))


def measure(options, programs, about):
    """Prints and writes all tables; whether tbccl failed anywhere."""
    tables, failed = [], False
    todo = sections(options)
    if not todo:
        sys.exit("no row is left by these options")
    share = options.minutes * 60 / len(todo) if options.minutes else None
    for i, section in enumerate(todo):
        times = Rounds(section, programs, options, say, share).measure()
        failed = failed or any(each.library == "tbccl" for each in times.failures)
        for mode in section.modes:
            table = report.table_of(mode, contestants.MODES[mode][1], section, times)
            if table.rows:
                tables.append(table)
                print(report.text(table), flush=True)
        write_files(options, tables, about)
        say(f"{i + 1} of {len(todo)} sections done")
    return failed


def main():
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    start = time.monotonic()
    load = machine.load()
    if load > machine.BUSY:
        say(f"the load is {load:.1f}: others use this machine, and it will show in the figures")
    with tempfile.TemporaryDirectory() as folder:
        try:
            programs = build.build(folder, os.path.abspath(options.library), options.only, say)
        except build.CannotBuild as problem:
            sys.exit(str(problem))
        if "memalloc" in options.mode and not build.has_memory(programs["tbccl"]):
            say("mode memalloc is left out: this libtbccl has no tbcclMemAlloc")
            options.mode.remove("memalloc")
        command = "bench/peers/run.py " + shlex.join(sys.argv[1:])
        about = [f"    {command.strip()}", "", *machine.about(programs, load)]
        failed = measure(options, programs, about)
    say(f"{(time.monotonic() - start) / 60:.0f} minutes in all")
    if failed:
        sys.exit("tbccl failed in some run: see the messages above")


if __name__ == "__main__":
    main()
