/*
 * Sessions beside a slow model, in one process.  Without it a binding could be
 * lost or outlive its time in some order of bookings, ends and changes of the
 * catalog, an old booking could hold a new binding, and a rebuild could come
 * to other bindings.
 *
 * SEL_SEED repeats a run, SEL_OPS sets its length (60000 or more).
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "sel_rand.h"
#include "session_test.h"


#define WORKERS     6
#define RANKS       4
#define PARTITIONS  2
#define SESSIONS    30
#define BOOKINGS    80
#define BINDINGS    (SESSIONS * PARTITIONS)
#define PROCS       3
#define ROOMY       ((size_t) 4 << 20)


typedef struct {
    uint64_t  version;                  /* 0: there is none */
    uint32_t  partition;                /* 0: in none */
    uint32_t  n_ranks;
    rank_t    ranks[RANKS];
} model_worker_t;


typedef struct {
    uint64_t  revision;                 /* 0: there is none */
    uint64_t  since;                    /* valid without leases */
    uint32_t  worker;
    uint32_t  dp_rank;
} model_binding_t;


typedef struct {
    bool      live;
    bool      served;
    uint32_t  proc;
    uint32_t  worker;
    uint32_t  dp_rank;
    uint64_t  started;
    uint32_t  session;                  /* index of the binding */
    uint64_t  revision;                 /* that it holds; 0: none */
} model_booking_t;


typedef struct {
    test_t           test;
    sel_rand_t       rand;
    uint64_t         ttl;
    uint64_t         age;
    uint64_t         last;              /* revision seen */
    uint32_t         op;
    model_worker_t   workers[WORKERS + 1];
    model_binding_t  bindings[BINDINGS];
    model_booking_t  bookings[BOOKINGS];
    uint64_t         counters[SEL_COUNTERS];
    uint64_t         results[SEL_BOOK_BOUND + 1];
} walk_t;


#define say(walk, ...)                                                        \
    do {                                                                      \
        print_error("operation %u: ", (walk)->op);                            \
        fail_msg(__VA_ARGS__);                                                \
    } while (0)


static uint32_t
below(walk_t *walk, uint32_t bound)
{
    return (uint32_t) sel_rand_below(&walk->rand, bound);
}


/* Ids that begin alike, of lengths from none to the longest. */
static sel_str_t
session_id(uint32_t index)
{
    static const uint32_t  lens[6] = { 4, 20, 184, 185, 249, 256 };
    static uint8_t         text[4][256];
    static uint32_t        next;

    uint32_t   id;
    uint8_t   *room;

    id = index % SESSIONS;
    room = text[next++ % 4];
    memset(room, 0, 256);

    if (id == 0) {
        return (sel_str_t) { 0, room };
    }

    room[lens[id % 6] - 1] = (uint8_t) (id / 6);

    return (sel_str_t) { lens[id % 6], room };
}


static uint32_t
partition_of(uint32_t index)
{
    return 1 + index / SESSIONS;
}


static sel_str_t
booking_id(uint32_t at)
{
    static char  text[4][16];
    static uint32_t  next;

    char  *room;

    room = text[next++ % 4];
    (void) snprintf(room, 16, "b%u", at);

    return sel_cstr(room);
}


static uint32_t
leases(const walk_t *walk, uint32_t index)
{
    uint32_t                i, n;
    const model_booking_t  *booking;

    n = 0;

    for (i = 0; i < BOOKINGS; i++) {
        booking = &walk->bookings[i];
        n += booking->live && booking->revision != 0
             && booking->session == index
             && booking->revision == walk->bindings[index].revision;
    }

    return n;
}


static bool
is_dead(const walk_t *walk, uint32_t index, uint64_t now)
{
    return walk->bindings[index].revision != 0 && leases(walk, index) == 0
           && walk->bindings[index].since + walk->ttl <= now;
}


/* The binding's identity at a time. */
static uint64_t
alive(const walk_t *walk, uint32_t index, uint64_t now)
{
    return is_dead(walk, index, now) ? 0 : walk->bindings[index].revision;
}


