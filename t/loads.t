# Loads: what GET /loads and POST /potential_loads tell of the bookings, what
# a selection makes of them, and what is left of them when workers change.
# Without this suite requests could pile up on a busy worker, a worker that was
# registered anew could start with the load of its former life, or lose the
# requests that it still serves.
#
# Each step is answered by another process than the step before.  Examples are
# those of docs/scheduling.md and of the specification that it follows: a rank
# gets the load that an example names by one booking, with hashes that no
# prompt has, and its cached blocks from a simulated engine.

use strict;
use warnings;

use JSON::PP ();
use Test::More;
use Time::HiRes qw(time);

use SelBooks;
use SelCrowd;
use SelEngine;

my ($true, $false) = (JSON::PP::true, JSON::PP::false);
my $ng = SelBooks->new(connections => 2048, server => <<'SERVER')->run;
    location /decay/ {
        select_overlap_score_credit_decay 1;
        select_service selector;
    }
    location /steep/ {
        select_overlap_score_credit_decay 4;
        select_service selector;
    }
    location /count/ {
        select_active_request_weight 2;
        select_service selector;
    }
    location /busy/ {
        select_prefill_busy_threshold 0.5;
        select_decode_busy_threshold 0.05;
        select_service selector;
    }
    location /half/ {
        select_decode_busy_threshold 0.5;
        select_service selector;
    }
SERVER

my ($hash, $serial) = (1_000_000, 0);


# Books a load on a rank: prefill tokens and blocks in so many bookings, which
# share the blocks.  Returns the ids.

sub load {
    my ($worker, $rank, $tokens, $blocks, $requests, %members) = @_;

    my @hashes = map { ++$hash } 1 .. $blocks;
    my @ids;

    for my $n (1 .. $requests // 1) {
        push @ids, 'load-' . ++$serial;
        $ng->book($ids[-1], $worker, dp_rank => $rank,
            sequence_hashes => \@hashes, isl_tokens => 1_000_000,
            effective_prefill_tokens => $n == 1 ? $tokens : 0, %members);
    }

    return @ids;
}


# Which ranks are chosen in some tries; each process has its turns.

