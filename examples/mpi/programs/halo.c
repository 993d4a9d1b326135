/*
 * Boundary exchange alone: fields cut into slabs, whose boundaries go to a neighbour in each stage
 * of a step, with a sweep over all cells before each exchange.
 *
 *     mpicc -O2 halo.c -o halo -lm
 *     weft mpirun -n 2 --lab nodes=2 -- ./halo weft 300 persistent:two-way/128x128x128/1/1/0
 *
 * `persistent`: by requests made once (MPI_Send_init, MPI_Recv_init, MPI_Startall) and datatypes;
 * `packed`: the same with boundaries packed and unpacked by hand; `neighbour`: by
 * MPI_Neighbor_alltoallw. A size is PATTERN/CELLS/FIELDS/STAGES/AXIS: `two-way`, `one-way` (to the
 * next rank only) or `alternating` (that, and in every second stage to the one before); the cells
 * of all ranks together along three axes, slowest first; fields exchanged in each stage, stages of
 * a step; the axis that is cut. Small: 32^3 cells, large: 128^3, two-way, a field, a stage, axis
 * 0.
 *
 * `wait_us` is what a step spends in the exchange, packing included, and `pack_us` what of it has
 * gone by, by packing and starting, before anything is waited for; these, `step_us` and
 * `compute_us` are of all steps of all ranks. `weft bench halo` does the same by Weft's own plans
 * and by sockets.
 */
#include "programs.h"

/* What a sweep does to a cell: it comes to rest at 1. The check does the same. */
#define SHRINK 0.5
#define GROW 0.5
#define FIELDS_MAX 16
#define STEPS 20

enum { PERSISTENT, PACKED, NEIGHBOUR };
enum { TWO_WAY, ONE_WAY, ALTERNATING };
static const char *const patterns[] = {"two-way", "one-way", "alternating"};

struct size {
    int pattern, cells[3], fields, stages, axis;
};
static struct size its;
static int mode, low, high;
static MPI_Comm comm;

/* A field: own cells and a ghost layer on the sides that have one. */
static int own[3], whole[3], first;
static size_t whole_cells;
/* By field, FIELDS_MAX of a stage behind those of the one before. */
static double *fields[2 * FIELDS_MAX];

/* A direction in which a stage's boundaries go. */
struct way {
    int to, from;
    MPI_Datatype inner, outer;
    int inner_at, outer_at;
    double *out, *in;
};
/* By stage: up, down; and its requests, sends after receives. */
static struct way ways[2][2];
static int count[2];
static MPI_Request made[2][4 * FIELDS_MAX];
static int requests[2];
/* Steps done since the start, and the times of one: step, compute, pack, wait. */
static int done;
enum { STEP, COMPUTE, PACK, WAIT, TIMES };
static const char *const names[] = {"step_us", "compute_us", "pack_us", "wait_us"};
static double *taken[TIMES];
static int taken_steps;

static int understand_size(const char *text, struct size *size)
{
    char pattern[16];
    int end = 0;

    if (sscanf(text, "%15[a-z-]/%dx%dx%d/%d/%d/%d%n", pattern, &size->cells[0], &size->cells[1],
               &size->cells[2], &size->fields, &size->stages, &size->axis, &end) != 7 ||
        text[end])
        return 0;
    for (size->pattern = 0; size->pattern < 3; size->pattern++)
        if (!strcmp(patterns[size->pattern], pattern))
            break;
    for (int i = 0; i < 3; i++)
        if (size->cells[i] < 1 || size->cells[i] > 4096)
            return 0;
    return size->pattern < 3 && size->fields >= 1 && size->fields <= FIELDS_MAX &&
           size->stages >= 1 + (size->pattern == ALTERNATING) && size->stages <= 2 &&
           size->axis >= 0 && size->axis <= 2;
}

static int knows(const char *text)
{
    struct size size;
    return understand_size(text, &size);
}

/* Whether a stage's boundaries go up, to the next rank, or down. */
static int goes(int stage, int up)
{
    return its.pattern == TWO_WAY || (its.pattern == ONE_WAY ? up : up == (stage % 2 == 0));
}

