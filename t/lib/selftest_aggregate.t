# The aggregate counts what happened and never calls a run good in which
# something failed, died or did not run: CI looks at its last line and exit
# code alone.

use strict;
use warnings;

use File::Basename qw(dirname);
use File::Spec;
use File::Temp qw(tempdir);
use Test::More;

my $here;
BEGIN { $here = File::Spec->rel2abs(dirname(__FILE__)) }
use lib $here;

use SelConf qw(write_file);

my $dir = tempdir(CLEANUP => 1);

my %FILE = (
    'good.t' => <<'END',
use Test::More tests => 3;
ok 1;
SKIP: { skip 'why', 1 }
TODO: { local $TODO = 'later'; ok 0 }
END
    'bad.t'  => 'use Test::More; ok 1; is 1, 2, "a name"; done_testing;',
    'die.t'  => 'use Test::More tests => 3; ok 1; die "last words\n";',
    'few.t'  => 'use Test::More tests => 3; ok 1;',
    'code.t' => 'use Test::More tests => 1; ok 1; END { $? = 3 }',
    'skip.t' => 'use Test::More skip_all => "a reason";',
    'none.t' => 'print "nothing\n";',
    'hang.t' => 'use Test::More tests => 1; $| = 1; ok 1; sleep 60;',
    'left.t' => <<'END',
use Test::More tests => 1;
if (!fork) { close STDOUT; close STDERR; exec 'sleep', 61 }
ok 1;
END
    'hold.t' => <<'END',
use Test::More tests => 1;
if (!fork) { exec 'sleep', 62 }
ok 1;
END
    'lib.t'  => 'use Test::More tests => 1; use OnlyHere; ok 1;',
    'lib/OnlyHere.pm' => 'package OnlyHere; 1;',
    'unit'   => "#!/bin/sh\necho 1..2\necho ok 1\n"
        . "test \"\$CMOCKA_MESSAGE_OUTPUT\" = tap && echo ok 2\n",
    'empty/none' => '',
    'reports/asan.7' => "heap-use-after-free\n",
);

write_file("$dir/$_", $FILE{$_}) for keys %FILE;
chmod 0755, "$dir/unit";

delete @ENV{grep { /^SEL_|^TEST_VERBOSE|^HARNESS/ } keys %ENV};


# Runs the aggregate in the directory of the files.  Checks the counts and
# the words.

sub aggregate {
    my ($name, $args, $passed, $failed, @says) = @_;

    my $text = `cd $dir && $^X $here/aggregate.pl $args 2>&1`;
    my $code = $? >> 8;

    like($text, qr/^$passed passed, $failed failed\n\z/m, "$name: counts")
        or diag($text);
    is($code, $failed || !$passed ? 1 : 0, "$name: exit code");
    like($text, $_, "$name: says so") for @says;

    return;
}


aggregate('good', '--group g good.t', 3, 0, qr/^1 skipped$/m);
aggregate('bad', '--group g bad.t good.t', 4, 1,
    qr/FAILED g: bad\.t: not ok 2 - a name/, qr/got: '1'/);
aggregate('dying', '--group g die.t', 1, 1, qr/last words/, qr/was 255/);
aggregate('short', '--group g few.t', 1, 1, qr/planned 3 tests but ran 1/);
aggregate('exit code', '--group g code.t', 1, 1, qr/exit code was 3/);
aggregate('skipped', '--group g skip.t', 0, 1, qr/skipped: a reason/);
aggregate('silent', '--group g none.t', 0, 1, qr/ran no check/);
aggregate('empty', '--group g', 0, 1, qr/group has no files/);
aggregate('empty and good', '--group g good.t --group h', 3, 1);
aggregate('absent', '--group g absent.t', 0, 1);
aggregate('executables', '--group g unit', 2, 0);
aggregate('libraries', "--lib lib --group g lib.t", 1, 0);
aggregate('commands', q{--commands c true 'echo words; false'}, 1, 1,
    qr/not ok 1 - echo words; false\n +words/);
aggregate('leftovers', '--group g left.t', 1, 1, qr/left behind:\n.*sleep 61/);

$ENV{SEL_TEST_TIME} = 1;
aggregate('hanging', '--group g hang.t', 1, 1, qr/signal 14 after 1 s/);
aggregate('output held open', '--group g hold.t', 1, 1, qr/sleep 62/);

$ENV{SEL_ASAN_LOG} = "$dir/empty";
aggregate('no report', '--group g good.t', 3, 0);
$ENV{SEL_ASAN_LOG} = "$dir/reports";
aggregate('a report', '--group g good.t', 3, 1, qr/heap-use-after-free/);

done_testing;
