# POST /reservations in both forms, and what follows a booking: prefill that
# ends, output blocks, the end.  Without this suite a booking could count what
# its client did not say, a worker could stay loaded for ever after a free that
# came twice, early or to another process, and ids with a slash or an umlaut
# could not be freed at all.
#
# Each step is answered by another process than the step before.  Of the rows
# that these tests are named after, R3, R6 and R19 need the queue, R5 a
# session, R14 to R18 other selectors, and R10 and R13 are in expiry.t.

use strict;
use warnings;

use JSON::PP ();
use Test::More;

use SelBooks;
use SelCrowd;

my ($true, $false) = (JSON::PP::true, JSON::PP::false);
my $JSON = JSON::PP->new->utf8->canonical->allow_nonref;

my $ng = SelBooks->new(server => <<'SERVER')->run;
    location /untracked/ {
        select_track_prefill_tokens off;
        select_service selector;
    }
    location /half/ {
        select_decode_busy_threshold 0.5;
        select_service selector;
    }
    location /zero/ {
        select_decode_busy_threshold 0;
        select_service selector;
    }
SERVER


sub books {
    my ($members, $name, $path) = @_;

    return $ng->gives('POST ' . ($path // '') . '/reservations', $members,
        201, undef, $name);
}


sub refuses {
    my ($members, $status, $error, $name) = @_;

    return $ng->gives('POST /reservations', $members, $status, $error, $name);
}


# Members of an explicit reservation of hashes on worker 1.

sub on_one {
    my ($id, $hashes, %members) = @_;

    my @hashes = ref $hashes ? @$hashes : 1 .. $hashes;

    return {
        selection_id    => $id,
        worker_id       => 1,
        sequence_hashes => \@hashes,
        isl_tokens      => 4 * @hashes,
        %members,
    };
}


sub output {
    my ($id, $fraction, $name) = @_;

    return $ng->ok_status("POST /reservations/$id/output_block",
        defined $fraction ? "{\"decay_fraction\":$fraction}" : '{}', $name);
}


subtest 'the explicit form' => sub {
    $ng->afresh([ 7, model_name => 'llama', routing_group => 'east',
        endpoint => 'http://10.0.0.7:8000', data_parallel_size => 2 ]);

    $ng->gives('POST /reservations', '{"selection_id":"req-5",'
        . '"model_name":"llama","routing_group":"east","worker_id":7,'
        . '"dp_rank":1,"sequence_hashes":[301,-302],"isl_tokens":8,'
        . '"effective_prefill_tokens":5,"expected_output_tokens":128}', 201,
        '{"selection_id":"req-5","model_name":"llama",'
        . '"routing_group":"east","worker_id":7,"dp_rank":1,'
        . '"endpoint":"http://10.0.0.7:8000"}', 'the whole answer');
    $ng->loads_are('7/0 0 0 0, 7/1 5 2 1', 'which is booked');

    $ng->gives('POST /reservations', { selection_id => 'req-6',
        model_name => 'llama', routing_group => 'east', worker_id => 7,
        hashed(3) }, 201, qr/"worker_id":7,"dp_rank":0,/,
        'without a rank it is rank 0');
    $ng->loads_are('7/0 0 3 1, 7/1 5 2 1', 'and without tokens none');
    $ng->gives('POST /reservations', { selection_id => 'req-7',
        model_name => 'llama', routing_group => 'east', worker_id => 7,
        dp_rank => undef, hashed(3) }, 201, qr/"dp_rank":0,/, 'null is none');
};


subtest 'V1: a selection without an id is booked explicitly' => sub {
    $ng->afresh(1);
    my $chosen = $ng->ask('POST /select', { token_ids => [ 1 .. 4 ] })->json;

    is $chosen->{effective_prefill_tokens}, 4, 'selected';
    books({ selection_id => 'v1', worker_id => $chosen->{worker_id},
        dp_rank => $chosen->{dp_rank}, sequence_hashes => [1],
        isl_tokens => 4,
        effective_prefill_tokens => $chosen->{effective_prefill_tokens} },
        'booked');
    $ng->loads_are('1/0 4 1 1', 'its tokens and blocks');
    $ng->ok_status('POST /reservations/v1/prefill_complete');
    $ng->loads_are('1/0 0 1 1', 'the prefill is over');
};


subtest 'B11: an answer is booked at another selector' => sub {
    $ng->afresh(1, [ 2, routing_group => 'peer' ]);

    my $answer = $ng->ask('POST /select_and_reserve', '{"selection_id":"b11",'
        . '"token_ids":[1,2,3,4],"router_config_override":'
        . '{"track_prefill_tokens":false}}');
    my ($hashes) = $answer->body =~ /"sequence_hashes":\[(.*?)\]/;

    like $answer->body, qr/"track_prefill_tokens":false/, 'not tracked';
    books("{\"selection_id\":\"b11-copy\",\"routing_group\":\"peer\","
        . "\"worker_id\":2,\"sequence_hashes\":[$hashes],\"isl_tokens\":4,"
        . '"effective_prefill_tokens":4,"track_prefill_tokens":false}',
        'copied');
    $ng->loads_are('1/0 0 1 1, 2/0 0 1 1', 'the same load');

    for my $group (qw(default peer)) {
        $ng->gives('POST /potential_loads', { routing_group => $group,
            token_ids => [ 1 .. 4 ] }, 200,
            qr/"potential_decode_blocks":1,"active_requests":1\}\]/,
            "$group: the same blocks");
    }
};


