package Test::Nginx::Runner::Check;

# The checks of one block.  Every expectation is one numbered check, in the
# way of the genuine module, so that a plan fits both:
#
#     status                          one for each answer
#     response_headers(_like)         one for each header of each answer
#     response_body, _like, _unlike   one for each answer
#     error_log, no_error_log         one for each pattern, after each answer
#     grep_error_log                  one, after each answer
#     access_log, no_access_log       one for each pattern, after each answer
#     must_die                        one, and those of the error log
#     shutdown_error_log              one for each pattern, once a block

use strict;
use warnings;

use Digest::MD5 ();
use Digest::SHA ();
use JSON::PP ();
use Test::Builder;

use SelAnswer;
use SelProc qw(poll_for);
use Test::Nginx::Runner::Sections qw(patterns header_list indexed);

use constant LOG_TIME => 1;

my %FILTER = (
    md5_hex  => \&Digest::MD5::md5_hex,
    sha1_hex => \&Digest::SHA::sha1_hex,
    uc       => sub { uc $_[0] },
    lc       => sub { lc $_[0] },
    ucfirst  => sub { ucfirst $_[0] },
    lcfirst  => sub { lcfirst $_[0] },
    length   => sub { length $_[0] },
);


# Options: block, log and access (SelLog), expand (code that replaces
# $TEST_NGINX_... names), port, body_checks (list of code).  Reading of the
# error log starts at its beginning.

sub new {
    my ($class, %opt) = @_;

    return bless {
        %opt,
        label   => $opt{block}->name,
        builder => Test::Builder->new,
        seen    => 0,
        round   => 0,
    }, $class;
}


sub next_round { return $_[0]{round}++ }


# One check that only failures show.

sub fault {
    my ($self, $text) = @_;

    return $self->{builder}->ok(0, "$self->{label} - $text");
}


# Everything about answer number $i: status, headers, body.

sub answer {
    my ($self, $answer, $i, $several) = @_;

    if ($answer->is_malformed) {
        $self->fault('malformed answer: ' . $answer->fault);
        $answer = SelAnswer->none($answer->fault);

    } elsif ($answer->status && $answer->fault) {
        $self->{builder}->diag("$self->{label}: " . $answer->fault);
    }

    my $expected = sub {
        my ($section) = @_;
        my $value = $self->{block}->$section;
        return indexed($value, $i, $several, $self->{label});
    };

    $self->_status($answer, $expected);
    $self->_headers($answer, $expected);

    my $body = $self->_filter($answer->body, $i);
    $self->_body($body, $expected);

    $_->($self->{block}, $body, $i, $self->{round}, 0)
        for @{ $self->{body_checks} };

    return;
}


sub _has {
    my ($self, $section) = @_;

    return defined scalar $self->{block}->$section;
}


sub _status {
    my ($self, $answer, $expected) = @_;

    my $status = $answer->status || '';
    my $name   = "$self->{label} - status";

    if ($self->_has('error_code_like')) {
        my $pattern = $expected->('error_code_like');
        return $self->{builder}->like($status, qr/$pattern/sm, $name);
    }

    my $want = $self->_has('error_code') ? $expected->('error_code') : 200;

    return $self->{builder}->is_eq($status, $want, $name);
}


