package SelSuite;

# Data-driven suites as stories: requests and the answers they must get, side
# by side, in the section "request" (a connection each) or "pipelined_requests"
# (all on one connection).  Runs under either Test::Nginx.
#
#     use Test::Nginx::Socket;
#     use SelSuite;
#
#     plan tests => repeat_each() * stories(blocks());
#     run_tests();
#
#     __DATA__
#
#     === TEST 1: a worker that is gone is not found
#     --- request
#     # a comment
#     > DELETE /workers/7
#     < 404 {"error":"worker 7 not found"}
#
#     > POST /workers {"worker_id":
#     > 7}
#     < 201
#     < {"worker_id":7,
#     <   "model_name":"default", ...}
#
# A body stands behind the request line or the status, with header lines
# below, or below the header lines.  Lines of a request's body keep their line
# ends, those of an expected one are joined without their indent.  A request
# with a body is sent as JSON unless it names a media type ("Content-Type: -"
# sends none); an answer must be JSON unless the story names its Content-Type.
# An expected header that begins with ~ is a pattern; "!Name" must be absent.
#
# An expected body is the whole body, or one of
#
#     ~ text       contains the text
#     /regex/      matches
#     ERROR text   {"error":"text"}
#     SYNTAX text  is refused as no JSON, for this reason
#     DATA text    is refused as JSON with wrong data, for this reason
#     REASONS      a worker that is incomplete for the reasons that the next
#                  lines name, and for no other
#
# A block that has no config gets a selector on every path, in a zone without
# KV events.  No block may log anything worse than an error.

use strict;
use warnings;

use Carp qw(croak);
use Exporter qw(import);
use JSON::PP ();

our @EXPORT = qw(stories);

my $JSON   = JSON::PP->new->allow_nonref;
my $HEADER = qr/^([A-Za-z][\w-]*): (.*)$/;

my %REFUSED = (
    SYNTAX => 'Failed to parse the request body as JSON: ',
    DATA   => 'Failed to deserialize the JSON body into the target type: ',
);


# Makes sections of the stories of the blocks, adds what every block has, and
# returns the number of checks that will be made (in one round).

sub stories {
    my (@blocks) = @_;

    my $checks = 0;

    for my $block (@blocks) {
        _add_defaults($block);
        my $answers = _take_story($block);
        $checks += $answers * _log_checks($block)
            + _answer_checks($block, $answers);
    }

    return $checks;
}


sub _add_defaults {
    my ($block) = @_;

    my $http = $block->http_config // '';

    $http = "select_kv_events off;\n$http"
        if $http !~ /\bselect_kv_events\b/;
    $http = "select_zone selector 4m;\n$http" if $http !~ /\bselect_zone\b/;
    $block->set_value(http_config => $http);

    $block->set_value(config => 'location / { select_service selector; }')
        if !defined $block->config;

    $block->set_value(no_error_log => [ qr/\[(?:alert|emerg|crit)\]/ ])
        if !defined $block->no_error_log;

    return;
}


# Returns the number of answers.

sub _take_story {
    my ($block) = @_;

    my ($section) = grep { defined scalar $block->$_ }
        qw(raw_request pipelined_requests request);
    croak $block->name . ': no request' if !defined $section;

    my $text = $block->$section;
    return 1 if $section eq 'raw_request';
    return ref $text ? scalar @$text : 1 if ref $text || $text !~ /^>/m;

    my @steps = _steps($block->name, $text);

    $block->set_value($section => [ map { _request_text($_) } @steps ]);
    $block->set_value(more_headers => [ map { $_->{headers} } @steps ]);
    $block->set_value(error_code => [ map { $_->{status} } @steps ]);
    $block->set_value(response_headers_like =>
        [ map { _header_patterns($_) } @steps ]);
    $block->set_value(response_body => [ map { _body($_) } @steps ]);

    return scalar @steps;
}