static bool
is_there(const walk_t *walk, uint32_t partition, uint32_t worker,
    uint32_t dp_rank)
{
    return walk->workers[worker].partition == partition
           && dp_rank < walk->workers[worker].n_ranks;
}


static void
end_booking(walk_t *walk, uint32_t at)
{
    uint32_t          index;
    model_booking_t  *booking;

    booking = &walk->bookings[at];
    booking->live = false;
    index = booking->session;

    if (booking->revision != 0
        && booking->revision == walk->bindings[index].revision
        && leases(walk, index) == 0)
    {
        walk->bindings[index].since = session_clock;
    }
}


static void
end_binding(walk_t *walk, uint32_t index, sel_counter_t counter)
{
    walk->bindings[index].revision = 0;
    walk->counters[counter]++;
}


static bool
recorded(walk_t *walk, uint32_t index)
{
    bool       found;
    sel_str_t  id;

    id = session_id(index);
    sel_zone_lock(&walk->test.zone);
    found = sel_zone_session_find(&walk->test.zone,
                                  sel_session_hash(&walk->test.zone,
                                                   partition_of(index), id),
                                  partition_of(index), id) != NULL;
    sel_zone_unlock(&walk->test.zone);

    return found;
}


/*
 * Which of the idle bindings have gone: the first of them, by their time, and
 * not more than max.  Returns how many.
 */
static uint32_t
follow_gone(walk_t *walk, uint64_t before, uint32_t max, sel_counter_t counter)
{
    bool      gone[BINDINGS];
    uint32_t  i, n;
    uint64_t  last;

    n = 0;
    last = 0;

    for (i = 0; i < BINDINGS; i++) {
        gone[i] = walk->bindings[i].revision != 0 && !recorded(walk, i);

        if (!gone[i]) {
            continue;
        }

        if (!is_dead(walk, i, before)) {
            say(walk, "binding %u is lost", i);
        }

        n++;

        if (walk->bindings[i].since > last) {
            last = walk->bindings[i].since;
        }
    }

    for (i = 0; i < BINDINGS; i++) {
        if (n > 0 && !gone[i] && walk->bindings[i].revision != 0
            && leases(walk, i) == 0 && walk->bindings[i].since < last)
        {
            say(walk, "binding %u stays, a younger one goes", i);
        }
    }

    for (i = 0; i < BINDINGS; i++) {
        if (gone[i]) {
            end_binding(walk, i, counter);
        }
    }

    if (n > max) {
        say(walk, "%u bindings went, %u at most should", n, max);
    }

    return n;
}


/* Bookings that a new one has let expire: the oldest that are due. */
static void
follow_expired(walk_t *walk, uint32_t except)
{
    uint32_t  i;

    for (i = 0; i < BOOKINGS; i++) {
        if (i != except && walk->bookings[i].live
            && !sel_booked(&walk->test.zone, booking_id(i)))
        {
            if (walk->age == 0 || walk->bookings[i].served
                || walk->bookings[i].started >= session_clock - walk->age)
            {
                say(walk, "booking %u is lost", i);
            }

            end_booking(walk, i);
        }
    }
}


/* What a booking of a session comes to. */
static sel_book_result_t
model_book(walk_t *walk, const model_booking_t *asked, uint64_t chosen_by,
    bool follows)
{
    uint64_t          bound;
    uint32_t          index;
    model_binding_t  *binding;

    index = asked->session;
    binding = &walk->bindings[index];
    bound = alive(walk, index, session_clock);

    if (chosen_by != bound && !follows) {
        return SEL_BOOK_MOVED;
    }

    if (bound == 0 || (binding->worker == asked->worker
                       && binding->dp_rank == asked->dp_rank))
    {
        return SEL_BOOK_OK;
    }

    return follows || !is_there(walk, partition_of(index), binding->worker,
                                binding->dp_rank)
           ? SEL_BOOK_OK : SEL_BOOK_BOUND;
}


static bool
bound_there(const walk_t *walk, uint32_t index)
{
    return is_there(walk, partition_of(index), walk->bindings[index].worker,
                    walk->bindings[index].dp_rank);
}


