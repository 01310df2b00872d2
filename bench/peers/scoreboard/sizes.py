"""Sizes in bytes: read, written, listed, and the groups that are measured in one go."""

# A group is short enough that all libraries get the same moods of the machine.
GROUP_LIMITS = (4 << 10, 1 << 20, 32 << 20)


def parse(text):
    shift = {"K": 10, "M": 20, "G": 30}.get(text[-1:].upper(), 0)
    return int(text[:-1] if shift else text) << shift


def human(bytes_):
    for unit, shift in (("G", 30), ("M", 20), ("K", 10)):
        if bytes_ >= 1 << shift and bytes_ % (1 << shift) == 0:
            return f"{bytes_ >> shift}{unit}"
    return str(bytes_)


def listed(least, most, factor):
    """From the least, times the factor, up to the most, which is always among them."""
    out = []
    bytes_ = max(least, 4)
    while bytes_ < most:
        out.append(bytes_)
        bytes_ *= max(factor, 2)
    return out + [most]


def grouped(sizes):
    out = [[] for _ in range(len(GROUP_LIMITS) + 1)]
    for bytes_ in sizes:
        out[sum(bytes_ > limit for limit in GROUP_LIMITS)].append(bytes_)
    return [group for group in out if group]
