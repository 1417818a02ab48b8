# Connections and descriptors that do not suffice cost some listeners, never
# the requests, and cure themselves.  Without a reserve the listeners would
# take every connection of a worker process, and nobody could remove a worker.

use strict;
use warnings;

use IO::Socket::INET;
use Socket;
use Test::More;
use Time::HiRes qw(time);

use SelEngine;
use SelProc qw(reserve_port);
use SelService;

use constant {
    WORKERS => 10,
    RANKS   => 20,
    ABORTED => 1_000,
    IDLE    => 200,
    RETRIES => 2.2,    # seconds in which a listener tries again twice
};


sub ranks {
    my ($endpoint, $count) = @_;

    return (
        data_parallel_size  => $count,
        kv_events_endpoints => { map { ($_ => $endpoint) } 0 .. $count - 1 },
    );
}


# 200 ranks where there is room for fewer: then and after most have left.

sub too_few {
    my ($ng, $reason) = @_;

    my $engine = SelEngine->start(block_size => 4);
    my $count  = WORKERS * RANKS;
    my $refused = 0;
    my $asked   = 0;
    my (@active, @failed);

    for my $id (1 .. WORKERS) {
        $refused++ if $ng->post('/workers', SelService::worker_body($id,
            ranks($engine->endpoint, RANKS)))->status != 201;
    }
    is $refused, 0, 'all workers are registered';

    $ng->until(sub {
        @active = $ng->metric('select_kv_listeners', state => 'active');
        @failed = $ng->metric('select_kv_listeners', state => 'failed');
        return !grep { $active[$_] + $failed[$_] != $count
            || $failed[$_] < RANKS || $active[$_] == 0 } 0, 1;
    }, 'some listeners are active, the others have failed');
    note "active: @active, failed: @failed";

    my $end = time + RETRIES;
    while (time < $end) {
        $asked++;
        $refused++ if $ng->post('/select', { token_ids => [1],
            pinned_worker => { worker_id => WORKERS, dp_rank => 0 }
        })->status != 200;
    }
    is $refused, 0, "$asked requests are answered meanwhile";
    $ng->still_serves(1);

    # The last worker's ranks came when there was no room any more.
    $ng->remove(1 .. WORKERS - 1);
    $ng->listeners('active', RANKS, 'after DELETE of most the rest recovers');
    $ng->listeners('failed', 0);

    # What was sent before a listener had subscribed was not for it.
    my $ask  = { token_ids => [ 1 .. 4 ] };
    my $want = join ' ', map { (WORKERS . "/$_=1") } 0 .. RANKS - 1;
    $ng->until(sub {
        $engine->publish_stored(tokens => [ 1 .. 4 ], dp_rank => 'none');
        return !grep {
            my $rows = SelService::rows($_);
            my $text = join ' ', map { "$_=$rows->{$_}" }
                sort { $a =~ s{.*/}{}r <=> $b =~ s{.*/}{}r } keys %$rows;
            $text ne $want;
        } $ng->ask_all(sub { $ng->post('/overlap_scores', $ask) });
    }, 'events arrive at every rank of the last worker, in each process');

    my %told;
    $told{$_}++ for $ng->log =~
        /(\d+#\d+: KV events of worker \d+ rank \d+): $reason/g;
    cmp_ok scalar keys %told, '>=', $failed[0] + $failed[1],
        'the log tells the reason for each rank';
    is_deeply [ grep { $told{$_} > 1 } keys %told ], [], 'once';
    $ng->remove(WORKERS);
    $ng->finish;

    return;
}


subtest 'too few connections' => sub {
    my $ng = SelService->new(name => 'connections', connections => 64)->run;

    too_few($ng, qr/.*worker_connections/);
};


subtest 'too few descriptors' => sub {
    plan skip_all => 'the wrapper changes the limit'
        if $ENV{TEST_NGINX_WRAP};

    my $ng = SelService->new(name => 'descriptors', connections => 1024,
        main => 'worker_rlimit_nofile 128;')->run;

    too_few($ng, qr/.*descriptors/);
};


# nginx closes connections that wait for a request as soon as fewer than a
# sixteenth of worker_connections is free, so listeners have to leave more.

subtest 'many clients beside too many ranks' => sub {
    my $ng = SelService->new(name => 'clients', connections => 512)->run;

    for my $id (1 .. WORKERS) {
        $ng->register($id, ranks("tcp://127.0.0.1:" . reserve_port(), 60));
    }
    $ng->until(sub { !grep { $_ != 0 }
        $ng->metric('select_kv_listeners', state => 'pending') },
        'no listener is pending');

    for my $count (5, 10, 20, 40) {
        my @clients = map { $ng->connection } 1 .. $count;
        $_->send(POST => '/select', body => { token_ids => [1] })
            for @clients;
        is_deeply [ grep { $_ ne 200 }
            map { my $answer = $_->receive;
                $answer->status || $answer->{fault} } @clients ], [],
            "$count clients at once are answered";
    }

    $ng->finish;
};


# Connects, sends bytes and goes away without a word.

sub abort_after {
    my ($port, $bytes, $reset) = @_;

    my $sock = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
        PeerPort => $port, Proto => 'tcp') or die "connect: $!";

    setsockopt $sock, SOL_SOCKET, SO_LINGER, pack 'ii', 1, 0 if $reset;
    syswrite $sock, $bytes if length $bytes;
    close $sock;

    return;
}


