/*
 * The thread that makes memory present ahead.  Without it the thread could
 * touch memory that is gone, undo what is written meanwhile, take a signal
 * that is meant for nginx, or be waited for in a process that does not have
 * it: crashes and hangs that take two things at the same moment.
 *
 * SEL_SEED repeats a run, but for what depends on that moment.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <cmocka.h>
#include "memory_test.h"


#define AREA     (64 * MIB)
#define TURNS    400
#define FORKS    90
#define SIGNALS  200


static uint8_t                *area;    /* AREA bytes, at 2 MiB */
static volatile sig_atomic_t   by_main, by_others;


static int
setup_area(void **state)
{
    size_t    before;
    uint8_t  *p;

    p = mmap(NULL, AREA + SEL_MEMORY_HUGE, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p == MAP_FAILED) {
        return 1;
    }

    before = (0 - (uintptr_t) p) % SEL_MEMORY_HUGE;
    (void) munmap(p + before + AREA, SEL_MEMORY_HUGE - before);

    if (before != 0) {
        (void) munmap(p, before);
    }

    area = p + before;
    (void) madvise(area, AREA, MADV_HUGEPAGE);

    return setup(state);
}


static int
teardown_area(void **state)
{
    sel_memory_ahead_forget(area, AREA);
    (void) munmap(area, AREA);

    return teardown(state);
}


/* Nothing of the area is present after this. */
static void
empty_area(void)
{
    assert_int_equal(madvise(area, AREA, MADV_DONTNEED), 0);
}


/* Whoever touches this is killed. */
static void
close_area(size_t from, size_t to)
{
    if (to > from) {
        assert_int_equal(mprotect(area + from, to - from, PROT_NONE), 0);
    }
}


static void
open_area(void)
{
    assert_int_equal(mprotect(area, AREA, PROT_READ | PROT_WRITE), 0);
    empty_area();
}


/* A word on each page of a block, instead of all bytes. */
static bool
mark(const block_t *block, size_t from)
{
    size_t    i;
    uint64_t  word;

    from = (from + PAGE - 1) / PAGE * PAGE;

    for (i = from; i + sizeof(word) <= block->size; i += PAGE) {
        memcpy(&word, block->p + i, sizeof(word));

        if (word != 0) {
            return false;
        }

        word = ~(i ^ (uint64_t) block->key << 40);
        memcpy(block->p + i, &word, sizeof(word));
    }

    return true;
}


static bool
is_marked(const block_t *block, size_t size)
{
    size_t    i;
    uint64_t  word;

    for (i = 0; i + sizeof(word) <= size; i += PAGE) {
        memcpy(&word, block->p + i, sizeof(word));

        if (word != ~(i ^ (uint64_t) block->key << 40)) {
            return false;
        }
    }

    return true;
}


/* Another size for a block; true: it kept its content and is zero behind. */
static bool
move(block_t *block, size_t size)
{
    size_t    old;
    uint8_t  *p;

    old = block->size;
    p = sel_memory_resize(&memory, block->p, old, size);

    if (p == NULL) {
        return false;
    }

    block->p = p;
    block->size = size;

    return mark(block, old) && is_marked(block, size < old ? size : old);
}


/* Sizes are whole pages, so that no mark is cut. */
static size_t
pages(size_t from, size_t to)
{
    from /= PAGE;
    to /= PAGE;

    return (from + sel_rand_below(&rand_, to - from + 1)) * PAGE;
}


/* Must come first: a small block needs no thread, and a large one has one. */
static void
test_start(void **state)
{
    int       number;
    size_t    size;
    block_t   block;
    sigset_t  before, after;

    sel_memory_ahead_wait();
    sel_memory_ahead_forget(area, AREA);
    assert_int_equal(threads(), 1);

    for (size = 1; size < MIB; size = size * 2 + 1) {
        block = (block_t) { .key = 1 };
        resize(&block, size);
        sel_memory_expect(&memory, block.p, size, size);
        sel_memory_expect(&memory, block.p, size, 8 * MIB);
        sel_memory_ahead_wait();
        give_back(&block);
    }

    assert_int_equal(threads(), 1);

    block = (block_t) { .key = 1 };
    resize(&block, 4 * MIB);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &before), 0);
    sel_memory_expect(&memory, block.p, block.size, MIB);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &after), 0);
    sel_memory_ahead_wait();
    assert_int_equal(threads(), 2);

    for (number = 1; number < SIGRTMAX; number++) {
        assert_int_equal(sigismember(&after, number),
                         sigismember(&before, number));
    }

    give_back(&block);
}


