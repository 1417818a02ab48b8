# Selections that wait to be booked: POST /select with an id keeps its result,
# POST /reservations with the id alone books it, in whatever process.  Without
# this suite a reservation could book another worker than the client was told,
# a selection could be booked twice or long after its time, and clients that
# never come back could fill the zone.
#
# Each step is answered by another process than the step before.  P6 and P9
# need a pause inside a replay, or a session; the race below comes near.

use strict;
use warnings;

use JSON::PP ();
use Test::More;
use Time::HiRes qw(time);

use SelBooks;
use SelCrowd;
use SelProc qw(poll_for);

my ($true, $false) = (JSON::PP::true, JSON::PP::false);
my $ng;


sub selects {
    my ($id, %members) = @_;

    %members = (token_ids => new_tokens(4)) if !%members;
    my $answer = $ng->ask('POST /select', { selection_id => $id, %members });

    die "selecting $id failed: " . $answer->body . "\n"
        if $answer->status != 200;

    return $answer->json;
}


sub miss {
    my ($id, %partition) = @_;

    return sprintf 'no pending selection %s for model=%s routing_group=%s '
        . '(expired, already used, or never selected)', $id,
        $partition{model_name} // 'default',
        $partition{routing_group} // 'default';
}


# Replays and checks the outcome: 201, or another status and its error; a 404
# without a text is a miss.

sub replays {
    my ($id, $status, $error, $name, %partition) = @_;

    $error //= miss($id, %partition) if $status == 404;

    return $ng->gives('POST /reservations', { selection_id => $id,
        %partition }, $status, $error, $name);
}


# Which of these ids are still pending?  Books and frees those.

sub pending {
    my (@ids) = @_;

    my @there;

    for my $id (@ids) {
        my $status = $ng->ask('POST /reservations',
            { selection_id => $id })->status;
        push @there, $status == 201 ? $id : $status == 404 ? () : $status;
        $ng->ask("DELETE /reservations/$id");
    }

    return "@there";
}


$ng = SelBooks->new(name => 'default')->run;


subtest 'P1, P8: looked up, booked, used up' => sub {
    $ng->afresh(1);
    selects('p8');
    $ng->loads_are('1/0 0 0 0', 'P8: a selection books nothing');
    $ng->gives('DELETE /reservations/p8', undef, 404,
        'reservation p8 not found', 'P8: and is no reservation');
    $ng->gives("POST /reservations/p8/$_", undef, 404,
        'reservation p8 not found', "P8: $_")
        for qw(prefill_complete output_block);

    replays('p8', 201, undef, 'P8: booked');
    replays('p8', 404, undef, 'P1: used up');
    $ng->loads_are('1/0 4 1 1', 'booked once');
    $ng->release('p8');
    replays('p8', 404, undef, 'and it does not come back');
};


subtest 'a miss in all its forms' => sub {
    $ng->afresh(1);
    replays('never', 404, undef, 'never selected');
    replays('', 404, undef, 'an empty id');
    replays('never', 404, undef, 'another model', model_name => 'm');
    $ng->remove(1);
    replays('never', 404, undef, 'a miss comes before the partition');
    selects_fails('x');
    $ng->register(1);
    replays('x', 404, undef, 'a selection that failed is none');
};

sub selects_fails {
    my ($id) = @_;

    $ng->gives('POST /select', { selection_id => $id, token_ids => [1] }, 503,
        'no schedulable workers are available', 'no worker');
}


