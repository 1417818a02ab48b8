/*
 * What the benchmarks share: times, samples and their quantiles.
 */

#ifndef BENCH_H
#define BENCH_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "core/sel_clock.h"
#include "core/sel_random.h"


/* Measurements of one kind; cap is what there is room for. */
typedef struct {
    double    *data;
    uint32_t   n;
    uint32_t   cap;
    bool       sorted;
} bench_samples_t;


static inline void
bench_fail(const char *text)
{
    (void) fprintf(stderr, "%s\n", text);
    exit(1);
}


static inline void *
bench_alloc(size_t size)
{
    void  *p;

    p = calloc(1, size);

    if (p == NULL) {
        bench_fail("out of memory");
    }

    return p;
}


static inline bench_samples_t
bench_samples(uint32_t cap)
{
    return (bench_samples_t) { bench_alloc(cap * sizeof(double)), 0, cap,
                               false };
}


static inline void
bench_samples_free(bench_samples_t *samples)
{
    free(samples->data);
}


/* Samples beyond the room are dropped. */
static inline void
bench_add(bench_samples_t *samples, double value)
{
    if (samples->n < samples->cap) {
        samples->data[samples->n++] = value;
        samples->sorted = false;
    }
}


static inline int
bench_compare(const void *one, const void *two)
{
    double  a, b;

    a = *(const double *) one;
    b = *(const double *) two;

    return (a > b) - (a < b);
}


/* part 0: the smallest, 0.5: the median, 1: the largest */
static inline double
bench_quantile(bench_samples_t *samples, double part)
{
    if (samples->n == 0) {
        return 0;
    }

    if (!samples->sorted) {
        qsort(samples->data, samples->n, sizeof(double), bench_compare);
        samples->sorted = true;
    }

    return samples->data[(uint32_t) (part * (samples->n - 1) + 0.5)];
}


static inline double
bench_median(bench_samples_t *samples)
{
    return bench_quantile(samples, 0.5);
}


/* CPU time of this thread: what other programs take does not count. */
static inline uint64_t
bench_cpu_ns(void)
{
    struct timespec  ts;

    (void) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);

    return (uint64_t) ts.tv_sec * 1000000000 + (uint64_t) ts.tv_nsec;
}


static inline uint64_t
bench_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;

    return x ^ x >> 31;
}


/* A made-up token id below 152,000; the same for the same number. */
static inline uint32_t
bench_token(uint64_t n)
{
    return (uint32_t) ((bench_mix(n) >> 32) * 152000 >> 32);
}


/* "name   median (10 % .. 90 %) unit" */
static inline void
bench_print(const char *name, bench_samples_t *samples, const char *unit)
{
    printf("  %-44s %10.2f (%.2f .. %.2f) %s\n", name, bench_median(samples),
           bench_quantile(samples, 0.1), bench_quantile(samples, 0.9), unit);
}


static inline void
bench_print_one(const char *name, double value, const char *unit)
{
    printf("  %-44s %10.2f %s\n", name, value, unit);
}


/* Makes the compiler believe that a value is used. */
static inline void
bench_keep(uint64_t value)
{
    __asm__ volatile ("" : : "r" (value) : "memory");
}


#endif /* BENCH_H */
