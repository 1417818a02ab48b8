/*
 * Reads bodies with token_ids, one a line, and writes the bodies in which a
 * client that hashes for itself would send the same prompts.  Blocks have 16
 * tokens.
 */

#include "bench.h"
#include "core/sel_json_write.h"
#include "service/sel_prompt.h"


#define PROMPTS_BLOCK  16


static void prompts_line(sel_str_t line);
static void prompts_write(const sel_prompt_t *prompt);
static void prompts_hashes(sel_json_out_t *out, const char *name,
    const uint64_t *hashes, uint32_t n);


int
main(void)
{
    char     *line;
    size_t    cap;
    ssize_t   n;

    line = NULL;
    cap = 0;

    while ((n = getline(&line, &cap, stdin)) > 0) {
        prompts_line((sel_str_t) { (size_t) n, (uint8_t *) line });
    }

    free(line);

    return 0;
}


static void
prompts_line(sel_str_t line)
{
    sel_json_t             json;
    sel_arena_t            arena;
    sel_fault_t            fault;
    sel_prompt_t           prompt;
    sel_select_body_t      body;
    sel_view_partition_t   partition;

    partition = (sel_view_partition_t) { .key.block_size = PROMPTS_BLOCK };

    sel_arena_init(&arena, 0);
    sel_json_init_text(&json, &arena, line);

    if (!sel_read_select(&json, &body)
        || !sel_prompt_read(&partition, &arena, &body, SEL_PROMPT_FOR_SELECT,
                            NULL, &prompt, &fault))
    {
        bench_fail("a line is no body with token_ids");
    }

    prompts_write(&prompt);

    sel_arena_free(&arena);
}


static void
prompts_write(const sel_prompt_t *prompt)
{
    sel_buf_t       buf;
    sel_json_out_t  out;

    sel_buf_init(&buf);
    sel_json_out_init(&out, &buf);

    sel_json_out_object(&out);
    prompts_hashes(&out, "block_hashes", prompt->blocks, prompt->n_blocks);
    prompts_hashes(&out, "sequence_hashes", prompt->sequence,
                   prompt->n_sequence);
    sel_json_out_key(&out, "isl_tokens");
    sel_json_out_u64(&out, prompt->isl_tokens);
    sel_json_out_object_end(&out);
    sel_buf_byte(&buf, '\n');

    if (buf.failed || fwrite(buf.data, buf.len, 1, stdout) != 1) {
        bench_fail("a body could not be written");
    }

    sel_buf_free(&buf);
}


/* signed, as the API prints them */
static void
prompts_hashes(sel_json_out_t *out, const char *name, const uint64_t *hashes,
    uint32_t n)
{
    uint32_t  i;

    sel_json_out_key(out, name);
    sel_json_out_array(out);

    for (i = 0; i < n; i++) {
        sel_json_out_i64(out, (int64_t) hashes[i]);
    }

    sel_json_out_array_end(out);
}
