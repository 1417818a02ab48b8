/*
 * What the fuzz targets share: a check that ends the process with a sentence,
 * so that the input is kept.
 */

#ifndef SEL_FUZZ_H
#define SEL_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>


#define FUZZ_CHECK(condition, ...)                                            \
    do {                                                                      \
        if (!(condition)) {                                                   \
            fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                   \
            fprintf(stderr, __VA_ARGS__);                                     \
            fprintf(stderr, "\n");                                            \
            abort();                                                          \
        }                                                                     \
    } while (0)


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


/* A number that depends on the whole input, for choices of the target's. */
static inline uint64_t
fuzz_seed(const uint8_t *data, size_t size)
{
    uint64_t  seed;

    seed = size;

    while (size-- != 0) {
        seed = (seed ^ *data++) * 0x100000001b3;
    }

    return seed;
}


#endif /* SEL_FUZZ_H */
