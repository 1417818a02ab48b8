# Sessions: what is booked for a session goes to the rank that it is bound to,
# the first booking binds it, and when nobody has used it for a while it is
# free again.  Without this suite a conversation could lose the cache that
# holds it, stay with a rank that is gone or be bound by a request that booked
# nothing, and bindings of sessions that ended long ago could fill the zone.
#
# Each step is answered by another process than the step before.  The rows that
# these tests are named after are those of the life cycle; those of the routes
# have "API" before them.  A4 to A7 and A17 to A19 need a request that waits
# for another one to bind, which choosing and booking in one step never does;
# here many requests do the same at once instead.  A12 is in route_session.t,
# A13 and A20 need other selectors, P9 in full a pause inside a replay.

use strict;
use warnings;

use IO::Select;
use IO::Socket::INET;
use JSON::PP ();
use Test::More;
use Time::HiRes qw(time);

use SelBooks;
use SelCrowd;
use SelProc qw(poll_for);

use constant TABLE => 65_536;

# nginx's clock may be behind ours by so many seconds.
use constant CLOCK => 0.05;

delete @ENV{ grep { /^DYN_/ } keys %ENV };

my $true = JSON::PP::true;
my ($sessions, $burdens) = (0, 0);
my $ng;


# A subtest that fails when its code dies; the others go on.

sub story {
    my ($name, $code) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return subtest $name => sub {
        eval { $code->(); 1 } or fail("dies: $@");
    };
}


# A session that nobody has used.

sub new_session { return 'session-' . ++$sessions }


# Members of a request for a session: an id, the members themselves, or undef.

sub for_session {
    my ($session) = @_;

    return ref $session ? %$session
        : defined $session ? (session_id => $session) : ();
}

sub on { return (allowed_worker_ids => [@_]) }


# An answer in short: the rank, or status and error.

sub outcome {
    my ($answer) = @_;

    my $told = eval { $answer->json };
    $told = {} if ref $told ne 'HASH';

    return "$told->{worker_id}/$told->{dp_rank}"
        if $answer->status =~ /^20[01]$/;
    return join ' ', $answer->status,
        $told->{error} // $answer->fault // $answer->body;
}

sub reserves {
    my ($id, $session, %members) = @_;

    return outcome($ng->ask('POST /select_and_reserve', {
        selection_id => $id, token_ids => new_tokens(4),
        for_session($session), %members }));
}

sub selects {
    my ($id, $session, %members) = @_;

    return outcome($ng->ask('POST /select', { selection_id => $id,
        token_ids => new_tokens(4), for_session($session), %members }));
}

sub replays {
    my ($id, %members) = @_;

    return outcome($ng->ask('POST /reservations',
        { selection_id => $id, %members }));
}


# Where a selection would go, in each process: one rank if they agree.

sub goes {
    my ($session, %members) = @_;

    my %seen = map { (outcome($ng->ask('POST /select', {
        token_ids => new_tokens(4), for_session($session), %members },
        $_)) => 1) } $ng->clients;

    return join ' ', sort keys %seen;
}


sub partition {
    my (%members) = @_;

    return map { ($_ => $members{$_}) } grep { exists $members{$_} }
        qw(model_name routing_group);
}

