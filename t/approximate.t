# Caches that are known from bookings alone: with KV events off every booking
# tells what its rank will hold, with events on the same is a forecast beside
# them.  Without this suite equal prompts could be spread over all workers
# where no engine publishes, or a worker could be believed to hold blocks long
# after they are gone.
#
# Each step is answered by another process than the step before, and what one
# has booked the next one must know at once.

use strict;
use warnings;

use JSON::PP ();
use Test::More;
use Time::HiRes qw(time);

use SelBooks;
use SelEngine;
use SelProc qw(poll_for);

my ($true, $false) = (JSON::PP::true, JSON::PP::false);
my $late = at_most(1);
my $ng;


sub prompt { return (token_ids => new_tokens(4 * $_[0])) }


# Device blocks of a prompt, as both processes tell them now: "1/0 2, 2/0 0".

sub scores {
    my ($body, $client) = @_;

    my $answer = $ng->ask('POST /overlap_scores', $body, $client);

    return $answer->status if $answer->status != 200;

    return join ', ', map { "$_->{worker_id}/$_->{dp_rank} "
        . "$_->{device_blocks}" } @{ $answer->json->{workers} };
}

sub knows {
    my ($body, $want, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my @got = map { scores($body, $_) } $ng->clients;

    return is join(' | ', @got), join(' | ', ($want) x @got), $name;
}


# Books in one step on a worker and frees it again.

sub visit {
    my ($worker, %members) = @_;

    my $answer = $ng->ask('POST /select_and_reserve', {
        selection_id => 'visit', allowed_worker_ids => [$worker], %members });

    die 'not booked: ' . $answer->body . "\n" if $answer->status != 200;
    $ng->release('visit');

    return $answer->json;
}


# The time, in seconds after the start, when the prompt was last known to the
# rank and when it was not any more.

sub forgets {
    my ($body, $want, $start, $limit) = @_;

    my ($last, $first) = (0, 0);

    poll_for(sub {
        my $before = time;
        my $same = scores($body) eq $want;
        $last  = $before - $start if $same;
        $first = time - $start if !$same;
        return !$same;
    }, $limit);

    return ($last, $first);
}


$ng = SelBooks->new(name => 'off', http => 'select_kv_events off;')->run;


subtest 'N1, S3: a selection records nothing' => sub {
    $ng->afresh(1, 2);
    my %prompt = prompt(2);

    for my $n (1 .. 10) {
        my $answer = $ng->ask('POST /select', { %prompt,
            selection_id => 'n1', advisory => $n % 2 ? $true : $false });
        is $answer->json->{overlap}{longest_matched}, 0, "selection $n";
    }
    knows(\%prompt, '1/0 0, 2/0 0', 'N1: nothing is known');
};


subtest 'N1, V13: each way to book records' => sub {
    $ng->afresh(1, 2);

    my %one = prompt(3);
    $ng->gives('POST /select_and_reserve', { selection_id => 'one', %one,
        allowed_worker_ids => [2] }, 200,
        qr/"overlap":\{"longest_matched":0,/, 'in one step');
    knows(\%one, '1/0 0, 2/0 3', 'V13: in one step');

    my %two = prompt(2);
    $ng->ask('POST /select', { selection_id => 'two', %two,
        allowed_worker_ids => [1] });
    knows(\%two, '1/0 0, 2/0 0', 'not by the selection');
    $ng->gives('POST /reservations', { selection_id => 'two' }, 201, undef,
        'replayed');
    knows(\%two, '1/0 2, 2/0 0', 'V13: by the replay');

    my %three = prompt(4);
    $ng->book('three', 2, %three);
    knows(\%three, '1/0 0, 2/0 4', 'V13: explicitly');

    # By hashes: those of the blocks, not those of the sequence.
    my @hashes = (11, 12, 13);
    my %hashes = (block_hashes => \@hashes, isl_tokens => 12);
    $ng->book('four', 1, %hashes, sequence_hashes => [ 1, 2, 3 ]);
    knows({ %hashes, sequence_hashes => [ 7, 8, 9 ] }, '1/0 3, 2/0 0',
        'explicitly by hashes');
    $ng->book('five', 2, sequence_hashes => [ 11, 12, 13 ],
        isl_tokens => 12);
    knows({ %hashes, sequence_hashes => [ 1, 2, 3 ] }, '1/0 3, 2/0 0',
        'sequence hashes alone tell nothing');
    $ng->gives('POST /select_and_reserve', { selection_id => 'six',
        %hashes, sequence_hashes => [ 4, 5, 6 ],
        allowed_worker_ids => [2] }, 200, undef, 'hashes in one step');
    knows({ %hashes, sequence_hashes => [ 1, 2, 3 ] }, '1/0 3, 2/0 3',
        'are known on both');

    my %mm = (mm_routing_info => { routing_token_ids => new_tokens(8) });
    $ng->book('seven', 1, %mm);
    knows(\%mm, '1/0 2, 2/0 0', 'a multimodal prompt');

    $ng->release(qw(one two three four five six seven));
    knows(\%one, '1/0 0, 2/0 3', 'a booking that ends takes nothing away');
    knows(\%two, '1/0 2, 2/0 0', 'nor does a replayed one');
    knows(\%three, '1/0 0, 2/0 4', 'nor an explicit one');
};


subtest 'what the explicit form must bring when it is recorded' => sub {
    $ng->afresh(1);

    my $hashes = sub {
        my ($isl, $count) = @_;
        return { selection_id => 'x', worker_id => 1, isl_tokens => $isl,
            sequence_hashes => [ 1, 2 ], block_hashes => [ 1 .. $count ] };
    };

    $ng->gives('POST /reservations', $hashes->(8, 1), 400,
        'block_hashes length 1 must match sequence_hashes length 2',
        'as many hashes of both kinds');
    $ng->gives('POST /reservations', $hashes->(0, 2), 400,
        'isl_tokens must be greater than 0', 'a length');
    $ng->gives('POST /reservations', $hashes->(8, 2), 201, undef, 'both');
    $ng->release('x');

    # These rules come behind that of the worker and before that of the id.
    $ng->gives('POST /reservations', { %{ $hashes->(8, 1) },
        worker_id => 9 }, 404, qr/schedulable worker 9 not found/,
        'the worker first');
    $ng->book('x', 1, sequence_hashes => [1], isl_tokens => 4);
    $ng->gives('POST /reservations', $hashes->(8, 1), 400,
        'block_hashes length 1 must match sequence_hashes length 2',
        'the id last');
    $ng->gives('POST /reservations', $hashes->(8, 2), 409, undef, 'the id');

    # And only for those.
    $ng->release('x');
    for my $members ({ sequence_hashes => [], isl_tokens => 0 },
        { sequence_hashes => [ 1, 2 ], isl_tokens => 0 },
        { token_ids => [] })
    {
        $ng->gives('POST /reservations', { selection_id => 'x',
            worker_id => 1, %$members }, 201, undef, 'nothing to record');
        $ng->release('x');
    }
};


subtest 'what is not booked is not recorded' => sub {
    $ng->afresh(1, 2);
    my %prompt = prompt(2);

    $ng->book('taken', 2, sequence_hashes => [1], isl_tokens => 4);
    $ng->gives('POST /select_and_reserve', { selection_id => 'taken',
        %prompt }, 409, undef, 'a taken id');
    $ng->gives('POST /reservations', { selection_id => 'taken',
        worker_id => 1, %prompt }, 409, undef, 'explicitly');
    $ng->gives('POST /reservations', { selection_id => 'new', dp_rank => 5,
        worker_id => 1, %prompt }, 404, undef, 'no such rank');
    $ng->ask('POST /select', { selection_id => 'taken', %prompt });
    $ng->gives('POST /reservations', { selection_id => 'taken' }, 409, undef,
        'a replay');
    knows(\%prompt, '1/0 0, 2/0 0', 'nothing is known');
};


subtest 'what is known of a prompt' => sub {
    $ng->afresh([ 1, data_parallel_size => 2 ], 2);

    my $tokens = new_tokens(14);
    my @tokens = @$tokens;
    visit(1, token_ids => $tokens,
        pinned_worker => { worker_id => 1, dp_rank => 1 });

    my $first = sub { return { token_ids => [ @tokens[ 0 .. $_[0] - 1 ] ] } };
    knows($first->(14), '1/0 0, 1/1 3, 2/0 0', 'whole blocks, on its rank');
    knows($first->(12), '1/0 0, 1/1 3, 2/0 0', 'its blocks alone');
    knows($first->(11), '1/0 0, 1/1 2, 2/0 0', 'a shorter one');
    knows({ token_ids => [ @tokens[ 0 .. 7 ], 1 .. 8 ] },
        '1/0 0, 1/1 2, 2/0 0', 'one that leaves it');
    knows({ token_ids => [ @tokens[ 4 .. 11 ] ] }, '1/0 0, 1/1 0, 2/0 0',
        'one that begins later');
    knows({ %{ $first->(12) }, lora_name => 'a' }, '1/0 0, 1/1 0, 2/0 0',
        'another adapter');
    knows({ %{ $first->(12) }, cache_salt => 'a' }, '1/0 0, 1/1 0, 2/0 0',
        'another salt');

    # New identities for the load are none for the cache.
    my %apart = prompt(2);
    visit(2, %apart, router_config_override => {
        assume_kv_reuse => $false });
    knows(\%apart, '1/0 0, 1/1 0, 2/0 2', 'without reuse');

    # It counts as cached in all answers.
    my $again = visit(1, %{ $first->(14) },
        pinned_worker => { worker_id => 1, dp_rank => 1 });
    is_deeply [ @$again{qw(overlap effective_prefill_tokens)} ],
        [ { longest_matched => 12, gpu => 12, cpu => 12, disk => 12,
            dp => { 0 => 0, 1 => 12 } }, 2 ], 'the second booking';
    $ng->gives('POST /select_and_reserve', { selection_id => 'load',
        %{ $first->(14) }, pinned_worker => { worker_id => 1,
            dp_rank => 1 } }, 200, undef, 'a third one');
    $ng->loads_are('1/0 0 0 0, 1/1 2 3 1, 2/0 0 0 0',
        'has two tokens to prefill');
    $ng->release('load');

    # And draws prompts to its rank.
    for (1 .. 10) {
        my $json = $ng->ask('POST /select', $first->(14))->json;
        is "$json->{worker_id}/$json->{dp_rank}", '1/1', 'chosen';
    }
};


subtest 'each process knows at once' => sub {
    $ng->afresh(1, 2, 3);

    my @wrong;

    for my $round (1 .. 200) {
        my $worker = 1 + $round % 3;
        my %prompt = prompt(1 + $round % 5);
        my $blocks = 1 + $round % 5;

        # Alternately booked in either process, asked in the other first.
        $ng->turn if $round % 7 == 0;
        visit($worker, %prompt);
        $ng->turn;
        for (1, 2) {
            my $got  = scores(\%prompt);
            my $want = join ', ', map { "$_/0 "
                . ($_ == $worker ? $blocks : 0) } 1 .. 3;
            push @wrong, "$round: $got, not $want" if $got ne $want;
        }
    }

    is "@wrong[ 0 .. ($#wrong < 5 ? $#wrong : 5) ]", '', 'of 200 bookings';
};


subtest 'workers that go' => sub {
    $ng->afresh([ 1, data_parallel_size => 2 ], 2);

    my %prompt = prompt(2);
    visit(1, %prompt, pinned_worker => { worker_id => 1, dp_rank => $_ })
        for 0, 1;
    visit(2, %prompt);
    knows(\%prompt, '1/0 2, 1/1 2, 2/0 2', 'three ranks');

    $ng->gives('PATCH /workers/1', { total_kv_blocks => 9 }, 200, undef,
        'a setting changes');
    knows(\%prompt, '1/0 2, 1/1 2, 2/0 2', 'nothing is lost by that');
    $ng->gives('PATCH /workers/1', { data_parallel_size => 1 }, 200, undef,
        'a rank goes');
    knows(\%prompt, '1/0 2, 2/0 2', 'its blocks do');
    $ng->gives('PATCH /workers/1', { data_parallel_size => 2 }, 200, undef,
        'and comes');
    knows(\%prompt, '1/0 2, 1/1 0, 2/0 2', 'without them');

    $ng->remove(2);
    $ng->register(2);
    knows(\%prompt, '1/0 2, 1/1 0, 2/0 0', 'a worker goes and comes');
    $ng->register(1, routing_group => 'g');
    knows(\%prompt, '2/0 0', 'one moves');
    $ng->register(1);
    knows(\%prompt, '1/0 0, 2/0 0', 'and moves back');

    my %other = prompt(2);
    visit(1, %other);
    knows(\%other, '1/0 2, 2/0 0', 'and learns anew');
    visit(1, %prompt);
    knows(\%prompt, '1/0 2, 2/0 0', 'also what it has known before');
    visit(2, %prompt);
    knows(\%prompt, '1/0 2, 2/0 2', 'as does the one that went');
};


subtest 'many decisions' => sub {
    $ng->afresh(1, 2);

    my $client = $ng->connection(timeout => 30);
    my @prompts = map { { prompt(64) } } 1 .. 600;
    my $failed = 0;

    for my $part (0 .. 11) {
        $client->send(POST => '/reservations', body => {
            selection_id => "m$part-$_", worker_id => 1 + $_ % 2,
            %{ $prompts[ 50 * $part + $_ ] } }) for 0 .. 49;
        $failed += $client->receive->status != 201 for 0 .. 49;
    }
    is $failed, 0, '600 bookings of 64 blocks, all in one process';

    my @wrong = grep {
        scores($prompts[$_]) ne ($_ % 2 ? '1/0 0, 2/0 64' : '1/0 64, 2/0 0')
    } map { 37 * $_ } 0 .. 16;
    is "@wrong", '', 'are known in both';
    knows($prompts[599], '1/0 0, 2/0 64', 'the last one');
    knows($prompts[0], '1/0 64, 2/0 0', 'the first one');
};

$ng->finish;


# Time: a block lives from its last recording on.

$ng = SelBooks->new(name => 'ttl', http => <<'HTTP')->run;
    select_kv_events off;
    select_approximate_ttl 2s;
HTTP

subtest 'N3: what is recorded has its time' => sub {
    $ng->afresh(1, 2);

    my %once  = prompt(2);
    my %twice = prompt(2);
    my %part  = prompt(3);
    my $start = time;
    visit(1, %once);
    visit(1, %twice);
    visit(1, %part);
    my $made = time;

    poll_for(sub { time - $start > 1.2 }, 3);
    my $renewed = time;
    visit(1, %twice);
    visit(1, token_ids => [ @{ $part{token_ids} }[ 0 .. 3 ] ]);

    my ($last, $first) = forgets(\%once, '1/0 2, 2/0 0', $start, 4);
    cmp_ok $first, '>=', 2, 'N3: not forgotten before';
    cmp_ok $last, '<', $made - $start + 2.1 + $late, 'N3: nor long after';
    knows(\%once, '1/0 0, 2/0 0', 'N3: in neither process');
    forgets(\%part, '1/0 3, 2/0 0', $start, 4);

    SKIP: {
        skip 'too slow a machine to look in time', 2
            if time - $renewed > 1.5;
        knows(\%twice, '1/0 2, 2/0 0', 'N3: what was recorded again lives');
        knows(\%part, '1/0 1, 2/0 0', 'as far as it was recorded again');
    }

    ($last, $first) = forgets(\%twice, '1/0 2, 2/0 0', $renewed, 4);
    cmp_ok $first, '>=', 2, 'N3: until its second time is over';
    forgets(\%part, '1/0 1, 2/0 0', $renewed, 4);
    knows(\%part, '1/0 0, 2/0 0', 'all is forgotten');

    visit(1, %once);
    knows(\%once, '1/0 2, 2/0 0', 'and can be learned again');
    $ng->finish;
};


# With events, and no forecasts.

subtest 'N2, V14: with events bookings record nothing' => sub {
    $ng = SelBooks->new(name => 'events')->run;
    $ng->register($_) for 1, 2;

    my %prompt = prompt(2);
    visit(1, %prompt);
    $ng->book('x', 1, %prompt);
    knows(\%prompt, '1/0 0, 2/0 0', 'N2, V14: not known');
    $ng->finish;
};


subtest 'a forecast beside the events' => sub {
    my $engine = SelEngine->start(ranks => 2, block_size => 4);

    $ng = SelBooks->new(name => 'forecast', http => 'select_predicted_ttl 3s;')
        ->run;
    $ng->register($_, kv_events_endpoint => $engine->endpoint($_ - 1))
        for 1, 2;
    $engine->wait_subscribers(2, $_) for 0, 1;

    my $tokens = new_tokens(12);
    my %prompt = (token_ids => $tokens);

    $ng->counts({ stored => 2, batches => 2 }, 'events', sub {
        $engine->publish_stored(tokens => [ @$tokens[ 0 .. 7 ] ]);
        $engine->publish_stored(tokens => [ @$tokens[ 0 .. 3 ] ], rank => 1,
            dp_rank => 0);
    });
    knows(\%prompt, '1/0 2, 2/0 1', 'what the engines said');

    my $start = time;
    visit(2, %prompt);
    knows(\%prompt, '1/0 2, 2/0 3', 'the forecast of one rank is longer');
    visit(1, token_ids => [ @$tokens[ 0 .. 3 ] ]);
    knows(\%prompt, '1/0 2, 2/0 3', 'that of the other one shorter');
    is +(visit(2, token_ids => $tokens))->{effective_prefill_tokens}, 0,
        'and counts as cached';

    my %unknown = prompt(2);
    visit(1, %unknown);
    knows(\%unknown, '1/0 2, 2/0 0', 'a prompt known by forecast alone');

    # Engines that clear do not clear a forecast.
    $ng->counts({ cleared => 1, batches => 1 }, 'cleared', sub {
        $engine->publish_cleared(rank => 1, dp_rank => 0);
    });
    knows(\%prompt, '1/0 2, 2/0 3', 'a forecast stays') if time - $start < 2;

    $ng->until(sub { !grep { scores(\%prompt, $_) ne '1/0 2, 2/0 0' }
        $ng->clients }, 'its time is over, the events stay');
    cmp_ok time - $start, '>=', 3, 'not too early';
    $ng->until(sub { !grep { scores(\%unknown, $_) ne '1/0 0, 2/0 0' }
        $ng->clients }, 'and the other one');

    visit(2, %unknown);
    knows(\%unknown, '1/0 0, 2/0 2', 'once more');
    $ng->remove(2);
    $ng->register(2, kv_events_endpoint => $engine->endpoint(1));
    knows(\%unknown, '1/0 0, 2/0 0', 'a worker that goes takes it along');
    $ng->finish;
};


subtest 'settings that make no sense' => sub {
    my $tester = SelBooks->new(name => 'settings');

    for my $case (
        [ 'select_kv_events off; select_predicted_ttl 3s;', 1,
            qr/select_predicted_ttl.*(?:requires|needs) .*select_kv_events/ ],
        [ 'select_predicted_ttl -1s;', 1, qr/select_predicted_ttl/ ],
        [ 'select_predicted_ttl x;', 1, qr/select_predicted_ttl/ ],
        [ 'select_approximate_ttl x;', 1, qr/select_approximate_ttl/ ],
        [ 'select_approximate_ttl -1s;', 1, qr/select_approximate_ttl/ ],
        [ 'select_kv_events off; select_predicted_ttl off;', 0, qr// ],
        [ 'select_predicted_ttl off;', 0, qr// ],
    ) {
        my ($http, $wrong, $said) = @$case;
        my ($code, $output) = $tester->test_conf(http => $http);
        ok $code =~ ($wrong ? qr/\b1\b/ : qr/\b0\b/) && $output =~ $said,
            $http or diag "$code: $output";
    }
};

all_done;
