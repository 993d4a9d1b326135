/* What fortran.F90 has in C. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>

/* How many operations Weft has done in this process. */
int64_t weft_done(void)
{
    unsigned long long (*done)(void) = dlsym(RTLD_DEFAULT, "weft_mpi_done");

    return done ? (int64_t)done() : 0;
}

void give_up(void)
{
    MPI_Abort(MPI_COMM_WORLD, 1);
}

void barrier_in_c(const MPI_Fint *comm)
{
    MPI_Barrier(MPI_Comm_f2c(*comm));
}

void bcast_in_c(int *values, const MPI_Fint *count, const MPI_Fint *root, const MPI_Fint *comm)
{
    MPI_Bcast(values, *count, MPI_INT, *root, MPI_Comm_f2c(*comm));
}

void sum_in_c(int *values, const MPI_Fint *count, const MPI_Fint *comm)
{
    MPI_Allreduce(MPI_IN_PLACE, values, *count, MPI_INT, MPI_SUM, MPI_Comm_f2c(*comm));
}
