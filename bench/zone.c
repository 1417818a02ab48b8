/*
 * The shared zone: its lock, and the catalog with 4,000 workers of one rank.
 */

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "bench.h"
#include "state/sel_catalog.h"


#define ZONE_SIZE      ((size_t) 64 << 20)
#define ZONE_WORKERS   4000
#define ZONE_BATCH     64               /* records a read, as in a process */
#define ZONE_LOCKS     10000
#define ZONE_TURNS     200
#define ZONE_WAITS     200000           /* locks with two processes */
#define ZONE_COMMITS   20000
#define ZONE_READS     50
#define ZONE_REBUILDS  50


/* What the processes of the lock's measurement share. */
typedef struct {
    _Atomic uint32_t  running;
    _Atomic uint32_t  stop;
} zone_signal_t;


static void *zone_memory(size_t size);
static void zone_lock(sel_zone_t *zone);
static void zone_lock_two(sel_zone_t *zone);
static void zone_waits(sel_zone_t *zone, bench_samples_t *waits);
static void zone_commits(sel_zone_t *zone, sel_random_t *random);
static uint64_t zone_commit(sel_zone_t *zone, uint64_t worker_id,
    uint64_t expected, sel_rank_slot_t *rank, bool present);
static void zone_changes(sel_zone_t *zone, sel_random_t *random);
static uint32_t zone_read(sel_zone_t *zone, uint64_t *version);
static void zone_rebuild(sel_zone_t *zone);


static const char  zone_blob[] =
    "{\"worker_id\":1000,\"model_name\":\"llama-3.3-70b-instruct\","
    "\"routing_group\":\"default\",\"endpoint\":\"http://10.0.0.7:8000\","
    "\"kv_events_endpoints\":{\"0\":\"tcp://10.0.0.7:5557\"},"
    "\"block_size\":16,\"data_parallel_start_rank\":0,"
    "\"data_parallel_size\":1,\"max_num_batched_tokens\":8192,"
    "\"total_kv_blocks\":131072,\"is_eagle\":false,\"taints\":[],"
    "\"topology_domains\":{\"zone\":\"a\"}}";

static sel_rank_slot_t  zone_ranks[ZONE_WORKERS];
static uint64_t         zone_versions[ZONE_WORKERS];


int
main(void)
{
    sel_zone_t    zone;
    sel_random_t  random;

    sel_random_seed(&random);

    if (!sel_zone_format(&zone, zone_memory(ZONE_SIZE), ZONE_SIZE)) {
        bench_fail("the zone cannot be made");
    }

    printf("Shared zone, %u workers of one rank, records of %zu bytes\n\n",
           ZONE_WORKERS, sizeof(zone_blob) - 1);

    zone_lock(&zone);
    zone_lock_two(&zone);
    zone_commits(&zone, &random);
    zone_changes(&zone, &random);
    zone_rebuild(&zone);

    return 0;
}


static void *
zone_memory(size_t size)
{
    void  *p;

    p = mmap(NULL, size, PROT_READ|PROT_WRITE, MAP_SHARED|MAP_ANONYMOUS, -1,
             0);

    if (p == MAP_FAILED) {
        bench_fail("out of memory");
    }

    return p;
}


static void
zone_lock(sel_zone_t *zone)
{
    uint32_t         i, k;
    uint64_t         start;
    bench_samples_t  times;

    times = bench_samples(ZONE_TURNS);

    for (k = 0; k < ZONE_TURNS; k++) {
        start = sel_clock_ns();

        for (i = 0; i < ZONE_LOCKS; i++) {
            sel_zone_lock(zone);
            sel_zone_unlock(zone);
        }

        bench_add(&times, (double) (sel_clock_ns() - start) / ZONE_LOCKS);
    }

    bench_print("lock and unlock, alone", &times, "ns");
    bench_samples_free(&times);
}


/* Two processes that do nothing else but lock and unlock. */
static void
zone_lock_two(sel_zone_t *zone)
{
    pid_t             pid;
    uint64_t          start, waited;
    zone_signal_t    *signals;
    bench_samples_t   waits;

    waits = bench_samples(ZONE_WAITS);
    signals = zone_memory(sizeof(zone_signal_t));
    waited = sel_counted(zone, SEL_COUNT_LOCK_WAITS);

    pid = fork();

    if (pid == -1) {
        bench_fail("no second process");
    }

    if (pid == 0) {
        start = sel_clock_ns();
        signals->running = 1;

        while (signals->stop == 0
               && sel_clock_ns() - start < 10 * UINT64_C(1000000000))
        {
            sel_zone_lock(zone);
            sel_zone_unlock(zone);
        }

        _exit(0);
    }

    while (signals->running == 0) { /* void */ }

    zone_waits(zone, &waits);
    signals->stop = 1;
    (void) waitpid(pid, NULL, 0);

    bench_print("lock, two processes", &waits, "ns");
    bench_print_one("   one of a thousand takes longer than",
                    bench_quantile(&waits, 0.999) / 1000, "us");
    bench_print_one("   not at once, of both processes' locks per lock",
                    (double) (sel_counted(zone, SEL_COUNT_LOCK_WAITS)
                              - waited) / ZONE_WAITS, "");
    bench_samples_free(&waits);
}


static void
zone_waits(sel_zone_t *zone, bench_samples_t *waits)
{
    uint32_t  i;
    uint64_t  start;

    for (i = 0; i < ZONE_WAITS; i++) {
        start = sel_clock_ns();
        sel_zone_lock(zone);
        bench_add(waits, (double) (sel_clock_ns() - start));
        sel_zone_unlock(zone);
    }
}


