package Test::Nginx::Runner::Sections;

# What may stand in a block, and the notations of section values.

use strict;
use warnings;

use Exporter qw(import);

our @EXPORT_OK = qw(check_sections patterns header_list seconds indexed
    skip_rule);

my %KNOWN = map { ($_ => 1) } qw(
    main_config http_config config user_files
    request pipelined_requests raw_request raw_request_middle_delay
    more_headers abort ignore_response shutdown timeout wait
    error_code error_code_like response_body response_body_like
    response_body_unlike response_body_json_sort response_body_filters
    response_headers response_headers_like
    error_log no_error_log grep_error_log grep_error_log_out
    access_log no_access_log shutdown_error_log log_level
    must_die tcp_listen tcp_reply tcp_reply_delay
    ONLY LAST SKIP skip_nginx skip_eval todo
);

my %INTERNAL = map { ($_ => 1) } qw(
    name description seq_num is_filtered blocks_object original_values
    _section_map _section_order
);


# Dies for a section nobody knows, so that a misspelt one is never ignored,
# and for one that stands twice, of which only the last would count.

sub check_sections {
    my ($block) = @_;

    my $name = $block->name;
    my %seen;

    for my $section (@{ $block->{_section_order}[0] // [] }) {
        die "$name: section \"$section\" stands twice\n"
            if $seen{$section}++;
    }

    for my $section (sort grep { !$INTERNAL{$_} } keys %$block) {
        die "$name: unknown section \"$section\"\n" if !$KNOWN{$section};
    }

    die "$name: grep_error_log and grep_error_log_out need each other\n"
        if !exists $block->{grep_error_log}
        != !exists $block->{grep_error_log_out};

    return;
}


# Log patterns: text has one a line, a list may also hold regular expressions.

sub patterns {
    my ($value) = @_;

    return if !defined $value;
    return grep { defined } @$value if ref $value eq 'ARRAY';
    return $value if ref $value;

    return split /\n+/, $value;
}


# "Name: value" lines, "!Name" for one that must be absent (undef).  The last
# line of a name counts.  Returns names and values in order of the names.

sub header_list {
    my ($text, $label) = @_;

    my %value;

    for my $line (grep { /\S/ } split /\n/, $text // '') {
        if ($line =~ /^\s*!\s*(\S+)\s*$/) {
            $value{$1} = undef;

        } elsif ($line =~ /^\s*([^\s:]+)\s*:\s*(.*?)\s*$/) {
            $value{$1} = $2;

        } else {
            die "$label: not a header line: $line\n";
        }
    }

    return map { [ $_, $value{$_} ] } sort keys %value;
}


# "300ms", "2s" or plain seconds; undef of undef.

sub seconds {
    my ($text) = @_;

    return $text if !defined $text;
    return $1 / 1000 if $text =~ /^([\d.]+)ms$/;
    return $1 if $text =~ /^([\d.]+)s?$/;

    die "not a time: $text\n";
}


# The value for answer number $i.  With several answers it must be a list.

sub indexed {
    my ($value, $i, $several, $label) = @_;

    return ref $value eq 'ARRAY' ? $value->[$i] : $value
        if !$several || ref $value eq 'ARRAY';

    die "$label: several answers need lists of expected values\n";
}


# skip_nginx, skip_eval, todo.  Returns the kind (skip or todo), the number
# of checks and the reason, or nothing when the block is to run.

sub skip_rule {
    my ($block, $version) = @_;

    my ($spec, $name) = (scalar $block->skip_nginx, $block->name);

    if (defined $spec) {
        my ($count, $op, $limit, $why) = $spec =~ m{
            ^ \s* (\d+) \s* : \s* ([<>]=?) \s* (\d+\.\d+\.\d+)
            (?: \s* : \s* (.*?) )? \s* $
        }xs or die "$name: cannot read skip_nginx: $spec\n";

        return ('skip', $count, $why || "nginx $op $limit")
            if _compare($version, $op, $limit);
    }

    if (defined($spec = $block->skip_eval)) {
        my ($count, $code) = $spec =~ /^\s*(\d+)\s*:\s*(.*)/s
            or die "$name: cannot read skip_eval: $spec\n";
        my $skip = eval $code;
        die "$name: skip_eval: $@" if $@;

        return ('skip', $count, 'skip_eval') if $skip;
    }

    if (defined($spec = $block->todo)) {
        my ($count, $why) = $spec =~ /^\s*(\d+)\s*:\s*(.*?)\s*$/s
            or die "$name: cannot read todo: $spec\n";

        return ('todo', $count, $why);
    }

    return;
}


sub _compare {
    my ($version, $op, $limit) = @_;

    my ($left, $right) = map {
        sprintf '%05d%05d%05d', split /\./
    } $version, $limit;

    return $op eq '<'  ? $left lt $right
         : $op eq '<=' ? $left le $right
         : $op eq '>'  ? $left gt $right
         :               $left ge $right;
}

1;
