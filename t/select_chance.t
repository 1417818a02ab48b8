# Chance in a selection: equal ranks are chosen equally often, and with a
# temperature the dearer ones as often as docs/scheduling.md says.  Without
# this suite a fleet of idle workers could get all requests on its first one,
# and every worker process could make the same choices at the same time.
#
# A count is wrong when it is off by more than sqrt(n * ln(2 / e) / 2), which
# for a right share happens with a probability below e, by Hoeffding's
# inequality.  There are fewer than 100 counts.

use strict;
use warnings;

use List::Util qw(max min sum);
use Test::More;

use SelNginx;

use constant {
    TRIES => 1000,
    E     => 1e-11,
};

my %nginx = (zone => 'selector 4m', http => <<'HTTP', server => <<'SERVER');
    select_kv_events off;
    keepalive_requests 100000;
    add_header X-Select-Process $pid always;
HTTP
    location / { select_service selector; }
    location /warm/ {
        select_temperature 1;
        select_service selector;
    }
SERVER


# The ranks that are chosen, as "worker.rank", one after the other.

sub choices {
    my ($client, $path, $count, %body) = @_;

    my @ranks;

    while (@ranks < $count) {
        my $batch = min(50, $count - @ranks);
        $client->send(POST => $path, body => { token_ids => [ 1 .. 4 ],
            %body }) for 1 .. $batch;
        push @ranks, map { "$_->{worker_id}.$_->{dp_rank}" }
            map { $client->receive->json } 1 .. $batch;
    }

    return @ranks;
}


# Checks that each rank has its share, and that there is no other.

sub shares_are {
    my ($name, $ranks, %share) = @_;

    my $count = @$ranks;
    my $slack = sqrt($count * log(2 / E) / 2);
    my %seen;

    $seen{$_}++ for @$ranks;

    my @off = grep {
        abs(($seen{$_} // 0) - $count * ($share{$_} // -1)) > $slack
    } sort keys %{ { %seen, %share } };

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return is_deeply(\@off, [], $name)
        || diag join ', ', map { "$_: $seen{$_}" } sort keys %seen;
}


sub start {
    my $ng = SelNginx->new(%nginx)->run;

    $ng->post('/workers', { worker_id => $_, endpoint => 'a', block_size => 4,
        taints => ["t$_"], $_ == 2 ? (data_parallel_size => 2) : () })
        for 1 .. 3;

    return ($ng, map { $ng->connection_to($_, '/health') } $ng->workers);
}


# Ties.

my ($ng, @clients) = start();
my %equal = map { $_ => 0.25 } qw(1.0 2.0 2.1 3.0);
my @runs  = map { [ choices($_, '/select', TRIES) ] } @clients;

shares_are('equal ranks are chosen equally often', $_, %equal) for @runs;

my %after;
$after{"$runs[0][$_] $runs[0][$_ + 1]"}++ for 0 .. TRIES - 2;
is scalar keys %after, 16, 'any after any';

# That two of these agree by chance has a probability of 4 ** -60.

my ($second, $other) = start();
my @starts = map { join ' ', @$_[ 0 .. 59 ] } @runs,
    map { [ choices($_, '/select', 60) ] } $other;
is scalar keys %{ { map { $_ => 1 } @starts } }, 3,
    'neither processes nor starts have a sequence in common';
$second->finish;

my ($client) = @clients;

shares_are('of some allowed ones', [ choices($client, '/select', TRIES,
    allowed_worker_ids => [ 1, 3 ]) ], '1.0' => 0.5, '3.0' => 0.5);
shares_are('of the ranks of a target', [ choices($client, '/select', TRIES,
    affinity_target => { worker_id => 2 }) ], '2.0' => 0.5, '2.1' => 0.5);
shares_are('of those a taint prefers alike', [ choices($client, '/select',
    TRIES, routing_constraints => {
        preferred_taints => { t1 => 0.5, t3 => 0.5 } }) ],
    '1.0' => 0.5, '3.0' => 0.5);
shares_are('equal costs at any temperature', [ choices($client, '/select',
    TRIES, router_config_override => { router_temperature => 0.3 }) ],
    %equal);

# Temperature.  Preferred taints make three costs: 2 * exp(-tanh(weight)), in
# blocks, where 2 is the prompt and its place.

my %weight = (1 => 1, 2 => 0, 3 => -1);

sub tanh {
    my ($x) = @_;

    return (exp($x) - exp(-$x)) / (exp($x) + exp(-$x));
}


sub shares {
    my ($temperature) = @_;

    my %cost = map { $_ => 2 * exp(-tanh($weight{ substr $_, 0, 1 })) }
        keys %equal;
    my ($lo, $hi) = (min(values %cost), max(values %cost));
    my %part = map {
        $_ => exp(-($cost{$_} - $lo) / (($hi - $lo) * $temperature))
    } keys %cost;
    my $all = sum(values %part);

    return map { $_ => $part{$_} / $all } keys %part;
}

my %taints = (routing_constraints => {
    preferred_taints => { map { ("t$_" => $weight{$_}) } keys %weight } });

for my $temperature (0.25, 0.5, 1, 4) {
    shares_are("temperature $temperature", [ choices($client, '/select',
        2 * TRIES, %taints, router_config_override => {
            router_temperature => $temperature }) ], shares($temperature));
}

shares_are('of the location', [ choices($client, '/warm/select', 2 * TRIES,
    %taints) ], shares(1));
shares_are('which a request may change', [ choices($client, '/warm/select',
    2 * TRIES, %taints, router_config_override => {
        router_temperature => 0.25 }) ], shares(0.25));

my @cold = choices($client, '/warm/select', 100, %taints,
    router_config_override => { router_temperature => 0 });
is join(' ', @cold), join(' ', ('1.0') x 100),
    'without a temperature the best one alone';
@cold = choices($client, '/select', 100, %taints,
    router_config_override => { router_temperature => 1e-300 });
is join(' ', @cold), join(' ', ('1.0') x 100), 'nearly without one';
shares_are('an immense one makes all equal', [ choices($client, '/select',
    TRIES, %taints, router_config_override => { router_temperature => 1e300 })
    ], %equal);

all_done;
