/* A message goes round all ranks, and each adds its number to it.
 *
 * make && weft run -n 4 -- ./hello */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <weft.h>

static void check(weft_status status) {
    if (status != WEFT_OK) {
        fprintf(stderr, "%s: %s\n", weft_status_name(status), weft_error_text());
        exit(1);
    }
}

int main(void) {
    weft_job *job;
    weft_endpoint *endpoint;
    uint32_t rank, size;
    check(weft_job_from_env(&job));
    check(weft_endpoint_open(job, 0, &endpoint));
    check(weft_endpoint_rank(endpoint, &rank));
    check(weft_endpoint_size(endpoint, &size));

    const uint64_t tag = 7;
    uint32_t next = (rank + 1) % size, before = (rank + size - 1) % size;
    uint64_t sum = 0;
    weft_envelope envelope;
    if (rank == 0)
        check(weft_send(endpoint, next, tag, &sum, sizeof sum));
    check(weft_recv(endpoint, before, tag, 0, &sum, sizeof sum, &envelope));
    sum += rank;
    printf("rank %" PRIu32 " of %" PRIu32 ": %" PRIu64 " bytes from rank %" PRIu32
           ", the sum is %" PRIu64 "\n", rank, size, envelope.len, envelope.source, sum);
    if (rank != 0)
        check(weft_send(endpoint, next, tag, &sum, sizeof sum));

    check(weft_endpoint_free(endpoint));
    check(weft_job_free(job));
    return 0;
}
