"""Verified sweeps with several ranks on this machine: sweeps.py PERF MODE RANKS [ALGORITHM] [--shm] [--long]

MODE all_reduce: all types and operators; broadcast: every root; sendrecv: around the ring; every other
operation by its name in tbccl-perf."""

import sys

from job import Job, check_verified

perf, mode, ranks = sys.argv[1], sys.argv[2], int(sys.argv[3])
names = [argument for argument in sys.argv[4:] if not argument.startswith("--")]
algorithm = names[0] if names else ""
long = "--long" in sys.argv

# More ranks than cores cost time; the issue's own form is `tests/README.md`'s long one.
factor = "4" if ranks <= 4 or long else "16"
SIZES = ["-b", "16", "-e", "1M", "-f", factor, "-n", "2", "-w", "1", "-c", "1"]
SWEEPS = {
    "all_reduce": [*SIZES, "-d", "all", "-o", "all"],
    # One forced algorithm: the types that differ in element size and in rounding.
    "algorithm": ["-b", "16", "-e", "1M", "-f", "16", "-n", "1", "-w", "0", "-c", "1", "-d",
                  "all" if long else "int8,float,bfloat16,complex128", "-o", "all"],
    "broadcast": [*SIZES, "-r", "all", "-d", "uint8,int64"],
    "sendrecv": [*SIZES, "-d", "uint8,double"],
    "odd": ["-b", "0", "-e", "4099", "-i", "241", "-n", "1", "-w", "0", "-c", "2", "-u", "1", "-d",
            "uint8,half,float", "-o", "sum,avg"],
    # Few sizes: one of less than an element a rank, small, of several segments.
    "others": ["-b", "8", "-e", "256K", "-f", "181", "-n", "1", "-w", "0", "-c", "1", "-r", "all"],
    "ahead": ["-b", "8", "-e", "1M", "-f", "8", "-z", "0", "-m", "3", "-n", "6", "-c", "1"],
}

collective = "all_reduce" if mode in ("algorithm", "odd", "ahead") else mode
if mode not in SWEEPS:
    combines = mode.startswith("reduce") or mode.endswith("scan")
    SWEEPS[mode] = [*SWEEPS["others"], "-d", "int8,half,double,complex64" if combines else "uint8,double",
                    "-o", "sum,avg,prod"]
environment = {"TBCCL_TIMEOUT": "60",
               "TBCCL_TRANSPORT": "shm" if "--shm" in sys.argv else "tcp"}
if algorithm:
    collective = "broadcast" if algorithm in ("tree", "chain") else "all_reduce"
    environment["TBCCL_ALGO"] = ("broadcast:" if collective == "broadcast" else "allreduce:") + algorithm
    if collective == "broadcast":
        SWEEPS["algorithm"] = SWEEPS["broadcast"]

with Job() as job:
    rank = job.start([perf, collective, "-g", str(ranks), *SWEEPS[mode]], environment, "tbccl-perf")
    job.wait(900 if long else 280)
    check_verified(rank, f"{collective} with {ranks} ranks")