/* A booking with a session is made: it joins, binds, moves or goes without. */
static void
model_booked(walk_t *walk, model_booking_t *asked, uint64_t unbound)
{
    uint32_t          index;
    uint64_t          bound;
    sel_binding_t     found;
    model_binding_t  *binding;

    index = asked->session;
    binding = &walk->bindings[index];
    bound = alive(walk, index, session_clock);
    found = sel_session_find(&walk->test.zone, partition_of(index),
                             session_id(index), session_clock);

    if (bound != 0 && binding->worker == asked->worker
        && binding->dp_rank == asked->dp_rank)
    {
        asked->revision = bound;
        return;
    }

    if (binding->revision != 0) {
        end_binding(walk, index, bound == 0 ? SEL_COUNT_SESSION_IDLE
                                 : bound_there(walk, index)
                                   ? SEL_COUNT_SESSION_MOVED
                                   : SEL_COUNT_SESSION_RANK_GONE);
    }

    asked->revision = found.revision;

    if (found.revision == 0) {
        walk->counters[SEL_COUNT_SESSION_UNBOUND]++;

        if (walk->test.zone.size == ROOMY
            || sel_counted(&walk->test.zone, SEL_COUNT_SESSION_UNBOUND)
               != unbound + 1)
        {
            say(walk, "a session is not bound");
        }

        return;
    }

    if (found.revision <= walk->last) {
        say(walk, "a revision is used twice");
    }

    walk->last = found.revision;
    walk->counters[SEL_COUNT_SESSION_BOUND]++;
    *binding = (model_binding_t) { .revision = found.revision,
                                   .worker = asked->worker,
                                   .dp_rank = asked->dp_rank };
}


static bool
walk_rank(walk_t *walk, uint32_t partition, model_booking_t *asked)
{
    uint32_t  i, k, w;

    k = below(walk, WORKERS);

    for (i = 0; i < WORKERS; i++) {
        w = 1 + (k + i) % WORKERS;

        if (walk->workers[w].partition == partition) {
            asked->worker = w;
            asked->dp_rank = below(walk, walk->workers[w].n_ranks);
            return true;
        }
    }

    return false;
}