/* Exactly the pages of the range come, and what is on them stays. */
static void
test_range(void **state)
{
    size_t    from, to, i;
    uint32_t  turn;

    for (turn = 0; turn < 100; turn++) {
        from = pages(0, 16 * MIB);
        to = pages(from, from + 16 * MIB);

        for (i = from; i < to; i += 5 * PAGE) {
            memset(area + i, (int) (i / PAGE), 100);
        }

        close_area(0, from);
        close_area(to, AREA);
        sel_memory_ahead(area + from, to - from);
        sel_memory_ahead_wait();
        assert_int_equal(absent(area + from, to - from), 0);

        for (i = from; i < to; i += 5 * PAGE) {
            assert_true(area[i] == (uint8_t) (i / PAGE)
                        && area[i + 99] == area[i]
                        && is_zero(area + i + 100, PAGE - 100));
        }

        open_area();
    }
}


/* Memory is there, not only a page of zeros that all share. */
static void
test_memory(void **state)
{
    size_t    before;
    uint32_t  turn;

    for (turn = 0; turn < 2; turn++) {
        empty_area();
        (void) madvise(area, AREA, turn == 0 ? MADV_HUGEPAGE
                                             : MADV_NOHUGEPAGE);
        before = resident();
        sel_memory_ahead(area, AREA);
        sel_memory_ahead_wait();
        assert_true(resident() > before + AREA - 4 * MIB);
    }
}


/* The end of a range comes first. */
static void
test_downwards(void **state)
{
    size_t    first, last;
    uint32_t  turn, alone;

    alone = 0;

    for (turn = 0; turn < 10 || (alone == 0 && turn < 200); turn++) {
        sel_memory_ahead(area, AREA);

        do {
            first = absent(area, PAGE);
            last = absent(area + AREA - PAGE, PAGE);
            assert_true(first != 0 || last == 0);
            alone += first != 0 && last == 0;
        } while (first != 0);

        sel_memory_ahead_wait();
        assert_int_equal(absent(area, AREA), 0);
        empty_area();
    }

    assert_true(alone > 0);
}


/* Nothing of what is forgotten is touched, whatever it is a part of. */
static void
test_forget(void **state)
{
    size_t    from, to, first, end;
    uint32_t  turn;

    for (turn = 0; turn < TURNS; turn++) {
        first = pages(0, AREA / 2);
        end = pages(first + PAGE, first + AREA / 2);
        from = pages(0, AREA - PAGE);
        to = pages(from + PAGE, AREA);

        sel_memory_ahead(area + first, end - first);
        linger();
        sel_memory_ahead_forget(area + from, to - from);
        close_area(from, to);
        linger();

        if (turn % 4 == 0) {
            sel_memory_ahead_wait();

        } else {
            sel_memory_ahead_forget(area, AREA);
            close_area(0, AREA);
            linger();
        }

        open_area();
    }
}


/* A neighbour that is forgotten, or was never named, takes nothing along. */
static void
test_forget_neighbours(void **state)
{
    uint32_t  i, turn;

    for (turn = 0; turn < 20; turn++) {
        sel_memory_ahead(area + 16 * MIB, 8 * MIB);
        sel_memory_ahead_forget(area, 16 * MIB);
        sel_memory_ahead_forget(area + 24 * MIB, AREA - 24 * MIB);
        sel_memory_ahead_forget(area + 16 * MIB - PAGE, PAGE);
        sel_memory_ahead_forget(area + 24 * MIB, PAGE);
        close_area(0, 16 * MIB);
        close_area(24 * MIB, AREA);
        sel_memory_ahead_wait();
        assert_int_equal(absent(area + 16 * MIB, 8 * MIB), 0);
        open_area();

        /* the same where the neighbours were named */

        for (i = turn; i < turn + 3; i++) {
            sel_memory_ahead(area + (1 + i % 3) * 8 * MIB, 8 * MIB);
        }

        if (turn % 2 == 0) {
            linger();
        }

        sel_memory_ahead_forget(area + 16 * MIB, 8 * MIB);
        close_area(16 * MIB, 24 * MIB);
        sel_memory_ahead_wait();
        assert_int_equal(absent(area + 8 * MIB, 8 * MIB), 0);
        assert_int_equal(absent(area + 24 * MIB, 8 * MIB), 0);
        open_area();
    }
}


