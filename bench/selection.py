#!/usr/bin/env python3
"""Is the algorithm that is chosen the best one? For each group of ranks a tuning file is made there,
and with it every algorithm is measured beside the choice, at every power of two.

    python3 bench/selection.py PERF [--groups shm:2,shm:4,tcp:2,tcp:4,ring:4,mesh:4] [--most 4M]
                               [--rate 200mbit] [--collectives all_reduce,...] [--markdown FILE]

shm:N and tcp:N are N ranks on this host, over shared memory and loopback TCP; ring:N and mesh:N are
hosts (network namespaces, so root on Linux) with one cable of RATE between neighbours, where sizes end
at 1M. A row is wrong, and marked, if the choice takes more than 1.15 times as long as the best
algorithm, or less than 0.9 times as long as it does at half the size; a size is measured again, up to
three times, before that is said, and the shortest times count. Ends with status 1 if a row is wrong.

Ranks should not be more than processors: with more, times depend on which of them the system puts
together. What runs beside it spoils the tuning file as well as the check."""

import argparse
import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "integration"))

from job import Job, fail  # noqa: E402
from lab import Lab, need_namespaces  # noqa: E402

MOST_ON_CABLES = 1 << 20
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Local:
    """Ranks of this host: tbccl-perf starts them itself."""

    def __init__(self, transport, ranks):
        self.environment = {"TBCCL_TRANSPORT": transport}
        self.ranks = ranks

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        pass

    def start(self, job, words, environment):
        job.start([*words, "-g", str(self.ranks)], dict(self.environment, **environment))


class Hosts(Lab):
    """Ranks of hosts with cables."""

    def __init__(self, shape, hosts, rate):
        need_namespaces()
        super().__init__(shape, hosts, 1, rate)

    def start(self, job, words, environment):
        self.start_ranks(job, words, environment)


def run(group, perf, words, environment, seconds):
    """(status, output) of the first rank."""
    with Job() as job:
        group.start(job, [perf, *words], dict({"TBCCL_TIMEOUT": "100"}, **environment))
        job.wait(seconds)
        return job.ranks[0].status, job.ranks[0].output


def rows(output):
    """The rows of --check-selection: (collective, words of the row, whether it is wrong)."""
    collective = ""
    for line in output.splitlines():
        words = line.split()
        if line.startswith("# ") and "growth" in words:
            collective = words[1]
        elif line.startswith("  ") and len(words) >= 7 and words[0].isdigit():
            yield collective, words[:7], len(words) > 7


def size(text):
    return int(text[:-1]) * UNITS[text[-1]] if text[-1] in UNITS else int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("perf", help="path of tbccl-perf")
    parser.add_argument("--groups", default="shm:2,shm:4,tcp:2,tcp:4,ring:4,mesh:4")
    parser.add_argument("--most", default="4M", help="largest size (default: 4M)")
    parser.add_argument("--rate", default="200mbit", help="of a cable (default: 200mbit)")
    parser.add_argument("--collectives", default="", help="only these (default: all with a choice)")
    parser.add_argument("--seconds", type=int, default=1500, help="that one run may take")
    parser.add_argument("--markdown", help="write the worst rows of each group there")
    options = parser.parse_args()
    table = ["| group | collective | sizes | wrong | worst to the best | at | least growth | at |",
             "|---|---|---:|---:|---:|---:|---:|---:|"]
    print("\n".join(table), flush=True)
    wrong = 0
    for name in options.groups.split(","):
        kind, _, number = name.partition(":")
        cables = kind in ("ring", "mesh")
        group = Hosts(kind, int(number), options.rate) if cables else Local(kind, int(number))
        most = min(size(options.most), MOST_ON_CABLES) if cables else size(options.most)
        found = {}
        with group, tempfile.TemporaryDirectory() as folder:
            tuning = os.path.join(folder, "tuning.json")
            for collective in options.collectives.split(","):
                words = [*([collective] if collective else []), "-b", "8", "-e", str(most), "-f", "2"]
                status, output = run(group, options.perf, [*words, "--tune", tuning], {}, options.seconds)
                if status != 0:
                    fail(f"{name}: tuning ended with status {status}:\n{output}")
                status, output = run(group, options.perf, [*words, "--check-selection"],
                                     {"TBCCL_TUNING": tuning}, options.seconds)
                for what, row, bad in rows(output):
                    found.setdefault(what, []).append((row, bad))
                    if bad:
                        print(f"  wrong: {name} {what}: {' '.join(row)}", flush=True)
                if not found:
                    fail(f"{name}: checking ended with status {status}:\n{output}")
        for what, checked in found.items():
            bad = sum(b for _, b in checked)
            wrong += bad
            worst = max(checked, key=lambda entry: float(entry[0][5]))[0]
            grown = [row for row, _ in checked if row[6] != "-"]
            least = min(grown, key=lambda row: float(row[6])) if grown else ["-"] * 7
            table.append(f"| {name} | {what} | {len(checked)} | {bad} | {worst[5]} | {worst[0]} | "
                         f"{least[6]} | {least[0]} |")
            print(table[-1], flush=True)
    if options.markdown:
        with open(options.markdown, "w", encoding="utf-8") as file:
            file.write("\n".join(table) + "\n")
    print(f"# {wrong} rows are wrong", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
