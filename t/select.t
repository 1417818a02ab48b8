# POST /select without cached blocks and without load: the answer, the rules of
# the prompt, who may be chosen, and the busy flags.  Without this suite a
# request could land on a worker that it excluded, clients could meet a renamed
# member, and a broken prompt could be routed as if it were whole.
#
# Two worker processes serve, and each request has a connection of its own.
# What is chosen by chance is in select_chance.t, what depends on cached blocks
# in select_events.t.

use Test::Nginx::Socket;
use SelSuite;

master_on();
workers(2);
no_root_location();
no_long_string();
log_level('info');

our $one = <<'STORY';
> POST /workers {"worker_id":1,"endpoint":"http://a","block_size":4}
< 201 ~ "lifecycle":"schedulable"

STORY

# Worker 1 has the taints a and b, worker 2 has b and c, worker 3 has none.
our $three = CORE::join '', map {
    my ($id, $taints) = @$_;
    qq(> POST /workers {"worker_id":$id,"endpoint":"e$id","block_size":4,)
        . qq("taints":[$taints]}\n< 201 ~ "lifecycle":"schedulable"\n\n)
} [ 1, '"a","b"' ], [ 2, '"b","c"' ], [ 3, '' ];

# One selection each, with a table of bodies and the worker that is chosen.
sub chosen {
    my (@rows) = @_;
    my $text = '';

    while (my ($members, $worker) = splice @rows, 0, 2) {
        $text .= qq(> POST /select {"token_ids":[1,2,3,4],$members}\n)
            . ($worker ? qq(< 200 ~ "worker_id":$worker,\n\n)
                : "< 503 ERROR no endpoints available to route work\n\n");
    }

    return $text;
}

# And with a table of bodies and what the prompt counts as.
sub counted {
    my (@rows) = @_;
    my $text = '';

    while (my ($members, $tokens, $blocks) = splice @rows, 0, 3) {
        $text .= qq(> POST /select {$members}\n< 200 ~ )
            . qq("effective_prefill_tokens":$tokens,)
            . qq("potential_decode_blocks":$blocks}\n\n);
    }

    return $text;
}

plan tests => repeat_each() * stories(blocks());
run_tests();

__DATA__

=== TEST 1: the whole answer
--- request
> POST /workers
> {"worker_id":7,"model_name":"llama","routing_group":"east",
>  "endpoint":"http://10.0.0.7:8000","block_size":16,"data_parallel_size":2}
< 201 ~ "lifecycle":"schedulable"

> POST /select
> {"selection_id":"sel-1","model_name":"llama","routing_group":"east",
>  "block_hashes":[101,102],"sequence_hashes":[201,202],"isl_tokens":32,
>  "pinned_worker":{"worker_id":7,"dp_rank":1}}
< 200
< {"selection_id":"sel-1","model_name":"llama","routing_group":"east",
<  "worker_id":7,"dp_rank":1,"endpoint":"http://10.0.0.7:8000",
<  "block_size":16,
<  "overlap":{"longest_matched":0,"gpu":0,"dp":{"0":0,"1":0},"cpu":0,
<             "disk":0},
<  "effective_prefill_tokens":32,"potential_decode_blocks":2}



=== TEST 2: S1: the default partition, and the id that was sent
--- request eval
$::one . <<'STORY'
> POST /select {"token_ids":[1,2,3,4]}
< 200
< {"model_name":"default","routing_group":"default","worker_id":1,
<  "dp_rank":0,"endpoint":"http://a","block_size":4,
<  "overlap":{"longest_matched":0,"gpu":0,"dp":{"0":0},"cpu":0,"disk":0},
<  "effective_prefill_tokens":4,"potential_decode_blocks":1}

> POST /select {"token_ids":[1,2,3,4],"selection_id":"sel-a"}
< 200
< {"selection_id":"sel-a","model_name":"default","routing_group":"default",
<  "worker_id":1,"dp_rank":0,"endpoint":"http://a","block_size":4,
<  "overlap":{"longest_matched":0,"gpu":0,"dp":{"0":0},"cpu":0,"disk":0},
<  "effective_prefill_tokens":4,"potential_decode_blocks":1}