sub chosen {
    my ($tries, $body, $path) = @_;

    my %seen;

    for (1 .. $tries) {
        my $answer = $ng->ask('POST ' . ($path // '') . '/select', $body);
        my $json   = $answer->json;
        $seen{ $answer->status == 200 ? "$json->{worker_id}.$json->{dp_rank}"
            : $answer->status }++;
    }

    return join ' ', sort keys %seen;
}

sub chooses {
    my ($rank, $body, $name, $path) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return is chosen(8, $body, $path), $rank, $name;
}

sub ties {
    my ($ranks, $body, $name, $path) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    # By chance less than once in a billion.
    return is chosen(60, $body, $path), $ranks, $name;
}


# Workers that follow an engine with so many blocks each: [ worker, members,
# blocks of its ranks ].  Returns the engine, and their prompt.

my $prompt = 0;

sub cached {
    my ($block_size, $length, @workers) = @_;

    my $first  = 1000 * ++$prompt * $block_size;
    my @tokens = ($first .. $first + $block_size * $length - 1);
    my $ranks  = 0;
    $ranks += @{ $_->[2] } for @workers;
    my $engine = SelEngine->start(ranks => $ranks,
        block_size => $block_size);
    my $socket = 0;

    $ng->afresh;
    for my $worker (@workers) {
        my ($id, $members, $blocks) = @$worker;
        my $start = $members->{data_parallel_start_rank} // 0;
        $ng->register($id, model_name => "bs$block_size",
            block_size => $block_size, data_parallel_size => scalar @$blocks,
            kv_events_endpoints => { map { ($start + $_ =>
                $engine->endpoint($socket + $_)) } 0 .. $#$blocks },
            %$members);
        $socket += @$blocks;
    }
    $engine->wait_subscribers(2, $_) for 0 .. $ranks - 1;

    my ($stored, %sent) = (0);
    $socket = 0;
    for my $worker (@workers) {
        my ($id, $members, $blocks) = @$worker;
        my $start = $members->{data_parallel_start_rank} // 0;
        for my $n (0 .. $#$blocks) {
            $sent{ $socket + $n } = [ $start + $n, $blocks->[$n] ]
                if $blocks->[$n];
        }
        $socket += @$blocks;
    }
    $ng->counts({ stored => scalar keys %sent, batches => scalar keys %sent },
        'the engine stores', sub {
            for my $n (sort keys %sent) {
                my ($rank, $count) = @{ $sent{$n} };
                $engine->publish_stored(rank => $n, dp_rank => $rank,
                    tokens => [ @tokens[ 0 .. $count * $block_size - 1 ] ]);
            }
        }) if %sent;

    return ($engine, { model_name => "bs$block_size",
        token_ids => \@tokens });
}


subtest 'GET /loads' => sub {
    $ng->gives('GET /loads', undef, 200, '[]', 'nothing at first');

    $ng->register(10, model_name => 'b', data_parallel_size => 2,
        data_parallel_start_rank => 9);
    $ng->register(9, model_name => 'b');
    $ng->register('18446744073709551615' + 0, model_name => 'b');
    $ng->register(3, model_name => 'a', routing_group => 'z');
    $ng->register(4, model_name => 'a', routing_group => 'Z');
    $ng->register(5, model_name => 'b', routing_group => 'a b&c');
    $ng->post('/workers', { worker_id => 6, model_name => 'c' });
    $ng->book('one', 10, model_name => 'b', dp_rank => 10, hashed(2),
        effective_prefill_tokens => 7);
    $ng->book('two', 10, model_name => 'b', dp_rank => 10, hashed(3));

    my $row = sub { sprintf '{"worker_id":%s,"dp_rank":%s,'
        . '"potential_prefill_tokens":%s,"potential_decode_blocks":%s,'
        . '"active_requests":%s}', @_ };
    my $part = sub {
        my ($model, $group, @rows) = @_;
        return "{\"model_name\":\"$model\",\"routing_group\":\"$group\","
            . '"loads":[' . join(',', @rows) . '],"pending_count":0,'
            . '"pending_isl_tokens":0}';
    };
    my @all = (
        $part->('a', 'Z', $row->(4, 0, 0, 0, 0)),
        $part->('a', 'z', $row->(3, 0, 0, 0, 0)),
        $part->('b', 'a b&c', $row->(5, 0, 0, 0, 0)),
        $part->('b', 'default', $row->(9, 0, 0, 0, 0),
            $row->(10, 9, 0, 0, 0), $row->(10, 10, 7, 3, 2),
            $row->('18446744073709551615', 0, 0, 0, 0)),
    );
    my %lists = (
        ''                                  => [ 0 .. 3 ],
        '?model_name=b'                     => [ 2, 3 ],
        '?routing_group=default'            => [3],
        '?model_name=a&routing_group=z'     => [1],
        '?routing_group=z&model_name=a'     => [1],
        '?model_name=b&routing_group=z'     => [],
        '?model_name=A'                     => [],
        '?model_name='                      => [],
        '?model_name'                       => [],
        '?model_name=c'                     => [],
        '?routing_group=a%20b%26c'          => [2],
        '?routing_group=a+b%26c'            => [2],
        '?tenant_id=x&other=1&model_name=a' => [ 0, 1 ],
        '?tenant_id=default'                => [ 0 .. 3 ],
    );

    for my $query (sort keys %lists) {
        my $want = '[' . join(',', @all[ @{ $lists{$query} } ]) . ']';
        $ng->gives("GET /loads$query", undef, 200, $want, "/loads$query")
            for 1, 2;
    }

    for my $query ('model_name=a&model_name=a',
        'routing_group=a&x=1&routing_group=b')
    {
        my $answer = $ng->ask("GET /loads?$query");
        is $answer->status, 400, $query;
        like $answer->body, qr/\AFailed to deserialize query string: /,
            'is refused';
        is $answer->header('Content-Type'), 'text/plain; charset=utf-8',
            'in plain text';
    }

    for my $method (qw(POST PUT PATCH DELETE OPTIONS)) {
        my $answer = $ng->ask("$method /loads");
        is $answer->status . ' ' . $answer->body,
            '405 {"error":"method not allowed"}', $method;
        like $answer->header('Allow'), qr/\bGET\b/, 'GET is allowed';
    }

    my $head = $ng->ask('HEAD /loads');
    is $head->status . $head->body, '200', 'HEAD';
    $ng->gives('GET /loads/', undef, 404, 'route not found', 'another path');

    # A partition is there for ever, its workers are not.
    $ng->afresh;
    my $list = join ',', map { $part->(@$_) } [ 'a', 'Z' ], [ 'a', 'z' ],
        [ 'b', 'a b&c' ], [ 'b', 'default' ];
    $ng->gives('GET /loads', undef, 200, "[$list]", 'without workers')
        for 1, 2;
};


subtest '/potential_loads: a load, and a prompt upon it' => sub {
    $ng->afresh([ 7, data_parallel_size => 2 ], 9);
    $ng->book('p', 7, hashed([ 201, 202 ]), effective_prefill_tokens => 8);

    my $potential = sub {
        my ($hashes, @rows) = @_;
        my $want = '[' . join(',', map { sprintf '{"worker_id":%d,'
            . '"dp_rank":%d,"potential_prefill_tokens":%d,'
            . '"potential_decode_blocks":%d,"active_requests":%d}', @$_ }
            @rows) . ']';
        my $name = pop @$hashes;
        $ng->gives('POST /potential_loads', { hashed($hashes) }, 200, $want,
            $name) for 1, 2;
    };

    $potential->([ 201, 203, 'one block is there' ], [ 7, 0, 16, 3, 1 ],
        [ 7, 1, 8, 2, 0 ], [ 9, 0, 8, 2, 0 ]);
    $potential->([ 201, 202, 203, 'two are' ], [ 7, 0, 20, 3, 1 ],
        [ 7, 1, 12, 3, 0 ], [ 9, 0, 12, 3, 0 ]);
    $potential->([ 202, 201, 'none is' ], [ 7, 0, 16, 4, 1 ],
        [ 7, 1, 8, 2, 0 ], [ 9, 0, 8, 2, 0 ]);
    $ng->gives('POST /potential_loads', { hashed([ 201, 202 ]),
        router_config_override => { track_prefill_tokens => $false } }, 200,
        qr/\A\[\{"worker_id":7,"dp_rank":0,"potential_prefill_tokens":8,
            "potential_decode_blocks":2,"active_requests":1\}/x,
        'a prefill that does not count is not added');
    $ng->gives('POST /potential_loads', { token_ids => [] }, 200,
        qr/\A\[\{"worker_id":7,"dp_rank":0,"potential_prefill_tokens":8,
            "potential_decode_blocks":2,"active_requests":1\}/x,
        'an empty prompt adds nothing');
    $ng->loads_are('7/0 8 2 1, 7/1 0 0 0, 9/0 0 0 0', 'nothing is booked');
};


subtest 'a selection tells the load that it meets' => sub {
    $ng->afresh([ 1, max_num_batched_tokens => 1024,
        total_kv_blocks => 1000 ]);
    load(1, 0, 512, 10);

    my $advisory = sub {
        my ($tokens, $busy, $name) = @_;
        $ng->gives('POST /busy/select', { token_ids => new_tokens(4),
            advisory => $true }, 200, qr/"decode_busy":false,"worker_load":
                \{"active_prefill_tokens":$tokens,
                "prefill_token_capacity":1024,"total_kv_blocks":1000,
                "prefill_busy":$busy\}\}\z/x, $name) for 1, 2;
    };

    $advisory->(512, 'false', 'half of the capacity is not busy');
    my ($more) = load(1, 0, 1, 0);
    $advisory->(513, 'true', 'one token more is');
    $ng->ok_status("POST /reservations/$more/prefill_complete");
    $advisory->(512, 'false', 'until it is done');
    $ng->gives('POST /busy/select', { token_ids => new_tokens(4) }, 200,
        qr/"potential_decode_blocks":11,"decode_busy":false\}\z/,
        'S4: no load without being asked');
    load(1, 0, 0, 40);
    $ng->gives('POST /busy/select', { token_ids => new_tokens(4) }, 200,
        qr/"potential_decode_blocks":51,"decode_busy":true\}\z/,
        'S4: more than 5 of 100 blocks');
    $ng->loads_are('1/0 512 50 3', 'selections book nothing');
};


subtest 'E5: a prompt that nobody knows goes to the least loaded' => sub {
    $ng->afresh(1, 2, 3);
    load(1, 0, 400, 2);
    load(2, 0, 0, 90);
    chooses('3.0', { token_ids => new_tokens(8) }, 'the idle one');
    load(3, 0, 480, 0);
    chooses('2.0', { token_ids => new_tokens(8) }, '90 blocks of decoding');
    load(2, 0, 0, 20);
    chooses('1.0', { token_ids => new_tokens(8) }, '100 of prefill and 2');
    ties('1.0 2.0 3.0', { token_ids => new_tokens(8), router_config_override
        => { router_temperature => 1000 } }, 'a temperature spreads');
};


subtest 'examples 1, 4, 9: load against cache' => sub {
    my ($engine, $ask) = cached(64, 32, [ 1, {}, [20] ], [ 2, {}, [0] ]);
    my $of = sub { return { %$ask, router_config_override => {@_} } };
    my %in = (model_name => 'bs64');
    my @b;

    load(1, 0, 3200, 40, 1, %in);
    @b = load(2, 0, 640, 70, 1, %in);
    $ng->loads_are('1/0 3200 40 1, 2/0 640 70 1', 'the loads');

    $ng->gives('POST /select', $ask, 200,
        qr/"worker_id":1,.*"effective_prefill_tokens":768,
            "potential_decode_blocks":72\}\z/x, 'example 1: A wins')
        for 1 .. 6;

    chooses('2.0', $of->(overlap_score_credit => 0),
        'example 9: B without a credit');
    chooses('1.0', $of->(prefill_load_scale => 0),
        'example 9: A by decoding alone');
    chooses('1.0', $of->(track_prefill_tokens => $false),
        'example 9: A when prefill does not count');

    # The same, but with B's blocks where the costs meet.
    $ng->release(@b);
    @b = load(2, 0, 640, 61, 1, %in);
    chooses('1.0', $ask, 'example 4: one block more than a tie');
    $ng->release(@b);
    @b = load(2, 0, 640, 59, 1, %in);
    chooses('2.0', $ask, 'example 4: one block less');
    $ng->release(@b);
    @b = load(2, 0, 640, 60, 1, %in);
    ties('1.0 2.0', $ask, 'example 4: both cost the same');

    # Booked: what does not count is not added.
    $ng->gives('POST /select_and_reserve', { selection_id => 'ex9',
        %{ $of->(track_prefill_tokens => $false) },
        allowed_worker_ids => [1] }, 200,
        qr/"track_prefill_tokens":false,.*"effective_prefill_tokens":768,/,
        'example 9: booked');
    $ng->loads_are('1/0 3200 72 2, 2/0 640 60 1', 'example 9: no tokens');
    $ng->release('ex9');
    $ng->gives('POST /select_and_reserve', { selection_id => 'ex1', %$ask,
        allowed_worker_ids => [1] }, 200, qr/"track_prefill_tokens":true,/,
        'example 1: booked');
    $ng->loads_are('1/0 3968 72 2, 2/0 640 60 1',
        'example 1: what the cache leaves to do');
};


subtest 'three that are equal' => sub {
    $ng->afresh(1, 2, 3);
    load($_, 0, 100, 5) for 1 .. 3;

    my %count;
    for (1 .. 600) {
        my $answer = $ng->ask('POST /select', { hashed(3) });
        $count{ $answer->json->{worker_id} }++;
    }

    # 200 each; 70 is six standard deviations.
    for my $worker (1 .. 3) {
        my $got = $count{$worker} // 0;
        cmp_ok abs($got - 200), '<', 70, "example 4: $got for $worker";
    }
};


subtest 'example 3: the credit decays' => sub {
    my ($engine, $ask) = cached(16, 64, [ 1, {}, [60] ], [ 2, {}, [0] ]);
    my %in = (model_name => 'bs16');

    load(1, 0, 896, 0, 1, %in);
    chooses('1.0', $ask, 'example 3: 124 against 128');
    chooses('2.0', $ask, 'example 3: 152 against 128', '/decay');
    chooses('2.0', $ask, 'example 3: 170.7 against 128', '/steep');

    # B's blocks tell what A costs.
    for my $case ([ '', undef, 3 ], [ '/decay', 23, 25 ],
        [ '/steep', 42, 43 ])
    {
        my ($path, $less, $more) = @$case;
        if (defined $less) {
            my @b = load(2, 0, 0, $less, 1, %in);
            chooses('2.0', $ask, "$path: $less blocks are less", $path);
            $ng->release(@b);
        }
        my @b = load(2, 0, 0, $more, 1, %in);
        chooses('1.0', $ask, "$path: $more blocks are more", $path);
        $ng->release(@b);
    }
};


subtest 'example 6: ranks' => sub {
    my ($engine, $ask) = cached(16, 16,
        [ 7, { data_parallel_start_rank => 2 }, [ 8, 2 ] ], [ 9, {}, [0] ]);
    my %in = (model_name => 'bs16');

    load(7, 2, 512, 10, 1, %in);
    load(7, 3, 0, 4, 1, %in);
    $ng->loads_are('7/2 512 10 1, 7/3 0 4 1, 9/0 0 0 0', 'the loads');
    chooses('9.0', $ask, 'example 6: 66, 34 and 32');
    chooses('7.3', { %$ask, affinity_target => { worker_id => 7,
        dp_rank => undef } }, 'example 6: a worker as target');
    chooses('7.2', { %$ask, affinity_target => { worker_id => 7,
        dp_rank => 2 } }, 'example 6: a rank');
    chooses('9.0', { %$ask, affinity_target => { worker_id => 8,
        dp_rank => undef } }, 'example 6: no such worker');

    my @two = load(9, 0, 0, 1, 1, %in);
    chooses('9.0', $ask, '33');
    push @two, load(9, 0, 0, 2, 1, %in);
    chooses('7.3', $ask, '35 is more than 34');
    $ng->release($two[0]);
    ties('7.3 9.0', $ask, '34 is as much');
};


subtest 'example 11: the tail, and what is shared' => sub {
    $ng->afresh(map { [ $_, model_name => 'm16', block_size => 16,
        total_kv_blocks => 4096 ] } 1, 2);
    my %in = (model_name => 'm16');
    my %prompt = (%in, block_hashes => [ 1, 2 ], sequence_hashes => [ 1, 2 ],
        isl_tokens => 33);
    my %one = (%prompt, allowed_worker_ids => [1]);

    my @a = load(1, 0, 0, 100, 1, %in);
    $ng->gives('POST /select', \%one, 200,
        qr/"potential_decode_blocks":103\}\z/, 'example 11: 102 and a tail');
    $ng->gives('POST /potential_loads', \%prompt, 200,
        qr/"worker_id":1,.*?"potential_decode_blocks":102,/,
        'example 11: no tail there');

    # The other worker's blocks tell that the tail is not in the cost.
    my @b = load(2, 0, 0, 99, 1, %in);
    chooses('2.0', \%prompt, 'example 11: 101 is less than 102');
    $ng->release(@b);
    @b = load(2, 0, 0, 101, 1, %in);
    chooses('1.0', \%prompt, 'example 11: 103 is more');
    $ng->release(@b, @a);

    # All of it is there already.
    $ng->book('shared', 1, %in, sequence_hashes => [ 1, 2 ],
        isl_tokens => 32);
    load(1, 0, 0, 98, 1, %in);
    $ng->loads_are('1/0 0 100 2, 2/0 0 0 0', '100 blocks');
    $ng->gives('POST /select', \%one, 200,
        qr/"potential_decode_blocks":101\}\z/, 'example 11: 100 and a tail');
    @b = load(2, 0, 0, 97, 1, %in);
    chooses('2.0', \%prompt, 'example 11: 99 is less than 100');
    $ng->release(@b);
    @b = load(2, 0, 0, 98, 1, %in);
    ties('1.0 2.0', \%prompt, 'example 11: 100 is as much');
    $ng->release(@b);
    load(2, 0, 0, 99, 1, %in);
    chooses('1.0', \%prompt, 'example 11: 101 is more');

    load(1, 0, 0, 111, 1, %in);
    for my $case ([ '/busy', 'true' ], [ '/half', 'false' ]) {
        my ($path, $word) = @$case;
        $ng->gives("POST $path/select", \%one, 200,
            qr/"potential_decode_blocks":212,"decode_busy":$word\}\z/,
            "example 11: 212 of 4096, $path");
    }
};


