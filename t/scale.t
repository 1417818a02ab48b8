# Many ranks, and a zone that is full.  libzmq allows 1,023 sockets unless it
# is told otherwise; a zone has room for so many ranks and records, and what
# does not fit must leave everything as it was.

use strict;
use warnings;

use Test::More;
use Time::HiRes qw(time);

use SelEngine;
use SelProc qw(reserve_port);
use SelService;

use constant {
    WORKERS => 12,
    RANKS   => 100,
};

my $silent = 'tcp://127.0.0.1:' . reserve_port();


sub ranks {
    my ($endpoint, $count) = @_;

    return (
        data_parallel_size  => $count,
        kv_events_endpoints => { map { ($_ => $endpoint) } 0 .. $count - 1 },
    );
}


subtest '1,200 ranks in each of two processes' => sub {
    my $ng = SelService->new(name => 'scale', connections => 8192,
        limit => 30)->run;
    my $engine = SelEngine->start(block_size => 4);
    my $count  = WORKERS * RANKS;
    my $ask    = { token_ids => [ 1 .. 8 ] };
    my $slow   = 0;

    for my $id (1 .. WORKERS) {
        $ng->register($id, ranks($engine->endpoint(0), RANKS));
        $slow++ if $ng->post('/select', $ask)->status != 200;
    }

    is $slow, 0, 'a selection is answered after each registration';
    $ng->still_serves(WORKERS, 'and while the listeners start');
    $ng->listeners('active', $count, "$count listeners are active");
    $ng->listeners('failed', 0);
    $engine->wait_subscribers(2 * $count, 0, 30);

    $ng->counts({ stored => $count, batches => $count },
        'one batch reaches them all', sub {
            $engine->publish_stored(tokens => [ 1 .. 8 ],
                dp_rank => 'none');
        });
    $ng->now($ask, { map { my $id = $_;
        map { ("$id/$_" => 2) } 0 .. RANKS - 1 } 1 .. WORKERS },
        'every rank holds the blocks');

    $ng->remove(1 .. WORKERS);
    $ng->listeners('active', 0);
    $engine->wait_subscribers(0, 0, 30);
    $ng->at_once(sub { $ng->post('/select', $ask) },
        sub { $_[0]->status == 503 }, 'all are gone');
    $ng->finish;
};


# What a request costs beside many workers; the limits are wide enough for a
# busy machine and narrow enough for anything quadratic.

subtest 'F8: requests beside 4,000 workers' => sub {
    my $ng = SelService->new(name => 'many', zone => 'selector 64m',
        http => 'select_kv_events off;')->run;
    my $client = $ng->connection;
    my $median = sub {
        my ($ask) = @_;
        my @times;

        for (1 .. 51) {
            my $start = time;
            my $status = $ask->()->status;
            push @times, time - $start;
            return 'status ' . $status if $status != 200;
        }

        return 1000 * (sort { $a <=> $b } @times)[25];
    };
    my $failed = 0;

    for my $first (map { 100 * $_ } 0 .. 39) {
        $client->send(POST => '/workers',
            body => SelService::worker_body($first + $_)) for 1 .. 100;
        $failed += $client->receive->status != 201 for 1 .. 100;
    }
    is $failed, 0, 'they are registered';

    my $select = $median->(sub { $ng->post('/select',
        { token_ids => [ 1 .. 64 ] }) });
    my $list = $median->(sub { $ng->get('/workers?model_name=other') });
    my $all  = $median->(sub { $ng->get('/workers') });

    note sprintf '%.2f ms a selection, %.2f ms a list of none, %.2f ms of all',
        $select, $list, $all;
    cmp_ok $select, '<', at_most(10), 'a selection';
    cmp_ok $list, '<', at_most(20), 'a list of another partition';
    cmp_ok $all, '<', at_most(200), 'a list of them all';
    $ng->at_once(sub { $ng->get('/workers') },
        sub { @{ $_[0]->json } == 4000 }, 'which is complete');
    $ng->finish;
};


# Registers workers until one is refused; returns how many there are then.

sub fill {
    my ($ng, %members) = @_;

    my $count = 0;

    while (1) {
        my $answer = $ng->post('/workers', SelService::worker_body(
            $count + 1, kv_events_endpoint => $silent, %members));
        return ($count, $answer) if $answer->status != 201;
        $count++;
    }
}


