/*
 * The decision log.  Without it an index that learns from decisions could
 * miss a booking, learn one that was not made, or read a half written one
 * where the ring begins again.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "books_test.h"


/*
 * Decision i is made at BASE + i, on rank i % 3, with hashes that follow from
 * i; their number too, up to `most`.
 */
#define BASE     UINT64_C(1000000)
#define RANKS    3
#define BATCH    16


typedef struct {
    test_t      test;
    rank_t      ranks[RANKS];
    uint32_t    made;               /* decisions */
    uint32_t    most;               /* hashes of one */
    uint64_t   *hashes;
    void       *buffer;             /* of the size of the ring */
    uint64_t    size;
} log_t;


typedef struct {
    uint64_t  at;
    uint64_t  lost;
    uint32_t  next;                 /* decision */
} reader_t;


static uint64_t
hash_of(uint32_t decision, uint32_t i)
{
    return ((uint64_t) decision << 32) + i + 1;
}


static uint32_t
hashes_of(const log_t *log, uint32_t decision)
{
    return 1 + decision * 2654435761u / 7 % log->most;
}


static void
log_begin(log_t *log, size_t size, uint32_t most)
{
    memset(log, 0, sizeof(log_t));
    begin(&log->test, size);
    worker(&log->test, 1, 0, RANKS, log->ranks);
    log->most = most;
    log->size = sel_decisions_size(&log->test.zone);
    log->hashes = malloc(2 * log->size);
    log->buffer = malloc(log->size);
}


static void
log_end(log_t *log)
{
    free(log->hashes);
    free(log->buffer);
    end(&log->test);
}


static sel_book_result_t
book_hashes(log_t *log, const rank_t *rank, const char *id, uint64_t now,
    uint32_t n)
{
    uint32_t         i, chosen;
    sel_booking_t    booking;
    sel_rank_load_t  load;

    for (i = 0; i < n; i++) {
        log->hashes[i] = hash_of(log->made, i);
    }

    booking = booking_of(rank, sel_cstr(id), seq(1, 2));
    booking.now = now;
    booking.n_hashes = n;
    booking.hashes = log->hashes;
    load = (sel_rank_load_t) { .slot = rank->slot, .epoch = rank->epoch };

    return sel_book(&log->test.zone, &booking, &load, 1, NULL, NULL, &chosen);
}


static void
decide(log_t *log, uint32_t n)
{
    assert_int_equal(book_hashes(log, &log->ranks[log->made % RANKS], "r",
                                 BASE + log->made, n), SEL_BOOK_OK);
    free_ok(&log->test, "r");
    log->made++;
}


static void
expect_decision(const log_t *log, const sel_decision_t *got, uint32_t i,
    uint32_t n)
{
    uint32_t       k;
    const rank_t  *rank;

    rank = &log->ranks[i % RANKS];
    assert_int_equal(got->made, BASE + i);
    assert_int_equal(got->slot, rank->slot);
    assert_int_equal(got->epoch, rank->epoch);
    assert_int_equal(got->partition, rank->partition);
    assert_int_equal(got->n_hashes, n);

    for (k = 0; k < n; k++) {
        assert_int_equal(got->hashes[k], hash_of(i, k));
    }
}


/* Reads once; every decision follows the one before, unless some are lost. */
static uint32_t
read_some(log_t *log, reader_t *reader, size_t size, uint32_t max)
{
    uint32_t        i, n;
    uint64_t        lost, at;
    sel_decision_t  got[BATCH];

    lost = reader->lost;
    at = reader->at;
    memset(log->buffer, 0xa5, log->size);
    n = sel_decisions_read(&log->test.zone, &reader->at, log->buffer, size,
                           got, max, &reader->lost);
    assert_true(n <= max);
    assert_true(reader->at >= at && reader->lost >= lost);

    for (i = 0; i < n; i++) {
        if (reader->lost > lost && i == 0) {
            assert_true(got[0].made > BASE + reader->next);
            reader->next = (uint32_t) (got[0].made - BASE);
        }

        assert_true((uint8_t *) got[i].hashes >= (uint8_t *) log->buffer);
        assert_true((uint8_t *) (got[i].hashes + got[i].n_hashes)
                    <= (uint8_t *) log->buffer + size);
        expect_decision(log, &got[i], reader->next,
                        hashes_of(log, reader->next));
        reader->next++;
    }

    return n;
}


static void
read_all(log_t *log, reader_t *reader)
{
    while (read_some(log, reader, log->size, BATCH) > 0) {
        /* void */
    }

    assert_int_equal(reader->next, log->made);
    assert_true(reader->at == sel_decisions_head(&log->test.zone));
}


