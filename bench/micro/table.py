#!/usr/bin/env python3
"""Runs micro-reduce in short pieces and prints its tables: GB/s of one vector, and ratios.

    python3 bench/micro/table.py [--runs N] [--all] [PREFIX...] PROGRAM

A piece holds what is compared, and is run N times; a row is its best run, because whatever else the
machine does only ever slows one down. PREFIX is for example `chrt -f 10`.
"""
import argparse
import csv
import subprocess
import sys

NEAR, FAR = 256 << 10, 256 << 20
PLACES = [("in-place", "a += b"), ("apart", "c = a + b"), ("two-places", "c = d = a + b"),
          ("then-copy", "c = a + b, then memcpy"), ("fold4", "e = a + b + c + d")]


def run(command, pattern, runs):
    """{row name: best GB/s}"""
    best = {}
    for _ in range(runs):
        out = subprocess.run(command + ["--benchmark_filter=^(" + pattern + ")$", "--benchmark_format=csv",
                                        "--benchmark_min_time=0.03"],
                             check=True, capture_output=True, text=True).stdout
        for row in csv.reader(out.splitlines()):
            if len(row) > 5 and row[5] and row[0] != "name":
                best[row[0]] = max(best.get(row[0], 0), float(row[5]) / 1e9)
    return best


def main_table(command, targets, size, runs):
    print("| type | what | " + " | ".join(targets) + " | of the float loop | of memcpy |")
    print("|---|---|" + "---|" * (len(targets) + 2))
    for kind in ("float", "bfloat16", "half"):
        names = {t: [f"{t}/{place}/{kind}/sum/{size}" for place, _ in PLACES] for t in targets}
        references = [f"memory_copy/{size}", f"memory_read/{size}", f"plain_float_in_place/{size}",
                      f"plain_float_apart/{size}", f"plain_bfloat16/{size}"]
        best = run(command, "|".join(references + sum(names.values(), [])), runs)
        if kind == "float":
            for name in references:
                print(f"| | {name.split('/')[0]} | {best[name]:.1f} |" + " |" * (len(targets) + 1))
        for i, (place, what) in enumerate(PLACES):
            values = [best[names[t][i]] for t in targets]
            loop = {"in-place": "plain_float_in_place", "apart": "plain_float_apart"}.get(place)
            ratio = f"{values[0] / best[f'{loop}/{size}']:.2f}" if loop else ""
            # memcpy moves two bytes for one, a += b three.
            copy = f"{values[0] / (best[f'memory_copy/{size}'] / 1.5):.2f}" if place == "in-place" else ""
            print(f"| {kind} | {what} | " + " | ".join(f"{v:.1f}" for v in values) +
                  f" | {ratio} | {copy} |")


def all_table(command, targets, runs):
    best = {}
    for target in targets:
        best.update(run(command, f"{target}/all/.*/{NEAR}", runs))
    kinds, ops = [], []
    for name in best:
        _, _, kind, op, _ = name.split("/")
        kinds += [kind] if kind not in kinds else []
        ops += [op] if op not in ops else []
    print("| type | " + " | ".join(ops) + " |")
    print("|---|" + "---|" * len(ops))
    for kind in kinds:
        cells = []
        for op in ops:
            values = [best.get(f"{t}/all/{kind}/{op}/{NEAR}") for t in targets]
            cells.append(" / ".join(f"{v:.1f}" for v in values) if values[0] else "")
        print(f"| {kind} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--all", action="store_true", help="also every type and operator, in the near cache")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if not options.command:
        parser.error("which program?")
    listed = subprocess.run(options.command + ["--benchmark_list_tests"], check=True, capture_output=True,
                            text=True).stdout
    targets = []
    for name in listed.split():
        target = name.split("/")[0]
        if name.count("/") == 4 and target not in targets:
            targets.append(target)
    for size, where in ((NEAR, "256 KiB a vector"), (FAR, "256 MiB a vector")):
        print(f"\n{where}, GB/s of one vector\n")
        main_table(options.command, targets, size, options.runs)
    if options.all:
        print(f"\na = a op b, 256 KiB, GB/s: {' / '.join(targets)}\n")
        all_table(options.command, targets, options.runs)


sys.exit(main())
