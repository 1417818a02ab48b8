# Selection with cached blocks: an engine publishes, and every worker process
# must see the same blocks, count them alike and choose accordingly.  Without
# this suite requests could go past the cache that they were meant to hit, or
# after one that is gone, and the numbers that clients book by could be wrong.

use strict;
use warnings;

use Test::More;

use SelEngine;
use SelNginx;

# Worker 1 has the ranks 0 and 1, worker 2 the rank 0.
my $engine = SelEngine->start(ranks => 3, block_size => 4);
my $ng = SelNginx->new(zone => 'selector 4m', http => <<'HTTP',
    add_header X-Select-Process $pid always;
HTTP
    server => <<'SERVER')->run;
    location / { select_service selector; }
    location /half/ {
        select_overlap_score_credit 0.5;
        select_service selector;
    }
    location /none/ {
        select_overlap_score_credit 0;
        select_service selector;
    }
SERVER

my @clients = map { $ng->connection_to($_, '/health') } $ng->workers;

my %one = (
    worker_id           => 1,
    endpoint            => 'a',
    block_size          => 4,
    data_parallel_size  => 2,
    kv_events_endpoints => { 0 => $engine->endpoint(0),
        1 => $engine->endpoint(1) },
);
my %two = (
    worker_id           => 2,
    endpoint            => 'b',
    block_size          => 4,
    kv_events_endpoints => { 0 => $engine->endpoint(2) },
);


# The answers of both processes.

sub ask {
    my ($path, %body) = @_;

    return map { $_->post($path, { token_ids => [ 1 .. 12 ], %body })->json }
        @clients;
}


# Rows of the score page, as "worker.rank=blocks".

sub rows {
    my (%body) = @_;

    return map {
        join ' ', map { "$_->{worker_id}.$_->{dp_rank}=$_->{device_blocks}" }
            @{ $_->{workers} }
    } ask('/overlap_scores', %body);
}


# Waits until both processes print these rows.

sub holds {
    my ($rows, $name, %body) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return 1 if wait_until { !grep { $_ ne $rows } rows(%body) } $name;

    diag join ' | ', rows(%body);

    return 0;
}


# Both processes choose a rank, as "worker.rank".

sub chooses {
    my ($rank, $name, %body) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $path = delete $body{path} // '/select';

    return is_deeply [ map { "$_->{worker_id}.$_->{dp_rank}" }
        ask($path, %body) ], [ $rank, $rank ], $name;
}


# The ranks that are chosen in some tries.

sub chosen {
    my (%body) = @_;

    my $path = delete $body{path} // '/select';
    my %seen;

    $seen{"$_->{worker_id}.$_->{dp_rank}"}++
        for map { ask($path, %body) } 1 .. 60;

    return join ' ', sort keys %seen;
}


is $ng->post('/workers', $_)->json->{lifecycle}, 'schedulable', 'a worker'
    for \%one, \%two;
$engine->wait_subscribers(2, $_) for 0 .. 2;

holds('1.0=0 1.1=0 2.0=0', 'nothing is cached at first');
is chosen(), '1.0 1.1 2.0', 'and any rank is chosen';

my @first = $engine->publish_stored(tokens => [ 1 .. 8 ]);
$engine->publish_stored(rank => 1, tokens => [ 1 .. 4 ], form => 'array');
$engine->publish_stored(rank => 2, dp_rank => 0, tokens => [ 50 .. 53 ]);

holds('1.0=2 1.1=1 2.0=0', 'both processes follow the events');
holds('1.0=0 1.1=0 2.0=1', 'of all engines', token_ids => [ 50 .. 60 ]);

# The whole score page.

my %zero = map { $_ => 0 } qw(device_blocks host_pinned_blocks disk_blocks
    host_pinned_extension_blocks disk_extension_blocks router_credit_blocks);

sub row {
    my ($worker, $rank, $blocks, $credit) = @_;

    return {
        %zero,
        worker_id                   => $worker,
        dp_rank                     => $rank,
        shared_beyond_device_blocks => undef,
        router_credit_blocks        => $credit,
        map { $_ => $blocks }
            qw(device_blocks host_pinned_blocks disk_blocks),
    };
}

is_deeply $_, {
    block_size   => 4,
    num_blocks   => 3,
    workers      => [ row(1, 0, 2, 2), row(1, 1, 1, 1), row(2, 0, 0, 0) ],
    shared_cache => { enabled => JSON::PP::false, total_hit_blocks => 0,
        ranges => [], error => undef },
}, 'the score page' for ask('/overlap_scores');

# What a cached block is worth there.

sub credits {
    my ($path, $override) = @_;

    return join ' ', map {
        join ',', map { $_->{router_credit_blocks} } @{ $_->{workers} }
    } ask($path, router_config_override => $override);
}

is credits('/overlap_scores', undef), '2,1,0 2,1,0', 'a block is worth one';
is credits('/overlap_scores', { overlap_score_credit => 0.5 }),
    '1,0.5,0 1,0.5,0', 'half of it, by the request';
