# Sessions of routed requests: those of a session go to one rank, where their
# cache is, as long as it can serve them, and to another one from then on if it
# cannot.  Without this suite a conversation could be computed anew at each
# turn, be lost with its engine or go back to an engine that failed, and a
# request that nobody answered could leave a binding behind.
#
# What is bound is asked of the API, which has the same sessions.  A12 and A15
# are rows of the life cycle; E12 is: a binding does not outlive the failure of
# the try that made it.

use strict;
use warnings;

use Test::More;
use Time::HiRes qw(time);

use SelRoute;
use SelProc qw(poll_for);
use SelStream;

# nginx's clock may be behind ours by so many seconds.
use constant CLOCK => 0.05;

delete @ENV{ grep { /^DYN_/ } keys %ENV };

# Nothing is left out here, so each try is made.
my $ng = SelRoute->new(name => 'main', engines => 4, options => ' max_fails=0',
    http => 'select_session_affinity 1h;', server => <<'SERVER')->run;
    location /retry/ {
        proxy_next_upstream error timeout http_503 non_idempotent;
        proxy_pass http://engines;
    }
    location /impatient/ {
        proxy_next_upstream error timeout http_503 non_idempotent;
        proxy_read_timeout 1s;
        proxy_pass http://engines;
    }
    location /never/ { proxy_next_upstream off; proxy_pass http://engines; }
    location /variable/ {
        set $where engines;
        proxy_pass http://$where;
    }
    location /header/ {
        select_route_session $http_x_conversation;
        proxy_pass http://engines;
    }
    location /argument/ {
        select_route_session $arg_session;
        proxy_pass http://engines;
    }
    location /cookie/ {
        select_route_session $cookie_session;
        proxy_pass http://engines;
    }
    location /two/ {
        select_route_session $http_x_user/$http_x_chat;
        proxy_pass http://engines;
    }
    location /fixed/ {
        select_route_session always;
        proxy_pass http://engines;
    }
    location /none/ {
        select_route_session "";
        proxy_pass http://engines;
    }
    location /outer/ {
        select_route_session $http_x_outer;
        location /outer/inner/ { proxy_pass http://engines; }
    }
    location /east/ { select_route_group east; proxy_pass http://engines; }
    location /router/ { select_router selector; }
SERVER

my $stream = $ng->stream;
my ($sessions, $burdens) = (0, 0);


# A session that nobody has used.

sub new_session { return 'session-' . ++$sessions }

sub header {
    my ($session) = @_;

    return defined $session ? "X-Session-ID: $session" : ();
}


# The tries of a request as the engines saw them: "engine/rank ...", and the
# status behind it if that is not 200.

sub tries {
    my ($request) = @_;

    return join ' ', map {
        "$_->{engine}/" . ($_->{headers}{'x-data-parallel-rank'} // '-')
    } $request->seen;
}

# Sends a request of a session.  Options: to (another nginx), body, plan, path,
# headers.

sub goes {
    my ($session, %opt) = @_;

    my $request = ($opt{to} // $ng)->through(
        $opt{body} // { prompt => new_tokens(4) }, $opt{plan},
        path    => $opt{path} // '/v1/x',
        headers => [ header($session), @{ $opt{headers} // [] } ]);
    my $status = $request->answer->status;

    return join ' ', grep { length } tries($request),
        $status == 200 ? '' : $status;
}

# The same, for one that its engine holds, or does with it what is planned.

sub held {
    my ($session, %opt) = @_;

    return ($opt{to} // $ng)->begin({ prompt => new_tokens(4) },
        exists $opt{plan} ? $opt{plan} : { hold => 'request' },
        path => $opt{path} // '/v1/x', headers => [ header($session) ]);
}


# Makes a rank the most loaded one until the reservation, whose id is returned,
# is released.

sub burden {
    my ($one, $rank, $tokens, %where) = @_;

    my ($worker, $dp_rank) = split m{/}, $rank;
    my $id = 'burden-' . ++$burdens;

    $one->book($id, 0 + $worker, dp_rank => 0 + $dp_rank, %where,
        sequence_hashes => [], isl_tokens => $tokens,
        effective_prefill_tokens => $tokens);

    return $id;
}

sub busy {
    my ($rank, $one) = @_;

    return burden($one // $ng, $rank, 1_000_000);
}


# What the API answers to a request of a session: the rank, or the error.

sub api {
    my ($one, $request, $session, $members, $client) = @_;

    my $answer = $one->ask($request, { token_ids => new_tokens(4),
        defined $session ? (session_id => $session) : (), %$members },
        $client);

    return $answer->status . ' ' . $answer->body if $answer->status != 200;
    return join '/', @{ $answer->json }{qw(worker_id dp_rank)};
}


# Where the API would send a request of a session, as each process says.

sub chosen {
    my ($one, $session, %where) = @_;

    my %seen = map { (api($one, 'POST /select', $session, \%where, $_) => 1) }
        $one->clients;

    return sort keys %seen;
}

# The rank that a session is bound to, or "none".  A binding is what makes
# requests go to the most loaded rank, so each of them, two at least, is that
# in turn.

sub binding {
    my ($session, %opt) = @_;

    my $one   = delete $opt{to} // $ng;
    my $query = sprintf '?model_name=%s&routing_group=%s',
        map { $opt{$_} // 'default' } qw(model_name routing_group);
    my @bound;

    for my $rank ($one->loads($query) =~ m{(\d+/\d+) }g) {
        my $id      = burden($one, $rank, 1_000_000_000, %opt);
        my @with    = chosen($one, $session, %opt);
        my @without = chosen($one, undef, %opt);
        $one->release($id);

        return "the load of $rank does not count: @without"
            if grep { $_ eq $rank } @without;
        push @bound, $rank if "@with" eq $rank;
        return "the processes differ: @with"
            if @with > 1 && grep { $_ eq $rank } @with;
    }

    return join(', ', @bound) || 'none';
}


# Binds a new session to a rank, while all others are very busy.

sub bound_to {
    my ($rank, %opt) = @_;

    my $one = $opt{to} // $ng;
    my $session = new_session();
    my @busy = map { burden($one, $_, 100_000_000) } grep { $_ ne $rank }
        $one->loads =~ m{(\d+/\d+) }g;
    my $went = goes($session, %opt);
    $one->release(@busy);

    die "the request for $rank went to $went\n" if $went !~ m{^\d+/\d+\z};

    return $session;
}


story 'a session stays with its rank' => sub {
    $ng->anew([ 1, 1 ], [ 2, 2 ]);

    my ($s, $t) = map { new_session() } 1 .. 2;
    my $busy = busy('1/0');
    is goes($s), '2/0', 'the first request goes to the best rank';
    $ng->release($busy);
    is binding($s), '2/0', 'and binds the session there';

    $busy = busy('2/0');
    is goes($s), '2/0', 'so do the others, whatever its load' for 1 .. 5;
    is goes($s, path => '/variable/x'), '2/0', 'also when it is chosen late';
    is goes($s, body => $_), '2/0', "a body of another kind: $_"
        for '{"prompt":"Hello"}', '{"messages":[{"role":"user",'
        . '"content":"Hello"}]}', 'Hello';
    is goes(undef), '1/0', 'a request without a session does not';
    is goes($t), '1/0', 'nor does one of another session';
    is binding($t), '1/0', 'which is bound elsewhere';
    is goes(uc $s), '1/0', 'capitals make another one';

    my $request = $ng->through({ prompt => new_tokens(4) }, undef,
        headers => [ header($s) ]);
    is $request->one->{headers}{'x-session-id'}, $s,
        'the engine sees the header';
    is $request->log->{worker}, 2, 'and the log has the worker';
    $ng->release($busy);
    $ng->all_free('all are free');
    is join(' ', binding($s), binding($t)), '2/0 1/0', 'but bound';

    # One without token ids may be the first.
    for my $body ('{"messages":[{"role":"user","content":"Hello"}]}',
        '{"prompt":"Hello"}')
    {
        my $new = new_session();
        $busy = busy('1/0');
        is goes($new, body => $body), '2/0', "first: $body";
        $ng->release($busy);
        is binding($new), '2/0', 'binds, too';
        $busy = busy('2/0');
        is goes($new), '2/0', 'what comes behind it';
        is goes($new, body => $body), '2/0', 'in any form';
        $ng->release($busy);
    }

    $ng->all_free;
};


story 'a session is bound to one of several ranks' => sub {
    $ng->anew([ 1, 1, data_parallel_size => 2 ], [ 2, 2 ]);

    my $s = bound_to('1/1');
    my $t = bound_to('1/0');
    is join(' ', binding($s), binding($t)), '1/1 1/0', 'two sessions';

    my @busy = map { busy($_) } qw(1/0 1/1);
    is goes($s), '1/1', 'one rank' for 1 .. 3;
    is goes($t), '1/0', 'and another one of its worker' for 1 .. 3;
    is goes(undef), '2/0', 'what has no session goes elsewhere';
    $ng->release(@busy);
    $ng->all_free;
};


story 'the router and the API have the same sessions' => sub {
    $ng->anew([ 1, 1 ], [ 2, 2 ]);

    my $s = new_session();
    is api($ng, 'POST /select_and_reserve', $s, { selection_id => 'api',
        allowed_worker_ids => [2] }), '2/0', 'booked';

    my $busy = busy('2/0');
    is goes($s), '2/0', 'bound by the API';
    $ng->release('api');
    is goes($s), '2/0', 'for longer than its booking';

    my $t = bound_to('2/0');
    is api($ng, 'POST /select_and_reserve', $t, { selection_id => 'api' }),
        '2/0', 'bound by a request';
    is api($ng, 'POST /router/best_worker_id', $t, {}), '2/0',
        'for all who ask';
    is api($ng, 'POST /router/best_worker_id', undef, {}), '1/0',
        'about it';
    is goes($t), '2/0', 'and for requests';
    $ng->release('api', $busy);
    $ng->all_free;
};


story 'A15: models and groups have their own sessions' => sub {
    $ng->anew([ 1, 1, model_name => 'a' ], [ 2, 2, model_name => 'a' ],
        [ 3, 3, model_name => 'b' ], [ 4, 4, model_name => 'b' ],
        [ 5, 3, model_name => 'a', routing_group => 'east' ],
        [ 6, 4, model_name => 'a', routing_group => 'east' ]);

    my ($s, %rank) = (new_session());
    my $in = sub {
        my ($model, $path) = @_;
        return goes($s, body => { prompt => new_tokens(4), model => $model },
            path => $path);
    };

    $rank{a}    = $in->('a', '/v1/x');
    $rank{b}    = $in->('b', '/v1/x');
    $rank{east} = $in->('a', '/east/x');
    like $rank{a}, qr{^[12]/0\z}, 'A15: one model';
    like $rank{b}, qr{^[34]/0\z}, 'A15: another one';
    like $rank{east}, qr{^[34]/0\z}, 'A15: another group';

    is binding($s, model_name => 'a'), $rank{a}, 'A15: bound in one';
    is binding($s, model_name => 'b'), $rank{b}, 'A15: and the other';
    is binding($s, model_name => 'a', routing_group => 'east'),
        $rank{east} =~ s{^(\d)}{$1 + 2}er, 'A15: and in the group';
    is join(' ', $in->('a', '/v1/x'), $in->('b', '/v1/x'),
        $in->('a', '/east/x')), "$rank{a} $rank{b} $rank{east}",
        'A15: all of them at once';
    $ng->all_free;
};


story 'what the session is' => sub {
    $ng->anew([ 1, 1 ], [ 2, 2 ]);

    for my $case (
        [ '/header/x', 'c1', 'X-Conversation: c1' ],
        [ '/header/x', 'c 2, "x"', 'X-Conversation: c 2, "x"' ],
        [ '/argument/x?session=a1', 'a1' ],
        [ '/cookie/x', 'k1', 'Cookie: a=b; session=k1; c=d' ],
        [ '/two/x', 'u/c', 'X-User: u', 'X-Chat: c' ],
        [ '/two/x', 'u/', 'X-User: u' ],
        [ '/fixed/x', 'always' ],
        [ '/outer/inner/x', 'o1', 'X-Outer: o1' ],
        [ '/v1/x', 'h1', 'x-session-id: h1' ],
    ) {
        my ($path, $id, @headers) = @$case;
        my $other = $path eq '/v1/x' ? undef : new_session();
        my $name  = "$path, $id";
        my $busy  = busy('1/0');

        is goes($other, path => $path, headers => \@headers), '2/0',
            "$name: answered";
        $ng->release($busy);
        is binding($id), '2/0', "$name: bound";
        is binding($other), 'none', "$name: and nothing else"
            if defined $other;
        $busy = busy('2/0');
        is goes($other, path => $path, headers => \@headers), '2/0',
            "$name: goes there again";
        $ng->release($busy);
    }

    # None at all.
    for my $case (
        [ '/none/x', new_session() ],
        [ '/header/x', new_session() ],
        [ '/header/x', new_session(), 'X-Conversation:' ],
        [ '/argument/x?session=', new_session() ],
        [ '/v1/x', undef, 'X-Session-ID:' ],
        [ '/v1/x', undef, 'X-Session-ID: ' ],
    ) {
        my ($path, $other, @headers) = @$case;
        my $name = join ', ', $path, @headers;

        for my $worker (1, 2) {
            my $busy = busy(3 - $worker . '/0');
            is goes($other, path => $path, headers => \@headers),
                "$worker/0", "$name: an empty one is none";
            $ng->release($busy);
        }

        is binding(''), 'none', "$name: and is not bound";
        is binding($other), 'none', "$name: nor is the header"
            if defined $other;
    }

    # What the body says is no matter of the router.
    my $s = new_session();
    is goes(undef, body => { prompt => new_tokens(4), session_id => $s,
        session_context => { session_id => $s } }) =~ s/\d/N/r, 'N/0',
        'members of the body';
    is binding($s), 'none', 'are not read';
    my $t = bound_to('2/0');
    my $busy = busy('1/0');
    is goes($t, body => { prompt => new_tokens(4), session_id => $s }), '2/0',
        'beside a header';
    $ng->release($busy);
    is join(' ', binding($s), binding($t)), 'none 2/0', 'neither';
    $ng->all_free;
};


story 'levels of the configuration' => sub {
    my $levels = SelRoute->new(name => 'levels', stream => $stream,
        http => <<'HTTP', server => <<'SERVER')->run;
    select_session_affinity 1h;
    select_route_session $http_x_outer;
HTTP
    location /own/ {
        select_route_session $http_x_own;
        proxy_pass http://engines;
    }
SERVER

    $levels->anew([ 1, 1 ], [ 2, 2 ]);
    my $bound = sub {
        return join ' ', map { binding($_, to => $levels) } @_;
    };
    my @headers = ('X-Outer: outer', 'X-Own: own', 'X-Server: server');
    my $busy = busy('1/0', $levels);

    is goes('default', to => $levels, headers => \@headers), '2/0',
        'http: answered';
    $levels->release($busy);
    is $bound->(qw(outer own server default)), '2/0 none none none',
        'http: that is the session';

    $busy = busy('1/0', $levels);
    is goes(undef, to => $levels, headers => \@headers, path => '/own/x'),
        '2/0', 'location: answered';
    $levels->release($busy);
    is $bound->(qw(own server)), '2/0 none', 'location: that is the session';

    $levels->reload(gone => 1, server => 'select_route_session '
        . '$http_x_server;' . $levels->{server});
    $levels->meet;
    $busy = busy('1/0', $levels);
    is goes(undef, to => $levels, headers => \@headers), '2/0',
        'server: answered';
    $levels->release($busy);
    is $bound->(qw(outer own server)), '2/0 2/0 2/0',
        'server: that is the session, and those of before are there';
    $levels->all_free;

    my ($code, $said) = $levels->test_conf(http => $levels->{http}
        . 'upstream x { select_route selector; select_route_session a; }');
    like $said, qr/\[emerg\].*"select_route_session".*not allowed here/,
        'it does not belong into the upstream block';
    $levels->finish;
};


story 'the length of a session' => sub {
    $ng->anew([ 1, 1 ], [ 2, 2 ]);

    for my $case (
        [ '257 bytes', 'l' x 257, '/v1/x' ],
        [ '129 of two bytes', "\xc3\xa9" x 129, '/v1/x' ],
        [ '257 bytes, and a try allowed', 'l' x 257, '/retry/x' ],
        [ '257 bytes of another header', 'l' x 257, '/header/x',
            'X-Conversation' ],
        [ '5,000 bytes', 'l' x 5_000, '/v1/x' ],
    ) {
        my ($name, $id, $path, $header) = @$case;
        $header //= 'X-Session-ID';

        for my $body ({ prompt => new_tokens(4) }, '{"prompt":"Hello"}') {
            my $request = $ng->through($body, undef, path => $path,
                headers => ["$header: $id"]);
            my $error = eval { $request->answer->json->{error} };

            is $request->answer->status, 400, "$name: refused";
            is ref $error eq 'HASH' ? $error->{message} : $error,
                'session affinity ID must not exceed 256 bytes',
                "$name: in the shape of OpenAI's errors";
            is scalar($request->seen), 0, "$name: no engine has seen it";
        }
    }

    $ng->loads_are('1/0 0 0 0, 2/0 0 0 0', 'nothing is booked');

    for my $case ([ '256 bytes', ('l' x 256) x 2 ],
        [ '128 of two bytes', "\xc3\xa9" x 128, "\x{e9}" x 128 ])
    {
        my ($name, $header, $id) = @$case;
        my $busy = busy('1/0');
        is goes($header), '2/0', "$name: answered";
        $ng->release($busy);
        is binding($id), '2/0', "$name: bound";
    }

    # The header that is not the session may be of any length.
    is goes('l' x 257, path => '/header/x') =~ s/\d/N/r, 'N/0',
        'another header than that of the session';
    $ng->all_free;
};


story 'without a time there are no sessions' => sub {
    my $off = SelRoute->new(name => 'off', stream => $stream,
        http => 'select_route_session $http_x_session_id;')->run;

    $off->anew([ 1, 1 ], [ 2, 2 ]);
    for my $s (new_session(), 'l' x 257) {
        for my $worker (1, 2, 1) {
            my $busy = busy(3 - $worker . '/0', $off);
            is goes($s, to => $off), "$worker/0", 'by the load alone';
            $off->release($busy);
        }
        is binding($s, to => $off), 'none', 'nothing is bound';
    }

    my $request = $off->through({ prompt => new_tokens(4) }, undef,
        headers => ['X-Session-ID: s']);
    is $request->one->{headers}{'x-session-id'}, 's',
        'the engine sees the header';
    $off->finish;
};


# Ways in which an engine fails a try; what it is set to, or nothing: it
# refuses connections.

my @FAILURES = (
    [ 'refused' ],
    [ 'reset', reset => 'request' ],
    [ 'closed', fin => 'request' ],
    [ 'silence', hold => 'request' ],
    [ '503', status => 503 ],
);

sub fails {
    my ($engine, $how, %plan) = @_;

    return $how eq 'refused' ? $stream->close($engine)
        : $stream->set($engine, %plan);
}

# A request of a session that one engine fails; nobody sees what is refused.

sub tried {
    my ($session, $how) = @_;

    my $tries = goes($session,
        path => $how eq 'silence' ? '/impatient/x' : '/retry/x');

    return $how eq 'refused' ? "1/0 $tries" : $tries;
}

sub recovers {
    my ($engine, $how) = @_;

    $stream->release;
    $stream->open($engine) if $how eq 'refused';
    $stream->set($engine);

    return;
}


story 'E12: the engine of the first request fails' => sub {
    for my $failure (@FAILURES) {
        my ($how) = @$failure;
        my $s = new_session();

        $ng->anew([ 1, 1 ], [ 2, 2 ]);
        fails(1, @$failure);
        my $busy = busy('2/0');
        is tried($s, $how), '1/0 2/0', "$how: another one answers";
        $ng->release($busy);
        recovers(1, $how);

        is binding($s), '2/0', "E12: $how: which the session is bound to";
        $busy = busy('2/0');
        is goes($s), '2/0', "E12: $how: and where the next request goes";
        $ng->release($busy);
        $ng->all_free("$how: all are free");
    }

    # While one or the other has it.
    my $s = new_session();
    $ng->anew([ 1, 1 ], [ 2, 2 ]);
    $stream->queue(1, { hold => 'request', status => 503 });
    $stream->queue(2, { hold => 'request' });

    my $busy = busy('2/0');
    my $held = held($s, path => '/retry/x', plan => undef);
    $held->at('request');
    $ng->release($busy);
    $ng->loads_are('1/0 4 1 1, 2/0 0 0 0', 'the first try is booked');
    is binding($s), '1/0', 'E12: and bound';

    $held->release;
    wait_until { tries($held) eq '1/0 2/0' } 'the second try';
    $ng->loads_are('1/0 0 0 0, 2/0 4 1 1', 'is booked');
    is binding($s), '2/0', 'E12: and bound before it is answered';
    is $held->release->receive->status, 200, 'answered';
    is binding($s), '2/0', 'E12: and behind that';
    $ng->all_free;
};


story 'E12: a rank of the same worker' => sub {
    $ng->anew([ 1, 1, data_parallel_size => 2 ]);

    for my $round (1 .. 3) {
        my $s = new_session();
        $stream->queue(1, { status => 503 });
        my ($first, $last) = split / /, goes($s, path => '/retry/x');
        is "$first $last", $first eq '1/0' ? '1/0 1/1' : '1/1 1/0',
            'the other rank answers';
        is binding($s), $last, 'E12: and is bound';
    }

    $ng->all_free;
};


story 'E12: nobody answers' => sub {
    $ng->anew([ 1, 1 ], [ 2, 2 ]);
    my $bound = bound_to('1/0');
    $stream->close($_) for 1, 2;

    for my $path ('/retry/x', '/v1/x', '/never/x') {
        my $s = new_session();
        is goes($s, path => $path), '502', "$path: nobody can be reached";
        is binding($s), 'none', "E12: $path: nothing is bound";
    }

    is goes($bound, path => '/retry/x'), '502', 'a session that was bound';
    isnt binding($bound), '2/0', 'E12: is not bound by a try that failed';

    $stream->open($_) for 1, 2;
    my $s = new_session();
    my $busy = busy('1/0');
    is goes($s), '2/0', 'a first request when they are back';
    $ng->release($busy);
    is binding($s), '2/0', 'binds';
    $ng->all_free;
};


story 'A12: a session leaves an engine that fails' => sub {
    for my $failure (@FAILURES) {
        my ($how) = @$failure;

        $ng->anew([ 1, 1 ], [ 2, 2 ]);
        my $s = bound_to('1/0');
        is binding($s), '1/0', "$how: bound";

        fails(1, @$failure);
        my $busy = busy('1/0');
        is tried($s, $how), '1/0 2/0', "$how: another engine answers";
        $ng->release($busy);
        recovers(1, $how);

        is binding($s), '2/0', "A12: $how: the binding follows";
        $busy = busy('2/0');
        is goes($s), '2/0', "A12: $how: so do the requests";
        $ng->release($busy);
        $ng->all_free("$how: all are free");
    }
};


# Failures are counted by each process, so there is one.  The workers are new
# ones, so they have never failed.

story 'A12: a session leaves an engine that is out of order' => sub {
    my $one = SelRoute->new(name => 'fails', workers => 1, stream => $stream,
        options => ' max_fails=1 fail_timeout=60s',
        http => 'select_session_affinity 1h;', server => <<'SERVER')->run;
    location /never/ { proxy_next_upstream off; proxy_pass http://engines; }
SERVER

    $one->anew([ 101, 1 ], [ 102, 2 ]);
    my $s = bound_to('101/0', to => $one);
    is binding($s, to => $one), '101/0', 'bound';

    my $busy = busy('102/0', $one);
    $stream->close(1);
    is goes(undef, to => $one, path => '/never/x'), '502',
        'a request of nobody fails there';
    $stream->open(1);
    is goes($s, to => $one), '2/0', 'A12: the session goes elsewhere';
    $one->release($busy);
    is binding($s, to => $one), '102/0', 'A12: and stays there';
    $one->all_free;
    $one->finish;
};


story 'A12: a session leaves a worker that cannot be used' => sub {
    my %ways = (
        'deleted' => sub { $ng->remove(1) },
        'incomplete' => sub {
            $ng->ask('PATCH /workers/1', { endpoint => '' });
        },
        'moved' => sub { $ng->add(1, 1, routing_group => 'east') },
        'no address' => sub {
            $ng->ask('PATCH /workers/1', { endpoint => 'ray://actor' });
        },
    );

    for my $how (sort keys %ways) {
        $ng->anew([ 1, 1 ], [ 2, 2 ], [ 3, 3 ]);
        my $s = bound_to('1/0');
        is binding($s), '1/0', "$how: bound";

        $ways{$how}->();
        my $busy = busy('3/0');
        is goes($s), '2/0', "A12: $how: another one answers";
        $ng->release($busy);
        $ng->add(1, 1);
        is binding($s), '2/0', "A12: $how: and has the session for good";
        $busy = busy('2/0');
        is goes($s), '2/0', "A12: $how: which goes on there";
        $ng->release($busy);
        $ng->all_free("$how: all are free");
    }
};


story 'the first requests of a session at once' => sub {
    $ng->anew(map { [ $_, $_, data_parallel_size => 2 ] } 1 .. 3);

    my @clients = map { my $pid = $_;
        map { $ng->connection_to($pid, '/health') } 1 .. 3 } $ng->workers;
    my (@wrong, %process, %rank);

    for my $round (1 .. 25) {
        my $s = new_session();
        my @requests = map {
            $ng->begin({ prompt => new_tokens(4) }, { events => 1 },
                client => $_, headers => [ header($s) ])
        } @clients;

        my %seen;
        for my $request (@requests) {
            my $answer = $request->receive;
            $process{ $answer->process // 'none' } = 1;
            $seen{ $answer->status == 200 ? tries($request)
                : $answer->status } = 1;
        }

        my $seen = join ', ', sort keys %seen;
        $rank{$seen} = 1;
        push @wrong, $seen if $seen !~ m{^\d/\d\z};
    }

    is join('; ', @wrong), '', 'go to one rank';
    is join(' ', sort keys %process), join(' ', sort $ng->workers),
        'in both processes';
    cmp_ok scalar(keys %rank), '>', 1, 'sessions are spread over the ranks';
    $ng->all_free;
};


story 'reload' => sub {
    $ng->anew([ 1, 1 ], [ 2, 2 ]);

    my $s = bound_to('2/0');
    my $busy = busy('1/0');
    my $held = held(my $t = new_session());
    $held->at('request');
    $ng->release($busy);

    $ng->reload;
    $ng->meet;
    is join(' ', binding($s), binding($t)), '2/0 2/0',
        'sessions are there as before';
    $busy = busy('2/0');
    is goes($_), '2/0', 'and requests go where they went' for $s, $t;
    is $held->release->receive->status, 200, 'one of before is answered';
    is goes($_), '2/0', 'they still do' for $s, $t;
    $ng->release($busy);
    $ng->all_free;
    $ng->finish;
};


# Here the time is short.  The rank 2/0 has the most load when it is looked at.

my $short = SelRoute->new(name => 'short', stream => $stream,
    options => ' max_fails=0', http => 'select_session_affinity 1s;',
    server => <<'SERVER')->run;
    location /retry/ {
        proxy_next_upstream error timeout non_idempotent;
        proxy_pass http://engines;
    }
SERVER


# How many seconds each session was bound to a rank after some time, at least:
# { session => time }.  Looking at it makes no difference.

sub lives {
    my ($since, $rank) = @_;

    my %life;

    poll_for(sub {
        for my $session (grep { !defined $life{$_} } sort keys %$since) {
            $life{$session} = time - $since->{$session}
                if !grep { $_ eq $rank } chosen($short, $session);
        }
        return keys %life == keys %$since;
    }, at_most(10));

    return \%life;
}


story 'a session is held as long as its requests last' => sub {
    $short->anew([ 1, 1 ], [ 2, 2 ]);

    # To the second engine, while the first one is busy.
    my $busy = busy('1/0', $short);
    my $plain = held('plain', to => $short);
    my $left  = held('left', to => $short);
    my @two   = map { held('two', to => $short) } 1 .. 2;
    $_->at('request') for $plain, $left, @two;
    is goes('done', to => $short), '2/0', 'one that is answered';
    $short->release($busy);

    # To the first one, which refuses some.
    $busy = busy('2/0', $short);
    my $before = held('moves', to => $short);
    is $before->at('request')->{engine}, 1, 'a request at the first engine';
    $stream->close(1);
    my $behind = held('moves', to => $short, path => '/retry/x');
    is $behind->at('request')->{engine}, 2,
        'another one of its session has to move';
    is goes('tried', to => $short, path => '/retry/x'), '2/0',
        'one that is answered by the second engine tried';
    $stream->open(1);
    is $before->release->receive->status, 200, 'the first engine answers';
    is $two[0]->release->receive->status, 200, 'one of two is answered';

    my %since = (left => time);
    $left->leave;
    $left->ended('gone');
    my $life = lives({ map { ($_ => time) } qw(done tried) }, '2/0');
    ok defined $life->{$_}, "$_: free in the end" for qw(done tried);
    $life = lives(\%since, '2/0');
    ok defined $life->{left}, 'also when the client has left';
    cmp_ok $life->{left} // 0, '>=', 1 - CLOCK, 'but not before its time';

    my ($start, %wrong) = (time);
    poll_for(sub {
        for my $session (qw(plain moves two)) {
            my $got = join ' ', chosen($short, $session);
            $wrong{"$session: $got"} = 1 if $got ne '2/0';
        }
        return time - $start > 2;
    }, 20);
    is join(', ', sort keys %wrong), '', 'requests that last hold theirs';

    %since = map { ($_ => time) } qw(plain moves two);
    is $_->release->receive->status, 200, 'they are answered'
        for $plain, $behind, $two[1];
    $life = lives(\%since, '2/0');
    for my $session (sort keys %since) {
        ok defined $life->{$session}, "$session: free in the end";
        cmp_ok $life->{$session} // 0, '>=', 1 - CLOCK,
            "$session: but not before its time";
    }

    $short->release($busy);
    $short->all_free;
};


# An engine that has closed a kept connection is as good as before.

story 'connections that the engine has closed' => sub {
    my $kept = SelRoute->new(name => 'kept', workers => 1, engines => 2,
        http => 'select_session_affinity 1h;', upstream => 'keepalive 8;',
        route => 'proxy_next_upstream error timeout non_idempotent;')->run;

    $kept->anew([ 1, 1 ], [ 2, 2 ]);
    my $busy = busy('2/0', $kept);
    is goes('s', to => $kept), '1/0', 'bound';
    $kept->release($busy);
    $busy = busy('1/0', $kept);
    $kept->stream->queue(1, { reset => 'request' });
    is goes('s', to => $kept), '1/0 1/0', 'is tried there again';
    is binding('s', to => $kept), '1/0', 'and stays bound';
    $kept->release($busy);
    $kept->all_free;
    $kept->finish;
};


# Only what is booked has a session.

story 'requests without a body' => sub {
    $short->anew([ 1, 1 ], [ 2, 2 ]);
    my $busy = busy('1/0', $short);
    is goes('get', to => $short), '2/0', 'bound';
    $short->release($busy);
    $busy = busy('2/0', $short);

    for my $session ('get', 'new', 'x' x 257) {
        for my $body (undef, '') {
            my $request = $short->through($body, undef, method => 'GET',
                path => '/v1/models', headers => ["X-Session-ID: $session"]);
            is $request->answer->status, 200, 'is answered';
            is tries($request), '1/0', 'by the rank with the least load';
        }
    }

    $short->release($busy);
    is binding('new', to => $short), 'none', 'and binds nothing';
    $short->all_free;
};


story 'a process that dies' => sub {
    $short->anew([ 1, 1 ], [ 2, 2 ]);

    my $busy = busy('1/0', $short);
    my ($pid) = $short->workers;
    my $client = $short->connection_to($pid, '/health');
    my $held = $short->begin({ prompt => new_tokens(4) },
        { hold => 'request' }, client => $client,
        headers => ['X-Session-ID: dies']);
    $held->at('request');
    $short->release($busy);
    is binding('dies', to => $short), '2/0', 'bound';

    $short->kill_worker(0);
    $short->meet;
    $held->ended('gone');
    $busy = busy('2/0', $short);
    ok defined lives({ dies => time }, '2/0')->{dies},
        'holds no session any more';
    $short->release($busy);
    $short->all_free;
    $short->finish;
};

all_done;