> POST /select {"model_name":"default","routing_group":"default","selection_id":null,"token_ids":[1,2,3,4]}
< 200
< {"model_name":"default","routing_group":"default","worker_id":1,
<  "dp_rank":0,"endpoint":"http://a","block_size":4,
<  "overlap":{"longest_matched":0,"gpu":0,"dp":{"0":0},"cpu":0,"disk":0},
<  "effective_prefill_tokens":4,"potential_decode_blocks":1}
STORY



=== TEST 3: H2: any text is an id
--- request eval
$::one . CORE::join '', map {
    qq(> POST /select {"token_ids":[1],"selection_id":"$_"}\n)
    . qq(< 200 ~ {"selection_id":"$_","model_name":"default",\n\n)
} '', ' ', 'a\"b\\\\c', '\u0000', "\xc3\xa9", "\xf0\x9f\x98\x80", '1', '..', 'a/b',
    'a%2Fb', map { 'x' x $_ } 256, 257, 5000



=== TEST 4: S2: what a prompt needs
--- request eval
$::one . <<'STORY'
> POST /select {}
< 400 ERROR block_hashes is required without token_ids

> POST /select {"token_ids":null,"block_hashes":null,"sequence_hashes":[1],"isl_tokens":4}
< 400 ERROR block_hashes is required without token_ids

> POST /select {"block_hashes":[1]}
< 400 ERROR sequence_hashes is required without token_ids

> POST /select {"block_hashes":[],"sequence_hashes":null,"isl_tokens":0}
< 400 ERROR sequence_hashes is required without token_ids

> POST /select {"block_hashes":[1],"sequence_hashes":[1]}
< 400 ERROR isl_tokens is required without token_ids

> POST /select {"block_hashes":[1],"sequence_hashes":[1,2],"isl_tokens":null}
< 400 ERROR isl_tokens is required without token_ids

> POST /select {"block_hashes":[1],"sequence_hashes":[1,2],"isl_tokens":0}
< 400 ERROR isl_tokens must be greater than 0

> POST /select {"block_hashes":[1],"sequence_hashes":[1,2],"isl_tokens":16}
< 400 ERROR block_hashes length 1 must match sequence_hashes length 2

> POST /select {"block_hashes":[1,2],"sequence_hashes":[],"isl_tokens":16}
< 400 ERROR block_hashes length 2 must match sequence_hashes length 0

# The tokens count as the prompt even when there are none.
> POST /select {"token_ids":[]}
< 400 ERROR isl_tokens must be greater than 0

> POST /select {"token_ids":[],"block_hashes":[1],"sequence_hashes":[1],"isl_tokens":4}
< 400 ERROR isl_tokens must be greater than 0

> POST /select {"mm_routing_info":{"routing_token_ids":[]}}
< 400 ERROR block_hashes is required without token_ids

# Rules of the prompt come before those of the candidates.
> POST /select {"pinned_worker":{"worker_id":1,"dp_rank":0},"allowed_worker_ids":[]}
< 400 ERROR block_hashes is required without token_ids
STORY



=== TEST 5: how long a prompt is
--- request eval
$::one . main::counted(
    # Tokens: whole blocks, and one more for the rest.
    '"token_ids":[1]'                                      => 1, 1,
    '"token_ids":[1,2,3,4]'                                => 4, 1,
    '"token_ids":[1,2,3,4,5]'                              => 5, 2,
    '"token_ids":[0,4294967295,2,3,4,5,6,7]'               => 8, 2,
    # Hashes: as many as were given, at least what the length needs.
    '"block_hashes":[1,2],"sequence_hashes":[3,4],"isl_tokens":8'  => 8, 2,
    '"block_hashes":[1,2],"sequence_hashes":[3,4],"isl_tokens":9'  => 9, 3,
    '"block_hashes":[1,2],"sequence_hashes":[3,4],"isl_tokens":1'  => 1, 2,
    '"block_hashes":[],"sequence_hashes":[],"isl_tokens":5'        => 5, 2,
    '"block_hashes":[5,5],"sequence_hashes":[7,7],"isl_tokens":8'  => 8, 2,
    '"block_hashes":[],"sequence_hashes":[],'
        . '"isl_tokens":18446744073709551615'
        => '18446744073709551615', '4611686018427387904',
    # Tokens win over hashes, multimodal tokens over both.
    '"token_ids":[1],"block_hashes":[1],"sequence_hashes":[],"isl_tokens":0'
        => 1, 1,
    '"mm_routing_info":{"routing_token_ids":[1,2,3,4,5,6,7,8]},'
        . '"token_ids":[1,2,3,4]' => 8, 2,
    '"mm_routing_info":{"routing_token_ids":[]},"token_ids":[1,2,3,4]'
        => 4, 1,
    '"mm_routing_info":null,"token_ids":[1,2,3,4]' => 4, 1,
    '"mm_routing_info":{"routing_token_ids":[]},"block_hashes":[1],'
        . '"sequence_hashes":[1],"isl_tokens":4' => 4, 1,
    # What goes into the hashes does not count.
    '"token_ids":[1,2,3,4],"lora_name":"l","cache_salt":"s",'
        . '"block_mm_infos":[null,{"mm_objects":[]}]' => 4, 1,
    # A block of an EAGLE prompt needs one token more.
    '"token_ids":[1,2,3,4],"is_eagle":true'   => 4, 1,
    '"token_ids":[1,2,3,4,5],"is_eagle":true' => 5, 2,
    # Random identities are as many as real ones.
    '"token_ids":[1,2,3,4,5],'
        . '"router_config_override":{"assume_kv_reuse":false}' => 5, 2,
    '"token_ids":[1,2,3,4,5],'
        . '"router_config_override":{"track_prefill_tokens":false}' => 5, 2,
)



=== TEST 6: hashes use all 64 bits, signed or unsigned
--- request eval
$::one . main::counted(
    map { ("\"block_hashes\":[$_],\"sequence_hashes\":[$_],\"isl_tokens\":4"
        => 4, 1) } '18446744073709551615', '9223372036854775808',
        '9223372036854775807', '-1', '-9223372036854775808', '0',
)



=== TEST 7: a long prompt
--- request eval
my $tokens = CORE::join ',', 0 .. 99_999;
$::one . main::counted("\"token_ids\":[$tokens]" => 100_000, 25_000)



=== TEST 8: ranks of a worker are candidates each
--- request
> POST /workers {"worker_id":1,"endpoint":"a","block_size":4,"data_parallel_start_rank":3,"data_parallel_size":2}
< 201 ~ "lifecycle":"schedulable"

> POST /select {"token_ids":[1],"pinned_worker":{"worker_id":1,"dp_rank":3}}
< 200 ~ "worker_id":1,"dp_rank":3,"endpoint":"a","block_size":4,"overlap":{"longest_matched":0,"gpu":0,"dp":{"3":0,"4":0},"cpu":0,

> POST /select {"token_ids":[1],"pinned_worker":{"worker_id":1,"dp_rank":4}}
< 200 ~ "worker_id":1,"dp_rank":4,"endpoint":"a","block_size":4,"overlap":{"longest_matched":0,"gpu":0,"dp":{"3":0,"4":0},"cpu":0,

> POST /select {"token_ids":[1],"affinity_target":{"worker_id":1,"dp_rank":4}}
< 200 ~ "worker_id":1,"dp_rank":4,

> POST /select {"token_ids":[1],"affinity_target":{"worker_id":1,"dp_rank":null}}
< 200 /"worker_id":1,"dp_rank":[34],/

> POST /select {"token_ids":[1],"pinned_worker":{"worker_id":1,"dp_rank":0}}
< 503 ERROR no endpoints available to route work

> POST /select {"token_ids":[1],"pinned_worker":{"worker_id":1,"dp_rank":5}}
< 503 ERROR no endpoints available to route work

# A rank out of range is no target.
> POST /select {"token_ids":[1],"affinity_target":{"worker_id":1,"dp_rank":5}}
< 200 /"worker_id":1,"dp_rank":[34],/



=== TEST 9: allowed workers
--- request eval
$::three . main::chosen(
    '"allowed_worker_ids":[2]'                       => 2,
    '"allowed_worker_ids":[3,3,99]'                  => 3,
    '"allowed_worker_ids":[]'                        => 0,
    '"allowed_worker_ids":[99,18446744073709551615]' => 0,
    '"allowed_worker_ids":null'                      => '[123]',
) =~ s/~ ("worker_id":\[123\],)/\/$1\//r



=== TEST 10: the pinned worker
--- request eval
$::three . main::chosen(
    '"pinned_worker":{"worker_id":3,"dp_rank":0}'    => 3,
    '"pinned_worker":{"worker_id":2,"dp_rank":0},"allowed_worker_ids":[1,2]'
                                                     => 2,
    '"pinned_worker":{"worker_id":99,"dp_rank":0}'   => 0,
    '"pinned_worker":{"worker_id":1,"dp_rank":1}'    => 0,
    '"pinned_worker":{"worker_id":1,"dp_rank":0},'
        . '"routing_constraints":{"required_taints":["a"]}' => 1,
    '"pinned_worker":{"worker_id":1,"dp_rank":0},'
        . '"routing_constraints":{"required_taints":["c"]}' => 0,
    # It wins over a target, and whatever other workers are worth.
    '"pinned_worker":{"worker_id":1,"dp_rank":0},'
        . '"affinity_target":{"worker_id":2}'        => 1,
    '"pinned_worker":{"worker_id":2,"dp_rank":0},'
        . '"routing_constraints":{"preferred_taints":{"a":9,"c":-9}}' => 2,
    '"pinned_worker":null,"allowed_worker_ids":[3]'  => 3,
) . <<'STORY'
> POST /select {"token_ids":[1],"pinned_worker":{"worker_id":1,"dp_rank":0},"allowed_worker_ids":[2,3]}
< 400 ERROR pinned worker 1 is not in allowed worker set

> POST /select {"token_ids":[1],"pinned_worker":{"worker_id":1,"dp_rank":0},"allowed_worker_ids":[]}
< 400 ERROR pinned worker 1 is not in allowed worker set

# Also when it does not exist.
> POST /select {"token_ids":[1],"pinned_worker":{"worker_id":18446744073709551615,"dp_rank":0},"allowed_worker_ids":[1]}
< 400 ERROR pinned worker 18446744073709551615 is not in allowed worker set
STORY



=== TEST 11: a target has the choice to itself, if it may serve
--- request eval
$::three . main::chosen(
    map({ ("\"affinity_target\":{\"worker_id\":$_}" => $_,
        "\"affinity_target\":{\"worker_id\":$_,\"dp_rank\":0}" => $_,
        "\"affinity_target\":{\"worker_id\":$_,\"dp_rank\":null}" => $_) }
        1, 2, 3),
    # In all of the following the target may not serve and is ignored.
    '"affinity_target":{"worker_id":99},"allowed_worker_ids":[2]' => 2,
    '"affinity_target":{"worker_id":1},"allowed_worker_ids":[3]'  => 3,
    '"affinity_target":{"worker_id":1,"dp_rank":7},'
        . '"allowed_worker_ids":[1]' => 1,
    '"affinity_target":{"worker_id":3},'
        . '"routing_constraints":{"required_taints":["c"]}' => 2,
    '"affinity_target":{"worker_id":3},"allowed_worker_ids":[]' => 0,
    # It beats what other workers are worth.
    '"affinity_target":{"worker_id":3},'
        . '"routing_constraints":{"preferred_taints":{"b":9}}' => 3,
)



=== TEST 12: required taints
--- request eval
$::three . main::chosen(
    '"routing_constraints":{"required_taints":["a"]}'         => 1,
    '"routing_constraints":{"required_taints":["c"]}'         => 2,
    '"routing_constraints":{"required_taints":["b","c","b"]}' => 2,
    '"routing_constraints":{"required_taints":["a","c"]}'     => 0,
    '"routing_constraints":{"required_taints":["A"]}'         => 0,
    '"routing_constraints":{"required_taints":[""]}'          => 0,
    '"routing_constraints":{"required_taints":["never seen"]}' => 0,
    '"allowed_worker_ids":[2,3],'
        . '"routing_constraints":{"required_taints":["b"]}'   => 2,
    '"allowed_worker_ids":[3],'
        . '"routing_constraints":{"required_taints":["b"]}'   => 0,
    '"allowed_worker_ids":[3],"routing_constraints":{}'       => 3,
    '"allowed_worker_ids":[3],'
        . '"routing_constraints":{"required_taints":[]}'      => 3,
)



=== TEST 13: taints follow the registration
--- request eval
$::three . main::chosen('"routing_constraints":{"required_taints":["a"]}' => 1)
. qq(> PATCH /workers/1 {"taints":["z"]}\n< 200 ~ "taints":["z"],\n\n)
. qq(> PATCH /workers/3 {"taints":["a"]}\n< 200 ~ "taints":["a"],\n\n)
. main::chosen('"routing_constraints":{"required_taints":["a"]}' => 3,
    '"routing_constraints":{"required_taints":["z"]}' => 1)



=== TEST 14: preferred taints attract and repel
--- request eval
$::three . main::chosen(
    '"routing_constraints":{"preferred_taints":{"a":0.01}}'        => 1,
    '"routing_constraints":{"preferred_taints":{"c":1}}'           => 2,
    '"routing_constraints":{"preferred_taints":{"b":-1}}'          => 3,
    '"routing_constraints":{"preferred_taints":{"a":1,"c":2}}'     => 2,
    # The weights of one worker are added up.
    '"routing_constraints":{"preferred_taints":{"a":1,"b":1,"c":-2}}' => 1,
    '"routing_constraints":{"preferred_taints":{"b":-1,"c":1.5}}'  => 2,
    '"routing_constraints":{"preferred_taints":{"a":0.5,"b":-1,"c":0.75}}'
                                                                   => 3,
    # They do not make anybody eligible.
    '"routing_constraints":{"preferred_taints":{"a":9},'
        . '"required_taints":["c"]}'                               => 2,
    '"allowed_worker_ids":[3],'
        . '"routing_constraints":{"preferred_taints":{"a":9}}'     => 3,
)



=== TEST 15: S7: members for the queue, sessions and bookings change nothing
--- request eval
$::one . main::counted(
    map { ("\"token_ids\":[1,2,3,4],$_" => 4, 1) }
    '"expected_output_tokens":4294967295',
    '"expected_output_tokens":null',
    '"priority_jump":-1.5,"strict_priority":4294967295',
    '"priority_jump":3',
    '"priority_jump":null,"strict_priority":null',
    '"session_id":"s"',
    '"session_id":""',
    '"session_id":null,"session_context":null',
    '"session_context":{"session_id":"s","parent_session_id":"p",'
        . '"session_final":true,"input_trigger":"tool_result",'
        . '"agent_headers":{"a":["b","c"],"d":[]}}',
    '"session_context":{"session_id":"s","parent_session_id":null,'
        . '"session_final":null,"input_trigger":null,"agent_headers":null}',
    '"session_context":{"session_id":"s","input_trigger":"user_message"}',
    '"session_context":{"session_id":"s","input_trigger":"other"}',
    '"session_id":"flat","session_context":{"session_id":"s",'
        . '"parent_session_id":"p","session_final":false,'
        . '"input_trigger":"user_message"}',
    '"session_id":"' . ('x' x 300) . '"',
    '"router_config_override":null',
    '"router_config_override":{}',
    '"router_config_override":{"overlap_score_credit":5,'
        . '"prefill_load_scale":0,"router_temperature":0,'
        . '"shared_cache_multiplier":1,"assume_kv_reuse":true,'
        . '"track_prefill_tokens":true}',
    '"router_config_override":{"overlap_score_credit":null,'
        . '"prefill_load_scale":null,"router_temperature":null,'
        . '"shared_cache_multiplier":null,"assume_kv_reuse":null,'
        . '"track_prefill_tokens":null,"overlap_score_weight":null}',
    '"router_config_override":{"overlap_score_weight":0}',
    '"router_config_override":{"overlap_score_weight":2,'
        . '"prefill_load_scale":1}',
    '"advisory":false',
) . <<'STORY'
> POST /select {"token_ids":[1,2,3,4]}
> X-Dynamo-Meta-Policy-Class: latency
< 200 ~ "effective_prefill_tokens":4,"potential_decode_blocks":1}
STORY



=== TEST 16: S6, V1: an advisory selection tells the load of the rank
--- request
> POST /workers {"worker_id":1,"endpoint":"a","block_size":4,"max_num_batched_tokens":1024,"total_kv_blocks":1000}
< 201 ~ "lifecycle":"schedulable"

> POST /workers {"worker_id":2,"endpoint":"b","block_size":4}
< 201 ~ "lifecycle":"schedulable"

> POST /select {"token_ids":[1,2,3,4],"advisory":true,"allowed_worker_ids":[1]}
< 200
< {"model_name":"default","routing_group":"default","worker_id":1,
<  "dp_rank":0,"endpoint":"a","block_size":4,
<  "overlap":{"longest_matched":0,"gpu":0,"dp":{"0":0},"cpu":0,"disk":0},
<  "effective_prefill_tokens":4,"potential_decode_blocks":1,
<  "worker_load":{"active_prefill_tokens":0,"prefill_token_capacity":1024,
<                 "total_kv_blocks":1000}}

# What the worker did not say.
> POST /select {"token_ids":[1,2,3,4],"advisory":true,"allowed_worker_ids":[2]}
< 200
< {"model_name":"default","routing_group":"default","worker_id":2,
<  "dp_rank":0,"endpoint":"b","block_size":4,
<  "overlap":{"longest_matched":0,"gpu":0,"dp":{"0":0},"cpu":0,"disk":0},
<  "effective_prefill_tokens":4,"potential_decode_blocks":1,
<  "worker_load":{"active_prefill_tokens":0,
<                 "prefill_token_capacity":10000000}}



=== TEST 17: S4, S5: busy flags appear with their thresholds
--- config
    location / {
        select_prefill_busy_threshold 0.5;
        select_decode_busy_threshold 0;
        select_service selector;
    }
--- request
> POST /workers {"worker_id":1,"endpoint":"a","block_size":4,"max_num_batched_tokens":1024,"total_kv_blocks":1000}
< 201 ~ "lifecycle":"schedulable"

> POST /workers {"worker_id":2,"endpoint":"b","block_size":4}
< 201 ~ "lifecycle":"schedulable"

> POST /select {"token_ids":[1,2,3,4],"allowed_worker_ids":[1]}
< 200
< {"model_name":"default","routing_group":"default","worker_id":1,
<  "dp_rank":0,"endpoint":"a","block_size":4,
<  "overlap":{"longest_matched":0,"gpu":0,"dp":{"0":0},"cpu":0,"disk":0},
<  "effective_prefill_tokens":4,"potential_decode_blocks":1,
<  "decode_busy":true}

> POST /select {"token_ids":[1,2,3,4],"advisory":true,"allowed_worker_ids":[1]}
< 200
< {"model_name":"default","routing_group":"default","worker_id":1,
<  "dp_rank":0,"endpoint":"a","block_size":4,
<  "overlap":{"longest_matched":0,"gpu":0,"dp":{"0":0},"cpu":0,"disk":0},
<  "effective_prefill_tokens":4,"potential_decode_blocks":1,
<  "decode_busy":true,
<  "worker_load":{"active_prefill_tokens":0,"prefill_token_capacity":1024,
<                 "total_kv_blocks":1000,"prefill_busy":false}}

# Without total_kv_blocks decode_busy cannot be told.
> POST /select {"token_ids":[1,2,3,4],"advisory":true,"allowed_worker_ids":[2]}
< 200
< {"model_name":"default","routing_group":"default","worker_id":2,
<  "dp_rank":0,"endpoint":"b","block_size":4,
<  "overlap":{"longest_matched":0,"gpu":0,"dp":{"0":0},"cpu":0,"disk":0},
<  "effective_prefill_tokens":4,"potential_decode_blocks":1,
<  "worker_load":{"active_prefill_tokens":0,
<                 "prefill_token_capacity":10000000,"prefill_busy":false}}



=== TEST 18: thresholds are strict, and each location has its own
--- http_config
    select_decode_busy_threshold 0.75;
--- config
    location / { select_service selector; }
    location /half/ {
        select_decode_busy_threshold 0.5;
        select_service selector;
    }
    location /off/ {
        select_decode_busy_threshold off;
        select_prefill_busy_threshold 0;
        select_service selector;
    }
--- request
> POST /workers {"worker_id":1,"endpoint":"a","block_size":4,"max_num_batched_tokens":8,"total_kv_blocks":4}
< 201 ~ "lifecycle":"schedulable"

> POST /half/select {"token_ids":[1,2,3,4,5,6,7,8]}
< 200 ~ "potential_decode_blocks":2,"decode_busy":false}

> POST /half/select {"token_ids":[1,2,3,4,5,6,7,8,9]}
< 200 ~ "potential_decode_blocks":3,"decode_busy":true}