subtest 'V7: an entry is one of its partition' => sub {
    $ng->afresh([ 1, model_name => 'model' ], [ 2, model_name => 'other' ],
        [ 3, model_name => 'model', routing_group => 'g' ]);
    my %in = (model_name => 'model');

    selects('v7', %in, token_ids => [ 1 .. 4 ]);
    replays('v7', 404, undef, 'V7: another model', model_name => 'other');
    replays('v7', 404, undef, 'another group', %in, routing_group => 'g');
    replays('v7', 404, undef, 'none');
    replays('v7', 201, undef, 'V7: its own', %in);
    $ng->loads_are('1/0 4 1 1, 3/0 0 0 0, 2/0 0 0 0', 'booked there');

    # The same id in three partitions.
    selects('same', %in, token_ids => [ 1 .. 5 ]);
    selects('same', model_name => 'other', token_ids => [ 1 .. 6 ]);
    selects('same', %in, routing_group => 'g', token_ids => [ 1 .. 7 ]);
    replays('same', 201, undef, 'three entries: one', model_name => 'other');
    replays('same', 409, 'selection same is already reserved or being '
        . 'reserved', 'whose ids are one', %in);
    $ng->release('same');
    replays('same', 201, undef, 'two', %in, routing_group => 'g');
    $ng->release('same');
    replays('same', 201, undef, 'three', %in);
    $ng->loads_are('1/0 9 1 2, 3/0 0 0 0, 2/0 0 0 0', 'each its own');
};


subtest 'what a replay books' => sub {
    $ng->afresh([ 1, data_parallel_size => 2 ], 2);

    my $rank = { worker_id => 1, dp_rank => 1 };
    selects('w', pinned_worker => $rank, hashed([ 5, 6, 7 ]),
        isl_tokens => 100, expected_output_tokens => 9);
    replays('w', 201, qr/"worker_id":1,"dp_rank":1,/, 'the rank');
    $ng->loads_are('1/0 0 0 0, 1/1 100 3 1, 2/0 0 0 0',
        'its tokens and hashes');
    $ng->book('x', 1, dp_rank => 1, sequence_hashes => [ 5, 6, 8 ],
        isl_tokens => 1);
    $ng->loads_are('1/0 0 0 0, 1/1 100 4 2, 2/0 0 0 0',
        'which are the same blocks as those of others');
    $ng->release(qw(w x));

    # A later selection of the id takes its place.
    selects('w', allowed_worker_ids => [1], pinned_worker => $rank,
        token_ids => [ 1 .. 4 ]);
    selects('w', allowed_worker_ids => [2], token_ids => [ 1 .. 8 ]);
    replays('w', 201, qr/"worker_id":2,"dp_rank":0,/, 'the latest');
    $ng->loads_are('1/0 0 0 0, 1/1 0 0 0, 2/0 8 2 1', 'and only that');
    $ng->release('w');
    replays('w', 404, undef, 'the one before has gone');

    # An advisory selection is kept, too.
    selects('adv', advisory => $true, allowed_worker_ids => [2],
        token_ids => [ 1 .. 4 ]);
    replays('adv', 201, qr/"worker_id":2,/, 'advisory');
    $ng->release('adv');

    # New identities are those of the selection.
    selects("n$_", allowed_worker_ids => [2], token_ids => [ 1 .. 8 ],
        router_config_override => { assume_kv_reuse => $false }) for 1, 2;
    replays("n$_", 201, undef, "without reuse, $_") for 1, 2;
    $ng->loads_are('1/0 0 0 0, 1/1 0 0 0, 2/0 16 4 2', 'nothing is shared');
    $ng->release(qw(n1 n2));

    # It books there whatever the load is now.
    selects('busy', allowed_worker_ids => [2], token_ids => [ 1 .. 4 ]);
    $ng->book('load', 2, hashed(500), effective_prefill_tokens => 2000);
    replays('busy', 201, qr/"worker_id":2,/, 'chosen is chosen');
    $ng->release(qw(busy load));
};


subtest 'V8: without a worker, and with it again' => sub {
    $ng->afresh(1);
    selects('v8', token_ids => [ 1 .. 4 ]);
    $ng->remove(1);
    replays('v8', 503, 'no schedulable workers are available',
        'V8: no worker is left') for 1, 2;
    $ng->register(2, model_name => 'other');
    replays('v8', 503,
        'no schedulable workers for model=default routing_group=default',
        'V8: none in its partition');
    $ng->register(3);
    replays('v8', 404, 'schedulable worker 1 (dp_rank 0) not found for '
        . 'model=default routing_group=default', 'V8: another one') for 1, 2;
    $ng->register(1);
    replays('v8', 201, qr/"worker_id":1,/, 'V8: it is back');
    $ng->loads_are('1/0 4 1 1, 3/0 0 0 0, 2/0 0 0 0', 'booked there');
};


