# The calls of a well-known client, in its order: the KV-aware router of Ray
# Serve LLM, with one rank a replica, pools for prefill and decode, and
# lifecycle calls that may come at any time.  Without this suite that router
# could be refused for a number of 64 bits, an endpoint that is no URL or a
# member of an older release, or leave load behind.
#
# Each step is answered by another process than the step before.

use strict;
use warnings;

use JSON::PP ();
use Test::More;

use SelBooks;
use SelCrowd;
use SelEngine;

my ($true, $false) = (JSON::PP::true, JSON::PP::false);

# Worker ids are eight bytes of a hash.
my @ids    = ('18446744073709551557', '9223372036854775809',
    '12297829382473034411');
my @ranks  = (3, 0, 7);
my $engine = SelEngine->start(ranks => 3, replay => 1, block_size => 16);

my %names = (
    DYN_ROUTER_PREFILL_LOAD_SCALE             => 0.5,
    DYN_ROUTER_KV_OVERLAP_SCORE_CREDIT        => 0.75,
    DYN_ROUTER_KV_OVERLAP_SCORE_CREDIT_DECAY  => 0.25,
    DYN_ROUTER_DECODE_ACTIVE_REQUEST_WEIGHT   => 2,
);

delete @ENV{ grep { /^DYN_/ } keys %ENV };

my $ng = SelBooks->new(server => <<'SERVER')->run;
    location /decode/ {
        select_track_prefill_tokens on;
        select_service selector;
    }
SERVER


# A body as the client writes it: with the old name of the group.

sub body {
    my ($members) = @_;

    return "{\"model_name\":\"llama\",\"tenant_id\":\"default\",$members}";
}