subtest 'V4: who is missing' => sub {
    $ng->afresh(1);
    refuses({ worker_id => 1, hashed(1) }, 422,
        qr/missing field `selection_id`/, 'V4: no id');
    refuses({ token_ids => [1] }, 422, qr/selection_id/, 'in neither form');
    refuses('{"selection_id":null,"worker_id":1}', 422, qr/selection_id/,
        'null is none');
    refuses('{"selection_id":5,"worker_id":1}', 422, qr/selection_id/,
        'and has to be a text');
};


subtest 'V3: workers that cannot be booked' => sub {
    $ng->afresh(2, [ 3, routing_group => 'g' ],
        [ 4, data_parallel_start_rank => 2, data_parallel_size => 2 ]);
    $ng->post('/workers', { worker_id => 1, block_size => 4 });

    my $none = 'not found for model=default routing_group=default';
    refuses(on_one('v3', 1), 404, "schedulable worker 1 $none",
        'V3: an incomplete one');
    refuses(on_one('v3', 1, worker_id => 9), 404,
        "schedulable worker 9 $none", 'none');
    refuses('{"selection_id":"v3","worker_id":18446744073709551615,'
        . '"sequence_hashes":[],"isl_tokens":0}', 404,
        "schedulable worker 18446744073709551615 $none",
        'none of the largest number');
    refuses(on_one('v3', 1, worker_id => 3), 404,
        "schedulable worker 3 $none", 'one of another group');
    refuses(on_one('v3', 1, worker_id => 2, routing_group => 'g'), 404,
        'schedulable worker 2 not found for model=default routing_group=g',
        'nor the other way');
    refuses(on_one('v3', 1, worker_id => 2, routing_group => 'h'), 503,
        'no schedulable workers for model=default routing_group=h',
        'a group without workers');

    # A rank that is none; 0 is not the first rank here.
    for my $case ([ undef, 0 ], [ 1, 1 ], [ 4, 4 ],
        [ 4294967295, 4294967295 ])
    {
        my ($rank, $named) = @$case;
        refuses(on_one('v3', 1, worker_id => 4, dp_rank => $rank), 404,
            "Worker WorkerWithDpRank { worker_id: 4, dp_rank: $named } not "
            . 'found', 'rank ' . ($rank // 'none'));
    }

    books(on_one('v3', 1, worker_id => 4, dp_rank => 3), 'the id is free');
    $ng->loads_are('2/0 0 0 0, 4/2 0 0 0, 4/3 0 1 1, 3/0 0 0 0',
        'and only this is booked');

    $ng->remove(2, 3, 4);
    refuses(on_one('v3', 1), 503, 'no schedulable workers are available',
        'no worker at all');
};


subtest 'the order of the checks' => sub {
    $ng->afresh(1);
    books(on_one('taken', 1), 'an id is taken');

    my $taken = 'selection taken is already reserved or being reserved';
    refuses({ selection_id => 'taken', worker_id => 1, model_name => 'x' },
        503, 'no schedulable workers for model=x routing_group=default',
        'the partition before the prompt');
    refuses({ selection_id => 'taken', worker_id => 9 }, 400,
        'sequence_hashes is required without token_ids',
        'the prompt before worker and id');
    refuses({ selection_id => 'taken', worker_id => 1 }, 400,
        'sequence_hashes is required without token_ids',
        'the prompt before the id');
    refuses(on_one('taken', 1, worker_id => 9,
        effective_prefill_tokens => 5), 400,
        'effective_prefill_tokens (5) must not exceed isl_tokens (4)',
        'the tokens before worker and id');
    refuses(on_one('taken', 1, worker_id => 9), 404,
        'schedulable worker 9 not found for model=default '
        . 'routing_group=default', 'the worker before the id');
    refuses(on_one('taken', 1, dp_rank => 7), 409, $taken,
        'the id before the rank');
    refuses(on_one('taken', 1), 409, $taken, 'R2, B5: the id');
    refuses('{"selection_id":"taken","worker_id":1,"dp_rank":-1}', 422,
        qr/dp_rank/, 'the types before all of them');
    $ng->loads_are('1/0 0 1 1', 'the booking stands, alone');
    $ng->gives('POST /select_and_reserve', { selection_id => 'taken',
        token_ids => [1] }, 409, $taken, 'the other way, too');
};


subtest 'prompts of the explicit form' => sub {
    my @cases = (
        # Members, then an error or the blocks of the load
        [ '', 'sequence_hashes is required without token_ids' ],
        [ '"block_hashes":[1],"isl_tokens":4',
            'sequence_hashes is required without token_ids' ],
        [ '"sequence_hashes":[1]',
            'isl_tokens is required without token_ids' ],
        [ '"sequence_hashes":null,"isl_tokens":4',
            'sequence_hashes is required without token_ids' ],
        [ '"mm_routing_info":{"routing_token_ids":[]}',
            'sequence_hashes is required without token_ids' ],
        [ '"sequence_hashes":[1],"isl_tokens":4', 1 ],
        [ '"sequence_hashes":[1],"isl_tokens":0', 1 ],
        [ '"sequence_hashes":[],"isl_tokens":0', 0 ],
        [ '"sequence_hashes":[],"isl_tokens":100', 0 ],
        [ '"sequence_hashes":[1,2],"block_hashes":[1],"isl_tokens":4', 2 ],
        [ '"sequence_hashes":[-1,18446744073709551615],"isl_tokens":8', 2 ],
        [ '"token_ids":[]', 0 ],
        [ '"token_ids":[1,2,3]', 0 ],
        [ '"token_ids":[1,2,3,4,5,6,7,8,9]', 2 ],
        [ '"token_ids":[1,2,3,4,5,6,7,8],"is_eagle":true', 1 ],
        [ '"token_ids":[1,2,3,4],"sequence_hashes":[1,2,3],"isl_tokens":9',
            1 ],
        [ '"mm_routing_info":{"routing_token_ids":[1,2,3,4,5,6,7,8]},'
            . '"token_ids":[1]', 2 ],
    );

    $ng->afresh(1);

    for my $case (@cases) {
        my ($members, $result) = @$case;
        my $body = '{"selection_id":"p","worker_id":1'
            . ($members ? ",$members}" : '}');

        if ($result =~ /\D/) {
            refuses($body, 400, $result, $members);
            next;
        }

        books($body, $members);
        $ng->loads_are("1/0 0 $result 1", "$members: $result blocks");
        $ng->release('p');
    }

    # The length of tokens is their number.
    refuses({ selection_id => 'p', worker_id => 1, token_ids => [ 1 .. 5 ],
        isl_tokens => 100, effective_prefill_tokens => 6 }, 400,
        'effective_prefill_tokens (6) must not exceed isl_tokens (5)',
        'tokens beside another length');
    $ng->loads_are('1/0 0 0 0', 'nothing is left');
};


subtest 'without reuse' => sub {
    $ng->afresh(1);

    for my $n (1, 2) {
        books({ selection_id => "u$n", worker_id => 1,
            token_ids => [ 1 .. 8 ],
            router_config_override => { assume_kv_reuse => $false } },
            "tokens, $n");
    }
    $ng->loads_are('1/0 0 4 2', 'no block is shared');

    for my $n (1, 2) {
        books(on_one("h$n", 3,
            router_config_override => { assume_kv_reuse => $false }),
            "hashes, $n");
    }
    $ng->loads_are('1/0 0 7 4', 'hashes are');
};


subtest 'E6: prefill of the explicit form' => sub {
    # Path, members, tokens
    my @cases = (
        [ '', { effective_prefill_tokens => 384 }, 384 ],
        [ '', { effective_prefill_tokens => 384,
            track_prefill_tokens => $true }, 384 ],
        [ '', { effective_prefill_tokens => 384,
            track_prefill_tokens => $false }, 0 ],
        [ '', { effective_prefill_tokens => 384,
            track_prefill_tokens => undef }, 384 ],
        [ '', { effective_prefill_tokens => 0 }, 0 ],
        [ '', { effective_prefill_tokens => 512 }, 512 ],
        [ '', {}, 0 ],
        [ '', { track_prefill_tokens => $true }, 0 ],
        [ '', { router_config_override =>
            { track_prefill_tokens => $true } }, 0 ],
        # A value says more than override and location.
        [ '', { effective_prefill_tokens => 384, router_config_override =>
            { track_prefill_tokens => $false } }, 384 ],
        [ '/untracked', { effective_prefill_tokens => 384 }, 384 ],
        [ '/untracked', { effective_prefill_tokens => 384,
            track_prefill_tokens => $false }, 0 ],
        [ '/untracked', {}, 0 ],
    );

    $ng->afresh(1);

    for my $case (@cases) {
        my ($path, $members, $tokens) = @$case;
        my $name = $path . ' ' . $JSON->encode($members);

        books(on_one('e6', 2, isl_tokens => 512, %$members), $name, $path);
        $ng->loads_are("1/0 $tokens 2 1", "$tokens tokens");
        $ng->ok_status('POST /reservations/e6/prefill_complete', undef,
            'which can end');
        $ng->loads_are('1/0 0 2 1', 'and end');
        $ng->release('e6');
    }

    for my $members ({}, { track_prefill_tokens => $false }) {
        refuses(on_one('e6', 2, isl_tokens => 512,
            effective_prefill_tokens => 513, %$members), 400,
            'effective_prefill_tokens (513) must not exceed isl_tokens (512)',
            'V2: more than the prompt');
    }

    $ng->loads_are('1/0 0 0 0', 'nothing is left');
};


subtest 'E4, R7, R8: the sum of the prefills' => sub {
    $ng->afresh(1);

    books(on_one('a', [1], isl_tokens => 384,
        effective_prefill_tokens => 384), 'A tracked');
    books(on_one('b', [2], isl_tokens => 100,
        effective_prefill_tokens => 100), 'B tracked');
    books(on_one('c', [3], effective_prefill_tokens => 0), 'C tracked, 0');
    books(on_one('d', [4], isl_tokens => 50, effective_prefill_tokens => 50,
        track_prefill_tokens => $false), 'D not tracked');
    $ng->loads_are('1/0 484 4 4', 'E4: the sum');
    $ng->ok_status('POST /reservations/a/prefill_complete') for 1 .. 4;
    $ng->loads_are('1/0 100 4 4', 'R7, B3: A is over, once');
    $ng->ok_status("POST /reservations/$_/prefill_complete") for qw(c d);
    $ng->loads_are('1/0 100 4 4', 'nothing to take off');
    $ng->release('b');
    $ng->loads_are('1/0 0 3 3', 'B is freed with its tokens');
    $ng->release(qw(a c d));
    $ng->loads_are('1/0 0 0 0', 'all are');
};


subtest 'E1, B1: shared prefixes' => sub {
    $ng->afresh(1);

    my $projects = sub {
        my ($hashes, $blocks, $name) = @_;
        $ng->gives('POST /potential_loads', { hashed($hashes) }, 200,
            qr/"potential_decode_blocks":$blocks,/, $name);
    };

    my ($a, $b, $c, $d, $e, $x, $y) = (11 .. 17);
    books(on_one('r1', [ $a, $b, $c, $d ]), 'r1');
    $ng->loads_are('1/0 0 4 1', 'four blocks');
    books(on_one('r2', [ $a, $b, $e ]), 'r2');
    $ng->loads_are('1/0 0 5 2', 'five, not seven');
    $projects->([ $a, $b, $c, $x, $y ], 7, 'two more');
    $projects->([ $a, $b, $c, $d ], 5, 'none more');
    $projects->([ $a, $b ], 5, 'a shorter prompt');
    $projects->([ $b, $c ], 7, 'a path that begins elsewhere');
    $projects->([ $x, $a, $b ], 8, 'a first block that differs');
    $ng->release('r1');
    $ng->loads_are('1/0 0 3 1', 'r2 is left');
    $projects->([ $a, $b, $c, $x, $y ], 6, 'three more');
    $ng->release('r2');
    $projects->([ $a, $b, $c, $x, $y ], 5, 'five more');

    books(on_one('r1', 3), 'B1: 1, 2, 3');
    books(on_one('r2', [5]), 'B1: 5');
    $ng->loads_are('1/0 0 4 2', 'B1: four');
    books(on_one('r3', 4), 'B1: 1, 2, 3, 4');
    $ng->loads_are('1/0 0 5 3', 'B1: five');
    $ng->release('r2');
    $ng->loads_are('1/0 0 4 2', 'B1: four');
    $ng->release('r3');
    $ng->loads_are('1/0 0 3 1', 'B1: three');
    $ng->release('r1');
    $ng->loads_are('1/0 0 0 0', 'B1: none');

    # A block is its path from the root.
    books(on_one('p1', [ 5, 5 ]), 'the same hash twice');
    $ng->loads_are('1/0 0 2 1', 'two blocks');
    books(on_one('p2', [5]), 'its beginning');
    $ng->loads_are('1/0 0 2 2', 'no more');
    books(on_one('p3', [ 6, 5 ]), 'and under another parent');
    $ng->loads_are('1/0 0 4 3', 'two more');
    $ng->release(qw(p1 p2 p3));
};


subtest 'ranks and workers share nothing' => sub {
    $ng->afresh([ 1, data_parallel_size => 2 ], 2, [ 3, model_name => 'm' ]);

    books(on_one('s1', 3), 'one rank');
    books(on_one('s2', 3, dp_rank => 1), 'the other');
    books(on_one('s3', 3, worker_id => 2), 'another worker');
    books(on_one('s4', 3, worker_id => 3, model_name => 'm'), 'a model');
    my $all = '1/0 0 3 1, 1/1 0 3 1, 2/0 0 3 1, 3/0 0 3 1';
    $ng->loads_are($all, 'three blocks each');
    $ng->release('s2');
    $ng->loads_are($all =~ s{1/1 0 3 1}{1/1 0 0 0}r, 'freed on one of them');
    output('s1', 0);
    $ng->loads_are('1/0 0 0 1, 1/1 0 0 0, 2/0 0 3 1, 3/0 0 3 1',
        'and decayed on another');
};


subtest 'E2, B2: output blocks and decay' => sub {
    $ng->afresh(1);

    my $step = sub {
        my ($blocks, $requests, $name) = @_;
        $ng->loads_are("1/0 0 $blocks $requests", $name);
    };

    books(on_one('r1', 3), 'book r1');
    $step->(3, 1, 'three blocks');
    output('r1', '0.5', 'r1, one half');
    $step->(2, 1, '1.5 and 0.5');
    books(on_one('r2', 2), 'book r2');
    $step->(2, 2, 'shared blocks keep their weight');
    output('r1', '0.0', 'r1, nothing');
    $step->(1, 2, '1 and 0');
    output('r1', undef, 'r1, no fraction');
    $step->(2, 2, '1 and 1');
    $ng->release('r2');
    $step->(2, 1, 'the weight stays');
    output('r1', '0.25', 'r1, a quarter');
    $step->(2, 1, '0.75 and 1');
    $ng->release('r1');
    $step->(0, 0, 'all is gone');
    books(on_one('r3', 3), 'the same blocks again');
    $step->(3, 1, 'weigh one again');
    $ng->release('r3');

    # B8: output blocks are no part of a prompt, and private.
    books(on_one('o1', 1), 'a block');
    books(on_one('o2', 1), 'the same');
    output('o1', undef, 'B8: an output block') for 1 .. 3;
    output('o2', undef, 'B8: another');
    $step->(5, 2, 'B8: one and four');
    $ng->gives('POST /potential_loads', { hashed(2) }, 200,
        qr/"potential_decode_blocks":6,/, 'B8: nothing is matched by them');
    output('o1', '0', 'o1 decays');
    $step->(2, 2, 'not the shared block, nor that of the other');
    $ng->release('o1');
    $step->(2, 1, 'B8: freed with its booking');
    $ng->release('o2');
    $step->(0, 0, 'all of them');
};


subtest 'E3: rounding' => sub {
    $ng->afresh(1);

    for my $case ([ '0.5', 1, 1 ], [ '0.48', 1, 0 ], [ '0.5', 3, 2 ],
        [ '0.5', 5, 3 ], [ '0.4999', 1, 0 ], [ '1', 7, 7 ],
        [ '1e-9', 1, 0 ], [ '0.25', 2, 1 ])
    {
        my ($fraction, $count, $blocks) = @$case;
        books(on_one('e3', []), 'no block');
        output('e3', undef) for 2 .. $count;
        output('e3', $fraction);
        $ng->loads_are("1/0 0 $blocks 1", "$count times $fraction");
        $ng->release('e3');
    }
};


subtest 'L2: which fractions there are' => sub {
    $ng->afresh(1);
    books(on_one('f', 2), 'booked');

    my $path  = 'POST /reservations/%s/output_block';
    my $range = 'decay_fraction must be between 0.0 and 1.0';

    for my $fraction (qw(-0.1 1.5 1.0000001 -1e-300 2 1e300)) {
        for my $id (qw(f unknown)) {
            $ng->gives(sprintf($path, $id),
                "{\"decay_fraction\":$fraction}", 400, $range,
                "L2: $fraction for $id");
        }
    }

    for my $wrong ('"0.5"', 'true', '[]', '{}') {
        $ng->gives(sprintf($path, 'unknown'),
            "{\"decay_fraction\":$wrong}", 422, qr/decay_fraction/, $wrong);
    }

    $ng->gives(sprintf($path, 'unknown'), '{"decay_fraction":1e999}', 400,
        undef, 'a number that is none');
    $ng->gives(sprintf($path, 'f'), '[]', 422, qr/Failed to deserialize/,
        'a list');
    $ng->gives(sprintf($path, 'f'), '{"decay_fraction":0.5,'
        . '"decay_fraction":0.5}', 422, qr/duplicate field/, 'twice');
    $ng->gives(sprintf($path, 'f'), $_, 422, qr/Failed to deserialize/, $_)
        for 'null', '5', '"x"';
    $ng->gives(sprintf($path, 'f'), $_, 400, qr/Failed to parse/, "'$_'")
        for '{', ' ', '{} x', '{"decay_fraction":NaN}';
    $ng->loads_are('1/0 0 2 1', 'nothing of it counts');

    for my $fraction (qw(0 0.0 1 1.0 0.5 1e-300 5e-1), 'null') {
        $ng->ok_status(sprintf($path, 'f'),
            "{\"decay_fraction\":$fraction}", $fraction);
    }
    $ng->ok_status(sprintf($path, 'f'), '{"other":[1],"x":null}',
        'members of no meaning');
    $ng->release('f');
};


subtest 'bodies of the lifecycle routes' => sub {
    $ng->afresh(1);
    books(on_one('b', 1, effective_prefill_tokens => 3), 'booked');

    my $blocks = 1;
    my $client = $ng->connection;

    for my $headers ([], ['Content-Type: text/html'],
        ['Content-Type: application/json'])
    {
        is $client->post('/reservations/b/output_block', '',
            headers => $headers)->status, 200, "an empty body, @$headers";
        $blocks++;
    }

    is $client->request('POST', '/reservations/b/output_block')->status, 200,
        'none at all';
    $blocks++;
    is $client->post('/reservations/b/output_block', '{}')->status, 415,
        'a body without its type';
    is $client->post('/reservations/b/output_block', '{}',
        headers => ['Content-Type: text/plain'])->status, 415,
        'or of another one';
    is $client->post('/reservations/b/output_block', '{}', headers =>
        ['Content-Type: application/merge-patch+json'])->status, 200, 'JSON';
    $blocks++;
    $ng->loads_are("1/0 3 $blocks 1", 'the good ones count');

    for my $body ('', '{', 'x' x 100_000, "\x00") {
        is $client->post('/reservations/b/prefill_complete', $body,
            headers => ['Content-Type: image/png'])->body, '{"status":"ok"}',
            'prefill_complete does not look at its body';
    }
    $ng->loads_are("1/0 0 $blocks 1", 'and is done');

    is $client->request('DELETE', '/reservations/b', body => '{[',
        headers => ['Content-Type: image/png'])->body, '{"status":"ok"}',
        'nor does DELETE';
    $ng->loads_are('1/0 0 0 0', 'which is done');
};


subtest 'R9, H5: what is not there' => sub {
    $ng->afresh(1);
    books(on_one('gone', 2, effective_prefill_tokens => 8), 'booked');
    books(on_one('here', 2, effective_prefill_tokens => 8), 'another');
    $ng->release('gone');

    for my $id (qw(gone never)) {
        for my $call ("POST /reservations/$id/prefill_complete",
            "POST /reservations/$id/output_block", "DELETE /reservations/$id")
        {
            $ng->gives($call, undef, 404, "reservation $id not found",
                "R9: $call") for 1, 2;
        }
        $ng->gives("POST /reservations/$id/output_block",
            '{"decay_fraction":0}', 404, "reservation $id not found",
            'with a fraction');
    }

    # D9: ids that somebody thinks of before they are booked.
    books(on_one('never', 2, effective_prefill_tokens => 8), 'booked later');
    $ng->loads_are('1/0 16 2 2', 'is not taken for what came early');
};


subtest 'L4: found by the id alone' => sub {
    $ng->afresh([ 1, routing_group => 'a' ], [ 2, routing_group => 'b' ]);

    for my $n (1, 2) {
        books(on_one("l$n", 2, worker_id => $n,
            routing_group => $n == 1 ? 'a' : 'b',
            effective_prefill_tokens => 8), "booked in group $n");
    }

    $ng->ok_status('POST /reservations/l2/prefill_complete');
    $ng->loads_are('1/0 8 2 1, 2/0 0 2 1', 'one group');
    output('l1', undef);
    $ng->loads_are('1/0 8 3 1, 2/0 0 2 1', 'the other');
    $ng->release('l1');
    $ng->loads_are('1/0 0 0 0, 2/0 0 2 1', 'freed');
    $ng->gives('POST /reservations/l1/output_block', '{}', 404,
        'reservation l1 not found', 'and not found any more');
};


subtest 'ids in paths' => sub {
    $ng->afresh(1);

    my %ids = (
        'a%2Fb' => 'a/b', 'a%2fb' => 'a/b', '%61' => 'a', 'a%20b' => 'a b',
        'a+b' => 'a+b', '..' => '..', '%2e%2e' => '..', '.' => '.',
        '%C3%A9' => "\x{e9}", '%F0%9F%98%80' => "\x{1f600}",
        "\xc3\xa9" => "\x{e9}", 'a%25b' => 'a%b', '%2525' => '%25',
        'a%3Fb%23' => 'a?b#', 'a;b=c' => 'a;b=c', "~!*'()" => "~!*'()",
        '%22%5C' => '"\\', 'output_block' => 'output_block',
        'a%0Ab' => "a\nb", 'x' x 256 => 'x' x 256, 'y' x 257 => 'y' x 257,
        'z' x 3000 => 'z' x 3000, 'a%2Foutput_block' => 'a/output_block',
    );

    for my $path (sort keys %ids) {
        my $short = substr $path, 0, 20;
        my $text  = $JSON->encode($ids{$path});

        $ng->gives('POST /reservations', "{\"selection_id\":$text,"
            . '"worker_id":1,"sequence_hashes":[1],"isl_tokens":4,'
            . '"effective_prefill_tokens":4}', 201,
            qr/\A\{"selection_id":\Q$text\E,/, "booked: $short");
        $ng->ok_status("POST /reservations/$path/output_block", '{}', $short);
        $ng->ok_status("POST /reservations/$path/prefill_complete", undef,
            $short);
        $ng->loads_are('1/0 0 2 1', "reached: $short");
        $ng->ok_status("DELETE /reservations/$path?x=y", undef, $short);
        $ng->gives("DELETE /reservations/$path", undef, 404,
            '{"error":' . $JSON->encode("reservation $ids{$path} not found")
            . '}', "not found: $short");
    }

    $ng->loads_are('1/0 0 0 0', 'all are freed');

    for my $bad (qw(%FF a%C3 %C0%80 %ED%A0%80 %F5%80%80%80 %80)) {
        for my $call ("DELETE /reservations/$bad",
            "POST /reservations/$bad/prefill_complete",
            "POST /reservations/$bad/output_block")
        {
            $ng->gives($call, undef, 400, { plain =>
                'Invalid URL: Invalid UTF-8 in `reservation_id`' }, $call);
        }
    }

    $ng->gives('POST /reservations/%FF/output_block',
        '{"decay_fraction":5}', 400, { plain =>
            'Invalid URL: Invalid UTF-8 in `reservation_id`' },
        'the path comes before the body');
};


subtest 'below a prefix' => sub {
    $ng->afresh(1);

    $ng->gives('POST /untracked/reservations', on_one('a/b c', 1), 201,
        undef, 'booked');
    $ng->ok_status('POST /half/reservations/a%2Fb%20c/output_block', '{}',
        'the id stays as it was sent');
    $ng->ok_status('POST /zero/reservations/a%2fb%20c/prefill_complete');
    $ng->gives('DELETE /half/reservations/a/b%20c', undef, 404,
        'route not found', 'a slash is none of an id');
    $ng->loads_are('1/0 0 2 1', 'one booking');
    $ng->ok_status('DELETE /untracked/reservations/a%2Fb%20c');
};


subtest 'other paths and methods' => sub {
    $ng->afresh(1);
    books(on_one('x', 1), 'booked');

    for my $path (qw(/reservations/ /reservations//output_block
        /reservations//prefill_complete /reservations/x/
        /reservations/x/output_block/ /reservations/x/other
        /reservations/x/output_block/y /Reservations/x))
    {
        for my $method (qw(GET POST DELETE)) {
            $ng->gives("$method $path", undef, 404, 'route not found',
                "$method $path");
        }
    }

    my %allowed = (
        '/reservations'                    => 'POST',
        '/reservations/x'                  => 'DELETE',
        '/reservations/x/output_block'     => 'POST',
        '/reservations/x/prefill_complete' => 'POST',
    );

    for my $path (sort keys %allowed) {
        for my $method (grep { $_ ne $allowed{$path} }
            qw(GET POST PUT PATCH DELETE OPTIONS))
        {
            my $answer = $ng->ask("$method $path");
            is $answer->status . ' ' . $answer->body . ' '
                . ($answer->header('Allow') // ''),
                "405 {\"error\":\"method not allowed\"} $allowed{$path}",
                "$method $path";
        }
    }

    $ng->loads_are('1/0 0 1 1', 'nothing has changed');
};


subtest 'types' => sub {
    $ng->afresh(1);

    my @wrong = (
        worker_id => '-1', worker_id => '"1"', worker_id => '1.0',
        worker_id => '18446744073709551616', dp_rank => '4294967296',
        dp_rank => '-1', effective_prefill_tokens => '-1',
        effective_prefill_tokens => '1.5', track_prefill_tokens => '1',
        expected_output_tokens => '4294967296', model_name => 'null',
        routing_group => '5', token_ids => '["x"]', sequence_hashes => '{}',
        sequence_hashes => '[18446744073709551616]', isl_tokens => '-1',
        block_hashes => '[null]', lora_name => '5', is_eagle => '0',
        router_config_override => '5',
    );

    while (my ($member, $value) = splice @wrong, 0, 2) {
        my $rest = $member eq 'worker_id' ? '' : ',"worker_id":1';

        for my $form ($rest, $member eq 'worker_id' ? () : '') {
            refuses("{\"selection_id\":\"t\",\"$member\":$value$form}", 422,
                qr/\A\{"error":"Failed\ to\ deserialize\ the\ JSON\ body\ into
                    \ the\ target\ type:\ .*$member/x,
                "$member: $value" . ($form ? '' : ', replay'));
        }
    }

    refuses('', 400, qr/Failed to parse the request body as JSON: /,
        'no body');
    is $ng->post('/reservations', '{"selection_id":"t"}')->status, 415,
        'no media type';
    refuses('{"selection_id":"t","worker_id":1,"sequence_hashes":[],'
        . '"isl_tokens":0,"session_id":5,"session_context":7,'
        . '"pinned_worker":"x","tenant_id":[]}', 201, undef,
        'members of other routes mean nothing');
    $ng->release('t');
    refuses('{"selection_id":"t","worker_id":null}', 404,
        qr/no pending selection t for/, 'no worker is a replay');
};


subtest 'V5, V6, V12: the replay form' => sub {
    $ng->afresh([ 7, model_name => 'llama', routing_group => 'east',
        data_parallel_start_rank => 3, endpoint => 'http://10.0.0.7:8000' ]);

    my $in = '"model_name":"llama","routing_group":"east"';
    my $replay = "{\"selection_id\":\"v5\",$in";

    for my $more ('', ',"effective_prefill_tokens":5,"isl_tokens":2,'
        . '"sequence_hashes":[],"dp_rank":9,"track_prefill_tokens":false,'
        . '"token_ids":null')
    {
        $ng->gives('POST /select', "{\"selection_id\":\"v5\",$in,"
            . '"token_ids":[1,2,3,4],"expected_output_tokens":7}', 200,
            undef, 'selected');
        $ng->loads_are('7/3 0 0 0', 'R: a selection books nothing');
        $ng->gives('POST /reservations', "$replay$more}", 201,
            '{"selection_id":"v5","model_name":"llama",'
            . '"routing_group":"east","worker_id":7,"dp_rank":3,'
            . '"endpoint":"http://10.0.0.7:8000"}',
            $more ? 'V6: what the replay says is not looked at'
                : 'V5: replayed, the whole answer');
        $ng->loads_are('7/3 4 1 1', 'V5, V6: as it was selected');
        $ng->ok_status('POST /reservations/v5/prefill_complete');
        $ng->gives('POST /reservations', "$replay}", 404,
            'no pending selection v5 for model=llama routing_group=east '
            . '(expired, already used, or never selected)',
            'V5: a second time');
        $ng->release('v5');
    }

    # What counts was decided by the selection.
    for my $case ([ '/untracked', undef, 0 ], [ '/untracked', $true, 4 ],
        [ '', $false, 0 ], [ '', undef, 4 ])
    {
        my ($path, $track, $tokens) = @$case;
        $ng->gives("POST $path/select", { selection_id => 'v12',
            model_name => 'llama', routing_group => 'east',
            token_ids => [ 1 .. 4 ],
            router_config_override => { track_prefill_tokens => $track } },
            200, undef, "V12: selected at '$path'");
        $ng->gives(($path ? 'POST ' : 'POST /untracked') . '/reservations',
            "{\"selection_id\":\"v12\",$in}", 201, undef,
            'V12: replayed elsewhere');
        $ng->loads_are("7/3 $tokens 1 1", "V12: $tokens tokens");
        $ng->release('v12');
    }
};


subtest 'E7: busy or not' => sub {
    $ng->afresh([ 1, total_kv_blocks => 1000 ]);
    books(on_one('e7', [ 1001 .. 1499 ]), '499 blocks');

    my $busy = sub {
        my ($path, $blocks, $word) = @_;
        for my $route (qw(select select_and_reserve)) {
            $ng->gives("POST $path/$route", { selection_id => 'busy',
                token_ids => new_tokens(4) }, 200,
                qr/"potential_decode_blocks":$blocks,"decode_busy":$word\}/,
                "$path/$route with $blocks blocks: $word");
        }
        $ng->release('busy');
    };

    $busy->('/half', 500, 'false');
    books(on_one('more', [1]), 'one more');
    $busy->('/half', 501, 'true');
    $ng->release(qw(e7 more));
    $busy->('/zero', 1, 'true');
};


subtest 'D1, R11, R12: clients that go away' => sub {
    $ng->afresh(1);

    my $gone = $ng->connection;
    is $gone->post('/reservations', on_one('d1', 3))->status, 201,
        'D1: booked over a connection that ends';
    $gone->close;
    $ng->loads_are('1/0 0 3 1', 'D1: it is what it was');
    $ng->ok_status('DELETE /reservations/d1', undef,
        'D1: freed over another connection');
    $ng->loads_are('1/0 0 0 0', 'D1: the worker is idle');

    for my $n (1 .. 20) {
        books(on_one("r$n", 2), "booked $n");
        my $client = $ng->connection;
        $client->send(DELETE => "/reservations/r$n");
        $client->close;
    }
    $ng->loads_become('1/0 0 0 0', 'R11: freed, though nobody listens');
    books(on_one("r$_", 2), "R11: the id $_ is free") for 1 .. 20;

    my @clients = map { my $client = $ng->connection;
        $client->send_raw("DELETE /reservations/r$_ HTTP/1.1\r\nHost: x");
        $client } 1 .. 20;
    $_->close for @clients;
    $ng->loads_are('1/0 0 2 20', 'R12: half a request changes nothing');

    for my $n (1 .. 20) {
        my $client = $ng->connection;
        $client->send_raw("POST /reservations/r$n/output_block HTTP/1.1\r\n"
            . "Host: x\r\nContent-Type: application/json\r\n"
            . "Content-Length: 2\r\n\r\n{");
        $client->close;
    }
    $ng->loads_are('1/0 0 2 20', 'nor does half a body');
};


subtest 'one of many gets an id' => sub {
    $ng->afresh(1);

    my @counts = SelCrowd->start(map { my $who = $_; sub {
        my $http = $ng->connection;
        my %count;

        for my $n (1 .. 150) {
            my ($path, %more) = ($n + $who) % 2
                ? ('/select_and_reserve')
                : ('/reservations', worker_id => 1);
            my $status = $http->post($path, { selection_id => "one-$n",
                token_ids => [ 1 .. 4 ], %more })->status;
            $count{ $status =~ /^20/ ? 'booked' : $status }++;
        }

        return \%count;
    } } 1 .. 3)->results;

    my %sum;
    for my $count (@counts) {
        $sum{$_} += $count->{$_} for keys %$count;
    }

    is_deeply \%sum, { booked => 150, 409 => 300 }, 'and no other';
    like $ng->loads, qr{^1/0 \d+ 1 150$}, 'as the loads say';
};


subtest 'ten thousand blocks, two thousand output blocks' => sub {
    $ng->afresh(1);

    my @hashes = map { 7 * $_ } 1 .. 10_000;
    books(on_one('long', \@hashes), 'a long prompt');
    books(on_one('longer', [ @hashes, 5 ]), 'and one block more');
    $ng->loads_are('1/0 0 10001 2', 'are counted');

    my $client = $ng->connection(timeout => 30);
    my $wrong  = 0;
    for my $part (1 .. 20) {
        $client->send(POST => '/reservations/long/output_block')
            for 1 .. 100;
        $wrong += $client->receive->status != 200 for 1 .. 100;
    }
    is $wrong, 0, 'and many output blocks';
    $ng->loads_are('1/0 0 12001 2', 'each counts');
    output('long', '0.5');
    $ng->loads_are('1/0 0 11002 2', 'the blocks that it has alone decay');
    $ng->release(qw(long longer));
    $ng->loads_are('1/0 0 0 0', 'all are freed');
};

all_done;
