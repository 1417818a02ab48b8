# Random reservations beside a model of the books that is slow and obvious
# (interop/books_model.py): every answer, every choice and all loads agree, in
# both worker processes.  What no other suite thinks of, this one meets.
#
# SEL_OPS is the number of operations, SEL_SEED repeats a run.

use strict;
use warnings;

use File::Basename qw(dirname);
use Test::More;

use SelBooks;
use SelProc qw(reserve_port);

my $ops = $ENV{SEL_OPS} || ($ENV{TEST_NGINX_WRAP} ? 500 : 10_000);
my $ng  = SelBooks->new->run;

open my $pipe, '-|', '/usr/bin/python3', '-B',
    dirname(__FILE__) . '/interop/books_model.py', '--port', $ng->port,
    '--endpoint', 'tcp://127.0.0.1:' . reserve_port(), '--ops', $ops
    or die "python3: $!";
my @lines = <$pipe>;
my $agree = close $pipe;

note $_ for @lines;
ok $agree, "D15: $ops operations agree with the model"
    or diag join '', @lines[ -3 .. -1 ];

$ng->meet;
my $left = $ng->loads;
ok !grep({ !/ 0 0 0$/ } split /, /, $left), 'no load is left' or diag $left;
is $ng->metric('select_reservations')
    . $ng->metric('select_reservation_edges'), '00',
    'nor a block of a reservation';

all_done;
