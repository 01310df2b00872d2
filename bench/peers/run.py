#!/usr/bin/env python3
"""All-reduce of tbccl beside Gloo, Open MPI and MPICH, on this machine.

Builds what is installed, runs everything in turn (A B A B, a round after the other, one group of
sizes at a time, so that a slow minute of the machine hits all alike), takes the median over the
rounds, and prints times and the ratio of the best other library to tbccl.

    bench/peers/run.py                        2 and 4 ranks, 8 B to 256 MiB, 3 rounds
    bench/peers/run.py --ranks 2 --max 1M --rounds 5 --csv out.csv

Debian: apt-get install libgloo-dev openmpi-bin libopenmpi-dev mpich libmpich-dev
"""

import argparse
import csv
import math
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
GLOO = ["ring", "bcube", "ring_chunked", "halving_doubling"]
# Freed scratch memory is kept instead of being faulted in again by every call; helps the peers.
KEEP_MEMORY = {"MALLOC_TOP_PAD_": str(1 << 30), "MALLOC_MMAP_MAX_": "0",
               "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
GROUPS = [(8, 4 << 10), (8 << 10, 1 << 20), (2 << 20, 32 << 20), (64 << 20, 1 << 40)]


def size(text):
    units = {"K": 10, "M": 20, "G": 30}
    shift = units.get(text[-1:].upper(), 0)
    return int(text[:-1] if shift else text) << shift


def build(folder, library_folder, only):
    """Compiles a driver per installed library; returns {name: program} and says what is missing."""
    flags = ["-std=c++20", "-O3", "-I", os.path.join(ROOT, "include")]
    jobs = {
        "tbccl": ("c++", "ar_tbccl.cpp",
                  ["-L", library_folder, "-Wl,-rpath," + library_folder, "-ltbccl", "-pthread"]),
        "gloo": ("c++", "ar_gloo.cpp", ["-lgloo", "-pthread"]),
        "openmpi": ("mpicxx.openmpi", "ar_mpi.cpp", []),
        "mpich": ("mpicxx.mpich", "ar_mpi.cpp", []),
    }
    programs = {}
    for name, (compiler, source, rest) in jobs.items():
        if name != "tbccl" and only and name not in only:
            continue
        program = os.path.join(folder, "ar_" + name)
        if shutil.which(compiler) is None:
            print(f"# {name} is left out: {compiler} is not installed")
            continue
        done = subprocess.run([compiler, *flags, os.path.join(HERE, source), "-o", program, *rest],
                              capture_output=True, text=True, check=False)
        if done.returncode == 0:
            programs[name] = program
        elif name == "tbccl":
            sys.exit(f"tbccl's driver does not build (is {library_folder} built?):\n{done.stderr}")
        else:
            print(f"# {name} is left out: its driver does not build: "
                  f"{done.stderr.strip().splitlines()[0]}")
    return programs


def contestants(programs, ranks):
    """(library, label) pairs that are measured at this number of ranks."""
    out = [("tbccl", "tbccl")] if "tbccl" in programs else []
    if "gloo" in programs:
        out += [("gloo", "gloo " + algorithm) for algorithm in GLOO]
    if "openmpi" in programs:
        out.append(("openmpi", "openmpi"))
    # MPICH spins without yielding: with more ranks than cores its times say nothing about it.
    if "mpich" in programs and ranks <= (os.cpu_count() or 1):
        out.append(("mpich", "mpich"))
    return out


class Failure(Exception):
    pass


def run_all(commands, limit):
    """Runs the processes of one sweep to their end; the output of all of them."""
    processes = []
    try:
        for command, environment in commands:
            processes.append(subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL,
                                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                              text=True, start_new_session=True))
        deadline = time.monotonic() + limit
        texts = []
        for process in processes:
            try:
                text, errors = process.communicate(timeout=max(1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise Failure(f"no end after {limit} s") from None
            if process.returncode != 0:
                raise Failure(f"exit status {process.returncode}: {errors.strip()[-300:]}")
            texts.append(text)
        return "".join(texts)
    finally:
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, 15)  # its own session: mpirun and the ranks under it
                try:
                    process.wait(5)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, 9)
                    process.wait()


def commands_for(programs, name, label, ranks, variables, store, port):
    base = {key: value for key, value in os.environ.items() if not key.startswith("PEERS_")}
    base.update(variables)
    program = programs[name]
    if name == "tbccl":
        return [([program], dict(base, TBCCL_RANK=str(rank), TBCCL_SIZE=str(ranks),
                                 TBCCL_TRANSPORT="tcp", TBCCL_RENDEZVOUS=f"127.0.0.1:{port}"))
                for rank in range(ranks)]
    base.update(KEEP_MEMORY)
    if name == "gloo":
        return [([program, label.split()[1]], dict(base, PEERS_RANK=str(rank),
                                                   PEERS_RANKS=str(ranks), PEERS_STORE=store))
                for rank in range(ranks)]
    if name == "openmpi":
        base.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                    OMPI_MCA_btl_base_warn_component_unused="0")
        # Named, so that no other transport is picked: plain TCP over the loopback interface.
        return [(["mpirun.openmpi", "--oversubscribe", "-np", str(ranks), "--mca", "pml", "ob1",
                  "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo", program], base)]
    base.update(UCX_TLS="tcp,self", UCX_NET_DEVICES="lo", MPIR_CVAR_NOLOCAL="1")
    return [(["mpirun.mpich", "-np", str(ranks), program], base)]


