#!/usr/bin/env python3
"""Collectives on shaped cables against the lower bound of the cabling, and against the prediction.

    python3 bench/cables.py PERF [--shapes ring,mesh,mesh-1] [--rate 100mbit] [--size 64M]
                            [--calls 3] [--collectives all_reduce,...] [--markdown FILE]

Four hosts (network namespaces, so root on Linux), one cable between neighbours. mesh-1 is a mesh
without the cable between hosts 0 and 1. For each shape the rate of a single raw TCP flow over one
cable is measured first: that is the rate of a cable in the bounds. Then CALLS calls run back to
back; a row shows their mean time, the bound (flows over the cabling), the share of it that was
reached, what the simulation had predicted, and the bytes of the management network as a share of
the vector."""

import argparse
import json
import os
import socket
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "integration"))

from job import Job, check, check_verified, fail  # noqa: E402
from lab import Lab, need_namespaces  # noqa: E402

HOSTS = 4
FLOW = """
import socket, sys, time
role, here, there, seconds = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
if role == "to":
    listener = socket.create_server((here, 7200))
    listener.settimeout(20)
    print("listening", flush=True)
    peer, _ = listener.accept()
    peer.settimeout(20)
    total, start = 0, None
    while data := peer.recv(1 << 18):
        now = time.monotonic()
        if start is None or now - start < 0.3 and total == 0:
            start = start or now
            if now - start < 0.3:
                continue
        if total == 0:
            begin = now
        total += len(data)
        end = now
    print("rate", (total - len(data)) / (end - begin), flush=True)
else:
    peer = socket.create_connection((there, 7200), timeout=20)
    data, until = bytes(1 << 18), time.monotonic() + seconds
    while time.monotonic() < until:
        peer.sendall(data)
"""


def raw_rate(lab, seconds=3.0):
    """Bytes a second of one TCP flow over the first cable, without its first 0.3 s."""
    with open(lab.cabling, encoding="utf-8") as file:
        ends = json.load(file)["cables"][0]["ends"]
    script = [sys.executable, "-c", FLOW]
    with Job() as job:
        receiver = job.start(lab.command(ends[1]["rank"], [*script, "to", ends[1]["address"], "-", "0"]))
        job.wait_for(receiver, "listening", 20)
        job.start(lab.command(ends[0]["rank"],
                              [*script, "from", ends[0]["address"], ends[1]["address"], str(seconds)]))
        job.wait(30)
        for line in receiver.output.splitlines():
            if line.startswith("rate "):
                return float(line.split()[1])
    return fail("the raw flow was not measured")


def keep_cables(lab, shape, rate):
    """Rewrites the lab's file of cables: with the measured rate, and without the missing one."""
    with open(lab.cabling, encoding="utf-8") as file:
        cables = json.load(file)["cables"]
    if shape == "mesh-1":
        cables = [c for c in cables if {e["rank"] for e in c["ends"]} != {0, 1}]
    for cable in cables:
        cable["rate"] = f"{rate:.0f}B"
    with open(lab.cabling, "w", encoding="utf-8") as file:
        json.dump({"cables": cables}, file)


def predict(perf, lab, collective, size, folder):
    """(bound, simulated time of the chosen algorithm, its name), in seconds."""
    path = os.path.join(folder, f"{collective}.prediction.json")
    with Job() as job:
        job.start([perf, collective, "--simulate", lab.cabling, "-b", size, "-e", size, "-J", path])
        job.wait(60)
        check(job.ranks[0].status == 0, f"prediction of {collective} failed")
    with open(path, encoding="utf-8") as file:
        text = json.load(file)
    text = text[0] if isinstance(text, list) else text
    simulation = text["simulations"][0] if "simulations" in text else text
    rows = [r for r in simulation["results"] if r.get("chosen")]
    check(rows, f"no prediction of {collective} in {path}")
    return rows[0]["bound_us"] / 1e6, rows[0]["simulated_us"] / 1e6, rows[0]["algorithm"]


def measure(perf, lab, collective, size, calls):
    """(mean time of a call in seconds, bytes on the management network)."""
    before = lab.management_bytes()
    with tempfile.TemporaryDirectory() as folder, Job() as job:
        words = [perf, collective, "-b", size, "-e", size, "-n", str(calls), "-w", "1", "-c", "1",
                 "-T", "120", "-J", os.path.join(folder, "r.json")]
        lab.start_ranks(job, words, {"TBCCL_TIMEOUT": "120"})
        job.wait(600)
        check_verified(job.ranks[0], collective)
        rows = [line.split() for line in job.ranks[0].output.splitlines()
                if line.strip() and line.split()[0].isdigit()]
        times = [float(rows[0][5])]
    return times[0] / 1e6, lab.management_bytes() - before


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("perf", help="path of tbccl-perf")
    parser.add_argument("--shapes", default="ring,mesh,mesh-1")
    parser.add_argument("--rate", default="100mbit")
    parser.add_argument("--size", default="64M")
    parser.add_argument("--calls", type=int, default=3)
    parser.add_argument("--collectives", default="all_reduce,all_gather,reduce_scatter,broadcast")
    parser.add_argument("--markdown", help="write the table there, too")
    options = parser.parse_args()
    need_namespaces()
    lines = ["| cabling | collective | algorithm | measured s | bound s | reached | simulated s | "
             "measured / simulated | management |",
             "|---|---|---|---|---|---|---|---|---|"]
    print("\n".join(lines), flush=True)
    scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    size = int(options.size[:-1]) * scale[options.size[-1]]
    for shape in options.shapes.split(","):
        with Lab(shape.split("-")[0], HOSTS, 1, options.rate) as lab, \
                tempfile.TemporaryDirectory() as folder:
            rate = raw_rate(lab)
            keep_cables(lab, shape, rate)
            print(f"# {shape}: raw flow {rate / 1e6:.3f} MB/s", flush=True)
            for collective in options.collectives.split(","):
                bound, simulated, algorithm = predict(options.perf, lab, collective, options.size,
                                                      folder)
                seconds, management = measure(options.perf, lab, collective, options.size,
                                              options.calls)
                share = management / size / (2 * options.calls + 3)
                lines.append(f"| {shape} | {collective} | {algorithm} | {seconds:.3f} | {bound:.3f} | "
                             f"{100 * bound / seconds:.1f} % | {simulated:.3f} | "
                             f"{seconds / simulated:.3f} | {100 * share:.2f} % |")
                print(lines[-1], flush=True)
    if options.markdown:
        with open(options.markdown, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
