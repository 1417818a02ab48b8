/*
 * What the load generators share: the bodies that they send, and the CPU time
 * of the server's processes.
 */

#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include "bench.h"


#define LOAD_PIDS  16


typedef struct {
    uint32_t    n;
    sel_str_t  *data;
} load_bodies_t;


typedef struct {
    uint32_t   n;
    clockid_t  clocks[LOAD_PIDS];
} load_server_t;


/* A body a line. */
static inline void
load_bodies(load_bodies_t *bodies, const char *path)
{
    FILE     *file;
    char     *line;
    size_t    cap;
    ssize_t   n;

    file = fopen(path, "r");

    if (file == NULL) {
        bench_fail("the file with the bodies cannot be read");
    }

    for ( ;; ) {
        line = NULL;
        cap = 0;
        n = getline(&line, &cap, file);

        if (n <= 1) {
            free(line);
            break;
        }

        bodies->data = realloc(bodies->data, (bodies->n + 1)
                                             * sizeof(sel_str_t));
        if (bodies->data == NULL) {
            bench_fail("out of memory");
        }

        bodies->data[bodies->n++] = (sel_str_t) { (size_t) n - 1,
                                                  (uint8_t *) line };
    }

    (void) fclose(file);

    if (bodies->n == 0) {
        bench_fail("there are no bodies");
    }
}


/* list: PID,PID */
static inline void
load_server(load_server_t *server, const char *list)
{
    char  *end;
    pid_t  pid;

    do {
        pid = (pid_t) strtol(list, &end, 10);

        if (server->n == LOAD_PIDS
            || clock_getcpuclockid(pid, &server->clocks[server->n++]) != 0)
        {
            bench_fail("a process is not there");
        }

        list = end + 1;

    } while (*end == ',');
}


/* nanoseconds of all threads, as utime + stime of /proc/PID/stat but finer */
static inline double
load_cpu(const load_server_t *server)
{
    double           sum;
    uint32_t         i;
    struct timespec  ts;

    sum = 0;

    for (i = 0; i < server->n; i++) {
        if (clock_gettime(server->clocks[i], &ts) != 0) {
            bench_fail("a process of the server is gone");
        }

        sum += (double) ts.tv_sec * 1e9 + (double) ts.tv_nsec;
    }

    return sum;
}


#endif /* BENCH_LOAD_H */