/* A forgotten range can be named again. */
static void
test_again(void **state)
{
    uint32_t  turn;

    for (turn = 0; turn < 50; turn++) {
        sel_memory_ahead(area, 8 * MIB);
        linger();
        sel_memory_ahead_forget(area, 8 * MIB);
        assert_int_equal(madvise(area, 8 * MIB, MADV_DONTNEED), 0);
        sel_memory_ahead(area, 8 * MIB);
        sel_memory_ahead_wait();
        assert_int_equal(absent(area, 8 * MIB), 0);
        empty_area();
    }
}


/*
 * Whoever writes to a page while it is touched finds what it wrote.  Pages of
 * 4 KiB, where reading an untouched one and then writing takes the longest,
 * and pages that are there; most turns are met by the thread on its way down.
 */
static void
test_writes(void **state)
{
    size_t    i, size;
    uint32_t  turn, pass, *word;

    size = MIB;
    assert_int_equal(madvise(area, AREA, MADV_NOHUGEPAGE), 0);

    for (turn = 0; turn < 300; turn++) {
        if (turn % 2 == 0) {
            assert_int_equal(madvise(area, size, MADV_DONTNEED), 0);

        } else {
            memset(area, 0, size);
        }

        sel_memory_ahead(area, size);
        linger();

        for (pass = 1; pass <= 8; pass++) {
            for (i = 0; i < size; i += PAGE) {
                word = (uint32_t *) (area + i);
                word[0] = pass + (uint32_t) i;
                word[1 + turn] = pass;
                word[PAGE / sizeof(*word) - 1] = pass;
            }
        }

        sel_memory_ahead_wait();

        for (i = 0; i < size; i += PAGE) {
            word = (uint32_t *) (area + i);
            assert_int_equal(word[0], 8 + (uint32_t) i);
            assert_int_equal(word[1 + turn], 8);
            assert_int_equal(word[PAGE / sizeof(*word) - 1], 8);
        }
    }
}


/*
 * Blocks that grow, move, shrink and go while their memory is being made
 * present; what is behind them may be written to at once.
 */
static void
test_moving(void **state)
{
    size_t    size, more;
    block_t   blocks[4], *block;
    uint8_t  *p;
    uint32_t  turn, moved, stayed;

    memset(blocks, 0, sizeof(blocks));
    moved = stayed = 0;

    for (turn = 0; turn < 2 * TURNS; turn++) {
        block = &blocks[sel_rand_below(&rand_, 4)];

        if (block->size == 0) {
            block->key = turn;
            assert_true(move(block, pages(MIB, 4 * MIB)));
        }

        p = block->p;
        size = block->size;
        more = pages(PAGE, size);
        sel_memory_expect(&memory, p, size, more);
        linger();

        switch (sel_rand_below(&rand_, 6)) {
        case 0:
            sel_memory_free(&memory, p, size);
            block->size = 0;
            block->p = NULL;
            break;

        case 1:
        case 2:
            assert_true(move(block, size + more));
            stayed += block->p == p;
            break;

        case 3:
            assert_true(move(block, size * (2 + sel_rand_below(&rand_, 4))));
            moved += block->p != p;
            break;

        case 4:
            assert_true(move(block, pages(PAGE, size)));
            break;

        default:
            assert_true(move(block, size / 2 / PAGE * PAGE + PAGE));
            sel_memory_expect(&memory, block->p, block->size, more);
            assert_true(move(block, size + more));
        }

        if (block->size > 24 * MIB) {
            sel_memory_free(&memory, block->p, block->size);
            block->size = 0;
            block->p = NULL;
        }

        assert_true(is_marked(block, block->size));
    }

    sel_memory_ahead_wait();

    for (turn = 0; turn < 4; turn++) {
        assert_true(is_marked(&blocks[turn], blocks[turn].size));
        sel_memory_free(&memory, blocks[turn].p, blocks[turn].size);
    }

    assert_true(moved > 0 && stayed > 0);
}