subtest 'example 12: output decays' => sub {
    $ng->afresh([ 1, model_name => 'm16', block_size => 16 ]);
    $ng->book('ex12', 1, model_name => 'm16', hashed(4), isl_tokens => 64,
        expected_output_tokens => 32);

    for my $step ([ '0.96875', 5 ], [ '0.46875', 3 ], [ '0', 0 ]) {
        my ($fraction, $blocks) = @$step;
        $ng->ok_status('POST /reservations/ex12/output_block',
            "{\"decay_fraction\":$fraction}", $fraction);
        $ng->loads_are("1/0 0 $blocks 1", "example 12: $blocks blocks");
    }
};


subtest 'example 13: active requests weigh' => sub {
    $ng->afresh(map { [ $_, model_name => 'm16', block_size => 16 ] } 1, 2);
    my %in  = (model_name => 'm16');
    my %ask = (%in, hashed([ 1 .. 4 ]), isl_tokens => 64);

    load(1, 0, 0, 10, 1, %in);
    my @b = load(2, 0, 0, 4, 6, %in);
    $ng->loads_are('1/0 0 10 1, 2/0 0 4 6', 'the loads');
    chooses('2.0', \%ask, 'example 13: 18 against 12');
    chooses('1.0', \%ask, 'example 13: 20 against 24', '/count');
    $ng->release(@b[ 0, 1 ]);
    ties('1.0 2.0', \%ask, '20 against 20', '/count');
    $ng->release($b[2]);
    chooses('2.0', \%ask, '20 against 18', '/count');
};


