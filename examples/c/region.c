/* All ranks write into the memory of rank 0 and draw numbers there, while rank 0 only waits to be
 * told.
 *
 * make && weft run -n 4 -- ./region */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <weft.h>

enum { ROW = 1000, MOST = 256 };

/* Memory of rank 0: a counter, then a row of each rank. */
static struct {
    uint64_t counter;
    double rows[MOST][ROW];
} board;

static void check(weft_status status) {
    if (status != WEFT_OK) {
        fprintf(stderr, "%s: %s\n", weft_status_name(status), weft_error_text());
        exit(1);
    }
}

static void write_row(weft_endpoint *endpoint, uint32_t rank, const weft_region_handle *there) {
    static double row[ROW];
    uint64_t one = 1, turn;
    for (int i = 0; i < ROW; i++)
        row[i] = rank;
    check(weft_fetch_add(endpoint, there, 0, WEFT_U64, &one, &turn));
    /* The owner has a notice when the bytes are there. */
    check(weft_put_with(endpoint, there, sizeof board.counter + rank * sizeof row, row, sizeof row,
                        turn));
}

static void read_rows(weft_region *region, uint32_t size) {
    for (uint32_t i = 0; i < size; i++) {
        weft_notice notice;
        check(weft_region_wait_notice(region, &notice));
        double sum = 0;
        for (int k = 0; k < ROW; k++)
            sum += board.rows[notice.source][k];
        printf("rank %" PRIu32 " drew %" PRIu64 ", its row sums up to %g\n", notice.source,
               notice.value, sum);
    }
}

int main(void) {
    weft_job *job;
    weft_endpoint *endpoint;
    weft_region *region = NULL;
    weft_region_handle there;
    uint32_t rank, size;
    check(weft_job_from_env(&job));
    check(weft_endpoint_open(job, 0, &endpoint));
    check(weft_endpoint_rank(endpoint, &rank));
    check(weft_endpoint_size(endpoint, &size));
    if (size > MOST) {
        fprintf(stderr, "%d ranks at most\n", MOST);
        return 2;
    }

    if (rank == 0) {
        check(weft_region_register(endpoint, &board, sizeof board, WEFT_GET | WEFT_PUT, &region));
        check(weft_handle_of(region, &there));
    }
    /* A handle is plain bytes. */
    check(weft_broadcast(endpoint, 0, &there, sizeof there, WEFT_U8));
    write_row(endpoint, rank, &there);
    if (rank == 0)
        read_rows(region, size);

    check(weft_barrier(endpoint));
    if (region)
        check(weft_region_free(region));
    check(weft_endpoint_free(endpoint));
    check(weft_job_free(job));
    return 0;
}