def sweep(programs, name, label, ranks, least, most, options):
    """{bytes: microseconds} of one run over one group of sizes."""
    variables = {"PEERS_MIN": str(least), "PEERS_MAX": str(most),
                 "PEERS_FACTOR": str(options.factor), "PEERS_BATCH_MS": str(options.batch_ms),
                 "PEERS_BATCHES": str(options.batches)}
    with tempfile.TemporaryDirectory() as store, socket.socket() as held:
        # Bound and not listening: nobody else is given this port meanwhile.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        text = run_all(commands_for(programs, name, label, ranks, variables, store,
                                    held.getsockname()[1]), options.limit)
    out = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2 and words[0].isdigit():
            out[int(words[0])] = float(words[1])
    return out


def groups_of(sizes):
    """The sizes, in groups that are measured in one go."""
    out = []
    for least, most in GROUPS:
        inside = [bytes_ for bytes_ in sizes if least <= bytes_ <= most]
        if inside:
            out.append((inside[0], inside[-1]))
    return out


def measure(programs, ranks, sizes, options):
    """{label: {bytes: [microseconds of each round]}}"""
    times = {}
    failed = set()
    for least, most in groups_of(sizes):
        for round_ in range(options.rounds):
            for name, label in contestants(programs, ranks):
                if label in failed:
                    continue
                try:
                    result = sweep(programs, name, label, ranks, least, most, options)
                except Failure as failure:
                    print(f"# {label}, {ranks} ranks, {least} to {most} bytes: {failure}; left out")
                    failed.add(label)
                    continue
                for bytes_, time_ in result.items():
                    times.setdefault(label, {}).setdefault(bytes_, []).append(time_)
            print(f"# {ranks} ranks, {least} to {most} bytes: round {round_ + 1} of {options.rounds}",
                  file=sys.stderr, flush=True)
    return times


def best_of(times, bytes_, libraries):
    """(microseconds, label) of the fastest of these libraries at this size."""
    found = [(statistics.median(by_size[bytes_]), label) for label, by_size in times.items()
             if label.split()[0] in libraries and bytes_ in by_size]
    return min(found, default=None)


def human(bytes_):
    for unit, shift in (("G", 30), ("M", 20), ("K", 10)):
        if bytes_ >= 1 << shift and bytes_ % (1 << shift) == 0:
            return f"{bytes_ >> shift}{unit}"
    return str(bytes_)


def report(times, ranks, sizes, rows):
    peers = [name for name in ("gloo", "openmpi", "mpich")
             if any(label.split()[0] == name for label in times)]
    print(f"\n{ranks} ranks, in-place float32 sum over loopback TCP, median microseconds")
    print(f"{'bytes':>8} {'tbccl':>12}" + "".join(f" {name:>12}" for name in peers) +
          f" {'ratio':>7}  best other")
    ratios = []
    for bytes_ in sizes:
        ours = best_of(times, bytes_, ["tbccl"])
        best = best_of(times, bytes_, peers)
        cells = [best_of(times, bytes_, [name]) for name in peers]
        line = f"{human(bytes_):>8} " + " ".join(
            f"{entry[0]:12.2f}" if entry else f"{'-':>12}" for entry in [ours, *cells])
        if ours and best:
            ratio = best[0] / ours[0]
            ratios.append((ratio, bytes_))
            line += f" {ratio:6.2f}x  {best[1]}"
        print(line)
        for label, by_size in times.items():
            if bytes_ in by_size:
                rows.append([ranks, bytes_, label, statistics.median(by_size[bytes_]),
                             *by_size[bytes_]])
    if ratios:
        mean = math.exp(statistics.fmean(math.log(ratio) for ratio, _ in ratios))
        worst = min(ratios)
        slower = [human(bytes_) for ratio, bytes_ in ratios if ratio < 1]
        print(f"geometric mean {mean:.2f}x; worst {worst[0]:.2f}x at {human(worst[1])}; "
              f"slower at: {', '.join(slower) if slower else 'no size'}")


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="2,4", help="numbers of ranks (2,4)")
    parser.add_argument("--min", type=size, default=8, help="smallest size in bytes (8)")
    parser.add_argument("--max", type=size, default=256 << 20, help="largest size (256M)")
    parser.add_argument("--factor", type=int, default=4, help="between sizes (4)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each library (3)")
    parser.add_argument("--batches", type=int, default=5, help="batches per size and run (5)")
    parser.add_argument("--batch-ms", type=int, default=30, help="length of a batch (30)")
    parser.add_argument("--limit", type=int, default=240, help="seconds a run may take (240)")
    parser.add_argument("--only", default="", help="only these others: gloo,openmpi,mpich")
    parser.add_argument("--library", default=os.path.join(ROOT, "build", "release"),
                        help="folder that libtbccl was built in (build/release)")
    parser.add_argument("--csv", help="write every figure to this file as well")
    return parser.parse_args()


def main():
    options = parse()
    sizes = []
    bytes_ = options.min
    while bytes_ <= options.max:
        sizes.append(bytes_)
        bytes_ *= max(options.factor, 2)
    only = [name for name in options.only.split(",") if name]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        programs = build(folder, os.path.abspath(options.library), only)
        for ranks in [int(text) for text in options.ranks.split(",")]:
            report(measure(programs, ranks, sizes, options), ranks, sizes, rows)
    if options.csv:
        with open(options.csv, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["ranks", "bytes", "library", "median_us",
                             *[f"round_{i + 1}_us" for i in range(options.rounds)]])
            writer.writerows(rows)


if __name__ == "__main__":
    main()
