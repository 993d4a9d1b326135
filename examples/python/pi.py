"""Pi by adding up slices, each rank a part of them: weft mpirun -n 4 -- python pi.py [SLICES]"""

import math
import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, ranks = comm.Get_rank(), comm.Get_size()
slices = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000

slices = comm.bcast(slices, root=0)
width = 1.0 / slices
own = sum(4.0 / (1.0 + ((i + 0.5) * width) ** 2) for i in range(rank, slices, ranks)) * width
pi = comm.allreduce(own, op=MPI.SUM)
assert abs(pi - math.pi) < 1e-9, pi
if rank == 0:
    print(f"pi is {pi:.12f}, by {ranks} ranks")