subtest 'V9: beside a booking of the same id' => sub {
    $ng->afresh(1);
    selects('v9', token_ids => [ 1 .. 4 ]);
    $ng->gives('POST /select_and_reserve', { selection_id => 'v9',
        token_ids => [ 1 .. 9 ] }, 200, undef, 'V9: booked in one step');
    my $taken = 'selection v9 is already reserved or being reserved';
    replays('v9', 409, $taken, 'V9: taken') for 1, 2;
    $ng->loads_are('1/0 9 2 1', 'V9: the booking stands');
    $ng->release('v9');
    replays('v9', 201, undef, 'V9: the entry is still there');
    $ng->loads_are('1/0 4 1 1', 'V9: with what it was');

    # The id of a live booking can be selected.
    selects('v9', token_ids => [ 1 .. 6 ]);
    replays('v9', 409, $taken, 'its replay conflicts');
    $ng->release('v9');
    replays('v9', 201, undef, 'until the booking ends');
    $ng->loads_are('1/0 6 1 1', 'and books the later selection');
};


subtest 'V10: the rank goes and comes' => sub {
    $ng->afresh(1);
    selects('v10', token_ids => [ 1 .. 4 ]);
    $ng->gives('PATCH /workers/1', { data_parallel_start_rank => 1 }, 200,
        qr/"lifecycle":"schedulable"/, 'V10: it goes');
    replays('v10', 404, 'schedulable worker 1 (dp_rank 0) not found for '
        . 'model=default routing_group=default', 'V10: gone') for 1, 2;
    $ng->gives('PATCH /workers/1', { data_parallel_start_rank => 0 }, 200,
        qr/"lifecycle":"schedulable"/, 'V10: it comes');
    replays('v10', 201, undef, 'V10: booked');
    $ng->loads_are('1/0 4 1 1', 'V10: on it');

    # Incomplete, and in another partition.
    selects('w10', token_ids => [ 1 .. 4 ]);
    $ng->register(2);
    $ng->gives('PATCH /workers/1', { endpoint => '' }, 200,
        qr/"lifecycle":"incomplete"/, 'a worker becomes incomplete');
    replays('w10', 404, qr/schedulable worker 1 \(dp_rank 0\) not found/,
        'and cannot be booked');
    $ng->register(1, routing_group => 'g');
    replays('w10', 404, qr/schedulable worker 1 \(dp_rank 0\) not found/,
        'nor when it has moved');
    $ng->register(1);
    replays('w10', 201, qr/"worker_id":1,/, 'but again when it is back');
};


