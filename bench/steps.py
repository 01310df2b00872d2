#!/usr/bin/env python3
"""An all-reduce of 8 bytes on a ring of four machines whose cables delay every packet: how many
delays it takes says how many steps it has.

    python3 bench/steps.py build/release/bin/tbccl-perf [--delay 20] [--calls 100]

Four virtual machines (tests/integration/rdmavm, which fetches a kernel and QEMU by Debian's
packages: root on Debian), one cable between neighbours, netem's delay at every cable end, ranks over
TCP. Prints the mean of CALLS back-to-back calls, one pair of clock readings around them all, in
milliseconds and in delays; ends with status 1 when that is more than 2.5 delays (two steps and the
emulated processors' own time)."""

import argparse
import json
import os
import shutil
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TESTS = os.path.join(ROOT, "tests", "integration")
sys.path.insert(0, TESTS)

from job import Job, check  # noqa: E402

HOSTS = 4
PAIRS = [(0, 1), (0, 3), (1, 2), (2, 3)]  # the order in which rdmavm lays the cables
GUEST = """
for end in /sys/class/net/en[0-9]*; do
  tc qdisc add dev "${{end##*/}}" root netem delay {delay}ms || exit 1
done
export TBCCL_RANK=$RDMAVM_HOST TBCCL_SIZE={hosts} TBCCL_RENDEZVOUS=10.99.0.1:7100
export TBCCL_CABLING=$PWD/cabling.json TBCCL_TIMEOUT=100
[ "$RDMAVM_HOST" != 0 ] || ./tbccl-perf all_reduce -b 8 -e 8 --explain
exec ./tbccl-perf all_reduce -b 8 -e 8 -n {calls} -w 5 -c 1 -J "$RDMAVM_OUT/result.json"
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("perf", help="path of tbccl-perf")
    parser.add_argument("--delay", type=int, default=20, help="milliseconds (default: 20)")
    parser.add_argument("--calls", type=int, default=100)
    options = parser.parse_args()
    cables = [{"ends": [{"rank": a, "address": f"169.254.{number}.1"},
                        {"rank": b, "address": f"169.254.{number}.2"}]}
              for number, (a, b) in enumerate(PAIRS)]
    # Below /tmp, because a virtual machine sees only the current folder of what is there.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, Job() as job:
        shutil.copy(options.perf, os.path.join(folder, "tbccl-perf"))
        with open(os.path.join(folder, "cabling.json"), "w", encoding="utf-8") as file:
            json.dump({"cables": cables}, file)
        with open(os.path.join(folder, "guest.sh"), "w", encoding="utf-8") as file:
            file.write(GUEST.format(delay=options.delay, hosts=HOSTS, calls=options.calls))
        os.chdir(folder)
        out = os.path.join(folder, "out")
        machines = job.start([os.path.join(TESTS, "rdmavm"), "-n", str(HOSTS), "-k", "1", "sh", "guest.sh"],
                             {"RDMAVM_OUT": out}, "rdmavm")
        job.wait(400)
        print(machines.output)
        check(machines.status == 0, f"the virtual machines ended with {machines.status}")
        with open(os.path.join(out, "0", "result.json"), encoding="utf-8") as file:
            row = json.load(file)["results"][0]
    mean = row["out_of_place"]["time"] / 1000
    print(f"mean of {options.calls} calls: {mean:.2f} ms, {mean / options.delay:.2f} delays of {options.delay} ms")
    check(row["out_of_place"]["nwrong"] == 0, "wrong results")
    check(mean <= 2.5 * options.delay, "more than 2.5 delays")


if __name__ == "__main__":
    main()
