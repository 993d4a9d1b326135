/*
 * Of collectives.c: reductions to one rank and exchanges of blocks, which within a node go by
 * memory that all share where they are small.
 */
static void reduced_to(MPI_Comm comm, int root, int count, int place)
{
    int me, size;
    double *in = malloc((count + 2) * sizeof(double)), *out = malloc((count + 2) * sizeof(double));

    MPI_Comm_rank(comm, &me), MPI_Comm_size(comm, &size);
    for (int i = 0; i < count + 2; i++)
        in[i] = me * 3 + i, out[i] = -1;
    if (place && me == root) {
        memcpy(out, in, count * sizeof(double));
        MPI_Reduce(MPI_IN_PLACE, out, count, MPI_DOUBLE, MPI_SUM, root, comm);
    } else {
        MPI_Reduce(in, me == root ? out : NULL, count, MPI_DOUBLE, MPI_SUM, root, comm);
    }
    for (int i = 0; i < count + 2; i++) {
        double sum = 3.0 * size * (size - 1) / 2 + size * (double)i;
        double wanted = i < count && me == root ? sum : -1;
        if (out[i] != wanted)
            bad("element %d of %d at root %d is %g instead of %g", i, count, root, out[i], wanted);
    }
    free(in), free(out);
}

/* Blocks of `count` numbers; with `spread`, the receivers have gaps between them. */
static void exchanged(MPI_Comm comm, int count, int place, int spread)
{
    int me, size, gap = spread ? 2 : 1;
    MPI_Datatype every, third;

    MPI_Comm_rank(comm, &me), MPI_Comm_size(comm, &size);
    int all = count * size, *in = malloc(all * sizeof(int));
    int *out = malloc((all * gap + 4) * sizeof(int));
    MPI_Type_create_resized(MPI_INT, 0, gap * sizeof(int), &every);
    MPI_Type_commit(&every);
    third = spread ? every : MPI_INT;
    for (int to_all = 0; to_all < 2; to_all++) {
        for (int i = 0; i < all; i++)
            in[i] = to_all ? me * 100000 + i % count : me * 100000 + i;
        for (int i = 0; i < all * gap + 4; i++)
            out[i] = -1;
        for (int i = 0; i < all && place; i++)
            if (!to_all || i / count == me)
                out[i * gap] = in[i];
        if (to_all && place)
            MPI_Allgather(MPI_IN_PLACE, 7, MPI_CHAR, out, count, third, comm);
        else if (to_all)
            MPI_Allgather(in, count, MPI_INT, out, count, third, comm);
        else if (place)
            MPI_Alltoall(MPI_IN_PLACE, 7, MPI_CHAR, out, count, third, comm);
        else
            MPI_Alltoall(in, count, MPI_INT, out, count, third, comm);
        for (int i = 0; i < all * gap + 4; i++) {
            int at = i / gap, block = count ? count : 1;
            int wanted = at / block * 100000 + at % block + (to_all ? 0 : me * count);
            if (i % gap || at >= all)
                wanted = -1;
            if (out[i] != wanted)
                bad("place %d of %s of %d is %d instead of %d", i,
                    to_all ? "an allgather" : "an alltoall", count, out[i], wanted);
        }
    }
    MPI_Type_free(&every);
    free(in), free(out);
}

/* What goes by memory that all share where it is small: sizes around the limits, and many in a row,
 * in which those that only give run ahead; messages between. */
static void together(void)
{
    const int counts[] = {0, 1, 2, 7, 8, 13, 14, 15, 16, 30, 31, 128, 255, 256, 257, 511, 512, 513,
                          1023, 1024, 1025, 2048, 2049, 5000};
    MPI_Comm half, node;
    int here;

    /* Between nodes Open MPI gathers into gaps wrongly, on its own transport as well. */
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &here);
    MPI_Comm_free(&node);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int place = 0; place < 2; place++) {
            reduced_to(MPI_COMM_WORLD, (int)i % ranks, counts[i], place);
            reduced_to(half, 0, counts[i], place);
            exchanged(MPI_COMM_WORLD, counts[i], place, here == ranks && i % 2);
            exchanged(half, counts[i], place, 0);
        }
    for (int i = 0; i < 1000; i++) {
        int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, got = -1;
        reduced_to(MPI_COMM_WORLD, i / 300 % ranks, i % 40, 0);
        if (i % 7 == 0) {
            MPI_Sendrecv(&i, 1, MPI_INT, next, 3, &got, 1, MPI_INT, before, 3, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
            if (got != i)
                bad("message %d came as %d", i, got);
        }
        bcast(i % 3 ? MPI_COMM_WORLD : half, 0, i * 17 % 1500, i);
    }
    MPI_Comm_free(&half);
}