subtest 'V11: the explicit form takes the entry away' => sub {
    $ng->afresh(1);

    # Whether it succeeds or fails, but not for wrong types.
    my @cases = (
        [ 201, { worker_id => 1, hashed(1) }, 'it succeeds' ],
        [ 400, { worker_id => 1 }, 'a bad prompt' ],
        [ 400, { worker_id => 1, hashed(1), effective_prefill_tokens => 9 },
            'too many tokens' ],
        [ 404, { worker_id => 9, hashed(1) }, 'no such worker' ],
        [ 404, { worker_id => 1, dp_rank => 5, hashed(1) },
            'no such rank' ],
    );

    for my $case (@cases) {
        my ($status, $members, $name) = @$case;
        selects('v11');
        $ng->gives('POST /reservations', { selection_id => 'v11',
            %$members }, $status, undef, "V11: $name");
        $ng->release('v11') if $status == 201;
        replays('v11', 404, undef, "V11: $name: nothing is pending");
    }

    selects('v11');
    $ng->book('taken', 1, hashed(1));
    $ng->gives('POST /reservations', { selection_id => 'v11',
        worker_id => '1' }, 422, undef, 'wrong types');
    replays('v11', 201, undef, 'leave it');
    selects('v11');
    $ng->gives('POST /reservations', { selection_id => 'v11',
        worker_id => 1, hashed(1) }, 409, undef, 'a taken id');
    $ng->release('v11');
    replays('v11', 404, undef, 'takes it away, too');

    # Only that of its partition.
    $ng->register(2, model_name => 'm');
    selects('v11');
    $ng->gives('POST /reservations', { selection_id => 'v11',
        model_name => 'm', worker_id => 2, hashed(1) }, 201, undef,
        'an explicit reservation of another partition');
    $ng->release('v11');
    replays('v11', 201, undef, 'leaves it');

    # Also without a worker there.
    selects('w11', model_name => 'm', token_ids => [1]);
    $ng->remove(2);
    $ng->gives('POST /reservations', { selection_id => 'w11',
        model_name => 'm', worker_id => 2, hashed(1) }, 503, undef,
        'V11: no worker');
    $ng->register(2, model_name => 'm');
    replays('w11', 404, undef, 'V11: no worker: nothing is pending',
        model_name => 'm');
};


subtest 'any text is an id' => sub {
    $ng->afresh(1);

    my @ids = (' ', 'a"b', "\x00", "\x{e9}", "\x{1f600}", 'a/b',
        'x' x 300, 'y' x 60_000);

    selects($_, token_ids => [1]) for @ids;
    replays($_, 201, undef, 'an id of ' . length) for @ids;
    $ng->loads_are('1/0 ' . join(' ', scalar @ids, 0, scalar @ids),
        'all are booked');
};


subtest 'the room of entries comes back' => sub {
    $ng->afresh(1);

    my $used = $ng->metric('select_zone_chunks_used');
    my $fill = sub {
        my ($n) = @_;
        selects("$n-" . 'i' x 700, hashed([ map { $n * $_ } 1 .. 200 ]),
            lora_name => 'l' x 900, session_id => 's' x 200);
    };

    # Used, replaced and used, taken away.
    for my $n (1 .. 20) {
        my $id = "$n-" . 'i' x 700;
        $fill->($n) for 0 .. $n % 3;
        replays($id, 201, undef, "selection $n") if $n % 2;
        $ng->book($id, 1, hashed(1)) if $n % 2 == 0;
        $ng->release($id);
    }
    is $ng->metric('select_zone_chunks_used'), $used, 'all of it';

    $fill->(1);
    cmp_ok $ng->metric('select_pending_chunks'), '>', 10, 'an entry';
    cmp_ok $ng->metric('select_zone_chunks_used'), '>', $used, 'takes some';
};


subtest 'the default limit of entries' => sub {
    $ng->afresh(1);

    my $client = $ng->connection(timeout => 30);
    my $failed = 0;
    for my $part (0 .. 41) {
        $client->send(POST => '/select', body => { token_ids => [1],
            selection_id => 'e' . (100 * $part + $_) }) for 1 .. 100;
        $failed += $client->receive->status != 200 for 1 .. 100;
    }

    is $failed, 0, '4,200 selections';
    is pending(map { "e$_" } 1, 50, 104, 105, 106, 4200), 'e105 e106 e4200',
        'the last 4,096 are pending';
};


# One client books and frees an id, another one selects and replays it.

