# Bookings that nobody frees expire by their age, whatever becomes of the
# process that made them.  Without this suite the requests of a client that
# crashed would keep a worker busy for ever, or those of a slow one would lose
# their load while they run.
#
# Expired bookings are looked for once a second here, so a limit of n seconds
# frees between n and n + 1 seconds after the booking, and some of scheduling.

use strict;
use warnings;

use Test::More;
use Time::HiRes qw(time);

use SelBooks;
use SelProc qw(poll_for);

delete @ENV{ grep { /^DYN_/ } keys %ENV };

# How long after its due time a booking may be seen at most.
my $late = at_most(2);


sub start {
    my ($name, $http) = @_;

    my $ng = SelBooks->new(name => $name, http => $http)->run;
    $ng->register($_) for 1, 2;

    return $ng;
}


# Waits until the loads are others than these; returns how many seconds after
# a time they were last the same, and first others.

sub changes {
    my ($ng, $loads, $since, $limit) = @_;

    my ($last, $first) = (0, 0);

    poll_for(sub {
        my $before = time;
        my $same = $ng->loads eq $loads;
        $last  = $before - $since if $same;
        $first = time - $since if !$same;
        return !$same;
    }, $limit);

    return ($last, $first);
}


# Books in each way on worker 1; returns the ids.

sub book_all {
    my ($ng, $tag) = @_;

    $ng->book("$tag-explicit", 1, sequence_hashes => [ 1, 2, 3 ],
        isl_tokens => 12, effective_prefill_tokens => 12);
    $ng->ask('POST /select', { selection_id => "$tag-replay", hashed(2),
        allowed_worker_ids => [1] });
    $ng->ask('POST /reservations', { selection_id => "$tag-replay" });
    $ng->ask('POST /select_and_reserve', { selection_id => "$tag-one",
        hashed(1), allowed_worker_ids => [1] });

    return map { "$tag-$_" } qw(explicit replay one);
}


my $short = start('short', 'select_reservation_expire 1s;');
my $long  = start('long', 'select_reservation_expire 3s;');


subtest 'R13, L6: every booking expires' => sub {
    my @count = (select_bookings_ended_total => (cause => 'expired'));
    my $count = $short->metric(@count);
    my $start = time;
    my @ids   = book_all($short, 'a');
    my $made  = time;
    my $loads = '1/0 24 3 3, 2/0 0 0 0';

    $short->loads_are($loads, 'booked in three ways');
    my ($last, $first) = changes($short, $loads, $start, 1 + 2 * $late);
    cmp_ok $first, '>=', 1, 'not before its time';
    cmp_ok $last, '<', 1 + $late, 'nor long after';
    $short->loads_become('1/0 0 0 0, 2/0 0 0 0', 'R13: no load is left',
        $late);

    is $short->metric(@count), $count + @ids, 'D7: they are counted';

    for my $id (@ids) {
        $short->gives("POST /reservations/$id/prefill_complete", undef, 404,
            "reservation $id not found", "$id: prefill");
        $short->gives("POST /reservations/$id/output_block", '{}', 404,
            "reservation $id not found", "$id: output");
        $short->gives("DELETE /reservations/$id", undef, 404,
            "reservation $id not found", "D7: $id: a late free is harmless");
    }
};


subtest 'the id is free with the booking' => sub {
    $short->book('b', 1, hashed(2));

    # No lifecycle call in between.
    my $again;
    poll_for(sub {
        $again = $short->ask('POST /reservations', { selection_id => 'b',
            worker_id => 2, hashed(3) })->status;
        return $again != 409;
    }, 1 + 2 * $late);

    is $again, 201, 'booked again as soon as it has expired';
    is +($short->loads =~ /2\/0 0 3 (\d+)/)[0], 1, 'with its own load';
    $short->loads_become('1/0 0 0 0, 2/0 0 3 1', 'the one before has gone');
    $short->loads_become('1/0 0 0 0, 2/0 0 0 0', 'and so does this one',
        1 + $late);
};


subtest 'a death or a reload does not stop it' => sub {
    $short->book("k$_", $_, hashed(2)) for 1, 2;
    $short->kill_worker($_) for 1, 0;
    $short->meet;
    $short->loads_become('1/0 0 0 0, 2/0 0 0 0', 'all processes were killed',
        1 + $late);

    $short->book("l$_", $_, hashed(2)) for 1, 2;
    $short->reload(gone => 1);
    $short->meet;
    $short->loads_become('1/0 0 0 0, 2/0 0 0 0', 'a reload', 1 + $late);
};


