# The test helpers can fail: every broken suite of t/lib/selftest is reported
# as broken and for its reason, every sound one passes with the number of
# checks that it promises, and none leaves a process behind.  Without this a
# suite might be green because its runner looks at nothing.
#
# With TEST_NGINX_LIB naming the lib directory of the genuine Test::Nginx the
# suites run under that too, and the verdicts and the numbers must agree.

use strict;
use warnings;

use File::Basename qw(basename dirname);
use File::Temp qw(tempdir);
use POSIX qw(WNOHANG);
use TAP::Parser;
use Test::More;

my $here;
BEGIN { $here = dirname(__FILE__) }
use lib $here;

use SelProc qw(become_subreaper children describe poll_for reserve_port
    spawn title);

use constant TIME_LIMIT => 60;

my $genuine = $ENV{TEST_NGINX_LIB};
my $dir = tempdir(CLEANUP => 1);

delete @ENV{ grep { /^TEST_NGINX_|^SEL_|^HARNESS/ && !/BINARY/ } keys %ENV };
become_subreaper();


# Runs a suite with the given library directories.  Returns what TAP::Parser
# made of its output, the output, and the processes that it left.

sub run_suite {
    my ($file, %opt) = @_;

    my $output = "$dir/output";
    open my $empty, '>', $output or die "$output: $!";

    my $pid = spawn(
        command => [ $^X, (map { "-I$_" } @{ $opt{lib} }), $file ],
        output  => $output,
        env     => { TMPDIR => $dir, %{ $opt{env} // {} } },
    );

    my $status;

    poll_for(sub {
        while ((my $ended = waitpid -1, WNOHANG) > 0) {
            $status = $? if $ended == $pid;
        }
        return defined $status;
    }, TIME_LIMIT);

    my @left = map { [ $_, title($_) ] } children($$);
    kill KILL => map { $_->[0] } @left;

    open my $fh, '<', $output or die "$output: $!";
    my $text = do { local $/; <$fh> } . "exit "
        . (defined $status ? $status >> 8 : 'never') . "\n";

    my $parser = TAP::Parser->new({ tap => $text });
    $parser->run;

    return ($parser, $text, map { $_->[1] } @left);
}


sub is_sound {
    my ($parser, $text) = @_;

    return !$parser->has_problems && $parser->tests_run > 0
        && $text =~ /^exit 0$/m;
}


sub header {
    my ($file) = @_;

    open my $fh, '<', $file or die "$file: $!";
    my %header = (says => []);

    while (<$fh>) {
        last if !/^# (expect|says|alone): (.*)$/;
        $1 eq 'says' ? push @{ $header{says} }, $2 : ($header{$1} = $2);
    }

    return %header;
}


sub check_suite {
    my ($file) = @_;

    my $name   = basename($file, '.suite');
    my %header = header($file);
    my $compat = $name =~ /^nginx-/ ? [] : ["$here/compat"];

    my ($parser, $text, @left) = run_suite($file, lib => [ $here, @$compat ]);

    is_deeply(\@left, [], "$name leaves no process");

    if ($header{expect} =~ /^pass (\d+)/) {
        ok(is_sound($parser, $text), "$name passes") or diag($text);
        is($parser->tests_run, $1, "$name makes $1 checks");

    } else {
        ok(!is_sound($parser, $text), "$name fails");
        like($text, qr/$_/, "$name says so") for @{ $header{says} };
    }

    check_genuine($file, $name, $parser, $text)
        if $genuine && @$compat && !$header{alone};

    return;
}


sub check_genuine {
    my ($file, $name, $ours, $text) = @_;

    my ($parser, $output) = run_suite($file, lib => [$genuine], env => {
        TEST_NGINX_BINARY   => $ENV{TEST_NGINX_BINARY} || '/usr/sbin/nginx',
        TEST_NGINX_SERVROOT => "$dir/servroot",
        TEST_NGINX_PORT     => reserve_port(),
    });

    is(is_sound($parser, $output), is_sound($ours, $text),
        "$name: the genuine module agrees") or diag($output);
    is($parser->tests_run, $ours->tests_run, "$name: as many checks")
        if is_sound($ours, $text);

    return;
}


my @suites = glob "$here/selftest/*.suite";

cmp_ok(scalar @suites, '>', 30, 'the suites are there');
check_suite($_) for @suites;

done_testing;
