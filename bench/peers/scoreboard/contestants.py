"""Who is measured, and how each is started so that it is at its best here.

A new collective is one entry in COLLECTIVES, and one in GLOO and in OPENMPI_ALGORITHMS if these
have several algorithms for it.
"""

import os
from dataclasses import dataclass

COLLECTIVES = ("all_reduce", "broadcast", "barrier", "reduce", "all_gather", "reduce_scatter",
               "all_to_all", "gather", "scatter", "scan", "ping_pong", "exchange")
WITHOUT_SIZE = ("barrier",)
IN_PAIRS = ("ping_pong",)  # even numbers of ranks

# mode: (how the peers are joined, the column that tbccl's figures are in)
MODES = {"tcp": ("tcp", "tbccl"), "host": ("host", "tbccl"), "memalloc": ("host", "tbccl memalloc")}

PEER_COLUMNS = ("gloo", "openmpi", "openmpi tuned", "mpich")

# Gloo's variants of each collective; the first is what it does by itself. The synchronous ones
# write large messages into full sockets on both sides, and are for small ones.
GLOO = {"all_reduce": ("ring", "bcube", "ring_chunked", "halving_doubling", "ring_chunked+sync",
                       "halving_doubling+sync", "ring_chunked+poll", "halving_doubling+poll"),
        "ping_pong": ("unbound", "bound", "bound+sync", "bound+poll")}
GLOO_HAS_NOT = ("reduce_scatter", "scan")
GLOO_SYNCHRONOUS_MOST = 1 << 20

# Numbers of coll_tuned_*_algorithm, with the segment size that Open MPI's own choice would use.
# 0 is its own choice.
OPENMPI_ALGORITHMS = {
    "all_reduce": {"recursive doubling": (3, 0), "ring": (4, 0), "segmented ring": (5, 1 << 20),
                   "rabenseifner": (6, 0)},
    "broadcast": {"linear": (1, 0), "pipeline": (3, 128 << 10), "binomial": (6, 0),
                  "scatter + all-gather": (8, 0), "scatter + ring": (9, 0)},
    "barrier": {"double ring": (2, 0), "recursive doubling": (3, 0), "bruck": (4, 0),
                "tree": (6, 0)},
    "reduce": {"linear": (1, 0), "pipeline": (3, 64 << 10), "binary": (4, 32 << 10),
               "binomial": (5, 0), "rabenseifner": (7, 0)},
    "all_gather": {"bruck": (2, 0), "recursive doubling": (3, 0), "ring": (4, 0),
                   "neighbor exchange": (5, 0)},
    "reduce_scatter": {"recursive doubling": (2, 0), "recursive halving": (3, 0),
                       "butterfly": (4, 0)},
    "all_to_all": {"linear": (1, 0), "pairwise": (2, 0), "bruck": (3, 0)},
    "gather": {"linear": (1, 0), "binomial": (2, 0)},
    "scatter": {"linear": (1, 0), "binomial": (2, 0)},
    "scan": {"linear": (1, 0), "recursive doubling": (2, 0)},
}
OPENMPI_PARAMETER = {"all_reduce": "allreduce", "broadcast": "bcast", "barrier": "barrier",
                     "reduce": "reduce", "all_gather": "allgather",
                     "reduce_scatter": "reduce_scatter_block", "all_to_all": "alltoall",
                     "gather": "gather", "scatter": "scatter", "scan": "scan"}

# Freed scratch memory is kept instead of being faulted in again by every call.
KEEP_MEMORY = (("MALLOC_TOP_PAD_", str(1 << 30)), ("MALLOC_MMAP_MAX_", "0"),
               ("MALLOC_TRIM_THRESHOLD_", str(1 << 40)))


@dataclass(frozen=True)
class Contestant:
    library: str
    variant: str = ""
    column: str = ""          # of the table; several contestants may share one
    defaults: bool = False    # as installed: nothing but the choice of the transport
    counted: bool = True      # False: shown, and left out of every ratio
    driver: tuple = ()        # arguments of the driver
    launcher: tuple = ()      # arguments of mpirun
    environment: tuple = ()   # pairs
    most: int = 1 << 62       # largest size

    @property
    def label(self):
        return f"{self.library} {self.variant}".strip()