subtest 'another limit comes with a reload' => sub {
    $short->reload(http => $short->{http} =~ s/expire 1s/expire 300s/r);
    $short->meet;
    $short->book('r', 1, hashed(2));

    my $start = time;
    poll_for(sub { time - $start > 2.5 }, 4);
    $short->loads_are('1/0 0 2 1, 2/0 0 0 0', 'a longer one');
    $short->reload(http => $short->{http} =~ s/expire 300s/expire 1s/r);
    $short->meet;
    $short->loads_become('1/0 0 0 0, 2/0 0 0 0',
        'a shorter one, which is over already', $late);
    $short->finish;
};


# Two at a time: worker 1 has a request that makes progress, worker 2 has one
# that is joined by another.

subtest 'B7: age is all that counts' => sub {
    my $start = time;
    $long->book('p', 1, hashed([ 1, 2, 3 ]), effective_prefill_tokens => 9);
    my ($booked, $calls, $status, $joined) = (time, 0, 200, 0);
    $long->book('r1', 2, hashed([ 1, 2, 3 ]), isl_tokens => 40,
        effective_prefill_tokens => 40);

    poll_for(sub {
        $status = $long->ask('POST /reservations/p/output_block')->status;
        $calls++;
        $long->ask('POST /reservations/p/prefill_complete');

        if (!$joined && time - $start > 1.8) {
            $long->book('r2', 2, hashed([ 1, 2, 9 ]), isl_tokens => 30,
                effective_prefill_tokens => 30);
            $joined = time;
            like $long->loads, qr{2/0 70 4 2}, 'two bookings';
        }

        return $status == 404;
    }, 3 + 2 * $late);
    my $end = time;

    note "$calls output blocks";
    is $status, 404, 'one ends in the midst of its output';
    cmp_ok $end - $start, '>=', 3, 'not before its time';
    cmp_ok $end - $booked, '<', 3 + $late, 'nor later for its progress';

    $long->loads_become('1/0 0 0 0, 2/0 30 3 1',
        'B7: the other one has gone, a younger one stays',
        2.9 - (time - $joined));
    $long->ok_status('POST /reservations/r2/output_block', '{}',
        'that lives');
    $long->loads_become('1/0 0 0 0, 2/0 0 0 0', 'and ends', 1 + $late);
    cmp_ok time - $joined, '>=', 3, 'at its own time';
    $long->finish;
};


# The variable.

sub setting {
    my ($value, $http) = @_;

    local $ENV{DYN_ROUTER_ACTIVE_REQUEST_EXPIRY_SECS} = $value
        if defined $value;
    my $ng = SelBooks->new(name => 'variable ' . ($value // '-'),
        workers => 1, http => $http // '')->run;
    my ($said) = $ng->log
        =~ /settings: .*select_reservation_expire ([^;]*\))/;
    my $warned = $ng->log
        =~ /\[warn\] .*DYN_ROUTER_ACTIVE_REQUEST_EXPIRY_SECS/;
    $ng->finish;

    return ($said // 'not said') . ($warned ? ', warned' : '');
}

subtest 'B6: the limit by a variable' => sub {
    my $name = 'DYN_ROUTER_ACTIVE_REQUEST_EXPIRY_SECS';

    like setting(undef), qr/\A300(?:s|000ms) \(default\)\z/, '300 s';
    like setting('3600'), qr/\A3600(?:s|000ms) \($name\)\z/, 'an hour';
    like setting(''), qr/\A300(?:s|000ms) \(default\)\z/, 'an empty one';
    like setting($_), qr/\A300(?:s|000ms) \(default\), warned\z/, "'$_'"
        for qw(abc 0 -5);
    like setting('3600', 'select_reservation_expire 7s;'),
        qr/\A7(?:s|000ms) \(directive\)\z/, 'a directive wins';
};


subtest 'limits that are none' => sub {
    my $tester = SelBooks->new(name => 'limits');

    for my $wrong (qw(0 0s -1s x 1.5s), '', '1s 2s') {
        my ($code, $said) = $tester->test_conf(
            http => "select_reservation_expire $wrong;");
        ok $code =~ /\b1\b/
            && $said =~ /\[emerg\].*select_reservation_expire/, "'$wrong'"
            or diag "$code: $said";
    }
};

all_done;
