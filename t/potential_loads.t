# POST /potential_loads without bookings: which ranks have a row, and what a
# prompt would add to each.  Without this suite a client that places requests
# by itself could see ranks that cannot serve or cached tokens counted as work,
# or leave a load behind by asking.
#
# What other routes have in common with this one (methods, media types, sizes,
# types of members) is in errors.t and body.t.

use strict;
use warnings;

use JSON::PP ();
use Test::More;

use SelEngine;
use SelService;

my ($true, $false) = (JSON::PP::true, JSON::PP::false);
my $next = 1;
my $ng;


# Bodies are JSON texts here, as their numbers use all 64 bits.

sub ask {
    my ($members, $path) = @_;

    return $ng->post_json(($path // '') . '/potential_loads',
        ref $members ? JSON::PP->new->encode($members) : "{$members}");
}


# Checks the whole answer of each process: rows as [ worker, rank, prefill
# tokens, decode blocks ], in their order, with no active request.

sub adds {
    my ($members, $rows, $name, $path) = @_;

    my $want = '[' . join(',', map { sprintf '{"worker_id":%s,"dp_rank":%s,'
        . '"potential_prefill_tokens":%s,"potential_decode_blocks":%s,'
        . '"active_requests":0}', @$_ } @$rows) . ']';

    return $ng->at_once(sub { ask($members, $path) },
        sub { $_[0]->status == 200 && $_[0]->body eq $want
            && $_[0]->header('Content-Type') eq 'application/json' }, $name);
}


sub refuses {
    my ($members, $status, $error, $name) = @_;

    return $ng->at_once(sub { ask($members) }, sub {
        $_[0]->status == $status
            && $_[0]->body eq JSON::PP->new->encode({ error => $error })
    }, $name // $error);
}


sub token_list { return '"token_ids":[' . join(',', 1 .. $_[0]) . ']' }


# Without events, and one location where prefill does not count.

$ng = SelService->new(name => 'plain', http => 'select_kv_events off;',
    server => <<'SERVER')->run;
    location /untracked/ {
        select_track_prefill_tokens off;
        select_service selector;
    }
SERVER


subtest 'who has no row' => sub {
    my $body = token_list(4);

    refuses($body, 503, 'no schedulable workers are available');
    $ng->post('/workers', { worker_id => 1, block_size => 4 });
    refuses($body, 503, 'no schedulable workers are available',
        'an incomplete worker is none');

    $ng->register(2, model_name => 'other');
    refuses($body, 503,
        'no schedulable workers for model=default routing_group=default');
    refuses("\"model_name\":\"other\",\"routing_group\":\"g\",$body", 503,
        'no schedulable workers for model=other routing_group=g');

    $ng->remove(2);
    refuses($body, 503, 'no schedulable workers are available',
        'nor is one that is gone');

    # The order of the checks: types, the partition, the prompt.
    refuses('', 503, 'no schedulable workers are available',
        'the partition comes before the prompt');
    like ask('"token_ids":"x"')->body, qr/token_ids/, 'wrong types before it';
    is ask('"token_ids":"x"')->status, 422, 'as 422';
    is ask('"token_ids":')->status, 400, 'and wrong syntax as 400';
    $ng->remove(1);
};


subtest 'a row for every rank of every schedulable worker, in order' => sub {
    $ng->register('18446744073709551615' + 0);
    $ng->register(10, data_parallel_start_rank => 9, data_parallel_size => 3);
    $ng->register(9);
    $ng->register(2, model_name => 'other');
    $ng->register(4);
    $ng->remove(4);
    $ng->post('/workers', { worker_id => 1, block_size => 4 });

    adds(token_list(4), [ [ 9, 0, 4, 1 ], [ 10, 9, 4, 1 ], [ 10, 10, 4, 1 ],
        [ 10, 11, 4, 1 ], [ '18446744073709551615', 0, 4, 1 ] ], 'by number');
    adds('"model_name":"other",' . token_list(4), [ [ 2, 0, 4, 1 ] ],
        'of the partition');

    $ng->patch('/workers/10', { data_parallel_start_rank => 0,
        data_parallel_size => 1 });
    $ng->patch('/workers/9', { endpoint => '' });
    adds(token_list(4), [ [ 10, 0, 4, 1 ], [ '18446744073709551615', 0,
        4, 1 ] ], 'ranks follow the registration');
    $ng->remove(1, 2, 9, 10, '18446744073709551615');
};


subtest 'prompts in all forms' => sub {
    $ng->register(1);

    my $eight = '[1,2,3,4,5,6,7,8]';
    my $hashed = sub {
        my ($count, $isl) = @_;
        my $list = join ',', 1 .. $count;
        return qq("block_hashes":[$list],"sequence_hashes":[$list],)
            . qq("isl_tokens":$isl);
    };
    my $large = '18446744073709551615';

    my @cases = (
        # No tail: whole blocks alone.
        [ token_list(0), 0, 0, 'no token' ],
        [ token_list(1), 1, 0, 'less than a block' ],
        [ token_list(3), 3, 0, 'nearly a block' ],
        [ token_list(4), 4, 1, 'a block' ],
        [ token_list(5), 5, 1, 'and one token' ],
        [ token_list(9), 9, 2, 'two blocks and one token' ],
        [ token_list(40_003), 40_003, 10_000, 'a long prompt' ],
        [ '"token_ids":[0,4294967295,2,3]', 4, 1, 'any tokens' ],
        [ token_list(8) . ',"lora_name":"l","cache_salt":"s"', 8, 2,
            'LoRA and salt are nothing to count' ],

        # EAGLE.
        [ token_list(4) . ',"is_eagle":true', 4, 0, 'EAGLE: 4 tokens' ],
        [ token_list(5) . ',"is_eagle":true', 5, 1, 'EAGLE: 5 tokens' ],
        [ token_list(8) . ',"is_eagle":true', 8, 1, 'EAGLE: 8 tokens' ],
        [ token_list(9) . ',"is_eagle":true', 9, 2, 'EAGLE: 9 tokens' ],
        [ token_list(9) . ',"is_eagle":false', 9, 2, 'not EAGLE' ],

        # Hashes: as many blocks as there are, whatever the length.
        [ $hashed->(2, 8), 8, 2, 'hashes' ],
        [ $hashed->(2, 1), 1, 2, 'hashes of a short prompt' ],
        [ $hashed->(2, 100), 100, 2, 'hashes of a part of the prompt' ],
        [ $hashed->(0, 5), 5, 0, 'no hashes' ],
        [ $hashed->(0, $large), $large, 0, 'the longest prompt there is' ],
        [ '"block_hashes":[5,5],"sequence_hashes":[7,7],"isl_tokens":8',
            8, 2, 'the same hash twice' ],
        [ qq("block_hashes":[-1,$large],"sequence_hashes":)
            . qq([-9223372036854775808,9223372036854775808],"isl_tokens":8),
            8, 2, 'hashes of all 64 bits' ],

        # Which of them is the prompt.
        [ qq("mm_routing_info":{"routing_token_ids":$eight},)
            . token_list(4), 8, 2, 'N1: multimodal tokens win' ],
        [ '"mm_routing_info":{"routing_token_ids":[]},' . token_list(4),
            4, 1, 'unless there are none' ],
        [ token_list(8) . ',"block_hashes":[1],"sequence_hashes":[],'
            . '"isl_tokens":0', 8, 2, 'tokens win over hashes' ],
        [ token_list(0) . ",@{[ $hashed->(1, 4) ]}", 0, 0,
            'also when there are none' ],
        [ '"token_ids":null,"mm_routing_info":null,' . $hashed->(3, 12),
            12, 3, 'null is absence' ],
        [ token_list(8) . ',"block_mm_infos":[null,{"mm_objects":'
            . '[{"mm_hash":1,"offsets":[[0,4]]}]}]', 8, 2,
            'multimodal objects' ],
    );

    for my $case (@cases) {
        my ($members, $prefill, $blocks, $name) = @$case;
        adds($members, [ [ 1, 0, $prefill, $blocks ] ], $name);
    }

    # B3: the unit of a worker is that of its partition.
    $ng->register(2, model_name => 'sixteen', block_size => 16);
    for my $lora ('', ',"lora_name":"a"', ',"lora_name":"b"') {
        adds('"model_name":"sixteen",' . token_list(33) . $lora,
            [ [ 2, 0, 33, 2 ] ], "B3: blocks of 16 tokens$lora");
    }
    $ng->remove(2);
};


subtest 'N6: identities without reuse are as many as blocks' => sub {
    my $off = ',"router_config_override":{"assume_kv_reuse":false}';

    for my $case ([ 0, 0, '' ], [ 3, 0, '' ], [ 4, 1, '' ],
        [ 4, 0, ',"is_eagle":true' ], [ 5, 1, ',"is_eagle":true' ],
        [ 8, 1, ',"is_eagle":true' ], [ 9, 2, ',"is_eagle":true' ])
    {
        my ($count, $blocks, $eagle) = @$case;
        adds(token_list($count) . $off . $eagle,
            [ [ 1, 0, $count, $blocks ] ], "$count tokens$eagle");
    }

    # Hashes of the client are trusted in every mode.
    adds('"block_hashes":[1,2],"sequence_hashes":[3,4],"isl_tokens":9' . $off,
        [ [ 1, 0, 9, 2 ] ], 'hashes');
};


subtest 'prefill that does not count' => sub {
    my $with = sub {
        return token_list(9)
            . qq(,"router_config_override":{"track_prefill_tokens":$_[0]});
    };

    adds(token_list(9), [ [ 1, 0, 9, 2 ] ], 'it counts');
    adds($with->('false'), [ [ 1, 0, 0, 2 ] ], 'not by the request');
    adds($with->('true'), [ [ 1, 0, 9, 2 ] ], 'by the request');
    adds($with->('null'), [ [ 1, 0, 9, 2 ] ], 'null says nothing');
    adds(token_list(9), [ [ 1, 0, 0, 2 ] ], 'not by the location',
        '/untracked');
    adds($with->('true'), [ [ 1, 0, 9, 2 ] ], 'the request decides',
        '/untracked');
    adds($with->('null'), [ [ 1, 0, 0, 2 ] ], 'unless it says nothing',
        '/untracked');
};


subtest 'members of other routes, and overrides without effect' => sub {
    adds(token_list(8) . ",$_", [ [ 1, 0, 8, 2 ] ], $_) for (
        '"router_config_override":null',
        '"router_config_override":{}',
        '"router_config_override":{"overlap_score_credit":0.5,'
            . '"prefill_load_scale":0,"router_temperature":3,'
            . '"shared_cache_multiplier":1}',
        '"router_config_override":{"overlap_score_weight":0}',
        '"allowed_worker_ids":[],"pinned_worker":{"worker_id":9,"dp_rank":9}',
        '"affinity_target":5,"routing_constraints":null,"advisory":"x"',
        '"selection_id":7,"expected_output_tokens":"x","session_id":[]',
        '"tenant_id":"x","worker_id":9,"effective_prefill_tokens":3',
    );
};


subtest 'what a prompt needs' => sub {
    refuses('', 400, 'block_hashes is required without token_ids');
    refuses('"mm_routing_info":{"routing_token_ids":[]}', 400,
        'block_hashes is required without token_ids', 'no multimodal tokens');
    refuses('"sequence_hashes":[1],"isl_tokens":4', 400,
        'block_hashes is required without token_ids', 'in this order: first');
    refuses('"block_hashes":[1],"isl_tokens":0', 400,
        'sequence_hashes is required without token_ids');
    refuses('"block_hashes":[1],"sequence_hashes":[1,2]', 400,
        'isl_tokens is required without token_ids');
    refuses('"block_hashes":[1],"sequence_hashes":[1,2],"isl_tokens":0', 400,
        'isl_tokens must be greater than 0');
    refuses('"block_hashes":[1],"sequence_hashes":[1,2],"isl_tokens":4', 400,
        'block_hashes length 1 must match sequence_hashes length 2');
    refuses('"model_name":"other"', 503,
        'no schedulable workers for model=other routing_group=default',
        'the partition comes before all of these');
};


subtest 'types' => sub {
    my @wrong = (
        model_name => 'null', model_name => '5', routing_group => 'null',
        token_ids => '[-1]', token_ids => '[4294967296]', token_ids => '{}',
        token_ids => '["1"]', block_hashes => '[1.5]',
        block_hashes => '[18446744073709551616]',
        sequence_hashes => '[-9223372036854775809]',
        isl_tokens => '-1', isl_tokens => '1.0', lora_name => '5',
        cache_salt => '[]', is_eagle => '1', block_mm_infos => '[5]',
        mm_routing_info => '{}',
    );

    while (my ($member, $value) = splice @wrong, 0, 2) {
        my $name = $member eq 'mm_routing_info' ? 'routing_token_ids'
            : $member;
        my $answer = ask("\"$member\":$value");
        ok $answer->status == 422 && $answer->json->{error} =~ /\AFailed\ to
            \ deserialize\ the\ JSON\ body\ into\ the\ target\ type:\ .*
            $name/x, "$member: $value" or diag $answer->body;
    }

    for my $rule ([ overlap_score_credit => -1 ], [ prefill_load_scale => -1 ],
        [ router_temperature => -1 ], [ shared_cache_multiplier => 2 ])
    {
        my ($member, $value) = @$rule;
        my $answer = ask(
            "\"router_config_override\":{\"$member\":$value}");
        ok $answer->status == 422 && $answer->body =~ /$member must be/,
            "$member: $value" or diag $answer->body;
    }
};


subtest 'nothing is booked' => sub {
    my $client = $ng->connection;
    my $before = $ng->metric('select_selections_total');

    for (1 .. 200) {
        my $answer = $client->post('/potential_loads',
            { token_ids => [ 1 .. 9 ] });
        next if $answer->status == 200
            && $answer->json->[0]{potential_prefill_tokens} == 9;
        fail('each answer is the same');
        last;
    }

    adds(token_list(9), [ [ 1, 0, 9, 2 ] ], 'as after 200 questions');
    is $ng->metric('select_selections_total'), $before,
        'which are no selections';
    $ng->at_once(sub { $ng->post('/select', { advisory => $true,
        token_ids => [ 1 .. 9 ] }) }, sub {
            my $json = $_[0]->json;
            return $json->{potential_decode_blocks} == 3
                && $json->{worker_load}{active_prefill_tokens} == 0;
        }, 'a selection meets no load, and counts its tail');
    $ng->finish;
};


# With cached blocks: those are taken off, by their weight.

my $engine = SelEngine->start(ranks => 3, block_size => 4);

$ng = SelService->new(name => 'cached', server => <<'SERVER')->run;
    location /whole/ {
        select_host_cache_weight 1;
        select_disk_cache_weight 1;
        select_service selector;
    }
    location /none/ {
        select_overlap_score_credit 0;
        select_service selector;
    }
SERVER

$ng->register(1, events($engine, 0, 1));
$ng->register(2, kv_events_endpoint => $engine->endpoint(2));
$engine->wait_subscribers(2, $_) for 0 .. 2;

my @hashes;


subtest 'cached blocks are taken off' => sub {
    my $ask = token_list(14);

    adds($ask, [ [ 1, 0, 14, 3 ], [ 1, 1, 14, 3 ], [ 2, 0, 14, 3 ] ],
        'nothing is cached');

    $ng->counts({ stored => 2, batches => 2 }, 'two ranks store', sub {
        @hashes = $engine->publish_stored(tokens => [ 1 .. 8 ]);
        $engine->publish_stored(tokens => [ 1 .. 4 ], rank => 1);
    });
    adds($ask, [ [ 1, 0, 6, 3 ], [ 1, 1, 10, 3 ], [ 2, 0, 14, 3 ] ],
        'each rank by its own blocks; the decode blocks stay');
    adds(token_list(8), [ [ 1, 0, 0, 2 ], [ 1, 1, 4, 2 ], [ 2, 0, 8, 2 ] ],
        'all is cached');
    adds("$ask,\"lora_name\":\"x\"", [ [ 1, 0, 14, 3 ], [ 1, 1, 14, 3 ],
        [ 2, 0, 14, 3 ] ], 'nothing of it with another adapter');
    adds("$ask,\"router_config_override\":{\"overlap_score_credit\":0}",
        [ [ 1, 0, 6, 3 ], [ 1, 1, 10, 3 ], [ 2, 0, 14, 3 ] ],
        'the credit of the cost has nothing to do with it');
    adds($ask, [ [ 1, 0, 6, 3 ], [ 1, 1, 10, 3 ], [ 2, 0, 14, 3 ] ],
        'nor has that of the location', '/none');
    adds("$ask,\"router_config_override\":{\"track_prefill_tokens\":false}",
        [ [ 1, 0, 0, 3 ], [ 1, 1, 0, 3 ], [ 2, 0, 0, 3 ] ],
        'prefill that does not count');
    adds("$ask,\"router_config_override\":{\"assume_kv_reuse\":false}",
        [ [ 1, 0, 6, 3 ], [ 1, 1, 10, 3 ], [ 2, 0, 14, 3 ] ],
        'identities of the load have nothing to do with the cache');

    # The same blocks by the hashes of the vectors (tokens 0 to 7), and more
    # of them cached than the prompt is long.
    $ng->counts({ stored => 1, batches => 1 }, 'the tokens of a vector', sub {
        $engine->publish_stored(tokens => [ 0 .. 7 ]);
    });
    my $known = '"block_hashes":[9143094415614847814,12124091508212882195],'
        . '"sequence_hashes":[1,2],"isl_tokens":';
    adds("${known}9", [ [ 1, 0, 1, 2 ], [ 1, 1, 9, 2 ], [ 2, 0, 9, 2 ] ],
        'hashes');
    adds("${known}3", [ [ 1, 0, 0, 2 ], [ 1, 1, 3, 2 ], [ 2, 0, 3, 2 ] ],
        'not below nothing');

    $ng->counts({ removed => 1, batches => 1 }, 'one block goes', sub {
        $engine->publish_removed(hashes => [ $hashes[1] ]);
    });
    adds($ask, [ [ 1, 0, 10, 3 ], [ 1, 1, 10, 3 ], [ 2, 0, 14, 3 ] ],
        'and is to be done again');
};


subtest 'lower tiers count by their weight' => sub {
    my $ask = token_list(14);

    # Rank 1/0 has one block on the device, too.
    $ng->counts({ stored => 2, batches => 2 }, 'host and disk', sub {
        $engine->publish_stored(tokens => [ 5 .. 8 ],
            hashes => [902], medium => 'CPU', parent => $hashes[0]);
        $engine->publish_stored(tokens => [ 9 .. 12 ], hashes => [903],
            medium => 'DISK', parent => 902);
    });
    adds($ask, [ [ 1, 0, 14 - 8, 3 ], [ 1, 1, 10, 3 ], [ 2, 0, 14, 3 ] ],
        'two blocks in all');
    adds($ask, [ [ 1, 0, 14 - 12, 3 ], [ 1, 1, 10, 3 ], [ 2, 0, 14, 3 ] ],
        'three, where each is worth one', '/whole');
};


subtest 'a rank that nobody registered has no row' => sub {
    $ng->counts({ stored => 1, batches => 1 }, 'it stores', sub {
        $engine->publish_stored(tokens => [ 1 .. 12 ], dp_rank => 7,
            rank => 1);
    });
    adds(token_list(4), [ [ 1, 0, 0, 1 ], [ 1, 1, 0, 1 ], [ 2, 0, 4, 1 ] ],
        'as it cannot serve');
};


subtest 'workers that go and come' => sub {
    $ng->remove(1);
    adds(token_list(4), [ [ 2, 0, 4, 1 ] ], 'a worker is gone');
    $ng->register(1, events($engine, 0, 1));
    adds(token_list(4), [ [ 1, 0, 4, 1 ], [ 1, 1, 4, 1 ], [ 2, 0, 4, 1 ] ],
        'it is back, and empty');
};

all_done;