sub _steps {
    my ($name, $text) = @_;

    my (@steps, $side);

    for my $line (split /\n/, $text) {
        next if $line =~ /^\s*(?:#.*)?$/;

        my ($mark, $rest) = $line =~ /^([<>]) ?(.*)$/
            or croak "$name: neither request nor answer: $line";

        push @steps, { name => $name }
            if $mark eq '>' && ($side // '<') eq '<';
        $side = $mark;

        if ($mark eq '>') {
            _take_request_line($steps[-1], $rest);

        } else {
            _take_answer_line($steps[-1], $rest);
        }
    }

    for my $step (@steps) {
        croak "$name: $step->{line}: no expected status and body"
            if !defined $step->{status} || !defined $step->{expected};
    }

    return @steps;
}


sub _take_request_line {
    my ($step, $text) = @_;

    if (!defined $step->{line}) {
        @$step{qw(line body)} = $text =~ /^(\S+ \S+(?: HTTP\/\S+)?)(?: (.*))?$/
            or croak "$step->{name}: not a request: $text";
        $step->{whole} = defined $step->{body};
        $step->{headers} = '';

    } elsif ($text =~ $HEADER && ($step->{whole} || !defined $step->{body})) {
        $step->{headers} .= "$text\n";

    } else {
        croak "$step->{name}: not a header: $text" if $step->{whole};
        $step->{body} = defined $step->{body} ? "$step->{body}\n$text" : $text;
    }

    return;
}


sub _take_answer_line {
    my ($step, $text) = @_;

    if (!defined $step->{status}) {
        @$step{qw(status expected)} = $text =~ /^(\d+)(?: (.*))?$/
            or croak "$step->{name}: not a status: $text";
        $step->{inline} = defined $step->{expected};

    } elsif (($step->{expected} // '') =~ /^REASONS/) {
        $step->{expected} .= "\n$text";

    } elsif ($text =~ $HEADER
        && ($step->{inline} || !defined $step->{expected}))
    {
        $step->{answer}{$1} = $2;

    } elsif ($text =~ /^!([\w-]+)$/) {
        $step->{answer}{$1} = undef;

    } else {
        croak "$step->{name}: not a header: $text" if $step->{inline};
        $step->{expected} .= $text =~ s/^\s+//r;
    }

    return;
}


sub _request_text {
    my ($step) = @_;

    my $has_body = defined $step->{body};

    $step->{headers} .= "Content-Type: application/json\n"
        if $has_body && $step->{headers} !~ /^Content-Type:/mi;
    $step->{headers} =~ s/^Content-Type: -\n//m;

    return $has_body ? "$step->{line}\n$step->{body}" : $step->{line};
}


sub _header_patterns {
    my ($step) = @_;

    my %want = ('Content-Type' => 'application/json',
        %{ $step->{answer} // {} });

    return join '', map {
        my $value = $want{$_};
        !defined $value ? "!$_\n"
            : "$_: " . ($value =~ s/^~ ?// ? $value : quotemeta $value) . "\n"
    } sort keys %want;
}


sub _body {
    my ($step) = @_;

    my $text = $step->{expected};

    return qr/$1/s if $text =~ m{^/(.*)/$}s;
    return qr/\Q$1\E/ if $text =~ /^~ ?(.*)$/s;
    return '{"error":' . $JSON->encode($1) . '}'
        if $text =~ /^ERROR (.*)$/s;
    return _refusal($REFUSED{$1}, $2) if $text =~ /^(SYNTAX|DATA) ?(.*)$/s;

    if ($text =~ s/^REASONS\n//) {
        my $reasons = $JSON->encode([ split /\n/, $text ]);
        return qr/"lifecycle":"incomplete",.*
            ,"not_schedulable_reasons":\Q$reasons\E\}\z/x;
    }

    return $text;
}


# The text of a refusal begins in a fixed way, names a reason, and may go on
# with the place.

sub _refusal {
    my ($prefix, $reason) = @_;

    my ($start, $inner) = map { $JSON->encode($_) =~ s/^"|"$//gr }
        $prefix, $reason;

    return qr/\A\{"error":"\Q$start\E[^"]*(?:\\"[^"]*)*?\Q$inner\E.*"\}\z/;
}


# What either Test::Nginx counts as a check: one for each log pattern and
# each answer,

sub _log_checks {
    my ($block) = @_;

    return _patterns($block, qw(error_log no_error_log))
        + (defined scalar $block->grep_error_log);
}


# and unless answers are ignored their status, body, each header and each
# pattern of the access log.

sub _answer_checks {
    my ($block, $answers) = @_;

    return 0 if defined scalar $block->ignore_response;

    my @bodies = grep { defined scalar $block->$_ }
        qw(response_body response_body_like response_body_unlike);
    my ($headers) = grep { defined }
        map { scalar $block->$_ } qw(response_headers response_headers_like);

    my $lines = $headers // '';
    $lines = join "\n", @$lines if ref $lines;

    return $answers * (1 + !!@bodies)
        + grep({ /\S/ } split /\n/, $lines)
        + $answers * _patterns($block, qw(access_log no_access_log));
}


sub _patterns {
    my ($block, @sections) = @_;

    my $count = 0;

    for my $value (map { scalar $block->$_ } @sections) {
        next if !defined $value;
        $count += ref $value eq 'ARRAY' ? @$value
            : ref $value ? 1 : scalar split /\n+/, $value;
    }

    return $count;
}

1;