subtest 'clients that go away' => sub {
    my $ng = SelService->new(name => 'aborts', connections => 64,
        server => 'location = /stub { stub_status; }')->run;
    my $engine = SelEngine->start(block_size => 4);

    $ng->register(1, events($engine, 0));
    $engine->wait_subscribers(2);
    $ng->still_serves(1);

    my $body   = '{"token_ids":[' . join(',', 1 .. 3000) . ']}';
    my $whole  = "POST /select HTTP/1.1\r\nHost: x\r\n"
        . "Content-Type: application/json\r\nContent-Length: "
        . length($body) . "\r\n\r\n$body";
    my @pieces = ('', 'POST /sel', substr($whole, 0, 60),
        substr($whole, 0, 200), substr($whole, 0, -1), $whole,
        "GET /workers HTTP/1.1\r\nHost: x\r\n\r\n" x 3);
    my $alone  = sub { $ng->get('/stub')->body =~ /^Active connections: 1 / };

    $ng->until($alone, 'no connection but ours');
    my $before = fds_at_rest($ng->workers);

    for my $i (1 .. ABORTED) {
        abort_after($ng->port, $pieces[ $i % @pieces ], $i % 2);
    }

    $ng->until($alone, ABORTED . ' clients later there is none either');
    is fds_at_rest($ng->workers), $before, 'every descriptor was given back';
    $ng->still_serves(1);
    $ng->counts({ stored => 1, batches => 1 }, 'events arrive', sub {
        $engine->publish_stored(tokens => [ 1 .. 4 ]);
    });

    # As many as fit at the same time can be had again.
    my @clients = map { $ng->connection } 1 .. 20;
    $_->send(GET => '/health') for @clients;
    is_deeply [ grep { $_->receive->status != 200 } @clients ], [],
        'and as many connections as before';
    $ng->finish;
};


subtest 'clients that stay and do nothing' => sub {
    my $ng = SelService->new(name => 'idle', connections => 64)->run;
    my $engine = SelEngine->start(block_size => 4);
    my $failed = 0;
    my @clients;

    $ng->register(1, ranks($engine->endpoint, 10));
    $engine->wait_subscribers(20);

    for my $i (1 .. IDLE) {
        my $client = $ng->connection;
        push @clients, $client;
        $failed++ if $client->get('/health')->status != 200;
    }

    is $failed, 0, IDLE . ' clients more than there are connections for';
    $ng->still_serves(1, 'and new ones are served');
    $ng->listeners('active', 10, 'no listener had to give way');
    $ng->counts({ stored => 10, batches => 10 }, 'events arrive', sub {
        $engine->publish_stored(tokens => [ 1 .. 4 ], dp_rank => 'none');
    });
    is_deeply [ grep { $_->get('/health')->status != 200 } @clients ], [],
        'each may go on, on a new connection if need be';
    $ng->finish;
};

all_done;
