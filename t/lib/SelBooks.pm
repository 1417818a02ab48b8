package SelBooks;

# SelService for suites of reservations and loads: with one keep-alive
# connection to each worker process.  Steps go round these, so every step is
# answered by another process than the step before.  Unless the http text says
# "select_kv_events off", workers get event endpoints where nobody publishes:
# then nothing is ever cached, and bookings are all that counts.
#
#     my $ng = SelBooks->new->run;
#     $ng->afresh(1, [ 2, data_parallel_size => 2 ]);
#     $ng->gives('POST /reservations', { selection_id => 'a', worker_id => 1,
#         hashed(3, isl_tokens => 12) }, 201, qr/"worker_id":1,/, 'booked');
#     $ng->loads_are('1/0 0 3 1, 2/0 0 0 0, 2/1 0 0 0', 'three blocks');
#
# Loads are written as "WORKER/RANK PREFILL-TOKENS DECODE-BLOCKS REQUESTS".

use strict;
use warnings;

use parent qw(SelService);

use JSON::PP ();
use Test::More ();

use SelProc qw(poll_for reserve_port);
use SelService;

our @EXPORT = (@SelService::EXPORT, qw(hashed new_tokens uuid_pattern));

use constant MORE_RANKS => 4;

my $JSON   = JSON::PP->new->canonical->allow_nonref;
my $silent = 'tcp://127.0.0.1:' . reserve_port();


# Options as for SelService.

sub new {
    my ($class, %opt) = @_;

    my $http = $opt{http} // '';

    return $class->SUPER::new(%opt,
        http => "keepalive_requests 100000000;\n$http");
}


# Also the ranks that a change of the worker may bring have an endpoint.

