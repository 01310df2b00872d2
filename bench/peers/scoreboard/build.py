"""The drivers: one program per installed library, compiled into a temporary folder."""

import os
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
DRIVERS = os.path.join(os.path.dirname(HERE), "drivers")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
LIBRARIES = ("tbccl", "gloo", "openmpi", "mpich")


class CannotBuild(Exception):
    """tbccl's own driver does not build; the others are only left out."""


def jobs(library_folder):
    """{library: (compiler, source, what follows)}"""
    return {
        "tbccl": (os.environ.get("CXX", "c++"), "tbccl.cpp",
                  ["-L", library_folder, f"-Wl,-rpath,{library_folder}", "-ltbccl", "-ldl",
                   "-pthread"]),
        "gloo": (os.environ.get("CXX", "c++"), "gloo.cpp", ["-lgloo", "-pthread"]),
        "openmpi": ("mpicxx.openmpi", "mpi.cpp", []),
        "mpich": ("mpicxx.mpich", "mpi.cpp", []),
    }


def compile_driver(job, program):
    """None, or why there is no such driver."""
    compiler, source, rest = job
    if shutil.which(compiler) is None:
        return f"{compiler} is not installed"
    done = subprocess.run(
        [compiler, "-std=c++20", "-O3", "-I", os.path.join(ROOT, "include"),
         os.path.join(DRIVERS, source), "-o", program, *rest],
        capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else "its driver does not build: " + done.stderr.strip()


def build(folder, library_folder, wanted, say):
    """{library: program} of tbccl and of the wanted others that are installed."""
    programs = {}
    for name, job in jobs(library_folder).items():
        if name != "tbccl" and name not in wanted:
            continue
        program = os.path.join(folder, "peer_" + name)
        problem = compile_driver(job, program)
        if problem is None:
            programs[name] = program
        elif name == "tbccl":
            raise CannotBuild(f"{problem}\nIs libtbccl built in {library_folder}? "
                              "(--library names another folder)")
        else:
            say(f"{name} is left out: {problem.splitlines()[0]}")
    return programs


def has_memory(program):
    """Whether this libtbccl has tbcclMemAlloc."""
    return subprocess.run([program, "--has-memory"], check=False).returncode == 0
