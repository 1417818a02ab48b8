# `make demo` as it is, on free ports and ended afterwards: router, three
# simulated engines, a trace.  It fails when the prediction of cached tokens
# and what the engines really had differ while one user asks at a time, or when
# the books are not empty after all users have asked at once.

use strict;
use warnings;

use File::Copy qw(copy);
use File::Temp qw(tempdir);
use Test::More tests => 8;

my $build = tempdir(CLEANUP => 1);
my ($module) = split ' ', $ENV{TEST_NGINX_LOAD_MODULES} // '';

chmod 0755, $build;
copy($module, "$build/ngx_http_select_module.so")
    or BAIL_OUT("TEST_NGINX_LOAD_MODULES names no module: $!");

my $nginx = $ENV{TEST_NGINX_BINARY} // '/usr/sbin/nginx';
my $output = qx(/usr/bin/python3 conf/demo/demo.py --build $build --port 0 \\
                --nginx $nginx --once 2>&1);

is $?, 0, 'the demonstration succeeds' or diag $output;

my $row = qr/^\s+\d+\s+[a-z]+\s+\d+\s+\d+\s+(\d+\s+\d+) /m;
my ($alone, $together) = map { [ /$row/g ] }
    split /^All users at once.*$/m, $output;

is @{ $alone // [] }, 18, 'eighteen turns, one user at a time';
is grep({ my ($predicted, $real) = split; $predicted != $real } @$alone), 0,
    'each predicted what the engine had';
cmp_ok scalar(grep { !/^0\s/ } @$alone), '>', 10, 'most had something cached';
is @{ $together // [] }, 12, 'twelve more, all users at once';
like $output, qr/predicted = real\s+18 of 18 turns/, 'it says so';
like $output, qr/active requests\s+[2-6] at most, and 0 now/,
    'several were active, and the books are empty';
is grep({ open my $in, '<', $_; index(<$in> // '', $build) >= 0 }
    glob '/proc/[0-9]*/cmdline'), 0, 'nothing of it goes on';