subtest '1.9: an update keeps the bookings of its ranks' => sub {
    $ng->afresh([ 1, data_parallel_size => 3 ], 2);

    for my $rank (0 .. 2) {
        $ng->book("k$rank", 1, dp_rank => $rank, hashed(2 + $rank),
            effective_prefill_tokens => 4);
    }
    $ng->book('k', 2, hashed(9), effective_prefill_tokens => 1);
    my ($other, $all) = (', 2/0 1 9 1',
        '1/0 4 2 1, 1/1 4 3 1, 1/2 4 4 1, 2/0 1 9 1');

    $ng->gives('PATCH /workers/1', { total_kv_blocks => 77, taints => ['t'],
        max_num_batched_tokens => 5, endpoint => 'e' }, 200, undef, 'D4');
    $ng->loads_are($all, 'D4: settings');
    $ng->register(1, data_parallel_size => 3);
    $ng->loads_are($all, 'C3: registered again');
    $ng->register(1, data_parallel_size => 3, kv_events_endpoints =>
        { map { ($_ => 'tcp://127.0.0.1:9') } 0 .. 5 });
    $ng->loads_are($all, 'with other event endpoints');

    $ng->gives('PATCH /workers/1', { data_parallel_size => 2 }, 200, undef,
        'a rank goes');
    $ng->loads_are('1/0 4 2 1, 1/1 4 3 1, 2/0 1 9 1', 'its bookings go');
    $ng->gives('DELETE /reservations/k2', undef, 404,
        'reservation k2 not found', 'and are not found');
    $ng->book('k2', 2, hashed(1));
    $ng->release('k2');

    # Ranks 1 and 2 instead of 0 and 1.
    $ng->gives('PATCH /workers/1', { data_parallel_start_rank => 1 }, 200,
        undef, 'the ranks move on');
    $ng->loads_are('1/1 4 3 1, 1/2 0 0 0, 2/0 1 9 1',
        'the one that stays keeps its booking, the new one is empty');
    $ng->gives('POST /reservations/k0/output_block', '{}', 404,
        'reservation k0 not found', 'rank 0 has gone');
    $ng->ok_status('POST /reservations/k1/output_block', '{}',
        'rank 1 has not');
    $ng->gives('PATCH /workers/1', { data_parallel_start_rank => 0,
        data_parallel_size => 3 }, 200, undef, 'all ranks again');
    $ng->loads_are('1/0 0 0 0, 1/1 4 4 1, 1/2 0 0 0, 2/0 1 9 1',
        'nothing comes back');
};


