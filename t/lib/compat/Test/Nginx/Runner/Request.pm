package Test::Nginx::Runner::Request;

# From the sections of a block to bytes.  A block yields one or more
# exchanges, one connection each: the pieces to send and the methods of the
# requests in them, because as many answers are due and HEAD has no body.

use strict;
use warnings;

use Exporter qw(import);

our @EXPORT_OK = qw(exchanges);


# $expand replaces $TEST_NGINX_... names; as in the genuine module that is
# done for pipelined requests alone.

sub exchanges {
    my ($block, $expand) = @_;

    my $name = $block->name;
    my ($raw, $list) = (scalar $block->raw_request,
        scalar $block->pipelined_requests);

    return _raw($raw) if defined $raw;

    if (defined $list) {
        die "$name: pipelined_requests must be a list\n"
            if ref $list ne 'ARRAY';
        my @texts = map { $expand->($_) } @$list;
        my @built = map {
            _build($block, $texts[$_], $_, $_ == $#texts)
        } 0 .. $#texts;

        return { pieces  => [ join '', map { $_->[0] } @built ],
                 methods => [ map { $_->[1] } @built ] };
    }

    my $request = $block->request;
    die "$name: no request\n" if !defined $request;

    my @texts = ref $request ? @$request : _strip($request);

    return map {
        my ($bytes, $method) = @{ _build($block, $texts[$_], $_, 1) };
        +{ pieces => [$bytes], methods => [$method] };
    } 0 .. $#texts;
}


sub _raw {
    my ($raw) = @_;

    my @pieces = ref $raw ? @$raw : ($raw);
    my ($method) = join('', @pieces) =~ /^\s*(\w+)/;

    return { pieces => \@pieces, methods => [ $method // '' ] };
}


# Leading blank lines and comment lines do not belong to the request.

sub _strip {
    my ($text) = @_;

    1 while $text =~ s/\A\s*#[^\n]*\n//;

    return $text =~ s/\A\s+//r;
}


# The first line holds method, path (default /) and version (default
# HTTP/1.1); what follows is the body.

sub _build {
    my ($block, $text, $i, $is_last) = @_;

    my $name = $block->name;

    die "$name: request $i is no text; for pieces use raw_request\n"
        if !defined $text || ref $text;

    my ($first, $body) = $text =~ /\A([^\n]*)\n?(.*)\z/s;
    my ($method, $path, $version, @more) = split ' ', $first;

    die "$name: not a request line: \"$first\"\n"
        if !defined $method || @more;

    my @headers = _headers($block, $i);
    my $has = sub {
        my ($header) = @_;
        return grep { /^\Q$header\E/i } @headers;
    };

    if ($body ne '' && !$has->('Content-Length:')
        && !grep { /^Transfer-Encoding: chunked$/i } @headers)
    {
        $body =~ s/^\s+|\s+$//g;
        push @headers, 'Content-Length: ' . length $body;
    }

    unshift @headers, 'Connection: ' . ($is_last ? 'close' : 'keep-alive')
        if !$has->('Connection');
    unshift @headers, 'Host: localhost' if !$has->('Host:');

    my $bytes = join "\r\n",
        join(' ', $method, $path // '/', $version // 'HTTP/1.1'),
        @headers, '', $body;

    return [ $bytes, $method ];
}


sub _headers {
    my ($block, $i) = @_;

    my $text = $block->more_headers // '';

    if (ref $text) {
        $text = $text->[$i] // die $block->name
            . ": more_headers has nothing for request $i\n";
    }

    return map { /^([^:]*?):?\s*$/ ? "$1: " : s/^([^:]+):\s*/$1: /r }
        grep { length && !/^\s*#/ } split /\n+/, $text;
}

1;
