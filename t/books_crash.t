# Worker processes die at any moment of a booking storm, and the zone gets
# full.  Without this suite a process that is killed could leave half a booking
# behind, load that nobody can free, or a lock that stops all others; and a
# full zone could lose bookings that were promised.
#
# SEL_PROCESS_KILLS is the number of processes to be killed.

use strict;
use warnings;

use Test::More;
use Time::HiRes qw(time sleep);

use SelBooks;
use SelCrowd;

use constant {
    KILLS   => $ENV{SEL_PROCESS_KILLS}
        || ($ENV{TEST_NGINX_WRAP} ? 5 : 200),
    RELOADS => $ENV{TEST_NGINX_WRAP} ? 5 : 20,
    CLIENTS => 3,
    WORKERS => 3,
    RANKS   => 2,
};

my $seed = $ENV{SEL_SEED} || int rand 2**31;
note "SEL_SEED=$seed";
srand $seed;


# A client of the storm.  What it knows of its bookings is a list of
#
#     id, rank (w/r), state, hashes, tokens, weight of a prompt block,
#     outputs, the sum of their weights
#
# where the state is 1 (it is there), 0 (it is gone) or '?' (an answer was
# lost: it may be there, and its tokens or outputs may have changed).  Those
# with outputs have hashes of their own, others share their first ones.

sub client {
    my ($who, $ng, $go_on) = @_;

    srand $seed + $who;
    my $http = $ng->connection(timeout => 10);
    my (@live, @unsure, %count);

    while ($go_on->()) {
        my $i = int rand @live;

        if (!@live || @live < 40 && rand() < 0.4) {
            push @live, create($http, "$who-" . ++$count{created}, $who);
            $i = $#live;

        } else {
            change($http, $live[$i], \%count);
        }

        next if $live[$i]{state} eq '1';

        my ($booking) = splice @live, $i, 1;
        push @unsure, $booking if $booking->{state};
    }

    $count{lost} = @unsure;

    return { bookings => [ @live, @unsure ], count => \%count };
}


# A client that changes a worker with large settings: this takes milliseconds
# under the lock, so that processes are killed there.

sub heavy {
    my ($ng, $go_on) = @_;

    my $http  = $ng->connection(timeout => 10);
    my $taint = 'x' x 1000;
    my @texts = map { my $turn = $_; '{"taints":['
        . join(',', map { "\"$turn $_ $taint\"" } 1 .. 1000) . ']}' } 0, 1;
    my $n     = 0;

    while ($go_on->()) {
        my $answer = $http->patch('/workers/99', $texts[ $n++ % 2 ],
            headers => ['Content-Type: application/json']);
        die "an answer of " . $answer->status . "\n"
            if $answer->status !~ /^(?:0|200)$/;
    }

    return { bookings => [], count => { heavy => $n } };
}


sub create {
    my ($http, $id, $who) = @_;

    my $own  = rand() < 0.5;
    my $rank = join '/', 1 + int rand WORKERS, int rand RANKS;
    my ($worker, $number) = split m{/}, $rank;
    my ($serial) = $id =~ /(\d+)$/;
    my $length = int rand 12;
    my $first  = 1_000_000_000 * $who + 100 * $serial;
    my @hashes = map { $own ? $first + $_ : 7 * $_ } 1 .. $length;
    $hashes[-1] += int rand 3 if !$own && @hashes;

    my %booking = (id => $id, rank => $rank, hashes => \@hashes,
        own => $own ? 1 : 0, tokens => 4 * @hashes + 1, weight => 1,
        outputs => 0, output_sum => 0);
    my %body = (selection_id => $id, sequence_hashes => \@hashes,
        isl_tokens => $booking{tokens});
    my $pin = { worker_id => 0 + $worker, dp_rank => 0 + $number };
    my $way = int rand 3;
    my $answer;

    if ($way == 0) {
        $answer = $http->post('/select_and_reserve', { %body,
            block_hashes => \@hashes, pinned_worker => $pin });

    } elsif ($way == 1) {
        $answer = $http->post('/reservations', { %body, %$pin,
            effective_prefill_tokens => $booking{tokens} });

    } else {
        my $kept = lives($http->post('/select', { %body,
            block_hashes => \@hashes, pinned_worker => $pin,
            isl_tokens => $booking{tokens} }), qr/^200$/) eq '1';
        $answer = $http->post('/reservations', { selection_id => $id });

        # A replay whose selection was lost may find none.
        return { state => 0 } if !$kept && $answer->status == 404;
    }

    $booking{state} = lives($answer, qr/^20[01]$/);

    return \%booking;
}


