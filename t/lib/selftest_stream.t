# The simulated engines of the router's suites: that an answer is what was
# planned, waits and breaks where it shall, and that a client's end is seen.
# Without this test a router's fault could be one of its engines, or hide
# behind it.

use strict;
use warnings;

use Digest::SHA qw(sha256_hex);
use File::Temp qw(tempdir);
use JSON::PP ();
use Test::More;

use SelHttp;
use SelStream qw(now);

my $stream = SelStream->start(engines => 2);


# A request with a plan, on a connection of its own.

sub ask {
    my ($tag, $plan, %opt) = @_;

    my $client = SelHttp->new(port => $stream->port($opt{engine} // 1));

    $client->send($opt{method} // 'POST', '/x', body => $opt{body} // '{}',
        headers => [ "X-Id: $tag", 'X-Sim: '
            . JSON::PP->new->encode($plan) ]);

    return $client;
}


sub answer { return ask(@_)->receive }


my $answer = answer('plain', {});
is $answer->status, 200, 'an answer';
like $answer->body, qr/"choices"/, 'in JSON';

$answer = answer('stream', { events => 2, completion_tokens => 7,
    cached_tokens => 4 });
is $answer->header('Content-Type'), 'text/event-stream', 'a stream';
like $answer->body, qr/\Adata:\ .*"token\ 1\ ".*\n\ndata:\ .*"token\ 2\ ".*\n\n
    data:\ .*"completion_tokens":\ 7.*"cached_tokens":\ 4.*\n\n
    data:\ \[DONE\]\n\n\z/x, 'of events';

for my $plan ({}, map { { split => $_ } } 1, 7, 10_000) {
    for my $framing (qw(chunked length close)) {
        my $got = answer('pieces', { events => 2, framing => $framing,
            %$plan });
        is $got->fault, undef, "$framing: whole";
        is $got->body, answer('pieces', { events => 2 })->body,
            "$framing: the same text";
    }
}

my $body = 'x' x 3_000_000;
$answer = answer('large', { echo => 1 }, body => $body);
is $answer->json->{sha256}, sha256_hex($body), 'it tells what it got';
is $stream->one('large')->{length}, length $body, 'also later';
is $stream->one('large')->{headers}{'x-id'}, 'large', 'with the headers';

my $client = ask('held', { events => 3, hold => [qw(request event:2)] });
$stream->wait_at('held', 'request');
is $client->partial, '', 'held before anything';
is $stream->release('held'), 1, 'released';
$stream->wait_at('held', 'event:2');
like $client->partial, qr/"token 2 "(?!.*"token 3)/s, 'held in the midst';
is_deeply $stream->ends(tag => 'held'), { open => 1 }, 'open';

my $left = now();
$client->close;
my $end = $stream->wait_end('held', 'gone')->{times}{end};
cmp_ok $end, '>=', $left, 'a client that leaves is seen';
cmp_ok $end - $left, '<', 0.1, 'at once';

for my $how (qw(reset fin)) {
    is answer($how, { $how => 'request' })->status, 0, "$how: no answer";
    $answer = answer($how, { events => 3, $how => 'event:1' });
    is $answer->status, 200, "$how: an answer";
    like $answer->fault, qr/without an end/, "$how: that ends too early";
    is_deeply $stream->ends(tag => $how), { $how => 2 }, "$how: is counted";
}

$stream->set(2, status => 503);
$stream->queue(2, { status => 500 });
is join(' ', map { answer('set', { status => 201 }, engine => 2)->status }
    1 .. 2), '500 503', 'what was queued, then what was set';
$stream->set(2);
is answer('set', { status => 201 }, engine => 2)->status, 201, 'taken back';
is answer('raw', { raw => "abc" })->body, 'abc', 'bytes as they are';
is answer('none', { status => 204 })->body, '', 'no body';

$client = SelHttp->new(port => $stream->port(2));
is $client->get('/')->json->{engine}, 2, 'its name' for 1 .. 3;
is $stream->report(2)->{open}, 1, 'one connection for three requests';
$stream->close(2);
is $client->get('/')->status, 0, 'closed and refused';
$stream->open(2);
is $client->get('/')->status, 200, 'and open again';

$stream->set(2, accept => 'reset');
is answer('accept', {}, engine => 2)->status, 0, 'reset when it connects';

my $dir = tempdir(CLEANUP => 1);
is system("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=x"
    . " -keyout $dir/key -out $dir/crt > /dev/null 2>&1"), 0, 'a certificate';
my $tls = SelStream->start(tls => { certificate => "$dir/crt",
    key => "$dir/key" });
like qx(curl -sk --resolve x:@{[ $tls->port(1) ]}:127.0.0.1 \\
    https://x:@{[ $tls->port(1) ]}/), qr/"engine": 1/, 'TLS';
is_deeply $tls->report(1)->{names}, ['x'], 'and the name that was asked for';

done_testing;
