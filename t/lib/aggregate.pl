#!/usr/bin/perl

# Runs groups of tests one after the other and sums them up.
#
#     aggregate.pl [--lib DIR]... --group NAME FILE... [--group ...]
#                  [--commands NAME COMMAND...]
#
# A FILE ending in .t is run by perl with the --lib directories, any other one
# is executed; all of them speak TAP.  A COMMAND is run by the shell and is
# one check: that its exit code is 0.
#
# Every check counts.  One more failure is counted for a file that dies, is
# killed, breaks its plan, runs no check (skipped as a whole, too) or leaves a
# process behind, for a group without files, and for each sanitizer report in
# the directory SEL_ASAN_LOG.  The last line is "N passed, N failed"; the exit
# code is 0 only if some checks passed and none failed.
#
# Environment: TEST_VERBOSE=1 shows all TAP; SEL_TEST_TIME is the time limit
# of a file in seconds (300).
#
# Two processes: the outer one is the reaper of whatever tests orphan, so that
# a dead nginx vanishes at once where the machine's init is slow, and so that
# what is left can be found; the inner one runs the harness.

use strict;
use warnings;

use File::Basename qw(dirname);
use JSON::PP ();
use POSIX ();
use TAP::Harness;

use lib dirname(__FILE__);

use SelProc qw(become_subreaper children is_alive poll_for title);

use constant {
    WORDS_SHOWN => 30,
    LEAVE_TIME  => 2,
    GRACE_TIME  => 2,
};

my $limit = $ENV{SEL_TEST_TIME} // 300;


sub main {
    my (@args) = @_;

    return as_tap($args[1]) if @args && $args[0] eq '--as-tap';

    my ($libs, @groups) = parse_arguments(@args);
    my $sum = run_apart(sub { run_groups($libs, @groups) });

    add_reports($sum);
    print_failures($sum);

    printf "%d passed, %d failed\n", @$sum{qw(passed failed)};

    return $sum->{failed} || !$sum->{passed} ? 1 : 0;
}


sub parse_arguments {
    my (@args) = @_;

    my (@libs, @groups);

    while (@args) {
        my $arg = shift @args;

        if ($arg eq '--lib') {
            push @libs, shift @args;

        } elsif ($arg =~ /^--(group|commands)$/) {
            push @groups, { kind => $1, name => shift @args, files => [] };

        } elsif ($arg =~ /^--/ || !@groups) {
            die "$0: unexpected argument $arg\n";

        } else {
            push @{ $groups[-1]{files} }, $arg;
        }
    }

    die "$0: no group\n" if !@groups;

    return (\@libs, @groups);
}


# Runs code in a process of its own and reaps everything until it has ended.
# Returns the sum that the code returned.

sub run_apart {
    my ($code) = @_;

    become_subreaper();
    open my $result, '+>', undef or die "temporary file: $!";

    my $inner = fork // die "fork: $!";

    if ($inner == 0) {
        print $result JSON::PP->new->encode($code->());
        close $result;
        exit 0;
    }

    local @SIG{qw(INT TERM)} = (sub { kill TERM => $inner }) x 2;

    while ((my $pid = waitpid -1, 0) != $inner) {
        last if $pid == -1 && !$!{EINTR};
    }

    local $/;
    seek $result, 0, 0;
    my $sum = eval { JSON::PP->new->decode(<$result>) } // {
        passed   => 0,
        failed   => 1,
        failures => [ { title => 'the run', words => ['was broken off'] } ],
    };

    end_orphans($$);

    return $sum;
}


# Ends the children of a process, but for those given; returns their titles.
# They have a moment to leave by themselves.

sub end_orphans {
    my ($parent, @keep) = @_;

    my %keep = map { ($_ => 1) } @keep;
    my @left;

    poll_for(sub {
        @left = grep { !$keep{$_} } children($parent);
        return !@left;
    }, LEAVE_TIME);

    my @titles = map { "$_ " . title($_) } @left;

    kill KILL => @left;
    poll_for(sub { !grep { is_alive($_) } @left }, LEAVE_TIME);

    return @titles;
}


sub run_groups {
    my ($libs, @groups) = @_;

    my $sum = { passed => 0, failed => 0, skipped => 0, failures => [] };
    my (%kind, @tests);

    for my $group (@groups) {
        add_failure($sum, $group->{name}, 'the group has no files')
            if !@{ $group->{files} };

        for my $file (@{ $group->{files} }) {
            $kind{$file} = $group->{kind};
            push @tests, [ $file, "$group->{name}: $file" ];
        }
    }

    return $sum if !@tests;

    $ENV{CMOCKA_MESSAGE_OUTPUT} = 'tap';
    make_harness($sum, sub { command($libs, $kind{ $_[1] }, $_[1]) })
        ->runtests(@tests);

    return $sum;
}


# The time limit is an alarm, which outlives exec.