sub ranks {
    my (%members) = @_;

    return $ng->loads(sprintf '?model_name=%s&routing_group=%s',
        map { $members{$_} // 'default' } qw(model_name routing_group))
        =~ m{(\d+/\d+) }g;
}


# Makes a rank the most loaded one, more so with more; returns the id of the
# reservation that is its load, which is of no session.

sub burden {
    my ($rank, %members) = @_;

    my ($worker, $dp_rank) = split m{/}, $rank;
    my $id = 'burden-' . ++$burdens;
    my $tokens = 1_000_000_000 * ($members{more} // 1);

    $ng->book($id, 0 + $worker, dp_rank => 0 + $dp_rank, partition(%members),
        sequence_hashes => [], isl_tokens => $tokens,
        effective_prefill_tokens => $tokens);

    return $id;
}


# The rank that a session is bound to, or "none", as all processes say.  A
# binding is what makes requests go to the most loaded rank, so each rank is
# that in turn; there have to be two of them.

sub binding {
    my ($session, %members) = @_;

    my @bound;

    for my $rank (ranks(%members)) {
        my $id      = burden($rank, %members, more => 10);
        my $with    = goes($session, %members);
        my $without = goes(undef, %members);
        $ng->release($id);

        return "no answer: $with, $without"
            if grep { !m{^\d+/\d+(?: \d+/\d+)*\z} } $with, $without;
        return "the load of $rank does not count"
            if grep { $_ eq $rank } split / /, $without;
        return "the processes differ: $with"
            if $with ne $rank && grep { $_ eq $rank } split / /, $with;
        push @bound, $rank if $with eq $rank;
    }

    return join(', ', @bound) || 'none';
}


# Books for a session on a rank of a worker with several.

sub reserves_at {
    my ($rank, $id, $session, %members) = @_;

    my ($worker) = split m{/}, $rank;
    my @others = map { burden($_, %members) }
        grep { m{^$worker/} && $_ ne $rank } ranks(%members);
    my $outcome = reserves($id, $session, on(0 + $worker), %members);
    $ng->release(@others);

    return $outcome;
}


# Sends bodies to the processes in turn, all of them before the first answer is
# looked at; each process has to answer.

sub all_at_once {
    my ($path, @bodies) = @_;

    my @clients = $ng->clients;

    $clients[ $_ % @clients ]->send(POST => $path, body => $bodies[$_])
        for 0 .. $#bodies;
    my @answers = map { $clients[ $_ % @clients ]->receive } 0 .. $#bodies;

    my %process = map { ($_->process // 'none' => 1) } @answers;
    fail("$path: not all processes answered") if keys %process != @clients;

    return map { outcome($_) } @answers;
}

sub different {
    my %seen = map { ($_ => 1) } @_;

    return join ', ', sort keys %seen;
}


$ng = SelBooks->new(name => 'sessions', http => 'select_session_affinity 1h;')
    ->run;


story 'a session is bound by its first booking' => sub {
    $ng->afresh(1, 2, [ 3, data_parallel_size => 2 ]);

    my ($s, $t) = map { new_session() } 1 .. 2;

    is binding($s), 'none', 'not before';
    is reserves('a', $s, on(2)), '2/0', 'booked';
    is binding($s), '2/0', 'and bound, whatever the load of its rank';
    is binding($t), 'none', 'it alone';

    my $burden = burden('2/0');
    is reserves("b$_", $s), '2/0', "bookings go there, $_" for 1 .. 3;
    is reserves('c', $s, router_config_override =>
        { router_temperature => 1e9 }), '2/0', 'at any temperature';
    is different(map { goes($s, router_config_override =>
        { router_temperature => 1e9 }) } 1 .. 10), '2/0', 'selections, too';
    is goes($s, advisory => $true), '2/0', 'also advisory ones';
    isnt reserves('d', undef), '2/0', 'without a session they do not';
    isnt reserves('e', $t), '2/0', 'nor with another one';
    $ng->release($burden);

    is reserves_at('3/1', 'f', my $u = new_session()), '3/1', 'a rank';
    is binding($u), '3/1', 'is what a session is bound to, not a worker';
    is reserves_at('3/0', 'g', my $v = new_session()), '3/0', 'another one';
    is binding($v), '3/0', 'of the same worker';
    is binding($u), '3/1', 'they are independent';
    is binding($s), '2/0', 'and so is the first one';

    $ng->release(qw(a b1 b2 b3 c f g));
    is join(' ', map { binding($_) } $s, $u, $v), '2/0 3/1 3/0',
        'bindings outlive the bookings';
};


story 'A9, API A3: selecting does not bind, a replay does' => sub {
    $ng->afresh(1, 2);

    my $s = new_session();

    is selects('p', $s, on(2)), '2/0', 'selected';
    is selects('q', $s, on(1), advisory => $true), '1/0', 'and again';
    is binding($s), 'none', 'A9: that binds nothing';
    is replays('p'), '2/0', 'A9: the replay books';
    is binding($s), '2/0', 'A9: and binds';

    # A replay of a session that is bound there already.
    my $burden = burden('2/0');
    is selects('r', $s), '2/0', 'A9: the next selection goes there';
    is selects('f', $s, advisory => $true), '2/0', 'an advisory one, too';
    $ng->release($burden);
    is replays('r'), '2/0', 'its replay, too';
    is replays('f'), '2/0', 'that of the advisory one, too';
    is binding($s), '2/0', 'it stays bound';
    $ng->release(qw(p r f));
    is binding($s), '2/0', 'and outlives the bookings';

    # The session of the selection is what counts, not one of the replay.
    my ($t, $u) = map { new_session() } 1 .. 2;
    is selects('t', $t, on(2)), '2/0', 'selected for one session';
    is replays('t', session_id => $u, session_context =>
        { session_id => $u }), '2/0', 'replayed with another one';
    is binding($t), '2/0', 'binds that of the selection';
    is binding($u), 'none', 'and not that of the replay';

    is selects('n', undef, on(2)), '2/0', 'selected for no session';
    is replays('n', session_id => $u), '2/0', 'replayed with one';
    is binding($u), 'none', 'binds none';
    is selects('o', undef, on(1)), '1/0', 'once more';
    is replays('o', session_id => 'x' x 257), '1/0',
        'where an id may be of any length';
};


story 'A10, API A4: bound elsewhere since it was selected' => sub {
    $ng->afresh(1, 2, 3);

    my $s = new_session();

    is selects('p', $s, on(1)), '1/0', 'selected on one worker';
    is reserves('b', $s, on(2)), '2/0', 'bound to another one';
    is replays('p'), "400 session $s is bound to worker 2, not 1",
        'A10: the replay is refused';
    $ng->loads_are('1/0 0 0 0, 2/0 4 1 1, 3/0 0 0 0',
        'A10: its booking is undone');
    $ng->gives('DELETE /reservations/p', undef, 404,
        'reservation p not found', 'A10: there is no such reservation');
    like replays('p'), qr/^404 no pending selection p /,
        'P9: the selection is used up';
    is binding($s), 'none', 'and the session is free';

    is reserves('p', $s, on(1)), '1/0', 'the id can be booked';
    is binding($s), '1/0', 'which binds the session anew';
    $ng->release('b');
    is binding($s), '1/0', 'the end of the older booking changes nothing';
    $ng->release('p');
    is binding($s), '1/0', 'nor that of this one';

    # A selection of later.
    is selects('q', $s, on(2)), '2/0', 'selected against the binding';
    is replays('q'), "400 session $s is bound to worker 1, not 2", 'refused';
    is selects('q', $s, on(2)), '2/0', 'selected again';
    is replays('q'), '2/0', 'P9: a later selection books';
    is binding($s), '2/0', 'and binds';

    # Another rank of the same worker.
    $ng->afresh([ 1, data_parallel_size => 2 ], 2);
    $s = new_session();
    my $burden = burden('1/0');
    is selects('r', $s, on(1)), '1/1', 'selected on one rank';
    $ng->release($burden);
    is reserves_at('1/0', 'c', $s), '1/0', 'bound to another one';
    is replays('r'), "400 session $s is bound to DP rank 0, not 1",
        'another rank of its worker';
    $ng->loads_are('1/0 4 1 1, 1/1 0 0 0, 2/0 0 0 0', 'is not booked either');
    is binding($s), 'none', 'and the session is free';

    # Any text is a session.
    $s = qq("\\ \x{e9}\x{1f600}\n");
    is selects('w', $s, on(1)) =~ s{/.*}{}r, '1', 'an id of any text';
    is reserves('d', $s, on(2)), '2/0', 'is bound';
    is replays('w') =~ s/(?<=not )\d+\z/N/r,
        "400 session $s is bound to worker 2, not N", 'and named in errors';

    # Other failures come first, and change nothing.
    $ng->afresh(1, 2, 3);
    $s = new_session();
    is selects($_, $s, on(1)), '1/0', 'selected on one worker' for qw(u v);
    is reserves('u', $s, on(2)), '2/0', 'bound to another one';
    is replays('u'), '409 selection u is already reserved or being reserved',
        'the replay of a taken id';
    $ng->remove(1);
    like replays('v'), qr/^404 schedulable worker 1 \(dp_rank 0\) not found /,
        'and one whose worker has gone';
    is binding($s), '2/0', 'leave the binding alone';
    $ng->register(1);
    is replays('v'), "400 session $s is bound to worker 2, not 1",
        'for another replay';
    $ng->release('u');
    is replays('u'), '1/0', 'which leaves it to a third one';
    is binding($s), '1/0', 'to bind it';

    # The binding has lost its rank meanwhile.
    $ng->afresh(1, 2, 3);
    $s = new_session();
    is selects('x', $s, on(1)), '1/0', 'selected on one worker';
    is reserves('e', $s, on(2)), '2/0', 'bound to another one';
    $ng->remove(2);
    is replays('x'), '1/0', 'which has gone when it is replayed';
    is binding($s), '1/0', 'the session follows';
};


story 'A11, API A5: a booking that may not go to the bound rank' => sub {
    $ng->afresh([ 1, taints => [ 'a', 'b' ] ], [ 2, taints => ['b'] ]);

    my $s = new_session();
    my $wrong = "400 session $s is bound to worker 2, not 1";

    is reserves('a', $s, on(2)), '2/0', 'bound';
    is reserves('b', $s, on(1)), $wrong, 'A11: not among the allowed';
    $ng->loads_are('1/0 0 0 0, 2/0 4 1 1', 'A11: its booking is undone');
    $ng->gives('DELETE /reservations/b', undef, 404,
        'reservation b not found', 'A11: there is no such reservation');
    is binding($s), 'none', 'A11: the binding is dropped';
    is reserves('b', $s, on(1)), '1/0', 'A11: the next request binds anew';
    is binding($s), '1/0', 'A11: to its rank';
    $ng->release('a');
    is binding($s), '1/0', 'which the first booking has no part in';
    $ng->release('b');

    # Selections only look for another rank.
    my %required = (routing_constraints => { required_taints => ['a'] });
    my $t = new_session();
    is reserves('c', $t, on(2)), '2/0', 'another session';
    is goes($t, on(1)), '1/0', 'a selection goes to one that is allowed';
    is goes($t, %required), '1/0', 'or that has the required taints';
    is goes($t, on(1), advisory => $true), '1/0', 'also an advisory one';
    is binding($t), '2/0', 'and the session stays as it is';
    is reserves('d', $t, %required),
        "400 session $t is bound to worker 2, not 1",
        'a booking with such taints';
    is binding($t), 'none', 'drops the binding, too';

    # Both workers have these.
    is reserves('e', $t, on(2)), '2/0', 'bound once more';
    my $burden = burden('2/0');
    is reserves('f', $t, on(1, 2), routing_constraints =>
        { required_taints => ['b'], preferred_taints => { a => 100 } }),
        '2/0', 'what the rank fits in does not matter';
    $ng->release($burden);

    # What fails otherwise leaves it alone.
    is reserves('g', $t, on(9)), '503 no endpoints available to route work',
        'nobody at all is allowed';
    is goes($t, on(9)), '503 no endpoints available to route work',
        'nor for a selection';
    is reserves('g', $t, on(1), token_ids => []),
        '400 isl_tokens must be greater than 0', 'a bad prompt';
    is reserves('f', $t, on(1)),
        '409 selection f is already reserved or being reserved', 'a taken id';
    is binding($t), '2/0', 'the binding stays';

    my $new = new_session();
    is reserves('g', $new, on(9)), '503 no endpoints available to route work',
        'the first request of a session fails';
    is binding($new), 'none', 'and binds nothing';
    is reserves('g', $new, on(1)), '1/0', 'the next one';
    is binding($new), '1/0', 'does';
    $ng->release(qw(c e f g));
    $ng->loads_are('1/0 0 0 0, 2/0 0 0 0', 'nothing is left');
};


story 'a target or a pin goes before the session' => sub {
    $ng->afresh(1, 2);

    my $two  = { worker_id => 2, dp_rank => 0 };
    my $long = 'x' x 257;

    for my $kind (qw(affinity_target pinned_worker)) {
        my ($s, $t) = map { new_session() } 1 .. 2;

        is reserves("$kind-a", $s, on(1)), '1/0', "$kind: a bound session";
        is reserves("$kind-b", $s, $kind => $two), '2/0',
            "$kind: is not asked";
        is goes($s, $kind => $two), '2/0', "$kind: nor for a selection";
        is selects("$kind-c", $s, $kind => $two), '2/0',
            "$kind: nor for one that is kept";
        is replays("$kind-c"), '2/0', "$kind: or replayed";
        is binding($s), '1/0', "$kind: and stays as it is";

        is reserves("$kind-d", $t, $kind => $two), '2/0',
            "$kind: a new session";
        is selects("$kind-e", $t, $kind => $two), '2/0', "$kind: selected";
        is replays("$kind-e"), '2/0', "$kind: and replayed";
        is binding($t), 'none', "$kind: is not bound";

        is reserves("$kind-f", $long, $kind => $two), '2/0',
            "$kind: an id may be of any length";
        is selects("$kind-g", $long, $kind => $two), '2/0',
            "$kind: also of a selection";
        is replays("$kind-g"), '2/0', "$kind: and its replay";

        my $burden = burden('2/0');
        is reserves("$kind-h", $t, on(2)), '2/0', "$kind: bound at last";
        is reserves("$kind-i", $t, $kind => undef), '2/0',
            "$kind: null is none";
        $ng->release($burden);
    }

    my $s = new_session();
    is reserves('a', $s, on(2)), '2/0', 'bound';
    my $burden = burden('2/0');
    is reserves('b', $s, affinity_target => { worker_id => 9 }), '1/0',
        'a target that is nobody is one, too';
    is goes($s, affinity_target => { worker_id => 2, dp_rank => 5 }), '1/0',
        'as is one without such a rank';
    $ng->release($burden);
    is binding($s), '2/0', 'the binding stays';
};


story 'an explicit reservation has no session' => sub {
    $ng->afresh(1, 2);

    my ($s, $t) = map { new_session() } 1 .. 2;
    my $explicit = sub {
        my ($id, $worker, %members) = @_;
        return outcome($ng->ask('POST /reservations', { selection_id => $id,
            worker_id => $worker, hashed(1), %members }));
    };

    is $explicit->('a', 2, session_id => $s, session_context =>
        { session_id => $s }), '2/0', 'booked';
    is binding($s), 'none', 'it binds nothing';
    is reserves('b', $t, on(1)), '1/0', 'a session that is bound';
    is $explicit->('c', 2, session_id => $t), '2/0', 'does not hinder it';
    is binding($t), '1/0', 'and stays as it is';
    is $explicit->('d', 2, session_id => 'x' x 257), '2/0',
        'an id may be of any length';
    is $explicit->('e', 2, session_id => 5), '2/0', 'or be none';

    # It takes the selection of its id away, and with it the session.
    is selects('f', $s, on(2)), '2/0', 'selected for a session';
    is $explicit->('f', 2), '2/0', 'booked explicitly';
    $ng->release('f');
    like replays('f'), qr/^404 no pending selection f /, 'nothing is pending';
    is binding($s), 'none', 'and nothing bound';
};


story 'A15, API A10: partitions have their own sessions' => sub {
    my %a = (model_name => 'a');
    my %b = (model_name => 'b');
    my %g = (model_name => 'a', routing_group => 'g');

    $ng->afresh([ 1, %a ], [ 2, %a ], [ 3, %b ], [ 4, %b ], [ 5, %g ],
        [ 6, %g ]);

    my $s = new_session();

    is reserves('a', $s, %a, on(2)), '2/0', 'A15: bound in one';
    is binding($s, %b), 'none', 'A15: not in another model';
    is binding($s, %g), 'none', 'A15: nor in another group';
    is reserves('b', $s, %b, on(3)), '3/0', 'A15: bound there';
    is reserves('g', $s, %g, on(6)), '6/0', 'A15: and there';
    is join(' ', binding($s, %a), binding($s, %b), binding($s, %g)),
        '2/0 3/0 6/0', 'A15: each has its own binding';

    $ng->register(7, %a);
    $ng->register(8, %b);
    is join(' ', binding($s, %a), binding($s, %b), binding($s, %g)),
        '2/0 3/0 6/0', 'A15: also when workers join';

    is reserves('x', $s, %b, on(8)),
        "400 session $s is bound to worker 3, not 8", 'dropped in one';
    is join(' ', binding($s, %a), binding($s, %b), binding($s, %g)),
        '2/0 none 6/0', 'it stays in the others';

    # The id of a pending selection is one of its partition.
    my $t = new_session();
    is selects('p', $t, %a, on(2)), '2/0', 'selected in two';
    is selects('p', $t, %g, on(6)), '6/0', 'partitions';
    is replays('p', %g), '6/0', 'and replayed in one';
    is join(' ', binding($t, %a), binding($t, %g)), 'none 6/0',
        'is bound there';

    # A worker that moves takes no session with it.
    is reserves('m', my $u = new_session(), %a, on(1)), '1/0', 'bound';
    $ng->register(1, %g);
    is binding($u, %g), 'none', 'its worker moves: not bound there';
    is reserves('n', $u, %g, on(6)), '6/0', 'but on another one';
    is binding($u, %g), '6/0', 'of that partition';
};


story 'A21, API S7, S8: the object and the flat member' => sub {
    $ng->afresh(1, 2);

    my ($flat, $inner) = map { new_session() } 1 .. 2;
    my $both = { session_id => $flat,
        session_context => { session_id => $inner } };

    is reserves('a', $both, on(2)), '2/0', 'A21: both';
    is binding($inner), '2/0', 'A21: the object is bound';
    is binding($flat), 'none', 'A21: and the flat one is not';
    is reserves('b', $flat, on(1)), '1/0', 'A21: the flat one alone';
    is binding($flat), '1/0', 'A21: is bound';
    is binding($both), '2/0', 'A21: both: the object is read, too';
    is binding({ session_context => { session_id => $flat } }), '1/0',
        'A21: the object alone';

    my $t = new_session();
    is selects('c', { %$both, session_context => { session_id => $t } },
        on(2)), '2/0', 'A21: a selection with both';
    is replays('c'), '2/0', 'A21: and its replay';
    is binding($t), '2/0', 'A21: bind that of the object';
    is binding($flat), '1/0', 'A21: and not the flat one';

    # Null is as absent.
    my ($u, $v) = map { new_session() } 1 .. 2;
    is reserves('d', { session_id => $u, session_context => undef }, on(2)),
        '2/0', 'an object of null';
    is binding($u), '2/0', 'leaves the flat one';
    is reserves('e', { session_id => undef, session_context =>
        { session_id => $v, parent_session_id => undef,
            session_final => undef, input_trigger => undef,
            agent_headers => undef } }, on(2)), '2/0', 'null everywhere else';
    is binding($v), '2/0', 'leaves the object';

    my $none = { session_id => undef, session_context => undef };
    is reserves("n$_", $none, on($_)), "$_/0", 'null is no session' for 1, 2;
    is binding($none), 'none', 'and is not bound';

    # Other members mean nothing here.
    my ($parent, $child) = map { new_session() } 1 .. 2;
    my $final = { session_context => { session_id => $child,
        parent_session_id => $parent, session_final => $true,
        input_trigger => 'tool_result',
        agent_headers => { 'x-session-id' => [ $parent, $inner ] } } };
    is reserves('p', $parent, on(1)), '1/0', 'the parent of a session';
    is binding($final), 'none', 'does not bind it';
    is reserves('f', $final, on(2)), '2/0', 'nor does its final request';
    is binding($child), '2/0', 'fail to';
    is reserves('g', $final, on(2)), '2/0', 'another final one';
    $ng->release(qw(f g));
    is binding($child), '2/0', 'does not release it';
    is binding($parent), '1/0', 'nor its parent';

    my $burden = burden('2/0');
    is outcome($ng->post('/select', { token_ids => new_tokens(4) },
        headers => ["X-Session-ID: $child"])), '1/0',
        'headers of a request are not read';
    $ng->release($burden);
};


story 'an empty id is one, too' => sub {
    $ng->afresh(1, 2);

    is binding(''), 'none', 'free at first';
    is reserves('a', '', on(2)), '2/0', 'booked';
    is binding(''), '2/0', 'bound';
    is binding({ session_context => { session_id => '' } }), '2/0',
        'also in the object';
    is reserves('b', '', on(1)), '400 session  is bound to worker 2, not 1',
        'and as strict as others';
    is binding(''), 'none', 'dropped';
};


story 'what tells sessions apart' => sub {
    $ng->afresh(1, 2);

    my @pairs = (
        [ 'the last byte', 'x' x 255 . 'a', 'x' x 255 . 'b' ],
        [ 'the first byte', 'a' . 'x' x 255, 'b' . 'x' x 255 ],
        [ 'the length', 'y' x 255, 'y' x 256 ],
        [ 'small and capital', 'session', 'Session' ],
        [ 'a blank', 'z', 'z ' ],
        [ 'NUL', "n\0a", "n\0b" ],
        [ 'an end', "n", "n\0" ],
        [ 'composed or not', "\x{e9}", "e\x{301}" ],
    );

    for my $pair (@pairs) {
        my ($name, @ids) = @$pair;
        is reserves("$name-$_", $ids[$_], on(1 + $_)), 1 + $_ . '/0',
            "$name: bound" for 0, 1;
        is join(' ', map { binding($_) } @ids), '1/0 2/0', "$name: apart";
    }
};


# Bytes count, after escapes were read.

story 'the length of an id' => sub {
    $ng->afresh(1, 2);

    my $error = '400 session affinity ID must not exceed 256 bytes';
    my @cases = (
        [ '256 bytes', 'l' x 256, 1 ],
        [ '257 bytes', 'l' x 257, 0 ],
        [ '60,000 bytes', 'l' x 60_000, 0 ],
        [ '128 of two bytes', "\x{e9}" x 128, 1 ],
        [ '129 of two bytes', "\x{e9}" x 129, 0 ],
        [ '85 of three bytes and one', "\x{20ac}" x 85 . 'a', 1 ],
        [ '85 of three bytes and two', "\x{20ac}" x 85 . 'ab', 0 ],
        [ '64 of four bytes', "\x{1f600}" x 64, 1 ],
        [ '65 of four bytes', "\x{1f600}" x 65, 0 ],
    );

    for my $case (@cases) {
        my ($name, $id, $good) = @$case;

        for my $form ([ flat => { session_id => $id } ],
            [ object => { session_context => { session_id => $id } } ],
            [ both => { session_id => 'x' x 257, session_context =>
                { session_id => $id } } ])
        {
            my ($how, $session) = @$form;
            my $want = $good ? '2/0' : $error;
            my $tag  = "$name, $how";

            is reserves('a', $session, on(2)), $want, "$tag: booked";
            is selects($tag, $session, on(2)), $want,
                "$tag: selected";
            is goes($session, on(2), advisory => $true), $want,
                "$tag: selected as advice";

            if ($good) {
                is binding($session), '2/0', "$tag: bound";
                $ng->release('a');

            } else {
                like replays($tag), qr/^404 no pending selection /,
                    "$tag: nothing is pending";
                $ng->gives('DELETE /reservations/a', undef, 404,
                    'reservation a not found', "$tag: nor booked");
            }
        }
    }

    for my $case ([ 128, '2/0' ], [ 129, $error ]) {
        my ($count, $want) = @$case;
        is outcome($ng->ask('POST /select', '{"allowed_worker_ids":[2],'
            . '"token_ids":[1],"session_id":"' . '\u00e9' x $count . '"}')),
            $want, "$count escapes";
    }

    $ng->loads_are('1/0 0 0 0, 2/0 0 0 0', 'nothing is left');
};


story 'the order of the checks' => sub {
    my $long  = 'x' x 257;
    my $error = '400 session affinity ID must not exceed 256 bytes';

    $ng->afresh;
    is reserves('x', $long), '503 no schedulable workers are available',
        'the partition comes before the session';
    is selects('x', $long), '503 no schedulable workers are available',
        'also for a selection';

    $ng->afresh(1, 2);
    is reserves('x', my $s = new_session(), on(2)), '2/0', 'booked';

    my $taken = '409 selection x is already reserved or being reserved';
    is reserves('x', $long), $taken, 'a taken id comes before the session';
    is reserves('x', $long, token_ids => []), $taken, 'and the prompt';
    is reserves('x', $s, on(1)), $taken, 'and the binding';
    is binding($s), '2/0', 'which stays';

    is reserves('y', $long, token_ids => []), $error,
        'the session comes before the prompt';
    is reserves('y', $long, token_ids => undef), $error, 'or none';
    is reserves('y', $long, on(9)), $error, 'and the candidates';
    is selects('y', $long, token_ids => []), $error,
        'and the prompt of a selection';
    is selects('y', $long, on(9)), $error, 'and its candidates';
    is reserves('y', $s, on(1), token_ids => []),
        '400 isl_tokens must be greater than 0',
        'the prompt comes before the binding';
    like reserves('y', $long, token_ids => [-1]), qr/^422 .*token_ids/,
        'the types come first';
    like reserves('y', 5), qr/^422 .*session_id/, 'also that of the session';
    is binding($s), '2/0', 'the binding stays';

    $ng->gives('DELETE /reservations/y', undef, 404,
        'reservation y not found', 'and nothing is booked');
    is reserves('y', $s), '2/0', 'the id is free';
};


# Changes a worker; returns what it is then.

sub patches {
    my ($worker, %members) = @_;

    my $answer = $ng->ask("PATCH /workers/$worker", \%members);

    return $answer->status == 200 ? $answer->json->{lifecycle}
        : outcome($answer);
}


# Ways that a worker can go and come back.

my %GOES = (
    'deleted' => [ sub { $ng->remove($_[0]) }, sub { $ng->register($_[0]) } ],
    'incomplete' => [
        sub { patches($_[0], endpoint => '') },
        sub { patches($_[0], endpoint => 'http://x:1') },
    ],
    'moved' => [
        sub { $ng->register($_[0], routing_group => 'elsewhere') },
        sub { $ng->register($_[0]) },
    ],
);

for my $how (sort keys %GOES) {
    my ($goes, $comes) = @{ $GOES{$how} };

    story "A1, API A1: its worker is $how" => sub {
        $ng->afresh(1, 2, 3);

        my ($s, $t, $u) = map { new_session() } 1 .. 3;

        is reserves($_, $_, on(1)), '1/0', "$_ is bound" for $s, $t, $u;
        $ng->release($t);
        $goes->(1);
        isnt goes($s), '1/0', 'a selection finds another worker';

        my $burden = burden('3/0');
        is reserves("$s-2", $s), '2/0', 'A1: and so does a booking';
        is reserves("$t-2", $t), '2/0', 'A1: whose session has no other one';
        $ng->release($burden);
        is binding($s), '2/0', 'A1: the session follows';
        is binding($t), '2/0', 'A1: that one, too';

        # Those that were not used meanwhile are still bound.
        $comes->(1);
        is binding($s), '2/0', 'A1: for good';
        is binding($u), '1/0', 'an unused one waits for its worker';
        is reserves("$u-2", $u), '1/0', 'and can be booked again';

        # Allowed sets that the binding does not hinder.
        $goes->(2);
        is reserves("$s-3", $s, on(3)), '3/0',
            'A1: without its worker there is no other binding to keep';
        is binding($s), '3/0', 'A1: than the new one';
        $comes->(2);
        is binding($s), '3/0', 'A1: for good';
    };
}


story 'A2: its rank goes' => sub {
    $ng->afresh([ 1, data_parallel_size => 2 ]);

    my ($zero, $one, $later) = map { new_session() } 1 .. 3;

    is reserves_at('1/0', 'a', $zero), '1/0', 'bound to rank 0';
    is reserves_at('1/1', 'b', $one), '1/1', 'bound to rank 1';
    is reserves_at('1/1', 'c', $later), '1/1', 'another one';

    is patches(1, data_parallel_size => 1), 'schedulable',
        'A2: rank 1 goes';
    is goes($_), '1/0', 'A2: a selection goes to rank 0'
        for $zero, $one, $later;
    is reserves('d', $one), '1/0', 'A2: and so does a booking';
    is reserves('e', $zero), '1/0', 'A2: that of the other rank, too';

    is patches(1, data_parallel_size => 2), 'schedulable', 'it comes back';
    is binding($one), '1/0', 'A2: the session has moved';
    is binding($zero), '1/0', 'A2: the other one was there';
    is binding($later), '1/1', 'one that was not used is where it was';
    $ng->gives('DELETE /reservations/b', undef, 404,
        'reservation b not found', 'what was booked on the rank has gone');
    $ng->release(qw(a d e));

    # To another worker.
    $ng->afresh([ 1, data_parallel_size => 2 ], 2);
    is reserves_at('1/1', 'f', my $s = new_session()), '1/1', 'bound';
    is patches(1, data_parallel_size => 1), 'schedulable',
        'A2: its rank goes';
    my $burden = burden('1/0');
    is reserves('g', $s), '2/0', 'A2: any rank will do';
    $ng->release($burden);
    is binding($s), '2/0', 'A2: and is bound';
};


# A booking takes up its session before it can fail; a selection only reads.

story 'what fails gives up a rank that has gone' => sub {
    for my $fails (
        [ 'a bad prompt', token_ids => undef ],
        [ 'nobody allowed', on() ],
        [ 'nobody with the taint',
            routing_constraints => { required_taints => ['none'] } ],
    ) {
        my ($name, %members) = @$fails;

        $ng->afresh(1, 2, 3);
        my ($s, $read, $there) = map { new_session() } 1 .. 3;

        is reserves("a-$_", $_, on(1)), '1/0', "$name: bound"
            for $s, $read;
        is reserves('b', $there, on(2)), '2/0', "$name: another one";
        $ng->remove(1);
        like reserves('c', $s, %members), qr/^(?:400|503) /, "$name: fails";
        like selects('d', $read, %members), qr/^(?:400|503) /,
            "$name: so does a selection";
        like reserves('e', $there, %members), qr/^(?:400|503) /,
            "$name: and where the rank is there";
        $ng->register(1);
        is binding($s), 'none', "$name: the binding has ended";
        is binding($read), '1/0', "$name: not by a selection";
        is binding($there), '2/0', "$name: nor where the rank is there";
    }
};


story 'the first requests of a session at once' => sub {
    $ng->afresh(map { [ $_, data_parallel_size => 2 ] } 1 .. 3);

    my @wrong;

    for my $round (1 .. 40) {
        my $s = new_session();
        my @ranks = all_at_once('/select_and_reserve', map { {
            selection_id => "$s-$_", token_ids => new_tokens(4),
            session_id => $s } } 1 .. 6);
        push @wrong, different(@ranks)
            if different(@ranks) !~ m{^\d/\d$};
        $ng->release(map { "$s-$_" } 1 .. 6) if $round % 2;
    }

    is different(@wrong), '', 'land on one rank';

    # A4: its rank has gone, and all of them know.
    @wrong = ();

    for my $round (1 .. 20) {
        my $s = new_session();
        $ng->register(9);
        reserves("$s-0", $s, on(9));
        $ng->remove(9);
        my @ranks = all_at_once('/select_and_reserve', map { {
            selection_id => "$s-$_", token_ids => new_tokens(4),
            session_id => $s } } 1 .. 6);
        push @wrong, different(@ranks)
            if different(@ranks) !~ m{^\d/\d$};
    }

    is different(@wrong), '', 'A4: also when their rank has gone';

    # Replays of selections on several ranks: who comes first binds.
    my $s = new_session();
    $ng->afresh(1 .. 4);
    is selects("r$_", $s, on($_)), "$_/0", 'selected' for 1 .. 4;
    my @outcomes = all_at_once('/reservations',
        map { { selection_id => "r$_" } } 1 .. 4);
    my @booked = grep { m{^\d/0\z} } @outcomes;
    my @told = grep {
        /^400 session \Q$s\E is bound to worker \d, not \d\z/
    } @outcomes;
    ok @booked >= 1 && @told >= 1 && @booked + @told == 4,
        'replays on several ranks book, or are told where it is bound'
        or diag different(@outcomes);
    is scalar(() = $ng->loads =~ m{\d/0 4 1 1}g), @booked,
        'those that were refused are undone';
    like replays("r$_"), qr/^404 no pending selection r$_ /, 'all are used up'
        for 1 .. 4;
};


# Each request has a connection of its own here.

story 'clients that share their sessions' => sub {
    $ng->afresh(map { [ $_, data_parallel_size => 2 ] } 1 .. 3);

    my @ids = map { new_session() } 1 .. 60;
    my @results = SelCrowd->start(map { my $who = $_; sub {
        my (%rank, %process);

        for my $id (@ids) {
            my $answer = $ng->post('/select_and_reserve',
                { token_ids => [ $who .. $who + 7 ], session_id => $id });
            $rank{$id} = outcome($answer);
            $process{ $answer->process // 'none' } = 1;
        }

        return { rank => \%rank, process => \%process };
    } } 1 .. 3)->results;

    my @wrong;

    for my $id (@ids) {
        my $ranks = different(map { $_->{rank}{$id} } @results);
        push @wrong, "$id: $ranks" if $ranks !~ m{^\d/\d\z};
    }

    is "@wrong", '', 'each session is on one rank';
    is different(map { keys %{ $_->{process} } } @results),
        different($ng->workers), 'by the answers of both processes';
    is scalar(split /, /, different(map { values %{ $_->{rank} } } @results)),
        6, 'sessions are spread over all ranks';
};


story 'A3, API A2: bookings while workers come and go' => sub {
    $ng->afresh(1 .. 3);

    my $s = new_session();
    my $crowd = SelCrowd->start(map { my $who = $_; sub {
        my ($go_on) = @_;
        my $http = $ng->connection;
        my %seen;

        for (my $n = 1; $n <= 100 || $go_on->(); $n++) {
            my $id = "$s-$who-$n";
            my $answer = $http->post('/select_and_reserve',
                { selection_id => $id, token_ids => [ 1 .. 4 ],
                    session_id => $s });
            $seen{ $answer->status == 200 ? 'booked' : outcome($answer) }++;
            $http->delete("/reservations/$id");
        }

        return \%seen;
    } } 1 .. 2);

    for my $round (1 .. 30) {
        my $worker = 1 + $round % 2;
        $ng->remove($worker);
        $ng->register($worker);
    }

    my %sum = (booked => 0);
    for my $seen ($crowd->stop) {
        $sum{$_} += $seen->{$_} for keys %$seen;
    }

    note join ', ', map { "$_: $sum{$_}" } sort keys %sum;
    is join(', ', sort keys %sum), 'booked', 'A3: none of them fails';
    $ng->loads_are('1/0 0 0 0, 2/0 0 0 0, 3/0 0 0 0', 'nothing is left');
    my $bound = reserves('last', $s);
    like $bound, qr{^[123]/0\z}, 'it can be booked';
    is binding($s), $bound, 'and is bound';
};


story 'deaths and reloads' => sub {
    $ng->afresh(1, 2);

    my ($held, $free, $kept) = map { new_session() } 1 .. 3;
    my $as_ever = sub {
        my ($when) = @_;
        $ng->loads_are('1/0 0 0 0, 2/0 4 1 1', "$when: the books");
        is binding($held), '2/0', "$when: a session with a booking";
        is binding($free), '1/0', "$when: a session without one";
    };

    is reserves('held', $held, on(2)), '2/0', 'a booking';
    is reserves('free', $free, on(1)), '1/0', 'and one that ends';
    $ng->release('free');
    is selects('kept', $kept, on(2)), '2/0', 'a selection';
    $as_ever->('at first');

    for my $n (1, 0) {
        $ng->kill_worker($n);
        $ng->meet;
        $as_ever->("process $n is killed");
    }

    $ng->reload(gone => 1);
    $ng->meet;
    $as_ever->('a reload');

    is replays('kept'), '2/0', 'the selection is booked';
    is binding($kept), '2/0', 'and its session bound';
    $ng->ok_status('DELETE /reservations/held', undef, 'the booking ends');
    is reserves('held', $held), '2/0', 'its session can be booked again';
    is binding($held), '2/0', 'on its rank';
    $ng->release(qw(held kept));
    $ng->loads_are('1/0 0 0 0, 2/0 0 0 0', 'nothing is left');
};


story 'another time comes with a reload' => sub {
    $ng->afresh(1, 2);

    my ($held, $new) = map { new_session() } 1 .. 2;
    is reserves('held', $held, on(2)), '2/0', 'bound';

    $ng->reload(http => $ng->{http} =~ s/affinity 1h/affinity off/r);
    $ng->meet;
    is binding($held), 'none', 'off: sessions are not looked at';
    is reserves('off', $held, on(1)), '1/0', 'off: nor are they strict';
    is reserves('long', 'x' x 257, on(1)), '1/0', 'off: or of some length';
    $ng->release(qw(held off long));

    $ng->reload(http => $ng->{http} =~ s/affinity off/affinity 1s/r);
    $ng->meet;
    is reserves('new', $new, on(2)), '2/0', 'on again: bound';
    is reserves('else', my $else = new_session(), on(2)), '2/0',
        'another one';
    is binding($new), '2/0', 'as before';
    burden('2/0');

    my $since = time;
    $ng->release('new');
    my $life = lives({ $new => $since }, '2/0');
    ok $life->{$new}, 'a shorter time';
    cmp_ok $life->{$new} // 0, '>=', 1 - CLOCK, 'which is as long as it says';
    is goes($else), '2/0', 'and begins when the last booking ends';
    $ng->finish;
};


# How many seconds each session was bound to a rank after some time, at least:
# { session => time }.  Looking at it makes no difference.

sub lives {
    my ($since, $rank, %members) = @_;

    my %life;

    poll_for(sub {
        for my $session (grep { !defined $life{$_} } sort keys %$since) {
            my $got = goes($session, %members);
            $life{$session} = time - $since->{$session}
                if !grep { $_ eq $rank } split / /, $got;
        }
        return keys %life == keys %$since;
    }, at_most(10));

    return \%life;
}


# For some seconds these sessions go to a rank, whatever its load.

sub stay {
    my ($seconds, $rank, @sessions) = @_;

    my ($start, $rounds, %wrong) = (time, 0);

    poll_for(sub {
        $rounds++;
        for my $session (@sessions) {
            my $got = goes($session);
            $wrong{"$session: $got"} = 1 if $got ne $rank;
        }
        return time - $start > $seconds;
    }, 10 * $seconds);

    note "looked at $rounds times";

    return join ', ', sort keys %wrong;
}


# In milliseconds the first one is above 32 bits by less than a second.

for my $time (4_294_968, 31_536_000) {
    story "a time of $time seconds" => sub {
        $ng = SelBooks->new(name => 'long',
            http => "select_session_affinity ${time}s;")->run;
        $ng->register($_) for 1, 2;

        is reserves('a', 'long', on(2)), '2/0', 'a booking';
        $ng->release('a');
        burden('2/0');
        is stay(1.5, '2/0', 'long'), '', 'is remembered for long';
        $ng->finish;
    };
}


# The rank 2/0 has the most load from here on, so what goes there is bound.

story 'A5, A14: the time begins when the last booking ends' => sub {
    $ng = SelBooks->new(name => 'time', http => 'select_session_affinity 1s;')
        ->run;
    $ng->register($_) for 1 .. 3;
    burden('2/0');

    is reserves('one', 'one', on(2)), '2/0', 'one booking';
    $ng->ok_status('POST /reservations/one/prefill_complete');
    $ng->ok_status('POST /reservations/one/output_block');

    for my $s (qw(first second)) {
        is reserves("$s-$_", $s, on(2)), '2/0', "booking $_ of two"
            for 1, 2;
    }
    $ng->release('first-1', 'second-2');

    is selects('replay', 'replay', on(2)), '2/0', 'a selection';
    is replays('replay'), '2/0', 'and its replay';

    is selects('joins', 'joins', on(2)), '2/0', 'a selection';
    is reserves('joins-1', 'joins', on(2)), '2/0', 'a booking';
    is replays('joins'), '2/0', 'and a replay that finds it bound';
    $ng->release('joins-1');

    # A10 and A11 drop a binding; the booking that made it has no part in the
    # next one.
    is reserves('anew-1', 'anew', on(1)), '1/0', 'bound elsewhere';
    is reserves('anew', 'anew', on(2)),
        '400 session anew is bound to worker 1, not 2', 'dropped';
    is reserves('anew', 'anew', on(2)), '2/0', 'and bound';
    $ng->release('anew-1');

    is reserves('away-1', 'away', on(3)), '3/0', 'bound elsewhere';
    $ng->remove(3);
    is reserves('away', 'away', on(2)), '2/0', 'whose worker goes';

    my %ids = (one => 'one', first => 'first-2', second => 'second-1',
        replay => 'replay', joins => 'joins', anew => 'anew',
        away => 'away');

    is stay(2.5, '2/0', sort keys %ids), '',
        'A5: as long as there is a booking they are bound';
    isnt goes(undef), '2/0', 'what has no session goes elsewhere';

    my %since;
    for my $session (keys %ids) {
        $since{$session} = time;
        $ng->release($ids{$session});
    }

    my $life = lives(\%since, '2/0');
    for my $session (sort keys %ids) {
        ok defined $life->{$session}, "$session: free in the end";
        cmp_ok $life->{$session} // 0, '>=', 1 - CLOCK,
            "$session: but not before its time";
    }

    # What comes then is a first request.
    is reserves('one', 'one'), '1/0', 'the next booking finds a rank';
    is reserves('first', 'first', on(1)), '1/0', 'and no other binding';
    is binding($_), '1/0', "$_: bound there" for qw(one first);
};


story 'what does not hold a session' => sub {
    is reserves($_, $_, on(2)), '2/0', "$_: bound"
        for qw(target pin explicit selected);

    is reserves('target-2', 'target', affinity_target => { worker_id => 2 }),
        '2/0', 'a booking with a target';
    is reserves('pin-2', 'pin', pinned_worker =>
        { worker_id => 2, dp_rank => 0 }), '2/0', 'one with a pin';
    $ng->book('explicit-2', 2, hashed(1), session_id => 'explicit');
    is selects('selected', 'selected', on(2)), '2/0', 'a selection';
    is selects('selected-2', 'selected', advisory => $true), '2/0',
        'and advice';

    my %since = map { ($_ => time) } qw(target pin explicit selected);
    $ng->release(sort keys %since);

    my $life = lives(\%since, '2/0');
    for my $session (sort keys %since) {
        ok defined $life->{$session}, "$session: free in the end";
        cmp_ok $life->{$session} // 0, '>=', 1 - CLOCK,
            "$session: but not before its time";
    }

    $ng->release(qw(target-2 pin-2 explicit-2));
};


# A booking that fails once it has taken up its session was a use of it.

story 'what fails prolongs' => sub {
    my %fails = (
        prompt  => sub { reserves('f', 'prompt', token_ids => undef) },
        allowed => sub { reserves('f', 'allowed', on()) },
    );
    my %idles = (
        taken   => sub { reserves('taken', 'idle-taken', on(2)) },
        selects => sub { selects('s', 'idle-selects', token_ids => undef) },
    );

    is reserves($_, $_, on(2)), '2/0', "$_: bound" for sort keys %fails;
    is reserves("idle-$_", "idle-$_", on(2)), '2/0', "$_: bound"
        for sort keys %idles;
    is reserves('taken', undef, on(1)), '1/0', 'an id is taken';
    $ng->release(sort keys %fails);

    my %since;
    for my $session (map { "idle-$_" } sort keys %idles) {
        $since{$session} = time;
        $ng->release($session);
    }

    my ($start, $missed, %bound) = (time, 0);
    my $last = $start;
    poll_for(sub {
        for my $session (sort keys %fails) {
            my $answer = $fails{$session}->();
            fail("$session: $answer") if $answer !~ /^(?:400|503) /;
        }
        $_->() for values %idles;
        $missed = 1 if time - $last > 0.9;
        $last = time;
        return time - $start > 2.5;
    }, at_most(10));

    SKIP: {
        skip 'this machine is too slow', scalar keys %fails if $missed;
        is goes($_), '2/0', "$_: bound as long as it is tried"
            for sort keys %fails;
    }

    isnt goes($_), '2/0', "$_: not bound, whatever was tried"
        for sort keys %since;

    my $life = lives({ (map { ($_ => $last) } sort keys %fails), %since },
        '2/0');
    ok defined $life->{$_}, "$_: free in the end" for sort keys %$life;
    is scalar keys %$life, 4, 'all of them';
    $ng->release('taken');
};


# The bookings of these can end no more, so they must not hold anything.

story 'a worker or a rank that goes' => sub {
    $ng->register(4);
    $ng->register(5, data_parallel_size => 2);

    is reserves('lost', 'lost', on(4)), '4/0', 'a booking on a worker';
    is reserves_at('5/1', 'rank', 'rank'), '5/1', 'and one on a rank';
    is reserves_at('5/0', 'other', 'other'), '5/0', 'and on another one';
    is binding('lost'), '4/0', 'a session of a worker';
    is binding('rank'), '5/1', 'and one of a rank';

    $ng->remove(4);
    $ng->register(4);
    is patches(5, data_parallel_size => $_), 'schedulable', "$_ ranks"
        for 1, 2;
    $ng->gives("DELETE /reservations/$_", undef, 404,
        "reservation $_ not found", "$_: its booking has gone")
        for qw(lost rank);

    my @burdens = map { burden($_) } qw(4/0 5/0 5/1);
    my $now = time;
    ok defined lives({ lost => $now }, '4/0')->{lost},
        'what has gone with its worker holds no session';
    ok defined lives({ rank => $now }, '5/1')->{rank}, 'nor does a rank';
    is goes('other'), '5/0', 'that of the rank that stayed does';
    $ng->release('other', @burdens);
    $ng->remove(4, 5);
};


story 'a process that dies' => sub {
    my @ids = map { "k$_" } 1 .. 4;
    is reserves($_, $_, on(2)), '2/0', "$_: booked" for @ids;

    for (1, 0) {
        $ng->kill_worker($_);
        $ng->meet;
    }

    is stay(2, '2/0', @ids), '', 'does not end what it has booked';
    my %since = map { ($_ => time) } @ids;
    $ng->release(@ids);

    my $life = lives(\%since, '2/0');
    for my $id (@ids) {
        ok defined $life->{$id}, "$id: free in the end";
        cmp_ok $life->{$id} // 0, '>=', 1 - CLOCK,
            "$id: but not before its time";
    }

    $ng->finish;
};


# Here the load expires, too, so a taint makes requests go to worker 1.

story 'A14, API A9: bookings that expire' => sub {
    $ng = SelBooks->new(name => 'expiry', http => <<'HTTP')->run;
    select_session_affinity 1s;
    select_reservation_expire 1s;
HTTP
    $ng->register(1, taints => ['light']);
    $ng->register(2);

    my %light = (routing_constraints =>
        { preferred_taints => { light => 100 } });
    my $start = time;

    is reserves('a', 'a', on(2)), '2/0', 'a booking';
    is selects('b', 'b', on(2)), '2/0', 'a selection';
    is replays('b'), '2/0', 'and its replay';
    is goes(undef, %light), '1/0', 'requests without a session go elsewhere';

    my $life = lives({ a => $start, b => $start }, '2/0', %light);
    for my $session (qw(a b)) {
        ok defined $life->{$session}, "A14: $session: free in the end";
        cmp_ok $life->{$session} // 0, '>=', 2 - CLOCK,
            "A14: $session: both times after it was booked";
    }

    $ng->gives("DELETE /reservations/$_", undef, 404,
        "reservation $_ not found", "$_: has expired") for qw(a b);
    is goes(undef, %light), '1/0', 'as ever';
    $ng->finish;
};


# Sends requests over one connection, some at a time; returns how many were
# answered with a status.  The code makes the request of a number.

sub flood {
    my ($count, $status, $request) = @_;

    my $sock = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
        PeerPort => $ng->port, Proto => 'tcp') or die "connect: $!";
    my $select = IO::Select->new($sock);
    my ($good, $first) = (0, 1);

    while ($first <= $count) {
        my $last = $first + 127 > $count ? $count : $first + 127;
        my $text = join '', map { $request->($_) } $first .. $last;
        my ($got, $answers) = ('', 0);

        syswrite $sock, $text;

        while ($answers <= $last - $first) {
            die "no answer to requests up to $last\n"
                if !$select->can_read(at_most(10))
                || !sysread $sock, $got, 1 << 20, length $got;
            $answers = () = $got =~ m{HTTP/1\.1 \d}g;
        }

        $good += () = $got =~ m{HTTP/1\.1 $status }g;
        $first = $last + 1;
    }

    return $good;
}

sub fill {
    my ($n) = @_;

    my $body = "{\"selection_id\":\"b$n\",\"session_id\":\"s$n\","
        . '"token_ids":[1],"allowed_worker_ids":[2]}';

    return "POST /select_and_reserve HTTP/1.1\r\nHost: localhost\r\n"
        . "Content-Type: application/json\r\n"
        . 'Content-Length: ' . length($body) . "\r\n\r\n$body";
}


story 'A8, API A7: a full table' => sub {
    plan skip_all => 'takes too long here' if $ENV{TEST_NGINX_WRAP};

    $ng = SelBooks->new(name => 'table', zone => 'selector 256m',
        http => 'select_session_affinity 1s;')->run;
    $ng->register($_) for 1, 2;
    $ng->register($_, model_name => 'm') for 3, 4;

    my $start = time;
    is flood(TABLE, 200, \&fill), TABLE, 'as many sessions as there may be';
    note sprintf '%.1f s', time - $start;
    is binding("s$_"), '2/0', "session $_ is bound" for 1, 777, TABLE;

    is reserves('more', 'more', on(2)), '2/0', 'A8: one more is booked';
    is binding('more'), 'none', 'A8: but not bound';
    is reserves('more-2', 'more', on(1)), '1/0', 'A8: and may go anywhere';
    is selects('p', 'more', on(2)), '2/0', 'a selection';
    is replays('p'), '2/0', 'and its replay: booked';
    is binding('more'), 'none', 'but not bound either';

    my %m = (model_name => 'm');
    is reserves('m', 'more', %m, on(3)), '3/0', 'another partition';
    is binding('more', %m), '3/0', 'has a table of its own';

    my $burden = burden('2/0');
    is reserves('bound', 's777'), '2/0', 'sessions in the table go on';
    $ng->release($burden);

    # One place becomes free.
    is reserves('drop', 's5', on(1)),
        '400 session s5 is bound to worker 2, not 1', 'one is dropped';
    is reserves('place', 'place', on(2)), '2/0', 'the next one';
    is binding('place'), '2/0', 'has its place';
    is reserves('late', 'late', on(2)), '2/0', 'and one later';
    is binding('late'), 'none', 'has none';

    # All of them.
    is flood(TABLE, 200, sub { "DELETE /reservations/b$_[0] HTTP/1.1\r\n"
        . "Host: localhost\r\n\r\n" }), TABLE, 'the bookings end';
    my ($n, $bound) = (0, '');
    poll_for(sub {
        $n++;
        reserves("late-$n", "late-$n", on(2));
        return ($bound = binding("late-$n")) eq '2/0';
    }, at_most(10));
    is $bound, '2/0', 'when their time is over there is room again';
    $ng->finish;
};


for my $http ('', 'select_session_affinity off;') {
    story 'without a time sessions mean nothing: ' . ($http || 'default')
        => sub
    {
        $ng = SelBooks->new(name => 'off', http => $http)->run;
        $ng->register($_) for 1, 2;

        my $s = new_session();
        my $long = 'x' x 257;

        is reserves('a', $s, on(2)), '2/0', 'booked on one';
        is binding($s), 'none', 'not bound';
        is reserves('b', $s, on(1)), '1/0', 'and on another one';
        is selects('c', $s, on(1)), '1/0', 'a selection';
        is reserves('d', $s, on(2)), '2/0', 'a booking';
        is replays('c'), '1/0', 'and a replay';
        is reserves('e', $long, on(2)), '2/0', 'an id of any length';
        is selects('f', $long, on(1)), '1/0', 'in a selection';
        is replays('f'), '1/0', 'and its replay';
        is selects('g', { session_context => { session_id => $long } },
            on(2)), '2/0', 'and in the object';
        is binding($long), 'none', 'not bound either';
        $ng->finish;
    };
}


story 'A16, API A11: times that are none' => sub {
    my $tester = SelBooks->new(name => 'times');

    for my $time (qw(0 0s 31536001 31536001s 366d 53w)) {
        my ($code, $said) = $tester->test_conf(
            http => "select_session_affinity $time;");
        ok $code =~ /\b1\b/ && $said
            =~ /\[emerg\].*between 1 and 31536000 seconds/, "A16: $time"
            or diag "$code: $said";
    }

    for my $wrong (qw(x on -1s 1.5s), '', '1s 2s') {
        my ($code, $said) = $tester->test_conf(
            http => "select_session_affinity $wrong;");
        ok $code =~ /\b1\b/ && $said
            =~ /\[emerg\].*select_session_affinity/, "'$wrong'"
            or diag "$code: $said";
    }

    for my $time ('1', '1s', '600', '31536000', '31536000s', '365d',
        '"1h 30m"', 'off')
    {
        my ($code, $said) = $tester->test_conf(
            http => "select_session_affinity $time;");
        ok $code =~ /\b0\b/ && $said !~ /\[(?:emerg|alert)\]/,
            "that is one: $time" or diag "$code: $said";
    }

    my ($code, $said) = $tester->test_conf(http =>
        'select_session_affinity 1s; select_session_affinity 2s;');
    like $said, qr/\[emerg\].*"select_session_affinity".*duplicate/,
        'written twice';
    ($code, $said) = $tester->test_conf(server => 'location / { '
        . 'select_session_affinity 1s; select_service selector; }');
    like $said, qr/\[emerg\].*"select_session_affinity".*not allowed here/,
        'not at the http level';
};

all_done;
