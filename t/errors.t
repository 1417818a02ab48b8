# How the API refuses: unknown paths, wrong methods, media types, broken JSON,
# wrong members, odd paths and queries.  Without this suite a request could be
# taken for another one, a wrong number could be cut to fit, a hostile body
# could stop a worker process, and clients that look at the status and at the
# name of the member would go wrong.
#
# Most stories share one connection: an error must not end it.

use Test::Nginx::Socket;
use SelSuite;

repeat_each(2);
no_root_location();
no_long_string();
log_level('info');

# One request each, with a table of bodies and what is said of them.
sub each_body {
    my ($route, $status, $class, @rows) = @_;
    my $text = '';

    while (my ($body, $reason) = splice @rows, 0, 2) {
        $text .= "> $route $body\n< $status $class $reason\n\n";
    }

    return $text;
}

plan tests => repeat_each() * stories(blocks());
run_tests();

__DATA__

=== TEST 1: paths that are no route
--- pipelined_requests
> GET /
< 404 ERROR route not found

> GET /nope
< 404 ERROR route not found

> POST /nope {"worker_id":1}
< 404 ERROR route not found

> GET /workers/
< 404 ERROR route not found

> POST /workers/ {"worker_id":1}
< 404 ERROR route not found

> GET /Workers
< 404 ERROR route not found

> GET /worker
< 404 ERROR route not found

> GET /workersx
< 404 ERROR route not found

> DELETE /workers/1/
< 404 ERROR route not found

> DELETE /workers/1/2
< 404 ERROR route not found

> DELETE /workers//1
< 404 ERROR route not found

> GET /health/
< 404 ERROR route not found

> GET /ready/now
< 404 ERROR route not found

> POST /select/ {"token_ids":[1]}
< 404 ERROR route not found

> POST /overlap_scores/1 {"token_ids":[1]}
< 404 ERROR route not found

> POST /potential_loads/ {"token_ids":[1]}
< 404 ERROR route not found

> GET /metrics
< 404 ERROR route not found

# Neither method nor body matters where there is no route.
> PUT /nope
< 404 ERROR route not found

> BREW /nope {"a":1}
> Content-Type: text/plain
< 404 ERROR route not found

> GET /health
< 200 {"status":"ok"}



=== TEST 2: H6: known paths with other methods
--- pipelined_requests
> PUT /workers {"worker_id":1}
< 405 ERROR method not allowed
< Allow: GET,HEAD,POST

> PATCH /workers {"worker_id":1}
< 405 ERROR method not allowed
< Allow: GET,HEAD,POST

> DELETE /workers
< 405 ERROR method not allowed
< Allow: GET,HEAD,POST

> OPTIONS /workers
< 405 ERROR method not allowed
< Allow: GET,HEAD,POST

> BREW /workers
< 405 ERROR method not allowed
< Allow: GET,HEAD,POST

> GET /workers/1
< 405 ERROR method not allowed
< Allow: ~ (DELETE,PATCH|PATCH,DELETE)

> POST /workers/1 {"worker_id":1}
< 405 ERROR method not allowed
< Allow: ~ (DELETE,PATCH|PATCH,DELETE)

> PUT /workers/1 {"worker_id":1}
< 405 ERROR method not allowed
< Allow: ~ (DELETE,PATCH|PATCH,DELETE)

> OPTIONS /workers/1
< 405 ERROR method not allowed
< Allow: ~ (DELETE,PATCH|PATCH,DELETE)

# The method is looked at before the id.
> GET /workers/abc
< 405 ERROR method not allowed
< Allow: ~ (DELETE,PATCH|PATCH,DELETE)

> POST /health {}
< 405 ERROR method not allowed
< Allow: GET,HEAD

> PUT /health
< 405 ERROR method not allowed
< Allow: GET,HEAD

> PATCH /health {}
< 405 ERROR method not allowed
< Allow: GET,HEAD

> DELETE /health
< 405 ERROR method not allowed
< Allow: GET,HEAD

> OPTIONS /health
< 405 ERROR method not allowed
< Allow: GET,HEAD

> POST /ready {}
< 405 ERROR method not allowed
< Allow: GET,HEAD

> PUT /ready {}
< 405 ERROR method not allowed
< Allow: GET,HEAD

> PATCH /ready {}
< 405 ERROR method not allowed
< Allow: GET,HEAD

> DELETE /ready
< 405 ERROR method not allowed
< Allow: GET,HEAD

> OPTIONS /ready
< 405 ERROR method not allowed
< Allow: GET,HEAD

> GET /select
< 405 ERROR method not allowed
< Allow: POST

> PUT /select {"token_ids":[1]}
< 405 ERROR method not allowed
< Allow: POST

> PATCH /select {"token_ids":[1]}
< 405 ERROR method not allowed
< Allow: POST

> DELETE /select
< 405 ERROR method not allowed
< Allow: POST