static void
walk_book(walk_t *walk)
{
    bool                with, due;
    uint32_t            at, i;
    uint64_t            bound, unbound;
    rank_t             *rank;
    sel_zone_t         *zone;
    sel_booking_t       booking;
    model_booking_t     asked;
    model_binding_t    *binding;
    sel_book_result_t   result, expected;

    zone = &walk->test.zone;
    at = below(walk, BOOKINGS);
    memset(&asked, 0, sizeof(asked));
    asked.session = below(walk, BINDINGS);
    binding = &walk->bindings[asked.session];
    bound = alive(walk, asked.session, session_clock);
    due = walk->bookings[at].live && !walk->bookings[at].served
          && walk->age != 0
          && walk->bookings[at].started < session_clock - walk->age;

    if (due || !walk_rank(walk, partition_of(asked.session), &asked)) {
        return;
    }

    if (bound != 0 && below(walk, 3)
        && is_there(walk, partition_of(asked.session), binding->worker,
                    binding->dp_rank))
    {
        asked.worker = binding->worker;
        asked.dp_rank = binding->dp_rank;
    }

    rank = &walk->workers[asked.worker].ranks[asked.dp_rank];
    with = below(walk, 8) != 0;
    asked.live = true;
    asked.served = below(walk, 3) == 0;
    asked.proc = 10 + below(walk, PROCS);
    asked.started = session_clock;

    booking = booking_of(rank, booking_id(at), none);
    booking.kind = asked.served ? SEL_BOOKING_ROUTER : SEL_BOOKING_API;
    booking.proc = asked.proc;

    if (with) {
        booking.session.id = session_id(asked.session);
        booking.session.revision = bound;
        booking.session.follows = below(walk, 10) == 0;

        if (!booking.session.follows && below(walk, 10) == 0) {
            booking.session.revision = below(walk, 2)
                                       ? below(walk, (uint32_t) walk->last + 2)
                                       : 0;
        }
    }

    unbound = sel_counted(zone, SEL_COUNT_SESSION_UNBOUND);
    result = session_book(&walk->test, rank, &booking);
    walk->results[result]++;

    /* what has gone on the way: bookings of any age, then dead bindings */

    follow_expired(walk, at);

    if (walk->bookings[at].live) {
        if (result != SEL_BOOK_TAKEN
            && !(with && result == SEL_BOOK_MOVED
                 && booking.session.revision != bound))
        {
            say(walk, "an id is taken, but the result is %d", result);
        }

    } else {
        expected = with ? model_book(walk, &asked, booking.session.revision,
                                     booking.session.follows) : SEL_BOOK_OK;

        if (result != expected
            && !(result == SEL_BOOK_FULL && zone->size != ROOMY))
        {
            say(walk, "a booking of session %u (bound %" PRIu64 " to worker %u"
                " rank %u) on worker %u rank %u ended with %d, expected %d",
                asked.session, bound, binding->worker, binding->dp_rank,
                asked.worker, asked.dp_rank, result, expected);
        }
    }

    if (result == SEL_BOOK_BOUND) {
        end_binding(walk, asked.session, SEL_COUNT_SESSION_REFUSED);
    }

    if (result == SEL_BOOK_OK) {
        if (with) {
            model_booked(walk, &asked, unbound);
        }

        walk->bookings[at] = asked;
    }

    if (zone->size == ROOMY) {
        (void) follow_gone(walk, session_clock, SEL_SESSION_REAPS,
                           SEL_COUNT_SESSION_IDLE);
        return;
    }

    /* or for want of room */

    i = (uint32_t) (sel_counted(zone, SEL_COUNT_SESSION_NO_ROOM)
                    - walk->counters[SEL_COUNT_SESSION_NO_ROOM]);
    (void) follow_gone(walk, i > 0 ? UINT64_MAX : session_clock,
                       SEL_SESSION_REAPS + i, SEL_COUNT_SESSION_NO_ROOM);
    i = (uint32_t) (walk->counters[SEL_COUNT_SESSION_NO_ROOM]
                    - sel_counted(zone, SEL_COUNT_SESSION_NO_ROOM));
    walk->counters[SEL_COUNT_SESSION_NO_ROOM] -= i;
    walk->counters[SEL_COUNT_SESSION_IDLE] += i;
}


static void
walk_free(walk_t *walk)
{
    bool                live, fails;
    uint32_t            at;
    sel_book_result_t   result;
    model_booking_t    *booking;

    at = below(walk, BOOKINGS);
    booking = &walk->bookings[at];
    fails = below(walk, 4) == 0;
    live = booking->live && (booking->served || !fails);

    result = fails ? sel_served_failed(&walk->test.zone, booking_id(at))
             : booking->served ? sel_served_free(&walk->test.zone,
                                                 booking_id(at))
             : sel_book_free(&walk->test.zone, booking_id(at));

    if (result != (live ? SEL_BOOK_OK : SEL_BOOK_NONE)) {
        say(walk, "the end of booking %u: %d", at, result);
    }

    if (!live) {
        return;
    }

    if (fails && booking->revision != 0
        && booking->revision == walk->bindings[booking->session].revision)
    {
        end_binding(walk, booking->session, SEL_COUNT_SESSION_FAILED);
    }

    end_booking(walk, at);
}


static void
walk_expire(walk_t *walk)
{
    uint32_t  i, n, got;
    uint64_t  before;

    /* those that are served count, but they do not end */

    before = session_clock - below(walk, 400000);
    got = sel_books_expire(&walk->test.zone, before, UINT32_MAX);
    n = 0;

    for (i = 0; i < BOOKINGS; i++) {
        if (walk->bookings[i].live && !walk->bookings[i].served
            && walk->bookings[i].started < before)
        {
            n++;
            end_booking(walk, i);
        }
    }

    if (got < n) {
        say(walk, "%u bookings expired, expected %u", got, n);
    }
}


static void
walk_bury(walk_t *walk)
{
    uint32_t  i, n, proc;

    proc = 10 + below(walk, PROCS);
    n = sel_books_bury(&walk->test.zone, proc);

    for (i = 0; i < BOOKINGS; i++) {
        if (walk->bookings[i].live && walk->bookings[i].served
            && walk->bookings[i].proc == proc)
        {
            end_booking(walk, i);
            n--;
        }
    }

    if (n != 0) {
        say(walk, "other bookings are of process %u", proc);
    }
}


