# The status page: strict Prometheus text, every metric of the module's lists
# and of docs/metrics.md and no other, and values that follow what happens.
# Without this suite a scraper could refuse the page, an alert could wait for a
# metric that was renamed, and trouble that is counted could stay invisible.

use strict;
use warnings;

use File::Basename qw(dirname);
use Test::More;

use SelEngine;
use SelNginx;
use SelProc qw(poll_for);

my $top    = dirname(__FILE__) . '/..';
my $engine = SelEngine->start(ranks => 1, block_size => 4);
my $ng     = SelNginx->new(zone => 'selector 4m', http => <<'HTTP',
    add_header X-Select-Process $pid always;
HTTP
    server => <<'SERVER')->run;
    location / { select_service selector; }
    location = /status { select_status selector; }
SERVER


# Reads a page by the rules of the text format, version 0.0.4: HELP and TYPE
# once for each metric and before its samples, all samples of a metric
# together, no sample twice.  Returns {sample => value} and {metric => type},
# or dies.

sub parse {
    my ($text) = @_;

    my (%help, %type, %value, $current);
    my $name   = qr/[a-zA-Z_:][a-zA-Z0-9_:]*/;
    my $labels = qr/[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*"/;

    die "no line end at the end\n" if $text !~ /\n\z/;

    for my $line (split /\n/, $text, -1) {
        next if $line eq '';

        if ($line =~ /^# HELP ($name) (\S.*)$/) {
            die "a second HELP: $line\n" if $help{$1}++;
            $current = $1;

        } elsif ($line =~ /^# TYPE ($name) (counter|gauge)$/) {
            die "not behind its HELP: $line\n" if ($current // '') ne $1;
            die "a second TYPE: $line\n" if $type{$1};
            $type{$1} = $2;

        } elsif ($line =~ /^($name)(?:\{$labels(?:,$labels)*\})? (\d+)$/) {
            die "not behind its TYPE: $line\n"
                if ($current // '') ne $1 || !$type{$1};
            my ($sample, $value) = $line =~ /^(.*) (\d+)$/;
            die "a second sample: $line\n" if exists $value{$sample};
            $value{$sample} = $value;

        } else {
            die "what is this: $line\n";
        }
    }

    my %seen = map { /^([^{]+)/ ? ($1 => 1) : () } keys %value;
    my @bare = grep { !$seen{$_} } sort keys %help;
    die "no sample: @bare\n" if @bare;

    return (\%value, \%type);
}


sub values_now { return (parse($ng->get('/status')->body))[0] }


# Waits until the page shows these values.

sub shows {
    my ($name, %want) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $now;
    my $good = poll_for(sub {
        $now = values_now();
        return !grep { ($now->{"select_$_"} // '') ne $want{$_} } keys %want;
    });

    return ok($good, $name)
        || diag map { "$_ " . ($now->{"select_$_"} // 'is missing') . "\n" }
            sort keys %want;
}


# The page.

my $answer = $ng->get('/status');

is $answer->status, 200, 'the page is there';
like $answer->header('Content-Type'),
    qr{^text/plain; version=0\.0\.4(?:; charset=utf-8)?$}, 'of its type';

my ($value, $type) = eval { parse($answer->body) };
is $@, '', 'it is Prometheus text' or BAIL_OUT('the page cannot be read');

my $head = $ng->request('HEAD', '/status');
is $head->status, 200, 'HEAD';
is $head->header('Content-Type'), $answer->header('Content-Type'),
    'has the same type';
is $ng->post('/status', {})->status, 405, 'there is nothing to post';
is $ng->delete('/status')->status, 405, 'nor to delete';
is $ng->get('/status?x=y')->status, 200, 'queries do not matter';
is $ng->get('/metrics')->status, 404, 'the API has no such page';

# The module's lists: names in the order of "row(NAME, ..., text, text, ...)".

sub rows {
    my ($file, $from, $to) = @_;

    my ($list) = SelLog->new("$top/src/$file")->text
        =~ /^#define $from\(row\)(.*?)^$to/ms
        or BAIL_OUT("there is no list $from in src/$file");

    return map { [ /"((?:[^"\\]|\\.)*)"/g ] }
        split /\brow\(/, $list =~ s/\A.*?\brow\(//sr;
}

sub sample {
    my ($metric, $labels) = @_;

    $labels =~ s/\\"/"/g;

    return $labels eq '' ? "select_$metric" : "select_$metric\{$labels}";
}

my @zone = map { sample(@$_[ 0, 1 ]) }
    rows('state/sel_counters.h', 'SEL_ZONE_COUNTERS', '$');
my @gauges = map { my ($metric, $labels) = @$_;
    map { sample($metric, join ',', "process=\\\"$_\\\"",
        length $labels ? $labels : ()) } 0, 1
} rows('service/sel_metrics.h', 'SEL_PROCESS_GAUGES', '$');

sub counts {
    my ($list, $metric, $label) = @_;

    return map { my ($kind) = @$_;
        map { (qq(select_$metric\{process="$_",$label="$kind"})) } 0, 1
    } rows('kv_events/sel_kv_counts.h', $list, '$');
}

my @events = (
    counts('SEL_KV_APPLIED', 'kv_events_total', 'kind'),
    counts('SEL_KV_REFUSED', 'kv_events_refused_total', 'reason'),
    counts('SEL_KV_MESSAGES', 'kv_messages_total', 'kind'),
);

cmp_ok scalar @zone, '>=', 10, 'the list of zone counters is read';
cmp_ok scalar @gauges, '>=', 16, 'the list of gauges is read';
cmp_ok scalar @events, '>=', 50, 'the lists of event counters are read';

is join("\n", grep { !exists $value->{$_} } @zone, @gauges, @events), '',
    'all their rows are on the page';

# The documentation.

my %documented = map { ($_ => 1) }
    map { /`(select_\w+)`/g } map { (split /\|/)[1] }
    grep { /^\| `select_/ } split /\n/,
    SelLog->new("$top/docs/metrics.md")->text;

SKIP: {
    skip 'docs/metrics.md is missing', 2 if !%documented;

    is_deeply [ sort keys %$type ], [ sort keys %documented ],
        'the documentation names these metrics and no other';

    my %told = map { /^\| (`select_.*?`) \| (counter|gauge) / ? do {
        my ($names, $kind) = ($1, $2);
        map { ($_ => $kind) } $names =~ /(select_\w+)/g;
    } : () } split /\n/, SelLog->new("$top/docs/metrics.md")->text;

    is_deeply \%told, $type, 'and their types';
}

is join(' ', grep { $type->{$_} ne (/_total$/ ? 'counter' : 'gauge') }
    sort keys %$type), '', 'counters are called _total, gauges are not';

# At the start nothing has happened.

my @moved = grep { $value->{$_}
    && !/^select_(?:zone_\w+_free|index_bytes|lock_wait\w+)\b/ }
    sort keys %$value;
is join(' ', grep { !/^select_zone_chunks_used/ } @moved), '',
    'all begins with nothing';

# Refused requests.

my @json = (headers => ['Content-Type: application/json']);

$ng->request('POST', '/workers', body => '{}',
    headers => ['Content-Type: text/plain']);
$ng->request('POST', '/select', body => '{');
$ng->request('POST', '/workers', body => '{', @json);
$ng->request('POST', '/select', body => '', @json);
$ng->request('PATCH', '/workers/1', body => '{]', @json);
$ng->request('POST', '/overlap_scores', body => '{"token_ids":5}', @json);
$ng->request('POST', '/workers', body => '{"worker_id":-1}', @json);
$ng->request('POST', '/workers', body => '[]', @json);
$ng->request('POST', '/workers', body => '{}', @json);
$ng->request('POST', '/workers', body => 'x' x (8 * 1024 * 1024 + 1), @json);

shows('refused requests are counted by their reasons',
    'requests_refused_total{reason="media_type"}' => 2,
    'requests_refused_total{reason="syntax"}'     => 3,
    'requests_refused_total{reason="data"}'       => 4,
    'requests_refused_total{reason="body_size"}'  => 1,
    'selections_total'                            => 0,
);

# These reach an operation, and say no.

$ng->post('/select', { token_ids => [1] });
$ng->patch('/workers/1', {});
$ng->get('/nope');

shows('others are not', 'requests_refused_total{reason="data"}' => 4,
    'selections_total' => 0);

# The catalog.

my $version = values_now()->{select_catalog_version};

$ng->post('/workers', { worker_id => 1, endpoint => 'a', block_size => 4,
    kv_events_endpoint => $engine->endpoint(0) });
$ng->post('/workers', { worker_id => 2 });
$ng->post('/workers', { worker_id => 3, block_size => 4 });

shows('workers by their state', 'workers{lifecycle="schedulable"}' => 1,
    'workers{lifecycle="incomplete"}' => 2, partitions => 1,
    'zone_slots_used' => 1);

my $now = values_now();
cmp_ok $now->{select_catalog_version}, '>', $version,
    'the version grows with each change';
$ng->get('/workers');
is values_now()->{select_catalog_version}, $now->{select_catalog_version},
    'and with nothing else';

my $used = $now->{select_zone_chunks_used};
my $free = $now->{select_zone_chunks_free};
$ng->post('/workers', { worker_id => 9, endpoint => 'x' x 10_000 });
$now = values_now();
cmp_ok $now->{select_zone_chunks_used}, '>=', $used + 40,
    'a long record takes chunks';
is $now->{select_zone_chunks_used} + $now->{select_zone_chunks_free},
    $used + $free, 'from the free ones';
$ng->delete('/workers/9');
$now = values_now();
cmp_ok $now->{select_zone_chunks_used}, '<', $used + 5, 'and gives them back';

my $full = $now->{select_zone_full_total};
is $ng->post('/workers', { worker_id => 9, endpoint => 'x' x 5_000_000 })
    ->status, 503, 'a record without room';
shows('is counted, and takes nothing', zone_full_total => $full + 1,
    zone_chunks_used => $now->{select_zone_chunks_used});

# Selections.

$engine->wait_subscribers(2);
$ng->post('/select', { token_ids => [ 1 .. 8 ] });
$ng->post('/overlap_scores', { token_ids => [ 1 .. 8 ] });
shows('a selection without overlap', selections_total => 1,
    selections_without_overlap_total => 1);

$engine->publish_stored(tokens => [ 1 .. 8 ]);
shows('events are counted in each process', map { (
    qq(kv_events_total{process="$_",kind="stored"})    => 1,
    qq(kv_messages_total{process="$_",kind="batches"}) => 1,
    qq(kv_listeners{process="$_",state="active"})      => 1,
    qq(kv_listeners{process="$_",state="pending"})     => 0,
    qq(index_blocks{process="$_"})                     => 2,
    qq(index_nodes{process="$_"})                      => 2,
    qq(index_ranks{process="$_"})                      => 1,
) } 0, 1);

$ng->post('/select', { token_ids => [ 1 .. 8 ] });
$ng->post('/select', { token_ids => [ 1 .. 8 ],
    pinned_worker => { worker_id => 7, dp_rank => 0 } });
shows('one with overlap, and one in vain', selections_total => 2,
    selections_without_overlap_total => 1);

# Events that are refused, and messages that are none.

$engine->publish([ { type => 'NeverHeardOf' }, { type => 'BlockStored' },
    { type => 'Ignored' } ]);
$engine->publish_stored(tokens => [ 1 .. 16 ], block_size => 16);
$engine->publish_stored(tokens => [ 1 .. 4 ], parent => 12345);
$engine->publish_stored(tokens => [ 1 .. 4 ], medium => 'tape');
$engine->publish_removed(hashes => [77]);
$engine->publish_stored(tokens => [ 1 .. 4 ], drop => 1);
$engine->publish_cleared;
$engine->raw([ '', '0000000000000001', '93cb00' ]);
$engine->raw([ '', '0000000000000099', 'c1' ]);
$engine->raw(['']);

shows('refused events by their reasons', map { (
    qq(kv_events_refused_total{process="$_",reason="unknown_tag"})    => 1,
    qq(kv_events_refused_total{process="$_",reason="malformed"})      => 1,
    qq(kv_events_refused_total{process="$_",reason="block_size"})     => 1,
    qq(kv_events_refused_total{process="$_",reason="unknown_parent"}) => 1,
    qq(kv_events_refused_total{process="$_",reason="medium"})         => 1,
    qq(kv_events_refused_total{process="$_",reason="unknown_block"})  => 1,
    qq(kv_events_total{process="$_",kind="ignored"})                  => 1,
    qq(kv_events_total{process="$_",kind="cleared"})                  => 1,
    qq(kv_messages_total{process="$_",kind="gap"})                    => 1,
    qq(kv_messages_total{process="$_",kind="missed"})                 => 1,
    qq(kv_messages_total{process="$_",kind="batch"})                  => 1,
    qq(kv_messages_total{process="$_",kind="old"})                    => 1,
    qq(kv_messages_total{process="$_",kind="frames"})                 => 1,
    qq(index_blocks{process="$_"})                                    => 0,
) } 0, 1);

$ng->post('/workers', { worker_id => 4, endpoint => 'a', block_size => 4,
    kv_events_endpoint => 'tcp://*:1' });
shows('a listener that cannot connect', map {
    (qq(kv_listeners{process="$_",state="failed"}) => 1) } 0, 1);
$ng->delete('/workers/4');
$ng->delete('/workers/1');
shows('is gone with its worker', 'workers{lifecycle="schedulable"}' => 0,
    zone_slots_used => 0, partitions => 1,
    map { (qq(kv_listeners{process="$_",state="failed"}) => 0,
        qq(kv_listeners{process="$_",state="active"})    => 0,
        qq(index_ranks{process="$_"})                    => 0,
        qq(index_ranks_retired{process="$_"})            => 0) } 0, 1);

# A worker that is refused for its replay endpoint is not listened to.

$ng->post('/workers', { worker_id => 5, endpoint => 'a', block_size => 4,
    data_parallel_size => 2, replay_endpoint => 'tcp://127.0.0.1:1',
    kv_events_endpoints => { map { $_ => $engine->endpoint(0) } 0, 1 } });
shows('no listener for an incomplete worker',
    'workers{lifecycle="schedulable"}' => 0,
    map { my $process = $_; map {
        (qq(kv_listeners{process="$process",state="$_"}) => 0)
    } qw(pending active failed) } 0, 1);

# Both processes print the same, and go on counting over reload and death.

my @pages = map { (parse($_->body))[0] }
    $ng->on_both(sub { $ng->get('/status') }, 'both print the page');
is_deeply $pages[0], $pages[1], 'and the same';

$ng->reload(gone => 1);
$ng->kill_worker(0);
shows('counters go on over a reload and a death',
    selections_total => 2, 'requests_refused_total{reason="data"}' => 4,
    process_deaths_total => 1,
    map { (qq(kv_events_total{process="$_",kind="stored"}) => 1) } 0, 1);

all_done;
