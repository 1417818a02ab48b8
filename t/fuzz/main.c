/*
 * Runs a fuzz target without libFuzzer, so with any compiler: over the files
 * of a corpus, as a regression test, and then over FUZZ_RUNS random mutations
 * of them.  Prints TAP: a line a file, one for the mutations.  SEL_SEED
 * repeats a run; FUZZ_FROM starts it at a certain mutation, whose number is
 * printed when the target dies; FUZZ_SAVE writes the input to a file.
 */

#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "fuzz.h"


#define MUTATED_MAX  (64 * 1024)


typedef struct {
    uint8_t  *data;
    size_t    size;
} input_t;


static unsigned long  current_run;


extern void __sanitizer_set_death_callback(void (*callback)(void))
    __attribute__((weak));


static void
say_where(void)
{
    char  text[64];
    int   n;

    n = snprintf(text, sizeof(text), "# died in mutation %lu\n", current_run);

    if (write(STDERR_FILENO, text, (size_t) n) < 0) {
        return;
    }
}


static void
on_abort(int signo)
{
    say_where();
    signal(signo, SIG_DFL);
    raise(signo);
}


static uint64_t
next_random(uint64_t *state)
{
    uint64_t  z;

    z = (*state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;

    return z ^ (z >> 31);
}


/* One change of data, of at most MUTATED_MAX bytes; returns the new size. */

static size_t
mutate(uint8_t *data, size_t size, const input_t *other, uint64_t *state)
{
    size_t  at, n, from;

    at = size != 0 ? next_random(state) % size : 0;
    n = 1 + next_random(state) % 16;

    switch (next_random(state) % 6) {

    case 0:
        if (size != 0) {
            data[at] ^= (uint8_t) (1u << next_random(state) % 8);
        }
        return size;

    case 1:
        if (size != 0) {
            data[at] = (uint8_t) next_random(state);
        }
        return size;

    case 2:                             /* cut out */
        n = n < size - at ? n : size - at;
        memmove(data + at, data + at + n, size - at - n);
        return size - n;

    case 3:                             /* cut off */
        return at;

    case 4:                             /* double a piece */
        n = n < size - at ? n : size - at;
        if (size + n > MUTATED_MAX) {
            return size;
        }
        memmove(data + at + n, data + at, size - at);
        return size + n;

    default:                            /* a piece of another one */
        from = other->size != 0 ? next_random(state) % other->size : 0;
        n = n < other->size - from ? n : other->size - from;
        n = n < size - at ? n : size - at;
        memcpy(data + at, other->data + from, n);
        return size;
    }
}


/* FUZZ_SAVE names a file for the input, so that one that kills is kept. */

static void
save_input(const uint8_t *data, size_t size)
{
    FILE        *file;
    const char  *name;

    name = getenv("FUZZ_SAVE");
    file = name != NULL ? fopen(name, "wb") : NULL;

    if (file != NULL) {
        fwrite(data, 1, size, file);
        fclose(file);
    }
}


static void
run_mutations(const input_t *inputs, size_t n, unsigned long runs,
    unsigned long from, uint64_t seed)
{
    size_t          size, changes;
    uint8_t        *data, *exact;
    uint64_t        state;
    const input_t  *input;

    data = malloc(MUTATED_MAX);

    if (data == NULL || n == 0) {
        free(data);
        return;
    }

    for (current_run = from; current_run < runs; current_run++) {
        state = seed ^ (current_run * 0xd1342543de82ef95);
        input = &inputs[next_random(&state) % n];
        size = input->size < MUTATED_MAX ? input->size : MUTATED_MAX;

        if (size != 0) {
            memcpy(data, input->data, size);
        }

        for (changes = 1 + next_random(&state) % 8; changes > 0; changes--) {
            size = mutate(data, size, &inputs[next_random(&state) % n],
                          &state);
        }

        /* of the exact size, so that reading past it is noticed */

        exact = malloc(size != 0 ? size : 1);

        if (exact == NULL) {
            break;
        }

        memcpy(exact, data, size);
        save_input(exact, size);
        (void) LLVMFuzzerTestOneInput(exact, size);
        free(exact);
    }

    free(data);
}


static unsigned long
number_from(const char *name, unsigned long otherwise)
{
    const char  *text;

    text = getenv(name);

    return text != NULL ? strtoul(text, NULL, 0) : otherwise;
}


static uint8_t *
read_file(const char *name, size_t *size)
{
    long      end;
    FILE     *file;
    uint8_t  *data;

    file = fopen(name, "rb");

    if (file == NULL) {
        return NULL;
    }

    if (fseek(file, 0, SEEK_END) != 0
        || (end = ftell(file)) < 0
        || fseek(file, 0, SEEK_SET) != 0)
    {
        fclose(file);
        return NULL;
    }

    *size = (size_t) end;
    data = malloc(*size != 0 ? *size : 1);

    if (data != NULL && fread(data, 1, *size, file) != *size) {
        free(data);
        data = NULL;
    }

    fclose(file);

    return data;
}


int
main(int argc, char **argv)
{
    int             i, failed;
    size_t          n;
    input_t        *inputs;
    uint64_t        seed;
    unsigned long   runs;

    runs = number_from("FUZZ_RUNS", 0);
    seed = number_from("SEL_SEED", (unsigned long) time(NULL));
    inputs = calloc((size_t) argc, sizeof(*inputs));
    failed = argc < 2 || inputs == NULL;
    n = 0;

    printf("1..%d\n", argc - 1 + (runs != 0));

    for (i = 1; i < argc && inputs != NULL; i++) {
        inputs[n].data = read_file(argv[i], &inputs[n].size);

        if (inputs[n].data == NULL) {
            printf("not ok %d - cannot read %s\n", i, argv[i]);
            failed = 1;
            continue;
        }

        fprintf(stderr, "# %s\n", argv[i]);
        (void) LLVMFuzzerTestOneInput(inputs[n].data, inputs[n].size);
        printf("ok %d - %s\n", i, argv[i]);
        fflush(stdout);
        n++;
    }

    if (runs != 0 && !failed) {
        fprintf(stderr, "# SEL_SEED=%llu\n", (unsigned long long) seed);
        signal(SIGABRT, on_abort);

        if (__sanitizer_set_death_callback != NULL) {
            __sanitizer_set_death_callback(say_where);
        }

        run_mutations(inputs, n, runs, number_from("FUZZ_FROM", 0), seed);
        printf("ok %d - %lu mutations\n", argc, runs);
    }

    while (n > 0) {
        free(inputs[--n].data);
    }

    free(inputs);

    return failed;
}
