# The life-cycle helper tells the truth about a stock nginx: what it says of
# worker processes, generations, answers and logs is what happened.  That it
# can fail is shown by the suites t/lib/selftest/nginx-*, see selftest.t.

use strict;
use warnings;

use File::Basename qw(dirname);
use IO::Socket::INET;
use Test::More;

my $here;
BEGIN { $here = dirname(__FILE__) }
use lib $here;

use SelNginx;
use SelProc qw(is_alive);

delete $ENV{TEST_NGINX_LOAD_MODULES};


sub overlap {
    my ($left, $right) = @_;

    my %is_left = map { ($_ => 1) } @$left;

    return scalar grep { $is_left{$_} } @$right;
}


my $ng = SelNginx->new(name => 'main', daemon => 1,
    files => { 'html/f' => 'file' }, server => <<'END');
    add_header X-Select-Process $pid always;
    location = / { return 200 '{"pid":$pid,"u":18446744073709551615}'; }
    location = /empty { return 204; }
    location = /echo {
        proxy_pass http://127.0.0.1:$TEST_NGINX_SERVER_PORT/body;
        proxy_set_header X-Body $request_body;
        proxy_set_header X-Type $content_type;
        proxy_method GET;
    }
    location = /body {
        return 200 "$request_method $http_x_type $http_x_body";
    }
    location /files/ { alias $TEST_NGINX_SERVER_ROOT/html/; }
    location = /slow { proxy_pass http://127.0.0.1:$TEST_NGINX_RAND_PORT_1; }
END

# The server behind /slow: it answers when slow_answers() is called.

my $peer = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 10,
    LocalPort => $ng->port(1), ReuseAddr => 1) or die "listen: $@";

sub slow_answers {
    my ($count) = @_;

    for (1 .. $count) {
        my $client = $peer->accept;
        sysread $client, my $request, 4096;
        syswrite $client, "HTTP/1.0 200 OK\r\n\r\nslow";
    }

    return;
}


$ng->run;

# Answers.

my @first = $ng->workers;
my $answer = $ng->get('/');

is(@first, 2, 'two worker processes');
is($answer->status, 200, 'a status');
is($answer->header('content-type'), 'text/plain', 'a header');
is($answer->header('x-none'), undef, 'no header');
is($answer->json->{pid}, $answer->process, 'a body and a process');
is($answer->json->{u}, '18446744073709551615', 'all 64 bits');
is(overlap(\@first, [ $answer->process ]), 1, 'it is one of them');
is($ng->get('/empty')->body, '', 'no body');
is($ng->post('/echo', { b => 1, a => [2] })->body,
    'GET application/json {"a":[2],"b":1}', 'a structure is sent as JSON');
is($ng->patch('/echo', 'text', headers => ['Content-Type: x/y'])->body,
    'GET x/y text', 'a text as it is');
is($ng->delete('/body')->body, 'DELETE  ', 'another method');
is($ng->request(HEAD => '/')->body, '', 'HEAD');
is($ng->get('/files/f')->body, 'file', 'a file');
is(SelHttp->new(port => SelProc::reserve_port(), timeout => 1)
    ->get('/')->fault, 'closed', 'nobody there');

# Two processes, and a connection to either.

my @both = $ng->on_both(sub { $ng->get('/') });

isnt($both[0]->process, $both[1]->process, 'they differ');

for my $pid (@first) {
    my $client = $ng->connection_to($pid, '/');
    my @got = map { $client->get('/')->process } 1 .. 5;
    is_deeply(\@got, [ ($pid) x 5 ], "a connection stays with $pid");
}

# Requests that wait.

my @waiting = map { $ng->connection->send(GET => '/slow') } 1 .. 3;

is(scalar(grep { $_->arrived } @waiting), 0, 'no answer yet');
slow_answers(3);
is(join(' ', map { $_->receive->body } @waiting), 'slow slow slow',
    'all answers later');