subtest '1.9: a worker that goes takes its bookings along' => sub {
    my %ways = (
        'deleted'    => sub { $ng->remove(1) },
        'incomplete' => sub { $ng->gives('PATCH /workers/1',
            { endpoint => '' }, 200, qr/"lifecycle":"incomplete"/,
            'incomplete') },
        'registered incomplete' => sub { $ng->gives('POST /workers',
            { worker_id => 1, block_size => 4 }, 201,
            qr/"lifecycle":"incomplete"/, 'incomplete') },
        'moved'      => sub { $ng->register(1, routing_group => 'g') },
        'renamed'    => sub { $ng->register(1, model_name => 'm') },
    );

    for my $way (sort keys %ways) {
        $ng->afresh(1, 2);
        $ng->book("w$_", 1, hashed(3), effective_prefill_tokens => 12)
            for 1 .. 5;
        $ng->book('stays', 2, hashed(3), effective_prefill_tokens => 12);
        $ways{$way}->();

        my $loads = $ng->loads;
        is join(', ', grep { /^2/ } split /, /, $loads), '2/0 12 3 1',
            "$way: the other worker's booking stays";
        is join(', ', grep { /^1/ && !/ 0 0 0$/ } split /, /, $loads), '',
            "$way: its own are gone";
        $ng->gives("POST /reservations/w1/$_", undef, 404,
            'reservation w1 not found', "$way: $_")
            for qw(prefill_complete output_block);
        $ng->gives('DELETE /reservations/w2', undef, 404,
            'reservation w2 not found', "$way: DELETE");
        $ng->book('w3', 2, hashed([9]));
        pass("$way: the ids are free");

        # D13: frees of the former life.
        $ng->register(1);
        $ng->loads_are('1/0 0 0 0, 2/0 12 4 2', "$way: back, and idle");
        $ng->gives('DELETE /reservations/w4', undef, 404,
            'reservation w4 not found', "D13: $way: a late free");
        $ng->loads_are('1/0 0 0 0, 2/0 12 4 2', "D13: $way: never below 0");
        $ng->release(qw(w3 stays));
    }
};