/* More than can be kept: nothing breaks, and all goes on behind it. */
static void
test_flood(void **state)
{
    size_t    from, to;
    block_t   blocks[30], *block;
    uint32_t  i;

    for (i = 0; i < 30; i++) {
        blocks[i] = (block_t) { .key = i };
        resize(&blocks[i], MIB + i * PAGE);
        sel_memory_expect(&memory, blocks[i].p, blocks[i].size, MIB);
        assert_int_equal(threads(), 2);
    }

    for (i = 0; i < 20000; i++) {
        block = &blocks[sel_rand_below(&rand_, 30)];
        sel_memory_expect(&memory, block->p, block->size, pages(0, 2 * MIB));

        if (i % 4 == 0) {
            from = pages(0, AREA - PAGE);
            to = pages(from, AREA);
            sel_memory_ahead(area + from, to - from);
        }

        if (i % 100 == 0) {
            sel_memory_ahead_forget(area, AREA);
            empty_area();
        }
    }

    assert_int_equal(threads(), 2);
    sel_memory_ahead_wait();
    empty_area();
    sel_memory_ahead(area, AREA);
    sel_memory_ahead_wait();
    assert_int_equal(absent(area, AREA), 0);

    for (i = 0; i < 30; i++) {
        resize(&blocks[i], blocks[i].size + MIB);
        give_back(&blocks[i]);
    }
}


static uint64_t
now(void)
{
    struct timespec  ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts);

    return (uint64_t) ts.tv_sec * 1000000000 + (uint64_t) ts.tv_nsec;
}


/* Whoever names ranges does not wait for those that were named before. */
static void
test_at_once(void **state)
{
    uint32_t  i;
    uint64_t  start, sweep, flood;

    sel_memory_ahead(area, AREA);
    sel_memory_ahead_wait();
    start = now();

    for (i = 0; i < 10; i++) {
        sel_memory_ahead(area, AREA);
        sel_memory_ahead_wait();
    }

    sweep = (now() - start) / 10;
    start = now();

    for (i = 0; i < 2000; i++) {
        sel_memory_ahead(area, AREA);
    }

    flood = now() - start;
    sel_memory_ahead_forget(area, AREA);
    assert_true(flood < 2000 * sweep / 4);
}


/* Whether a block of its own grows as it should, with a thread. */
static bool
works(void)
{
    size_t   size;
    bool     there;
    block_t  block;

    block = (block_t) { .key = 77 };
    size = 4 * MIB;

    if (!move(&block, size)) {
        return false;
    }

    sel_memory_expect(&memory, block.p, size, MIB);
    sel_memory_ahead_wait();
    there = absent(block.p + size, MIB) == 0 && threads() == 2
            && move(&block, size + MIB) && is_marked(&block, block.size);
    sel_memory_free(&memory, block.p, block.size);

    return there;
}


/* What a child does with what it has got: 0 if all went well. */
static int
child(block_t *block, uint32_t way)
{
    (void) alarm(20);

    if (threads() != 1) {
        return 1;
    }

    switch (way) {
    case 0:
        sel_memory_free(&memory, block->p, block->size);
        break;

    case 1:
        if (!move(block, block->size + 2 * MIB)) {
            return 2;
        }

        break;

    case 2:
        sel_memory_ahead_forget(area, AREA);
        (void) munmap(area, AREA);
        break;

    case 3:
        sel_memory_expect(&memory, block->p, block->size, 2 * MIB);

        if (!move(block, block->size * 3)) {
            return 3;
        }

        break;

    default:
        sel_memory_ahead_wait();
    }

    return works() ? 0 : 4;
}


