"""What happens to three ranks when the fourth dies or stops: failures.py PERF killed|stopped"""

import signal
import sys
import time

from job import Job, check, start_ranks

perf, case = sys.argv[1], sys.argv[2]
VICTIM = 2
LINE = "262144         65536      float      sum"  # one is printed per cycle


def killed(job):
    """The others say who is gone, and end, within five seconds."""
    start_ranks(job, 4, [perf, "all_reduce", "-b", "256K", "-e", "256K", "-n", "5", "-N", "0"])
    job.wait_for(job.ranks[0], LINE, 60, times=2)
    victim = job.ranks[VICTIM]
    victim.signal(signal.SIGKILL)
    at = time.monotonic()
    others = [rank for rank in job.ranks if rank is not victim]
    job.wait(30, others)
    for rank in others:
        seconds = rank.ended_at - at
        check(seconds < 5, f"{rank.name} needed {seconds:.1f} s to end")
        check(rank.status == 2, f"{rank.name} ended with {rank.status}, not with an error")
        check(f"rank {VICTIM}" in rank.output.split("# Using ranks")[-1],
              f"{rank.name} does not name rank {VICTIM}")


def stopped(job):
    """A stopped process is left alone: it goes on where it was, and all is right."""
    start_ranks(job, 4, [perf, "all_reduce", "-b", "256K", "-e", "256K", "-n", "5", "-N", "20"])
    job.wait_for(job.ranks[0], LINE, 60, times=2)
    victim = job.ranks[VICTIM]
    victim.signal(signal.SIGSTOP)
    # Longer than the time after which silence of a kernel would mean a dead peer.
    time.sleep(7)
    ended = [rank.name for rank in job.ranks if rank.poll()]
    victim.signal(signal.SIGCONT)
    check(not ended, f"gave up on a stopped rank: {', '.join(ended)}")
    job.wait(90)
    for rank in job.ranks:
        check(rank.status == 0, f"{rank.name} ended with {rank.status}")


with Job() as running:
    {"killed": killed, "stopped": stopped}[case](running)