subtest 'D3: a worker goes in the midst of bookings' => sub {
    $ng->afresh(1);

    my $crowd = SelCrowd->start(map { my $who = $_; sub {
        my ($go_on) = @_;
        my $http = $ng->connection;
        my %count;

        for (my $n = 1; $go_on->(); $n++) {
            my $answer = $http->post('/select_and_reserve', {
                selection_id => "$who-$n", token_ids => [ $n .. $n + 7 ] });
            $count{ $answer->status }++;
        }

        return \%count;
    } } 1 .. 3);

    my @wrong;
    for my $round (1 .. 40) {
        $ng->delete('/workers/1');
        my $loads = $ng->loads;
        push @wrong, "deleted: $loads" if $loads ne '';
        $ng->register(1);
    }
    my @counts = $crowd->stop;
    $ng->remove(1);
    $ng->register(1);

    my %sum;
    for my $count (@counts) {
        $sum{$_} += $count->{$_} for keys %$count;
    }
    note join ', ', map { "$_: $sum{$_}" } sort keys %sum;

    is "@wrong", '', 'no load is left behind';
    is join(' ', grep { !/^(?:200|500|503)$/ } sort keys %sum), '',
        'bookings succeed, or find no worker';
    cmp_ok $sum{200} // 0, '>', 40, 'some succeed';
    $ng->loads_are('1/0 0 0 0', 'nothing is left');
};