sub command {
    my ($libs, $kind, $file) = @_;

    my @command = $kind eq 'commands' ? ($^X, $0, '--as-tap', $file)
        : $file =~ /\.t$/ ? ($^X, (map { "-I$_" } @$libs), $file)
        : $file =~ m{/}   ? $file
        :                   "./$file";

    return [ $^X, '-e', 'alarm shift; exec @ARGV; die "$ARGV[0]: $!\n"',
        $limit, @command ];
}


sub make_harness {
    my ($sum, $exec) = @_;

    my $harness = TAP::Harness->new({
        verbosity => $ENV{TEST_VERBOSE} ? 1 : 0,
        merge     => 1,
        exec      => $exec,
    });

    my $notes;

    # What a file leaves behind may hold its output open: end that as well
    # when the time limit of the file is over.
    $SIG{ALRM} = sub { push @{ $notes->{left} }, end_orphans(getppid, $$) };

    $harness->callback(made_parser => sub {
        my ($parser) = @_;
        $notes = { failed => [], words => [], left => [] };
        $parser->callback(ALL => sub { note_line($notes, $_[0]) });
        alarm $limit + GRACE_TIME;
    });

    $harness->callback(after_test => sub {
        my ($job, $parser) = @_;
        alarm 0;
        push @{ $notes->{left} }, end_orphans(getppid, $$);
        sum_up($sum, $job->[1], $parser, $notes);
    });

    return $harness;
}


# Keeps failed checks with the words that follow them, and the last words of
# the file.

sub note_line {
    my ($notes, $line) = @_;

    if ($line->is_test) {
        $notes->{open} = !$line->is_ok;
        push @{ $notes->{failed} }, { title => $line->as_string, words => [] }
            if $notes->{open};
        return;
    }

    return if $line->is_plan || $line->is_version;

    my $words = $line->as_string =~ s/^# ?//r;

    for my $list ($notes->{words},
        $notes->{open} ? $notes->{failed}[-1]{words} : ())
    {
        push @$list, $words;
        shift @$list if @$list > WORDS_SHOWN;
    }

    return;
}


sub sum_up {
    my ($sum, $name, $parser, $notes) = @_;

    $sum->{passed}  += $parser->passed;
    $sum->{failed}  += $parser->failed;
    $sum->{skipped} += $parser->skipped;

    push @{ $sum->{failures} }, map {
        { title => "$name: $_->{title}", words => $_->{words} }
    } @{ $notes->{failed} };

    my @faults = file_faults($parser);
    my @words  = @{ $notes->{words} };
    my @left   = @{ $notes->{left} };

    add_failure($sum, $name, @faults, @words ? 'its last words:' : (), @words)
        if @faults;
    add_failure($sum, $name, 'it left behind:', @left) if @left;

    return;
}


# What is wrong with a file beside its failed checks.

sub file_faults {
    my ($parser) = @_;

    my @faults = map { "TAP: $_" } $parser->parse_errors;
    my $signal = $parser->wait & 127;

    if ($signal) {
        push @faults, "it was killed by signal $signal"
            . ($signal == POSIX::SIGALRM() ? " after $limit s" : '');

    } elsif ($parser->exit && !$parser->failed) {
        push @faults, 'its exit code was ' . $parser->exit;
    }

    push @faults, defined $parser->skip_all
        ? 'it was skipped: ' . $parser->skip_all : 'it ran no check'
        if !$parser->tests_run;

    return @faults;
}


sub add_failure {
    my ($sum, $title, @words) = @_;

    $sum->{failed}++;
    push @{ $sum->{failures} }, { title => $title, words => \@words };

    return;
}


sub add_reports {
    my ($sum) = @_;

    my $dir = $ENV{SEL_ASAN_LOG} or return;

    for my $file (grep { -s } glob "\Q$dir\E/*") {
        open my $fh, '<', $file or next;
        my @lines = grep { defined } (<$fh>)[ 0 .. WORDS_SHOWN - 1 ];
        chomp @lines;
        add_failure($sum, "sanitizer report $file", @lines);
    }

    return;
}


sub print_failures {
    my ($sum) = @_;

    for my $failure (@{ $sum->{failures} }) {
        print "\nFAILED $failure->{title}\n";
        print "    $_\n" for @{ $failure->{words} };
    }

    print "\n" if @{ $sum->{failures} };
    print "$sum->{skipped} skipped\n" if $sum->{skipped};

    return;
}


# Runs a shell command as a test of one check.

sub as_tap {
    my ($command) = @_;

    open my $fh, '-|', "exec 2>&1; $command" or die "sh: $!";
    my @words = map { "# $_" } <$fh>;
    close $fh;

    print "1..1\n", $? == 0 ? '' : 'not ', "ok 1 - $command\n", @words;

    return 0;
}


$| = 1;
exit main(@ARGV);