subtest 'P6: a race' => sub {
    $ng->afresh(1);

    my @seen = SelCrowd->start(map { my $who = $_; sub {
        my $http = $ng->connection;
        my %count;

        for my $n (1 .. 300) {
            $http->post('/select', { selection_id => 'race',
                token_ids => [ $who .. $who + 3 ] });
            my $status = $http->post('/reservations',
                { selection_id => 'race' })->status;
            $count{$status}++;
            $count{freed}++ if $http->delete('/reservations/race')->status
                == 200;
        }

        return \%count;
    } } 1 .. 3)->results;

    my %sum;
    for my $count (@seen) {
        $sum{$_} += $count->{$_} for keys %$count;
    }

    note join ', ', map { "$_: $sum{$_}" } sort keys %sum;
    is join(' ', sort grep { !/^(?:201|404|409|freed)$/ } keys %sum), '',
        'each replay books, comes too late, or finds the id taken';
    $sum{freed} //= 0;
    $sum{freed}++ if $ng->ask('DELETE /reservations/race')->status == 200;
    is $sum{freed}, $sum{201}, 'each booking is freed once';
    $ng->loads_are('1/0 0 0 0', 'nothing is left');
    selects('race');
    replays('race', 201, undef, 'and all is well afterwards');
};


subtest 'one of many replays' => sub {
    $ng->afresh(1);
    selects("one-$_") for 1 .. 100;

    my @counts = SelCrowd->start(map { sub {
        my $http = $ng->connection;
        my %count;

        $count{ $http->post('/reservations', { selection_id => "one-$_" })
            ->status }++ for 1 .. 100;

        return \%count;
    } } 1 .. 3)->results;

    my %sum = (409 => 0);
    for my $count (@counts) {
        $sum{$_} += $count->{$_} for keys %$count;
    }

    # Behind the one that books the others find the id taken, or no entry.
    is $sum{201}, 100, 'books each selection';
    is $sum{404} + $sum{409}, 200, 'the others do not';
    $ng->loads_are('1/0 400 100 100', 'as the loads say');
};


$ng->finish;


# Time.  The lookup comes before the id: an entry whose id is taken answers
# 409 while it is there, and nothing uses it up.

subtest 'P2, P3: entries have their time' => sub {
    $ng = SelBooks->new(name => 'time', http => 'select_pending ttl=2s;')
        ->run;
    $ng->register(1);

    my $start = time;
    selects('ttl');
    selects("t$_") for 1 .. 20;
    my $made = time;
    $ng->gives('POST /select_and_reserve', { selection_id => 'ttl',
        token_ids => [1] }, 200, undef, 'its id is taken');

    my ($status, $last, $first_miss) = (409, $start);
    poll_for(sub {
        my $before = time;
        $status = $ng->ask('POST /reservations',
            { selection_id => 'ttl' })->status;
        $last = $before if $status == 409;
        $first_miss = time if $status == 404;
        return $status != 409;
    }, 6);

    is $status, 404, 'P2: it is missed at last, replays that fail or not';
    cmp_ok $first_miss - $start, '>=', 2, 'P2: not too early';
    cmp_ok $last - $made, '<', at_most(2.3), 'P2: nor too late';
    poll_for(sub { time - $made > 2.1 }, 3);
    is pending(map { "t$_" } 1 .. 20), '', 'P2: those beside it, too';

    selects('fresh');
    is pending('t1', 'fresh', 't2'), 'fresh', 'P3: a new one is there';

    # A selection of the same id has a time of its own.
    selects('again');
    my $first = time;
    poll_for(sub { time - $first > 1.2 }, 3);
    selects('again');
    poll_for(sub { time - $first > 2.4 }, 3);
    replays('again', 201, undef, 'selected again it lives longer');
    $ng->finish;
};


# Numbers.  Entries of hashes, with an id of one byte, take 15 bytes and 8 a
# hash here, as nothing else is kept with events.

