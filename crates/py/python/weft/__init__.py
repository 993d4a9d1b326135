"""Message passing over shared memory and plain Ethernet, for small clusters of ordinary computers.

    import numpy, weft

    job = weft.Job.from_env()
    with weft.Endpoint(job) as endpoint:
        data = numpy.zeros(1000)
        if endpoint.rank == 0:
            endpoint.send(1, 7, data)                # to rank 1, with tag 7
        else:
            status = endpoint.recv(0, 7, data)       # from rank 0

Start it with `weft run -n 2 -- python program.py`, or under `mpiexec` or `srun`.

Data is whatever has its memory in one piece, with Python's buffer protocol (NumPy arrays, bytes,
bytearrays, memoryviews, array.array) or with DLPack (tensors on the CPU). It is not copied. Its
bytes are sent: not its shape or type, which both sides know. Ranks are numbers from 0, tags numbers
below 2**64, offsets and lengths bytes, times seconds (`timeout_s`).
"""

import atexit as _atexit

from . import _weft
from ._errors import (
    BadArgument,
    Cancelled,
    Closed,
    Error,
    Forked,
    Mismatch,
    PeerClosed,
    PeerDead,
    Refused,
    TimedOut,
    Truncated,
)
from ._weft import (
    ANY,
    HANDLE_LEN,
    Array,
    AtomicOp,
    Endpoint,
    Group,
    Job,
    Joined,
    Notice,
    Plan,
    Region,
    RegionHandle,
    Request,
    Stage,
    Status,
    Tag,
    __version__,
)

__all__ = [
    "ANY",
    "HANDLE_LEN",
    "Array",
    "AtomicOp",
    "BadArgument",
    "Cancelled",
    "Closed",
    "Endpoint",
    "Error",
    "Forked",
    "Group",
    "Job",
    "Joined",
    "Mismatch",
    "Notice",
    "PeerClosed",
    "PeerDead",
    "Plan",
    "Refused",
    "Region",
    "RegionHandle",
    "Request",
    "Stage",
    "Status",
    "Tag",
    "TimedOut",
    "Truncated",
]


@_atexit.register
def _close():
    """Closes what the program has left open, so that the other ranks learn that it has ended."""
    for opened in sorted(_weft._open, key=lambda opened: isinstance(opened, Job)):
        try:
            opened.close()
        except Forked:
            pass
