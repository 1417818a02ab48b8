package SelAnswer;

# One HTTP/1.1 answer.  parse() splits it off a byte string by its own
# framing (chunked, Content-Length, no body, or until the end of the
# connection), so several pipelined answers can be taken one by one.

use strict;
use warnings;

use JSON::PP ();

my $HEAD = qr{
    \A ( HTTP/\d\.\d \ (\d{3}) [^\r\n]* (?: \r?\n [^\r\n]+ )* )
    \r?\n \r?\n
}x;


# Options: method of the request (HEAD answers have no body), eof when no
# byte can follow.  Returns the answer and the bytes behind it, or nothing
# while it is not complete.  With eof there is always an answer: one that was
# cut off has a "fault", one that never began has the status 0.

sub parse {
    my ($class, $bytes, %opt) = @_;

    my $self = bless {
        status  => 0,
        headers => [],
        head    => '',
        body    => '',
    }, $class;

    if ($bytes !~ $HEAD) {
        return if !$opt{eof};
        $self->{fault} = length $bytes ? 'no HTTP answer' : 'closed';
        $self->{body}  = $bytes;
        return ($self, '');
    }

    ($self->{head}, $self->{status}) = ($1, $2);
    my $rest = substr $bytes, $+[0];

    my (undef, @lines) = split /\r?\n/, $self->{head};
    $self->{headers} = [ map { [ split /\s*:\s*/, $_, 2 ] } @lines ];

    return $self->_take_body($rest, %opt);
}


# An answer for a request that got none, with the reason.

sub none {
    my ($class, $why) = @_;

    return bless {
        status  => 0,
        headers => [],
        head    => '',
        body    => '',
        fault   => $why,
    }, $class;
}


sub _take_body {
    my ($self, $rest, %opt) = @_;

    my $length = $self->header('Content-Length');

    if (($opt{method} // '') eq 'HEAD' || $self->{status} =~ /^(?:204|304)$/)
    {
        return ($self, $rest);
    }

    if (lc($self->header('Transfer-Encoding') // '') eq 'chunked') {
        return $self->_take_chunks($rest, %opt);
    }

    if (defined $length && $length =~ /^\d+$/) {
        if (length $rest < $length) {
            return if !$opt{eof};
            $self->{fault} = "body cut off at " . length($rest)
                . " of $length bytes";
        }

        $self->{body} = substr $rest, 0, $length;
        return ($self, length $rest > $length ? substr $rest, $length : '');
    }

    return if !$opt{eof};
    $self->{body} = $rest;

    return ($self, '');
}


sub _take_chunks {
    my ($self, $rest, %opt) = @_;

    my $pos = 0;

    while (substr($rest, $pos) =~ /\A([0-9a-fA-F]+)[^\r\n]*\r\n/) {
        my $size = hex $1;
        $pos += $+[0];

        if ($size == 0) {
            last if substr($rest, $pos) !~ /\A(?:[^\r\n]+\r\n)*\r\n/;
            return ($self, substr $rest, $pos + $+[0]);
        }

        $self->{body} .= substr $rest, $pos, $size;
        last if length $rest < $pos + $size + 2;
        $pos += $size;

        return $self->_malformed('no line end behind a chunk')
            if substr($rest, $pos, 2) ne "\r\n";

        $pos += 2;
    }

    return $self->_malformed('no chunk size where one is due')
        if substr($rest, $pos) =~ /\A[^0-9a-fA-F]/;

    return if !$opt{eof};

    return $self->_malformed('chunked body without an end');
}


sub _malformed {
    my ($self, $why) = @_;

    $self->{fault} = $why;
    $self->{malformed} = 1;

    return ($self, '');
}


sub status  { return $_[0]{status} }
sub head    { return $_[0]{head} }
sub body    { return $_[0]{body} }
sub fault   { return $_[0]{fault} }
sub headers { return @{ $_[0]{headers} } }

sub is_malformed { return $_[0]{malformed} }


# All values of a header joined by ", ", or undef.

sub header {
    my ($self, $name) = @_;

    my @values = map { $_->[1] // '' }
        grep { lc $_->[0] eq lc $name } $self->headers;

    return @values ? join ', ', @values : undef;
}


# The process that answered: test builds and the selftests name it.

sub process { return $_[0]->header('X-Select-Process') }


# The body as data.  Integers from -2^63 to 2^64-1 stay exact.  Dies when the
# body is not JSON.

sub json {
    my ($self) = @_;

    return JSON::PP->new->utf8->allow_nonref->decode($self->{body});
}

1;