sub _headers {
    my ($self, $answer, $expected) = @_;

    my $like    = !$self->_has('response_headers');
    my $section = $like ? 'response_headers_like' : 'response_headers';

    return if !$self->_has($section);

    for my $pair (header_list($expected->($section), $self->{label})) {
        my ($header, $want) = @$pair;
        my $got  = $answer->header($header);
        my $name = "$self->{label} - header $header";

        if (!defined $want) {
            $self->{builder}->is_eq($got, undef, "$name is absent");

        } elsif ($like) {
            $self->{builder}->like($got // '', qr/^$want$/, $name);

        } else {
            $self->{builder}->is_eq($got // '', $self->_port($want), $name);
        }
    }

    return;
}


sub _port {
    my ($self, $text) = @_;

    return $text if !defined $text || ref $text;

    return $text =~ s/\$ServerPort(?:ForClient)?\b/$self->{port}/gr;
}


sub _filter {
    my ($self, $body, $i) = @_;

    my $filters = $self->{block}->response_body_filters // return $body;

    $filters = [ split ' ', $filters ] if !ref $filters;
    $filters = [$filters] if ref $filters ne 'ARRAY';
    $filters = $filters->[$i] if ref $filters->[0] eq 'ARRAY';

    die "$self->{label}: no response_body_filters for answer $i\n"
        if !defined $filters;

    for my $filter (@$filters) {
        my $code = ref $filter ? $filter : $FILTER{$filter}
            // die "$self->{label}: unknown body filter \"$filter\"\n";
        $body = $code->($body);
    }

    return $body;
}


sub _body {
    my ($self, $body, $expected) = @_;

    my $name = "$self->{label} - body";

    if ($self->_has('response_body')) {
        my $want = $self->_port($expected->('response_body'));
        $body = _sorted($body) if $self->_has('response_body_json_sort');

        return $self->_is_text($body, $self->{expand}->($want), $name);
    }

    for my $kind (qw(like unlike)) {
        next if !$self->_has("response_body_$kind");
        my $want = $self->_port($expected->("response_body_$kind"));

        return $self->{builder}->$kind($body, qr/$want/s, $name);
    }

    return;
}


# JSON with its keys in order and a line end; other text as it is.

sub _sorted {
    my ($body) = @_;

    local $SIG{__DIE__} = 'DEFAULT';

    my $json = JSON::PP->new->canonical->loose;
    my $data = eval { $json->decode($body) };

    return defined $data ? $json->encode($data) . "\n" : $body;
}


sub _is_text {
    my ($self, $got, $want, $name) = @_;

    my $builder = $self->{builder};

    return $builder->like($got, $want, $name) if ref $want;
    return $builder->is_eq($got, $want, $name)
        if !defined $got || !defined $want || length("$got$want") < 2000;

    return 1 if $builder->ok($got eq $want, $name);

    my $at = 0;
    $at++ while substr($got, $at, 1) eq substr($want, $at, 1);
    my $from = $at > 40 ? $at - 40 : 0;

    $builder->diag(sprintf "lengths %d and %d, first difference at %d\n"
        . "         got: ...%s\n    expected: ...%s", length $got,
        length $want, $at, map { substr $_, $from, 120 } $got, $want);

    return 0;
}


# The part of the error log that came since the last look.  Waits a moment
# for what has to be in it.

sub error_log {
    my ($self) = @_;

    my $block  = $self->{block};
    my @wanted = patterns(scalar $block->error_log);
    my $grep   = $self->_round_value('grep_error_log');
    my $out    = $self->{expand}->($self->_round_value('grep_error_log_out'));
    my @lines;

    poll_for(sub {
        @lines = split /^/, $self->{log}->text($self->{seen});
        return !_missing(\@wanted, \@lines)
            && (!defined $grep || _fits(_grep($grep, \@lines), $out));
    }, LOG_TIME);

    $self->{seen} += length for @lines;

    $self->_is_text(_grep($grep, \@lines), $out,
        "$self->{label} - grep_error_log_out") if defined $grep;

    $self->_present('error.log', \@wanted, \@lines);
    $self->_absent('error.log', [ patterns(scalar $block->no_error_log) ],
        \@lines);
    $self->_warn_of(\@lines);

    return;
}


sub access_log {
    my ($self) = @_;

    my $block  = $self->{block};
    my @wanted = patterns(scalar $block->access_log);
    my @lines;

    poll_for(sub {
        @lines = split /^/, $self->{access}->text;
        return !_missing(\@wanted, \@lines);
    }, LOG_TIME);

    $self->_present('access.log', \@wanted, \@lines);
    $self->_absent('access.log', [ patterns(scalar $block->no_access_log) ],
        \@lines);

    return;
}


# For the time after nginx has ended.

sub shutdown_log {
    my ($self) = @_;

    my @wanted = patterns(scalar $self->{block}->shutdown_error_log);
    my @lines  = split /^/, $self->{log}->text($self->{seen});

    $self->_present('error.log at shutdown', \@wanted, \@lines);

    return;
}


sub _round_value {
    my ($self, $section) = @_;

    my $value = $self->{block}->$section;

    return ref $value eq 'ARRAY' ? $value->[ $self->{round} ] : $value;
}


sub _matches {
    my ($pattern, $line) = @_;

    return ref $pattern ? $line =~ $pattern : index($line, $pattern) >= 0;
}


sub _missing {
    my ($patterns, $lines) = @_;

    return grep {
        my $pattern = $_;
        !grep { _matches($pattern, $_) } @$lines;
    } @$patterns;
}


# What the pattern matched, one a line.

sub _grep {
    my ($pattern, $lines) = @_;

    my $quoted = ref $pattern ? $pattern : quotemeta $pattern;

    return join '', map { "$_\n" } grep { !/\n/ }
        map { /$quoted/ ? $& : () } @$lines;
}


sub _fits {
    my ($got, $want) = @_;

    return ref $want ? $got =~ $want : $got eq $want;
}


sub _present {
    my ($self, $file, $patterns, $lines) = @_;

    for my $pattern (@$patterns) {
        $self->{builder}->ok(!_missing([$pattern], $lines),
            "$self->{label} - \"$pattern\" is in $file");
    }

    return;
}


sub _absent {
    my ($self, $file, $patterns, $lines) = @_;

    for my $pattern (@$patterns) {
        my @found = grep { _matches($pattern, $_) } @$lines;

        $self->{builder}->ok(!@found,
            "$self->{label} - \"$pattern\" is not in $file");
        $self->{builder}->diag(join '', @found) if @found;
    }

    return;
}


# Bad levels that the block does not speak of are told, but are no check; a
# failed assertion is.

sub _warn_of {
    my ($self, $lines) = @_;

    my $spoken = join ' ', map { patterns(scalar $self->{block}->$_) }
        qw(error_log no_error_log);

    for my $line (@$lines) {
        $self->fault($line) if $line =~ /\bAssertion .*failed\b/;
        $self->{builder}->diag("$self->{label}: $line")
            if $line =~ /\[(alert|crit|emerg)\]/
            && index($spoken, $1) < 0;
    }

    return;
}

1;
