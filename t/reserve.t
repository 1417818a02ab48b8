# POST /select_and_reserve: choosing and booking are one step, in force in
# every worker process when the answer is there.  Without this suite two
# requests could land on one worker because neither saw the other, an id could
# be lost to a request that failed, and clients that book at a second selector
# by this answer could book something else.
#
# Each step is answered by another process than the step before.

use strict;
use warnings;

use JSON::PP ();
use Test::More;

use SelBooks;
use SelCrowd;

my ($true, $false) = (JSON::PP::true, JSON::PP::false);
my $FIRST = '-3803038269031200164';     # the public hash of 1, 2, 3, 4

my $ng = SelBooks->new(server => <<'SERVER')->run;
    location /untracked/ {
        select_track_prefill_tokens off;
        select_service selector;
    }
    location /apart/ {
        select_assume_kv_reuse off;
        select_service selector;
    }
    location /busy/ {
        select_decode_busy_threshold 0.5;
        select_prefill_busy_threshold 0;
        select_service selector;
    }
SERVER


# Checks a booking; the body has an id, the answer begins with it.

sub reserves {
    my ($body, $pattern, $name, $path) = @_;

    my $id = JSON::PP->new->allow_nonref->encode($body->{selection_id});

    return $ng->gives('POST ' . ($path // '') . '/select_and_reserve', $body,
        200, qr/\A\{"selection_id":\Q$id\E,.*$pattern/, $name);
}


sub refuses {
    my ($body, $status, $error, $name) = @_;

    return $ng->gives('POST /select_and_reserve', $body, $status, $error,
        $name);
}


subtest 'nothing to choose from' => sub {
    refuses({ token_ids => [ 1 .. 4 ] }, 503,
        'no schedulable workers are available', 'no worker at all');
    refuses({}, 503, 'no schedulable workers are available',
        'which comes before the prompt');
    refuses('{"selection_id":5}', 422, qr/selection_id/,
        'and after the types');

    $ng->register(1, model_name => 'other');
    refuses({ token_ids => [ 1 .. 4 ] }, 503,
        'no schedulable workers for model=default routing_group=default',
        'none in the partition');
};


subtest 'the whole answer' => sub {
    $ng->afresh([ 7, model_name => 'llama', routing_group => 'east',
        endpoint => 'http://10.0.0.7:8000', block_size => 16,
        data_parallel_size => 2, total_kv_blocks => 5 ]);

    my $ask = '"model_name":"llama","routing_group":"east",'
        . '"block_hashes":[101,102],"sequence_hashes":[201,-202],'
        . '"isl_tokens":32,"pinned_worker":{"worker_id":7,"dp_rank":1}}';
    my $answer = '"sequence_hashes":[201,-202],"isl_tokens":32,'
        . '"track_prefill_tokens":true,"model_name":"llama",'
        . '"routing_group":"east","worker_id":7,"dp_rank":1,'
        . '"endpoint":"http://10.0.0.7:8000","block_size":16,'
        . '"overlap":{"longest_matched":0,"gpu":0,"dp":{"0":0,"1":0},'
        . '"cpu":0,"disk":0},"effective_prefill_tokens":32,'
        . '"potential_decode_blocks":2';

    $ng->gives('POST /select_and_reserve', "{\"selection_id\":\"res-1\",$ask",
        200, "{\"selection_id\":\"res-1\",$answer}", 'members in order');
    $ng->loads_are('7/0 0 0 0, 7/1 32 2 1', 'which is booked');

    # The second one shares the blocks of the first.
    $ng->gives('POST /busy/select_and_reserve',
        "{\"selection_id\":\"res-2\",$ask", 200,
        "{\"selection_id\":\"res-2\",$answer,\"decode_busy\":false}",
        'the busy flag is the last');
    $ng->gives('POST /busy/select_and_reserve',
        '{"selection_id":"res-3","model_name":"llama","routing_group":"east",'
        . '"advisory":true,"block_hashes":[1],"sequence_hashes":[1],'
        . '"isl_tokens":16,"pinned_worker":{"worker_id":7,"dp_rank":1}}',
        200, qr/"potential_decode_blocks":3,"decode_busy":true\}\z/,
        'and no load of the worker, whatever "advisory" says');
    $ng->loads_are('7/0 0 0 0, 7/1 80 3 3', 'three bookings');
};


subtest 'B1, B2, B3: booked, taken, freed' => sub {
    $ng->afresh(1);

    $ng->gives('POST /select_and_reserve',
        { selection_id => 'res-a', token_ids => [ 1 .. 4 ] }, 200,
        qr/\A\{"selection_id":"res-a","sequence_hashes":\[$FIRST\],
            "isl_tokens":4,"track_prefill_tokens":true,.*
            "effective_prefill_tokens":4,"potential_decode_blocks":1\}\z/x,
        'B1: the answer');
    $ng->loads_are('1/0 4 1 1', 'B1: its load');

    my $taken = 'selection res-a is already reserved or being reserved';
    refuses({ selection_id => 'res-a', token_ids => [ 1 .. 4 ] }, 409, $taken,
        'B2: the same again') for 1, 2;
    $ng->loads_are('1/0 4 1 1', 'B2: adds nothing');

    $ng->ok_status('DELETE /reservations/res-a', undef, 'B3: freed');
    $ng->loads_are('1/0 0 0 0', 'B3: no load is left');
    $ng->gives('DELETE /reservations/res-a', undef, 404,
        'reservation res-a not found', 'B3: freed once');
    reserves({ selection_id => 'res-a', token_ids => [ 1 .. 4 ] },
        qr/"worker_id":1,/, 'the id can be used again');
    $ng->loads_are('1/0 4 1 1', 'with its load');
};


subtest 'R1, B4: an id is one id in all partitions' => sub {
    $ng->afresh([ 1, routing_group => 'a' ], [ 2, routing_group => 'b' ]);

    reserves({ selection_id => 'x', routing_group => 'a',
        token_ids => [ 1 .. 4 ] }, qr/"routing_group":"a","worker_id":1,/,
        'booked in one group');
    refuses({ selection_id => 'x', routing_group => 'b',
        token_ids => [ 1 .. 4 ] }, 409,
        'selection x is already reserved or being reserved',
        'B4: taken in the other');
    $ng->loads_are('1/0 4 1 1, 2/0 0 0 0', 'B4: the booking stands');
    $ng->ok_status('DELETE /reservations/x');
    reserves({ selection_id => 'x', routing_group => 'b',
        token_ids => [ 1 .. 4 ] }, qr/"worker_id":2,/, 'freed, it is free');
    $ng->loads_are('1/0 0 0 0, 2/0 4 1 1', 'in the other group');
};


subtest 'the order of the checks' => sub {
    $ng->afresh(1, [ 2, model_name => 'other' ]);
    reserves({ selection_id => 'x', token_ids => [ 1 .. 4 ] }, qr/./,
        'booked');

    my $taken = 'selection x is already reserved or being reserved';
    refuses({ selection_id => 'x' }, 409, $taken,
        'a taken id comes before the prompt');
    refuses({ selection_id => 'x', token_ids => [] }, 409, $taken,
        'also before an empty one');
    refuses({ selection_id => 'x', token_ids => [1],
        allowed_worker_ids => [] }, 409, $taken, 'and before the candidates');
    refuses({ selection_id => 'x', token_ids => [1], allowed_worker_ids => [],
        pinned_worker => { worker_id => 1, dp_rank => 0 } }, 409, $taken,
        'and the pin');
    refuses({ selection_id => 'x', model_name => 'none' }, 503,
        'no schedulable workers for model=none routing_group=default',
        'the partition comes before it');
    refuses('{"selection_id":"x","token_ids":[-1]}', 422, qr/token_ids/,
        'and the types before that');
    refuses('{"selection_id":"x","token_ids":[1]', 400,
        qr/Failed to parse the request body as JSON: /, 'and the syntax');
    $ng->loads_are('1/0 4 1 1, 2/0 0 0 0', 'nothing of it is booked');
};


subtest 'a request that fails leaves the id free' => sub {
    $ng->afresh(1);

    my @failures = (
        [ {}, 400, 'block_hashes is required without token_ids' ],
        [ { token_ids => [] }, 400, 'isl_tokens must be greater than 0' ],
        [ { hashed(2), block_hashes => [1] }, 400,
            'block_hashes length 1 must match sequence_hashes length 2' ],
        [ { token_ids => [1], allowed_worker_ids => [9] }, 503,
            'no endpoints available to route work' ],
        [ { token_ids => [1], allowed_worker_ids => [] }, 503,
            'no endpoints available to route work' ],
        [ { token_ids => [1],
            routing_constraints => { required_taints => ['t'] } }, 503,
            'no endpoints available to route work' ],
        [ { token_ids => [1],
            pinned_worker => { worker_id => 1, dp_rank => 1 } }, 503,
            'no endpoints available to route work' ],
        [ { token_ids => [1],
            pinned_worker => { worker_id => 9, dp_rank => 0 } }, 503,
            'no endpoints available to route work' ],
        [ { token_ids => [1], allowed_worker_ids => [9],
            pinned_worker => { worker_id => 1, dp_rank => 0 } }, 400,
            'pinned worker 1 is not in allowed worker set' ],
    );

    for my $failure (@failures) {
        my ($members, $status, $error) = @$failure;

        for (1, 2) {
            refuses({ selection_id => 'f', %$members }, $status, $error,
                $error);
        }
    }

    $ng->loads_are('1/0 0 0 0', 'nothing is booked');
    $ng->gives('DELETE /reservations/f', undef, 404,
        'reservation f not found', 'and no id is taken');
    reserves({ selection_id => 'f', token_ids => [1] }, qr/./, 'it is free');
    $ng->loads_are('1/0 1 0 1', 'a booking without a whole block');
};


subtest 'what a prompt needs' => sub {
    $ng->afresh(1);
    refuses({ sequence_hashes => [1], isl_tokens => 4 }, 400,
        'block_hashes is required without token_ids');
    refuses({ block_hashes => [1], isl_tokens => 0 }, 400,
        'sequence_hashes is required without token_ids');
    refuses({ block_hashes => [1], sequence_hashes => [ 1, 2 ] }, 400,
        'isl_tokens is required without token_ids');
    refuses({ block_hashes => [1], sequence_hashes => [ 1, 2 ],
        isl_tokens => 0 }, 400, 'isl_tokens must be greater than 0');
    refuses({ mm_routing_info => { routing_token_ids => [] } }, 400,
        'block_hashes is required without token_ids');
};


subtest 'an id that the service makes' => sub {
    $ng->afresh(1);

    my $uuid = uuid_pattern();
    my %seen;
    my $count = 200;

    for my $n (1 .. $count) {
        my $answer = $ng->ask('POST /select_and_reserve', '{"token_ids":[1]'
            . ($n % 2 ? '}' : ',"selection_id":null}'));
        my ($id) = $answer->body =~ /\A\{"selection_id":"($uuid)",/;
        $seen{ $id // 'none' }++;
    }

    is scalar(keys %seen), $count, 'is a UUID of version 4, never the same'
        or diag join ' ', (sort keys %seen)[0, -1];
    $ng->loads_are("1/0 $count 0 $count", 'each is a booking');

    my ($one, $two) = sort keys %seen;
    $ng->ok_status("POST /reservations/$one/prefill_complete");
    $ng->ok_status("DELETE /reservations/$two");
    $ng->loads_are('1/0 ' . ($count - 2) . ' 0 ' . ($count - 1),
        'which can be told about its progress');
};


subtest 'any text is an id' => sub {
    $ng->afresh(1);

    my @ids = (' ', 'a"b\\c', "\x00", "\x{e9}", "\x{1f600}", '1', 'a/b', '..',
        'x' x 256, 'x' x 257, 'x' x 65_536);

    for my $id (@ids) {
        my $text = JSON::PP->new->utf8->allow_nonref->encode($id);
        $ng->gives('POST /select_and_reserve',
            "{\"selection_id\":$text,\"token_ids\":[1]}", 200,
            qr/\A\{"selection_id":\Q$text\E,"sequence_hashes":\[\],/,
            'an id of ' . length($id) . ' characters: '
            . substr $text, 0, 20);
        $ng->gives('POST /select_and_reserve',
            "{\"selection_id\":$text,\"token_ids\":[1]}", 409, undef,
            'is taken');
    }

    my $answer = $ng->ask('POST /select_and_reserve',
        { selection_id => 'x' x 65_537, token_ids => [1] });
    ok $answer->status =~ /^4/ && $answer->json->{error},
        'a longer one is refused' or diag substr $answer->body, 0, 200;
    $ng->loads_are('1/0 ' . join(' ', scalar @ids, 0, scalar @ids),
        'all are bookings');
};


subtest 'what is booked of a prompt' => sub {
    my $min = '-9223372036854775808';
    my @cases = (
        # Members, hashes as printed, tokens, blocks of the load, blocks as
        # answered.
        [ '"token_ids":[1]', '', 1, 0, 1, 'one token' ],
        [ '"token_ids":[1,2,3,4]', $FIRST, 4, 1, 1, 'one block' ],
        [ '"token_ids":[1,2,3,4,9]', $FIRST, 5, 1, 2, 'and a tail' ],
        [ '"token_ids":[0,1,2,3,4,5,6,7]',
            '9143094415614847814,-8936425687869117083', 8, 2, 2,
            'two blocks' ],
        [ '"token_ids":[0,1,2,3,4,5,6,7],"lora_name":"adapter-a"',
            '6665157333201000639,-5095224758860381088', 8, 2, 2,
            'of an adapter' ],
        [ '"token_ids":[0,1,2,3,4,5,6,7],"cache_salt":"tenant-a"',
            '-1437120031019339970,-166923005989783736', 8, 2, 2,
            'of a namespace' ],
        [ '"token_ids":[0,1,2,3,4,5,6,7],"is_eagle":true', undef, 8, 1, 2,
            'of an EAGLE model' ],
        [ '"mm_routing_info":{"routing_token_ids":[0,1,2,3,4,5,6,7]},'
            . '"token_ids":[1]', '9143094415614847814,-8936425687869117083',
            8, 2, 2, 'multimodal' ],
        [ '"token_ids":[1,2,3,4],"block_hashes":[1],"sequence_hashes":[],'
            . '"isl_tokens":0', $FIRST, 4, 1, 1, 'tokens beside hashes' ],
        [ '"block_hashes":[1,2],"sequence_hashes":[3,-4],"isl_tokens":8',
            '3,-4', 8, 2, 2, 'hashes' ],
        [ '"block_hashes":[1,2],"sequence_hashes":[3,4],"isl_tokens":17',
            '3,4', 17, 2, 5, 'hashes of a part of the prompt' ],
        [ '"block_hashes":[1,2],"sequence_hashes":[3,4],"isl_tokens":1',
            '3,4', 1, 2, 2, 'more hashes than the prompt is long' ],
        [ '"block_hashes":[],"sequence_hashes":[],"isl_tokens":5', '',
            5, 0, 2, 'no hash' ],
        [ '"block_hashes":[1,2,3],"sequence_hashes":'
            . '[18446744073709551615,9223372036854775808,'
            . '9223372036854775807],"isl_tokens":12',
            "-1,$min,9223372036854775807", 12, 3, 3, 'all 64 bits' ],
        [ '"block_hashes":[5,5],"sequence_hashes":[5,5],"isl_tokens":8',
            '5,5', 8, 2, 2, 'the same hash twice' ],
    );

    $ng->afresh(1);

    for my $case (@cases) {
        my ($members, $hashes, $tokens, $blocks, $answered, $name) = @$case;
        my $text = $hashes // '-?\d+';

        reserves_text("\"selection_id\":\"p\",$members",
            qr/\A\{"selection_id":"p","sequence_hashes":\[$text\],
                "isl_tokens":$tokens,"track_prefill_tokens":true,.*
                "effective_prefill_tokens":$tokens,
                "potential_decode_blocks":$answered\}\z/x, $name);
        $ng->loads_are("1/0 $tokens $blocks 1", "$name: the load");
        $ng->ok_status('DELETE /reservations/p', undef, "$name: freed");
    }

    $ng->loads_are('1/0 0 0 0', 'nothing is left');
};


sub reserves_text {
    my ($members, $pattern, $name) = @_;

    return $ng->gives('POST /select_and_reserve', "{$members}", 200, $pattern,
        $name);
}


subtest 'prefill that counts, and that does not' => sub {
    my @cases = (
        # Path, override, tracked
        [ '', undef, 1, 'by default' ],
        [ '', {}, 1, 'an empty override' ],
        [ '', { track_prefill_tokens => undef }, 1, 'null' ],
        [ '', { track_prefill_tokens => $true }, 1, 'asked for' ],
        [ '', { track_prefill_tokens => $false }, 0, 'B4: declined' ],
        [ '/untracked', undef, 0, 'off by the location' ],
        [ '/untracked', { track_prefill_tokens => undef }, 0,
            'and null there' ],
        [ '/untracked', { track_prefill_tokens => $true }, 1,
            'asked for there' ],
        [ '/untracked', { track_prefill_tokens => $false }, 0,
            'declined there' ],
    );

    for my $case (@cases) {
        my ($path, $override, $tracked, $name) = @$case;
        my $word = $tracked ? 'true' : 'false';

        $ng->afresh(1);
        reserves({ selection_id => 't', token_ids => [ 1 .. 9 ],
            router_config_override => $override },
            qr/"track_prefill_tokens":$word,.*"effective_prefill_tokens":9,/,
            $name, $path);
        $ng->loads_are('1/0 ' . ($tracked ? 9 : 0) . ' 2 1',
            "$name: tokens $word, blocks in any case");
        $ng->ok_status('POST /reservations/t/prefill_complete', undef,
            "$name: its prefill can end");
        $ng->loads_are('1/0 0 2 1', "$name: and has ended");
    }
};


subtest 'blocks that are shared, and blocks that are not' => sub {
    my %prompt = (token_ids => [ 1 .. 8 ]);

    $ng->afresh(1);
    reserves({ selection_id => "s$_", %prompt }, qr/"worker_id":1,/,
        "the same prompt, $_") for 1 .. 3;
    $ng->loads_are('1/0 24 2 3', 'counts its blocks once');

    for my $case ([ '', { assume_kv_reuse => $false }, 'override' ],
        [ '/apart', undef, 'location' ])
    {
        my ($path, $override, $name) = @$case;
        my %seen;

        $ng->afresh(1);

        for my $n (1 .. 3) {
            my $answer = $ng->ask("POST $path/select_and_reserve",
                { selection_id => "n$n", %prompt,
                    router_config_override => $override });
            my ($hashes) = $answer->body
                =~ /"sequence_hashes":\[(-?\d+,-?\d+)\]/;
            $seen{$_}++ for split /,/, $hashes // $answer->body;
        }

        is scalar(keys %seen), 6, "no reuse by the $name: new identities";
        $ng->loads_are('1/0 24 6 3', "no reuse by the $name: own blocks");
    }

    $ng->afresh(1);
    reserves({ selection_id => "a$_", %prompt, router_config_override =>
        { assume_kv_reuse => $true } }, qr/"sequence_hashes":\[$FIRST,/,
        'reuse by the override', '/apart') for 1, 2;
    $ng->loads_are('1/0 16 2 2', 'counts once there, too');

    $ng->afresh(1);
    reserves({ selection_id => "h$_", hashed([ 3, 4 ]) },
        qr/"sequence_hashes":\[3,4\]/, 'hashes of the client stay', '/apart')
        for 1, 2;
    $ng->loads_are('1/0 16 2 2', 'and are shared');
};


subtest 'the next request sees the load of this one' => sub {
    $ng->afresh(1, 2);

    my @wrong;

    for my $round (1 .. 60) {
        my @workers = map { $ng->ask('POST /select_and_reserve',
            { selection_id => "$round-$_", token_ids => new_tokens(4) })
                ->json->{worker_id} } 1, 2;
        push @wrong, "@workers" if "@{[ sort @workers ]}" ne '1 2';
        push @wrong, $ng->loads
            if $ng->loads ne '1/0 4 1 1, 2/0 4 1 1';
        $ng->release("$round-1", "$round-2");
    }

    is "@wrong", '', 'the second goes to the other worker, each time';
    $ng->loads_are('1/0 0 0 0, 2/0 0 0 0', 'nothing is left');

    # Without keep-alive every step falls on any process.
    for my $round (1 .. 30) {
        my @workers = map { $ng->post('/select_and_reserve',
            { selection_id => "$round-$_", token_ids => new_tokens(4) })
                ->json->{worker_id} } 1, 2;
        push @wrong, "@workers" if "@{[ sort @workers ]}" ne '1 2';
        $ng->delete("/reservations/$round-$_") for 1, 2;
    }

    is "@wrong", '', 'also without keep-alive';
};


subtest 'H9, D21: a burst is spread evenly' => sub {
    $ng->afresh(1, 2);

    my @placed = SelCrowd->start(map { my $client = $_; sub {
        my $http = $ng->connection;
        my %count;

        for my $n (1 .. 50) {
            my $first = 10_000 * $client + 4 * $n;
            my $answer = $http->post('/select_and_reserve', {
                selection_id => "$client-$n",
                token_ids    => [ $first .. $first + 3 ] });
            $count{ $answer->status == 200 ? $answer->json->{worker_id}
                : $answer->status }++;
        }

        return \%count;
    } } 1 .. 4)->results;

    my %sum;
    for my $count (@placed) {
        $sum{$_} += $count->{$_} for keys %$count;
    }

    is_deeply \%sum, { 1 => 100, 2 => 100 }, 'a hundred each';
    $ng->loads_are('1/0 400 100 100, 2/0 400 100 100', 'as the loads say');
};


subtest 'E3: one after the other, no worker is preferred' => sub {
    $ng->afresh(1, 2);

    my %count;

    for (1 .. 400) {
        my $answer = $ng->ask('POST /select_and_reserve',
            { selection_id => 'e', token_ids => [ 1 .. 4 ] });
        $count{ $answer->json->{worker_id} // $answer->status }++;
        $ng->release('e');
    }

    # Less than one in ten billion by chance.
    cmp_ok abs($count{1} - $count{2}), '<', 130, "$count{1} and $count{2}";
};


subtest 'who may be chosen' => sub {
    $ng->afresh([ 1, taints => ['a'] ],
        [ 2, taints => ['b'], data_parallel_start_rank => 3,
            data_parallel_size => 2 ], 3);

    my @cases = (
        [ { allowed_worker_ids => [3] }, 3, 0, 'allowed' ],
        [ { pinned_worker => { worker_id => 2, dp_rank => 4 } }, 2, 4,
            'pinned' ],
        [ { affinity_target => { worker_id => 2, dp_rank => 3 } }, 2, 3,
            'a target' ],
        [ { affinity_target => { worker_id => 1 } }, 1, 0,
            'a target without a rank' ],
        [ { affinity_target => { worker_id => 9 },
            allowed_worker_ids => [1] }, 1, 0, 'a target that is none' ],
        [ { routing_constraints => { required_taints => ['a'] } }, 1, 0,
            'a required taint' ],
        [ { routing_constraints => { preferred_taints => { a => 3 } } }, 1, 0,
            'a preferred taint' ],
    );

    for my $case (@cases) {
        my ($members, $worker, $rank, $name) = @$case;
        reserves({ selection_id => 'w', token_ids => new_tokens(4),
            %$members }, qr/"worker_id":$worker,"dp_rank":$rank,/, $name);
        my $loads = '1/0 0 0 0, 2/3 0 0 0, 2/4 0 0 0, 3/0 0 0 0'
            =~ s{($worker/$rank) 0 0 0}{$1 4 1 1}r;
        $ng->loads_are($loads, "$name: booked there");
        $ng->release('w');
    }

    # A pin and a target do not care for the load.
    for my $members ({ pinned_worker => { worker_id => 1, dp_rank => 0 } },
        { affinity_target => { worker_id => 1 } })
    {
        reserves({ selection_id => "l$_", token_ids => new_tokens(40),
            %$members }, qr/"worker_id":1,/, 'whatever its load') for 1, 2;
        $ng->release('l1', 'l2');
    }
};


subtest 'members for the queue, sessions and hints change nothing' => sub {
    $ng->afresh(1);

    for my $members (
        '"expected_output_tokens":4294967295', '"expected_output_tokens":null',
        '"priority_jump":-1.5,"strict_priority":4294967295',
        '"session_id":"s"', '"session_id":""',
        '"session_context":{"session_id":"s","parent_session_id":"p",'
            . '"session_final":true,"input_trigger":"tool_result",'
            . '"agent_headers":{"a":["b"]}}',
        '"advisory":true', '"advisory":"x"', '"advisory":null',
        '"tenant_id":"x","reservation_id":5,"worker_id":"y"',
        '"router_config_override":{"overlap_score_credit":5,'
            . '"prefill_load_scale":0,"router_temperature":0}',
    ) {
        reserves_text("\"selection_id\":\"m\",\"token_ids\":[1,2,3,4],"
            . $members, qr/"effective_prefill_tokens":4,
                "potential_decode_blocks":1\}\z/x, substr $members, 0, 60);
        $ng->loads_are('1/0 4 1 1', 'booked as ever');
        $ng->release('m');
    }
};


subtest 'wrong types' => sub {
    $ng->afresh(1);

    my @wrong = (
        selection_id => '5', selection_id => '[]', model_name => 'null',
        routing_group => 'null', token_ids => '[-1]', token_ids => '{}',
        block_hashes => '[1.5]', sequence_hashes => '[18446744073709551616]',
        isl_tokens => '-1', expected_output_tokens => '4294967296',
        priority_jump => '"x"', strict_priority => '-1',
        session_id => '5', session_context => '{}', session_context => '5',
        affinity_target => '{}', pinned_worker => '{"worker_id":1}',
        pinned_worker => '{"dp_rank":1}', allowed_worker_ids => '[-1]',
        routing_constraints => 'null', lora_name => '5',
        router_config_override => '{"track_prefill_tokens":1}',
    );

    while (my ($member, $value) = splice @wrong, 0, 2) {
        my $valid = $member eq 'token_ids' ? '' : '"token_ids":[1],';
        my $named = $value eq '{"worker_id":1}' ? 'dp_rank'
            : $value eq '{"dp_rank":1}' || $member eq 'affinity_target'
            ? 'worker_id'
            : $member eq 'session_context' && $value eq '{}' ? 'session_id'
            : $member eq 'router_config_override' ? 'track_prefill_tokens'
            : $member;
        refuses("{$valid\"$member\":$value}", 422, qr/\A\{"error":"Failed\ to
            \ deserialize\ the\ JSON\ body\ into\ the\ target\ type:\ .*
            $named/x, "$member: $value");
    }

    for my $rule ([ overlap_score_credit => -1 ], [ prefill_load_scale => -1 ],
        [ router_temperature => -1 ], [ shared_cache_multiplier => 2 ])
    {
        my ($member, $value) = @$rule;
        refuses({ token_ids => [1],
            router_config_override => { $member => $value } }, 422,
            qr/$member must be/, "$member: $value");
    }

    refuses('{"selection_id":"a","selection_id":"b","token_ids":[1]}', 422,
        qr/duplicate field.*selection_id/, 'a member twice');
    $ng->loads_are('1/0 0 0 0', 'nothing is booked');
};


subtest 'methods and bodies' => sub {
    for my $method (qw(GET PUT PATCH DELETE OPTIONS)) {
        my $answer = $ng->ask("$method /select_and_reserve");
        is $answer->status . ' ' . $answer->body . ' '
            . ($answer->header('Allow') // ''),
            '405 {"error":"method not allowed"} POST', $method;
    }

    $ng->gives('POST /select_and_reserve/', { token_ids => [1] }, 404,
        'route not found', 'another path');
    refuses('', 400, qr/Failed to parse the request body as JSON: /,
        'an empty body');
    refuses('[]', 422, qr/Failed to deserialize the JSON body/, 'a list');
    is $ng->post('/select_and_reserve', '{"token_ids":[1]}')->status, 415,
        'no media type';
    is $ng->post('/select_and_reserve',
        '{"token_ids":[1]} ' . (' ' x 9_000_000),
        headers => ['Content-Type: application/json'])->status, 413,
        'too large a body';
    $ng->loads_are('1/0 0 0 0', 'nothing is booked');
};


subtest 'D10: the answer gets lost' => sub {
    $ng->afresh(1);

    my $lost = 0;

    for my $n (1 .. 40) {
        my $client = $ng->connection;
        $client->send(POST => '/select_and_reserve',
            body => { selection_id => "d$n", token_ids => new_tokens(400) });
        $client->close;

        # Booked already, or not yet, or never: what the client can do is to
        # free it by its id.
        my $again = $ng->ask('POST /select_and_reserve',
            { selection_id => "d$n", token_ids => [1] })->status;
        $lost++ if $again == 409;
        $ng->ask("DELETE /reservations/d$n");
        fail("an answer of $again") if $again != 409 && $again != 200;
    }

    note "$lost of 40 were booked before the second try";
    $ng->until(sub {
        $ng->ask("DELETE /reservations/d$_") for 1 .. 40;
        $ng->loads eq '1/0 0 0 0';
    }, 'all of it can be freed by id');
};



subtest 'I9: connections of clients that went away are free' => sub {
    my $few = SelBooks->new(name => 'few', connections => 64, workers => 1,
        http => 'select_kv_events off;')->run;
    $few->register(1);

    for my $n (1 .. 600) {
        my $client = $few->connection;
        $client->send(POST => '/select_and_reserve', body => {
            selection_id => 'i9', token_ids => [ 1 .. 100 ] });
        $client->close;
    }

    $few->until(sub {
        my $status = $few->ask('POST /select_and_reserve',
            { selection_id => 'other', token_ids => [1] })->status;
        return $status == 200 || $status == 409;
    }, 'others are served');
    $few->until(sub {
        $few->ask("DELETE /reservations/$_") for qw(i9 other);
        $few->loads eq '1/0 0 0 0';
    }, 'and nothing is left');
    $few->finish;
};

all_done;
