"""tbccl-perf under a launcher: launchers.py PERF LAUNCHER RANKS

openmpi, mpich, slurm: the real one, where it is installed; torchrun, torchrun-hosts, mlx, jaccl and
slurm-variables: what it sets, set by hand. taken: somebody else listens at the derived port."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile

from job import Job, Port, check, check_verified, skip
from slurm import Slurm

perf, launcher, ranks = sys.argv[1], sys.argv[2], int(sys.argv[3])
COMMAND = [perf, "all_reduce", "-b", "8", "-e", "512K", "-f", "256", "-n", "2", "-w", "1", "-d",
           "float,int8", "-T", "60"]
LIMITS = {"TBCCL_CONNECT_TIMEOUT": "60", "TBCCL_TIMEOUT": "60"}
SECONDS = 100


class PortBlock:
    """Ports of 127.0.0.1 that follow each other and that nobody else is given meanwhile: what is
    derived from a launcher's variables stays within them."""

    def __init__(self, count=24):
        self.sockets = []
        for _ in range(200):
            first = Port().number
            try:
                self.sockets = [self.hold(port) for port in range(first, first + count)]
            except (OSError, OverflowError):
                continue
            self.text = f"{first}-{first + count - 1}"
            return
        skip(f"no {count} free ports in a row")

    @staticmethod
    def hold(port):
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            one.close()
            raise
        return one


def check_table(rank):
    check_verified(rank, launcher)
    members = [line for line in rank.output.splitlines() if "Rank" in line and "Pid" in line]
    check(len(members) == ranks, f"{len(members)} ranks took part instead of {ranks}")


def under(names, version, options):
    """The first of these programs whose --version says so."""
    for name in names:
        path = shutil.which(name)
        if path is None:
            continue
        told = subprocess.run([path, "--version"], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=60, check=False)
        if version in told.stdout + told.stderr:
            return [path, *options]
    skip(f"{launcher} is not installed (tried: {', '.join(names)})")


def run_real(command, folder, environment=None):
    with Job() as job:
        rank = job.start([*command, "-n", str(ranks), *COMMAND],
                         {**LIMITS, "TMPDIR": folder, **(environment or {})})
        job.wait(SECONDS)
        check_table(rank)


def openmpi(folder):
    options = ["--oversubscribe"] + (["--allow-run-as-root"] if os.getuid() == 0 else [])
    run_real(under(["mpirun.openmpi", "mpirun"], "Open MPI", options), folder)


def mpich(folder):
    run_real(under(["mpiexec.mpich", "mpiexec.hydra", "mpiexec"], "HYDRA", []), folder)


def slurm(folder):
    with Slurm() as cluster:
        run_real(["srun", "--overcommit"], folder, cluster.environment)


def run_by_hand(variables, folder):
    with Job() as job:
        block = PortBlock()
        for rank in range(ranks):
            job.start(COMMAND, {**LIMITS, "TBCCL_PORT_RANGE": block.text, "TMPDIR": folder,
                                **variables(rank)})
        job.wait(SECONDS)
        for rank in job.ranks:
            check(rank.status == 0, f"{rank.name} ended with {rank.status}")
        check_table(job.ranks[0])


class Store:
    """What torchrun keeps at MASTER_PORT: it listens, and is never to be bound by others."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = str(self.socket.getsockname()[1])


def torch_variables(rank, store):
    return {"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": store.port, "TORCHELASTIC_RUN_ID": "none",
            "TORCHELASTIC_RESTART_COUNT": "0"}


def torchrun(folder):
    store = Store()
    run_by_hand(lambda rank: {**torch_variables(rank, store), "LOCAL_WORLD_SIZE": str(ranks)}, folder)


def torchrun_hosts(folder):
    store = Store()
    run_by_hand(lambda rank: {**torch_variables(rank, store), "LOCAL_WORLD_SIZE": "1"}, folder)


def write_list(folder, entries):
    path = os.path.join(folder, "ranks.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(entries, file)
    return path


def mlx(folder):
    store = Store()
    path = write_list(folder, [[f"127.0.0.1:{store.port}"] for _ in range(ranks)])
    run_by_hand(lambda rank: {"MLX_RANK": str(rank), "MLX_HOSTFILE": path}, folder)


def jaccl(folder):
    store = Store()
    path = write_list(folder, [[None if a == b else "rdma_en3" for b in range(ranks)]
                               for a in range(ranks)])
    run_by_hand(lambda rank: {"MLX_RANK": str(rank), "MLX_IBV_DEVICES": path,
                              "MLX_JACCL_COORDINATOR": f"127.0.0.1:{store.port}"}, folder)


def slurm_variables(rank):
    return {"SLURM_PROCID": str(rank), "SLURM_NTASKS": str(ranks), "SLURM_JOB_ID": str(os.getpid()),
            "SLURM_STEP_ID": "0", "SLURM_JOB_NODELIST": "127.0.0.1"}


def slurm_by_hand(folder):
    run_by_hand(slurm_variables, folder)


def taken(folder):
    with Job() as job:
        store = Store()
        port = store.port
        rank = job.start(COMMAND, {**LIMITS, **slurm_variables(0), "TMPDIR": folder,
                                   "TBCCL_PORT_RANGE": f"{port}-{port}"})
        job.wait(SECONDS)
        check(rank.status == 2, f"exit status {rank.status} where the port is taken")
        for word in (f"127.0.0.1:{port}", "derived", "slurm", "TBCCL_RENDEZVOUS"):
            check(word in rank.output, f"the message does not say '{word}'")


RUN = {"openmpi": openmpi, "mpich": mpich, "slurm": slurm, "torchrun": torchrun,
       "torchrun-hosts": torchrun_hosts, "mlx": mlx, "jaccl": jaccl,
       "slurm-variables": slurm_by_hand, "taken": taken}

with tempfile.TemporaryDirectory(prefix="tbccl-launcher-") as temporary:
    RUN[launcher](temporary)
