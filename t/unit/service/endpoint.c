/*
 * The syntax of ZMQ endpoints, text by text.  Without it a worker would be
 * refused for an endpoint that engines use, or accepted with one that nobody
 * can connect to, or the reason would name another fault than the first.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "service/sel_endpoint.h"
#include "sel_rand.h"


#define EMPTY    "invalid TCP port: cannot parse integer from empty string"
#define DIGIT    "invalid TCP port: invalid digit found in string"
#define LARGE    "invalid TCP port: number too large to fit in target type"
#define SCHEME   "missing scheme"
#define ADDRESS  "missing address"
#define PORT     "missing TCP port"
#define HOST     "missing TCP host"
#define CLOSING  "missing closing `]`"


typedef struct {
    const char  *endpoint;
    const char  *fault;         /* behind the endpoint; NULL: well formed */
} row_t;


/* The endpoint in memory of its exact size, so that overruns are seen. */
static void
expect(const char *endpoint, size_t len, const char *fault)
{
    char         *copy, *text;
    const char   *got;
    sel_arena_t   arena;

    copy = malloc(len != 0 ? len : 1);
    text = malloc(len + 200);
    assert_non_null(copy);
    assert_non_null(text);
    memcpy(copy, endpoint, len);

    sel_arena_init(&arena, 0);
    got = sel_endpoint_fault((sel_str_t) { len, (uint8_t *) copy }, &arena);
    memset(copy, '#', len);
    free(copy);

    (void) snprintf(text, len + 200, "invalid ZMQ endpoint `%.*s`: %s",
                    (int) len, endpoint, fault != NULL ? fault : "");

    if (fault == NULL && got != NULL) {
        fail_msg("%s: %s", endpoint, got);
    }

    if (fault != NULL && (got == NULL || strcmp(got, text) != 0)) {
        fail_msg("\"%s\", expected \"%s\"", got != NULL ? got : "no fault",
                 text);
    }

    sel_arena_free(&arena);
    free(text);
}


static void
expect_rows(const row_t *rows, size_t n)
{
    size_t  i;

    for (i = 0; i < n; i++) {
        expect(rows[i].endpoint, strlen(rows[i].endpoint), rows[i].fault);
    }
}


static void
test_well_formed(void **state)
{
    static const row_t  rows[] = {
        { "tcp://10.0.0.7:5557", NULL },
        { "tcp://127.0.0.1:0", NULL },
        { "tcp://127.0.0.1:1", NULL },
        { "tcp://127.0.0.1:65535", NULL },
        { "tcp://engine-0.engines.svc.cluster.local:5557", NULL },
        { "tcp://*:5557", NULL },
        { "tcp://-:5557", NULL },
        { "tcp://bad host:5557", NULL },
        { "tcp://h\xc3\xb6st:5557", NULL },
        { "tcp://eth0;10.0.0.7/x:5557", NULL },
        { "tcp://host:+5557", NULL },
        { "tcp://host:+0", NULL },
        { "tcp://host:005557", NULL },
        { "tcp://host:0000000000000000000000000001", NULL },
        { "tcp://[::1]:5557", NULL },
        { "tcp://[2001:db8::7]:5557", NULL },
        { "tcp://[fe80::1%eth0]:5557", NULL },
        { "tcp://[]:5557", NULL },
        { "tcp://]:5557", NULL },
        { "tcp://a]:5557", NULL },
        { "ipc:///tmp/engine.sock", NULL },
        { "ipc://x", NULL },
        { "ipc://:", NULL },
        { "ipc://://", NULL },
        { "inproc://engine", NULL },
        { "inproc:// ", NULL }
    };

    expect_rows(rows, sel_countof(rows));
}


