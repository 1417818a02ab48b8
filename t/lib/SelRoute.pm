package SelRoute;

# A router under test: SelBooks with an upstream block "engines" that routes,
# a location /v1/ that passes to it, simulated engines (SelStream), and a log
# that names the variables of each request.
#
#     my $ng = SelRoute->new(engines => 2)->run;
#     $ng->add(1, 1);                       # worker 1 is engine 1
#     my $answer = $ng->route({ token_ids => new_tokens(12) });
#
#     my $held = $ng->begin({ prompt => new_tokens(12) },
#         { events => 3, hold => 'headers' });
#     $held->at('headers');
#     $ng->loads_are('1/0 12 3 1', 'booked');
#     $held->release;
#     is $held->receive->status, 200, 'answered';
#     is $held->log->{worker}, 1, 'by the log, too';
#
# A story is a subtest.  A request has a tag, sent as X-Id, by which engines
# and log know it.

use strict;
use warnings;

use parent qw(SelBooks);

use Carp qw(croak);
use Exporter ();
use JSON::PP ();
use Test::More ();

use SelBooks;
use SelLog;
use SelProc qw(poll_for);
use SelStream qw(now);

our @EXPORT = (@SelBooks::EXPORT, qw(now story));

my $JSON = JSON::PP->new->canonical->allow_nonref;
my $tags = 0;

my %LOGGED = (
    id        => 'http_x_id',
    uri       => 'uri',
    status    => 'status',
    worker    => 'select_worker_id',
    rank      => 'select_dp_rank',
    endpoint  => 'select_endpoint',
    selection => 'select_selection_id',
    overlap   => 'select_overlap_tokens',
    prefill   => 'select_effective_prefill_tokens',
    time      => 'select_decision_time',
    reason    => 'select_reason',
    cached    => 'select_cached_tokens',
    output    => 'select_output_tokens',
    address   => 'upstream_addr',
    tries     => 'upstream_status',
);

sub import { goto &Exporter::import }


# Options as for SelBooks, and: engines (1) or stream (engines of another
# router); tls; options of select_route; upstream, text in the block behind
# select_route, and before, in front of it; route, text in the location /v1/.

