"""Hosts and cables made of network namespaces, for one test; removed with it."""

import os
import subprocess
import tempfile

from job import fail, skip

NETLAB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "netlab")


def need_namespaces():
    """Skips the test, with the reason, where the system does not let us make hosts and cables."""
    if os.uname().sysname != "Linux":
        skip("network namespaces are a Linux facility")
    if os.geteuid() != 0:
        skip("network namespaces need root")
    name = f"nl{os.getpid()}-try"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        skip(f"network namespaces are not allowed here: {made.stderr.strip()}")
    subprocess.run(["ip", "netns", "del", name], check=False)


class Lab:
    def __init__(self, kind, hosts, trunks, rate):
        self.shape = [kind, str(hosts), str(trunks), rate]
        self.hosts = hosts
        # Unique: process numbers are, while the test runs.
        self.environment = dict(os.environ, NETLAB_NAME=f"nl{os.getpid()}")

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.environment["TMPDIR"] = self.folder.name
        try:
            self.run("up", *self.shape)
            self.cabling = os.path.join(self.folder.name, "cabling.json")
            with open(self.cabling, "w", encoding="utf-8") as file:
                file.write(self.run("cabling"))
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind, value, trace):
        subprocess.run([NETLAB, "down"], env=self.environment, check=False)
        self.folder.cleanup()

    def run(self, *words):
        done = subprocess.run([NETLAB, *words], env=self.environment, capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            fail(f"netlab {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def command(self, host, command):
        return ["ip", "netns", "exec", f"{self.environment['NETLAB_NAME']}.{host}", *command]

    def start_ranks(self, job, command, environment=None):
        """One rank a host; they meet over the management network and use the lab's cables."""
        for host in range(self.hosts):
            variables = {"TBCCL_RANK": str(host), "TBCCL_SIZE": str(self.hosts),
                         "TBCCL_RENDEZVOUS": "10.99.0.1:7100", "TBCCL_CABLING": self.cabling}
            variables.update(environment or {})
            job.start(self.command(host, command), variables)

    def management_bytes(self):
        """Bytes that all hosts sent and received on the management network so far."""
        return sum(int(self.run("bytes", str(host), "mgmt")) for host in range(self.hosts))
