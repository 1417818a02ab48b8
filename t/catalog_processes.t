# The catalog is one for all worker processes: what one of them answered is in
# force in the others at once, rank by rank, also when many clients write at
# the same time.  Without it a request would meet a worker that is gone, or
# blocks that another process has dropped.

use strict;
use warnings;

use JSON::PP ();
use Test::More;

use SelCrowd;
use SelEngine;
use SelProc qw(reserve_port);
use SelService;

use constant {
    ROUNDS  => 60,
    CLIENTS => 4,
    WRITES  => 100,
    CYCLES  => 10_000,
    WINDOW  => 50,
};

my $ng     = SelService->new->run;
my $silent = 'tcp://127.0.0.1:' . reserve_port();


# Makes a change and asks at once until another process than the one that
# answered the change has answered: every answer must be right.  Returns false
# for a wrong one.

sub in_force {
    my ($change, $ask, $is_right) = @_;

    my $changed = $change->();

    if ($changed->status !~ /^20[01]$/) {
        diag 'the change: ' . $changed->status . ' ' . $changed->body;
        return 0;
    }

    for (1 .. 100) {
        my $answer = $ask->();

        if (!$is_right->($answer)) {
            diag $changed->process . ' changed, ' . $answer->process
                . ' answered ' . $answer->status . ' ' . $answer->body;
            return 0;
        }

        return 1 if $answer->process ne $changed->process;
    }

    diag 'one process gave all answers';

    return 0;
}


