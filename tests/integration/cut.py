"""Two hosts joined by two cables, of which one is cut and mended while verified all-reduces run:
cut.py PERF

No wrong element, no error; and the cable is used again after it was mended."""

import sys

from job import Job, check, check_verified
from lab import Lab, need_namespaces

perf = sys.argv[1]
need_namespaces()

CYCLES = 60  # about a quarter of a second each
LINE = "1048576        262144      float      sum"  # one is printed per cycle


def trunk_bytes(lab, trunk):
    return int(lab.run("bytes", "0", f"tb1.{trunk}"))


with Lab("ring", 2, 2, "200mbit") as lab, Job() as job:
    lab.start_ranks(job, [perf, "all_reduce", "-b", "1M", "-e", "1M", "-n", "3", "-w", "0", "-c", "1",
                          "-N", str(CYCLES)], {"TBCCL_TIMEOUT": "60"})
    first = job.ranks[0]
    job.wait_for(first, LINE, 60, times=3)
    check(trunk_bytes(lab, 0) > 1_000_000 and trunk_bytes(lab, 1) > 1_000_000,
          "both cables should carry data before the cut")
    lab.run("cut", "0", "1", "1")
    job.wait_for(first, LINE, 60, times=10)
    lab.run("mend", "0", "1", "1")
    mended = trunk_bytes(lab, 1)
    job.wait(120)
    for rank in job.ranks:
        check(rank.status == 0, f"{rank.name} ended with {rank.status}")
    check_verified(first, "all_reduce while a cable was cut and mended")
    check(trunk_bytes(lab, 1) - mended > 1_000_000, "the mended cable was not used again")