subtest 'P4: entries have their number' => sub {
    $ng = SelBooks->new(name => 'number', http => 'select_pending max=2;')
        ->run;
    $ng->register(1);

    selects($_) for qw(a b c);
    is $ng->metric('select_pending_kept_total'), 3, 'three were kept';
    is $ng->metric('select_pending_dropped_total', cause => 'limits'), 1,
        'one was dropped';
    is pending(qw(a b c)), 'b c', 'P4: the oldest is gone';

    selects($_) for qw(a b);
    selects('a');
    selects('c');
    is pending(qw(a b c)), 'a c', 'an entry that is selected again is young';

    selects($_) for qw(a b);
    replays('a', 201, undef, 'one of two is used');
    $ng->release('a');
    selects('c');
    is pending(qw(a b c)), 'b c', 'which makes room';

    # P7: entries that come and go behind an old one.
    selects('old');
    for my $n (1 .. 50) {
        selects("n$n");
        replays("n$n", 201, undef, "P7: round $n");
        $ng->release("n$n");
    }
    is pending('old'), 'old', 'P7: the old one stays';
    $ng->finish;
};


subtest 'P5: entries have their bytes' => sub {
    my $size = 3 * (8 * 10 + 1 + 7 + 7);

    $ng = SelBooks->new(name => 'bytes',
        http => "select_pending size=$size;")->run;
    $ng->register(1);

    my $ten = sub {
        my ($id, %more) = @_;
        selects($id, hashed(10), %more);
    };

    $ten->($_) for qw(a b c);
    is pending(qw(a b c)), 'a b c', 'three have room';
    $ten->($_) for qw(a b c d);
    is pending(qw(a b c d)), 'b c d', 'P5: of four the oldest goes';
    $ten->($_) for qw(a b c);
    $ten->('a');
    is pending(qw(a b c)), 'a b c', 'one that is replaced makes room';

    # Each byte counts.
    $ten->($_) for qw(a b);
    $ten->('cc');
    is pending(qw(a b cc)), 'b cc', 'the id';
    $ten->($_) for qw(a b);
    $ten->('c', lora_name => 'x');
    is pending(qw(a b c)), 'b c', 'the LoRA name';
    $ten->($_) for qw(a b);
    selects('c', hashed(11));
    is pending(qw(a b c)), 'b c', 'the hashes';

    # One that is larger than all the room.
    $ten->($_) for qw(a b);
    selects('big', hashed(60));
    is pending(qw(a b big)), '', 'drops all others, and itself';
    selects('x' x 300);
    is pending('x' x 300), '', 'also by its id';
    $ten->('a');
    is pending('a'), 'a', 'and things go on';

    # New limits come with a reload, and bind at the next selection.
    $ten->($_) for qw(a b c);
    $ng->reload(http => $ng->{http} =~ s/size=\d+/size=@{[ $size - 1 ]}/r);
    $ng->meet;
    $ten->('d');
    is pending(qw(a b c d)), 'c d', 'one byte less';
    $ng->finish;
};


for my $limit (qw(ttl=0 max=0 size=0)) {
    subtest "$limit: nothing is pending" => sub {
        $ng = SelBooks->new(name => $limit, http => "select_pending $limit;")
            ->run;
        $ng->register(1);
        selects('zero');
        replays('zero', 404, undef, 'a selection is gone at once');
        selects('zero');
        replays('zero', 404, undef, 'and again');
        $ng->gives('POST /select_and_reserve', { selection_id => 'zero',
            token_ids => [1] }, 200, undef, 'bookings have nothing to do '
            . 'with it');
        $ng->finish;
    };
}


subtest 'limits that are none' => sub {
    my @wrong = ('ttl=-1s', 'max=-1', 'size=-1', 'ttl=x', 'max=x', 'size=x',
        'ttl=', 'max=', 'size=', 'other=1', '10',
        'max=99999999999999999999', 'max=1.5');

    my $tester = SelBooks->new(name => 'limits');

    for my $wrong (@wrong) {
        my ($code, $said) = $tester->test_conf(
            http => "select_pending $wrong;");
        ok $code =~ /\b1\b/ && $said =~ /\[emerg\].*select_pending/, $wrong
            or diag "$code: $said";
    }

    my ($code, $said) = $tester->test_conf(
        http => "select_pending max=1;\nselect_pending max=2;");
    like $said, qr/\[emerg\].*"select_pending".*duplicate/, 'written twice';
};

all_done;