> OPTIONS /select
< 405 ERROR method not allowed
< Allow: POST

> GET /overlap_scores
< 405 ERROR method not allowed
< Allow: POST

> PUT /overlap_scores {"token_ids":[1]}
< 405 ERROR method not allowed
< Allow: POST

> PATCH /overlap_scores {"token_ids":[1]}
< 405 ERROR method not allowed
< Allow: POST

> DELETE /overlap_scores
< 405 ERROR method not allowed
< Allow: POST

> OPTIONS /overlap_scores
< 405 ERROR method not allowed
< Allow: POST

> GET /potential_loads
< 405 ERROR method not allowed
< Allow: POST

> PUT /potential_loads {"token_ids":[1]}
< 405 ERROR method not allowed
< Allow: POST

> PATCH /potential_loads {"token_ids":[1]}
< 405 ERROR method not allowed
< Allow: POST

> DELETE /potential_loads
< 405 ERROR method not allowed
< Allow: POST

> OPTIONS /potential_loads
< 405 ERROR method not allowed
< Allow: POST

# Before anything is said of the body.
> PUT /select x
> Content-Type: text/plain
< 405 ERROR method not allowed
< Allow: POST

> GET /health
< 200 {"status":"ok"}



=== TEST 3: GET routes answer HEAD, others do not
--- request
> HEAD /health
< 200 /^$/
< Content-Length: 15

> HEAD /ready
< 503 /^$/
< Content-Length: 52

> HEAD /workers
< 200 /^$/
< Content-Length: 2

> HEAD /workers?model_name=a&model_name=b
< 400 /^$/
< Content-Type: text/plain; charset=utf-8

> HEAD /nope
< 404 /^$/

> HEAD /select
< 405 /^$/
< Allow: POST

> HEAD /overlap_scores
< 405 /^$/
< Allow: POST

> HEAD /potential_loads
< 405 /^$/
< Allow: POST

> HEAD /workers/1
< 405 /^$/
< Allow: ~ (DELETE,PATCH|PATCH,DELETE)



=== TEST 4: routes that read a body want a JSON media type
--- pipelined_requests
> POST /workers {"worker_id":1}
> Content-Type: -
< 415 ERROR Expected request with `Content-Type: application/json`

> POST /workers {"worker_id":1}
> Content-Type: text/plain
< 415 ERROR Expected request with `Content-Type: application/json`

> POST /workers {"worker_id":1}
> Content-Type: application/x-www-form-urlencoded
< 415 ERROR Expected request with `Content-Type: application/json`

> POST /workers {"worker_id":1}
> Content-Type: text/json
< 415 ERROR Expected request with `Content-Type: application/json`

> POST /workers {"worker_id":1}
> Content-Type: application/jsonp
< 415 ERROR Expected request with `Content-Type: application/json`

> POST /workers {"worker_id":1}
> Content-Type: application/xml+jsonx
< 415 ERROR Expected request with `Content-Type: application/json`

> POST /workers {"worker_id":1}
> Content-Type: text/x+json
< 415 ERROR Expected request with `Content-Type: application/json`

> POST /workers {"worker_id":1}
> Content-Type: json
< 415 ERROR Expected request with `Content-Type: application/json`

> POST /workers {"worker_id":1}
> Content-Type: application
< 415 ERROR Expected request with `Content-Type: application/json`

> PATCH /workers/1 {}
> Content-Type: -
< 415 ERROR Expected request with `Content-Type: application/json`

> POST /select {"token_ids":[1]}
> Content-Type: -
< 415 ERROR Expected request with `Content-Type: application/json`

> POST /overlap_scores {"token_ids":[1]}
> Content-Type: application/octet-stream
< 415 ERROR Expected request with `Content-Type: application/json`

> POST /potential_loads {"token_ids":[1]}
> Content-Type: text/plain
< 415 ERROR Expected request with `Content-Type: application/json`

# Also without a body, and before anything is said of it.
> POST /workers
< 415 ERROR Expected request with `Content-Type: application/json`