> POST /select {"token_ids":[1,2,3,4,5,6,7,8,9]}
< 200 ~ "potential_decode_blocks":3,"decode_busy":false}

> POST /select {"token_ids":[1,2,3,4,5,6,7,8,9,10,11,12,13]}
< 200 ~ "potential_decode_blocks":4,"decode_busy":true}

> POST /off/select {"token_ids":[1,2,3,4,5,6,7,8,9,10,11,12,13],"advisory":true}
< 200 ~ "potential_decode_blocks":4,"worker_load":{"active_prefill_tokens":0,"prefill_token_capacity":8,"total_kv_blocks":4,"prefill_busy":false}}



=== TEST 19: S3, V1: a selection remembers nothing
--- request eval
$::three . main::counted(map {
    ('"selection_id":"same","token_ids":[1,2,3,4,5,6,7,8]' => 8, 2)
} 1 .. 10) . <<'STORY'
> POST /select {"token_ids":[1,2,3,4,5,6,7,8],"advisory":true}
< 200 ~ "worker_load":{"active_prefill_tokens":0,

> POST /overlap_scores {"token_ids":[1,2,3,4,5,6,7,8]}
< 200 /"num_blocks":2,"workers":\[(\{"worker_id":[123],"dp_rank":0,"device_blocks":0,[^}]*\},?){3}\]/
STORY