is credits('/half/overlap_scores', undef), '1,0.5,0 1,0.5,0',
    'or by the location';
is credits('/half/overlap_scores', { overlap_score_credit => 3 }),
    '6,3,0 6,3,0', 'where the request decides';
is credits('/overlap_scores', { overlap_score_weight => 0 }), '0,0,0 0,0,0',
    'a weight of 0 takes the credit away';
is credits('/overlap_scores',
    { overlap_score_weight => 0, overlap_score_credit => 2 }),
    '0,0,0 0,0,0', 'also one that is given beside it';
is credits('/overlap_scores',
    { overlap_score_weight => 2, overlap_score_credit => 2 }),
    '4,2,0 4,2,0', 'another weight does not';
like $clients[0]->post('/overlap_scores', { token_ids => [ 1 .. 12 ] })->body,
    qr/"router_credit_blocks":2\.0}/, 'whole numbers keep their fraction';

# The answer of a selection.

is_deeply $_, {
    model_name               => 'default',
    routing_group            => 'default',
    worker_id                => 1,
    dp_rank                  => 0,
    endpoint                 => 'a',
    block_size               => 4,
    overlap                  => { longest_matched => 8, gpu => 8,
        dp => { 0 => 8, 1 => 4 }, cpu => 8, disk => 8 },
    effective_prefill_tokens => 4,
    potential_decode_blocks  => 3,
}, 'the longest cached prefix wins' for ask('/select');

for my $answer (ask('/select',
    pinned_worker => { worker_id => 1, dp_rank => 1 }))
{
    is $answer->{dp_rank}, 1, 'another rank of the worker';
    is_deeply $answer->{overlap}, { longest_matched => 8, gpu => 8,
        dp => { 0 => 8, 1 => 4 }, cpu => 8, disk => 8 },
        'the overlap is that of the best rank,';
    is $answer->{effective_prefill_tokens}, 8, 'what is left to do is not';
}

for my $answer (ask('/select', allowed_worker_ids => [2])) {
    is_deeply $answer->{overlap}, { longest_matched => 0, gpu => 0,
        dp => { 0 => 0 }, cpu => 0, disk => 0 }, 'another worker has none';
    is $answer->{effective_prefill_tokens}, 12, 'and all to do';
}

chooses('1.1', 'a target goes before the cache',
    affinity_target => { worker_id => 1, dp_rank => 1 });
chooses('1.0', 'within the target the cache decides',
    affinity_target => { worker_id => 1 });
chooses('2.0', 'the cache of others does not',
    token_ids => [ 50 .. 60 ]);

# More is cached than the prompt is long.

is_deeply [ map { $_->{effective_prefill_tokens} } ask('/select',
    token_ids => [ 1 .. 8 ]) ], [ 0, 0 ], 'nothing left to do';

my $hashes = [ '9143094415614847814', '12124091508212882195' ];
$engine->publish_stored(tokens => [ 0 .. 7 ]);
holds('1.0=2 1.1=0 2.0=0', 'the blocks of the vectors',
    token_ids => [ 0 .. 7 ]);
is_deeply [ map { "$_->{effective_prefill_tokens} $_->{overlap}{gpu} "
    . $_->{potential_decode_blocks} } ask('/select', token_ids => undef,
        block_hashes => [ map { $_ + 0 } @$hashes ],
        sequence_hashes => [ 1, 2 ], isl_tokens => 3) ],
    [ '0 8 2', '0 8 2' ], 'a prompt shorter than its blocks';

# What takes the cache out of the cost makes all ranks equal.

is chosen(path => '/none/select'), '1.0 1.1 2.0',
    'no credit by the location';
is chosen(router_config_override => { overlap_score_credit => 0 }),
    '1.0 1.1 2.0', 'none by the request';
is chosen(router_config_override => { overlap_score_weight => 0 }),
    '1.0 1.1 2.0', 'a weight of 0';
is chosen(router_config_override => { prefill_load_scale => 0 }),
    '1.0 1.1 2.0', 'a scale of 0';
is chosen(router_config_override => { track_prefill_tokens => \0 }),
    '1.0 1.1 2.0', 'prefill that does not count';
is chosen(path => '/none/select',
    router_config_override => { overlap_score_credit => 1 }), '1.0',
    'the request gives the credit back';
is chosen(router_config_override => { router_temperature => 1000 }),
    '1.0 1.1 2.0', 'a high temperature';
is chosen(router_config_override => { router_temperature => 1e-6 }), '1.0',
    'a low one';
is chosen(router_config_override => { assume_kv_reuse => \0 }),
    '1.0', 'identities for the load have nothing to do with it';

# A preferred taint against the cache: costs are 3, 4 and 5 blocks times
# exp(-tanh(weight)), the latter for worker 2 alone.

$ng->patch('/workers/2', { taints => ['t'] });
chooses('1.0', 'the cache weighs more',
    routing_constraints => { preferred_taints => { t => 0.2 } });
chooses('2.0', 'the taint does',
    routing_constraints => { preferred_taints => { t => 2 } });