static double *field(int stage, int f)
{
    return fields[stage * FIELDS_MAX + f];
}

/* The value of a field's cells at the start, of a rank. */
static double begun(int r, int stage, int f)
{
    return 2 + r + 100 * stage + 10 * f;
}

static double after(double value, int sweeps)
{
    while (sweeps-- > 0)
        value = value * SHRINK + GROW;
    return value;
}

/* Cells of a boundary. */
static int face(void)
{
    return own[0] * own[1] * own[2] / own[its.axis];
}

/* A layer of the field along the axis that is cut, without ghosts along the others. */
static MPI_Datatype layer(int at)
{
    int extent[3] = {own[0], own[1], own[2]}, from[3] = {0, 0, 0};
    MPI_Datatype type;

    extent[its.axis] = 1;
    from[its.axis] = at;
    MPI_Type_create_subarray(3, whole, extent, from, MPI_ORDER_C, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
}

/* Packs a layer, or unpacks it. */
static void copy_layer(double *cells, int at, double *packed, int out)
{
    int extent[3] = {own[0], own[1], own[2]};
    size_t rows = its.axis == 2 ? 1 : own[2];

    extent[its.axis] = 1;
    for (int x = 0; x < extent[0]; x++)
        for (int y = 0; y < extent[1]; y++) {
            int place[3] = {x, y, 0};
            place[its.axis] = at;
            double *row = cells + ((size_t)place[0] * whole[1] + place[1]) * whole[2] + place[2];
            if (rows == 1 && out)
                *packed = *row;
            else if (rows == 1)
                *row = *packed;
            else
                memcpy(out ? packed : row, out ? row : packed, rows * sizeof *row);
            packed += rows;
        }
}

static int is_up(const struct way *w)
{
    return w->inner_at > w->outer_at;
}

/* The ways of a stage: what goes up comes in below. */
static void make_ways(int stage)
{
    int n = own[its.axis];

    count[stage] = 0;
    for (int up = 1; up >= 0; up--) {
        if (!goes(stage, up))
            continue;
        struct way *w = &ways[stage][count[stage]++];
        w->to = up ? high : low;
        w->from = up ? low : high;
        w->inner_at = first + (up ? n - 1 : 0);
        w->outer_at = up ? first - 1 : first + n;
        w->inner = layer(w->inner_at);
        w->outer = layer(w->outer_at);
        w->out = memory(its.fields * face() * sizeof(double));
        w->in = memory(its.fields * face() * sizeof(double));
    }
}

static void make_requests(int stage)
{
    MPI_Request *at = made[stage];

    for (int sends = 0; sends < 2; sends++)
        for (int i = 0; i < count[stage]; i++) {
            struct way *w = &ways[stage][i];
            int other = sends ? w->to : w->from, tag = 2 * stage + is_up(w);
            if (mode == PACKED) {
                double *packed = sends ? w->out : w->in;
                int length = its.fields * face();
                if (sends)
                    MPI_Send_init(packed, length, MPI_DOUBLE, other, tag, comm, at++);
                else
                    MPI_Recv_init(packed, length, MPI_DOUBLE, other, tag, comm, at++);
                continue;
            }
            for (int f = 0; f < its.fields; f++) {
                int own_tag = tag + 4 * f;
                if (sends)
                    MPI_Send_init(field(stage, f), 1, w->inner, other, own_tag, comm, at++);
                else
                    MPI_Recv_init(field(stage, f), 1, w->outer, other, own_tag, comm, at++);
            }
        }
    requests[stage] = at - made[stage];
}

/* Neighbours are 0, the lower, and 1; all fields of a stage as one datatype, from MPI_BOTTOM. */
static MPI_Datatype outs[2][2], ins[2][2];
static int out_counts[2][2], in_counts[2][2];

static MPI_Datatype of_all(int stage, MPI_Datatype one)
{
    MPI_Aint places[FIELDS_MAX];
    int ones[FIELDS_MAX];
    MPI_Datatype types[FIELDS_MAX], all;

    for (int f = 0; f < its.fields; f++) {
        MPI_Get_address(field(stage, f), &places[f]);
        ones[f] = 1;
        types[f] = one;
    }
    MPI_Type_create_struct(its.fields, ones, places, types, &all);
    MPI_Type_commit(&all);
    return all;
}

static void make_neighbours(int stage)
{
    for (int side = 0; side < 2; side++) {
        outs[stage][side] = ins[stage][side] = MPI_BYTE;
        out_counts[stage][side] = in_counts[stage][side] = 0;
    }
    for (int i = 0; i < count[stage]; i++) {
        struct way *w = &ways[stage][i];
        int up = is_up(w);
        outs[stage][up] = of_all(stage, w->inner);
        ins[stage][!up] = of_all(stage, w->outer);
        out_counts[stage][up] = in_counts[stage][!up] = 1;
    }
}

static void collective(int stage)
{
    static const MPI_Aint places[2];
    MPI_Neighbor_alltoallw(MPI_BOTTOM, out_counts[stage], places, outs[stage], MPI_BOTTOM,
                           in_counts[stage], places, ins[stage], comm);
}

static void pack(int stage, int out)
{
    for (int i = 0; i < count[stage]; i++) {
        struct way *w = &ways[stage][i];
        if ((out ? w->to : w->from) == MPI_PROC_NULL)
            continue;
        for (int f = 0; f < its.fields; f++)
            copy_layer(field(stage, f), out ? w->inner_at : w->outer_at,
                       (out ? w->out : w->in) + f * face(), out);
    }
}

static void sweep(double *cells)
{
    int from[3] = {0, 0, 0};

    from[its.axis] = first;
    for (int x = 0; x < own[0]; x++)
        for (int y = 0; y < own[1]; y++) {
            double *row = cells + ((size_t)(from[0] + x) * whole[1] + from[1] + y) * whole[2];
            row += from[2];
            for (int z = 0; z < own[2]; z++)
                row[z] = row[z] * SHRINK + GROW;
        }
}

/* One stage; its times are added. */
static void do_stage(int stage, double *times)
{
    double swept, begun_ns = now_ns(), started, came;

    for (int f = 0; f < its.fields; f++)
        sweep(field(stage, f));
    swept = now_ns();
    if (mode == NEIGHBOUR) {
        started = swept;
        collective(stage);
    } else {
        if (mode == PACKED)
            pack(stage, 1);
        MPI_Startall(requests[stage], made[stage]);
        started = now_ns();
        MPI_Waitall(requests[stage], made[stage], MPI_STATUSES_IGNORE);
        if (mode == PACKED)
            pack(stage, 0);
    }
    came = now_ns();
    times[COMPUTE] += swept - begun_ns;
    times[PACK] += started - swept;
    times[WAIT] += came - swept;
    mpi_ns += came - swept;
}

/* Blocks since the program began this word; the first two warm up. */
static int blocks;

static void block(void)
{
    if (blocks++ < 3)
        taken_steps = 0;
    for (int s = 0; s < steps; s++, done++) {
        double times[TIMES] = {0}, from = now_ns();
        for (int stage = 0; stage < its.stages; stage++)
            do_stage(stage, times);
        times[STEP] = now_ns() - from;
        if (taken_steps < SAMPLES_MAX) {
            for (int t = 0; t < TIMES; t++)
                taken[t][taken_steps] = times[t] / 1000;
            taken_steps++;
        }
    }
}

static void start(void)
{
    for (int stage = 0; stage < its.stages; stage++)
        for (int f = 0; f < its.fields; f++)
            for (size_t i = 0; i < whole_cells; i++)
                field(stage, f)[i] = begun(rank, stage, f);
    done = 0;
}

/* All cells of a layer; a ghost layer without a neighbour has never been changed. */
static void check_layer(int stage, int f, int at, int of)
{
    double *packed = memory(face() * sizeof *packed);
    double right = after(begun(of, stage, f), done);

    copy_layer(field(stage, f), at, packed, 1);
    SPOIL(packed[0]);
    for (int i = 0; i < face(); i++)
        if (packed[i] != right)
            wrong("field %d of stage %d has %.17g in layer %d after %d steps, not %.17g", f, stage,
                  packed[i], at, done, right);
    free(packed);
}

static void check(void)
{
    for (int stage = 0; stage < its.stages; stage++)
        for (int f = 0; f < its.fields; f++) {
            check_layer(stage, f, first, rank);
            check_layer(stage, f, first + own[its.axis] - 1, rank);
            for (int i = 0; i < count[stage]; i++)
                if (ways[stage][i].from != MPI_PROC_NULL)
                    check_layer(stage, f, ways[stage][i].outer_at, is_up(&ways[stage][i])
                                ? rank - 1 : rank + 1);
        }
}

/* The times of all steps of all ranks, as more fields of the output. */
static const char *times_of_steps(void)
{
    static char text[1024];
    char *at = text;
    long all = (long)taken_steps * ranks;
    double *together = memory(all * sizeof *together);

    for (int t = 0; t < TIMES; t++) {
        double total = 0;
        MPI_Gather(taken[t], taken_steps, MPI_DOUBLE, together, taken_steps, MPI_DOUBLE, 0,
                   MPI_COMM_WORLD);
        qsort(together, all, sizeof *together, ascending);
        for (long i = 0; i < all; i++)
            total += together[i];
        at += sprintf(at, ",\"%s\":{\"min\":%.4f,\"p50\":%.4f,\"p99\":%.4f,\"mean\":%.4f}",
                      names[t], together[0], together[all / 2], together[all * 99 / 100],
                      total / all);
    }
    free(together);
    return text;
}

static void cut(void)
{
    int dims[1] = {0}, periods[1] = {0};

    MPI_Dims_create(ranks, 1, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &comm);
    MPI_Cart_shift(comm, 0, 1, &low, &high);
    first = 1;
    whole_cells = 1;
    for (int i = 0; i < 3; i++) {
        own[i] = its.cells[i];
        if (i == its.axis)
            own[i] = own[i] / ranks + (rank < own[i] % ranks);
        if (own[i] < 1)
            wrong("there are more ranks than layers of cells");
        whole[i] = own[i] + (i == its.axis ? 2 : 0);
        whole_cells *= whole[i];
    }
}

static void release(int stage)
{
    for (int i = 0; i < requests[stage]; i++)
        MPI_Request_free(&made[stage][i]);
    for (int side = 0; side < 2 && mode == NEIGHBOUR; side++) {
        if (out_counts[stage][side])
            MPI_Type_free(&outs[stage][side]);
        if (in_counts[stage][side])
            MPI_Type_free(&ins[stage][side]);
    }
    for (int i = 0; i < count[stage]; i++) {
        MPI_Type_free(&ways[stage][i].inner);
        MPI_Type_free(&ways[stage][i].outer);
        free(ways[stage][i].out);
        free(ways[stage][i].in);
    }
    for (int f = 0; f < its.fields; f++)
        free(field(stage, f));
}

static void run(const struct word *word)
{
    const char *preset = word->large ? "two-way/128x128x128/1/1/0" : "two-way/32x32x32/1/1/0";

    mode = word->mode;
    if (!understand_size(word->size, &its))
        understand_size(preset, &its);
    cut();
    for (int t = 0; t < TIMES; t++)
        taken[t] = memory(SAMPLES_MAX * sizeof *taken[t]);
    for (int stage = 0; stage < its.stages; stage++) {
        for (int f = 0; f < its.fields; f++)
            fields[stage * FIELDS_MAX + f] = memory(whole_cells * sizeof(double));
        make_ways(stage);
        requests[stage] = 0;
        if (mode == NEIGHBOUR)
            make_neighbours(stage);
        else
            make_requests(stage);
    }
    blocks = 0;
    struct plan plan = {.bytes = face() * sizeof(double), .steps = STEPS, .start = start,
                        .block = block, .check = check, .more = times_of_steps};
    measure(word, &plan);
    for (int stage = 0; stage < its.stages; stage++)
        release(stage);
    for (int t = 0; t < TIMES; t++)
        free(taken[t]);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    static const char *const modes[] = {"persistent", "packed", "neighbour", NULL};
    static const struct kernel own_kernel = {"halo", modes, two_sizes, knows, run};
    return program(argc, argv, &own_kernel);
}
