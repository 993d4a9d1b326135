/* What the tests in C share: a rank opens its endpoint, checks what calls say, and tells at its end
 * that all was well. */
#ifndef CHECK_H
#define CHECK_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <weft.h>

static weft_job *job;
static weft_endpoint *endpoint;
static uint32_t rank, size;

static void fail(const char *file, int line, const char *what, const char *why) {
    fprintf(stderr, "@%" PRIu32 " FAILED %s:%d: %s: %s\n", rank, file, line, what, why);
    exit(1);
}

static void expect(weft_status status, weft_status wanted, const char *call, int line) {
    char why[4096];
    if (status == wanted)
        return;
    snprintf(why, sizeof why, "%s where %s is expected: %s", weft_status_name(status),
             weft_status_name(wanted), weft_error_text());
    fail("", line, call, why);
}

/* The call returns this status. */
#define IS(status, call) expect(call, status, #call, __LINE__)
#define GOOD(call) IS(WEFT_OK, call)
/* The call returns this status, and its text has these words. */
#define SAYS(status, words, call)                                                                  \
    do {                                                                                           \
        IS(status, call);                                                                          \
        if (!strstr(weft_error_text(), words))                                                     \
            fail(__FILE__, __LINE__, #call, weft_error_text());                                    \
    } while (0)
#define HOLDS(what)                                                                                \
    do {                                                                                           \
        if (!(what))                                                                               \
            fail(__FILE__, __LINE__, #what, "it does not hold");                                   \
    } while (0)

static inline void begin(void) {
    GOOD(weft_job_from_env(&job));
    GOOD(weft_endpoint_open(job, 3, &endpoint));
    GOOD(weft_endpoint_rank(endpoint, &rank));
    GOOD(weft_endpoint_size(endpoint, &size));
}

static inline void end(void) {
    GOOD(weft_endpoint_free(endpoint));
    GOOD(weft_job_free(job));
    printf("@%" PRIu32 " all is well\n", rank);
}

/* `len` bytes that end where a page begins that is forbidden; or that begin behind one. */
static inline unsigned char *guarded(size_t len, int at_end) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (len + page - 1) / page * page;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    unsigned char *memory = mmap(NULL, room + 2 * page, PROT_NONE, flags, -1, 0);
    HOLDS(memory != MAP_FAILED);
    HOLDS(mprotect(memory + page, room, PROT_READ | PROT_WRITE) == 0);
    return memory + page + (at_end ? room - len : 0);
}

/* Bytes that differ for each seed, and whether they are these. */
static inline void paint(void *memory, size_t len, unsigned seed) {
    for (size_t i = 0; i < len; i++)
        ((unsigned char *)memory)[i] = (unsigned char)(i * 7 + (i >> 8) + seed * 31);
}

static inline int painted(const void *memory, size_t len, unsigned seed) {
    for (size_t i = 0; i < len; i++)
        if (((const unsigned char *)memory)[i] != (unsigned char)(i * 7 + (i >> 8) + seed * 31))
            return 0;
    return 1;
}

static inline void *memory_of(size_t len) {
    void *memory = malloc(len ? len : 1);
    HOLDS(memory);
    return memory;
}

#endif