# True, or '?' when there was no answer.  Dies for an answer that may not be.

sub lives {
    my ($answer, $status) = @_;

    if ($answer->status == 0) {
        die "a request hung\n" if $answer->fault =~ /timed out/;
        return '?';
    }

    die 'an answer of ' . $answer->status . ' ' . $answer->body . "\n"
        if $answer->status !~ $status || !eval { $answer->json };

    return 1;
}


sub change {
    my ($http, $booking, $count) = @_;

    my $path = "/reservations/$booking->{id}";
    my $what = rand;

    if ($what < 0.35 && $booking->{own}) {
        my $fraction = (undef, 0, 0.25, 0.5, 1)[ rand 5 ];
        $booking->{state} = lives($http->post("$path/output_block",
            defined $fraction ? { decay_fraction => $fraction } : {}),
            qr/^200$/);
        output($booking, $fraction) if $booking->{state} eq '1';

    } elsif ($what < 0.55) {
        $booking->{state} = lives($http->post("$path/prefill_complete"),
            qr/^200$/);
        $booking->{tokens} = 0;

    } else {
        $booking->{state} = lives($http->delete($path), qr/^200$/)
            eq '?' ? '?' : 0;
        $count->{freed}++;
    }

    return;
}


# Weights are sums of binary fractions, so they are exact.

sub output {
    my ($booking, $fraction) = @_;

    $booking->{outputs}++;
    $booking->{output_sum}++;

    if (defined $fraction) {
        $booking->{weight}     = $fraction;
        $booking->{output_sum} = $fraction * $booking->{outputs};
    }

    return;
}


# What is uncertain is made certain: prefill that is over is over, and what
# decays to nothing is nothing.  Returns the booking if it is there.

sub settled {
    my ($ng, $booking) = @_;

    return $booking if $booking->{state} eq '1';

    my $path = "POST /reservations/$booking->{id}";

    return if $ng->ask("$path/prefill_complete")->status == 404;

    $booking->{tokens} = 0;

    if ($booking->{own}) {
        $ng->ask("$path/output_block", '{"decay_fraction":0}');
        @$booking{qw(weight output_sum)} = (0, 0);
    }

    return $booking;
}


# The loads that follow from bookings.