static void
walk_reap(walk_t *walk)
{
    uint32_t  i, n, max, got;
    uint64_t  now;

    now = session_clock + below(walk, 3) * below(walk, 50000);
    max = below(walk, 3) ? below(walk, 6) : UINT32_MAX;
    n = 0;

    for (i = 0; i < BINDINGS; i++) {
        n += is_dead(walk, i, now);
    }

    got = sel_sessions_reap(&walk->test.zone, now, max);
    n = n < max ? n : max;

    if (got != n
        || follow_gone(walk, now, max, SEL_COUNT_SESSION_IDLE) != got)
    {
        say(walk, "%u bindings were reaped, expected %u", got, n);
    }
}


static void
walk_worker(walk_t *walk)
{
    uint32_t            i, w, dice, n_ranks, partition;
    uint64_t            rooms;
    test_t             *test;
    sel_commit_t        result;
    model_worker_t     *worker;
    sel_worker_state_t  state;

    test = &walk->test;
    w = 1 + below(walk, WORKERS);
    worker = &walk->workers[w];
    dice = below(walk, 8);

    if (dice == 0 && worker->version == 0) {
        return;
    }

    state = dice == 0 ? SEL_WORKER_GONE : dice == 1 ? SEL_WORKER_INCOMPLETE
                                                    : SEL_WORKER_SCHEDULABLE;
    partition = state != SEL_WORKER_SCHEDULABLE ? 0
                : worker->partition != 0 && below(walk, 4) ? worker->partition
                : 1 + below(walk, PARTITIONS);
    n_ranks = partition == 0 ? 0 : 1 + below(walk, RANKS);
    forget_slots(test);
    test->partition.routing_group = sel_cstr(partition == 2 ? "two" : "one");

    for (i = 0; i < n_ranks && i < worker->n_ranks; i++) {
        if (worker->partition == partition && below(walk, 8)) {
            test->ranks[i].slot = worker->ranks[i].slot;
        }
    }

    rooms = sel_counted(&test->zone, SEL_COUNT_SESSION_NO_ROOM);
    result = commit(test, w, worker->version, state, n_ranks, sel_str("x"));

    if (result != SEL_COMMIT_OK) {
        if (result != SEL_COMMIT_FULL || test->zone.size == ROOMY) {
            say(walk, "a commit ended with %d", result);
        }

        return;
    }

    if (partition != 0 && test->number != partition) {
        say(walk, "partition %u has number %u", partition, test->number);
    }

    /* room was made before ranks went */

    rooms = sel_counted(&test->zone, SEL_COUNT_SESSION_NO_ROOM) - rooms;

    if (follow_gone(walk, UINT64_MAX, (uint32_t) rooms,
                    SEL_COUNT_SESSION_NO_ROOM) != rooms)
    {
        say(walk, "a commit has dropped other bindings than it says");
    }

    for (i = 0; i < BOOKINGS; i++) {
        if (walk->bookings[i].live && walk->bookings[i].worker == w
            && (walk->bookings[i].dp_rank >= n_ranks
                || test->ranks[walk->bookings[i].dp_rank].slot
                   != worker->ranks[walk->bookings[i].dp_rank].slot
                || test->ranks[walk->bookings[i].dp_rank].epoch
                   != worker->ranks[walk->bookings[i].dp_rank].epoch))
        {
            end_booking(walk, i);
        }
    }

    worker->version = state == SEL_WORKER_GONE ? 0 : test->version;
    worker->partition = partition;
    worker->n_ranks = n_ranks;

    for (i = 0; i < n_ranks; i++) {
        worker->ranks[i] = (rank_t) { test->ranks[i].slot,
                                      test->ranks[i].epoch, partition };
    }
}


static void
walk_ttl(walk_t *walk)
{
    walk->ttl = UINT64_C(1) << (4 + below(walk, 14));
    sel_sessions_ttl(&walk->test.zone, walk->ttl);
}