subtest 'a change is in force everywhere when it is answered' => sub {
    my %wrong;

    my $select = sub { $ng->post('/select', { token_ids => [ 1 .. 8 ],
        pinned_worker => { worker_id => $_[0], dp_rank => $_[1] } }) };
    my $list = sub { $ng->get('/workers') };
    my $listed = sub {
        my ($id, $answer) = @_;
        return grep { $_->{worker_id} == $id } @{ $answer->json };
    };

    for my $round (1 .. ROUNDS) {
        my $id = 100 + $round;
        my %body = (kv_events_endpoint => $silent);

        my %steps = (
            'POST, then select' => sub { in_force(
                sub { $ng->post('/workers',
                    SelService::worker_body($id, %body)) },
                sub { $select->($id, 0) },
                sub { $_[0]->status == 200
                    && $_[0]->json->{endpoint} eq "http://worker-$id:8000" },
            ) },
            'POST, then list' => sub { in_force(
                sub { $ng->post('/workers', SelService::worker_body($id,
                    %body, stable_routing_id => "s$round")) },
                $list,
                sub { my ($record) = $listed->($id, $_[0]);
                    $record && $record->{stable_routing_id} eq "s$round" },
            ) },
            'PATCH of the endpoint' => sub { in_force(
                sub { $ng->patch("/workers/$id",
                    { endpoint => "http://moved-$round" }) },
                sub { $select->($id, 0) },
                sub { $_[0]->status == 200
                    && $_[0]->json->{endpoint} eq "http://moved-$round" },
            ) },
            'PATCH of the rank' => sub { in_force(
                sub { $ng->patch("/workers/$id",
                    { data_parallel_start_rank => 3 }) },
                sub { $select->($id, $_[0] // 3) },
                sub { $_[0]->status == 200 && $_[0]->json->{dp_rank} == 3 },
            ) },
            'PATCH that makes it incomplete' => sub { in_force(
                sub { $ng->patch("/workers/$id", { block_size => 0 }) },
                sub { $select->($id, 3) },
                sub { $_[0]->status == 503 },
            ) },
            'PATCH that makes it schedulable' => sub { in_force(
                sub { $ng->patch("/workers/$id", { block_size => 4 }) },
                sub { $ng->get('/ready') },
                sub { $_[0]->status == 200
                    && $_[0]->json->{schedulable_workers} == 1 },
            ) },
            'DELETE, then select' => sub { in_force(
                sub { $ng->delete("/workers/$id") },
                sub { $select->($id, 3) },
                sub { $_[0]->status == 503 },
            ) },
            'DELETE, then list' => sub {
                $ng->register($id, %body);
                return in_force(sub { $ng->delete("/workers/$id") }, $list,
                    sub { !$listed->($id, $_[0]) });
            },
        );

        for my $step ('POST, then select', 'POST, then list',
            'PATCH of the endpoint', 'PATCH of the rank',
            'PATCH that makes it incomplete',
            'PATCH that makes it schedulable', 'DELETE, then select',
            'DELETE, then list')
        {
            $wrong{$step} //= 0;
            $wrong{$step}++ if !$steps{$step}->();
        }
    }

    is $wrong{$_}, 0, $_ for sort keys %wrong;
};


subtest 'the same over connections that stay open' => sub {
    my ($one, $two) = map { $ng->connection_to($_, '/health') } $ng->workers;
    my $wrong = 0;

    for my $round (1 .. ROUNDS) {
        my ($here, $there) = $round % 2 ? ($one, $two) : ($two, $one);
        my $body = { token_ids => [1] };

        $here->post('/workers', SelService::worker_body($round,
            kv_events_endpoint => $silent));
        $wrong++ if $there->post('/select', $body)->status != 200;
        $there->delete("/workers/$round");
        $wrong++ if $here->post('/select', $body)->status != 503;
    }

    is $wrong, 0, 'each process sees what the other one did';
};


subtest 'W4, C3, A2: one rank after another' => sub {
    my $engine = SelEngine->start(ranks => 5, block_size => 4);
    my $ask    = { token_ids => [ 1 .. 8 ] };

    my $store = sub {
        my (@sockets) = @_;
        $ng->counts({ stored => scalar @sockets, batches => scalar @sockets },
            'stored', sub {
                $engine->publish_stored(tokens => [ 1 .. 8 ], rank => $_,
                    dp_rank => 'none') for @sockets;
            });
    };
    my $followed = sub {
        my (@sockets) = @_;
        my %is = map { ($_ => 1) } @sockets;
        return eval { $engine->wait_subscribers($is{$_} ? 2 : 0, $_)
            for 0 .. 4; 1 };
    };

    $ng->register(1, events($engine, 0, 1, 2));
    ok $followed->(0, 1, 2), 'each process follows three ranks';
    $store->(0, 1, 2);
    $ng->now($ask, { '1/0' => 2, '1/1' => 2, '1/2' => 2 }, 'they are full');

    $ng->register(1, events($engine, 0, 1, 2), total_kv_blocks => 77,
        taints => ['x'], endpoint => 'http://elsewhere');
    $ng->now($ask, { '1/0' => 2, '1/1' => 2, '1/2' => 2 },
        'registered again with the same endpoints: blocks stay');
    $ng->counts({ old => 1 }, 'watermarks too', sub {
        $engine->set_sequence(0, 0);
        $engine->publish_stored(tokens => [ 20 .. 23 ]);
    });

    $ng->patch('/workers/1', { events($engine, 0, 3, 2) });
    $ng->now($ask, { '1/0' => 2, '1/1' => 0, '1/2' => 2 },
        'a changed endpoint: this rank starts empty');
    ok $followed->(0, 2, 3), 'the old endpoint is left';
    $store->(3);
    $ng->now($ask, { '1/0' => 2, '1/1' => 2, '1/2' => 2 },
        'and is filled from the new one');
    $ng->counts({ old => 1 }, 'an unchanged rank keeps its watermark', sub {
        $engine->set_sequence(0, 2);
        $engine->publish_stored(tokens => [ 20 .. 23 ], rank => 2);
    });

    $ng->patch('/workers/1', { events($engine, 0, 3) });
    $ng->now($ask, { '1/0' => 2, '1/1' => 2 }, 'a vanished rank has no row');
    ok $followed->(0, 3), 'nor a listener';

    $ng->patch('/workers/1', { events($engine, 0, 3, 2) });
    $ng->now($ask, { '1/0' => 2, '1/1' => 2, '1/2' => 0 },
        'it comes back empty');
    ok $followed->(0, 2, 3), 'and is followed again';
    $ng->counts({ stored => 1, batches => 1 }, 'with a fresh watermark', sub {
        $engine->set_sequence(0, 2);
        $engine->publish_stored(tokens => [ 1 .. 4 ], rank => 2);
    });

    $ng->patch('/workers/1', { data_parallel_start_rank => 1,
        data_parallel_size => 2 });
    $ng->now($ask, { '1/1' => 2, '1/2' => 1 }, 'the range is moved by one');
    ok $followed->(2, 3), 'rank 0 is left';

    # Rank 1 now has the endpoint that rank 2 had, and the other way round.
    $ng->patch('/workers/1', { kv_events_endpoints => {
        1 => $engine->endpoint(2), 2 => $engine->endpoint(3) } });
    $ng->now($ask, { '1/1' => 0, '1/2' => 0 }, 'exchanged endpoints');

    $ng->patch('/workers/1', { block_size => 0 });
    ok $followed->(), 'an incomplete worker is not followed';
    $ng->patch('/workers/1', { block_size => 4 });
    ok $followed->(2, 3), 'until it is complete again';
    $engine->set_sequence(0, $_) for 2, 3;
    $store->(2, 3);
    $ng->now($ask, { '1/1' => 2, '1/2' => 2 }, 'from number 0');
    $ng->patch('/workers/1', { block_size => 0 });
    $ng->patch('/workers/1', { block_size => 4 });
    $ng->now($ask, { '1/1' => 0, '1/2' => 0 }, 'incomplete and back: empty');

    $ng->register(2, events($engine, 4), kv_events_endpoints =>
        { 0 => $engine->endpoint(4), 9 => $silent });
    ok $followed->(2, 3, 4), 'another worker, and an endpoint of no rank';
    $ng->remove(1);
    $ng->now($ask, { '2/0' => 0 }, 'a removed worker has no rows');
    ok $followed->(4), 'and is not followed';
    $ng->remove(2);
};


subtest 'W3, W5, C1, C4: DELETE and POST, moved partition' => sub {
    my $engine = SelEngine->start(block_size => 4);
    my %ask    = (token_ids => [ 1 .. 8 ]);
    my $store  = sub {
        $ng->counts({ stored => 1, batches => 1 }, 'stored',
            sub { $engine->publish_stored(tokens => [ 1 .. 8 ]) });
    };

    $ng->register(1, events($engine, 0));
    $engine->wait_subscribers(2);
    $store->();
    $ng->now(\%ask, { '1/0' => 2 }, 'full');

    $ng->remove(1);
    $engine->wait_subscribers(0);
    $ng->register(1, events($engine, 0));
    $ng->now(\%ask, { '1/0' => 0 }, 'removed and back: empty');
    $engine->wait_subscribers(2);
    $engine->set_sequence(0);
    $store->();
    $ng->now(\%ask, { '1/0' => 2 }, 'fed from number 0');

    $ng->register(1, events($engine, 0), routing_group => 'east');
    $ng->now({ %ask, routing_group => 'east' }, { '1/0' => 0 },
        'moved: empty in the new partition');
    $ng->at_once(sub { $ng->post('/select', \%ask) }, sub {
        $_[0]->status == 503 && $_[0]->json->{error} eq
            'no schedulable workers for model=default routing_group=default'
    }, 'and gone from the old one');

    # What was sent before the new listener had subscribed was not for it; an
    # old watermark would refuse number 0 for ever.
    $ng->until(sub {
        $engine->set_sequence(0);
        $engine->publish_stored(tokens => [ 1 .. 4 ]);
        return !grep { (SelService::rows($_)->{'1/0'} // 0) != 1 }
            $ng->ask_all(sub { $ng->post('/overlap_scores',
                { %ask, routing_group => 'east' }) });
    }, 'events feed the new partition, from number 0');

    $ng->register(1, events($engine, 0));
    $ng->now(\%ask, { '1/0' => 0 }, 'moved back: empty');
    $ng->remove(1);
};


subtest 'C7, A5: another worker, and another engine under the same id' => sub {
    my ($first, $second, $third) = map { SelEngine->start(block_size => 4) }
        1 .. 3;
    my %ask = (token_ids => [ 1 .. 8 ]);
    my $fills = sub {
        my ($id, $engine) = @_;
        $engine->wait_subscribers(2);
        $ng->counts({ stored => 1, batches => 1 }, 'stored',
            sub { $engine->publish_stored(tokens => [ 1 .. 8 ]) });
        $ng->at_once(sub { $ng->post('/select', \%ask) }, sub {
            my $answer = $_[0]->json;
            $answer->{worker_id} == $id && $answer->{overlap}{gpu} == 8;
        }, 'a selection sees its events');
    };

    $ng->register(1, events($first, 0));
    $fills->(1, $first);

    $ng->remove(1);
    $ng->register(2, events($second, 0));
    $ng->now(\%ask, { '2/0' => 0 }, 'another worker starts empty');
    $fills->(2, $second);

    $ng->remove(2);
    $ng->register(2, events($third, 0));
    $ng->now(\%ask, { '2/0' => 0 }, 'so does the same id elsewhere');
    $second->wait_subscribers(0);
    $second->publish_stored(tokens => [ 1 .. 8 ]);
    $fills->(2, $third);
    $ng->remove(2);
};


subtest 'W2, C2: ranks with a replay endpoint are not followed' => sub {
    my $engine = SelEngine->start(ranks => 2, replay => 1, block_size => 4);
    my %replay = (replay_endpoint => $engine->replay_endpoint(0));

    my $answer = $ng->post('/workers', SelService::worker_body(1,
        events($engine, 0, 1), %replay));
    is $answer->json->{lifecycle}, 'incomplete', 'two ranks';

    # Listeners start in the order of the registrations.
    $ng->register(2, events($engine, 1), %replay);
    $engine->wait_subscribers(2, 1);
    is $engine->report(0)->{subscribers}, 0, 'nobody listens to the first';
    $ng->listeners('active', 1, 'the only listener is that of another');
    $ng->listeners($_, 0) for qw(pending failed);
    $ng->remove(1, 2);
};


# What is selected during an update is the old record or the new one, with
# its blocks.

subtest 'W4, C3: an update withdraws nothing meanwhile' => sub {
    my $engine = SelEngine->start(block_size => 4);
    my %ask    = (token_ids => [ 1 .. 8 ]);

    $ng->register(1, events($engine, 0));
    $engine->wait_subscribers(2);
    $ng->counts({ stored => 1, batches => 1 }, 'stored',
        sub { $engine->publish_stored(tokens => [ 1 .. 8 ]) });

    my $crowd = SelCrowd->start(map { sub {
        my ($go_on) = @_;
        my $count = 0;

        while ($go_on->()) {
            my $answer = $ng->post('/select', \%ask);
            die 'select: ', $answer->status, ' ', $answer->body, "\n"
                if $answer->status != 200
                || $answer->json->{overlap}{gpu} != 8
                || $answer->json->{endpoint} !~ m{\Ahttp://[ab]:1\z|worker};
            $count++;
        }

        return $count;
    } } 1 .. 2);

    for my $round (1 .. WRITES) {
        my %change = (total_kv_blocks => $round,
            endpoint => $round % 2 ? 'http://a:1' : 'http://b:1');
        $round % 3 ? $ng->register(1, events($engine, 0), %change)
            : $ng->patch('/workers/1', \%change);
    }

    my @counts = $crowd->stop;
    note "@counts selections";
    cmp_ok $_, '>', 0, 'every selection found the worker and its blocks'
        for @counts;
    $ng->now(\%ask, { '1/0' => 2 }, 'they are still there');
    $ng->remove(1);
};


subtest 'DELETE while publishing' => sub {
    my $engine = SelEngine->start(block_size => 4);
    my $stay   = SelEngine->start(block_size => 4);
    my @tokens = (1 .. 8);
    my $wrong  = 0;

    $ng->register(2, events($stay, 0));
    $stay->wait_subscribers(2);
    $stay->publish_stored(tokens => \@tokens);
    $ng->soon({ token_ids => \@tokens }, { '2/0' => 2 }, 'a neighbour');

    for my $round (1 .. 20) {
        $ng->register(1, events($engine, 0));
        $engine->wait_subscribers(2);

        for my $batch (1 .. 60) {
            $engine->publish_stored(tokens => \@tokens);
            $engine->publish_removed(tokens => \@tokens) if $batch % 2;

            next if $batch < 30;
            $ng->remove(1) if $batch == 30;
            my $rows = SelService::rows($ng->post('/overlap_scores',
                { token_ids => \@tokens }));
            $wrong++ if join(' ', %$rows) ne '2/0 2';
        }

        $engine->wait_subscribers(0);
    }

    is $wrong, 0, 'no answer knew it after its DELETE';

    $ng->register(1, events($engine, 0));
    $ng->now({ token_ids => \@tokens }, { '1/0' => 0, '2/0' => 2 },
        'it comes back empty');
    $ng->remove(1, 2);
};


# Each client writes its own workers and those that all share, one after the
# other.  Whoever came last, it was somebody's last write.

subtest 'many clients at once' => sub {
    my @shared = (1 .. 3);

    my @last = SelCrowd->start(map {
        my $client = $_;
        sub {
            my %last;

            for my $round (1 .. WRITES) {
                my $id = $round % 2 ? $shared[ $round % @shared ]
                    : 1000 * $client + $round % 20;
                my $mark = "$client-$round";
                my $answer = $ng->post('/workers', SelService::worker_body(
                    $id, kv_events_endpoint => $silent,
                    endpoint => "http://$mark", stable_routing_id => $mark,
                    taints => [ map { "$mark-$_" } 0 .. $round % 30 ],
                    total_kv_blocks => $round));
                die 'POST: ', $answer->status, ' ', $answer->body, "\n"
                    if $answer->status != 201
                    || $answer->json->{stable_routing_id} ne $mark;
                $last{$id} = $mark;

                if ($round % 10 == 0) {
                    $answer = $ng->delete("/workers/$id");
                    die "DELETE: ", $answer->body, "\n"
                        if $answer->status != 200;
                    delete $last{$id};
                }
            }

            return \%last;
        }
    } 1 .. CLIENTS)->results;

    my %may;
    for my $last (@last) {
        $may{$_}{ $last->{$_} } = 1 for keys %$last;
    }

    my @answers = $ng->ask_all(sub { $ng->get('/workers') });
    my @workers = @{ $answers[0]->json };

    is_deeply [ map { $_->{worker_id} } @workers ],
        [ sort { $a <=> $b } keys %may ], 'the workers that were left';
    is_deeply [ grep { !$may{ $_->{worker_id} }{ $_->{stable_routing_id} } }
        @workers ], [], 'each has its last writer';
    is_deeply [ grep {
        my ($mark, $round) = $_->{stable_routing_id} =~ /^(\d+-(\d+))$/;
        my $taints = join ' ', sort map { "$mark-$_" } 0 .. $round % 30;
        $_->{endpoint} ne "http://$mark" || $_->{total_kv_blocks} != $round
            || join(' ', sort @{ $_->{taints} }) ne $taints;
    } @workers ], [], 'each is of one piece';
    is_deeply [ grep { $_->body ne $answers[0]->body } @answers ], [],
        'both processes say the same';

    # Changes of different members of one worker: none is lost.
    my @members = qw(total_kv_blocks max_num_batched_tokens
        stable_routing_id kv_transfer_domain);
    SelCrowd->start(map {
        my $member = $_;
        sub {
            for my $round (1 .. WRITES) {
                my $answer = $ng->patch('/workers/1', { $member =>
                    $member =~ /^(?:total|max)/ ? $round : "r$round" });
                die $answer->body, "\n" if $answer->status != 200
                    || $answer->json->{$member} !~ /^r?$round$/;
            }
            return 1;
        }
    } @members)->results;

    $ng->at_once(sub { $ng->get('/workers') }, sub {
        my ($record) = grep { $_->{worker_id} == 1 } @{ $_[0]->json };
        my $last = WRITES;
        return !grep { $record->{$_} !~ /^r?$last$/ } @members;
    }, 'the last value of each member is there');

    $ng->remove(map { $_->{worker_id} } @workers);
    is $ng->metric('select_zone_slots_used'), 0, 'all rank slots are free';
};


# Workers that come and go leave nothing behind.  A partition stays for as
# long as the zone lives, because its block size does; it must stay small.

subtest 'B9: workers and partitions that come and go' => sub {
    my $client = $ng->connection;
    my $serial = 0;

    my $cycles = sub {
        my ($count, $name) = @_;
        my $faults = 0;

        for (1 .. $count / WINDOW) {
            $client->send(POST => '/workers',
                body => SelService::worker_body($_, model_name => $name->(),
                    kv_events_endpoint => $silent)) for 1 .. WINDOW;
            $client->send(DELETE => "/workers/$_") for 1 .. WINDOW;

            $faults += $client->receive->status != 201 for 1 .. WINDOW;
            $faults += $client->receive->status != 200 for 1 .. WINDOW;
        }

        return $faults;
    };

    # Memory that each process gained by the cycles, in KiB.
    my $gained = sub {
        my ($name) = @_;
        my @before = map { memory_kib($_) } $ng->workers;

        is $cycles->(CYCLES, $name), 0, CYCLES . ' registered and removed';
        $ng->listeners($_, 0) for qw(active pending failed);

        my @after = map { memory_kib($_) } $ng->workers;
        return map { $after[$_] - $before[$_] } 0 .. $#after;
    };

    my $tasks = sub { join ' ', map { scalar(() = glob "/proc/$_/task/*") }
        $ng->workers };

    is $cycles->(CYCLES / 10, sub { 'warm' }), 0, 'the first ones';
    my $threads = $tasks->();

    my @same = $gained->(sub { 'warm' });
    note "one partition: @same KiB";
    cmp_ok $_, '<', at_most(8 * 1024), 'one partition: the memory is bounded'
        for @same;

    my @other = $gained->(sub { 'p' . ++$serial });
    note CYCLES . " partitions: @other KiB";
    cmp_ok $_, '<', at_most(5 * CYCLES),
        'each its own: less than 5 KiB a partition' for @other;
    is $tasks->(), $threads, 'and no thread';

    is $ng->metric('select_zone_slots_used'), 0, 'no rank slot is used';
    $ng->register(1, kv_events_endpoint => $silent);
    $ng->still_serves(1);
    $ng->remove(1);
};

all_done;