sub register {
    my ($self, $id, %members) = @_;

    my $last = ($members{data_parallel_start_rank} // 0)
        + ($members{data_parallel_size} // 1) - 1 + MORE_RANKS;

    $members{kv_events_endpoints} //= { map { ($_ => $silent) } 0 .. $last }
        if $self->{http} !~ /\bselect_kv_events off\b/
        && !defined $members{kv_events_endpoint};

    return $self->SUPER::register($id, %members);
}


sub run {
    my ($self) = @_;

    $self->SUPER::run;

    return $self->meet;
}


# Connects to the worker processes there are now.

sub meet {
    my ($self) = @_;

    $self->{clients} = [ map { $self->connection_to($_, '/health') }
        $self->workers ];

    return $self;
}


# Connections, the one whose turn it is first.

sub clients { return @{ $_[0]{clients} } }


sub turn {
    my ($self) = @_;

    push @{ $self->{clients} }, shift @{ $self->{clients} };

    return $self->{clients}[-1];
}


# Asks the process whose turn it is.  The request is a method and a path; the
# body a structure, JSON text, or undef for none.

sub ask {
    my ($self, $request, $body, $client) = @_;

    my ($method, $path) = split ' ', $request, 2;

    return ($client // $self->turn)->request($method, $path,
        body => $body, ref $body || !defined $body ? ()
            : (headers => ['Content-Type: application/json']));
}


# Checks one answer.  Expected is the whole body if it begins like JSON, a
# pattern, { plain => TEXT } of an answer that is no JSON, undef (any body),
# or else the text of an error.

sub gives {
    my ($self, $request, $body, $status, $expected, $name) = @_;

    my $answer = $self->ask($request, $body);

    return _report(scalar(_fits($answer, $status, $expected)), $name // $request,
        sub { $request . ' ' . _shown($body),
            'answer: ' . $answer->status . ' ' . ($answer->fault // '')
                . ' ' . substr($answer->body, 0, 1000),
            "wanted: $status " . _shown($expected) });
}

sub _fits {
    my ($answer, $status, $expected) = @_;

    my $plain = ref $expected eq 'HASH';
    my $type  = $plain ? 'text/plain; charset=utf-8' : 'application/json';

    return 0 if $answer->status != $status
        || ($answer->header('Content-Type') // '') ne $type;
    return 1 if !defined $expected;
    return $answer->body eq $expected->{plain} if $plain;
    return $answer->body =~ $expected if ref $expected;
    return $answer->body eq $expected if $expected =~ /^[\[{]/;

    return $answer->body eq '{"error":' . $JSON->encode($expected) . '}';
}

sub _shown {
    my ($value) = @_;

    return '-' if !defined $value;

    my $text = ref $value && ref $value ne 'Regexp' ? $JSON->encode($value)
        : $value;

    return substr $text, 0, 1000;
}


sub ok_status {
    my ($self, $request, $body, $name) = @_;

    return $self->gives($request, $body, 200, '{"status":"ok"}',
        $name // $request);
}


# Loads as text, as one process tells them.

sub loads {
    my ($self, $query, $client) = @_;

    my $answer = $self->ask('GET /loads' . ($query // ''), undef, $client);

    return 'status ' . $answer->status if $answer->status != 200;

    return join ', ', map {
        ((map { join ' ', "$_->{worker_id}/$_->{dp_rank}",
            @$_{qw(potential_prefill_tokens potential_decode_blocks
                active_requests)} } @{ $_->{loads} }),
            $_->{pending_count} || $_->{pending_isl_tokens}
                ? "pending $_->{pending_count}" : ())
    } @{ $answer->json };
}


# Checks the loads that each process tells now.

sub loads_are {
    my ($self, $want, $name, $query) = @_;

    my @got = map { $self->loads($query, $_) } $self->clients;

    return _report(!grep({ $_ ne $want } @got), $name,
        sub { (map { "got:    $_" } @got), "wanted: $want" });
}


# The same, as soon as each process tells them.

sub loads_become {
    my ($self, $want, $name, $limit) = @_;

    my ($got, @seen) = ('');

    my $ok = poll_for(sub {
        my @got = map { $self->loads(undef, $_) } $self->clients;
        push @seen, $got = "@got" if "@got" ne $got;
        return !grep { $_ ne $want } @got;
    }, $limit // $self->{limit});

    return _report($ok, $name,
        sub { (map { "got:    $_" } @seen), "wanted: $want" });
}


# Removes all workers, and so their bookings, and registers others: ids, or
# lists of an id and further members.

sub afresh {
    my ($self, @workers) = @_;

    $self->remove(map { $_->{worker_id} }
        @{ $self->get('/workers')->json });
    $self->register(ref $_ ? @$_ : $_) for @workers;

    return;
}


# Members of a prompt of hashes: so many, or these; each stands for a block of
# four tokens unless isl_tokens says otherwise.

sub hashed {
    my ($hashes, %members) = @_;

    my @hashes = ref $hashes ? @$hashes : 1 .. $hashes;

    return (
        block_hashes    => \@hashes,
        sequence_hashes => \@hashes,
        isl_tokens      => 4 * @hashes,
        %members,
    );
}


sub uuid_pattern {
    return qr/[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}
        -[0-9a-f]{12}/x;
}


# Tokens that no prompt had before.

my $token = 1_000_000;

sub new_tokens {
    my ($count) = @_;

    $token += $count;

    return [ $token - $count .. $token - 1 ];
}


# Books explicitly; dies when that fails, as what follows would make no sense.

sub book {
    my ($self, $id, $worker, %members) = @_;

    my $answer = $self->ask('POST /reservations', { selection_id => $id,
        worker_id => $worker, %members });

    die "booking $id failed: " . $answer->status . ' ' . $answer->body . "\n"
        if $answer->status != 201;

    return;
}


sub release {
    my ($self, @ids) = @_;

    for my $id (@ids) {
        my $answer = $self->ask("DELETE /reservations/$id");
        die "freeing $id failed: " . $answer->body . "\n"
            if $answer->status != 200;
    }

    return;
}


# One check at the suite's line, and what to say if it fails.

sub _report {
    my ($ok, $name, $words) = @_;

    my $builder = Test::More->builder;
    my $level   = 0;

    $level++ while (caller $level)[0] eq __PACKAGE__;
    local $Test::Builder::Level = $level + 1;

    if (!$builder->ok($ok, $name)) {
        $builder->diag($_) for $words->();
    }

    return $ok;
}

1;