/* A reservation looks at the binding. */
static void
walk_use(walk_t *walk)
{
    uint32_t          index;
    sel_binding_t     found;
    model_binding_t  *binding;

    index = below(walk, BINDINGS);
    binding = &walk->bindings[index];

    found = sel_session_use(&walk->test.zone, partition_of(index),
                            session_id(index), session_clock);

    if (alive(walk, index, session_clock) == 0) {
        if (found.revision != 0) {
            say(walk, "session %u: a binding that is dead", index);
        }

        return;
    }

    if (!bound_there(walk, index)) {
        end_binding(walk, index, SEL_COUNT_SESSION_RANK_GONE);

    } else if (leases(walk, index) == 0) {
        binding->since = session_clock;
    }

    if (found.revision != binding->revision
        || (found.revision != 0 && (found.worker_id != binding->worker
                                    || found.dp_rank != binding->dp_rank)))
    {
        say(walk, "session %u: another binding is used", index);
    }
}


static void
walk_rebuild(walk_t *walk)
{
    books_rebuild = true;
    session_check(&walk->test);
    books_rebuild = false;
}


static const struct {
    uint32_t      weight;
    void        (*call)(walk_t *walk);
} operations[] = {
    { 1000, walk_book },
    {  600, walk_free },
    {   15, walk_expire },
    {   10, walk_bury },
    {   60, walk_reap },
    {   80, walk_use },
    {   40, walk_worker },
    {    8, walk_ttl },
    {    8, walk_rebuild }
};


/* A session as it is found, at three times. */
static void
compare_one(walk_t *walk, uint32_t index)
{
    uint32_t          i;
    uint64_t          times[3];
    sel_binding_t     found;
    model_binding_t  *binding;

    binding = &walk->bindings[index];
    times[0] = session_clock;
    times[1] = binding->since + walk->ttl;
    times[2] = times[1] - 1;

    for (i = 0; i < 3; i++) {
        found = sel_session_find(&walk->test.zone, partition_of(index),
                                 session_id(index), times[i]);

        if (found.revision != alive(walk, index, times[i])
            || (found.revision != 0 && (found.worker_id != binding->worker
                                        || found.dp_rank != binding->dp_rank)))
        {
            say(walk, "session %u: binding %" PRIu64 " to worker %" PRIu64
                " rank %u, expected %" PRIu64 " to %u rank %u with %u leases",
                index, found.revision, found.worker_id, found.dp_rank,
                alive(walk, index, times[i]), binding->worker,
                binding->dp_rank, leases(walk, index));
        }
    }

    if (binding->revision != 0
        && session_leases(&walk->test, partition_of(index),
                          session_id(index)) != leases(walk, index))
    {
        say(walk, "session %u has %u leases, expected %u", index,
            session_leases(&walk->test, partition_of(index),
                           session_id(index)), leases(walk, index));
    }
}


static void
compare(walk_t *walk)
{
    static const sel_counter_t  counters[] = {
        SEL_COUNT_SESSION_BOUND, SEL_COUNT_SESSION_UNBOUND,
        SEL_COUNT_SESSION_IDLE, SEL_COUNT_SESSION_RANK_GONE,
        SEL_COUNT_SESSION_MOVED,
        SEL_COUNT_SESSION_REFUSED, SEL_COUNT_SESSION_FAILED,
        SEL_COUNT_SESSION_NO_ROOM
    };

    uint32_t  i, n;

    n = 0;

    for (i = 0; i < BINDINGS; i++) {
        compare_one(walk, i);
        n += walk->bindings[i].revision != 0;
    }

    if (state_stats(&walk->test.zone).sessions != n) {
        say(walk, "%" PRIu64 " bindings, expected %u",
            state_stats(&walk->test.zone).sessions, n);
    }

    for (i = 0; i < sel_countof(counters); i++) {
        if (sel_counted(&walk->test.zone, counters[i])
            != walk->counters[counters[i]])
        {
            say(walk, "counter %u is %" PRIu64 ", expected %" PRIu64, i,
                sel_counted(&walk->test.zone, counters[i]),
                walk->counters[counters[i]]);
        }
    }
}