subtest 'D12, D16: what each process books is one sum' => sub {
    $ng->afresh(1);

    my ($one, $two) = $ng->clients;
    my $sum = 0;

    for my $n (1 .. 20) {
        my @prompt = (worker_id => 1, hashed([ 1, 100 + $n ],
            isl_tokens => 100));

        is $one->post('/reservations', { selection_id => "one-$n", @prompt,
            effective_prefill_tokens => $n })->status, 201, "$n here";
        is $two->post('/reservations', { selection_id => "two-$n", @prompt,
            effective_prefill_tokens => 1 })->status, 201, "$n there";
        $sum += $n + 1;
    }
    $ng->loads_are("1/0 $sum 21 40", 'all of it, what is shared once');

    is join(' ', map { ($two->delete("/reservations/one-$_")->status,
        $one->delete("/reservations/two-$_")->status) } 1 .. 20),
        join(' ', (200) x 40), 'each ends in the other process';
    $ng->loads_are('1/0 0 0 0', 'nothing is left in either');
};


subtest 'D19: each way to book counts alike' => sub {
    $ng->afresh(1, 2, 3);

    my %prompt = (hashed([ 61, 62 ]), isl_tokens => 9);
    $ng->gives('POST /select_and_reserve', { selection_id => 'one', %prompt,
        allowed_worker_ids => [1] }, 200, undef, 'in one step');
    $ng->gives('POST /select', { selection_id => 'two', %prompt,
        allowed_worker_ids => [2] }, 200, undef, 'selected');
    $ng->gives('POST /reservations', { selection_id => 'two' }, 201, undef,
        'and replayed');
    $ng->gives('POST /reservations', { selection_id => 'three', %prompt,
        worker_id => 3, effective_prefill_tokens => 9 }, 201, undef,
        'explicitly');
    $ng->loads_are('1/0 9 2 1, 2/0 9 2 1, 3/0 9 2 1', 'the same load');

    for my $id (qw(one two three)) {
        $ng->ok_status("POST /reservations/$id/output_block",
            '{"decay_fraction":0.25}', $id);
        $ng->ok_status("POST /reservations/$id/prefill_complete");
    }
    $ng->loads_are('1/0 0 1 1, 2/0 0 1 1, 3/0 0 1 1', 'and progress');
};