sub new {
    my ($class, %opt) = @_;

    my ($engines, $tls) = (delete $opt{engines}, delete $opt{tls});
    my $stream = delete $opt{stream} // SelStream->start(
        engines => $engines // 1, tls => $tls);
    my %text = map { ($_ => delete $opt{$_} // '') }
        qw(options upstream before route);
    my $scheme = $stream->{tls} ? 'https' : 'http';
    my $log = $JSON->encode({ map { ($_ => "\$$LOGGED{$_}") } keys %LOGGED });

    my $self = $class->SUPER::new(%opt,
        http => <<"HTTP" . ($opt{http} // ''),
    log_format route escape=json '$log';
    upstream engines {
        $text{before}
        select_route selector$text{options};
        $text{upstream}
    }
HTTP
        server => <<"SERVER" . ($opt{server} // ''));
    access_log \$TEST_NGINX_SERVER_ROOT/logs/route.log route;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_buffering off;
    proxy_read_timeout 20s;
    location /v1/ {
        proxy_pass $scheme://engines;
        $text{route}
    }
SERVER

    $self->{stream} = $stream;

    return $self;
}


sub stream { return $_[0]{stream} }


# A subtest that fails when its code dies; the others go on.

sub story {
    my ($name, $code) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return Test::More::subtest($name => sub {
        eval { $code->(); 1 } or Test::More::fail("dies: $@");
    });
}


# Registers a worker whose ranks are an engine.

sub add {
    my ($self, $id, $engine, %members) = @_;

    return $self->register($id,
        endpoint => $self->stream->endpoint($engine), %members);
}


# Removes all workers and adds these: lists of id, engine and members.  Engines
# forget their plans.

sub anew {
    my ($self, @workers) = @_;

    $self->afresh;
    $self->stream->set($_) for map { $_->[1] } @workers;
    $self->add(@$_) for @workers;

    return;
}


# Sends a request that is to be routed, on a connection of its own, with a
# plan for the engine, and returns it.  The body is a structure, or text, or
# undef: none.  Options: path, method, headers, tag, client (a connection).

sub begin {
    my ($self, $body, $plan, %opt) = @_;

    my $tag     = $opt{tag} // 'r' . ++$tags . "-$$";
    my $client  = $opt{client} // $self->connection(keepalive => 0);
    my @headers = ("X-Id: $tag", @{ $opt{headers} // [] });

    push @headers, 'X-Sim: ' . $JSON->encode($plan) if $plan;
    push @headers, 'Content-Type: application/json'
        if defined $body && !ref $body;

    my $start = now();
    $client->send($opt{method} // (defined $body ? 'POST' : 'GET'),
        $opt{path} // '/v1/completions', body => $body,
        headers => \@headers);

    return bless { ng => $self, tag => $tag, client => $client,
        start => $start }, 'SelRoute::Request';
}


# The same, and waits for the answer.

sub route {
    my ($self, @args) = @_;

    return $self->begin(@args)->receive;
}


# Sends a request and returns it when its answer is there.

sub through {
    my ($self, @args) = @_;

    my $request = $self->begin(@args);

    $request->receive;

    return $request;
}


# Lines of the log as hashes, those of a tag.  The last line may be half there:
# one that crosses a page of the file comes in two steps.

sub lines {
    my ($self, $tag) = @_;

    my $text = SelLog->new($self->root . '/logs/route.log')->text;
    $text =~ s/[^\n]+\z//;

    return grep { $_->{id} eq $tag }
        map { $JSON->decode($_) } grep { /"id":"\Q$tag\E"/ }
        split /\n/, $text;
}


# No load on any rank, in any process; says what was there meanwhile.

sub all_free {
    my ($self, $name) = @_;

    my @got;

    my $ok = poll_for(sub {
        @got = map { $self->loads(undef, $_) } $self->clients;
        return !grep { /\d\/\d+ (?!0 0 0\b)/ || /pending|status/ } @got;
    }, $self->{limit});

    my $builder = Test::More->builder;

    local $Test::Builder::Level = $Test::Builder::Level + 1;
    $builder->ok($ok, $name // 'no load is left')
        or $builder->diag(map { "got: $_\n" } @got);

    return $ok;
}


package SelRoute::Request;

# One request that was sent.

use strict;
use warnings;

use Carp qw(croak);

use SelProc qw(poll_for);


sub tag    { return $_[0]{tag} }
sub client { return $_[0]{client} }
sub answer { return $_[0]{answer} }
sub stream { return $_[0]{ng}->stream }


# Waits until the engine has reached a point with it; returns what the engine
# knows.

sub at {
    my ($self, $point) = @_;

    return $self->stream->wait_at($self->tag, $point);
}

sub ended {
    my ($self, $how) = @_;

    return $self->stream->wait_end($self->tag, $how);
}

sub seen { return $_[0]->stream->seen($_[0]->tag) }
sub one  { return $_[0]->stream->one($_[0]->tag) }

sub release {
    my ($self) = @_;

    $self->stream->release($self->tag)
        or croak 'request ' . $self->tag . ' waits nowhere';

    return $self;
}


# The answer, as soon as it is complete.

sub receive {
    my ($self, %opt) = @_;

    return $self->{answer} //= $self->client->receive(%opt);
}


# Waits until so much has come that it matches; returns the time.

sub got {
    my ($self, $pattern) = @_;

    poll_for(sub { $self->client->partial =~ $pattern })
        or croak 'request ' . $self->tag . " did not get $pattern but "
        . substr $self->client->partial, 0, 1000;

    return SelStream::now();
}


# Goes away; returns the time before that.

sub leave {
    my ($self) = @_;

    my $time = SelStream::now();

    $self->client->close;

    return $time;
}


# The process that answers, as soon as it is known.

sub process {
    my ($self) = @_;

    $self->got(qr/\r\n\r\n/);
    my ($pid) = $self->client->partial =~ /^X-Select-Process: (\d+)/m;

    return $pid;
}


# Its line of the log, as soon as it is there.

sub log {
    my ($self) = @_;

    my @lines;

    poll_for(sub { @lines = $self->{ng}->lines($self->tag) })
        or croak 'request ' . $self->tag . ' is not in the log';

    return $lines[0];
}

1;
