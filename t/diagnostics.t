# What GET /workers?diagnostics=1 tells of each rank's event stream, and the
# warnings behind it.  A cache that is missed makes no error: without this an
# engine that is silent, hashes otherwise or is registered with the wrong
# block size or endpoint would be noticed by nobody.
#
# Warnings are logged and counted once for the service, though each process
# follows the events by itself.

use strict;
use warnings;

use JSON::PP ();
use Test::More;

use SelEngine;
use SelProc qw(poll_for);
use SelService;

use constant CAUSES =>
    qw(silent block_size shared_endpoint refused never_matched);

my $JSON = JSON::PP->new->canonical;
my $next = 1;
my $ng;


# A worker in a partition of its own: its id, its engine, and what makes a
# prompt of members.

sub worker {
    my (%members) = @_;

    my $ranks  = delete $members{ranks} // 1;
    my $id     = $next++;
    my $engine = SelEngine->start(ranks => $ranks, block_size => 4);

    $ng->register($id, model_name => "m$id",
        events($engine, 0 .. $ranks - 1), %members);
    $engine->wait_subscribers(2, $_) for 0 .. $ranks - 1;

    return ($id, $engine, sub { return { model_name => "m$id", @_ } });
}


sub diagnostics {
    my ($id) = @_;

    return sub { $ng->get("/workers?diagnostics=1&model_name=m$id") };
}


# Members of a rank's object in an answer, as text.