def oversubscribed(ranks):
    return ranks > (os.cpu_count() or 1)


def ours(network, modes):
    transport = (("TBCCL_TRANSPORT", "tcp"),) if network == "tcp" else ()
    out = [Contestant("tbccl", "", "tbccl", environment=transport)]
    if "memalloc" in modes:
        out.append(Contestant("tbccl", "memalloc", "tbccl memalloc",
                              environment=transport + (("PEERS_MEMORY", "tbcclMemAlloc"),)))
    return out if "host" in modes or network == "tcp" else out[1:]


def gloo(collective, ranks):
    if collective in GLOO_HAS_NOT:
        return []
    variants = GLOO.get(collective, ("default",))
    out = [Contestant("gloo", variants[0], "gloo", defaults=True, driver=(variants[0],))]
    for variant in variants:
        # A rank that polls without yielding needs a processor of its own.
        if variant.endswith("+poll") and oversubscribed(ranks):
            continue
        most = GLOO_SYNCHRONOUS_MOST if "+" in variant else 1 << 62
        out.append(Contestant("gloo", f"{variant}, kept memory", "gloo", driver=(variant,),
                              environment=KEEP_MEMORY, most=most))
    return out


def openmpi_network(network):
    """[(name, mpirun's arguments)]: the ways of copying; the first is the default."""
    if network == "tcp":
        return [("", ("--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"))]
    vader = ("--mca", "btl", "vader,self")
    return [("", vader),
            ("copied twice", vader + ("--mca", "btl_vader_single_copy_mechanism", "none"))]


def openmpi_algorithms(network, collective):
    """[(name, mpirun's arguments)]: the ways of doing a collective; the first is the default."""
    out = [("", ())]
    for name, (number, segment) in OPENMPI_ALGORITHMS.get(collective, {}).items():
        prefix = f"coll_tuned_{OPENMPI_PARAMETER[collective]}_algorithm"
        arguments = ("--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", prefix, str(number))
        if segment:
            arguments += ("--mca", prefix + "_segmentsize", str(segment))
        out.append((name, arguments))
    if network == "host" and collective in OPENMPI_ALGORITHMS:
        out.append(("coll sm", ("--mca", "coll_sm_priority", "90")))
    return out


def openmpi(network, collective):
    # Named, so that no other transport is picked.
    base = ("--oversubscribe", "--mca", "pml", "ob1")
    out = []
    for copying, how in openmpi_network(network):
        for algorithm, which in openmpi_algorithms(network, collective):
            name = ", ".join(part for part in (copying, algorithm, "kept memory") if part)
            out.append(Contestant("openmpi", name, "openmpi tuned", launcher=base + how + which,
                                  environment=KEEP_MEMORY))
    default = base + openmpi_network(network)[0][1]
    return [Contestant("openmpi", "defaults", "openmpi", defaults=True, launcher=default), *out]


def mpich(network, ranks):
    # MPICH spins without yielding: with more ranks than cores its times say nothing about it.
    counted = not oversubscribed(ranks)
    tcp = (("UCX_TLS", "tcp,self"), ("UCX_NET_DEVICES", "lo"), ("MPIR_CVAR_NOLOCAL", "1"))
    environment = tcp if network == "tcp" else ()
    return [Contestant("mpich", "defaults", "mpich", True, counted, environment=environment),
            Contestant("mpich", "kept memory", "mpich", False, counted,
                       environment=environment + KEEP_MEMORY)]


def peers(libraries, network, collective, ranks, show_mpich):
    """([always measured], [families, of which the best are found first])."""
    fixed, families = [], []
    for library, all_of_it in (("gloo", gloo(collective, ranks)),
                               ("openmpi", openmpi(network, collective))):
        if library in libraries:
            fixed += all_of_it[:1]
            families.append(all_of_it[1:])
    if "mpich" in libraries and (show_mpich or not oversubscribed(ranks)):
        fixed += mpich(network, ranks)
    return fixed, families