static void
test_scheme_and_address(void **state)
{
    static const row_t  rows[] = {
        { "", SCHEME },
        { "not-a-zmq-endpoint", SCHEME },
        { "selector-b:9092", SCHEME },
        { "tcp", SCHEME },
        { "tcp:", SCHEME },
        { "tcp:/", SCHEME },
        { "tcp:/host:5557", SCHEME },
        { "tcp//host:5557", SCHEME },
        { "/", SCHEME },
        { "tcp://", ADDRESS },
        { "ipc://", ADDRESS },
        { "inproc://", ADDRESS },
        { "udp://", ADDRESS },
        { "://", ADDRESS },
        { "://host:5557", "unsupported scheme ``" },
        { "TCP://host:5557", "unsupported scheme `TCP`" },
        { "Ipc://x", "unsupported scheme `Ipc`" },
        { " tcp://host:5557", "unsupported scheme ` tcp`" },
        { "tcp ://host:5557", "unsupported scheme `tcp `" },
        { "tcp:://host:5557", "unsupported scheme `tcp:`" },
        { "tcp4://host:5557", "unsupported scheme `tcp4`" },
        { "tc://host:5557", "unsupported scheme `tc`" },
        { "udp://host:5557", "unsupported scheme `udp`" },
        { "pgm://eth0;239.0.0.1:5557", "unsupported scheme `pgm`" },
        { "ws://host:5557", "unsupported scheme `ws`" },
        { "vmci://*:5557", "unsupported scheme `vmci`" },
        { "http://host:8000", "unsupported scheme `http`" },
        { "x://y://z", "unsupported scheme `x`" },
        { "\xe2\x82\xac://y", "unsupported scheme `\xe2\x82\xac`" }
    };

    expect_rows(rows, sel_countof(rows));
}


static void
test_host_and_port(void **state)
{
    static const row_t  rows[] = {
        { "tcp://host", PORT },
        { "tcp://10.0.0.7", PORT },
        { "tcp://[host", PORT },
        { "tcp://[]", PORT },
        { "tcp:///", PORT },
        { "tcp://::1:5557", PORT },
        { "tcp://2001:db8::7:5557", PORT },
        { "tcp://a:b:5557", PORT },
        { "tcp://host::5557", PORT },
        { "tcp://tcp:///:5557", PORT },
        { "tcp://::", PORT },
        { "tcp://::1]:5557", PORT },
        { "tcp://:5557", HOST },
        { "tcp://:", HOST },
        { "tcp://:x", HOST },
        { "tcp://[:5557", CLOSING },
        { "tcp://[::1:5557", CLOSING },
        { "tcp://[::1]", CLOSING },
        { "tcp://[::1] :5557", CLOSING },
        { "tcp://[a:x", CLOSING },
        { "tcp://host:", EMPTY },
        { "tcp://[::1]:", EMPTY },
        { "tcp://host:x", DIGIT },
        { "tcp://host:*", DIGIT },
        { "tcp://host:!", DIGIT },
        { "tcp://host:-1", DIGIT },
        { "tcp://host:-0", DIGIT },
        { "tcp://host:-", DIGIT },
        { "tcp://host:+", DIGIT },
        { "tcp://host:++1", DIGIT },
        { "tcp://host:+-1", DIGIT },
        { "tcp://host: 5557", DIGIT },
        { "tcp://host:5557 ", DIGIT },
        { "tcp://host:5557/", DIGIT },
        { "tcp://host:55.57", DIGIT },
        { "tcp://host:0x15", DIGIT },
        { "tcp://host:1e3", DIGIT },
        { "tcp://host:5_557", DIGIT },
        { "tcp://host:6553x", DIGIT },
        { "tcp://host:\xd9\xa1", DIGIT },
        { "tcp://host:65536", LARGE },
        { "tcp://host:+65536", LARGE },
        { "tcp://host:0065536", LARGE },
        { "tcp://host:99999", LARGE },
        { "tcp://host:4294967297", LARGE },
        { "tcp://host:18446744073709551617", LARGE },
        { "tcp://host:99999999999999999999999999999999999999", LARGE }
    };

    expect_rows(rows, sel_countof(rows));
}