# What must stay the same when a registration is refused.

sub state_of {
    my ($ng) = @_;

    return join "\n", $ng->get('/workers')->body,
        map { "$_ " . $ng->metric($_) } qw(select_workers select_partitions
            select_catalog_version select_zone_chunks_used
            select_zone_slots_used);
}


sub is_full {
    my ($answer, $name) = @_;

    is $answer->status, 503, $name;
    like eval { $answer->json->{error} } // $answer->body,
        qr/zone.* full|full.* zone/, 'the error names the zone';

    return;
}


for my $case (
    [ 'rank slots', {} ],
    [ 'records', { taints => [ map { "taint-$_-" . 'x' x 90 } 1 .. 100 ] } ],
) {
    my ($what, $members) = @$case;

    subtest "a zone whose $what are used up" => sub {
        my $ng = SelService->new(name => $what, zone => 'selector 1m')->run;
        my ($count, $answer) = fill($ng, %$members);
        my $refused = $ng->metric('select_zone_full_total');

        note "$count workers fit";
        cmp_ok $count, '>', 20, 'a number of workers fit';
        is_full($answer, 'one more does not');
        ok !grep({ $_->{worker_id} == $count + 1 }
            @{ $ng->get('/workers')->json }), 'it is not listed';

        my $before = state_of($ng);
        is_full($ng->post('/workers', SelService::worker_body($count + 1,
            kv_events_endpoint => $silent, %$members)), 'nor a second time');
        is_full($ng->patch('/workers/1', {
            ranks($silent, 1000), taints => [ map { $_ x 99 } 1 .. 9999 ] }),
            'a PATCH that needs more');
        is_full($ng->post('/workers', SelService::worker_body(1,
            ranks($silent, 1000), %$members)), 'nor more ranks of a worker');
        is state_of($ng), $before, 'nothing has changed';
        is $ng->metric('select_zone_full_total'), $refused + 3,
            'each refusal is counted';

        for my $id (1, $count) {
            $ng->at_once(sub { $ng->post('/select', { token_ids => [1],
                pinned_worker => { worker_id => $id, dp_rank => 0 } }) },
                sub { $_[0]->status == 200 }, "worker $id is selected");
        }

        $ng->remove(1);
        $ng->register($count + 1, kv_events_endpoint => $silent, %$members);
        $ng->still_serves($count + 1,
            'after a DELETE there is room for another');

        $ng->remove(2 .. $count + 1);
        is $ng->metric('select_zone_slots_used'), 0, 'no slot is used';
        my ($again) = fill($ng, %$members);
        is $again, $count, 'the empty zone takes as many as before';
        $ng->finish;
    };
}


subtest 'one worker with more ranks than the zone' => sub {
    my $ng = SelService->new(name => 'one worker', zone => 'selector 1m',
        connections => 4096)->run;

    $ng->register(1, kv_events_endpoint => $silent);

    my $before = state_of($ng);
    my $free   = $ng->metric('select_zone_slots_free');

    is_full($ng->post('/workers', SelService::worker_body(2,
        ranks($silent, $free + 1))), 'one rank too many');
    is_full($ng->post('/workers', SelService::worker_body(2,
        ranks($silent, 65_536))), 'far too many');
    is state_of($ng), $before, 'nothing has changed';

    # The widest range there is has no event endpoints, so it is incomplete.
    my $answer = $ng->post('/workers', SelService::worker_body(2,
        data_parallel_size => 4294967295));
    is $answer->status, 201, 'an absurd range is stored';
    is eval { $answer->json->{lifecycle} }, 'incomplete', 'as incomplete';
    cmp_ok length $answer->body, '<', 10_000, 'with a short reason';
    $ng->delete('/workers/2');

    $ng->register(2, ranks($silent, $free));
    is $ng->metric('select_zone_slots_free'), 0, 'exactly the free ones fit';
    $ng->at_once(sub { $ng->post('/select', { token_ids => [1],
        pinned_worker => { worker_id => 2, dp_rank => $free - 1 } }) },
        sub { $_[0]->status == 200 }, 'the last rank is selected');
    $ng->still_serves(1);
    $ng->finish;
};

all_done;
