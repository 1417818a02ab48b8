# `make demo` as it is, on free ports and ended afterwards: selector, three
# simulated engines, a trace; it fails when the selector's prediction of cached
# tokens and what the engines really had ever differ.

use strict;
use warnings;

use File::Basename qw(dirname);
use File::Copy qw(copy);
use File::Temp qw(tempdir);
use Test::More tests => 6;

my $build = tempdir(CLEANUP => 1);
my ($module) = split ' ', $ENV{TEST_NGINX_LOAD_MODULES} // '';

chmod 0755, $build;
copy($module, "$build/ngx_http_select_module.so")
    or BAIL_OUT("TEST_NGINX_LOAD_MODULES names no module: $!");

my $nginx = $ENV{TEST_NGINX_BINARY} // '/usr/sbin/nginx';
my $output = qx(/usr/bin/python3 conf/demo/demo.py --build $build --port 0 \\
                --nginx $nginx --once 2>&1);

is $?, 0, 'the demonstration succeeds' or diag $output;

my @rows = $output =~ /^\s+\d+\s+[a-z]+\s+\d+\s+\d+\s+(\d+\s+\d+) /mg;

is @rows, 30, 'thirty turns';
is grep({ my ($predicted, $real) = split; $predicted != $real } @rows), 0,
    'each predicted what the engine had';
cmp_ok scalar(grep { !/^0\s/ } @rows), '>', 20, 'most had something cached';
like $output, qr/predicted = real\s+30 of 30 turns/, 'and says so';
is grep({ open my $in, '<', $_; index(<$in> // '', $build) >= 0 }
    glob '/proc/[0-9]*/cmdline'), 0, 'nothing of it goes on';