sub loads_of {
    my (@bookings) = @_;

    my (%tokens, %requests, %blocks);

    for my $booking (@bookings) {
        my $rank = $booking->{rank};
        my $path = '';

        $tokens{$rank} += $booking->{tokens};
        $requests{$rank}++;
        $blocks{$rank}{"$booking->{id} output"} = $booking->{output_sum};
        for my $hash (@{ $booking->{hashes} }) {
            $path .= " $hash";
            $blocks{$rank}{$path} = $booking->{weight};
        }
    }

    my @rows;

    for my $worker (1 .. WORKERS) {
        for my $rank (map { "$worker/$_" } 0 .. RANKS - 1) {
            my $sum = 0;
            $sum += $_ for values %{ $blocks{$rank} // {} };
            push @rows, join ' ', $rank, $tokens{$rank} // 0,
                int($sum + 0.5), $requests{$rank} // 0;
        }
    }

    return join ', ', @rows;
}


subtest KILLS . ' processes die in a storm' => sub {
    my $ng = SelBooks->new(name => 'storm', limit => 10,
        zone => 'selector 64m')->run;
    $ng->register($_, data_parallel_size => RANKS) for 1 .. WORKERS;
    $ng->register(99, model_name => 'heavy');

    my $crowd = SelCrowd->start((map { my $who = $_;
        sub { client($who, $ng, @_) } } 1 .. CLIENTS),
        sub { heavy($ng, @_) });

    for my $n (1 .. KILLS) {
        sleep 0.002 + rand 0.03;

        if ($n % 10 == 0) {
            # The next death comes in the midst of a reload.
            my %old = map { ($_ => 1) } $ng->workers;
            $ng->signal('HUP');
            sleep rand 0.02;
            my @pids = $ng->workers;
            my $pid  = $pids[ rand @pids ];
            $ng->expect_log(qr/\[alert\] .* $pid exited on signal 9/);
            $ng->signal('KILL', $pid);
            $ng->until(sub {
                my @now = $ng->workers;
                return @now == $ng->{workers} && !grep { $old{$_} } @now;
            }, 'new processes are there');

        } else {
            $ng->kill_worker(int rand 2);
        }
    }

    my @results  = $crowd->stop;
    my @bookings = map { @{ $_->{bookings} } } @results;
    my %count;
    for my $result (@results) {
        $count{$_} += $result->{count}{$_} // 0
            for keys %{ $result->{count} };
    }
    note join ', ', map { "$_: $count{$_}" } sort keys %count;
    cmp_ok $count{freed}, '>', $ENV{TEST_NGINX_WRAP} ? 0 : KILLS,
        'bookings came and went';

    $ng->meet;
    $ng->remove(99);
    my @live = map { settled($ng, $_) } @bookings;
    note scalar(@live) . ' of ' . scalar(@bookings) . ' are there, '
        . $ng->metric('select_rebuilds_total') . ' rebuilds, '
        . $ng->metric('select_process_deaths_total') . ' deaths';
    $ng->loads_are(loads_of(@live), 'the loads are those of the bookings');
    is $ng->metric('select_reservations'), @live, 'there are no others';

    my @wrong = grep {
        $ng->ask("DELETE /reservations/$_->{id}")->status != 200
    } @live;
    is join(' ', map { $_->{id} } @wrong), '', 'each can be freed';
    $ng->loads_are(loads_of(), 'down to nothing');
    is $ng->metric('select_reservations')
        . $ng->metric('select_reservation_edges'), '00',
        'of their blocks, too';

    # Nothing but this keeps room in the zone.
    $ng->book("x$_", 1 + $_ % WORKERS, hashed(9)) for 1 .. 30;
    $ng->release(map { "x$_" } 1 .. 30);
    $ng->loads_are(loads_of(), 'and all goes on');
    $ng->finish;
};


# A zone of 1 MiB.

sub fill {
    my ($ng, $tag) = @_;

    my $count = 0;
    my $answer;

    while ($count < 100_000) {
        my $first = 1000 * ($count + 1);
        $answer = $ng->ask('POST /reservations', {
            selection_id => "$tag$count", worker_id => 1,
            sequence_hashes => [ $first .. $first + 63 ],
            isl_tokens => 256, effective_prefill_tokens => 1 });
        last if $answer->status != 201;
        $count++;
    }

    return ($count, $answer);
}


subtest 'a full zone' => sub {
    my $ng = SelBooks->new(name => 'full', zone => 'selector 1m')->run;
    $ng->register(1);

    my $select = sub {
        my ($id) = @_;
        $ng->gives('POST /select', { selection_id => $id, hashed(100) }, 200,
            undef, "selected $id");
    };
    $select->("p$_") for 1 .. 20;
    $ng->gives('POST /reservations', { selection_id => 'p1' }, 201, undef,
        'while there is room selections are kept');
    $ng->release('p1');

    my $refused = $ng->metric('select_zone_full_total');
    my $mark    = $ng->log_mark;
    my ($count, $answer) = fill($ng, 'a');
    my $loads = '1/0 ' . join ' ', $count, 64 * $count, $count;

    note "$count bookings of 64 blocks";
    cmp_ok $count, '>', 200, 'bookings fit, and then one does not';
    is $answer->status, 503, 'which is refused';
    is $answer->header('Content-Type'), 'application/json', 'in JSON';
    like eval { $answer->json->{error} } // $answer->body,
        qr/zone.* full|full.* zone/, 'the error names the zone';

    # One that is smaller than a booking may be left: it would not help.
    my @left = grep { $ng->ask('POST /reservations',
        { selection_id => "p$_" })->status != 404 } 2 .. 20;
    like "@left", qr/\A(?:20)?\z/, 'selections had to go before that';
    $ng->loads_are($loads, 'nothing of it is booked');

    my $tries = 30;
    for my $n (1 .. $tries) {
        my $status = $ng->ask($n % 2 ? 'POST /reservations'
            : 'POST /select_and_reserve', { selection_id => "no$n",
            $n % 2 ? (worker_id => 1) : (),
            hashed([ map { -$_ } 64 * $n .. 64 * $n + 63 ]) })->status;
        fail("an answer of $status") if $status != 503;
        $ng->gives("DELETE /reservations/no$n", undef, 404, undef,
            'the id is free') if $n < 4;
    }
    $ng->loads_are($loads, 'nothing of them is booked');
    is $ng->metric('select_zone_full_total'), $refused + 1 + @left + $tries,
        'each refusal is counted';

    my @lines = $ng->log($mark) =~ /^(.*\bfull\b.*)$/mg;
    ok @lines >= 1 && @lines <= 2, 'and told once by a process'
        or diag "@lines";

    # What is there can go on and end.
    $ng->gives('POST /select', { selection_id => 'late', hashed(100) }, 200,
        undef, 'a selection is answered');
    $ng->ok_status('POST /reservations/a0/prefill_complete');
    my $blocks = 64 * $count;
    for my $body ('{}', '{"decay_fraction":1}') {
        my $status = $ng->ask('POST /reservations/a1/output_block',
            $body)->status;
        ok $status == 200 || $status == 503,
            "an output block is answered with $status";
        $blocks++ if $status == 200;
    }
    $ng->loads_are('1/0 ' . join(' ', $count - 1, $blocks, $count),
        'bookings make progress');

    $ng->release(map { "a$_" } 0 .. 9);
    my ($more) = fill($ng, 'b');
    cmp_ok $more, '>=', 9, 'what is freed can be booked again';
    $ng->release((map { "a$_" } 10 .. $count - 1),
        map { "b$_" } 0 .. $more - 1);
    $ng->loads_are('1/0 0 0 0', 'all can be freed');

    my ($again) = fill($ng, 'c');
    cmp_ok $again, '>=', $count, 'and as many fit as before';

    # A worker that goes gives its room back.
    $ng->remove(1);
    $ng->register(1);
    $ng->loads_are('1/0 0 0 0', 'all gone with their worker');
    ($again) = fill($ng, 'd');
    cmp_ok $again, '>=', $count, 'and as many fit as before';
    $ng->finish;
};


subtest 'I2, I3: what a reload keeps' => sub {
    my $ng = SelBooks->new(name => 'reload', zone => 'selector 4m')->run;
    $ng->register(1, data_parallel_size => 2);

    $ng->book('b', 1, hashed(3), effective_prefill_tokens => 5);
    $ng->ok_status('POST /reservations/b/output_block',
        '{"decay_fraction":0.5}');
    $ng->gives('POST /select', { selection_id => 's', hashed(2),
        pinned_worker => { worker_id => 1, dp_rank => 1 } }, 200, undef,
        'selected');

    for my $workers (2, 4, 3, 2) {
        $ng->reload(workers => $workers, gone => 1);
        $ng->meet;
        $ng->loads_are('1/0 5 2 1, 1/1 0 0 0',
            "the books, with $workers processes");
    }

    $ng->gives('POST /reservations', { selection_id => 's' }, 201, undef,
        'and the selection');
    $ng->loads_are('1/0 5 2 1, 1/1 8 2 1', 'which is booked');
    $ng->ok_status('DELETE /reservations/b');
    $ng->loads_are('1/0 0 0 0, 1/1 8 2 1', 'and what was booked can end');

    # Another size.
    my $mark = $ng->log_mark;
    $ng->reload(zone => 'selector 8m', gone => 1);
    $ng->meet;
    $ng->log_like(qr/zone "selector".*(?:size|new|empty)/,
        'I3: another size is told', $mark);
    $ng->gives('GET /loads', undef, 200, '[]', 'I3: and a new zone');
    $ng->gives('DELETE /reservations/s', undef, 404,
        'reservation s not found', 'without the bookings of the old one');
    $ng->register(1);
    $ng->book('b', 1, hashed(3));
    $ng->loads_are('1/0 0 3 1', 'which can be used');

    # I12: a restart begins anew.
    $ng->stop;
    $ng->run;
    $ng->gives('GET /loads', undef, 200, '[]', 'I12: so does a restart');
    $ng->finish;
};


# Answers get lost where an old process closes its socket, so a client asks
# again, and frees by the id.

subtest 'I2: bookings while reloading' => sub {
    my $ng = SelBooks->new(name => 'reloads')->run;
    $ng->register($_) for 1 .. 2;
    $ng->book('stays', 2, hashed(3), effective_prefill_tokens => 5);

    my $crowd = SelCrowd->start(map { my $who = $_; sub {
        my ($go_on) = @_;
        my %seen;

        for (my $n = 1; $go_on->(); $n++) {
            my $made = $ng->post('/select_and_reserve', {
                selection_id => "$who-$n", token_ids => [ $n .. $n + 15 ],
                allowed_worker_ids => [1] })->status;
            my $freed = 0;
            $freed = $ng->delete("/reservations/$who-$n")->status
                while $freed == 0;
            $seen{"$made $freed"}++;
        }

        return \%seen;
    } } 1 .. 2);

    $ng->reload for 1 .. RELOADS;

    for my $seen ($crowd->stop) {
        note join ', ', map { "$_: $seen->{$_}" } sort keys %$seen;
        cmp_ok $seen->{'200 200'} // 0, '>=', RELOADS,
            'bookings go on while processes come and go';

        # Lost answers to a booking that was made or not, or to a free.
        is join(', ', grep { !/^(?:200 200|200 404|0 200|0 404)$/ }
            sort keys %$seen), '', 'and each is an answer to be expected';
    }

    $ng->meet;
    $ng->loads_are('1/0 0 0 0, 2/0 5 3 1', 'the books are those of before');
    is $ng->metric('select_reservations'), 1, 'with one reservation';
    $ng->ok_status('DELETE /reservations/stays');
    is $ng->metric('select_reservation_edges'), 0, 'and nothing behind it';
    $ng->finish;
};


# F12: processes die without a pause; whoever is left answers at once.

subtest 'F12: no death holds the others up' => sub {
    my $ng = SelBooks->new(name => 'deaths', workers => 3)->run;
    $ng->register($_) for 1 .. 2;

    my $crowd = SelCrowd->start(map { my $who = $_; sub {
        my ($go_on) = @_;
        my ($slowest, $n, $lost) = (0, 0, 0);

        while ($go_on->()) {
            my $id    = "$who-" . ++$n;
            my $start = time;
            for my $call ([ post => '/select_and_reserve', {
                selection_id => $id, token_ids => [ $n .. $n + 15 ] } ],
                [ delete => "/reservations/$id" ])
            {
                my ($method, @arguments) = @$call;
                my $answer = $ng->$method(@arguments);
                $lost++ if $answer->status == 0;
                die $answer->body if $answer->status >= 500;
            }
            $slowest = time - $start if time - $start > $slowest;
            $ng->delete("/reservations/$id");
        }

        return { slowest => $slowest, calls => $n, lost => $lost };
    } } 1 .. 2);

    for (1 .. (KILLS > 40 ? 40 : KILLS / 2)) {
        $ng->kill_worker(int rand 3);
        sleep rand 0.05;
    }

    my @results = $crowd->stop;
    for my $result (@results) {
        note "$result->{calls} bookings, $result->{lost} answers lost, the "
            . sprintf 'slowest took %.0f ms', 1000 * $result->{slowest};
        cmp_ok $result->{slowest}, '<', at_most(2), 'no call hangs';
    }

    # What was lost on the way.
    $ng->meet;
    for my $who (1 .. 2) {
        $ng->ask("DELETE /reservations/$who-$_")
            for 1 .. $results[ $who - 1 ]{calls};
    }
    $ng->loads_are('1/0 0 0 0, 2/0 0 0 0', 'all can be freed');
    $ng->finish;
};

all_done;
