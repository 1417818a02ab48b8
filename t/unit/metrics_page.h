/*
 * The status page, taken apart: it must be the text format of Prometheus, with
 * every metric described once and every sample once.  Include after cmocka.h.
 */

#ifndef METRICS_PAGE_H
#define METRICS_PAGE_H

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "service/sel_metrics.h"


#define MAX_SAMPLES  2000
#define MAX_METRICS  100


typedef struct {
    char      name[128];        /* with its labels, as printed */
    uint64_t  value;
} sample_t;


static char       *page;
static sample_t    samples[MAX_SAMPLES];
static uint32_t    n_samples;
static char        metrics[MAX_METRICS][128];
static uint32_t    n_metrics;


/* name or name{label="value",...}; its length without the labels */
static inline size_t
check_name(const char *name)
{
    size_t       len;
    const char  *p;

    len = strspn(name, "abcdefghijklmnopqrstuvwxyz_");
    assert_int_equal(strncmp(name, "select_", 7), 0);
    p = &name[len];

    if (*p == '\0') {
        return len;
    }

    do {
        p++;                                    /* { or , */
        assert_true(islower((unsigned char) *p));
        p += strspn(p, "abcdefghijklmnopqrstuvwxyz_");
        assert_int_equal(strncmp(p, "=\"", 2), 0);
        p += 2;
        p += strspn(p, "abcdefghijklmnopqrstuvwxyz_0123456789");
        assert_true(*p == '"');
        p++;
    } while (*p == ',');

    assert_string_equal(p, "}");

    return len;
}


/* One sample of the metric that HELP and TYPE have just introduced. */
static inline void
parse_sample(char *line)
{
    char      *space, *rest;
    size_t     len;
    uint32_t   i;
    sample_t  *sample;

    space = strrchr(line, ' ');
    assert_non_null(space);
    *space = '\0';
    len = check_name(line);
    assert_true(n_metrics != 0);
    assert_int_equal(len, strlen(metrics[n_metrics - 1]));
    assert_int_equal(strncmp(line, metrics[n_metrics - 1], len), 0);

    for (i = 0; i < n_samples; i++) {
        if (strcmp(samples[i].name, line) == 0) {
            fail_msg("%s stands twice", line);
        }
    }

    assert_true(n_samples < MAX_SAMPLES);
    sample = &samples[n_samples++];
    assert_true(strlen(line) < sizeof(sample->name));
    (void) strcpy(sample->name, line);
    assert_true(isdigit((unsigned char) space[1]));
    sample->value = strtoull(space + 1, &rest, 10);
    assert_string_equal(rest, "");
}


static inline void
parse_help(char *line)
{
    char      *text;
    uint32_t   i;

    text = strchr(line, ' ');
    assert_non_null(text);
    *text++ = '\0';
    assert_true(strlen(text) > 3);
    assert_int_equal(check_name(line), strlen(line));

    for (i = 0; i < n_metrics; i++) {
        if (strcmp(metrics[i], line) == 0) {
            fail_msg("%s is described twice", line);
        }
    }

    assert_true(n_metrics < MAX_METRICS);
    (void) snprintf(metrics[n_metrics++], sizeof(metrics[0]), "%s", line);
}


static inline void
parse_type(char *line)
{
    size_t       len;
    const char  *name;

    assert_true(n_metrics != 0);
    name = metrics[n_metrics - 1];
    len = strlen(name);
    assert_int_equal(strncmp(line, name, len), 0);

    /* what is named a total is a counter, all else can fall */
    assert_string_equal(&line[len], len > 6
                        && strcmp(&name[len - 6], "_total") == 0
                        ? " counter" : " gauge");
}


/* Prints the page and takes it apart. */
static inline void
parse(sel_service_t *service)
{
    bool       typed;
    char      *line, *next;
    sel_buf_t  buf;

    sel_buf_init(&buf);
    assert_true(sel_metrics_print(service, &buf));
    assert_false(buf.failed);
    assert_true(buf.len != 0 && buf.data[buf.len - 1] == '\n');
    assert_null(memchr(buf.data, 0, buf.len));
    sel_buf_byte(&buf, 0);
    free(page);
    page = strdup((char *) buf.data);
    assert_non_null(page);
    n_samples = n_metrics = 0;
    typed = true;

    for (line = (char *) buf.data; *line != '\0'; line = next) {
        next = strchr(line, '\n');
        assert_non_null(next);
        *next++ = '\0';

        if (strncmp(line, "# HELP ", 7) == 0) {
            assert_true(typed);
            typed = false;
            parse_help(line + 7);

        } else if (strncmp(line, "# TYPE ", 7) == 0) {
            assert_false(typed);
            typed = true;
            parse_type(line + 7);

        } else {
            assert_true(typed);
            parse_sample(line);
        }
    }

    sel_buf_free(&buf);
}


static inline void
expect(uint64_t value, const char *format, ...)
{
    char      name[160];
    va_list   args;
    uint32_t  i;

    va_start(args, format);
    (void) vsnprintf(name, sizeof(name), format, args);
    va_end(args);

    for (i = 0; i < n_samples; i++) {
        if (strcmp(samples[i].name, name) == 0) {
            break;
        }
    }

    if (i == n_samples) {
        fail_msg("there is no %s", name);
    }

    if (samples[i].value != value) {
        fail_msg("%s is %" PRIu64 ", expected %" PRIu64, name,
                 samples[i].value, value);
    }
}


#endif /* METRICS_PAGE_H */
