/*
 * Runs a fuzz target over files: the corpus as a regression test, with any
 * compiler.  Prints TAP, one line a file.
 */

#include "fuzz.h"


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
    int       i, failed;
    size_t    size;
    uint8_t  *data;

    failed = argc < 2;
    printf("1..%d\n", argc - 1);

    for (i = 1; i < argc; i++) {
        data = read_file(argv[i], &size);

        if (data == NULL) {
            printf("not ok %d - cannot read %s\n", i, argv[i]);
            failed = 1;
            continue;
        }

        fprintf(stderr, "# %s\n", argv[i]);
        (void) LLVMFuzzerTestOneInput(data, size);
        printf("ok %d - %s\n", i, argv[i]);
        fflush(stdout);
        free(data);
    }

    return failed;
}