> POST /workers {
> Content-Type: text/plain
< 415 ERROR Expected request with `Content-Type: application/json`

> GET /workers
< 200 []



=== TEST 5: media types that are JSON
--- pipelined_requests
> POST /workers {"worker_id":1}
> Content-Type: application/json; charset=utf-8
< 201 ~ "worker_id":1,

> POST /workers {"worker_id":2}
> Content-Type: APPLICATION/Json
< 201 ~ "worker_id":2,

> POST /workers {"worker_id":3}
> Content-Type: application/vnd.api+json
< 201 ~ "worker_id":3,

> POST /workers {"worker_id":4}
> Content-Type: application/problem+JSON;x=y
< 201 ~ "worker_id":4,

> POST /workers {"worker_id":5}
> content-type: application/json;charset="utf-8"
< 201 ~ "worker_id":5,



=== TEST 6: routes that ignore the body look neither at it nor at its type
--- pipelined_requests
> GET /health {
> Content-Type: text/plain
< 200 {"status":"ok"}

> GET /ready x
< 503 {"ready":false,"schedulable_workers":0,"workers":[]}

> GET /workers x
> Content-Type: -
< 200 []

> POST /workers {"worker_id":1}
< 201 ~ "worker_id":1,

> DELETE /workers/1 not JSON
> Content-Type: text/plain
< 200 ~ "worker_id":1,



=== TEST 7: H6: no JSON
--- pipelined_requests eval
main::each_body('POST /workers', 400, 'SYNTAX',
    '{'                   => 'EOF while parsing an object',
    '{"worker_id"'        => 'EOF while parsing an object',
    '{"worker_id":'       => 'EOF while parsing a value',
    '{"worker_id":1'      => 'EOF while parsing an object',
    '{"worker_id":1,'     => 'EOF while parsing',
    '{"model_name":"x'    => 'EOF while parsing a string',
    '{"model_name":"x\\'  => 'EOF while parsing a string',
    '{"taints":["x"'      => 'EOF while parsing a list',
    '{"taints":["x",'     => 'EOF while parsing',
    '{"worker_id":1}}'    => 'trailing characters',
    '{"worker_id":1} x'   => 'trailing characters',
    '{"worker_id":1}{}'   => 'trailing characters',
    '{"worker_id":1},'    => 'trailing characters',
    "{\"worker_id\":1}\0" => 'trailing characters',
    '{"worker_id":1,}'    => 'trailing comma',
    '{"taints":["a",],"worker_id":1}' => 'trailing comma',
    '{,"worker_id":1}'    => '',
    '{"worker_id" 1}'     => 'expected `:`',
    '{"worker_id":1 "endpoint":"a"}'  => 'expected `,` or `}`',
    '{"taints":["a" "b"]}'            => 'expected `,` or `]`',
    '{worker_id:1}'       => 'key must be a string',
    "{'worker_id':1}"     => 'key must be a string',
    '{1:1}'               => 'key must be a string',
    '{"worker_id":1]'     => '',
    '}'                   => 'expected value',
    'worker_id=1'         => 'expected value',
    'nul'                 => '',
    '{"worker_id":1}null' => 'trailing characters',
    'tru'                 => '',
    'True'                => 'expected value',
    'NaN'                 => 'expected value',
    '{"worker_id":Infinity}'  => 'expected value',
    '{"worker_id":-Infinity}' => 'invalid number',
    '{"worker_id":01}'    => 'invalid number',
    '{"worker_id":-01}'   => 'invalid number',
    '{"worker_id":+1}'    => 'expected value',
    '{"worker_id":.5}'    => 'expected value',
    '{"worker_id":1.}'    => 'invalid number',
    '{"worker_id":1e}'    => 'invalid number',
    '{"worker_id":1e+}'   => 'invalid number',
    '{"worker_id":-}'     => 'invalid number',
    '{"worker_id":0x10}'  => '',
    '{"worker_id":1_000}' => '',
    '/* */{"worker_id":1}'     => 'expected value',
    '{"worker_id":1}// x'      => 'trailing characters',
    "\xef\xbb\xbf{\"worker_id\":1}" => 'expected value',
    "{\"worker_id\":1,\"x\":\"\x01\"}"      => 'control character',
    "{\"worker_id\":1,\"endpoint\":\"a\tb\"}" => 'control character',
    '{"worker_id":1,"endpoint":"\\x"}'    => 'invalid escape',
    '{"worker_id":1,"endpoint":"\\u12"}'  => 'invalid escape',
    '{"worker_id":1,"endpoint":"\\u12g4"}'      => 'invalid escape',
    '{"worker_id":1,"x":"\\q"}'                 => 'invalid escape',
    '{"worker_id":1,"endpoint":"\\ud800"}'      => '',
    '{"worker_id":1,"endpoint":"\\ud800\\u0041"}' => '',
    '{"worker_id":1,"endpoint":"\\udc00"}'      => '',
    '{"kv_transfer_preferred_weight":1e999}'    => 'number out of range',
    '{"kv_transfer_preferred_weight":-1e400}'   => 'number out of range',
) . "> GET /workers\n< 200 []\n"



=== TEST 8: H6: no body at all, and white space alone
--- pipelined_requests
> POST /workers
> Content-Type: application/json
< 400 SYNTAX EOF while parsing a value

> POST /workers
> Content-Type: application/json
> Content-Length: 0
< 400 SYNTAX EOF while parsing a value

> PATCH /workers/1
> Content-Type: application/json
< 400 SYNTAX EOF while parsing a value

> POST /select
> Content-Type: application/json
< 400 SYNTAX EOF while parsing a value

> POST /overlap_scores
> Content-Type: application/json
< 400 SYNTAX EOF while parsing a value

> POST /potential_loads
> Content-Type: application/json
< 400 SYNTAX EOF while parsing a value



=== TEST 9: text that is not UTF-8
--- pipelined_requests eval
main::each_body('POST /workers', 400, 'SYNTAX', map {
    ("{\"worker_id\":1,\"model_name\":\"$_\"}" => 'invalid unicode')
}
    "\xff",                   # never part of UTF-8
    "a\x80",                  # no start
    "\xc3",                   # cut off by the end of the text
    "\xe2\x82",
    "\xf0\x9f\x98",
    "\xc3(",
    "\xe2\x82(",
    "\xc0\xaf",               # longer than need be
    "\xe0\x80\xaf",
    "\xf0\x80\x80\xaf",
    "\xed\xa0\x80",           # a surrogate
    "\xed\xbf\xbf",
    "\xf4\x90\x80\x80",       # beyond U+10FFFF
    "\xf5\x80\x80\x80",
    "\xf8\x88\x80\x80\x80",
) . "> GET /workers\n< 200 []\n"



=== TEST 10: the ends of what UTF-8 can say are kept
--- pipelined_requests eval
CORE::join '', map {
    "> POST /workers {\"worker_id\":1,\"model_name\":\"$_\"}\n"
    . "< 201 ~ \"model_name\":\"$_\",\n\n"
} "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf",
    "\xee\x80\x80", "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"



=== TEST 11: H6: nesting
--- pipelined_requests eval
my $deep = sub { ('[' x $_[0]) . (']' x $_[0]) };
my $objects = ('{"a":' x 200_000) . '1' . ('}' x 200_000);

CORE::join "\n",
    # Members that nobody knows may be deep,
    '> POST /workers {"x":' . $deep->(100) . ',"worker_id":1}',
    '< 201 ~ "worker_id":1,',
    '> POST /workers {"x":' . ('{"a":' x 100) . '1' . ('}' x 100)
        . ',"worker_id":1}',
    '< 201 ~ "worker_id":1,',
    # but not without end.
    '> POST /workers {"x":' . $deep->(200_000) . ',"worker_id":1}',
    '< 400 SYNTAX recursion limit exceeded',
    "> POST /workers $objects",
    '< 400 SYNTAX recursion limit exceeded',
    '> POST /select {"x":' . ('[' x 200_000),
    '< 400 SYNTAX recursion limit exceeded',
    '> DELETE /workers/1',
    '< 200 ~ "worker_id":1,'



=== TEST 12: H6: documents that are no object
--- pipelined_requests
> POST /workers []
< 422 DATA invalid type: sequence

> POST /workers 5
< 422 DATA invalid type: integer `5`

> POST /workers -5
< 422 DATA invalid type: integer `-5`

> POST /workers 1.5
< 422 DATA invalid type: floating point `1.5`

> POST /workers null
< 422 DATA invalid type: null

> POST /workers true
< 422 DATA invalid type: boolean `true`

> POST /workers "worker_id"
< 422 DATA invalid type: string "worker_id"

> PATCH /workers/1 []
< 422 DATA invalid type: sequence

> POST /select null
< 422 DATA invalid type: null

> POST /overlap_scores "x"
< 422 DATA invalid type: string "x"

> POST /potential_loads [{"token_ids":[1]}]
< 422 DATA invalid type: sequence



=== TEST 13: H3: worker_id
--- pipelined_requests
> POST /workers {}
< 422 DATA missing field `worker_id`

> POST /workers {"WORKER_ID":1}
< 422 DATA missing field `worker_id`

> POST /workers {"worker_id":null}
< 422 DATA worker_id: invalid type: null, expected u64

> POST /workers {"worker_id":"1"}
< 422 DATA worker_id: invalid type: string "1", expected u64

> POST /workers {"worker_id":1.5}
< 422 DATA worker_id: invalid type: floating point `1.5`, expected u64

> POST /workers {"worker_id":1.0}
< 422 DATA worker_id: invalid type: floating point `1.0`, expected u64

> POST /workers {"worker_id":1e3}
< 422 DATA worker_id: invalid type: floating point `1000.0`, expected u64

> POST /workers {"worker_id":-1}
< 422 DATA worker_id: invalid value: integer `-1`, expected u64

> POST /workers {"worker_id":-0}
< 422 DATA worker_id

> POST /workers {"worker_id":18446744073709551616}
< 422 DATA worker_id

> POST /workers {"worker_id":100000000000000000000000000000000000000001}
< 422 DATA worker_id

> POST /workers {"worker_id":true}
< 422 DATA worker_id: invalid type: boolean `true`, expected u64

> POST /workers {"worker_id":[]}
< 422 DATA worker_id: invalid type: sequence, expected u64

> POST /workers {"worker_id":{}}
< 422 DATA worker_id: invalid type: map, expected u64

> GET /workers
< 200 []



=== TEST 14: other members of a worker
--- pipelined_requests eval
our @wrong = (
    model_name => ['null', '5', 'true', '[]', '{}'],
    routing_group => ['null', '5', '1.5', '["a"]'],
    (map { $_ => ['5', 'false', '[]', '{"a":1}'] } qw(endpoint
        kv_events_endpoint replay_endpoint stable_routing_id
        kv_transfer_domain router_hint_worker_type kv_event_source_mode)),
    (map { $_ => ['"1"', '1.5', '1.0', '1e3', '-1', '4294967296',
        '18446744073709551616', 'true', '[1]', '{}'] } qw(block_size
        data_parallel_start_rank data_parallel_size)),
    (map { $_ => ['"1"', '1.5', '1.0', '1e3', '-1', '18446744073709551616',
        'false', '[1]', '{}'] } qw(max_num_batched_tokens total_kv_blocks)),
    is_eagle => ['0', '1', '"true"', '[]', '{}'],
    taints => ['null', '"a"', '5', '{}', '[1]', '[null]', '[["a"]]'],
    topology_domains => ['null', '"a"', '5', '[]', '{"a":1}', '{"a":null}',
        '{"a":["b"]}'],
    (map { $_ => ['null', '"a"', '5', '[]', '["a"]', '{"0":1}', '{"0":null}',
        '{"a":"b"}', '{"":"b"}', '{"-1":"b"}', '{"1.0":"b"}', '{" 1":"b"}',
        '{"4294967296":"b"}', '{"0x1":"b"}'] } qw(kv_events_endpoints
        router_hint_source_control_endpoints)),
    kv_transfer_enforcement => ['"x"', '"Required"', '""', '5', '[]'],
    kv_transfer_preferred_weight => ['"0.5"', 'true', '[0.5]', '{}'],
);
my @rows = @main::wrong;
my $text = '';
while (my ($member, $values) = splice @rows, 0, 2) {
    $text .= main::each_body('POST /workers', 422, 'DATA',
        map { (qq({"worker_id":1,"$member":$_}) => $member) } @$values);
}
$text . "> GET /workers\n< 200 []\n"



=== TEST 15: PATCH wants the same types, but takes null
--- pipelined_requests eval
my @rows = @main::wrong;
my $text = qq(> POST /workers {"worker_id":1,"endpoint":"a"}\n)
    . qq(< 201 ~ "lifecycle":"incomplete"\n\n);
while (my ($member, $values) = splice @rows, 0, 2) {
    next if $member =~ /^(?:model_name|routing_group)$/;
    $text .= main::each_body('PATCH /workers/1', 422, 'DATA',
        map { (qq({"endpoint":"b","$member":$_}) => $member) }
        grep { $_ ne 'null' } @$values);
}
$text . qq(> GET /workers\n< 200 /"worker_id":1,.*"endpoint":"a",/\n)



=== TEST 16: an enumeration names its values
--- pipelined_requests
> POST /workers {"worker_id":1,"kv_transfer_enforcement":"x"}
< 422 DATA unknown variant `x`, expected `required` or `preferred`



=== TEST 17: members of a selection
--- pipelined_requests eval
my @rows = (
    model_name => ['null', '5', '[]'],
    routing_group => ['null', '5', '{}'],
    token_ids => ['5', '"1"', '{}', '[1.5]', '[1.0]', '[-1]', '[4294967296]',
        '["1"]', '[null]', '[true]', '[[1]]', '[1,2,"x"]', '[1e3]'],
    block_hashes => ['5', '"1"', '{}', '[1.5]', '["1"]', '[null]',
        '[18446744073709551616]', '[-9223372036854775809]', '[[1]]'],
    sequence_hashes => ['5', '"1"', '{}', '[1.0]', '["1"]', '[false]',
        '[18446744073709551616]', '[-9223372036854775809]'],
    isl_tokens => ['"4"', '4.0', '-1', '18446744073709551616', '[4]', 'true'],
    lora_name => ['5', '[]', '{}'],
    cache_salt => ['5', '[]', 'false'],
    is_eagle => ['0', '"true"', '[]'],
    block_mm_infos => ['5', '{}', '"x"', '[5]', '[[]]',
        '[{"mm_objects":5}]', '[{"mm_objects":[5]}]',
        '[{"mm_objects":[{"mm_hash":-1,"offsets":[]}]}]',
        '[{"mm_objects":[{"mm_hash":1.5,"offsets":[]}]}]',
        '[{"mm_objects":[{"mm_hash":"1","offsets":[]}]}]',
        '[{"mm_objects":[{"mm_hash":1,"offsets":5}]}]',
        '[{"mm_objects":[{"mm_hash":1,"offsets":[5]}]}]',
        '[{"mm_objects":[{"mm_hash":1,"offsets":[[1]]}]}]',
        '[{"mm_objects":[{"mm_hash":1,"offsets":[[1,2,3]]}]}]',
        '[{"mm_objects":[{"mm_hash":1,"offsets":[[-1,2]]}]}]'],
    mm_routing_info => ['5', '[]', '"x"', '{}',
        '{"routing_token_ids":null}', '{"routing_token_ids":["1"]}',
        '{"routing_token_ids":[-1]}', '{"block_mm_infos":[]}',
        '{"routing_token_ids":[1],"block_mm_infos":null}',
        '{"routing_token_ids":[1],"block_mm_infos":5}'],
);
my @more = (
    selection_id => ['5', '[]', '{}', 'true'],
    expected_output_tokens => ['"1"', '-1', '1.5', '4294967296', '[]'],
    priority_jump => ['"1"', '[]', 'true'],
    strict_priority => ['"1"', '-1', '1.5', '4294967296'],
    session_id => ['5', '[]', '{}'],
    session_context => ['5', '"x"', '[]', '{}', '{"session_id":null}',
        '{"session_id":5}', '{"session_id":"s","parent_session_id":5}',
        '{"session_id":"s","session_final":"yes"}',
        '{"session_id":"s","input_trigger":"other thing"}',
        '{"session_id":"s","input_trigger":5}',
        '{"session_id":"s","agent_headers":"x"}',
        '{"session_id":"s","agent_headers":["x"]}',
        '{"session_id":"s","agent_headers":{"a":"b"}}',
        '{"session_id":"s","agent_headers":{"a":[1]}}'],
    affinity_target => ['5', '[]', '{}', '{"dp_rank":0}',
        '{"worker_id":null}', '{"worker_id":-1}',
        '{"worker_id":1,"dp_rank":-1}', '{"worker_id":1,"dp_rank":4294967296}',
        '{"worker_id":1,"dp_rank":"0"}'],
    pinned_worker => ['5', '[]', '{}', '{"worker_id":1}', '{"dp_rank":0}',
        '{"worker_id":1,"dp_rank":null}', '{"worker_id":null,"dp_rank":0}',
        '{"worker_id":18446744073709551616,"dp_rank":0}',
        '{"worker_id":1,"dp_rank":4294967296}'],
    allowed_worker_ids => ['5', '{}', '"1"', '[-1]', '["1"]', '[1.5]',
        '[null]', '[18446744073709551616]'],
    routing_constraints => ['null', '5', '[]', '{"required_taints":null}',
        '{"required_taints":"a"}', '{"required_taints":[1]}',
        '{"preferred_taints":null}', '{"preferred_taints":[]}',
        '{"preferred_taints":{"a":"b"}}', '{"preferred_taints":{"a":null}}'],
    advisory => ['null', '0', '"true"', '[]'],
);
my @override = (router_config_override => ['5', '[]', '"x"', 'true',
    map { ("{\"$_\":\"1\"}", "{\"$_\":true}", "{\"$_\":[1]}") }
        qw(overlap_score_credit prefill_load_scale router_temperature
        shared_cache_multiplier overlap_score_weight)],
    router_config_override => [map { ("{\"$_\":1}", "{\"$_\":\"true\"}") }
        qw(assume_kv_reuse track_prefill_tokens)]);
my $text = '';
for my $route ([ '/select', @rows, @more, @override ],
    [ '/overlap_scores', @rows, @override ],
    [ '/potential_loads', @rows, @override ])
{
    my ($path, @left) = @$route;
    while (my ($member, $values) = splice @left, 0, 2) {
        my $name = $member eq 'router_config_override' ? undef : $member;
        $text .= main::each_body("POST $path", 422, 'DATA', map {
            (qq({"$member":$_}) => $name // (/"(\w+)"/ ? $1 : $member))
        } @$values);
    }
}
$text



=== TEST 18: a missing member of an inner object is named
--- pipelined_requests
> POST /select {"pinned_worker":{"worker_id":1}}
< 422 DATA missing field `dp_rank`

> POST /select {"pinned_worker":{"dp_rank":1}}
< 422 DATA missing field `worker_id`

> POST /select {"affinity_target":{}}
< 422 DATA missing field `worker_id`

> POST /select {"session_context":{"session_final":true}}
< 422 DATA missing field `session_id`

> POST /overlap_scores {"mm_routing_info":{}}
< 422 DATA missing field `routing_token_ids`



=== TEST 19: overrides have ranges
--- pipelined_requests
> POST /select {"router_config_override":{"overlap_score_credit":-0.5}}
< 422 DATA overlap_score_credit must be a finite, non-negative number

> POST /select {"router_config_override":{"prefill_load_scale":-1}}
< 422 DATA prefill_load_scale must be greater than or equal to 0

> POST /select {"router_config_override":{"router_temperature":-1e-9}}
< 422 DATA router_temperature must be greater than or equal to 0

> POST /select {"router_config_override":{"shared_cache_multiplier":-0.1}}
< 422 DATA shared_cache_multiplier must be between 0 and 1

> POST /select {"router_config_override":{"shared_cache_multiplier":1.1}}
< 422 DATA shared_cache_multiplier must be between 0 and 1

> POST /select {"router_config_override":{"overlap_score_weight":-1}}
< 422 DATA prefill_load_scale must be greater than or equal to 0

> POST /overlap_scores {"router_config_override":{"overlap_score_credit":-1}}
< 422 DATA overlap_score_credit must be a finite, non-negative number

> POST /select {"router_config_override":{"overlap_score_credit":1e999}}
< 400 SYNTAX number out of range



=== TEST 20: H6: a known member that is given twice
--- pipelined_requests eval
main::each_body('POST /workers', 422, 'DATA',
    '{"worker_id":1,"worker_id":1}'          => 'duplicate field `worker_id`',
    '{"worker_id":1,"worker\\u005fid":1}'    => 'duplicate field `worker_id`',
    '{"worker_id":1,"taints":[],"taints":[]}' => 'duplicate field `taints`',
    '{"endpoint":null,"worker_id":1,"endpoint":null}'
        => 'duplicate field `endpoint`',
) . main::each_body('PATCH /workers/1', 422, 'DATA',
    '{"block_size":1,"x":1,"block_size":1}'  => 'duplicate field `block_size`',
) . main::each_body('POST /overlap_scores', 422, 'DATA',
    '{"token_ids":[1],"token_ids":[1]}'      => 'duplicate field `token_ids`',
    '{"router_config_override":{"assume_kv_reuse":true,"assume_kv_reuse":true}}'
        => 'duplicate field `assume_kv_reuse`',
) . main::each_body('POST /potential_loads', 422, 'DATA',
    '{"token_ids":[1],"token_ids":[1]}'      => 'duplicate field `token_ids`',
) . main::each_body('POST /select', 422, 'DATA',
    '{"token_ids":[1],"lora_name":"a","token_ids":null}'
        => 'duplicate field `token_ids`',
    '{"pinned_worker":{"worker_id":1,"dp_rank":0,"worker_id":1}}'
        => 'duplicate field `worker_id`',
    '{"affinity_target":{"worker_id":1,"dp_rank":0,"dp_rank":0}}'
        => 'duplicate field `dp_rank`',
    '{"routing_constraints":{"required_taints":[],"required_taints":[]}}'
        => 'duplicate field `required_taints`',
    '{"session_context":{"session_id":"a","session_id":"a"}}'
        => 'duplicate field `session_id`',
    '{"mm_routing_info":{"routing_token_ids":[1],"routing_token_ids":[1]}}'
        => 'duplicate field `routing_token_ids`',
    '{"block_mm_infos":[{"mm_objects":[],"mm_objects":[]}]}'
        => 'duplicate field `mm_objects`',
    '{"advisory":true,"advisory":true}'      => 'duplicate field `advisory`',
)



=== TEST 21: members that nobody knows have no effect
--- pipelined_requests
> POST /workers
> {"tenant_id":"x","tenant_id":5,"reservation_id":null,"":{"worker_id":9},
>  "worker_id":1,"Endpoint":"b","endpoint":"a","block_size":4,
>  "x":[1.5e300,-0.0,"\ud83d\ude00",{"a":[],"a":{}},true,false,null,
>  18446744073709551616,123456789012345678901234567890]}
< 201
< {"worker_id":1,"model_name":"default","routing_group":"default",
<  "lifecycle":"schedulable","endpoint":"a","kv_events_endpoint":null,
<  "replay_endpoint":null,"block_size":4,"data_parallel_start_rank":null,
<  "data_parallel_size":null,"max_num_batched_tokens":null,
<  "total_kv_blocks":null,"stable_routing_id":null,"is_eagle":null,
<  "taints":[],"topology_domains":{},"kv_transfer_domain":null,
<  "kv_transfer_enforcement":null,"kv_transfer_preferred_weight":null}

> PATCH /workers/1 {"tenant_id":["x"],"lifecycle":"draining","worker_id":"z"}
< 200 /^\{"worker_id":1,.*"lifecycle":"schedulable",/

> POST /select
> {"tenant_id":"x","token_ids":[1,2,3,4],"worker_id":9,"cached_tokens":{},
>  "pinned_worker":{"tenant_id":1,"worker_id":1,"dp_rank":0},
>  "affinity_target":{"worker_id":1,"x":{}},
>  "routing_constraints":{"required":["nobody"]},
>  "router_config_override":{"temperature":-1},
>  "session_context":{"session_id":"s","tenant_id":[]},
>  "mm_routing_info":{"routing_token_ids":[],"tokens":[1]},
>  "block_mm_infos":[{"mm_objects":[{"mm_hash":1,"offsets":[[0,1]],"z":1}],"z":1}]}
< 200
< {"model_name":"default","routing_group":"default","worker_id":1,
<  "dp_rank":0,"endpoint":"a","block_size":4,
<  "overlap":{"longest_matched":0,"gpu":0,"dp":{"0":0},"cpu":0,"disk":0},
<  "effective_prefill_tokens":4,"potential_decode_blocks":1}

> POST /overlap_scores {"tenant_id":"x","token_ids":[1,2,3,4],"selection_id":5,"advisory":"x"}
< 200 ~ {"block_size":4,"num_blocks":1,

> POST /potential_loads {"tenant_id":"x","token_ids":[1,2,3,4],"selection_id":5,"advisory":"x"}
< 200 [{"worker_id":1,"dp_rank":0,"potential_prefill_tokens":4,"potential_decode_blocks":1,"active_requests":0}]

> GET /workers?tenant_id=x&lifecycle=incomplete
< 200 ~ [{"worker_id":1,

> GET /health?tenant_id=x&model_name=a&model_name=b
< 200 {"status":"ok"}

> POST /select?model_name=x&routing_group=%zz {"token_ids":[1,2,3,4]}
< 200 ~ "worker_id":1,

> DELETE /workers/1?tenant_id=x
< 200 ~ "worker_id":1,



=== TEST 22: H3: worker ids in the path that are no numbers of 64 bits
--- pipelined_requests
> DELETE /workers/abc
< 400 Invalid URL: Cannot parse `abc` to a `u64`
< Content-Type: text/plain; charset=utf-8

> DELETE /workers/-1
< 400 Invalid URL: Cannot parse `-1` to a `u64`
< Content-Type: text/plain; charset=utf-8

> DELETE /workers/18446744073709551616
< 400 Invalid URL: Cannot parse `18446744073709551616` to a `u64`
< Content-Type: text/plain; charset=utf-8

> DELETE /workers/1.5
< 400 Invalid URL: Cannot parse `1.5` to a `u64`
< Content-Type: text/plain; charset=utf-8

> DELETE /workers/0x1
< 400 Invalid URL: Cannot parse `0x1` to a `u64`
< Content-Type: text/plain; charset=utf-8

> DELETE /workers/1%20
< 400 Invalid URL: Cannot parse `1 ` to a `u64`
< Content-Type: text/plain; charset=utf-8

> DELETE /workers/%61bc
< 400 Invalid URL: Cannot parse `abc` to a `u64`
< Content-Type: text/plain; charset=utf-8

> DELETE /workers/1%2F2
< 400 Invalid URL: Cannot parse `1/2` to a `u64`
< Content-Type: text/plain; charset=utf-8

> DELETE /workers/%FF
< 400 Invalid URL: Invalid UTF-8 in `worker_id`
< Content-Type: text/plain; charset=utf-8

# The path comes before the body.
> PATCH /workers/abc {
> Content-Type: text/plain
< 400 Invalid URL: Cannot parse `abc` to a `u64`
< Content-Type: text/plain; charset=utf-8

> PATCH /workers/abc
< 400 Invalid URL: Cannot parse `abc` to a `u64`
< Content-Type: text/plain; charset=utf-8



=== TEST 23: the same number, escaped
--- pipelined_requests
> POST /workers {"worker_id":17}
< 201 ~ "worker_id":17,

> PATCH /workers/%317 {"endpoint":"a"}
< 200 /^\{"worker_id":17,.*"endpoint":"a",/

> DELETE /workers/1%37
< 200 ~ "worker_id":17,



=== TEST 24: the body of a PATCH comes before the worker
--- pipelined_requests
> PATCH /workers/1 {"block_size":"x"}
< 422 DATA block_size

> PATCH /workers/1 {
< 400 SYNTAX EOF

> PATCH /workers/1 {}
< 404 ERROR worker 1 not found



=== TEST 25: an empty partition comes before the rules of the prompt
--- pipelined_requests
> POST /select {}
< 503 ERROR no schedulable workers are available

> POST /overlap_scores {"token_ids":[],"isl_tokens":0}
< 503 ERROR no schedulable workers are available

> POST /potential_loads {"token_ids":[],"isl_tokens":0}
< 503 ERROR no schedulable workers are available

> POST /select {"pinned_worker":{"worker_id":1,"dp_rank":0},"allowed_worker_ids":[]}
< 503 ERROR no schedulable workers are available

> POST /workers {"worker_id":1,"endpoint":"a","block_size":4}
< 201 ~ "lifecycle":"schedulable"

> POST /select {"model_name":"other"}
< 503 ERROR no schedulable workers for model=other routing_group=default

> POST /overlap_scores {"model_name":"other","routing_group":"g"}
< 503 ERROR no schedulable workers for model=other routing_group=g

> POST /select {}
< 400 ERROR block_hashes is required without token_ids

> POST /overlap_scores {}
< 400 ERROR block_hashes is required without token_ids

> DELETE /workers/1
< 200 ~ "worker_id":1,



=== TEST 26: but wrong data comes before the partition
--- pipelined_requests
> POST /select {"token_ids":"x"}
< 422 DATA token_ids

> POST /overlap_scores {"token_ids":
< 400 SYNTAX EOF while parsing a value
