"""A wave on a string, cut into parts whose ends the ranks exchange at every step, without copies:
weft mpirun -n 4 -- python halo.py [POINTS [STEPS]]"""

import math
import sys
from array import array

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, ranks = comm.Get_rank(), comm.Get_size()
points = int(sys.argv[1]) if len(sys.argv) > 1 else 64
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 200
left = rank - 1 if rank > 0 else MPI.PROC_NULL
right = rank + 1 if rank < ranks - 1 else MPI.PROC_NULL

# One point more on each side, for the neighbours'.
first = rank * points // ranks
count = (rank + 1) * points // ranks - first
shape = lambda i: math.sin(math.pi * (i + 1) / (points + 1))
u = array("d", [0.0] + [shape(first + i) for i in range(count)] + [0.0])

start = MPI.Wtime()
for _ in range(steps):
    parts = memoryview(u)
    comm.Sendrecv(parts[1:2], dest=left, recvbuf=parts[count + 1 :], source=right)
    comm.Sendrecv(parts[count : count + 1], dest=right, recvbuf=parts[:1], source=left)
    parts.release()
    inner = [u[i] + 0.4 * (u[i - 1] - 2 * u[i] + u[i + 1]) for i in range(1, count + 1)]
    u[1 : count + 1] = array("d", inner)
took = MPI.Wtime() - start

# What the scheme makes of this wave is known: it gets lower by one factor each step.
factor = (1 - 1.6 * math.sin(math.pi / (2 * (points + 1))) ** 2) ** steps
off = max(abs(u[i + 1] - factor * shape(first + i)) for i in range(count))
worst = comm.allreduce(off, op=MPI.MAX)
assert worst < 1e-12, worst
if rank == 0:
    print(f"{points} points, {steps} steps by {ranks} ranks: {took / steps * 1e6:.1f} us a step")