static void
test_read(void **state)
{
    log_t           log;
    uint64_t        at, lost;
    sel_decision_t  got[4];

    log_begin(&log, STATE_SIZE, 10);
    at = sel_decisions_head(&log.test.zone);
    assert_true(at == 0);
    assert_true(sel_decisions_tail(&log.test.zone) == 0);
    assert_true(log.size >= 4096 * 8);
    lost = 0;
    assert_int_equal(sel_decisions_read(&log.test.zone, &at, log.buffer,
                                        log.size, got, 4, &lost), 0);
    assert_true(at == 0);

    decide(&log, 5);
    decide(&log, 1);
    decide(&log, 4096);
    books_check(&log.test);
    assert_true(sel_decisions_tail(&log.test.zone) == 0);

    /* no more than asked for */
    assert_int_equal(sel_decisions_read(&log.test.zone, &at, log.buffer,
                                        log.size, got, 0, &lost), 0);
    assert_true(at == 0);
    assert_int_equal(sel_decisions_read(&log.test.zone, &at, log.buffer,
                                        log.size, got, 1, &lost), 1);
    expect_decision(&log, &got[0], 0, 5);

    /* no more than there is room for */
    assert_int_equal(sel_decisions_read(&log.test.zone, &at, log.buffer,
                                        4096 * 8, got, 4, &lost), 1);
    expect_decision(&log, &got[0], 1, 1);

    at = 0;
    assert_int_equal(sel_decisions_read(&log.test.zone, &at, log.buffer,
                                        4 * 8, got, 4, &lost), 0);
    assert_int_equal(sel_decisions_read(&log.test.zone, &at, log.buffer, 0,
                                        got, 4, &lost), 0);
    assert_true(at == 0);

    assert_int_equal(sel_decisions_read(&log.test.zone, &at, log.buffer, 300,
                                        got, 4, &lost), 2);
    expect_decision(&log, &got[0], 0, 5);
    expect_decision(&log, &got[1], 1, 1);
    assert_int_equal(sel_decisions_read(&log.test.zone, &at, log.buffer,
                                        log.size, got, 4, &lost), 1);
    expect_decision(&log, &got[0], 2, 4096);
    assert_int_equal(sel_decisions_read(&log.test.zone, &at, log.buffer,
                                        log.size, got, 4, &lost), 0);
    assert_true(at == sel_decisions_head(&log.test.zone));
    assert_true(lost == 0);
    log_end(&log);
}


/* What is not booked, or has no hashes, is not decided. */
static void
test_nothing(void **state)
{
    log_t     log;
    char      id[16];
    rank_t    wrong;
    uint32_t  i;
    uint64_t  head;

    log_begin(&log, SEL_ZONE_MIN_SIZE, 10);
    decide(&log, 5);
    assert_int_equal(book_hashes(&log, &log.ranks[0], "a", 1, 0),
                     SEL_BOOK_OK);
    head = sel_decisions_head(&log.test.zone);

    assert_int_equal(book_hashes(&log, &log.ranks[0], "b", 1, 0),
                     SEL_BOOK_OK);
    assert_int_equal(book_hashes(&log, &log.ranks[0], "a", 1, 5),
                     SEL_BOOK_TAKEN);
    wrong = log.ranks[0];
    wrong.epoch++;
    assert_int_equal(book_hashes(&log, &wrong, "c", 1, 5), SEL_BOOK_GONE);

    output_ok(&log.test, "a", 0.5);
    assert_int_equal(sel_book_prefilled(&log.test.zone, sel_str("a")),
                     SEL_BOOK_OK);
    free_ok(&log.test, "b");

    i = 0;

    do {
        (void) snprintf(id, sizeof(id), "%u", i++);
    } while (book(&log.test, &log.ranks[1], id, none, 0) == SEL_BOOK_OK);

    assert_int_equal(book_hashes(&log, &log.ranks[0], "d", 1, 5),
                     SEL_BOOK_FULL);
    books_check(&log.test);
    assert_true(sel_decisions_head(&log.test.zone) == head);
    log_end(&log);
}


static uint32_t
choose(void *data, sel_booking_t *booking, const sel_rank_load_t *ranks,
    uint32_t n)
{
    return *(uint32_t *) data;
}


/* The rank that is chosen is the one that is told. */
static void
test_chosen(void **state)
{
    log_t            log;
    uint32_t         i, choice, chosen;
    uint64_t         at, lost, hash;
    sel_booking_t    booking;
    sel_decision_t   got[4];
    sel_rank_load_t  loads[RANKS];

    log_begin(&log, STATE_SIZE, 10);

    for (i = 0; i < RANKS; i++) {
        loads[i] = (sel_rank_load_t) { .slot = log.ranks[i].slot,
                                       .epoch = log.ranks[i].epoch };
    }

    hash = 77;
    booking = booking_of(&log.ranks[0], sel_str("a"), seq(1, 2, 3));
    booking.n_hashes = 1;
    booking.hashes = &hash;
    choice = SEL_CHOOSE_NONE;
    assert_int_equal(sel_book(&log.test.zone, &booking, loads, RANKS, choose,
                              &choice, &chosen), SEL_BOOK_REFUSED);
    assert_true(sel_decisions_head(&log.test.zone) == 0);

    choice = 2;
    assert_int_equal(sel_book(&log.test.zone, &booking, loads, RANKS, choose,
                              &choice, &chosen), SEL_BOOK_OK);
    at = lost = 0;
    books_check(&log.test);
    assert_int_equal(sel_decisions_read(&log.test.zone, &at, log.buffer,
                                        log.size, got, 4, &lost), 1);
    assert_int_equal(got[0].slot, log.ranks[2].slot);
    assert_int_equal(got[0].epoch, log.ranks[2].epoch);
    assert_int_equal(got[0].partition, log.ranks[2].partition);
    assert_int_equal(got[0].made, books_now);
    assert_int_equal(got[0].n_hashes, 1);
    assert_int_equal(got[0].hashes[0], 77);
    log_end(&log);
}


