"""One run of one contestant: its processes, from their start to their end."""

import os
import signal
import socket
import subprocess
import tempfile
import time

# Settings of the user's shell that would change what is measured.
FOREIGN = ("PEERS_", "TBCCL_", "OMPI_", "PMIX_", "UCX_", "MPIR_", "MPICH_", "MALLOC_",
           "GLIBC_TUNABLES")


class Failure(Exception):
    """A run without figures, and why."""


def base_environment():
    return {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}


def commands(contestant, program, ranks, variables, store, port):
    """[(command, environment)], one per process to start."""
    base = dict(base_environment(), **variables, **dict(contestant.environment))
    driver = [program, *contestant.driver]
    if contestant.library == "tbccl":
        return [(driver, dict(base, TBCCL_RANK=str(rank), TBCCL_SIZE=str(ranks),
                              TBCCL_RENDEZVOUS=f"127.0.0.1:{port}")) for rank in range(ranks)]
    if contestant.library == "gloo":
        return [(driver, dict(base, PEERS_RANK=str(rank), PEERS_RANKS=str(ranks),
                              PEERS_STORE=store)) for rank in range(ranks)]
    launcher = ["mpirun." + contestant.library, *contestant.launcher, "-np", str(ranks)]
    if contestant.library == "openmpi":
        base.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                    OMPI_MCA_btl_base_warn_component_unused="0")
    return [(launcher + driver, base)]


def descendants(process_ids):
    """These processes and all below them: launchers put their ranks into groups of their own."""
    text = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True,
                          check=False).stdout
    pairs = [tuple(map(int, line.split())) for line in text.splitlines()]
    found = list(process_ids)
    for parent in found:  # grows while it is walked
        found += [child for child, its_parent in pairs if its_parent == parent]
    return found


def session_of(process_id):
    try:
        return os.getsid(process_id)
    except OSError:
        return None


def end(processes):
    """Asks those that still run to end, and ends what does not."""
    running = [process for process in processes if process.poll() is None]
    if not running:
        return
    # The session tells a process from a later one with the same number.
    known = {each: session_of(each) for each in descendants([p.pid for p in running])}
    for process in running:
        process.terminate()
    for process in running:
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            pass
    for process_id, session in known.items():
        if session is not None and session_of(process_id) == session:
            try:
                os.kill(process_id, signal.SIGKILL)
            except ProcessLookupError:
                pass
    for process in running:
        process.wait()


def tail(file):
    file.seek(0)
    return file.read().decode(errors="replace").strip()[-400:]


def wait_for_all(processes, errors, limit):
    deadline = time.monotonic() + limit
    waiting = list(processes)
    while waiting:
        for process in [each for each in waiting if each.poll() is not None]:
            waiting.remove(process)
            if process.returncode != 0:
                time.sleep(0.2)  # the others' messages may tell more
                raise Failure(f"exit status {process.returncode}: {tail(errors)}")
        if time.monotonic() > deadline:
            raise Failure(f"no end after {limit} s: {tail(errors)}")
        if waiting:
            time.sleep(0.05)  # seldom enough to leave the processors to what is measured


def run_all(started, limit):
    """Runs the processes to their end; what they printed."""
    processes = []
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            for command, environment in started:
                processes.append(subprocess.Popen(command, env=environment, stdout=output,
                                                  stdin=subprocess.DEVNULL, stderr=errors,
                                                  start_new_session=True))
            wait_for_all(processes, errors, limit)
        finally:
            end(processes)
        output.seek(0)
        return output.read().decode(errors="replace")


def run(contestant, program, collective, ranks, sizes, options):
    """{bytes: microseconds}; a Failure if a size is missing."""
    variables = {"PEERS_COLLECTIVE": collective, "PEERS_SIZES": ",".join(map(str, sizes)),
                 "PEERS_BATCH_MS": str(options.batch_ms), "PEERS_BATCHES": str(options.batches)}
    with tempfile.TemporaryDirectory() as store, socket.socket() as held:
        # Bound and not listening: nobody else is given this port meanwhile.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        text = run_all(commands(contestant, program, ranks, variables, store,
                                held.getsockname()[1]), options.limit)
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2 and words[0].isdigit():
            found[int(words[0])] = float(words[1])
    if set(found) != set(sizes):
        raise Failure(f"printed figures of {len(found)} sizes instead of {len(sizes)}")
    return found