my $client = $ng->connection;
$client->send(GET => "/files/f?$_") for 1 .. 3;
is(join(' ', map { $client->receive->body } 1 .. 3), 'file file file',
    'pipelined');
ok($client->is_open, 'the connection is kept');
$client->send_raw("GET / HTTP/1.1\r\nHost: x\r\n");
is($client->receive(timeout => 0.1)->fault, 'timed out', 'half a request');
ok(!$client->is_open, 'ends the connection');

# Reload.

my $slow = $ng->connection->send(GET => '/slow');
my @old = $ng->reload;

is_deeply(\@old, \@first, 'reload tells the old processes');
is(overlap(\@old, [ $ng->workers ]), 0, 'the new ones are others');
$ng->on_both(sub { $ng->get('/') }, 'the new ones serve');
is(overlap(\@old, [ map { $ng->get('/')->process } 1 .. 20 ]), 0,
    'the old ones do not');
slow_answers(1);
is($slow->receive->body, 'slow', 'an old request gets its answer');
@old = $ng->reload(gone => 1, workers => 3);
is(scalar(grep { is_alive($_) } @old), 0, 'gone when asked for');
is(scalar(my @three = $ng->workers), 3, 'another number of processes');
$ng->reload(workers => 2);

my $mark = $ng->log_mark;
$ng->reload_refused(qr/unknown directive "no_such"/, 'a refused reload',
    http => 'no_such on;');
$ng->log_like(qr/\[emerg\] .*no_such/, 'the log says so', $mark);
$ng->log_unlike(qr/start worker process/, 'nothing was started', $mark);

my ($code, $text) = $ng->test_conf(http => 'no_such on;');
is($code, 'exit code 1', 'nginx -t refuses too');
like($text, qr/unknown directive "no_such"/, 'and says why');
is(($ng->test_conf)[0], 'exit code 0', 'nginx -t accepts');

# Signals.

my @before = $ng->workers;
my $killed = $ng->kill_worker(0);
my @after  = $ng->workers;

is($killed, $before[0], 'the oldest process');
ok(!is_alive($killed), 'is gone');
is(overlap(\@before, \@after), 1, 'the other one stays');
is(@after, 2, 'and one is new');

my @clients = map { $ng->connection_to($_, '/') } @after;

$ng->kill_worker(1, 'STOP');
$clients[1]->send(GET => '/');
is($clients[0]->get('/')->process, $after[0], 'one process answers');
ok(!$clients[1]->arrived, 'a stopped one does not');
$ng->kill_worker(1, 'CONT');
is($clients[1]->receive->process, $after[1], 'until it goes on');

my $master = $ng->master;
isnt($ng->upgrade, $master, 'an upgrade has a new master');
$ng->on_both(sub { $ng->get('/') }, 'and serves');

# The end, and another start.

is($ng->stop, 0, 'QUIT ends with 0');
is($ng->get('/')->status, 0, 'nobody listens');
$ng->run;
is($ng->get('/')->status, 200, 'the same port again');
is($ng->stop('TERM'), 0, 'TERM ends with 0');

# Without a master; started and refused; the master killed.

my $single = SelNginx->new(name => 'single', master => 0, workers => 1,
    server => 'add_header X-Select-Process $pid; location = / { return 200; }'
)->run;

is_deeply([ $single->workers ], [ $single->master ], 'one process');
is($single->get('/')->process, $single->master, 'answers');
is($single->stop, 0, 'and ends');

my $refused = SelNginx->new(name => 'refused', server => 'no_such;');
$refused->start_refused(qr/unknown directive "no_such"/, 'refused at start');

my $orphans = SelNginx->new(name => 'orphans',
    server => 'location = / { return 200; }')->run;

is(scalar(my @left = $orphans->kill_master), 2, 'orphans live on');
is($orphans->get('/')->status, 200, 'and serve');
$orphans->stop;
is(scalar(grep { is_alive($_) } @left), 0, 'stop ends them');

wait_until { 1 } 'a condition';
is($ng->until(sub { 'value' }, 'a condition as a method'), 'value',
    'has a value');

all_done;
