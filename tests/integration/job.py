"""Ranks of one job as child processes: started, watched, ended by process id, never left behind."""

import os
import select
import signal
import socket
import subprocess
import sys
import time

SKIPPED = 77


def skip(reason):
    print(f"SKIPPED: {reason}", flush=True)
    sys.exit(SKIPPED)


def fail(text):
    print(f"FAILED: {text}", flush=True)
    sys.exit(1)


def check(condition, text):
    if not condition:
        fail(text)


class Port:
    """A port of 127.0.0.1 that nobody else is given while this exists: bound, not listening. A
    listener that allows the address to be reused may use it all the same."""

    def __init__(self):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", 0))
        self.number = self.socket.getsockname()[1]


class Rank:
    """One process; its output (both streams) is collected as it comes."""

    def __init__(self, name, command, environment):
        self.name = name
        self.output = ""
        self.ended_at = None
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT)
        os.set_blocking(self.process.stdout.fileno(), False)

    @property
    def status(self):
        return self.process.returncode

    def read(self):
        while True:
            try:
                data = os.read(self.process.stdout.fileno(), 65536)
            except BlockingIOError:
                return
            if not data:
                return
            self.output += data.decode(errors="replace")

    def poll(self):
        """True when the process has ended."""
        self.read()
        if self.ended_at is None and self.process.poll() is not None:
            self.ended_at = time.monotonic()
            self.read()
        return self.ended_at is not None

    def signal(self, number):
        self.process.send_signal(number)


class Job:
    """Used with `with`: whatever happens, no process is left."""

    def __init__(self):
        self.ranks = []

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        failed = kind is not None and not (kind is SystemExit and value.code in (0, SKIPPED))
        for rank in self.ranks:
            if not rank.poll():
                rank.process.kill()
            rank.process.wait()
            rank.read()
            rank.process.stdout.close()
        if failed:
            self.show()

    def start(self, command, environment=None, name=None):
        merged = {key: value for key, value in os.environ.items() if not key.startswith("TBCCL_")}
        merged.update(environment or {})
        rank = Rank(name or f"rank {len(self.ranks)}", command, merged)
        self.ranks.append(rank)
        return rank

    def show(self):
        for rank in self.ranks:
            print(f"---- {rank.name}: exit status {rank.status}\n{rank.output}", flush=True)

    def wait(self, seconds, ranks=None):
        """Waits until all (or the given) ranks have ended; fails when the time is over."""
        waited_for = self.ranks if ranks is None else ranks
        deadline = time.monotonic() + seconds
        while not all([rank.poll() for rank in waited_for]):
            self._sleep()
            if time.monotonic() > deadline:
                late = [rank.name for rank in waited_for if not rank.poll()]
                fail(f"not ended after {seconds} s: {', '.join(late)}")

    def wait_for(self, rank, text, seconds, times=1):
        """Waits until the rank's output holds the text so many times."""
        deadline = time.monotonic() + seconds
        while rank.output.count(text) < times:
            ended = rank.poll()
            if rank.output.count(text) >= times:
                return
            check(not ended, f"{rank.name} ended before it printed '{text}' {times} times")
            check(time.monotonic() < deadline,
                  f"{rank.name} did not print '{text}' {times} times within {seconds} s")
            self._sleep()

    def _sleep(self):
        # Keeps every pipe drained: a rank never blocks because nobody reads what it says.
        open_pipes = [rank.process.stdout for rank in self.ranks if rank.ended_at is None]
        select.select(open_pipes, [], [], 0.05)
        for rank in self.ranks:
            rank.poll()


def check_verified(rank, what):
    check(rank.status == 0, f"{what}: exit status {rank.status}")
    check("# Out of bounds values : 0 OK" in rank.output, f"{what}: no 'Out of bounds values : 0 OK'")


def start_ranks(job, count, command, environment=None):
    """`count` ranks on this machine, each a process of its own; returns the port they meet at."""
    port = Port()
    for rank in range(count):
        variables = {"TBCCL_RANK": str(rank), "TBCCL_SIZE": str(count),
                     "TBCCL_RENDEZVOUS": f"127.0.0.1:{port.number}"}
        variables.update(environment or {})
        job.start(command, variables)
    return port


signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # so that __exit__ runs
