"""Where and with what the figures were made: lines to stand above the tables."""

import datetime
import os
import platform
import re
import subprocess

BUSY = 0.5  # runnable processes of others, on average, that spoil a measurement


def processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            found = re.search(r"^model name\s*:\s*(.+)$", file.read(), re.MULTILINE)
    except OSError:
        found = None
    return found.group(1) if found else platform.processor() or platform.machine()


def version(library):
    """Of an MPI library, as its launcher tells it; nothing for the others."""
    if library not in ("openmpi", "mpich"):
        return library
    done = subprocess.run(["mpirun." + library, "--version"], capture_output=True, text=True,
                          check=False)
    found = re.search(r"\d+\.\d+(\.\d+)?", done.stdout)
    return f"{library} {found.group(0)}" if found else library


def load():
    return os.getloadavg()[0]


def about(programs, load_before):
    today = datetime.date.today().isoformat()
    libraries = ", ".join(version(library) for library in programs)
    return [f"{processor()}, {os.cpu_count()} processors, {platform.system()} "
            f"{platform.machine()}; {today}; load before the run {load_before:.1f}; {libraries}."]