/* Readers of different speed, many times round the ring. */
static void
test_wrap_around(void **state)
{
    log_t       log;
    uint32_t    i;
    sel_rand_t  rand;
    reader_t    fast, slow, small;

    rand.state = sel_rand_seed("decisions");
    log_begin(&log, STATE_SIZE, 300);
    fast = slow = small = (reader_t) { 0, 0, 0 };

    for (i = 0; sel_decisions_head(&log.test.zone) < 40 * log.size; i++) {
        decide(&log, hashes_of(&log, log.made));
        read_all(&log, &fast);

        if (i % 10 == 0) {
            read_all(&log, &slow);
        }

        (void) read_some(&log, &small, 300 * 8 + sel_rand_below(&rand, 5000),
                         1 + (uint32_t) sel_rand_below(&rand, BATCH));

        if (i % 100 == 0) {
            books_check(&log.test);
        }
    }

    read_all(&log, &small);
    assert_true(fast.lost == 0);
    assert_true(slow.lost == 0);
    assert_true(small.lost == 0);
    assert_true(i > 500);
    log_end(&log);
}


/* A reader that is overtaken goes on with the oldest, and knows its loss. */
static void
test_lapped(void **state)
{
    log_t           log;
    uint32_t        i, first;
    uint64_t        at, tail, was, lost;
    reader_t        reader;
    sel_decision_t  got;

    log_begin(&log, STATE_SIZE, 200);
    reader = (reader_t) { 0, 0, 0 };

    for (i = 1; i < 12; i++) {
        read_all(&log, &reader);
        was = reader.at;
        lost = reader.lost;

        while (sel_decisions_head(&log.test.zone) < was + i * log.size / 3) {
            decide(&log, hashes_of(&log, log.made));
        }

        books_check(&log.test);
        tail = sel_decisions_tail(&log.test.zone);
        assert_true(sel_decisions_head(&log.test.zone) - tail <= log.size);
        first = reader.next;
        assert_int_equal(read_some(&log, &reader, log.size, 1), 1);

        if (i < 3) {
            assert_true(tail <= was);
            assert_true(reader.lost == lost);
            assert_int_equal(reader.next, first + 1);

        } else if (i > 3) {
            assert_true(tail > was);
            assert_true(reader.lost == lost + tail - was);
        }

        read_all(&log, &reader);
        assert_true(sel_decisions_tail(&log.test.zone) == tail);
    }

    /* what is kept is most of the ring, and nothing else */
    at = tail;
    lost = 0;
    assert_int_equal(sel_decisions_read(&log.test.zone, &at, log.buffer,
                                        log.size, &got, 1, &lost), 1);
    reader = (reader_t) { tail, 0, (uint32_t) (got.made - BASE) };
    read_all(&log, &reader);
    assert_true(reader.lost == 0);
    assert_true(reader.at - tail > log.size / 2);
    log_end(&log);
}


/* A decision as large as the ring, anywhere in it; and a larger one. */
static void
test_largest(void **state)
{
    log_t           log;
    uint32_t        i, n;
    uint64_t        at, lost, head;
    sel_decision_t  got[2];

    log_begin(&log, STATE_SIZE, 10);
    n = (uint32_t) (log.size / 8) - 16;

    for (i = 0; i < 50; i++) {
        decide(&log, 1 + i * 37 % 100);
        at = head = sel_decisions_head(&log.test.zone);
        lost = 0;

        decide(&log, n);
        books_check(&log.test);
        assert_int_equal(sel_decisions_read(&log.test.zone, &at, log.buffer,
                                            log.size, got, 2, &lost), 1);
        assert_true(lost == 0);
        expect_decision(&log, &got[0], log.made - 1, n);
    }

    head = sel_decisions_head(&log.test.zone);
    assert_int_equal(book_hashes(&log, &log.ranks[0], "big", 1,
                                 (uint32_t) (log.size / 8) + 1), SEL_BOOK_OK);
    assert_true(booked(&log.test, "big"));
    expect(&log.test, &log.ranks[0], 0, 2, 1);
    assert_true(sel_decisions_head(&log.test.zone) == head);
    log_end(&log);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        both(test_read),
        both(test_nothing),
        both(test_chosen),
        both(test_wrap_around),
        both(test_lapped),
        both(test_largest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
