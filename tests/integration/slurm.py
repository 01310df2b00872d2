"""A Slurm of one node, for one test: started and ended with it, in a folder of its own."""

import os
import shutil
import socket
import subprocess
import tempfile
import time

from job import Job, fail, skip

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sinfo")
APART = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
CONFIGURATION = """ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={control_port}
SlurmdPort={node_port}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/builtin
NodeName={host} NodeAddr=127.0.0.1 CPUs={processors} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=FORCE:8
"""


def free_ports(count):
    """Numbers that nobody has now: Slurm binds them itself, a moment later."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    numbers = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return numbers


class Slurm:
    """`environment` is what srun needs. Skips the test where the programs are not installed."""

    def __init__(self):
        os.environ["PATH"] += os.pathsep + "/usr/sbin"
        missing = [name for name in PROGRAMS if shutil.which(name) is None]
        if missing:
            skip(f"slurm is not installed (no {', '.join(missing)})")
        if os.geteuid() != 0:
            skip("a Slurm of one's own needs root")
        tried = subprocess.run([*APART, "true"], capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            skip(f"processes cannot be put apart here: {tried.stderr.strip()}")
        self.job = Job()

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        try:
            self.start()
        except BaseException:
            self.job.show()
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind, value, trace):
        for rank in reversed(self.job.ranks):
            if not rank.poll():  # unshare passes nothing on but its own end
                (rank.process.kill if rank.name == "slurmd" else rank.process.terminate)()
        for rank in self.job.ranks:
            try:
                rank.process.wait(10)
            except subprocess.TimeoutExpired:
                pass
        self.job.__exit__(None, None, None)
        self.folder.cleanup()

    def start(self):
        folder = self.folder.name
        for name in ("state", "spool"):
            os.mkdir(os.path.join(folder, name))
        key = os.path.join(folder, "munge.key")
        with open(os.open(key, os.O_CREAT | os.O_WRONLY, 0o400), "wb") as file:
            file.write(os.urandom(1024))
        control_port, node_port = free_ports(2)
        configuration = os.path.join(folder, "slurm.conf")
        with open(configuration, "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(
                host=socket.gethostname().split(".")[0], folder=folder, control_port=control_port,
                node_port=node_port, processors=os.cpu_count()))
        self.environment = {"SLURM_CONF": configuration}
        self.job.start(["munged", "--force", "--foreground", f"--key-file={key}",
                        f"--socket={folder}/munge.socket", f"--pid-file={folder}/munged.pid",
                        f"--log-file={folder}/munged.log", f"--seed-file={folder}/munge.seed"],
                       None, "munged")
        self.until(lambda: os.path.exists(f"{folder}/munge.socket"), "munged is not ready")
        self.job.start(["slurmctld", "-D", "-f", configuration], self.environment, "slurmctld")
        # With its processes in a namespace of their own none of them outlives it.
        self.job.start([*APART, "slurmd", "-D", "-f", configuration], self.environment, "slurmd")
        self.until(self.idle, "the node of Slurm is not ready")

    def idle(self):
        told = subprocess.run(["sinfo", "-h", "-o", "%t"], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=20, check=False,
                              env={**os.environ, **self.environment})
        return told.stdout.strip() == "idle"

    def until(self, ready, text):
        for _ in range(200):
            if ready():
                return
            for rank in self.job.ranks:
                if rank.poll():
                    fail(f"{rank.name} ended with status {rank.status}")
            time.sleep(0.2)
        fail(text)