subtest 'D25: what it costs to look at many bookings' => sub {
    $ng->afresh(1, 2);

    my $median = sub {
        my @times = map {
            my $start = time;
            $ng->ask('POST /potential_loads', { hashed(64) });
            time - $start;
        } 1 .. 31;
        return 1000 * (sort { $a <=> $b } @times)[15];
    };
    my $before = $median->();
    my $client = $ng->connection(timeout => 30);
    my $failed = 0;

    for my $part (1 .. 30) {
        $client->send(POST => '/reservations', body => {
            selection_id => "c$part-$_", worker_id => 1 + $_ % 2,
            sequence_hashes => [ map { $part * $_ + $_ % 7 } 1 .. 16 ],
            isl_tokens => 64 }) for 1 .. 100;
        $failed += $client->receive->status != 201 for 1 .. 100;
    }
    is $failed, 0, '3,000 bookings';

    my $after = $median->();
    note sprintf '%.2f ms, then %.2f ms', $before, $after;
    cmp_ok $after, '<', at_most(5) + 3 * $before, 'cost nothing to look at';

    $ng->afresh(1, 2);
    $ng->loads_are('1/0 0 0 0, 2/0 0 0 0', 'and go with their workers');
};



subtest 'runs of blocks' => sub {
    $ng->afresh(1);

    my $runs = sub {
        my ($want, $name) = @_;
        is $ng->metric('select_reservation_edges'), $want, $name;
    };
    $runs->(0, 'none at first');
    $ng->book('a', 1, hashed([ 1 .. 100 ]));
    $runs->(1, 'one reservation');
    $ng->book('b', 1, hashed([ 1 .. 50, 300 .. 340 ]));
    $runs->(3, 'two that part');
    $ng->book('c', 1, hashed([ 1 .. 10 ]));
    $runs->(4, 'one that ends within');
    $ng->release('b');
    $runs->(2, 'the branch has gone');
    $ng->release('c');
    $runs->(1, 'one is left');
    $ng->book('d', 1, hashed([ 1 .. 100 ]));
    $runs->(1, 'the same again');
    $ng->release('a');
    $runs->(1, 'and alone');
    $ng->release('d');
    $runs->(0, 'none');
};


# What a process counts, as the difference over some steps.

sub counted {
    my ($steps) = @_;

    my $read = sub {
        return map { scalar $ng->metric(@$_) } [qw(select_bookings_total)],
            map { [ 'select_bookings_ended_total', cause => $_ ] }
                qw(freed expired rank_gone no_room);
    };
    my @before = $read->();
    $steps->();
    my @after = $read->();

    return join ' ', map { $after[$_] - $before[$_] } 0 .. $#after;
}


subtest 'D18: bookings are counted, and their room comes back' => sub {
    $ng->afresh([ 1, data_parallel_size => 2 ], 2);

    my $used = $ng->metric('select_zone_chunks_used');

    is counted(sub {
        $ng->book("m$_", 1, dp_rank => $_ % 2, hashed([ map { $_ * 3 }
            1 .. 50 + $_ ])) for 1 .. 30;
        $ng->ok_status("POST /reservations/m$_/output_block",
            '{"decay_fraction":0.5}') for 1 .. 5;
        $ng->gives('POST /reservations', { selection_id => 'm1',
            worker_id => 1, hashed(1) }, 409, undef, 'a taken id');
        $ng->gives('POST /reservations', { selection_id => 'm0',
            worker_id => 1, dp_rank => 2, hashed(1) }, 404, undef,
            'no such rank');
    }), '30 0 0 0 0', 'booked';
    cmp_ok $ng->metric('select_zone_chunks_used'), '>=', $used + 30,
        'they take room';

    is counted(sub { $ng->release(map { "m$_" } 1 .. 10) }), '0 10 0 0 0',
        'freed';
    is counted(sub {
        $ng->gives('PATCH /workers/1', { data_parallel_size => 1 }, 200);
    }), '0 0 0 10 0', 'their rank has gone';
    is counted(sub { $ng->release(map { "m$_" } 12, 14, 16, 18, 20) }),
        '0 5 0 0 0', 'freed';
    is counted(sub {
        $ng->gives('PATCH /workers/1', { data_parallel_size => 2 }, 200);
        $ng->release(map { "m$_" } 22, 24, 26, 28, 30);
    }), '0 5 0 0 0', 'the last ones';
    is $ng->metric('select_zone_chunks_used'), $used,
        'no room is lost';
};

all_done;