# Another identity of the same tokens.

is_deeply [ rows(lora_name => 'x') ], [ ('1.0=0 1.1=0 2.0=0') x 2 ],
    'another adapter shares nothing';
is_deeply [ rows(cache_salt => 'x') ], [ ('1.0=0 1.1=0 2.0=0') x 2 ],
    'nor does another salt';
is_deeply [ rows(token_ids => [ 5 .. 12 ]) ], [ ('1.0=0 1.1=0 2.0=0') x 2 ],
    'nor do blocks behind another start';

# Blocks go, and come again.

$engine->publish_removed(hashes => [ $first[1] ]);
holds('1.0=1 1.1=1 2.0=0', 'a removed block is gone');
is chosen(), '1.0 1.1', 'ranks with equal caches are equal';
$engine->publish_stored(tokens => [ 5 .. 8 ], parent => $first[0]);
holds('1.0=2 1.1=1 2.0=0', 'a child finds its parent');
$engine->publish_cleared;
holds('1.0=0 1.1=1 2.0=0', 'a rank can lose everything');
chooses('1.1', 'and then another one is better');

# A rank that nobody registered.

$engine->publish_stored(tokens => [ 1 .. 12 ], dp_rank => 7);
holds('1.0=0 1.1=1 1.7=3 2.0=0', 'has a row of its own');
is_deeply [ map { "$_->{dp_rank} " . join ',', sort keys
    %{ $_->{overlap}{dp} } } ask('/select') ], [ ('1 0,1') x 2 ],
    'but is neither chosen nor listed';

# Updates keep the blocks of ranks whose endpoint stays.

$engine->publish_stored(tokens => [ 1 .. 8 ]);
holds('1.0=2 1.1=1 1.7=3 2.0=0', 'some blocks');

$ng->post('/workers', { %one, total_kv_blocks => 7, endpoint => 'c',
    taints => ['x'] });
is_deeply [ map { s/ 1\.7=\d+//r } rows() ], [ ('1.0=2 1.1=1 2.0=0') x 2 ],
    'a registration with the same endpoints keeps them';
is_deeply [ map { $_->{endpoint} } ask('/select') ], [ ('c') x 2 ],
    'and is in force';
$ng->patch('/workers/1', { max_num_batched_tokens => 5 });
is_deeply [ map { s/ 1\.7=\d+//r } rows() ], [ ('1.0=2 1.1=1 2.0=0') x 2 ],
    'so does a PATCH';

$ng->post('/workers', { %one, data_parallel_size => 1 });
is_deeply [ map { s/ 1\.7=\d+//r } rows() ], [ ('1.0=2 2.0=0') x 2 ],
    'a rank that is given up takes its blocks along';
$ng->post('/workers', \%one);
is_deeply [ map { s/ 1\.7=\d+//r } rows() ], [ ('1.0=2 1.1=0 2.0=0') x 2 ],
    'and comes back empty';

$ng->patch('/workers/1', { kv_events_endpoints => {
    0 => $engine->endpoint(1), 1 => $engine->endpoint(0) } });
is_deeply [ map { s/ 1\.7=\d+//r } rows() ], [ ('1.0=0 1.1=0 2.0=0') x 2 ],
    'another endpoint begins anew';

# Gone and back.

$ng->post('/workers', \%one);
$engine->wait_subscribers(2, $_) for 0, 1;
$engine->publish_stored(tokens => [ 1 .. 8 ]);
holds('1.0=2 1.1=0 2.0=0', 'some blocks again', token_ids => [ 1 .. 8 ]);
$ng->delete('/workers/1');
is_deeply [ rows() ], [ ('2.0=0') x 2 ], 'a worker is deleted';
is_deeply [ map { $_->{worker_id} } ask('/select') ], [ 2, 2 ],
    'and chosen no more';
$engine->wait_subscribers(0, $_) for 0, 1;
pass 'nobody listens to it';

$ng->post('/workers', \%one);
is_deeply [ rows() ], [ ('1.0=0 1.1=0 2.0=0') x 2 ], 'it returns empty';
$engine->wait_subscribers(2, $_) for 0, 1;
$engine->publish_stored(tokens => [ 1 .. 12 ]);
holds('1.0=3 1.1=0 2.0=0', 'and is followed again');

# Into another partition.

$ng->post('/workers', { %one, routing_group => 'g' });
is_deeply [ rows() ], [ ('2.0=0') x 2 ], 'a worker that moves';
is_deeply [ rows(routing_group => 'g') ], [ ('1.0=0 1.1=0') x 2 ],
    'leaves its blocks behind';
$engine->wait_subscribers(2, $_) for 0, 1;
$engine->publish_stored(tokens => [ 1 .. 4 ]);
holds('1.0=1 1.1=0', 'and is followed there', routing_group => 'g');
is_deeply [ rows() ], [ ('2.0=0') x 2 ], 'not here';

$ng->log_unlike(qr/\[error\]/, 'nothing went wrong');

all_done;
