"""A token goes round all ranks, and each adds its number: weft mpirun -n 4 -- python ring.py"""

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, ranks = comm.Get_rank(), comm.Get_size()
following, before = (rank + 1) % ranks, (rank - 1) % ranks

token = [0]
if rank == 0:
    comm.send(token + [rank], dest=following)
    token = comm.recv(source=before)
    assert token == [0, *range(ranks)], token
    print(f"the token came back after {ranks} ranks: {token[1:]}")
else:
    token = comm.recv(source=before)
    comm.send(token + [rank], dest=following)