sub register_text {
    my ($n, $more) = @_;

    my ($id, $rank) = ($ids[$n], $ranks[$n]);

    return body("\"worker_id\":$id,\"endpoint\":\"ray://replica-$n#x\","
        . '"block_size":16,"max_num_batched_tokens":8192,'
        . "\"data_parallel_start_rank\":$rank,\"data_parallel_size\":1,"
        . "\"kv_events_endpoints\":{\"$rank\":\"" . $engine->endpoint($n)
        . '"},"replay_endpoint":"' . $engine->replay_endpoint($n)
        . '","total_kv_blocks":4096' . ($more // ''));
}


sub list { return '[' . join(',', @_) . ']' }

my @prompt = map { 10_000 + $_ } 1 .. 40;       # two blocks and a half


subtest 'registration' => sub {
    for my $n (0 .. 2) {
        $ng->gives('POST /workers', register_text($n), 201,
            qr/\A\{"worker_id":$ids[$n],"model_name":"llama",
                "routing_group":"default","lifecycle":"schedulable",
                "endpoint":"ray:\/\/replica-$n\#x",.*
                "replay_endpoint":"tcp:[^"]*",.*
                "data_parallel_start_rank":$ranks[$n],/x,
            'a replica: 64 bits, no URL, the tenant ignored');
    }

    $engine->wait_subscribers(2, $_) for 0 .. 2;
    $ng->gives('GET /ready', undef, 200, qr/"schedulable_workers":3,/,
        'all are ready');
    $ng->gives('GET /workers?model_name=llama&tenant_id=default', undef, 200,
        qr/"worker_id":$ids[0],/, 'and listed');
};


subtest 'select_and_reserve' => sub {
    my $all = list(@ids);

    for my $expected ('null', 128) {
        my $answer = $ng->ask('POST /select_and_reserve',
            body('"selection_id":"chat-1","token_ids":' . list(@prompt)
            . ",\"allowed_worker_ids\":$all,"
            . "\"expected_output_tokens\":$expected"));
        my $json = $answer->json;

        is $answer->status, 200, "expected output $expected";
        is $json->{selection_id}, 'chat-1', 'the id';
        is scalar(grep { $json->{worker_id} eq $_ } @ids), 1, 'a replica';
        my ($n) = grep { $json->{worker_id} eq $ids[$_] } 0 .. 2;
        is $json->{dp_rank}, $ranks[$n], 'its rank';
        is scalar(@{ $json->{sequence_hashes} }), 2, 'two hashes';
        is $json->{isl_tokens}, 40, 'the length';
        is $json->{effective_prefill_tokens}, 40, 'nothing is cached';
        is $json->{overlap}{longest_matched}, 0, 'as it says';
        ok $json->{track_prefill_tokens}, 'prefill counts';
        $ng->ok_status('DELETE /reservations/chat-1', undef, 'done');
    }

    $ng->gives('POST /select_and_reserve', body('"selection_id":"chat-2",'
        . '"token_ids":' . list(@prompt) . ',"allowed_worker_ids":'
        . list($ids[2])), 200, qr/"worker_id":$ids[2],"dp_rank":7,/,
        'one allowed replica');
    $ng->gives('POST /select_and_reserve', body('"selection_id":"chat-3",'
        . '"token_ids":' . list(@prompt) . ',"allowed_worker_ids":[5]'), 503,
        'no endpoints available to route work', 'one that is gone');
    $ng->ok_status('DELETE /reservations/chat-2');
};


subtest 'cached blocks lead the way' => sub {
    $ng->counts({ stored => 1, batches => 1 }, 'a replica stores', sub {
        $engine->publish_stored(rank => 1, tokens => [ @prompt[ 0 .. 31 ] ],
            dp_rank => $ranks[1]);
    });
    $ng->gives('POST /select_and_reserve', body('"selection_id":"chat-4",'
        . '"token_ids":' . list(@prompt)), 200,
        qr/"worker_id":$ids[1],"dp_rank":0,.*"longest_matched":32,.*
            "effective_prefill_tokens":8,/x, 'chosen for its cache');
    $ng->ok_status('DELETE /reservations/chat-4');
};


# The booking of an answer at other selectors.

subtest 'a peer books the same' => sub {
    my $answer = $ng->ask('POST /select_and_reserve',
        body('"selection_id":"peer","token_ids":' . list(@prompt)
        . ',"allowed_worker_ids":' . list($ids[0])));
    my $json = $answer->json;
    my ($hashes) = $answer->body =~ /"sequence_hashes":(\[.*?\])/;

    $ng->ok_status('DELETE /reservations/peer');
    $ng->gives('POST /reservations', body('"selection_id":"peer",'
        . "\"worker_id\":$ids[0],\"dp_rank\":$json->{dp_rank},"
        . "\"sequence_hashes\":$hashes,"
        . "\"isl_tokens\":$json->{isl_tokens},\"effective_prefill_tokens\":"
        . "$json->{effective_prefill_tokens},"
        . '"expected_output_tokens":null,"track_prefill_tokens":true'), 201,
        qr/\A\{"selection_id":"peer",.*"worker_id":$ids[0],"dp_rank":3,
            "endpoint":"ray:\/\/replica-0\#x"\}\z/x, 'explicitly');
    like $ng->loads, qr{$ids[0]/3 40 2 1}, 'the same load';
    $ng->ok_status('POST /reservations/peer/prefill_complete');
    like $ng->loads, qr{$ids[0]/3 0 2 1}, 'prefill is over';
    $ng->ok_status('DELETE /reservations/peer');
};


subtest 'prefill and decode pools' => sub {
    # Prefill: a selection without an id, then a booking without blocks.
    my $chosen = $ng->ask('POST /select', body('"token_ids":'
        . list(map { 7 * $_ } 1 .. 50) . ',"allowed_worker_ids":'
        . list(@ids[ 0, 1 ])))->json;
    ok !exists $chosen->{selection_id}, 'selected without an id';
    my ($n) = grep { $chosen->{worker_id} eq $ids[$_] } 0 .. 2;
    $ng->gives('POST /reservations', body('"selection_id":"pd-prefill",'
        . "\"worker_id\":$ids[$n],\"dp_rank\":$ranks[$n],"
        . '"sequence_hashes":[],"isl_tokens":50,'
        . "\"effective_prefill_tokens\":$chosen->{effective_prefill_tokens}"),
        201, undef, 'booked without hashes');
    like $ng->loads, qr{$ids[$n]/$ranks[$n] 50 0 1}, 'tokens, no blocks';

    # Decode.
    $ng->gives('POST /decode/select_and_reserve', body(
        '"selection_id":"pd-decode","token_ids":' . list(map { 7 * $_ }
        1 .. 50) . ',"allowed_worker_ids":' . list($ids[2])
        . ',"expected_output_tokens":64,"router_config_override":'
        . '{"overlap_score_credit":0.0,"assume_kv_reuse":false,'
        . '"track_prefill_tokens":false}'), 200,
        qr/"track_prefill_tokens":false,.*"worker_id":$ids[2],/,
        'overrides of the decode pool');
    like $ng->loads, qr{$ids[2]/7 0 3 1}, 'blocks, no tokens';

    # D9: the ends of both, crossed and repeated.
    for my $id (qw(pd-decode pd-prefill pd-prefill)) {
        $ng->ok_status("POST /reservations/$id/prefill_complete");
    }
    $ng->ok_status('DELETE /reservations/pd-prefill');
    $ng->gives('DELETE /reservations/pd-prefill', undef, 404,
        'reservation pd-prefill not found', 'a double free');
    like $ng->loads, qr{$ids[2]/7 0 3 1}, 'does not touch the other';
    $ng->ok_status('DELETE /reservations/pd-decode');
};


subtest 'output by block boundaries' => sub {
    my $expected = 64;

    $ng->gives('POST /select_and_reserve', body('"selection_id":"out",'
        . '"token_ids":' . list(@prompt) . ',"allowed_worker_ids":'
        . list($ids[0]) . ",\"expected_output_tokens\":$expected"), 200,
        undef, 'booked');

    # One call for each boundary: fraction 1 - produced / expected.
    my ($calls, $blocks) = (0, 2);
    for my $produced (1 .. $expected) {
        next if (40 + $produced) % 16 != 1;
        my $fraction = 1 - $produced / $expected;
        $ng->ok_status('POST /reservations/out/output_block',
            { decay_fraction => $fraction }, "after $produced tokens");
        $calls++;
        $blocks = int((2 + $calls) * $fraction + 0.5);
        like $ng->loads, qr{$ids[0]/3 40 $blocks 1}, "$blocks blocks";
    }
    is $calls, 4, 'four boundaries';
    $ng->ok_status('DELETE /reservations/out');
};


subtest 'calls that come at any time' => sub {
    my $before = $ng->loads;

    for my $round (1 .. 3) {
        for my $call ('POST /reservations/early/prefill_complete',
            'POST /reservations/early/output_block',
            'DELETE /reservations/early', 'DELETE /reservations/early')
        {
            $ng->gives($call, undef, 404, 'reservation early not found',
                "before the booking: $call");
        }
    }
    is $ng->loads, $before, 'nothing changes';

    $ng->gives('POST /select_and_reserve', body('"selection_id":"early",'
        . '"token_ids":' . list(@prompt) . ',"allowed_worker_ids":'
        . list($ids[0])), 200, undef, 'then the booking');
    like $ng->loads, qr{$ids[0]/3 40 2 1}, 'counts as a whole';
    $ng->ok_status('DELETE /reservations/early');
    $ng->gives('POST /reservations/early/prefill_complete', undef, 404,
        'reservation early not found', 'completion behind the end');
    is $ng->loads, $before, 'nothing is left';
};


# D22: every client at its own pace, all calls stand alone.

subtest 'a storm of frees, known and unknown' => sub {
    my @counts = SelCrowd->start(map { my $who = $_; sub {
        my $http = $ng->connection;
        my %count;

        for my $n (1 .. 60) {
            my $id = "storm-$who-$n";
            my %body = (model_name => 'llama', tenant_id => 'default',
                token_ids => [ map { $n * $_ } 1 .. 20 ],
                selection_id => $id);
            $count{ join ' ', map { $_->status }
                $http->delete("/reservations/$id"),
                $http->post('/select_and_reserve', \%body),
                $http->delete("/reservations/storm-x-$n"),
                $http->post("/reservations/$id/prefill_complete"),
                $http->post("/reservations/$id/output_block",
                    { decay_fraction => 0.5 }),
                $http->delete("/reservations/$id"),
                $http->delete("/reservations/$id") }++;
        }

        return \%count;
    } } 1 .. 3)->results;

    is_deeply \@counts, [ ({ '404 200 404 200 200 200 404' => 60 }) x 3 ],
        'each is answered for itself';
    is join(', ', sort split /, /, $ng->loads), join(', ',
        sort map { "$ids[$_]/$ranks[$_] 0 0 0" } 0 .. 2), 'nothing is left';
};


subtest 'a replica goes without frees' => sub {
    $ng->gives('POST /select_and_reserve', body("\"selection_id\":\"gone-$_\","
        . '"token_ids":' . list(@prompt) . ',"allowed_worker_ids":'
        . list($ids[0])), 200, undef, "request $_") for 1 .. 5;
    like $ng->loads, qr{$ids[0]/3 200 2 5}, 'five requests';
    $ng->gives("DELETE /workers/$ids[0]", undef, 200,
        qr/"worker_id":$ids[0],.*"lifecycle":"unschedulable"/,
        'the replica is gone');
    unlike $ng->loads, qr/$ids[0]/, 'its load with it';
    $ng->gives("DELETE /reservations/gone-$_", undef, 404,
        "reservation gone-$_ not found", 'frees that come are harmless')
        for 1 .. 5;
    $ng->gives('POST /workers', register_text(0), 201,
        qr/"lifecycle":"schedulable"/, 'a new replica');
    like $ng->loads, qr{$ids[0]/3 0 0 0}, 'is idle';
    $ng->finish;
};


subtest 'its variables are in force' => sub {
    local @ENV{ keys %names } = values %names;

    my $tuned = SelBooks->new(name => 'tuned')->run;
    my $log   = $tuned->log;

    for my $name (sort keys %names) {
        like $log, qr/settings: .*\($name\)/, $name;
    }

    # Scale 0.5 and weight 2: 0.5 * 8 / 4 blocks and so on.
    $tuned->register($_) for 1, 2;
    $tuned->book('n', 1, sequence_hashes => [], isl_tokens => 0);
    $tuned->book('p', 2, sequence_hashes => [], isl_tokens => 15,
        effective_prefill_tokens => 0);
    $tuned->release('p');
    my %ask = (token_ids => new_tokens(4));
    is $tuned->ask('POST /select', \%ask)->json->{worker_id}, 2,
        'a request weighs';
    $tuned->book('p', 2, sequence_hashes => [], isl_tokens => 100,
        effective_prefill_tokens => 20, track_prefill_tokens => $true);
    is $tuned->ask('POST /select', \%ask)->json->{worker_id}, 1,
        'and so does prefill';
    $tuned->finish;
};

all_done;