static void
walk_operations(walk_t *walk, uint32_t n)
{
    uint32_t  op, dice, sum;

    sum = 0;

    for (op = 0; op < sel_countof(operations); op++) {
        sum += operations[op].weight;
    }

    for (walk->op = 0; walk->op < n; walk->op++) {
        dice = below(walk, sum);

        for (op = 0; dice >= operations[op].weight; op++) {
            dice -= operations[op].weight;
        }

        session_clock += below(walk, 4) * below(walk, 200);
        books_now = session_clock;
        operations[op].call(walk);
        compare(walk);

        if (walk->op % 50 == 0) {
            session_check(&walk->test);
        }
    }
}


static void
random_run(size_t size, uint64_t age, uint32_t share)
{
    walk_t    *walk;
    uint32_t   i, n;

    n = getenv("SEL_OPS") != NULL ? (uint32_t) atoi(getenv("SEL_OPS"))
                                  : 60000;
    n = n * share / 10;
    walk = calloc(1, sizeof(walk_t));
    walk->rand.state = sel_rand_seed("sessions model");
    walk->age = age;
    (void) session_plain(NULL);
    begin(&walk->test, size);
    sel_books_expiry(&walk->test.zone, age);
    walk_ttl(walk);

    /* the partitions, with somebody in them for ever */

    for (i = 1; i <= PARTITIONS; i++) {
        forget_slots(&walk->test);
        walk->test.partition.routing_group = sel_cstr(i == 2 ? "two" : "one");
        commit_ok(&walk->test, 100 + i, 0, 1);
        assert_int_equal(walk->test.number, i);
    }

    /* little room: somebody has most of it */

    for (i = 0; size != ROOMY
                && state_stats(&walk->test.zone).chunks_free > 110; i++)
    {
        assert_int_equal(commit(&walk->test, 1000 + i, 0,
                                SEL_WORKER_INCOMPLETE, 0, sel_str("x")),
                         SEL_COMMIT_OK);
    }

    walk_operations(walk, n);

    print_message("# %u operations: %" PRIu64 " booked, %" PRIu64 " bound, %"
                  PRIu64 " unbound, %" PRIu64 " moved, %" PRIu64 " stale, %"
                  PRIu64 " refused, %" PRIu64 " failed, %" PRIu64 " idle, %"
                  PRIu64 " without room\n", n, walk->results[SEL_BOOK_OK],
                  walk->counters[SEL_COUNT_SESSION_BOUND],
                  walk->counters[SEL_COUNT_SESSION_UNBOUND],
                  walk->counters[SEL_COUNT_SESSION_MOVED],
                  walk->results[SEL_BOOK_MOVED],
                  walk->counters[SEL_COUNT_SESSION_REFUSED],
                  walk->counters[SEL_COUNT_SESSION_FAILED],
                  walk->counters[SEL_COUNT_SESSION_IDLE],
                  walk->counters[SEL_COUNT_SESSION_NO_ROOM]);

    assert_true(walk->results[SEL_BOOK_OK] > n / 20);
    assert_true(walk->results[SEL_BOOK_MOVED] > 0);
    assert_true(walk->counters[SEL_COUNT_SESSION_BOUND] > n / 50);
    assert_true(walk->counters[SEL_COUNT_SESSION_MOVED] > 0);
    assert_true(walk->counters[SEL_COUNT_SESSION_REFUSED] > 0);
    assert_true(walk->counters[SEL_COUNT_SESSION_RANK_GONE] > 0);
    assert_true(walk->counters[SEL_COUNT_SESSION_FAILED] > 0);
    assert_true(walk->counters[SEL_COUNT_SESSION_IDLE] > 0);
    assert_true((walk->counters[SEL_COUNT_SESSION_NO_ROOM] > 0)
                == (size != ROOMY));

    end(&walk->test);
    free(walk);
}


static void
test_roomy(void **state)
{
    random_run(ROOMY, 0, 5);
}


static void
test_expiring(void **state)
{
    random_run(ROOMY, 20000, 3);
}


/* Little room: idle bindings go before their time. */
static void
test_tight(void **state)
{
    random_run(SEL_ZONE_MIN_SIZE, 0, 2);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_roomy),
        cmocka_unit_test(test_expiring),
        cmocka_unit_test(test_tight),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