static void
zone_commits(sel_zone_t *zone, sel_random_t *random)
{
    uint32_t         i, k;
    uint64_t         start;
    bench_samples_t  created, changed, deleted;

    created = bench_samples(ZONE_WORKERS);
    changed = bench_samples(ZONE_COMMITS);
    deleted = bench_samples(ZONE_COMMITS);

    for (i = 0; i < ZONE_WORKERS; i++) {
        zone_ranks[i].slot = SEL_SLOT_NONE;

        start = sel_clock_ns();
        zone_versions[i] = zone_commit(zone, i, 0, &zone_ranks[i], true);
        bench_add(&created, (double) (sel_clock_ns() - start) / 1000);
    }

    for (k = 0; k < ZONE_COMMITS; k++) {
        i = (uint32_t) sel_random_below(random, ZONE_WORKERS);

        start = sel_clock_ns();
        zone_versions[i] = zone_commit(zone, i, zone_versions[i],
                                       &zone_ranks[i], true);
        bench_add(&changed, (double) (sel_clock_ns() - start) / 1000);
    }

    for (k = 0; k < ZONE_COMMITS; k++) {
        i = (uint32_t) sel_random_below(random, ZONE_WORKERS);

        start = sel_clock_ns();
        (void) zone_commit(zone, i, zone_versions[i], NULL, false);
        bench_add(&deleted, (double) (sel_clock_ns() - start) / 1000);

        zone_ranks[i].slot = SEL_SLOT_NONE;
        zone_versions[i] = zone_commit(zone, i, 0, &zone_ranks[i], true);
    }

    bench_print("commit of a new worker", &created, "us");
    bench_print("commit of a changed one", &changed, "us");
    bench_print("commit of a deletion", &deleted, "us");

    bench_samples_free(&created);
    bench_samples_free(&changed);
    bench_samples_free(&deleted);
}


static uint64_t
zone_commit(sel_zone_t *zone, uint64_t worker_id, uint64_t expected,
    sel_rank_slot_t *rank, bool present)
{
    uint32_t              number;
    uint64_t              version;
    sel_partition_t       partition, existing;
    sel_worker_commit_t   commit;

    partition = (sel_partition_t) { .block_size = 16,
        .model_name = sel_str("llama-3.3-70b-instruct"),
        .routing_group = sel_str("default") };

    commit = (sel_worker_commit_t) { .worker_id = worker_id,
        .expected = expected, .state = SEL_WORKER_GONE };

    if (present) {
        commit.state = SEL_WORKER_SCHEDULABLE;
        commit.partition = &partition;
        commit.n_ranks = 1;
        commit.ranks = rank;
        commit.blob = sel_str(zone_blob);
    }

    if (sel_catalog_commit(zone, &commit, &version, &number, &existing)
        != SEL_COMMIT_OK)
    {
        bench_fail("a commit was refused");
    }

    return version;
}


static void
zone_changes(sel_zone_t *zone, sel_random_t *random)
{
    uint32_t         i, k;
    uint64_t         start, version;
    bench_samples_t  all, one;

    all = bench_samples(ZONE_READS);
    one = bench_samples(ZONE_COMMITS);

    for (k = 0; k < ZONE_READS; k++) {
        version = 0;
        start = sel_clock_ns();

        if (zone_read(zone, &version) < ZONE_WORKERS) {
            bench_fail("workers are missing");
        }

        bench_add(&all, (double) (sel_clock_ns() - start) / 1000);
    }

    for (k = 0; k < ZONE_COMMITS; k++) {
        i = (uint32_t) sel_random_below(random, ZONE_WORKERS);
        version = sel_catalog_version(zone);
        zone_versions[i] = zone_commit(zone, i, zone_versions[i],
                                       &zone_ranks[i], true);

        start = sel_clock_ns();

        if (zone_read(zone, &version) != 1) {
            bench_fail("a change is missing");
        }

        bench_add(&one, (double) (sel_clock_ns() - start) / 1000);
    }

    bench_print("read all workers", &all, "us");
    bench_print("read one change", &one, "us");

    bench_samples_free(&all);
    bench_samples_free(&one);
}


/* What a process does to come to the newest version. */
static uint32_t
zone_read(sel_zone_t *zone, uint64_t *version)
{
    int                   n;
    uint32_t              total;
    sel_arena_t           arena;
    sel_worker_record_t   records[ZONE_BATCH];

    total = 0;

    do {
        sel_arena_init(&arena, 0);
        n = sel_catalog_changes(zone, *version, ZONE_BATCH, &arena, records);

        if (n < 0) {
            bench_fail("out of memory");
        }

        if (n > 0) {
            *version = records[n - 1].version;
        }

        total += (uint32_t) n;
        sel_arena_free(&arena);

    } while (n > 0);

    return total;
}


static void
zone_rebuild(sel_zone_t *zone)
{
    uint32_t         k;
    uint64_t         start;
    bench_samples_t  times;

    times = bench_samples(ZONE_REBUILDS);

    for (k = 0; k < ZONE_REBUILDS; k++) {
        sel_zone_lock(zone);
        start = sel_clock_ns();
        sel_zone_rebuild(zone);
        bench_add(&times, (double) (sel_clock_ns() - start) / 1000);
        sel_zone_unlock(zone);
    }

    bench_print("rebuild", &times, "us");
    bench_samples_free(&times);
}
