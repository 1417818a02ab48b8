package SelStream;

# Simulated engines (stream.py) that answer routed requests.
#
#     my $stream = SelStream->start(engines => 2);      # named 1 and 2
#     # register workers with $stream->endpoint(1), then send requests with
#     # the header "X-Id: a" and "X-Sim: {"events":3,"hold":"headers"}"
#     my $seen = $stream->wait_at('a', 'headers');
#     $stream->release('a');
#
# A request is answered by a plan, whose members are
#
#     status, type, headers (a list of lines), close (1: after the answer)
#     events      so many events, then [DONE]; without it plain JSON
#     done        0: no [DONE]
#     completion_tokens, prompt_tokens, cached_tokens
#                 usage in an event of its own behind the others (or in the
#                 plain answer); usage_inside: 1: in the last event
#     text, repeat, body, echo (1: the request as it came), raw_events (texts)
#     raw         bytes instead of an answer
#     framing     chunked, length or close
#     split       the body in pieces of so many bytes
#     newline, comments, names, tight
#                 forms of an event: line end; comments between; other fields;
#                 no space behind "data:"
#     delay, first_delay, interval
#                 seconds: before the headers, before the body, behind events
#     hold, reset, fin
#                 points (or a list of points) where the answer waits to be
#                 released, or where the connection is broken by RST or FIN:
#                 request, headers, event:N, end
#
# The header X-Sim gives a plan; what the engine was set to goes before it, and
# what was queued for the engine's next requests before that.
#
# A request as the engine saw it: number, engine, connection, nth (on it),
# method, path, headers (a hash of small names), tag (X-Id), length, sha256,
# body (its beginning), at (the last point reached), end (done, gone: the
# client left; reset, fin; undef: not yet) and times (of points, "first" and
# "last" byte of the body, "end") on the clock of now().

use strict;
use warnings;

use parent qw(SelEngine);

use Carp qw(croak);
use Exporter ();
use File::Basename qw(dirname);
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

use SelProc qw(reserve_port poll_for);

our @EXPORT_OK = qw(now);

sub program { return dirname(__FILE__) . '/stream.py' }

sub import { goto &Exporter::import }


# Options: engines (1), tls (a hash with certificate and key, files; then all
# engines speak TLS).

sub start {
    my ($class, %opt) = @_;

    my $self = bless { engines => 1, %opt, owner => $$, port => {} }, $class;

    $self->_launch;
    $self->open($_) for 1 .. $self->{engines};

    return $self;
}


sub now { return clock_gettime(CLOCK_MONOTONIC) }


# Listens, also again after close().  With host => '::1' on IPv6.

sub open {
    my ($self, $engine, %opt) = @_;

    $self->call('open', engine => $engine, port => $self->port($engine),
        %{ $self->{tls} // {} }, %opt);

    return;
}


# Refuses connections from now on.  Idle ones end, with hard => 1 all.

sub close {
    my ($self, $engine, %opt) = @_;

    $self->call('close', engine => $engine, %opt);

    return;
}


sub port {
    my ($self, $engine) = @_;

    return $self->{port}{$engine} //= reserve_port();
}


sub endpoint {
    my ($self, $engine) = @_;

    my $scheme = $self->{tls} ? 'https' : 'http';

    return "$scheme://127.0.0.1:" . $self->port($engine);
}


# The plan of an engine; none takes it back.

sub set {
    my ($self, $engine, %plan) = @_;

    $self->call('set', engine => $engine, plan => \%plan);

    return;
}


sub queue {
    my ($self, $engine, @plans) = @_;

    $self->call('queue', engine => $engine, plans => \@plans);

    return;
}


# Requests with a tag, in order; all of them without one.  Options: engine.

sub seen {
    my ($self, $tag, %opt) = @_;

    return @{ $self->call('requests', tag => $tag, %opt)->{requests} };
}


# The only request with a tag.

sub one {
    my ($self, $tag) = @_;

    my @seen = $self->seen($tag);
    croak scalar @seen . " requests $tag came to the engines" if @seen != 1;

    return $seen[0];
}


# Waits until the newest request with a tag has reached a point, and returns
# it.  Dies when that takes too long.

sub wait_at {
    my ($self, $tag, $point) = @_;

    return $self->_wait($tag, "at $point",
        sub { $_[0]{at} eq $point && !defined $_[0]{end} });
}


# The same, until it has ended, somehow or in one way.

sub wait_end {
    my ($self, $tag, $end) = @_;

    return $self->_wait($tag, 'ended ' . ($end // ''),
        sub { defined $_[0]{end} && $_[0]{end} eq ($end // $_[0]{end}) });
}


sub _wait {
    my ($self, $tag, $what, $is_so) = @_;

    my $last;

    poll_for(sub {
        ($last) = reverse $self->seen($tag);
        return $last && $is_so->($last);
    }) or croak "request $tag is not $what"
        . ($last ? " but at $last->{at}, " . ($last->{end} // 'open') : '');

    return $last;
}


# Lets requests go on that wait at a point: those of a tag, or all.

sub release {
    my ($self, $tag) = @_;

    return $self->call('release', tag => $tag)->{count};
}


# How many requests ended in each way: { done => 3, gone => 1, open => 2 }.

sub ends {
    my ($self, %opt) = @_;

    return $self->call('count', %opt)->{ends};
}


# Connections of an engine: open, accepted, names (asked for in TLS).

sub report {
    my ($self, $engine) = @_;

    return $self->call('report', engine => $engine);
}


# Forgets the requests that have ended.

sub forget {
    my ($self) = @_;

    $self->call('forget');

    return;
}

1;
