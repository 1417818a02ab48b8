# Bodies in all shapes in which nginx can hand them over: large, in many
# buffers, in a file, chunked, byte by byte, and bodies that a route ignores.
# Without this suite a long prompt could be cut off or refused, a body could go
# to disk, and an ignored body could be taken for the next request (request
# smuggling).  What clients do to a connection is in body_clients.t.

use Test::Nginx::Socket;
use SelSuite;

no_root_location();
no_long_string();
log_level('info');

our $MIB8 = 8 * 1024 * 1024;

# A registration of exactly so many bytes.
sub registration {
    my ($size) = @_;

    my ($head, $tail) = ('{"x":"', '","worker_id":12345}');

    return $head . 'x' x ($size - length "$head$tail") . $tail;
}

# A raw request with a body in chunks of a given size.
sub chunked {
    my ($path, $body, $size, $headers) = @_;

    $headers //= "Content-Type: application/json\r\n";

    return "POST $path HTTP/1.1\r\nHost: localhost\r\n$headers"
        . "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        . CORE::join('', map { sprintf "%x\r\n%s\r\n", length, $_ }
            unpack "(a$size)*", $body)
        . "0\r\n\r\n";
}

# Registrations of several sizes, one after the other.
sub registrations {
    return CORE::join '', map {
        '> POST /workers ' . registration($_) . "\n"
        . qq(< 201 ~ {"worker_id":12345,\n\n)
    } @_;
}

# nginx warns when it puts a body into a file.
our $quiet = ['[warn]', '[error]', '[crit]', '[alert]'];

plan tests => repeat_each() * stories(blocks());
run_tests();

__DATA__

=== TEST 1: I1: 8 MiB are accepted, one byte more is not
--- request eval
main::registrations($::MIB8) . '> POST /workers '
. main::registration($::MIB8 + 1) . <<'STORY'

< 413 ERROR Failed to buffer the request body: length limit exceeded

> PATCH /workers/12345 {"endpoint":"a"}
< 200 ~ "endpoint":"a",
STORY
--- no_error_log eval: $::quiet



=== TEST 2: 8 MiB in chunks are accepted
--- raw_request eval
main::chunked('/workers', main::registration($::MIB8), 60_000)
--- error_code: 201
--- response_body_like: ^\{"worker_id":12345,
--- no_error_log eval: $::quiet



=== TEST 3: one byte more in chunks is not
--- raw_request eval
main::chunked('/workers', main::registration($::MIB8 + 1), 60_000)
--- error_code: 413
--- response_headers
Content-Type: application/json
--- response_body chomp
{"error":"Failed to buffer the request body: length limit exceeded"}
--- no_error_log eval: $::quiet



=== TEST 4: chunks of one byte count by what is in them
--- raw_request eval
main::chunked('/workers', main::registration(1_500_000), 1)
--- error_code: 201
--- response_body_like: ^\{"worker_id":12345,
--- no_error_log eval: $::quiet



=== TEST 5: the size comes behind route and media type and before the syntax
--- request eval
my $large = 'x' x ($::MIB8 + 1);
<<"STORY"
> POST /nope $large
< 404 ERROR route not found

> PUT /workers $large
< 405 ERROR method not allowed
< Allow: ~ .*POST.*

> POST /workers $large
> Content-Type: text/plain
< 415 ERROR Expected request with `Content-Type: application/json`

> POST /workers $large
< 413 ERROR Failed to buffer the request body: length limit exceeded

> PATCH /workers/1 $large
< 413 ERROR Failed to buffer the request body: length limit exceeded

> POST /select $large
< 413 ERROR Failed to buffer the request body: length limit exceeded

> POST /overlap_scores $large
< 413 ERROR Failed to buffer the request body: length limit exceeded

> POST /potential_loads $large
< 413 ERROR Failed to buffer the request body: length limit exceeded

> PATCH /workers/abc $large
< 400 Invalid URL: Cannot parse `abc` to a `u64`
< Content-Type: text/plain; charset=utf-8

> DELETE /workers/1 $large
< 404 ERROR worker 1 not found
STORY



=== TEST 6: all sizes around those of nginx's buffers
--- http_config
    client_body_buffer_size 1k;
    client_header_buffer_size 1k;
--- pipelined_requests eval
main::registrations(26, 27, 100, 500 .. 520, 800, 1000 .. 1040, 1270 .. 1290,
    2047 .. 2049, 4096, 8191 .. 8193, 10_239 .. 10_241, 65_535 .. 65_537,
    300_000)
--- no_error_log eval: $::quiet



=== TEST 7: the same with the default buffers
--- pipelined_requests eval
main::registrations(26, 1000 .. 1030, 8191 .. 8193, 10_200, 10_239 .. 10_241,
    65_535 .. 65_537, 300_000)
--- no_error_log eval: $::quiet



=== TEST 8: and with one large buffer
--- http_config
    client_body_buffer_size 1m;
    client_body_in_single_buffer on;
--- pipelined_requests eval
main::registrations(26, 1023 .. 1025, 1_000_000, 1_048_575 .. 1_048_577,
    3_000_000)
--- no_error_log eval: $::quiet



=== TEST 9: bodies that were put into a file
--- http_config
    client_body_in_file_only clean;
--- pipelined_requests eval
main::registrations(26, 1023 .. 1025, 10_239 .. 10_241, 300_000) . <<'STORY'
> POST /workers {
< 400 SYNTAX EOF while parsing an object

> POST /workers {}
< 422 DATA missing field `worker_id`
STORY



=== TEST 10: bodies that another module has read, into memory or a file
--- config
    location / {
        mirror /copy;
        select_service selector;
    }
    location = /copy {
        internal;
        proxy_pass http://127.0.0.1:$TEST_NGINX_RAND_PORT_1/$request_method;
        proxy_set_header X-Length $content_length;
    }
--- http_config
    server {
        listen 127.0.0.1:$TEST_NGINX_RAND_PORT_1;
        client_max_body_size 0;
        location / { return 204; }
    }
--- pipelined_requests eval
main::registrations(26, 1023 .. 1025, 10_239 .. 10_241, 300_000) . <<'STORY'
> DELETE /workers/12345
< 200 ~ {"worker_id":12345,

> POST /workers {"worker_id":1} x
< 400 SYNTAX trailing characters
STORY



=== TEST 11: the limit holds for a body that another module has read
--- config
    location / {
        mirror /copy;
        select_service selector;
    }
    location = /copy { internal; return 204; }
--- request eval
main::registrations($::MIB8) . '> POST /workers '
. main::registration($::MIB8 + 1) . <<'STORY'

< 413 ERROR Failed to buffer the request body: length limit exceeded
STORY



=== TEST 12: byte by byte
--- raw_request eval
my $body = '{"x":[1.5e3,-0,true,null,"\\ud83d\\ude00"],'
    . '"worker_id":18446744073709551615,"model_name":"a\\"\\u00e9é€😀",'
    . '"kv_transfer_preferred_weight":-2.5e-1,"is_eagle":false,'
    . '"taints":["t"],"kv_events_endpoints":{"12":"e"}}';
my $head = "POST /workers HTTP/1.1\r\nHost: localhost\r\n"
    . "Content-Type: application/json\r\nConnection: close\r\n"
    . 'Content-Length: ' . length($body) . "\r\n\r\n";
[ $head, split //, $body ]
--- raw_request_middle_delay: 0.002
--- error_code: 201
--- response_body eval
'{"worker_id":18446744073709551615,"model_name":"a\\"éé€😀",'
. '"routing_group":"default","lifecycle":"incomplete","endpoint":null,'
. '"kv_events_endpoint":null,"kv_events_endpoints":{"12":"e"},'
. '"replay_endpoint":null,"block_size":null,"data_parallel_start_rank":null,'
. '"data_parallel_size":null,"max_num_batched_tokens":null,'
. '"total_kv_blocks":null,"stable_routing_id":null,"is_eagle":false,'
. '"taints":["t"],"topology_domains":{},"kv_transfer_domain":null,'
. '"kv_transfer_enforcement":null,"kv_transfer_preferred_weight":-0.25,'
. '"not_schedulable_reasons":["endpoint is required",'
. '"block_size must be greater than 0"]}'



=== TEST 13: the same in chunks of one byte, with extensions and a trailer
--- raw_request eval
my $body = '{"worker_id":18446744073709551615,"model_name":"\\u20ac€"}';
"POST /workers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
. "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
. CORE::join('', map { "0001;a=\"b\"\r\n$_\r\n" } split //, $body)
. "000\r\nX-Trailer: a\r\n\r\n"
--- error_code: 201
--- response_body_like: ^\{"worker_id":18446744073709551615,"model_name":"€€","



=== TEST 14: white space around the document
--- raw_request eval
my $body = " \t\r\n{\"worker_id\":1}\r\n \t ";
"POST /workers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
. "Content-Type: application/json\r\nContent-Length: " . length($body)
. "\r\n\r\n$body"
--- error_code: 201
--- response_body_like: ^\{"worker_id":1,



=== TEST 15: other white space than JSON's
--- raw_request eval
my $body = "{\"worker_id\":1}\f";
"POST /workers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
. "Content-Type: application/json\r\nContent-Length: " . length($body)
. "\r\n\r\n$body"
--- error_code: 400
--- response_body_like chomp
^\{"error":"Failed to parse the request body as JSON: trailing characters



=== TEST 16: white space alone is no document
--- raw_request eval
"POST /workers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
. "Content-Type: application/json\r\nContent-Length: 3\r\n\r\n \r\n"
--- error_code: 400
--- response_body_like chomp
^\{"error":"Failed to parse the request body as JSON: EOF while parsing a value



=== TEST 17: a body that is ignored is not the next request
--- pipelined_requests eval
my $inner = "DELETE /workers/1 HTTP/1.1\r\n> Host: localhost\r\n> \r\n> x";
qq(> POST /workers {"worker_id":1}\n< 201 ~ {"worker_id":1,\n\n)
. CORE::join('', map {
    my ($line, $answer) = @$_;
    "> $line\n> Content-Type: text/plain\n> $inner\n< $answer\n\n"
}
    [ 'GET /health',       '200 {"status":"ok"}' ],
    [ 'GET /workers',      '200 ~ [{"worker_id":1,' ],
    [ 'GET /ready',        '503 ~ "schedulable_workers":0' ],
    [ 'DELETE /workers/2', '404 ERROR worker 2 not found' ],
    [ 'GET /nope',         '404 ERROR route not found' ],
    [ 'PUT /nope',         '404 ERROR route not found' ],
    [ 'PUT /workers',      '405 ERROR method not allowed' ],
    [ 'DELETE /select',    '405 ERROR method not allowed' ],
    [ 'POST /workers',     '415 ERROR Expected request with '
        . '`Content-Type: application/json`' ],
    [ 'POST /select',      '415 ERROR Expected request with '
        . '`Content-Type: application/json`' ])
. qq(> DELETE /workers/1\n< 200 ~ {"worker_id":1,\n)



=== TEST 18: nor when it is long
--- pipelined_requests eval
my $inner = 'DELETE /workers/1 HTTP/1.1 ' x 40_000;
<<"STORY"
> POST /workers {"worker_id":1}
< 201 ~ {"worker_id":1,

> DELETE /workers/2 $inner
< 404 ERROR worker 2 not found

> POST /nope $inner
< 404 ERROR route not found

> POST /workers $inner
> Content-Type: text/plain
< 415 ERROR Expected request with `Content-Type: application/json`

> POST /workers $inner
< 400 SYNTAX expected value

> GET /health $inner
< 200 {"status":"ok"}

> DELETE /workers/1
< 200 ~ {"worker_id":1,
STORY



=== TEST 19: a smaller limit of the location holds, in nginx's words
--- config
    location / {
        client_max_body_size 1k;
        select_service selector;
    }
--- request eval
main::registrations(1024) . '> POST /workers ' . main::registration(1025)
. <<'STORY'

< 413 ~ <html>
< Content-Type: text/html
STORY
--- no_error_log eval
['[crit]', '[alert]']



=== TEST 20: also when what is around the location has a limit of its own
--- config
    location /outer/ {
        client_max_body_size 1k;
        location /outer/api/ {
            client_max_body_size 2k;
            select_service selector;
        }
    }
--- request eval
'> POST /outer/api/workers ' . main::registration(2049) . <<'STORY'

< 413 ~ <html>
< Content-Type: text/html
STORY
--- no_error_log eval
['[crit]', '[alert]']



=== TEST 21: a limit of what is around the location does not
--- config
    location /outer/ {
        client_max_body_size 1k;
        location /outer/api/ { select_service selector; }
    }
--- pipelined_requests eval
main::registrations(1025, 2_000_000) =~ s{/workers}{/outer/api/workers}gr



=== TEST 22: there is no limit of nginx's own behind limit_except either
--- config
    location /outer/ {
        client_max_body_size 1m;
        location /outer/api/ {
            limit_except GET { allow all; }
            select_service selector;
        }
    }
--- raw_request eval
main::chunked('/outer/api/workers', main::registration(2_000_000), 60_000)
--- error_code: 201
--- response_body_like: ^\{"worker_id":12345,



=== TEST 23: nor inside if
--- config
    location /outer/ {
        client_max_body_size 1m;
        location /outer/api/ {
            if ($http_host) { set $a 1; }
            select_service selector;
        }
    }
--- raw_request eval
main::chunked('/outer/api/workers', main::registration(2_000_000), 60_000)
--- error_code: 201
--- response_body_like: ^\{"worker_id":12345,



=== TEST 24: chunks that are none
--- raw_request eval
"POST /workers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
. "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
. "xyz\r\n"
--- error_code: 400
--- response_headers
Content-Type: application/json
--- response_body_like chomp
^\{"error":"Failed to buffer the request body: 