/* A process is made while the thread works: both go on. */
static void
test_fork(void **state)
{
    int       status;
    pid_t     pid, children[FORKS];
    block_t   block;
    uint32_t  i;

    for (i = 0; i < FORKS; i++) {
        block = (block_t) { .key = i };
        assert_true(move(&block, 4 * MIB));

        if (i % 3 == 0) {
            sel_memory_ahead_wait();
        }

        sel_memory_ahead(area, AREA);
        sel_memory_expect(&memory, block.p, block.size, 2 * MIB);
        linger();
        pid = fork();

        if (pid == 0) {
            _exit(child(&block, i % 5));
        }

        assert_true(pid > 0);
        children[i] = pid;
        assert_true(move(&block, block.size + 2 * MIB));
        sel_memory_free(&memory, block.p, block.size);
        assert_true(works());
        sel_memory_ahead_forget(area, AREA);
        empty_area();

        if (i % 3 == 2) {
            assert_int_equal(waitpid(pid, &status, 0), pid);
            assert_int_equal(status, 0);
            children[i] = 0;
        }
    }

    for (i = 0; i < FORKS; i++) {
        if (children[i] != 0) {
            assert_int_equal(waitpid(children[i], &status, 0), children[i]);
            assert_int_equal(status, 0);
        }
    }
}


static void
on_signal(int number)
{
    if (gettid() == getpid()) {
        by_main++;

    } else {
        by_others++;
    }
}


/* A signal waits for the main thread, as nginx keeps them for its loop. */
static void
test_signals(void **state)
{
    sigset_t          set, old;
    uint32_t          i;
    struct sigaction  action, before[8];
    static const int  numbers[] = { SIGHUP, SIGQUIT, SIGTERM, SIGUSR1,
                                    SIGUSR2, SIGCHLD, SIGALRM, SIGIO };

    memset(&action, 0, sizeof(action));
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    by_main = by_others = 0;

    for (i = 0; i < sel_countof(numbers); i++) {
        assert_int_equal(sigaction(numbers[i], &action, &before[i]), 0);
    }

    sel_memory_ahead(area, AREA);
    sel_memory_ahead_wait();

    for (i = 0; i < SIGNALS; i++) {
        if (i % 8 == 0) {
            empty_area();
            sel_memory_ahead(area, AREA);
        }

        if (i % 2 == 0) {
            assert_int_equal(kill(getpid(), numbers[i / 2 % 8]), 0);

        } else {
            (void) sigfillset(&set);
            assert_int_equal(pthread_sigmask(SIG_SETMASK, &set, &old), 0);
            assert_int_equal(kill(getpid(), numbers[i / 2 % 8]), 0);
            (void) usleep(200);
            assert_int_equal(by_main, i);
            assert_int_equal(by_others, 0);
            assert_int_equal(pthread_sigmask(SIG_SETMASK, &old, NULL), 0);
        }

        assert_int_equal(by_main, i + 1);
        assert_int_equal(by_others, 0);

        if (i % 8 == 7) {
            sel_memory_ahead_forget(area, AREA);
        }
    }

    for (i = 0; i < sel_countof(numbers); i++) {
        assert_int_equal(sigaction(numbers[i], &before[i], NULL), 0);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test_setup_teardown(test_start, setup_area,
                                        teardown_area),
        cmocka_unit_test_setup_teardown(test_range, setup_area,
                                        teardown_area),
        cmocka_unit_test_setup_teardown(test_memory, setup_area,
                                        teardown_area),
        cmocka_unit_test_setup_teardown(test_downwards, setup_area,
                                        teardown_area),
        cmocka_unit_test_setup_teardown(test_forget, setup_area,
                                        teardown_area),
        cmocka_unit_test_setup_teardown(test_forget_neighbours, setup_area,
                                        teardown_area),
        cmocka_unit_test_setup_teardown(test_again, setup_area,
                                        teardown_area),
        cmocka_unit_test_setup_teardown(test_writes, setup_area,
                                        teardown_area),
        cmocka_unit_test_setup_teardown(test_moving, setup_area,
                                        teardown_area),
        cmocka_unit_test_setup_teardown(test_flood, setup_area,
                                        teardown_area),
        cmocka_unit_test_setup_teardown(test_at_once, setup_area,
                                        teardown_area),
        cmocka_unit_test_setup_teardown(test_fork, setup_area,
                                        teardown_area),
        cmocka_unit_test_setup_teardown(test_signals, setup_area,
                                        teardown_area),
    };

    memory_test_init("memory_ahead");

    return cmocka_run_group_tests(tests, NULL, NULL);
}