=== TEST 20: partitions are separate
--- request
> POST /workers {"worker_id":1,"model_name":"m","endpoint":"a","block_size":4}
< 201 ~ "lifecycle":"schedulable"

> POST /workers {"worker_id":2,"model_name":"m","routing_group":"g","endpoint":"b","block_size":8}
< 201 ~ "lifecycle":"schedulable"

> POST /select {"model_name":"m","token_ids":[1]}
< 200 ~ "model_name":"m","routing_group":"default","worker_id":1,

> POST /select {"model_name":"m","routing_group":"g","token_ids":[1]}
< 200 /"model_name":"m","routing_group":"g","worker_id":2,.*"block_size":8,/

> POST /select {"model_name":"m","allowed_worker_ids":[2],"token_ids":[1]}
< 503 ERROR no endpoints available to route work

> POST /select {"model_name":"m","pinned_worker":{"worker_id":2,"dp_rank":0},"token_ids":[1]}
< 503 ERROR no endpoints available to route work

> POST /select {"model_name":"m","affinity_target":{"worker_id":2},"token_ids":[1]}
< 200 ~ "worker_id":1,

> POST /select {"model_name":"M","token_ids":[1]}
< 503 ERROR no schedulable workers for model=M routing_group=default



=== TEST 21: an incomplete worker is never chosen
--- request eval
$::one . <<'STORY'
> POST /workers {"worker_id":2,"block_size":4}
< 201 REASONS
< endpoint is required

> POST /select {"token_ids":[1],"allowed_worker_ids":[2]}
< 503 ERROR no endpoints available to route work

> POST /select {"token_ids":[1],"pinned_worker":{"worker_id":2,"dp_rank":0}}
< 503 ERROR no endpoints available to route work

> POST /select {"token_ids":[1],"affinity_target":{"worker_id":2}}
< 200 ~ "worker_id":1,
STORY



=== TEST 22: taints of a request are counted
--- request eval
my $taints = sub { CORE::join ',', ('"a"') x $_[0] };
my $weights = sub { CORE::join ',', ('"a":1') x $_[0] };
my $ask = '> POST /select {"token_ids":[1],"routing_constraints":';

$::three
    . $ask . '{"required_taints":[' . $taints->(1024) . "]}}\n"
    . '< 200 ~ "worker_id":1,' . "\n\n"
    . $ask . '{"required_taints":[' . $taints->(1025) . "]}}\n"
    . "< 422 ~ at most 1024 required taints\n\n"
    . $ask . '{"preferred_taints":{' . $weights->(1025) . "}}}\n"
    . "< 422 ~ more than 1024 preferred taints\n\n"
