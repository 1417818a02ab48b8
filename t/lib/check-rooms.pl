#!/usr/bin/perl

# Checks the rule of src/README.md: a room includes headers of its own and of
# the rooms that its row allows, and no room up to service knows nginx.
# Without it a circle of rooms would go unnoticed.  Speaks TAP.

use strict;
use warnings;

my %below = (
    core      => [],
    index     => ['core'],
    state     => ['core'],
    schedule  => ['core'],
    kv_events => [qw(core index)],
);

$below{service} = [sort keys %below];
$below{ngx} = [@{ $below{service} }, 'service'];
$below{conf} = [@{ $below{ngx} }, 'ngx'];
$below{http} = [@{ $below{conf} }, 'conf'];
$below{route} = $below{http};

my %library = map { $_ => 1 } @{ $below{service} }, 'service';
my @files = glob 'src/*/*.[ch]';
my $test = 0;

print "not ok 1 - run me from the top of the source tree\n1..1\n" and exit 1
    if !@files;

for my $room (sort keys %below) {
    my @faults = map { faults($room, $_) } grep { m{^src/$room/} } @files;

    printf "%sok %d - room %s\n", @faults ? 'not ' : '', ++$test, $room;
    print "# $_\n" for @faults;
}

my @strange = grep { !exists $below{ (split m{/})[1] } } @files;

printf "%sok %d - every file is in a room\n", @strange ? 'not ' : '', ++$test;
print "# $_\n" for @strange;

my %seen;
my @twice = grep { m{/([^/]+/[^/]+)\.c$} && $seen{$1}++ } @files;

printf "%sok %d - object names are unique\n", @twice ? 'not ' : '', ++$test;
print "1..$test\n";


sub faults {
    my ($room, $file) = @_;

    my %may = map { $_ => 1 } $room, @{ $below{$room} };
    my @faults;

    open my $in, '<', $file or return "$file: $!";

    while (my $line = <$in>) {
        next if $line !~ /^\s*#\s*include\s*[<"]([^>"]+)/;

        my $header = $1;

        push @faults, "$file:$. includes $header"
            if $header =~ m{^([a-z_]+)/(?:sel|ngx)_} && !$may{$1}
            || $library{$room} && $header =~ /^ngx_|\bngx_config\b/
            || $header =~ m{^sel_};
    }

    return @faults;
}
