# POST /overlap_scores without cached blocks: which ranks have a row, how many
# blocks a prompt counts, and the rules of the prompt.  Without this suite the
# page that tells why a worker was or was not chosen could leave ranks out, and
# a prompt could be cut into other blocks than the engines cut it.
#
# Two worker processes serve, and each request has a connection of its own.
# Ranks that hold blocks are in select_events.t and hashing.t.

use Test::Nginx::Socket;
use SelSuite;

master_on();
workers(2);
no_root_location();
no_long_string();
log_level('info');

# A worker with one rank and block size 4, and the rest of its answers.
our $one = <<'STORY';
> POST /workers {"worker_id":1,"endpoint":"a","block_size":4}
< 201 ~ "lifecycle":"schedulable"

STORY

our $row = '"device_blocks":0,"host_pinned_blocks":0,"disk_blocks":0,'
    . '"host_pinned_extension_blocks":0,"disk_extension_blocks":0,'
    . '"shared_beyond_device_blocks":null,"router_credit_blocks":0.0}';

our $end = '],"shared_cache":{"enabled":false,"total_hit_blocks":0,'
    . '"ranges":[],"error":null}}';

# One request each, with a table of members and the number of blocks.
sub counted {
    my (@rows) = @_;
    my $text = '';

    while (my ($members, $blocks) = splice @rows, 0, 2) {
        $text .= qq(> POST /overlap_scores {$members}\n)
            . qq(< 200 {"block_size":4,"num_blocks":$blocks,"workers":[)
            . qq({"worker_id":1,"dp_rank":0,$::row$::end\n\n);
    }

    return $text;
}

plan tests => repeat_each() * stories(blocks());
run_tests();

__DATA__

=== TEST 1: O1: a row for every rank of every schedulable worker, in order
--- request eval
<<"STORY"
> POST /workers {"worker_id":18446744073709551615,"endpoint":"c","block_size":4}
< 201 ~ "lifecycle":"schedulable"

> POST /workers {"worker_id":10,"endpoint":"b","block_size":4,"data_parallel_start_rank":9,"data_parallel_size":2}
< 201 ~ "lifecycle":"schedulable"

> POST /workers {"worker_id":9,"endpoint":"a","block_size":4}
< 201 ~ "lifecycle":"schedulable"

# These have none.
> POST /workers {"worker_id":1,"block_size":4}
< 201 ~ "lifecycle":"incomplete"

> POST /workers {"worker_id":2,"model_name":"other","endpoint":"a","block_size":4}
< 201 ~ "lifecycle":"schedulable"

> POST /workers {"worker_id":3,"endpoint":"a","block_size":4}
< 201 ~ "lifecycle":"schedulable"

> DELETE /workers/3
< 200 ~ "lifecycle":"unschedulable"

> POST /overlap_scores {"token_ids":[1,2,3,4]}
< 200
< {"block_size":4,"num_blocks":1,"workers":[
<  {"worker_id":9,"dp_rank":0,$::row,
<  {"worker_id":10,"dp_rank":9,$::row,
<  {"worker_id":10,"dp_rank":10,$::row,
<  {"worker_id":18446744073709551615,"dp_rank":0,$::row
<  $::end

> POST /overlap_scores {"model_name":"other","token_ids":[1,2,3,4]}
< 200
< {"block_size":4,"num_blocks":1,"workers":[
<  {"worker_id":2,"dp_rank":0,$::row
<  $::end
STORY



=== TEST 2: ranks follow the registration
--- request eval
$::one . <<"STORY"
> PATCH /workers/1 {"data_parallel_start_rank":1,"data_parallel_size":2}
< 200 ~ "data_parallel_size":2,

> POST /overlap_scores {"token_ids":[1]}
< 200
< {"block_size":4,"num_blocks":0,"workers":[
<  {"worker_id":1,"dp_rank":1,$::row,
<  {"worker_id":1,"dp_rank":2,$::row
<  $::end

> PATCH /workers/1 {"data_parallel_start_rank":2}
< 200 ~ "data_parallel_start_rank":2,

> POST /overlap_scores {"token_ids":[1]}
< 200
< {"block_size":4,"num_blocks":0,"workers":[
<  {"worker_id":1,"dp_rank":2,$::row,
<  {"worker_id":1,"dp_rank":3,$::row
<  $::end
STORY



=== TEST 3: whole blocks count
--- request eval
my $tokens = sub { '"token_ids":[' . (CORE::join ',', 1 .. $_[0]) . ']' };
$::one . main::counted(
    (map { $tokens->($_->[0]) => $_->[1] }
        [0, 0], [1, 0], [3, 0], [4, 1], [5, 1], [7, 1], [8, 2], [9, 2]),
    # with EAGLE only together with the token behind them,
    (map { $tokens->($_->[0]) . ',"is_eagle":true' => $_->[1] }
        [0, 0], [1, 0], [4, 0], [5, 1], [8, 1], [9, 2], [12, 2], [13, 3]),
    $tokens->(8) . ',"is_eagle":false' => 2,
    $tokens->(8) . ',"is_eagle":null' => 2,
    $tokens->(40_003) => 10_000,
    # and hashes as many as there are.
    '"block_hashes":[1,2,3],"sequence_hashes":[1,2,3],"isl_tokens":1' => 3,
    '"block_hashes":[],"sequence_hashes":[],"isl_tokens":100' => 0,
    '"block_hashes":[-1,18446744073709551615],'
        . '"sequence_hashes":[-9223372036854775808,9223372036854775808],'
        . '"isl_tokens":8' => 2,
)



=== TEST 4: a partition that works with EAGLE, and prompts that say otherwise
--- request eval
<<"STORY"
> POST /workers {"worker_id":1,"endpoint":"a","block_size":4,"is_eagle":true}
< 201 ~ "lifecycle":"schedulable"

STORY
. main::counted(
    '"token_ids":[1,2,3,4]' => 0,
    '"token_ids":[1,2,3,4,5]' => 1,
    '"token_ids":[1,2,3,4,5,6,7,8]' => 1,
    '"token_ids":[1,2,3,4,5,6,7,8,9],"is_eagle":null' => 2,
    '"token_ids":[1,2,3,4],"is_eagle":false' => 1,
)



=== TEST 5: N1: which tokens are the prompt
--- request eval
my $eight = '[1,2,3,4,5,6,7,8]';
$::one . main::counted(
    qq("mm_routing_info":{"routing_token_ids":$eight},"token_ids":[1,2,3,4])
        => 2,
    qq("mm_routing_info":{"routing_token_ids":$eight}) => 2,
    qq("mm_routing_info":{"routing_token_ids":[]},"token_ids":[1,2,3,4]) => 1,
    qq("mm_routing_info":{"routing_token_ids":[],"block_mm_infos":[null]},)
        . qq("block_hashes":[1,2,3],"sequence_hashes":[1,2,3],"isl_tokens":9)
        => 3,
    qq("mm_routing_info":null,"token_ids":$eight) => 2,
    # Tokens win over hashes, also when there are none.
    qq("token_ids":$eight,"block_hashes":[1],"sequence_hashes":[],)
        . qq("isl_tokens":0) => 2,
    '"token_ids":[],"block_hashes":[1],"sequence_hashes":[1],"isl_tokens":4'
        => 0,
    # Multimodal records beyond the prompt, or fewer than it has blocks.
    qq("token_ids":$eight,"block_mm_infos":[]) => 2,
    qq("token_ids":$eight,"block_mm_infos":[{"mm_objects":[]}]) => 2,
    qq("token_ids":$eight,"block_mm_infos":[null,null,{"mm_objects":)
        . qq([{"mm_hash":18446744073709551615,"offsets":[[0,4],[5,6]]}]}]) => 2,
    qq("token_ids":$eight,"block_mm_infos":null) => 2,
    qq("token_ids":$eight,"lora_name":"l","cache_salt":"s") => 2,
    qq("token_ids":$eight,"lora_name":null,"cache_salt":"") => 2,
)



=== TEST 6: what a prompt needs
--- request eval
$::one . <<'STORY'
> POST /overlap_scores {}
< 400 ERROR block_hashes is required without token_ids

> POST /overlap_scores {"block_hashes":[1]}
< 400 ERROR sequence_hashes is required without token_ids

> POST /overlap_scores {"block_hashes":[1],"sequence_hashes":[1]}
< 400 ERROR isl_tokens is required without token_ids

> POST /overlap_scores {"block_hashes":[1],"sequence_hashes":[1,2],"isl_tokens":0}
< 400 ERROR isl_tokens must be greater than 0

> POST /overlap_scores {"block_hashes":[1],"sequence_hashes":[1,2],"isl_tokens":4}
< 400 ERROR block_hashes length 1 must match sequence_hashes length 2

> POST /overlap_scores {"mm_routing_info":{"routing_token_ids":[]}}
< 400 ERROR block_hashes is required without token_ids
STORY



=== TEST 7: overrides are taken, and members of a selection ignored
--- request eval
$::one . main::counted(
    map { ("\"token_ids\":[1,2,3,4],$_" => 1) }
    '"router_config_override":null',
    '"router_config_override":{}',
    '"router_config_override":{"overlap_score_credit":0.5}',
    '"router_config_override":{"overlap_score_credit":0,'
        . '"shared_cache_multiplier":1,"router_temperature":2}',
    '"router_config_override":{"assume_kv_reuse":false,'
        . '"track_prefill_tokens":false,"overlap_score_weight":0}',
    '"allowed_worker_ids":[],"pinned_worker":{"worker_id":9,"dp_rank":9}',
    '"routing_constraints":null,"advisory":"x","selection_id":7',
)



=== TEST 8: no worker, no scores
--- request eval
<<"STORY"
> POST /overlap_scores {"token_ids":[1,2,3,4]}
< 503 ERROR no schedulable workers are available

STORY
. $::one . <<'STORY'
> POST /overlap_scores {"model_name":"m","routing_group":"g","token_ids":[1]}
< 503 ERROR no schedulable workers for model=m routing_group=g

> DELETE /workers/1
< 200 ~ "lifecycle":"unschedulable"

> POST /overlap_scores {"token_ids":[1,2,3,4]}
< 503 ERROR no schedulable workers are available
STORY
