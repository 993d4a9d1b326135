"""Collective operations of an mpi4py program, and who has done them:
weft mpirun -n 2 --collectives -- python collectives.py LEAST

Fails unless Weft has done at least LEAST of the 150, or, for 0, if it has done any."""

import ctypes
import sys
from array import array

from mpi4py import MPI

ROUNDS = 50


def by_weft():
    """How many Weft has done in this process."""
    try:
        done = ctypes.CDLL(None).weft_mpi_done
    except AttributeError:
        return 0
    done.restype = ctypes.c_uint64
    return done()


def main():
    least, world = int(sys.argv[1]), MPI.COMM_WORLD
    rank, size = world.rank, world.size
    for n in range(ROUNDS):
        world.Barrier()
        word = array("q", [n if rank == n % size else -1] * 100)
        world.Bcast(word, root=n % size)
        assert list(word) == [n] * 100, word
        total = array("d", [0.0] * 10)
        world.Allreduce(array("d", [n + rank] * 10), total)
        assert list(total) == [n * size + size * (size - 1) / 2] * 10, total
    done = by_weft()
    assert done >= least if least else done == 0, f"Weft has done {done}, not {least}"
    print(f"rank {rank}: {done} by Weft", flush=True)


if __name__ == "__main__":
    main()