sub members {
    my ($answer, $id, $rank, @names) = @_;

    return '' if $answer->status != 200;

    my ($row) = grep { $_->{dp_rank} == $rank }
        map { @{ $_->{diagnostics} // [] } }
        grep { $_->{worker_id} eq $id } @{ $answer->json };

    return $row ? $JSON->encode({ map { ($_ => $row->{$_}) } @names }) : '';
}


# Checks that each process comes to tell this of a rank, or tells it at once.

sub tells {
    my ($id, $rank, $want, $name) = @_;

    return $ng->in_time(diagnostics($id), is_told($id, $rank, $want), $name);
}

sub tells_at_once {
    my ($id, $rank, $want, $name) = @_;

    return $ng->at_once(diagnostics($id), is_told($id, $rank, $want), $name);
}

sub is_told {
    my ($id, $rank, $want) = @_;

    my $text = $JSON->encode($want);

    return sub { members($_[0], $id, $rank, keys %$want) eq $text };
}


# Blocks by tier, from the device on.

sub blocks {
    my @blocks = (@_, 0, 0, 0);

    return { map { ($_ => shift @blocks) }
        qw(device host_pinned disk external) };
}


# Runs the code and checks that exactly these causes come on, so often.

sub comes_on {
    my ($want, $name, $code) = @_;

    my %before = causes();
    my $text   = $JSON->encode($want);
    my $got;

    $code->();

    my $ok = poll_for(sub {
        my %after = causes();
        my %more  = map { ($_ => $after{$_} - $before{$_}) } keys %after;
        $got = $JSON->encode({ map { ($_ => $more{$_}) }
            grep { $more{$_} } keys %more });
        return $got eq $text;
    });

    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return ok($ok, $name) || diag("$got came on, not $text");
}


# How often each cause came on.

sub causes {
    return map { ($_->[0]{cause} => $_->[1]) }
        $ng->samples('select_warnings_total');
}


# The warnings in the log of a rank.

sub lines {
    my ($id, $rank) = @_;

    return $ng->log =~ /^.*\[warn\].*\bworker $id rank $rank\b.*$/mg;
}


# Checks that the log has one warning of a rank for each pattern, no more.

sub logged {
    my ($id, $rank, $patterns, $name) = @_;

    my @lines = lines($id, $rank);
    my @wrong = grep { my $n = $_;
        !defined $lines[$n] || !defined $patterns->[$n]
            || $lines[$n] !~ $patterns->[$n]
    } 0 .. ($#lines > $#$patterns ? $#lines : $#$patterns);

    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return ok(!@wrong, $name) || diag(join "\n", 'the log has:', @lines);
}


# Asks the same prompt often, on one connection.

sub ask {
    my ($client, $times, $prompt) = @_;

    for (1 .. $times) {
        my $status = $client->post('/select', $prompt)->status;
        die "/select: $status\n" if $status != 200;
    }

    return;
}


my $NEVER  = qr/no look-up ever/;
my $SHARED = qr/same endpoint/;
my $SIZE   = qr/block size/;
my $SILENT = qr/no message/;


$ng = SelService->new(name => 'told', log_level => 'warn',
    http => 'select_silence_warning off;')->run;


subtest 'the counters begin at 0' => sub {
    is_deeply { causes() }, { map { ($_ => 0) } CAUSES },
        'one for each cause';
};


subtest 'only when it is asked for' => sub {
    my ($id) = worker();
    my $path = "/workers?model_name=m$id";
    my $plain = $ng->get($path)->body;

    unlike $plain, qr/diagnostics/, 'not unasked';

    for my $query ('diagnostics', 'diagnostics=', 'diagnostics=0',
        'diagnostics=2', 'diagnostics=11', 'diagnostics=01',
        'diagnostics=true', 'diagnostics=on', 'Diagnostics=1',
        'diagnostic=1', 'x=diagnostics=1')
    {
        is $ng->get("$path&$query")->body, $plain, "not with $query";
    }

    my $row = '{"dp_rank":0,"listener":"active","reason":null,'
        . '"last_event_seconds":null,"messages":0,"events":0,"refused":{},'
        . '"blocks":{"device":0,"host_pinned":0,"disk":0,"external":0},'
        . '"queries":0,"matched":0,"warnings":[]}';
    my $whole = $plain =~ s/\}\]\z/,"diagnostics":[$row]}]/r;

    for my $query ("model_name=m$id&diagnostics=1",
        "diagnostics=1&model_name=m$id&routing_group=default",
        "x=1&diagnostics=1&y&model_name=m$id")
    {
        $ng->in_time(sub { $ng->get("/workers?$query") },
            sub { $_[0]->status == 200 && $_[0]->body eq $whole
                && $_[0]->header('Content-Type') eq 'application/json' },
            "the last member of the record: $query");
    }

    is $ng->get("/workers?diagnostics=1&model_name=m$id&routing_group=x")
        ->body, '[]', 'of those that the filters leave';

    my $head = $ng->request('HEAD', "$path&diagnostics=1");
    is $head->status, 200, 'HEAD';
    is $head->body, '', 'without a body';

    unlike $ng->get('/ready?diagnostics=1')->body, qr/"diagnostics"/,
        'not in /ready';
    unlike $ng->post('/workers?diagnostics=1', SelService::worker_body(500,
        model_name => 'incomplete'))->body, qr/"diagnostics"/,
        'not in the answer to a registration';
    unlike $ng->patch('/workers/500?diagnostics=1', {})->body,
        qr/"diagnostics"/, 'nor to a change';
    unlike $ng->delete('/workers/500?diagnostics=1')->body,
        qr/"diagnostics"/, 'nor to a removal';
};


subtest 'every registered rank, ascending' => sub {
    my $id = $next++;
    my $engine = SelEngine->start(ranks => 3, block_size => 4);

    $ng->register($id, model_name => "m$id", data_parallel_start_rank => 9,
        data_parallel_size => 3, kv_events_endpoints => {
            map { (9 + $_ => $engine->endpoint($_)) } 0 .. 2 });
    $engine->wait_subscribers(2, $_) for 0 .. 2;

    my $ranks = sub {
        my ($want, $name) = @_;
        $ng->at_once(diagnostics($id), sub {
            $want eq join ' ', map { $_->{dp_rank} }
                @{ $_[0]->json->[0]{diagnostics} };
        }, $name);
    };
    $ranks->('9 10 11', 'from the first to the last');

    $ng->counts({ stored => 2, batches => 2 }, 'one speaks', sub {
        $engine->publish_stored(tokens => [ $_ .. $_ + 3 ], rank => 1,
            dp_rank => 10) for 1, 11;
    });
    tells($id, 9 + $_, { messages => $_ == 1 ? 2 : 0,
        events => $_ == 1 ? 2 : 0, blocks => blocks($_ == 1 ? 2 : 0) },
        "rank @{[ 9 + $_ ]} has its own numbers") for 0 .. 2;

    $ng->patch("/workers/$id", { data_parallel_start_rank => 10,
        data_parallel_size => 1 });
    $ranks->('10', 'as the worker is registered now');
    tells_at_once($id, 10, { messages => 2, blocks => blocks(2) },
        'a rank that stays keeps its numbers');
};


