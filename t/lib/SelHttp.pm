package SelHttp;

# An HTTP/1.1 client for tests: one connection, used again as long as the
# server allows (keep-alive), opened anew when the server closed it.  A
# request may be sent now and its answer fetched later, so that a test can
# hold many of them open at once.

use strict;
use warnings;

use Errno qw(EAGAIN EINTR);
use IO::Socket::INET;
use JSON::PP ();
use Time::HiRes qw(time);

use SelAnswer;

use constant READ_SIZE => 65536;


# Options: port, host (127.0.0.1), timeout of an answer (5 s), keepalive (1).

sub new {
    my ($class, %opt) = @_;

    return bless {
        host      => '127.0.0.1',
        timeout   => 5,
        keepalive => 1,
        %opt,
        buffer    => '',
        pending   => [],
    }, $class;
}


sub get    { my $self = shift; return $self->request(GET    => @_) }
sub delete { my $self = shift; return $self->request(DELETE => @_) }

sub post  { return _with_body(POST  => @_) }
sub patch { return _with_body(PATCH => @_) }
sub put   { return _with_body(PUT   => @_) }


sub _with_body {
    my ($method, $self, $path, $body, %opt) = @_;

    return $self->request($method, $path, %opt, body => $body);
}


# Sends a request and returns its answer, a SelAnswer.  Options: body (text,
# or a structure that becomes JSON), headers (a list of "Name: value"),
# timeout.  When no answer comes the status is 0 and fault says why.

sub request {
    my ($self, $method, $path, %opt) = @_;

    $self->send($method, $path, %opt);

    return $self->receive(%opt);
}


sub send {
    my ($self, $method, $path, %opt) = @_;

    my @lines = ("$method $path HTTP/1.1", @{ $opt{headers} // [] });
    my $body  = $opt{body} // '';

    if (ref $body) {
        $body = JSON::PP->new->utf8->canonical->encode($body);
        push @lines, 'Content-Type: application/json'
            if !grep { /^Content-Type:/i } @lines;
    }

    push @lines, "Host: $self->{host}" if !grep { /^Host:/i } @lines;
    push @lines, 'Connection: close' if !$self->{keepalive};
    push @lines, 'Content-Length: ' . length $body
        if defined $opt{body}
        && !grep { /^(?:Content-Length|Transfer-Encoding):/i } @lines;

    return $self->send_raw(join("\r\n", @lines, '', $body), $method);
}


# Sends bytes as they are; one answer to the given method will be expected.

sub send_raw {
    my ($self, $bytes, $method) = @_;

    local $SIG{PIPE} = 'IGNORE';

    $self->_connect if !@{ $self->{pending} } && !$self->_is_usable;
    push @{ $self->{pending} }, $method // 'GET';

    my $end = time + $self->{timeout};

    while (length $bytes && $self->{sock} && time < $end) {
        $self->_select('write', $end);
        my $n = syswrite $self->{sock}, $bytes;
        last if !defined $n && !$!{EAGAIN} && !$!{EINTR};
        substr $bytes, 0, $n // 0, '';
    }

    return $self;
}


# The answer to the oldest request not yet answered.

sub receive {
    my ($self, %opt) = @_;

    my $end = time + ($opt{timeout} // $self->{timeout});

    while (1) {
        my $answer = $self->_take;
        return $answer if $answer;

        if (time >= $end) {
            $self->close;
            return SelAnswer->none('timed out');
        }

        $self->_select('read', $end);
        $self->_read;
    }
}


# True when receive() would not wait.

sub arrived {
    my ($self) = @_;

    $self->_read;

    return 1 if !$self->{sock};

    my $method = $self->{pending}[0];
    my ($answer) = SelAnswer->parse($self->{buffer}, method => $method);

    return defined $answer;
}


# Bytes that came and belong to no answer fetched so far.

sub partial {
    my ($self) = @_;

    $self->_read;

    return $self->{buffer};
}


sub is_open { return defined $_[0]{sock} }

sub close {
    my ($self) = @_;

    $self->{sock}->close if $self->{sock};
    delete $self->{sock};
    $self->{pending} = [];
    $self->{buffer} = '';

    return;
}


sub _connect {
    my ($self) = @_;

    $self->close;

    my $sock = IO::Socket::INET->new(
        PeerAddr => $self->{host},
        PeerPort => $self->{port},
        Proto    => 'tcp',
        Timeout  => $self->{timeout},
    ) or return;

    $sock->blocking(0);
    $self->{sock} = $sock;

    return;
}


# False when there is no connection or the server has closed it.

sub _is_usable {
    my ($self) = @_;

    $self->_read;

    return defined $self->{sock};
}


sub _select {
    my ($self, $way, $end) = @_;

    return if !$self->{sock};

    my $bits = '';
    vec($bits, fileno $self->{sock}, 1) = 1;
    my $wait = $end - time;
    $wait = 0 if $wait < 0;

    return $way eq 'read'
        ? select $bits, undef, undef, $wait
        : select undef, $bits, undef, $wait;
}


# Reads what is there without waiting.

sub _read {
    my ($self) = @_;

    while ($self->{sock}) {
        my $n = sysread $self->{sock}, $self->{buffer}, READ_SIZE,
            length $self->{buffer};
        return if !defined $n && ($!{EAGAIN} || $!{EINTR});

        if (!$n) {
            $self->{sock}->close;
            delete $self->{sock};
        }
    }

    return;
}


sub _take {
    my ($self) = @_;

    my $closed = !$self->{sock};

    $self->{buffer} =~ s/\AHTTP\/1\.1 100 .*?\r\n\r\n//s;

    my ($answer, $rest) = SelAnswer->parse($self->{buffer},
        method => $self->{pending}[0], eof => $closed);
    return if !$answer;

    shift @{ $self->{pending} };
    $self->{buffer} = $rest;
    $self->close
        if $closed && !@{ $self->{pending} }
        || lc($answer->header('Connection') // '') eq 'close';

    return $answer;
}

1;