static void
test_odd_bytes(void **state)
{
    char         *text;
    size_t        i;
    sel_str_t     endpoint;
    sel_arena_t   arena;
    const char   *got;

    static const size_t  sizes[] = { 500, 5000, 1 << 20 };

    /* a NUL character is no digit */
    sel_arena_init(&arena, 0);
    endpoint = (sel_str_t) { 17, (uint8_t *) "tcp://host:5557\0007" };
    assert_non_null(sel_endpoint_fault(endpoint, &arena));
    endpoint = (sel_str_t) { 4, (uint8_t *) "tcp\000" };
    assert_non_null(sel_endpoint_fault(endpoint, &arena));

    for (i = 0; i < sel_countof(sizes); i++) {
        text = malloc(sizes[i]);
        assert_non_null(text);
        memset(text, 'a', sizes[i]);
        expect(text, sizes[i], SCHEME);
        memcpy(text, "tcp://", 6);
        expect(text, sizes[i], PORT);
        text[sizes[i] - 2] = ':';
        expect(text, sizes[i], DIGIT);
        text[sizes[i] - 1] = '7';
        expect(text, sizes[i], NULL);
        memset(&text[20], ':', sizes[i] - 20);
        expect(text, sizes[i], PORT);
        free(text);
    }

    /* no memory for the sentence: it is a fault all the same */
    sel_arena_free(&arena);
    sel_arena_init(&arena, 1);
    got = sel_endpoint_fault(sel_str("tcp://host"), &arena);
    assert_non_null(got);
    assert_string_equal(got, "out of memory");
    assert_null(sel_endpoint_fault(sel_str("tcp://host:1"), &arena));
    sel_arena_free(&arena);
}


/*
 * Random texts from the characters that matter: the text before the fault is
 * always the endpoint, and only tcp with host and port, ipc and inproc pass.
 */
static void
test_random(void **state)
{
    char         text[64];
    size_t       i, len;
    unsigned     round;
    sel_rand_t   rnd;
    const char  *got;
    sel_arena_t  arena;

    static const char *const  pieces[] = {
        "tcp", "ipc", "inproc", "://", ":", "/", "[", "]", "0", "65535", "6",
        "+", "-", "x", " ", "::1"
    };

    rnd.state = sel_rand_seed("endpoint");

    for (round = 0; round < 100000; round++) {
        len = 0;
        text[0] = '\0';

        for (i = sel_rand_below(&rnd, 8); i != 0; i--) {
            len += (size_t) snprintf(&text[len], sizeof(text) - len, "%s",
                                     pieces[sel_rand_below(&rnd,
                                                sel_countof(pieces))]);
        }

        len = strlen(text);
        sel_arena_init(&arena, 0);
        got = sel_endpoint_fault((sel_str_t) { len, (uint8_t *) text },
                                 &arena);

        if (got != NULL
            && (strncmp(got, "invalid ZMQ endpoint `", 22) != 0
                || strncmp(&got[22], text, len) != 0
                || strncmp(&got[22 + len], "`: ", 3) != 0))
        {
            fail_msg("%s: %s", text, got);
        }

        if (got == NULL
            && !(strncmp(text, "ipc://", 6) == 0 && len > 6)
            && !(strncmp(text, "inproc://", 9) == 0 && len > 9)
            && !(strncmp(text, "tcp://", 6) == 0 && len > 8
                 && strchr("0123456789", text[len - 1]) != NULL
                 && strchr(&text[6], ':') != NULL && text[6] != ':'))
        {
            fail_msg("%s passes", text);
        }

        sel_arena_free(&arena);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_well_formed),
        cmocka_unit_test(test_scheme_and_address),
        cmocka_unit_test(test_host_and_port),
        cmocka_unit_test(test_odd_bytes),
        cmocka_unit_test(test_random)
    };

    return cmocka_run_group_tests_name("endpoint", tests, NULL, NULL);
}
