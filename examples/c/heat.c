/* Heat in a box: each rank has a slab of it, and a plan brings its neighbours' outermost layers.
 *
 * A mode of the box decays by a known factor in every step, which the end of the run is checked
 * against.
 *
 * make && weft run -n 4 --lab nodes=2 -- ./heat [CELLS [STEPS]] */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <weft.h>

static weft_job *job;
static weft_endpoint *endpoint;
static uint32_t rank, size;

static void check(weft_status status) {
    if (status != WEFT_OK) {
        fprintf(stderr, "rank %" PRIu32 ": %s: %s\n", rank, weft_status_name(status),
                weft_error_text());
        exit(1);
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Ghost layers are on both sides of all axes; walls are ghost cells that stay 0. */
struct box {
    long cells, layers, first;
};

static long at(const struct box *box, long z, long y, long x) {
    long wide = box->cells + 2;
    return ((z + 1) * wide + y + 1) * wide + x + 1;
}

static double mode(const struct box *box, long z, long y, long x) {
    double step = M_PI / (double)(box->cells + 1);
    return sin((double)(box->first + z + 1) * step) * sin((double)(y + 1) * step) *
           sin((double)(x + 1) * step);
}

static const double share = 0.1;

/* New values of the layers from `from` to before `to`. */
static void layers(const struct box *box, const double *old, double *new, long from, long to) {
    long wide = box->cells + 2, plane = wide * wide;
    for (long z = from; z < to; z++)
        for (long y = 0; y < box->cells; y++)
            for (long i = at(box, z, y, 0), end = i + box->cells; i < end; i++)
                new[i] = old[i] + share * (old[i - 1] + old[i + 1] + old[i - wide] + old[i + wide] +
                                           old[i - plane] + old[i + plane] - 6 * old[i]);
}

int main(int count, char **words) {
    long cells = count > 1 ? atol(words[1]) : 48, steps = count > 2 ? atol(words[2]) : 100;
    check(weft_job_from_env(&job));
    check(weft_endpoint_open(job, 0, &endpoint));
    check(weft_endpoint_rank(endpoint, &rank));
    check(weft_endpoint_size(endpoint, &size));
    if (cells < (long)size || cells > 1000 || steps < 1) {
        fprintf(stderr, "usage: heat [CELLS [STEPS]]: 1 to 1000 cells, one a rank at least\n");
        return 2;
    }
    struct box box = {cells, 0, cells * rank / size};
    box.layers = cells * (rank + 1) / size - box.first;

    weft_plan *plan;
    check(weft_plan_grid(endpoint, 3, (uint32_t[]){size, 1, 1}, (bool[]){false, false, false},
                         &plan));
    check(weft_plan_corners(plan, WEFT_CORNERS_NO));
    weft_axis axes[3] = {{(size_t)box.layers, 1, 1}, {(size_t)cells, 1, 1}, {(size_t)cells, 1, 1}};
    double *heat[2];
    int stage[2];
    for (int i = 0; i < 2; i++) {
        int array;
        void *memory;
        check(weft_plan_array(plan, NULL, 3, axes, sizeof(double), NULL, &array, &memory));
        check(weft_plan_stage(plan, &array, 1, &stage[i]));
        heat[i] = memory;
    }
    check(weft_plan_build(plan));

    for (long z = 0; z < box.layers; z++)
        for (long y = 0; y < cells; y++)
            for (long x = 0; x < cells; x++)
                heat[0][at(&box, z, y, x)] = mode(&box, z, y, x);
    double begin = now(), waited = 0;
    for (long step = 0; step < steps; step++) {
        int old = (int)(step % 2);
        check(weft_plan_start(plan, stage[old]));
        /* What needs no neighbour; the outermost layers follow. */
        layers(&box, heat[old], heat[!old], 1, box.layers - 1);
        double before = now();
        check(weft_plan_wait(plan, stage[old]));
        waited += now() - before;
        layers(&box, heat[old], heat[!old], 0, 1);
        if (box.layers > 1)
            layers(&box, heat[old], heat[!old], box.layers - 1, box.layers);
    }
    double took = now() - begin;

    double decay = pow(1 - 6 * share * (1 - cos(M_PI / (double)(cells + 1))), (double)steps);
    double worst = 0;
    for (long z = 0; z < box.layers; z++)
        for (long y = 0; y < cells; y++)
            for (long x = 0; x < cells; x++) {
                double is = heat[steps % 2][at(&box, z, y, x)];
                worst = fmax(worst, fabs(is - decay * mode(&box, z, y, x)));
            }
    check(weft_allreduce(endpoint, WEFT_MAX, &worst, 1, WEFT_F64));
    if (rank == 0)
        printf("%ld steps of %ld^3 cells by %" PRIu32 " ranks: %.1f us a step, %.1f us of them in "
               "waits; the error is %.1e: %s\n",
               steps, cells, size, took / (double)steps * 1e6, waited / (double)steps * 1e6, worst,
               worst < 1e-10 ? "good" : "TOO LARGE");
    check(weft_plan_free(plan));
    check(weft_endpoint_free(endpoint));
    check(weft_job_free(job));
    return worst < 1e-10 ? 0 : 1;
}
