# Reload, death and upgrade of nginx's processes under a living catalog: what
# docs/directives.md says outlives what, and that nothing of ours keeps an old
# process, a descriptor or a part of the zone.

use strict;
use warnings;

use IO::Socket::INET;
use JSON::PP ();
use Test::More;
use Time::HiRes qw(time);

use SelCrowd;
use SelEngine;
use SelProc qw(children is_alive poll_for reserve_port);
use SelService;

use constant {
    # Of two processes: more than the zone's table has.
    RELOADS => $ENV{TEST_NGINX_WRAP} ? 20 : 200,
    KILLS   => 30,
    CLIENTS => 3,
};

my $silent = 'tcp://127.0.0.1:' . reserve_port();
my $tokens = 0;


# Checks that a worker of this id is in the catalog of each process, and that
# an event that the engine of worker 1 sends now reaches them all.

sub alive {
    my ($ng, $id, $engine, $name) = @_;

    my @prompt = map { $tokens + $_ } 0 .. 3;
    $tokens += 4;

    $ng->at_once(sub { $ng->get('/workers') }, sub {
        grep { $_->{worker_id} == $id } @{ $_[0]->json }
    }, "$name: the catalog is there in each process");

    # What was sent before a process had subscribed was not for it.
    $ng->until(sub {
        $engine->publish_stored(tokens => \@prompt);
        return !grep { (SelService::rows($_)->{'1/0'} // 0) != 1 }
            $ng->ask_all(sub { $ng->post('/overlap_scores',
                { token_ids => \@prompt }) });
    }, "$name: events arrive in each process");
    $ng->until(sub { $engine->report->{subscribers} == $ng->{workers} },
        "$name: nobody else follows them");

    return;
}


# Starts nginx with one worker that follows one engine.

sub start {
    my ($name, %opt) = @_;

    my $ng     = SelService->new(name => $name, %opt)->run;
    my $engine = SelEngine->start(block_size => 4);

    $ng->register(1, events($engine, 0));
    alive($ng, 1, $engine, 'at first');

    return ($ng, $engine);
}


# How much of the zone is used.  The zone remembers some of the workers that
# were removed last, so it is filled with such first.

sub chunks {
    my ($ng) = @_;

    for my $id (9001 .. 9200) {
        $ng->register($id, kv_events_endpoint => $silent);
        $ng->remove($id);
    }

    return scalar $ng->metric('select_zone_chunks_used');
}


subtest 'reload' => sub {
    my ($ng, $engine) = start('reload');
    my $chunks = chunks($ng);
    my @times;

    my @idle = map { $ng->connection } 1 .. 10;
    $_->get('/health') for @idle;

    $ng->reload(gone => 1);
    alive($ng, 1, $engine, 'after a reload');

    my $before = fds_at_rest($ng->workers);
    my $master = fd_count($ng->master);

    for (1 .. RELOADS) {
        my $start = time;
        $ng->reload(gone => 1);
        push @times, time - $start;
        last if $ng->post('/select', { token_ids => [1] })->status != 200;
    }

    is @times, RELOADS, RELOADS . ' reloads, a selection after each';
    @times = sort { $a <=> $b } @times;
    note sprintf 'a reload takes %.3f s, at most %.3f s', $times[@times / 2],
        $times[-1];
    cmp_ok $times[@times / 2], '<', at_most(1),
        'old processes leave within a second';

    alive($ng, 1, $engine, 'in the end');
    is fds_at_rest($ng->workers), $before,
        'as many descriptors in the worker processes as before';
    is fd_count($ng->master), $master, 'and in the master';
    is chunks($ng), $chunks, 'as many records in the zone';
    is $ng->metric('select_process_deaths_total'), 0, 'nobody died';
    $ng->listeners('active', 1);
    $ng->finish;
};


subtest 'reload twice within a second' => sub {
    my ($ng, $engine) = start('twice');

    # The second one comes as soon as the first has made a new process.
    for my $round (1 .. 5) {
        my %old = map { ($_ => 1) } children($ng->master);
        my @middle;

        $ng->signal('HUP');
        $ng->until(sub {
            @middle = grep { !$old{$_} } children($ng->master);
        }, "round $round: a new generation begins");

        $ng->signal('HUP');
        $ng->until(sub {
            my @now = children($ng->master);
            return @now == 2 && !grep {
                my $pid = $_;
                $old{$pid} || grep { $_ == $pid } @middle;
            } @now;
        }, "round $round: only the last one is left");
    }

    alive($ng, 1, $engine, 'afterwards');
    $ng->finish;
};


# A client that is slow keeps an old process, which has to stay part of the
# whole.

subtest 'two generations' => sub {
    my ($ng, $engine) = start('generations');
    my ($old) = $ng->workers;
    my $client = $ng->connection_to($old, '/health');
    my $body   = JSON::PP->new->encode(SelService::worker_body(2,
        kv_events_endpoint => $silent));

    $client->send_raw("POST /workers HTTP/1.1\r\nHost: x\r\n"
        . "Content-Type: application/json\r\nContent-Length: "
        . length($body) . "\r\n\r\n" . substr($body, 0, 10));
    $ng->still_serves(1);
    $ng->reload;
    $ng->still_serves(1, 'the new ones serve');
    ok is_alive($old), 'the old process waits for its client';

    syswrite $client->{sock}, substr $body, 10;
    my $answer = $client->receive;
    is $answer->status, 201, 'which is answered';
    is $answer->process, $old, 'by the old process';
    $ng->still_serves(2, 'its worker is in force in the new ones');
    $ng->until(sub { !is_alive($old) }, 'then the old process leaves');
    alive($ng, 1, $engine, 'afterwards');
    is $ng->metric('select_process_deaths_total'), 0, 'in order';
    $ng->finish;
};


# nginx answers what it has begun to read when it is told to stop, and accepts
# no more.

subtest 'C8: requests that meet the end' => sub {
    my ($ng, $engine) = start('end');
    my $body = JSON::PP->new->encode({ token_ids => [ 1 .. 4 ] });
    my $post = "Host: x\r\nContent-Type: application/json\r\n"
        . 'Content-Length: ' . length($body) . "\r\n\r\n$body";
    my @held = map { [ $ng->connection, @$_ ] } (
        [ 'a list'      => "GET /workers HTTP/1.1\r\nHost: x\r\n\r\n",
            200, qr/\A\[\{"worker_id":1,.*"lifecycle":"schedulable"/ ],
        [ 'a selection' => "POST /select HTTP/1.1\r\n$post",
            200, qr/"worker_id":1,/ ],
        [ 'a DELETE'    => "DELETE /workers/1 HTTP/1.1\r\nHost: x\r\n\r\n",
            200, qr/"lifecycle":"unschedulable"/ ],
    );

    $_->[0]->send_raw(substr $_->[2], 0, -2) for @held;
    $ng->still_serves(1, 'all are begun');

    my @pids = $ng->workers;
    $ng->signal('QUIT');
    $ng->until(sub { $ng->get('/health')->status == 0 },
        'nobody else is let in');

    for my $request (@held) {
        my ($client, $name, $text, $status, $pattern) = @$request;
        syswrite $client->{sock}, substr $text, -2;
        my $answer = $client->receive;
        is $answer->status, $status, $name;
        like $answer->body, $pattern, 'is answered as ever';
    }

    $ng->until(sub { !grep { is_alive($_) } @pids },
        'then the processes end');
    $ng->finish;
};


subtest 'requests while reloading' => sub {
    my ($ng, $engine) = start('busy');

    # Connections that wait in the backlog of a socket which an old process
    # closes are lost (reuseport); an answer that comes must be right.
    my $crowd = SelCrowd->start(map { sub {
        my ($go_on) = @_;
        my %seen;
        while ($go_on->()) {
            my $answer = $ng->post('/select', { token_ids => [1] });
            $seen{ $answer->status }++;
        }
        return \%seen;
    } } 1 .. 2);

    $ng->reload for 1 .. 10;

    for my $seen ($crowd->stop) {
        my $lost = delete $seen->{0} // 0;
        is_deeply [ keys %$seen ], [200], 'every answer is a selection';
        note "$seen->{200} answers, $lost connections lost";
    }

    alive($ng, 1, $engine, 'afterwards');
    $ng->finish;
};


# What a restart takes away is the catalog; until it is told again nobody is
# ready, and then answers are right.

subtest 'H8: a restart under load' => sub {
    my ($ng, $engine) = start('restart');

    my $crowd = SelCrowd->start(map { sub {
        my ($go_on) = @_;
        my %seen;
        while ($go_on->()) {
            my $answer = $ng->post('/select', { token_ids => [ 1 .. 4 ] });
            $seen{ $answer->status }++;
        }
        return \%seen;
    } } 1 .. 2);

    for my $round (1 .. 2) {
        is $ng->stop('QUIT'), 0, 'it stops';
        $engine->publish_stored(tokens => [ 1 .. 4 ]);
        $ng->run;
        $ng->at_once(sub { $ng->get('/ready') }, sub {
            $_[0]->status == 503 && @{ $_[0]->json->{workers} } == 0
        }, 'it is not ready');
        $ng->register(1, events($engine, 0));
        $ng->at_once(sub { $ng->get('/ready') }, sub { $_[0]->status == 200 },
            'until a worker is registered');
        alive($ng, 1, $engine, 'after a restart');
    }

    for my $seen ($crowd->stop) {
        ok $seen->{200}, 'there were selections';
        is_deeply [ grep { !/\A(?:0|200|503)\z/ } keys %$seen ], [],
            'and none while there was no worker';
    }

    $ng->finish;
};


subtest 'a refused configuration' => sub {
    my ($ng, $engine) = start('refused');
    my $state = sub { join "\n", $ng->get('/workers')->body,
        map { "$_ " . $ng->metric("select_$_") }
        qw(catalog_version zone_chunks_used zone_slots_used) };
    my $before = $state->();

    $ng->reload_refused(qr/\[emerg\].*no_such_directive/, 'a typing error',
        http => 'no_such_directive on;');
    $ng->reload_refused(qr/\[emerg\].*select_zone/, 'a zone that is too small',
        zone => 'selector 16k');
    $ng->reload_refused(qr/\[emerg\].*select_temperature/, 'a bad number',
        http => 'select_temperature -1;');
    $ng->reload_refused(qr/\[emerg\].*other/, 'an unknown zone',
        server => $ng->{server} . 'location /x { select_service other; }');

    is $state->(), $before, 'the catalog is as it was';
    alive($ng, 1, $engine, 'afterwards');
    $ng->finish;
};


subtest 'more and fewer worker processes' => sub {
    my ($ng, $engine) = start('numbers', reuseport => 1);

    for my $count (4, 1, 2) {
        $ng->reload(workers => $count, gone => 1);
        alive($ng, 1, $engine, "$count processes");

        my @active = $ng->metric('select_kv_listeners', state => 'active');
        cmp_ok scalar @active, '>=', $count, 'metrics of each process';
        $ng->until(sub {
            my @active = $ng->metric('select_kv_listeners',
                state => 'active');
            return !grep { $active[$_] != 1 } 0 .. $count - 1;
        }, 'each has its listener');
        $ng->until(sub {
            my @active = $ng->metric('select_kv_listeners',
                state => 'active');
            return !grep { $_ != 0 } @active[ $count .. $#active ];
        }, 'and none is shown of a process that is gone');
    }

    $ng->finish;
};


subtest 'a changed zone size' => sub {
    my ($ng, $engine) = start('size');
    my $mark = $ng->log_mark;

    $ng->reload(zone => 'selector 24m');
    $ng->log_like(qr/\[(?:notice|warn)\].*select_zone "selector".*empty/,
        'the log says that the zone is new', $mark);
    $ng->at_once(sub { $ng->get('/workers') }, sub { $_[0]->body eq '[]' },
        'it is empty');
    $engine->wait_subscribers(0);
    $ng->register(1, events($engine, 0));
    alive($ng, 1, $engine, 'registered again');

    $mark = $ng->log_mark;
    $ng->reload(gone => 1);
    $ng->log_unlike(qr/empty zone/, 'an unchanged one is not new', $mark);
    alive($ng, 1, $engine, 'then it stays');
    $ng->finish;
};


subtest 'kill -9' => sub {
    my ($ng, $engine) = start('kill');
    my $chunks = chunks($ng);

    for my $i (0, 1) {
        $ng->kill_worker($i);
        alive($ng, 1, $engine, "process $i was killed");
    }

    my @pids = $ng->workers;
    $ng->expect_log(qr/\[alert\] .* exited on signal 9/);
    kill KILL => @pids;
    $ng->until(sub { my @new = $ng->workers;
        @new == 2 && !grep { my $pid = $_; grep { $_ == $pid } @pids } @new },
        'both were killed at once, and are replaced');
    alive($ng, 1, $engine, 'both were killed');

    is $ng->metric('select_process_deaths_total'), 4, 'each death is counted';
    is chunks($ng), $chunks, 'as many records in the zone';

    # An orderly end is none.
    $ng->reload(gone => 1);
    is $ng->metric('select_process_deaths_total'), 4, 'a reload is no death';
    $ng->finish;
};


# Clients that register and remove workers without pause while processes are
# killed: what a client was told has to be so, and nothing may leak.

subtest 'kill -9 in a storm of registrations' => sub {
    my ($ng, $engine) = start('storm');
    my $chunks = chunks($ng);
    my $slots  = $ng->metric('select_zone_slots_used');

    $ng->expect_log(qr/\[alert\] .* exited on signal 9/);

    my $crowd = SelCrowd->start(map {
        my $client = $_;
        sub {
            my ($go_on) = @_;
            my ($round, $lost, %state) = (0, 0);

            while ($go_on->()) {
                my $id   = 1000 * $client + ++$round % 10;
                my $mark = "c$client-$round";
                my $answer = $state{$id} && $round % 3 == 0
                    ? $ng->delete("/workers/$id")
                    : $ng->post('/workers', SelService::worker_body($id,
                        data_parallel_size => 4,
                        stable_routing_id  => $mark,
                        taints => [ map { "$mark-$_" } 1 .. 20 ],
                        kv_events_endpoints => { map { ($_ => $silent) }
                            0 .. 3 }));
                my $done = $answer->status;

                # What is unknown now is told by the next answer.
                if ($done == 0) {
                    $lost++;
                    delete $state{$id};

                } elsif ($done == 201) {
                    $state{$id} = $mark;

                } elsif ($done == 200) {
                    $state{$id} = 'gone';

                } elsif ($done != 404 || $state{$id} ne 'gone') {
                    die "$done: ", $answer->body, "\n";
                }
            }

            return { lost => $lost, rounds => $round, state => \%state };
        }
    } 1 .. CLIENTS);

    for my $round (1 .. KILLS) {
        my $seen = $ng->metric('select_catalog_version');
        my @pids = $ng->workers;
        my @victims = $round % 5 ? $pids[ $round % 2 ] : @pids;

        kill KILL => @victims;
        poll_for(sub { $ng->workers == 2
            && !grep { is_alive($_) } @victims }, 5)
            or last;
        poll_for(sub {
            ($ng->metric('select_catalog_version') // 0) > $seen + 10 }, 5)
            or last;
        pass('the storm goes on') if $round == KILLS;
    }

    my @results = $crowd->stop;
    my %records = map { ($_->{worker_id} => $_) }
        @{ $ng->get('/workers')->json };
    my (@wrong, $rounds, $lost);

    for my $result (@results) {
        $rounds += $result->{rounds};
        $lost   += $result->{lost};

        for my $id (keys %{ $result->{state} }) {
            my $is = $records{$id} ? $records{$id}{stable_routing_id}
                : 'gone';
            push @wrong, "$id: $is, not $result->{state}{$id}"
                if $is ne $result->{state}{$id};
        }
    }

    note "$rounds registrations and removals, $lost without an answer";
    is_deeply \@wrong, [], 'what was answered is so';
    is_deeply [ grep {
        my ($record) = $_;
        my $mark = $record->{stable_routing_id};
        $record->{worker_id} != 1 && join(' ', sort @{ $record->{taints} })
            ne join ' ', sort map { "$mark-$_" } 1 .. 20;
    } values %records ], [], 'every record is of one piece';
    $ng->at_once(sub { $ng->get('/workers') }, sub {
        join(' ', map { $_->{worker_id} } @{ $_[0]->json })
            eq join ' ', sort { $a <=> $b } keys %records;
    }, 'the processes agree');
    note $ng->metric('select_rebuilds_total') . ' rebuilds';

    $ng->remove(grep { $_ != 1 } keys %records);
    is $ng->metric('select_zone_slots_used'), $slots, 'no slot is lost';
    is chunks($ng), $chunks, 'no record of the zone is lost';
    alive($ng, 1, $engine, 'afterwards');
    $ng->finish;
};


# Engines that do not answer: one that stopped, one that accepts connections
# and says nothing, one that does not even accept.

sub hanging {
    my ($ng) = @_;

    my $mute = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 64,
        Proto => 'tcp') or die "listen: $!";
    my $stopped = SelEngine->start(block_size => 4);

    $ng->register(2, kv_events_endpoint =>
        'tcp://127.0.0.1:' . $mute->sockport);
    $ng->register(3, events($stopped, 0));
    $stopped->wait_subscribers(2);
    kill STOP => $stopped->{pid};
    $ng->register(4, kv_events_endpoint => $silent);

    return ($mute, $stopped);
}


for my $signal (qw(QUIT TERM INT)) {
    subtest "$signal ends at once" => sub {
        my ($ng, $engine) = start($signal);
        my @held = hanging($ng);

        $ng->listeners('active', 4);

        my $start = time;
        is $ng->stop($signal), 0, 'the exit code is 0';
        cmp_ok time - $start, '<', at_most(1), 'within a second';
        kill CONT => $held[1]{pid};
        $ng->finish;
    };
}


subtest 'a reload beside engines that hang' => sub {
    my ($ng, $engine) = start('hang');
    my @held = hanging($ng);

    my $start = time;
    $ng->reload(gone => 1);
    cmp_ok time - $start, '<', at_most(2), 'the old processes leave';
    alive($ng, 1, $engine, 'after it');
    kill CONT => $held[1]{pid};
    $ng->finish;
};


subtest 'upgrade' => sub {
    local $ENV{DYN_ROUTER_KV_OVERLAP_SCORE_CREDIT} = '0.5';
    local $ENV{DYN_ROUTER_TEMPERATURE} = '0.25';

    my ($ng, $engine) = start('upgrade', daemon => 1);
    my @prompt = (token_ids => [ 1 .. 4 ]);
    my $credit = sub {
        my ($name) = @_;
        $engine->publish_stored(tokens => [ 1 .. 4 ]);
        $ng->in_time(sub { $ng->post('/overlap_scores', {@prompt}) }, sub {
            eval { $_[0]->json->{workers}[0]{router_credit_blocks} == 0.5 }
        }, $name);
    };
    my $settings = sub {
        my ($last) = reverse $ng->log =~
            /settings: .*(select_temperature [^;]*)/g;
        return $last;
    };

    $credit->('a variable is a default');
    my $told = $settings->();
    like $told, qr/0\.25.*DYN_ROUTER_TEMPERATURE/, 'the log names its origin';

    my $mark = $ng->log_mark;
    my @old  = $ng->workers;
    $ng->upgrade;
    $ng->until(sub { !grep { is_alive($_) } @old },
        'the old processes are gone');
    $ng->log_like(qr/select_zone "selector".*empty/, 'the zone is new', $mark);
    $ng->at_once(sub { $ng->get('/workers') }, sub { $_[0]->body eq '[]' },
        'and empty');

    $engine->wait_subscribers(0);
    $ng->register(1, events($engine, 0));
    alive($ng, 1, $engine, 'registered again');
    $credit->('the variables are kept');
    is $settings->(), $told, 'with the same settings';

    $ng->reload(gone => 1);
    alive($ng, 1, $engine, 'and a reload');
    $engine->wait_subscribers(2);
    $credit->('the variables are still kept');
    $ng->finish;
};


subtest 'nginx -t beside a running server' => sub {
    my ($ng, $engine) = start('test');
    my $state = sub { join "\n", map { "$_ " . fds_at_rest($_) }
        $ng->master, $ng->workers };
    my $before  = $state->();
    my $records = $ng->get('/workers')->body;

    for my $change ({}, { zone => 'selector 64m' }, { zone => 'other 1m',
        server => 'location / { select_service other; }' })
    {
        my ($exit, $output) = $ng->test_conf(%$change);
        is $exit, 'exit code 0', 'a good configuration';
        like $output, qr/test is successful/, 'says so';
    }

    my ($exit, $output) = $ng->test_conf(zone => 'selector 1k');
    is $exit, 'exit code 1', 'a bad one';

    is $state->(), $before, 'the same processes and descriptors';
    is $ng->get('/workers')->body, $records, 'the same catalog';
    $engine->wait_subscribers(2);
    alive($ng, 1, $engine, 'afterwards');
    $ng->finish;
};


subtest 'a single process' => sub {
    my ($ng, $engine) = start('single', master => 0, workers => 1);

    $ng->listeners('active', 1);
    is $ng->post('/select', { token_ids => [1] })->json->{worker_id}, 1,
        'a selection';
    my $start = time;
    is $ng->stop('QUIT'), 0, 'QUIT';
    cmp_ok time - $start, '<', at_most(1), 'within a second';
    $ng->finish;
};


subtest 'cache manager and cache loader' => sub {
    my $root = 'proxy_cache_path $TEST_NGINX_SERVER_ROOT/cache'
        . ' keys_zone=cache:1m loader_threshold=1ms;';
    my ($ng, $engine) = start('cache', http => $root);

    my ($helper) = $ng->log =~ /start cache manager process (\d+)/;
    ok $helper, 'there is a cache manager';
    is $engine->report->{subscribers}, 2,
        'only the worker processes subscribe';
    is scalar(() = $ng->metric('select_kv_listeners', state => 'active')), 2,
        'nor is it counted among them';
    is_deeply [ map { s{.*/}{}r } glob "/proc/$helper/task/*" ], [$helper],
        'it has no thread';

    kill KILL => $helper;
    $ng->expect_log(qr/\[alert\] .* $helper exited on signal 9/);
    $ng->log_like(qr/$helper\ exited\ on\ signal\ 9(?s:.*)
        start\ cache\ manager\ process/x, 'killed, it is replaced');
    is $ng->metric('select_process_deaths_total'), 0, 'not a death of ours';

    $ng->reload(gone => 1);
    alive($ng, 1, $engine, 'after a reload');
    $ng->until(sub { $engine->report->{subscribers} == 2 },
        'still two subscribers');
    $ng->finish;
};


# The zone remembers who was schedulable; a worker that was so only because no
# events were followed has no endpoint to follow.

subtest 'events are turned on by a reload' => sub {
    my $http = "select_kv_events %s;\n";
    my $ng = SelService->new(name => 'turned-on',
        http => sprintf($http, 'off'))->run;

    is $ng->post('/workers', { worker_id => 1, block_size => 4,
        endpoint => 'http://e' })->json->{lifecycle}, 'schedulable',
        'no event endpoint is needed';

    $ng->reload(http => sprintf($http, 'on'), gone => 1);
    $ng->log_like(qr/worker 1 rank 0: no event endpoint is registered/,
        'its listener fails');
    $ng->listeners('failed', 1, 'as the page says');
    is $ng->post('/select', { token_ids => [ 1 ] })->status, 200,
        'and the worker is there';
    $ng->finish;
};


subtest 'the master dies' => sub {
    my ($ng, $engine) = start('orphans');
    my @workers = $ng->workers;

    $ng->kill_master;
    is $ng->get('/workers')->status, 200, 'its worker processes serve on';
    $engine->publish_stored(tokens => [ 5000 .. 5003 ]);

    my %seen;
    $ng->until(sub {
        my $answer = $ng->post('/overlap_scores',
            { token_ids => [ 5000 .. 5003 ] });
        $seen{ $answer->process } = 1
            if (SelService::rows($answer)->{'1/0'} // 0) == 1;
        return keys %seen == 2;
    }, 'and follow their events');

    my $start = time;
    kill QUIT => @workers;
    ok poll_for(sub { !grep { is_alive($_) } @workers }, 2),
        'they end when they are told to';
    $ng->finish;
};

all_done;
