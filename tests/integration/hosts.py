"""Four hosts in a ring or a mesh, one rank each: hosts.py PERF ring|mesh

Sweeps over shaped cables are right, and the cables, not the management network, carry them."""

import sys

from job import Job, check, check_verified
from lab import Lab, need_namespaces

perf, kind = sys.argv[1], sys.argv[2]
need_namespaces()

with Lab(kind, 4, 1, "200mbit") as lab:
    for words in (["all_reduce", "-b", "16", "-e", "1M", "-f", "16", "-n", "2", "-c", "1",
                   "-d", "float,bfloat16,int8", "-o", "sum,avg"],
                  ["broadcast", "-b", "1K", "-e", "1M", "-f", "32", "-n", "2", "-r", "all"],
                  ["sendrecv", "-b", "1K", "-e", "1M", "-f", "32", "-n", "2"]):
        before = lab.management_bytes()
        with Job() as job:
            lab.start_ranks(job, [perf, *words], {"TBCCL_TIMEOUT": "60"})
            job.wait(90)
            for rank in job.ranks:
                check(rank.status == 0, f"{words[0]}: {rank.name} ended with {rank.status}")
            check_verified(job.ranks[0], words[0])
        used = lab.management_bytes() - before
        # In a ring, ranks that face each other have no cable: what a broadcast tree or a
        # rendezvous sends between them may use the network. All neighbours' bulk may not.
        print(f"{kind} {words[0]}: {used} bytes on the management network")
        if kind == "mesh" or words[0] == "sendrecv":
            check(used < 1_000_000, f"{words[0]} sent {used} bytes over the management network")