subtest 'listeners' => sub {
    my $id = $next++;
    my $engine = SelEngine->start(block_size => 4);

    $ng->register($id, model_name => "m$id",
        kv_events_endpoint => 'tcp://*:1');
    $ng->in_time(diagnostics($id), sub {
        my $row = $_[0]->json->[0]{diagnostics}[0];
        $row->{listener} eq 'failed' && ($row->{reason} // '') =~ /Invalid/
            && !defined $row->{last_event_seconds};
    }, 'failed, for a reason');

    $ng->patch("/workers/$id", { events($engine, 0) });
    tells($id, 0, { listener => 'active', reason => undef,
        messages => 0, last_event_seconds => undef }, 'active, for none');

    # Not schedulable, so nothing is followed.
    my $answer = $ng->patch("/workers/$id", { endpoint => '' });
    is $answer->json->{lifecycle}, 'incomplete', 'the worker is incomplete';
    $engine->wait_subscribers(0);
    $ng->at_once(diagnostics($id), sub {
        my $rows = $_[0]->json->[0]{diagnostics};
        return ref $rows eq 'ARRAY'
            && !grep { $_->{listener} ne 'none' || $_->{messages}
                || @{ $_->{warnings} } } @$rows;
    }, 'its ranks are not followed');
};


subtest 'messages, events and blocks' => sub {
    my ($id, $engine) = worker();
    my @hashes;

    $ng->counts({ stored => 3, removed => 1, ignored => 1, batches => 3 },
        'three messages', sub {
            @hashes = $engine->publish_stored(tokens => [ 1 .. 12 ]);
            $engine->publish_stored(tokens => [ 21 .. 24 ]);
            $engine->publish([
                { type => 'BlockStored', block_hashes => [900],
                    token_ids => [ 31 .. 34 ], block_size => 4 },
                { type => 'BlockRemoved', block_hashes => [ 0 + $hashes[2] ] },
                ['Ignored'],
            ]);
        });
    tells($id, 0, { messages => 3, events => 5, blocks => blocks(4),
        refused => {}, warnings => [] }, 'what was applied');

    $ng->counts({ old => 1 }, 'one that was seen before', sub {
        $engine->set_sequence(0);
        $engine->publish_stored(tokens => [ 41 .. 44 ]);
    });
    tells($id, 0, { messages => 4, events => 5, blocks => blocks(4),
        refused => {}, warnings => [] }, 'is a message, and no event');

    $ng->counts({ stored => 4, removed => 1, batches => 5 }, 'lower tiers',
        sub {
            $engine->set_sequence(3);
            $engine->publish_stored(medium => 'CPU', tokens => [ 1 .. 12 ]);
            $engine->publish_stored(medium => 'DISK', tokens => [ 1 .. 8 ]);
            $engine->publish_stored(medium => 'EXTERNAL',
                tokens => [ 1 .. 4 ]);
            $engine->publish_stored(medium => 'EXTERNAL',
                tokens => [ 51 .. 54 ]);
            $engine->publish_removed(medium => 'CPU',
                hashes => [ $hashes[2] ]);
        });
    tells($id, 0, { messages => 9, events => 10,
        blocks => blocks(4, 2, 2, 2) }, 'are told each for itself');

    $ng->counts({ cleared => 1, batches => 1 }, 'all is cleared',
        sub { $engine->publish_cleared });
    tells($id, 0, { messages => 10, events => 11, blocks => blocks(0) },
        'no block is left');
};


subtest 'the time since the last message' => sub {
    my ($id, $engine) = worker();
    my $seconds = sub {
        my ($holds, $name) = @_;
        $ng->in_time(diagnostics($id), sub {
            my $value = $_[0]->json->[0]{diagnostics}[0]{last_event_seconds};
            return defined $value && $value =~ /\A[0-9.e-]+\z/
                && $holds->($value);
        }, $name);
    };

    $ng->counts({ ignored => 1, batches => 1 }, 'a message',
        sub { $engine->publish([ ['Ignored'] ]) });
    $seconds->(sub { $_[0] < at_most(1) }, 'has just come');
    $seconds->(sub { $_[0] > 0.5 && $_[0] < at_most(5) }, 'a while ago');
    $ng->counts({ frames => 1 }, 'another, which is of no use',
        sub { $engine->raw(['']) });
    $seconds->(sub { $_[0] < 0.5 }, 'has come anyway');
};


subtest 'numbers of the answering process' => sub {
    my ($id, $engine, $prompt) = worker();

    $ng->counts({ stored => 1, batches => 1 }, 'stored',
        sub { $engine->publish_stored(tokens => [ 1 .. 8 ]) });

    my @pids = $ng->workers;
    my ($one, $two) = map { $ng->connection_to($_, '/health') } @pids;
    my $has = sub {
        my ($client, $want, $name) = @_;
        my $answer = $client->get("/workers?diagnostics=1&model_name=m$id");
        is members($answer, $id, 0, keys %$want), $JSON->encode($want),
            $name;
    };

    ask($one, 3, $prompt->(token_ids => [ 1 .. 8 ]));
    ask($one, 2, $prompt->(token_ids => [ 101 .. 108 ]));
    ask($two, 1, $prompt->(token_ids => [ 1 .. 4, 9 ]));
    $has->($one, { queries => 5, matched => 3 }, 'look-ups of one process');
    $has->($two, { queries => 1, matched => 1 }, 'and of the other');

    $ng->kill_worker(0, 'KILL');
    $engine->wait_subscribers(2);
    my ($new) = grep { $_ != $pids[1] } $ng->workers;
    my $young = $ng->connection_to($new, '/health');

    $has->($two, { messages => 1, queries => 1, matched => 1,
        blocks => blocks(2) }, 'it goes on when one dies');
    $has->($young, { messages => 0, queries => 0, matched => 0,
        blocks => blocks(0), last_event_seconds => undef },
        'the new one begins at 0');
};


subtest 'look-ups' => sub {
    my ($id, $engine, $prompt) = worker(ranks => 2);
    my $client = $ng->connection_to(($ng->workers)[0], '/health');
    my $known  = $prompt->(token_ids => [ 1 .. 8 ]);
    my $has    = sub {
        my ($rank, $queries, $matched, $name) = @_;
        my $answer = $client->get("/workers?diagnostics=1&model_name=m$id");
        is members($answer, $id, $rank, qw(queries matched)),
            $JSON->encode({ queries => $queries, matched => $matched }),
            "rank $rank: $name";
    };

    ask($client, 5, $known);
    $has->($_, 0, 0, 'there was no block') for 0, 1;

    $ng->counts({ stored => 1, batches => 1 }, 'rank 0 stores',
        sub { $engine->publish_stored(tokens => [ 1 .. 4 ]) });
    $has->(0, 0, 0, 'look-ups from now on');

    for my $path (qw(/select /overlap_scores /potential_loads)) {
        is $client->post($path, $known)->status, 200, $path;
    }
    ask($client, 2, $prompt->(token_ids => [ 11 .. 18 ]));
    $has->(0, 5, 3, 'each route looks up');
    $has->(1, 0, 0, 'it has stored nothing');

    # In another partition, or refused.
    $client->post('/select', { token_ids => [ 1 .. 8 ], model_name => 'x' });
    $client->post('/select', $prompt->(isl_tokens => 4));
    $has->(0, 5, 3, 'in its partition');

    $ng->counts({ stored => 1, batches => 1 }, 'rank 1 stores',
        sub { $engine->publish_stored(tokens => [ 11 .. 14 ], rank => 1) });
    ask($client, 1, $prompt->(token_ids => [ 11 .. 18 ]));
    ask($client, 1, $known);
    ask($client, 1, $prompt->(token_ids => [ 21 .. 28 ]));
    $has->(0, 8, 4, 'goes on');
    $has->(1, 3, 1, 'from its own first block');
};


subtest 'A16: an engine with another block size' => sub {
    my ($id, $engine) = worker();
    my $wrong = sub { $engine->publish_stored(tokens => [ 1 .. 16 ],
        block_size => 8) };

    comes_on({ block_size => 1, refused => 1 }, 'both come on', sub {
        $ng->counts({ block_size => 1, batches => 1 }, 'refused', $wrong);
    });
    my %now = (messages => 1, events => 0, refused => { block_size => 1 },
        blocks => blocks(0), warnings => [qw(block_size refused)]);
    tells_at_once($id, 0, \%now, 'each process tells');
    logged($id, 0, [$SIZE], 'the log once');

    comes_on({}, 'no more', sub {
        $ng->counts({ block_size => 2, stored => 1, batches => 3 },
            'twice more, and a good one', sub {
                $wrong->() for 1, 2;
                $engine->publish_stored(tokens => [ 1 .. 4 ]);
            });
    });
    tells_at_once($id, 0, { %now, messages => 4, events => 1,
        refused => { block_size => 3 }, blocks => blocks(1) }, 'it stays');

    # What keeps the stream keeps all, also a registration with other values.
    $ng->register($id, model_name => "m$id", events($engine, 0),
        total_kv_blocks => 1000);
    $ng->patch("/workers/$id", { taints => ['a'] });
    tells_at_once($id, 0, { messages => 4, blocks => blocks(1),
        warnings => [qw(block_size refused)] }, 'also with other capacity');
    logged($id, 0, [$SIZE], 'the log tells no more');

    my %none = (messages => 0, events => 0, refused => {},
        last_event_seconds => undef, blocks => blocks(0), queries => 0,
        matched => 0, warnings => []);
    my $other = SelEngine->start(block_size => 4);

    $ng->patch("/workers/$id", { events($other, 0) });
    tells_at_once($id, 0, \%none, 'another endpoint starts afresh');
    $other->wait_subscribers(2);

    comes_on({ block_size => 1, refused => 1 }, 'it comes on again', sub {
        $ng->counts({ block_size => 1, batches => 1 }, 'refused', sub {
            $other->publish_stored(tokens => [ 1 .. 8 ], block_size => 8);
        });
    });
    logged($id, 0, [ $SIZE, $SIZE ], 'the log tells it again');

    $ng->remove($id);
    $ng->register($id, model_name => "m$id", events($other, 0));
    tells_at_once($id, 0, \%none, 'DELETE and POST start afresh');
    $other->wait_subscribers(2);
    comes_on({ block_size => 1, refused => 1 }, 'it comes on anew', sub {
        $ng->counts({ block_size => 1, batches => 1, gap => 1, missed => 1 },
            'refused', sub {
                $other->publish_stored(tokens => [ 1 .. 8 ],
                    block_size => 8);
            });
    });
};


subtest 'refused events and messages' => sub {
    my ($id, $engine) = worker(ranks => 2);
    my $good = { type => 'BlockStored', block_hashes => [1], block_size => 4,
        token_ids => [ 1 .. 4 ] };

    # What is usual is counted, and no more.
    comes_on({}, 'two usual ones', sub {
        $ng->counts({ group => 2, unknown_block => 1, removed => 1,
            batches => 1 }, 'counted', sub {
                $engine->publish([
                    { %$good, group_idx => 1 }, { %$good, group_idx => 2 },
                    { type => 'BlockRemoved', block_hashes => [77] },
                ]);
            });
    });
    tells_at_once($id, 0, { warnings => [],
        refused => { group => 2, unknown_block => 1 } }, 'are no warning');

    comes_on({ refused => 1 }, 'one cause', sub {
        $ng->counts({ tokens => 2, stored => 2, batches => 1 },
            'too few tokens, twice', sub {
                $engine->publish([ map {
                    { %$good, block_hashes => [ $_, $_ + 1 ] } } 1, 11 ]);
            });
    });
    tells_at_once($id, 0, { warnings => ['refused'],
        refused => { group => 2, unknown_block => 1, tokens => 2 } },
        'for this reason');
    logged($id, 0, [qr/tokens/], 'which the log names once');

    comes_on({}, 'the cause is on already', sub {
        $ng->counts({ malformed => 1, unknown_tag => 1, unknown_parent => 1,
            frames => 1, batch => 1, batches => 1 }, 'more reasons', sub {
                $engine->publish([ {}, ['BlockMoved'],
                    { %$good, parent_block_hash => 4711 } ]);
                $engine->raw(['']);
                $engine->raw([ '', sprintf('%016x', $engine->report->{next}),
                    'c0' ]);
            });
    });
    tells_at_once($id, 0, { warnings => ['refused'], messages => 5,
        refused => { group => 2, unknown_block => 1, tokens => 2,
            malformed => 1, unknown_tag => 1, unknown_parent => 1,
            frames => 1, batch => 1 } }, 'all are told');
    tells_at_once($id, 1, { warnings => [], refused => {} },
        'the neighbour has nothing to do with it');

    comes_on({ refused => 1 }, 'of the neighbour', sub {
        $ng->counts({ frames => 1 }, 'a message',
            sub { $engine->raw([ '', '' ], rank => 1) });
    });
    tells_at_once($id, 1, { warnings => ['refused'], messages => 1,
        refused => { frames => 1 } }, 'that is none');
    logged($id, 1, [qr/frames/], 'is logged for itself');
};


subtest 'shared endpoints' => sub {
    my ($id, $engine) = worker();
    my $other = $next++;

    tells($id, 0, { warnings => [] }, 'alone');

    comes_on({ shared_endpoint => 2 }, 'two ranks', sub {
        $ng->register($other, model_name => "m$other", events($engine, 0));
        tells($_, 0, { warnings => ['shared_endpoint'] }, "worker $_")
            for $id, $other;
    });
    logged($_, 0, [$SHARED], "once for worker $_") for $id, $other;

    my $second = SelEngine->start(block_size => 4);
    comes_on({}, 'an endpoint of its own', sub {
        $ng->patch("/workers/$other", { events($second, 0) });
        tells($_, 0, { warnings => [] }, "ends it for worker $_")
            for $id, $other;
    });

    # Ranks of one worker, and the same endpoint in the other member.
    comes_on({ shared_endpoint => 3 }, 'three ranks', sub {
        $ng->patch("/workers/$id", { data_parallel_size => 2,
            kv_events_endpoints => { map { ($_ => $second->endpoint(0)) }
                0, 1 } });
        $ng->patch("/workers/$other", { kv_events_endpoints => {},
            kv_events_endpoint => $second->endpoint(0) });
        tells($id, $_, { warnings => ['shared_endpoint'] }, "rank $_")
            for 0, 1;
        tells($other, 0, { warnings => ['shared_endpoint'] }, 'another');
    });

    # New processes know the end of what others began.
    $ng->reload(gone => 1);
    tells($id, 1, { warnings => ['shared_endpoint'] }, 'after a reload');
    comes_on({}, 'one leaves, one goes elsewhere', sub {
        $ng->remove($other);
        $ng->patch("/workers/$id", { data_parallel_size => 1,
            kv_events_endpoints => { 0 => $second->endpoint(0) } });
        tells($id, 0, { warnings => [] }, 'nobody is left to share with');
    });
    logged($id, 1, [$SHARED], 'no reload repeats it in the log');
};


subtest 'A16, B5, B6: blocks that no prompt ever finds' => sub {
    my ($id, $engine, $prompt) = worker();
    my ($less, $publisher, $question) = worker();
    my ($pid) = $ng->workers;
    my $client = $ng->connection_to($pid, '/health');

    ask($client, 150, $prompt->(token_ids => [ 11 .. 18 ]));
    $ng->counts({ stored => 2, batches => 2 }, 'stored with a salt', sub {
        $_->publish([ { type => 'BlockStored', block_hashes => [1],
            token_ids => [ 1 .. 4 ], block_size => 4, cache_salt => 's' } ])
            for $engine, $publisher;
    });

    # Both are looked after at the same moment, in the process that was asked.
    comes_on({ never_matched => 1 }, '100 look-ups', sub {
        ask($client, 99, $question->(token_ids => [ 1 .. 8 ]));
        ask($client, 100, $prompt->(token_ids => [ 1 .. 8 ]));
    });
    tells_at_once($id, 0, { warnings => ['never_matched'] },
        'each process tells, also the one that was not asked');
    tells_at_once($less, 0, { warnings => [] }, '99 are too few');
    logged($id, 0, [$NEVER], 'the log once');
    logged($less, 0, [], 'not of those');

    comes_on({ never_matched => 1 }, 'one more', sub {
        ask($client, 1, $question->(token_ids => [ 1 .. 8 ]));
    });
    tells_at_once($less, 0, { warnings => ['never_matched'] }, 'is enough');

    # The other process has noticed nothing yet.
    comes_on({}, 'as many elsewhere are nothing new', sub {
        ask($ng->connection_to(($ng->workers)[1], '/health'), 100,
            $prompt->(token_ids => [ 1 .. 8 ]));
        $ng->at_once(sub { $ng->post('/select', $question->(
            token_ids => [ 1 .. 4 ], cache_salt => 's')) },
            sub { $_[0]->json->{overlap}{gpu} == 4 },
            'found with the salt');
        tells($less, 0, { warnings => [] }, 'which ends it');
    });
    tells_at_once($id, 0, { warnings => ['never_matched'] },
        'of that rank alone');
    logged($id, 0, [$NEVER], 'and the log has told it once');
};


# What was found out stays in force until somebody sees its end, whoever that
# is: the process that found it out may be gone by then.

subtest 'the end of what another process found' => sub {
    my ($twice, $dead) = never_matched('two ranks');
    my $two = $ng->connection_to(($ng->workers)[1], '/health');

    comes_on({}, 'the other one has found it out, too, and has a hit', sub {
        ask($two, 100, $twice->{miss});
        ask($two, 1, $twice->{prompt});
        tells($twice->{id}, 0, { warnings => [] }, 'which ends it');
    });

    my ($later, $old) = never_matched('two more');
    tells_at_once($twice->{id}, 0, { warnings => [] },
        'it does not begin anew where the hit was not seen');
    logged($twice->{id}, 0, [$NEVER], 'and is logged once');

    $ng->kill_worker(0, 'KILL');
    $dead->{engine}->wait_subscribers(2);
    tells_at_once($dead->{id}, 0, { warnings => ['never_matched'] },
        'after the death of the one that found it');
    comes_on({}, 'a hit', sub {
        ask($two, 1, $dead->{prompt});
        tells($dead->{id}, 0, { warnings => [] }, 'ends it');
    });

    $ng->reload(gone => 1);
    $old->{engine}->wait_subscribers(2);
    tells_at_once($_->{id}, 0, { warnings => ['never_matched'] },
        'after a reload') for $later, $old;
    comes_on({}, 'a hit', sub {
        $ng->counts({ stored => 1, batches => 1, gap => 1, missed => 1 },
            'stored again', sub {
                $old->{engine}->publish_stored(tokens => [ 1 .. 4 ]);
            });
        $ng->now($old->{prompt}, { "$old->{id}/0" => 1 }, 'in each process');
        tells($old->{id}, 0, { warnings => [] }, 'ends it');
    });
};


# Two ranks whose blocks the first process has found to be of no use, each
# with a prompt that finds none and one that finds one.

sub never_matched {
    my ($name) = @_;

    my $client = $ng->connection_to(($ng->workers)[0], '/health');
    my @ranks  = map {
        my ($id, $engine, $prompt) = worker();
        { id => $id, engine => $engine,
            miss   => $prompt->(token_ids => [ 11 .. 14 ]),
            prompt => $prompt->(token_ids => [ 1 .. 4 ]) };
    } 1, 2;

    $ng->counts({ stored => 2, batches => 2 }, "$name: stored", sub {
        $_->{engine}->publish_stored(tokens => [ 1 .. 4 ]) for @ranks;
    });
    comes_on({ never_matched => 2 }, "$name: of no use", sub {
        ask($client, 100, $_->{miss}) for @ranks;
    });

    return @ranks;
}


subtest 'no silence was told' => sub {
    my %causes = causes();
    is $causes{silent}, 0, 'with the warning off';
    unlike $ng->log, $SILENT, 'nor logged';
};

$ng->finish;


$ng = SelService->new(name => 'silence', log_level => 'warn',
    http => 'select_silence_warning 1s;')->run;


# Silent from here to the reload.

my ($one, $first)  = worker();
my ($two, $second) = worker();


subtest 'A16: silent engines' => sub {
    my ($quiet, $engine) = worker();
    my ($busy, $talker) = worker();
    my ($pair, $half) = worker(ranks => 2);
    my ($absent, $failed) = ($next++, $next++);
    my $nobody = SelEngine->start(block_size => 4);

    # Asks until it is right, while those that are not silent go on.
    my $both = sub {
        my ($id, $rank, $warnings, $name) = @_;
        $ng->in_time(sub {
            $talker->publish([ ['Ignored'] ]);
            $half->publish([ ['Ignored'] ], rank => 1) if $half->{pid};
            diagnostics($id)->();
        }, is_told($id, $rank, { warnings => $warnings }), $name);
    };

    $nobody->close;
    $ng->register($absent, model_name => "m$absent", events($nobody, 0));
    $ng->register($failed, model_name => "m$failed",
        kv_events_endpoint => 'tcp://*:1');

    comes_on({ silent => 5 }, 'five ranks', sub {
        $both->($_, 0, ['silent'], "worker $_")
            for $one, $two, $quiet, $absent, $pair;
    });
    tells_at_once($busy, 0, { warnings => [] }, 'not one that speaks');
    tells_at_once($pair, 1, { warnings => [] }, 'nor the other of two');
    tells_at_once($failed, 0, { listener => 'failed', warnings => [] },
        'nor one without connection, of which another thing is told');
    logged($_, 0, [$SILENT], "logged once: worker $_")
        for $quiet, $absent, $pair;
    logged($busy, 0, [], 'not of another');
    logged($pair, 1, [], 'nor of the other rank');

    comes_on({}, 'messages', sub {
        $engine->publish([ ['Ignored'] ]);
        $both->($quiet, 0, [], 'end it');
    });

    $half->stop;
    comes_on({ silent => 2 }, 'silence', sub {
        $both->($quiet, 0, ['silent'], 'comes again');
        $both->($pair, 1, ['silent'], 'or when an engine stops');
    });
    tells_at_once($pair, 1, { listener => 'active' },
        'which is no fault of the connection');
    logged($quiet, 0, [ $SILENT, $SILENT ], 'it is logged again');
    tells_at_once($absent, 0, { warnings => ['silent'] }, 'there it stayed');
    logged($absent, 0, [$SILENT], 'which is logged once');
    $ng->remove($quiet, $busy, $pair, $absent, $failed);
};


subtest 'the end of a silence that began before a reload' => sub {
    my $ends = sub {
        my ($id, $engine, $name) = @_;
        $engine->wait_subscribers(2);
        $ng->in_time(sub {
            $engine->publish([ ['Ignored'] ]);
            diagnostics($id)->();
        }, is_told($id, 0, { warnings => [] }), $name);
    };

    logged($_, 0, [$SILENT], "worker $_ is silent") for $one, $two;

    $ng->reload(gone => 1);
    $ends->($one, $first, 'new processes end it');

    $ng->reload(gone => 1, http => 'select_silence_warning off;');
    $ends->($two, $second, 'also such that would not warn of it');
};

$ng->finish;


# Without events there is nothing to be silent.

$ng = SelService->new(name => 'off', log_level => 'warn',
    http => "select_kv_events off;\nselect_silence_warning 1s;")->run;


subtest 'nothing is followed' => sub {
    $ng->register(1, model_name => 'm1');
    ask($ng->connection, 150, { model_name => 'm1',
        token_ids => [ 1 .. 8 ] });
    tells_at_once(1, 0, { listener => 'none', reason => undef,
        last_event_seconds => undef, messages => 0, events => 0,
        refused => {}, blocks => blocks(0), queries => 0, matched => 0,
        warnings => [] }, 'no listener, and no numbers');
};

all_done;
