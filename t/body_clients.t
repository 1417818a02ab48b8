# What clients do to a connection while they send a body: wait for "100
# Continue", hang up, stall, send several requests at once, go on after an
# error.  Without this suite a client could hang or have to open a connection
# for every error, half a body could register a worker, and one slow client
# could hold up the others.

use strict;
use warnings;

use Test::More;

use SelNginx;
use SelProc qw(poll_for);

use constant LIMIT => 8 * 1024 * 1024;

my $TOO_LARGE = '{"error":"Failed to buffer the request body: '
    . 'length limit exceeded"}';

my $ng = SelNginx->new(workers => 1, zone => 'selector 4m', http => <<'HTTP',
    select_kv_events off;
    client_body_timeout 10s;
HTTP
    server => <<'SERVER')->run;
    location / { select_service selector; }
    location /hasty/ {
        client_body_timeout 200ms;
        select_service selector;
    }
SERVER


my $access = SelLog->new($ng->root . '/logs/access.log');


# The head of a request with a body.

sub head {
    my ($line, @headers) = @_;

    push @headers, 'Content-Type: application/json'
        if !grep { /^Content-Type:/ } @headers;

    return join "\r\n", "$line HTTP/1.1", 'Host: localhost', @headers, '', '';
}


sub start {
    my ($bytes, $method) = @_;

    return $ng->connection->send_raw($bytes, $method // 'POST');
}


# Goes on with a request.

sub more {
    my ($client, $bytes) = @_;

    return syswrite $client->{sock}, $bytes;
}


# The ids of all workers, the smallest first.

sub ids {
    return join ' ', map { $_->{worker_id} } @{ $ng->get('/workers')->json };
}


# Expect: 100-continue.

my $body = '{"worker_id":1}';
my $client = start(head('POST /workers', 'Expect: 100-continue',
    'Content-Length: ' . length $body));

wait_until { $client->partial =~ m{^HTTP/1\.1 100 } }
    'a body of a fair size is asked for';
more($client, $body);
is $client->receive->status, 201, 'and taken';

$client = start(head('POST /workers', 'Expect: 100-continue',
    'Content-Length: ' . (LIMIT + 1)));
wait_until { length $client->partial } 'one that is too large';
like $client->partial, qr{^HTTP/1\.1 413 }, 'is not asked for';
is $client->receive->body, $TOO_LARGE, 'but refused at once';

$client = start(head('POST /workers', 'Content-Length: ' . (LIMIT + 1)));
is $client->receive->status, 413, 'also without being asked about it';

$client = start(head('POST /workers',
    'Content-Length: 9223372036854775807'));
is $client->receive->status, 413, 'however large';

$client = start(head('POST /workers', 'Expect: 100-continue',
    'Content-Length: ' . LIMIT));
wait_until { $client->partial =~ m{^HTTP/1\.1 100 } }
    'the largest allowed size is asked for';
$client->close;

# Clients that go away in the middle of a body.

for my $bytes (
    head('POST /workers', 'Content-Length: 100'),
    head('POST /workers', 'Content-Length: 100') . '{"worker_id":2}',
    head('PATCH /workers/1', 'Content-Length: 100') . '{"endpoint":"x"',
    head('POST /workers', 'Transfer-Encoding: chunked')
        . "f\r\n{\"worker_id\":2}\r\n",
    head('POST /workers', 'Transfer-Encoding: chunked')
        . "f\r\n{\"worker_id\":2}\r\n0\r\n",
    head('DELETE /workers/9', 'Content-Length: 100') . 'x',
    head('POST /select', 'Content-Length: 100000') . 'x' x 50_000,
) {
    my $mark = $access->mark;

    start($bytes)->close;
    wait_until { $access->text($mark) =~ /\n/ } 'a client goes away';
}

is ids(), '1', 'half a body registers nobody';
is $ng->get('/workers')->json->[0]{endpoint}, undef, 'and changes nothing';

# One that sends no more but would hear an answer.

$client = start(head('POST /workers', 'Content-Length: 100')
    . '{"worker_id":2}');
shutdown $client->{sock}, 1;
my $answer = $client->receive;
ok $answer->status == 0 || $answer->status == 400,
    'the end of what a client sends is no end of its body'
    or diag $answer->status;
is ids(), '1', 'and registers nobody';

# Clients that stall.

my @slow = map {
    my $text = qq({"worker_id":10$_});
    my $c = start(head('POST /workers', 'Content-Length: ' . length $text)
        . substr $text, 0, 12);
    [ $c, substr($text, 12), $_ ];
} 1 .. 40;

is $ng->get('/health')->status, 200, 'others are served meanwhile';
is ids(), '1', 'nothing is registered before the body is there';
more($_->[0], $_->[1]) for @slow;
is join(' ', map { $_->[0]->receive->json->{worker_id} } @slow),
    join(' ', map { "10$_->[2]" } @slow), 'then all get their answers';
is $ng->delete("/workers/10$_->[2]")->status, 200, "worker 10$_->[2]"
    for @slow;

$client = start(head('POST /hasty/workers', 'Content-Length: 15') . '{"wor');
$answer = $client->receive;
ok $answer->status == 408 || $answer->fault eq 'closed',
    'one that stalls for too long is let go' or diag $answer->status;
is ids(), '1', 'and registers nobody';

# After an error the connection goes on.

$client = $ng->connection;

for my $case (
    [ 400, POST  => '/workers', '{' ],
    [ 422, POST  => '/workers', '{}' ],
    [ 415, POST  => '/workers', '{}', 'Content-Type: text/plain' ],
    [ 404, POST  => '/nope', '{}' ],
    [ 405, PUT   => '/workers', '{}' ],
    [ 404, PATCH => '/workers/99', '{}' ],
    [ 400, PATCH => '/workers/x', '{}' ],
    [ 503, POST  => '/select', '{"token_ids":[1]}' ],
    [ 400, GET   => '/workers?model_name=a&model_name=b', 'ignored' ],
    [ 404, DELETE => '/workers/99', 'x' x 100_000 ],
) {
    my ($status, $method, $path, $text, $type) = @$case;

    $answer = $client->request($method, $path, body => $text,
        headers => [ $type // 'Content-Type: application/json' ]);
    is $answer->status, $status, "$method $path is $status";
    ok $client->is_open, 'and the connection stays';
}

is $client->get('/health')->status, 200, 'for the next request';

# A body that was refused for its size: either the connection says that it
# ends, or the next request on it is answered.

for my $way ('Content-Length: ' . LIMIT * 2, 'Transfer-Encoding: chunked') {
    my $text = 'x' x (LIMIT * 2);
    $text = sprintf "%x\r\n%s\r\n0\r\n\r\n", length $text, $text
        if $way =~ /chunked/;

    $client = start(head('POST /workers', $way) . $text);
    $client->send_raw("GET /health HTTP/1.1\r\nHost: x\r\n\r\n", 'GET');

    $answer = $client->receive;
    is $answer->status, 413, "too large, $way";

    SKIP: {
        skip 'the connection ends', 1
            if lc($answer->header('Connection') // '') eq 'close';
        is $client->receive->status, 200, 'a connection that is kept is kept';
    }
}

# Answers to HEAD have no body on the wire.

$client = $ng->connection;
$client->send_raw(join('', map { "HEAD $_ HTTP/1.1\r\nHost: x\r\n\r\n" }
    '/workers'), 'HEAD');
$client->send(GET => '/health');
$answer = $client->receive;
is $answer->status, 200, 'HEAD';
cmp_ok $answer->header('Content-Length'), '>', 100, 'tells a length';
is $client->receive->body, '{"status":"ok"}', 'and is followed by no body';

# Many requests in one go.

my @bodies = map { sprintf '{"x":"%s","worker_id":%d}', 'y' x (97 * $_), $_ }
    200 .. 260;

$client = $ng->connection;
$client->send(POST => '/workers', body => $_,
    headers => ['Content-Type: application/json']) for @bodies;
is join(' ', map { $client->receive->json->{worker_id} } @bodies),
    join(' ', 200 .. 260), 'answers come in the order of the requests';

# Nothing that was tried here may have left a body in a file.

$ng->log_unlike(qr/buffered to a temporary file/, 'no body went to disk');

all_done;
