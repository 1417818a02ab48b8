package SelService;

# An nginx that serves the selection API below / and its metrics at /status:
# SelNginx, and what the suites of workers and KV events ask again and again.
#
#     my $ng = SelService->new->run;
#     $ng->register(7, block_size => 4, events($engine, 0));
#     $ng->soon({ token_ids => [ 1 .. 8 ] }, { '7/0' => 2 }, 'both know');
#
# A claim about "each process" is proved by answers of each: the methods ask,
# with a new connection each time, until every worker process has answered.

use strict;
use warnings;

use parent qw(SelNginx);

use Carp qw(croak);
use Exporter ();
use JSON::PP ();
use Test::More ();

use SelNginx;
use SelProc qw(poll_for);

our @EXPORT = qw(wait_until all_done events fd_count fds_at_rest
    memory_kib at_most);

use constant TRIES => 400;

my $JSON = JSON::PP->new->canonical->allow_nonref;

sub import { goto &Exporter::import }


# Options as for SelNginx; zone defaults to 16 MiB, and location is text for
# the location of the API.

sub new {
    my ($class, %opt) = @_;

    my $location = delete $opt{location} // '';

    return $class->SUPER::new(zone => 'selector 16m', %opt,
        server => <<"SERVER" . ($opt{server} // ''));
    add_header X-Select-Process \$pid always;
    location / {
        select_service selector;
        $location
    }
    location = /status { select_status selector; }
SERVER
}


# Members of a registration that make its ranks follow these sockets of an
# engine, the first one rank 0.

sub events {
    my ($engine, @sockets) = @_;

    return (
        data_parallel_size  => scalar @sockets,
        kv_events_endpoints =>
            { map { ($_ => $engine->endpoint($sockets[$_])) } 0 .. $#sockets },
    );
}


sub worker_body {
    my ($id, %members) = @_;

    return {
        worker_id  => $id,
        endpoint   => "http://worker-$id:8000",
        block_size => 4,
        %members,
    };
}


# Registers a worker, which has to become schedulable, and returns its record.

sub register {
    my ($self, $id, %members) = @_;

    my $answer = $self->post('/workers', worker_body($id, %members));

    croak "worker $id was not registered: " . $answer->status . ' '
        . $answer->body
        if $answer->status != 201
        || $answer->json->{lifecycle} ne 'schedulable';

    return $answer->json;
}


sub remove {
    my ($self, @ids) = @_;

    for my $id (@ids) {
        my $answer = $self->delete("/workers/$id");
        croak "worker $id was not removed: " . $answer->body
            if $answer->status != 200;
    }

    return;
}


# Asks until each worker process has answered; returns all answers.

sub ask_all {
    my ($self, $ask) = @_;

    my %left = map { ($_ => 1) } $self->workers;
    my @answers;

    for (1 .. TRIES) {
        push @answers, $ask->();
        delete $left{ $answers[-1]->process // '' };
        return @answers if !%left;
    }

    croak 'no answer came from ' . join ', ', sort keys %left;
}


# Checks that every answer is right at once, in each process.

sub at_once {
    my ($self, $ask, $is_right, $name) = @_;

    my ($wrong) = grep { !$is_right->($_) } $self->ask_all($ask);

    return _report(!$wrong, $name, $wrong);
}


# Checks that the answers of each process become right.

sub in_time {
    my ($self, $ask, $is_right, $name) = @_;

    my $wrong;

    my $ok = poll_for(sub {
        ($wrong) = grep { !$is_right->($_) } $self->ask_all($ask);
        return !$wrong;
    }, $self->{limit});

    return _report($ok, $name, $wrong);
}


# The same two for the rows of a prompt, where the expected rows name every
# rank of the partition: { 'WORKER/RANK' => device blocks }.

sub now {
    my ($self, $prompt, $rows, $name) = @_;

    return $self->at_once(_rows_check($self, $prompt, $rows), $name);
}

sub soon {
    my ($self, $prompt, $rows, $name) = @_;

    return $self->in_time(_rows_check($self, $prompt, $rows), $name);
}

sub _rows_check {
    my ($self, $prompt, $rows) = @_;

    my $body = $JSON->encode($prompt);
    my $want = $JSON->encode({ map { ($_ => "$rows->{$_}") } keys %$rows });

    return (sub { $self->post_json('/overlap_scores', $body) },
        sub { $JSON->encode(rows($_[0])) eq $want });
}


# Posts a body that is JSON already.

sub post_json {
    my ($self, $path, $body) = @_;

    return $self->post($path, $body,
        headers => ['Content-Type: application/json']);
}


# Device blocks (as text) by rank from an answer of /overlap_scores.

sub rows {
    my ($answer) = @_;

    return { status => $answer->status } if $answer->status != 200;

    return { map { ("$_->{worker_id}/$_->{dp_rank}" => "$_->{device_blocks}") }
        @{ $answer->json->{workers} } };
}


# Samples of a metric, as a list of [ labels, value ].

sub samples {
    my ($self, $metric) = @_;

    my @samples;

    for my $line (split /\n/, $self->get('/status')->body) {
        my ($name, $labels, $value)
            = $line =~ /^(\w+)(?:\{(.*)\})? ([0-9.eE+-]+)$/ or next;
        next if $name ne $metric;
        push @samples, [ { ($labels // '') =~ /(\w+)="([^"]*)"/g }, $value ];
    }

    return @samples;
}


# The values of a metric whose labels include the given ones: those of the
# processes in order, or a single one.

sub metric {
    my ($self, $metric, %labels) = @_;

    my @found = sort { ($a->[0]{process} // 0) <=> ($b->[0]{process} // 0) }
        grep {
            my ($have) = @$_;
            !grep { ($have->{$_} // '') ne $labels{$_} } keys %labels
        } $self->samples($metric);

    return wantarray ? map { $_->[1] } @found : $found[0] && $found[0][1];
}


# What each process has counted of KV events and messages: a list of
# { kind or reason => count }.

sub counters {
    my ($self) = @_;

    my @counts;

    for my $metric (qw(select_kv_events_total select_kv_messages_total
        select_kv_events_refused_total))
    {
        for my $sample ($self->samples($metric)) {
            my ($labels, $value) = @$sample;
            my $what = $labels->{kind} // $labels->{reason};
            $counts[ $labels->{process} ]{$what} = $value;
        }
    }

    return @counts;
}


# Runs the code and checks that afterwards each process has counted exactly
# the expected events and messages more.

sub counts {
    my ($self, $expected, $name, $code) = @_;

    my @before = $self->counters;
    my @got;

    my $want = $JSON->encode({ map { ($_ => 0 + $expected->{$_}) }
        grep { $expected->{$_} } keys %$expected });

    $code->();

    my $ok = poll_for(sub {
        my @after = $self->counters;
        @got = map { $JSON->encode(_difference($before[$_], $after[$_])) }
            0 .. $#after;
        return !grep { $_ ne $want } @got;
    }, $self->{limit});

    return _report($ok, $name, map { "got $_, not $want" } @got);
}

sub _difference {
    my ($before, $after) = @_;

    my %more = map { ($_ => $after->{$_} - ($before->{$_} // 0)) }
        keys %$after;

    return { map { ($_ => $more{$_}) } grep { $more{$_} } keys %more };
}


# Waits until each process has so many listeners in a state.

sub listeners {
    my ($self, $state, $count, $name) = @_;

    my @got;

    my $ok = poll_for(sub {
        @got = $self->metric('select_kv_listeners', state => $state);
        return @got && !grep { $_ != $count } @got;
    }, $self->{limit});

    return _report($ok, $name // "$count listeners are $state",
        "there are: @got");
}


# A check that both kinds of routes still work in each process; the worker is
# one that can be selected.

sub still_serves {
    my ($self, $id, $name) = @_;

    return $self->at_once(sub {
        $self->post('/select', { token_ids => [ 1 .. 8 ],
            allowed_worker_ids => [$id] })
    }, sub { $_[0]->status == 200 && $_[0]->json->{worker_id} == $id },
        $name // 'requests are served');
}


sub fd_count {
    my ($pid) = @_;

    opendir my $dir, "/proc/$pid/fd" or return 0;

    return scalar grep { /^\d+$/ } readdir $dir;
}


# Descriptors of processes, in ascending order, when they have been the same
# for a while: the connection of the last answer is closed behind it.

sub fds_at_rest {
    my (@pids) = @_;

    my ($last, $times) = ('', 0);

    poll_for(sub {
        my $now = join ' ', sort { $a <=> $b } map { fd_count($_) } @pids;
        $times = $now eq $last ? $times + 1 : 0;
        $last  = $now;
        return $times == 5;
    });

    return $last;
}


# Private memory of a process; pages of the zone do not count.

sub memory_kib {
    my ($pid) = @_;

    open my $fh, '<', "/proc/$pid/status" or return 0;
    local $/;

    return <$fh> =~ /^RssAnon:\s+(\d+)/m ? $1 : 0;
}


# A limit of time or memory, which is wider under valgrind and sanitizers.

sub at_most {
    my ($limit) = @_;

    return $ENV{TEST_NGINX_WRAP} || $ENV{SEL_ASAN_LOG} ? 10 * $limit : $limit;
}


# One check at the suite's line, and what to say if it fails.

sub _report {
    my ($ok, $name, @words) = @_;

    my $builder = Test::More->builder;
    my $level   = 0;

    $level++ while (caller $level)[0] eq __PACKAGE__;
    local $Test::Builder::Level = $level + 1;

    if (!$builder->ok($ok, $name)) {
        $builder->diag(ref $_ ? $_->status . ' ' . substr $_->body, 0, 2000
            : $_) for grep { defined } @words;
    }

    return $ok;
}

1;
