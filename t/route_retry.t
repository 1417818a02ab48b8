# When an engine fails before a byte of its answer was passed on, another rank
# gets the request, by its right number, with a booking of its own; and what
# fails is left alone for a while.  Without this suite one dead engine could
# fail a part of all requests, a client could get two answers in one, or
# mistakes of clients could take healthy engines out of use.

use strict;
use warnings;

use Digest::SHA qw(sha256_hex);
use JSON::PP ();
use Test::More;
use Time::HiRes qw(time);

use SelCrowd;
use SelRoute;
use SelProc qw(poll_for);
use SelStream;

# Nothing is left out here, so each try is made.  Blocks booked by the test
# decide which rank is the first.
my $ng = SelRoute->new(name => 'retries', engines => 3,
    options => ' max_fails=0', server => <<'SERVER')->run;
    location /retry/ {
        proxy_next_upstream error timeout invalid_header http_502 http_503
            non_idempotent;
        proxy_read_timeout 300ms;
        proxy_pass http://engines;
    }
    location /never/ { proxy_next_upstream off; proxy_pass http://engines; }
    location /two/ {
        proxy_next_upstream http_503 non_idempotent;
        proxy_next_upstream_tries 2;
        proxy_pass http://engines;
    }
    location /no-header/ {
        select_route_rank_header off;
        proxy_next_upstream http_503 non_idempotent;
        proxy_pass http://engines;
    }
    location /own-header/ {
        select_route_rank_header off;
        proxy_next_upstream http_503 non_idempotent;
        proxy_set_header Connection "";
        proxy_set_header X-Data-Parallel-Rank $select_dp_rank;
        proxy_pass http://engines;
    }
    location /variable/ {
        set $where engines;
        proxy_next_upstream http_503 non_idempotent;
        proxy_pass http://$where;
    }
    location /buffered/ {
        proxy_buffering on;
        proxy_next_upstream http_503 non_idempotent;
        proxy_pass http://engines;
    }
SERVER

my $stream = $ng->stream;


# Workers 1 and 2; the second one has the rank 5 and looks busy, so worker 1
# is asked first.  What worker 1 does then is its plan.

sub two_workers {
    my (%plan) = @_;

    $ng->anew([ 1, 1 ], [ 2, 2, data_parallel_start_rank => 5 ]);
    $ng->book('busy', 2, dp_rank => 5, hashed(50));
    $stream->set(1, %plan);

    return;
}


# The tries of a request as the engines saw them: "engine/rank ...".

sub tries {
    my ($request) = @_;

    return join ' ', map {
        "$_->{engine}/" . ($_->{headers}{'x-data-parallel-rank'} // '-')
    } $request->seen;
}


story 'G6: another rank gets the request' => sub {
    my $body = JSON::PP->new->canonical->encode({ prompt => [ 1 .. 13 ],
        stream => \1 });

    for my $case (
        [ 'refused', '/v1/', undef ],
        [ 'refused', '/retry/', undef ],
        [ 'reset at once', '/retry/', { accept => 'reset' } ],
        [ 'reset', '/retry/', { reset => 'request' } ],
        [ 'closed', '/retry/', { fin => 'request' } ],
        [ 'hangs', '/retry/', { hold => 'request' } ],
        [ '502', '/retry/', { status => 502 } ],
        [ '503', '/retry/', { status => 503 } ],
        [ '503 with a stream', '/retry/', { status => 503, events => 5 } ],
        [ 'a bad header', '/retry/',
            { raw => "HTTP/1.1 200 OK\r\n\0: x\r\n\r\nx" } ],
        [ '503, a variable', '/variable/', { status => 503 } ],
        [ '503, buffered', '/buffered/', { status => 503 } ],
    ) {
        my ($what, $path, $plan) = @$case;
        my $name = "$what, $path";

        two_workers(%{ $plan // {} });
        $stream->close(1) if !$plan;

        my $held = $ng->begin($body, { events => 2, hold => 'event:1' },
            path => "${path}x");
        wait_until {
            grep { $_->{engine} == 2 && $_->{at} eq 'event:1' } $held->seen
        } "$name: another engine has it";

        my $last = ($held->seen)[-1];
        is $last->{headers}{'x-data-parallel-rank'}, 5, "$name: for its rank";
        is $last->{sha256}, sha256_hex($body), "$name: the same body";
        $ng->loads_become('1/0 0 0 0, 2/5 0 53 2',
            "$name: booked there alone");
        $held->release;
        is $held->receive->status, 200, "$name: answered";
        is scalar(() = $held->answer->body =~ /^data: /mg), 3,
            "$name: by one answer";

        my $log = $held->log;
        is join(' ', @$log{qw(worker rank endpoint reason)}),
            '2 5 ' . $stream->endpoint(2) . ' prompt', "$name: the variables";
        is $log->{address}, join(', ', map { '127.0.0.1:' . $stream->port($_) }
            1, 2), "$name: two were asked";
        $ng->loads_become('1/0 0 0 0, 2/5 0 50 1', "$name: freed");

        $stream->release;
        $stream->open(1) if !$plan;
    }
};


story 'each try has its own booking' => sub {
    two_workers(status => 503);

    my $held = $ng->begin({ prompt => [ 1 .. 13 ] }, { hold => 'request' },
        path => '/retry/x');
    $stream->set(1, hold => 'request', status => 503);
    wait_until { tries($held) eq '1/0 2/5' } 'the second try';
    $ng->loads_are('1/0 0 0 0, 2/5 13 53 2', 'prefill and all');
    $held->release->receive;

    my $first = $ng->begin({ prompt => [ 1 .. 13 ] }, { hold => 'request' },
        path => '/two/x');
    $first->at('request');
    $ng->loads_are('1/0 13 3 1, 2/5 0 50 1', 'the first one');
    $first->release;
    wait_until { tries($first) eq '1/0 2/5' } 'the second';
    $ng->loads_are('1/0 0 0 0, 2/5 13 53 2', 'went over');
    $first->leave;
    $ng->loads_become('1/0 0 0 0, 2/5 0 50 1',
        'and is freed when the client leaves');
};


story 'other bodies' => sub {
    two_workers(status => 503);

    for my $case ([ 'text', '{"prompt":"x"}' ], [ 'no body', undef ]) {
        my ($name, $body) = @$case;
        my $held = $ng->begin($body, { hold => 'request' },
            path => '/retry/x');

        wait_until { tries($held) eq '1/0 2/5' } "$name: the other rank";
        $ng->loads_are(defined $body ? '1/0 0 0 0, 2/5 0 50 2'
            : '1/0 0 0 0, 2/5 0 50 1', "$name: the books");
        is $held->release->receive->status, 200, "$name: answered";
        is $held->log->{reason}, 'load', "$name: the reason";
    }

    for my $count (700, 28_500, 140_000) {
        my $body = '{"token_ids":[' . join(',', 1 .. $count) . ']}';
        my $request = $ng->through($body, undef, path => '/retry/x');

        is join(' ', map { $_->{sha256} } $request->seen),
            join(' ', (sha256_hex($body)) x 2), length($body)
            . ' bytes, twice the same';
        is $request->log->{prefill}, $count, 'booked with all its tokens';
    }

    my $request = $ng->through({ prompt => [ 1 .. 4 ] }, undef,
        path => '/no-header/x', headers => ['X-Data-Parallel-Rank: 9']);
    is tries($request), '1/9 2/9', 'no header, in each try';
    $request = $ng->through({ prompt => [ 1 .. 4 ] }, undef,
        path => '/retry/x', headers => ['X-Data-Parallel-Rank: 9']);
    is tries($request), '1/0 2/5', 'the header of the client, in none';
    $request = $ng->through({ prompt => [ 1 .. 4 ] }, undef,
        path => '/own-header/x');
    is tries($request), '1/0 2/5', 'a header made of the variable, in each';
};


story 'not where nginx does not allow it' => sub {
    for my $case (
        [ 'a POST that was sent', '/v1/', { reset => 'request' }, 502 ],
        [ 'a status that is not listed', '/v1/', { status => 503 }, 503 ],
        [ 'a client error', '/retry/', { status => 400 }, 400 ],
        [ 'too many requests', '/retry/', { status => 429 }, 429 ],
        [ 'an internal error', '/retry/', { status => 500 }, 500 ],
        [ 'off', '/never/', { status => 503 }, 503 ],
        [ 'off, reset', '/never/', { reset => 'request' }, 502 ],
        [ 'off, refused', '/never/', undef, 502 ],
    ) {
        my ($name, $path, $plan, $status) = @$case;

        two_workers(%{ $plan // {} },
            $plan && $plan->{status} ? (body => '{"error":"mine"}') : ());
        $stream->close(1) if !$plan;

        my $request = $ng->through({ prompt => [ 1 .. 4 ] }, undef,
            path => "${path}x");

        is $request->answer->status, $status, "$name: $status";
        is scalar(grep { $_->{engine} == 2 } $request->seen), 0,
            "$name: nobody else is asked";
        is $request->answer->body, '{"error":"mine"}',
            "$name: the engine's own words" if $plan && $plan->{status};
        $ng->loads_become('1/0 0 0 0, 2/5 0 50 1', "$name: freed");
        $stream->open(1) if !$plan;
    }
};


story 'G6: never after the first byte' => sub {
    for my $case ([ reset => 'event:1' ], [ fin => 'event:1' ],
        [ hold => 'event:1' ], [ reset => 'event:3' ])
    {
        my ($how, $point) = @$case;

        two_workers();

        my $request = $ng->through({ prompt => [ 1 .. 4 ] },
            { events => 3, $how => $point }, path => '/retry/x');

        is tries($request), '1/0', "$how at $point: one try";
        ok $request->answer->fault, "$how at $point: a broken answer";
        like $request->answer->body, qr/\A(?:data: .*"token \d ".*\n\n)*\z/,
            "$how at $point: nothing of another one";
        $ng->loads_become('1/0 0 0 0, 2/5 0 50 1', "$how at $point: freed");
        $stream->release;
    }
};


story 'no rank is tried twice' => sub {
    $ng->anew(map { [ $_, $_, data_parallel_size => 2 ] } 1 .. 3);
    $stream->set($_, status => 503, body => 'mine') for 1 .. 3;

    for my $body ({ prompt => [ 1 .. 12 ] }, '{"prompt":"x"}', undef) {
        my $name = ref $body ? 'a prompt' : $body // 'no body';
        my $request = $ng->through($body, undef, path => '/retry/x');

        is join(' ', sort split / /, tries($request)),
            '1/0 1/1 2/0 2/1 3/0 3/1', "$name: all ranks, each once";
        is $request->answer->status . $request->answer->body, '503mine',
            "$name: the last one's answer is passed on";
        $ng->all_free("$name: freed");
    }

    my $request = $ng->through({ prompt => [ 1 .. 12 ] }, undef,
        path => '/two/x');
    is scalar($request->seen), 2, 'proxy_next_upstream_tries';
    is $request->answer->status . $request->answer->body, '503mine',
        'the last answer counts';

    $stream->close($_) for 1 .. 3;
    $request = $ng->through({ prompt => [ 1 .. 12 ] }, undef,
        path => '/retry/x');
    is $request->answer->status, 502, 'nobody can be reached';
    is scalar(grep { $_ ne 'engines' } split /, /, $request->log->{address}),
        6, 'six were tried';
    $ng->all_free;
    $stream->open($_) for 1 .. 3;

    $ng->anew([ 1, 1 ]);
    $stream->set(1, status => 503, body => 'mine');
    $request = $ng->through({ prompt => [ 1 .. 12 ] }, undef,
        path => '/retry/x');
    is tries($request), '1/0', 'there is nobody else';
    is $request->answer->status . $request->answer->body, '503mine',
        'and its answer is passed on';
    $ng->all_free;
};


story 'another worker goes before another rank' => sub {
    $ng->anew(map { [ $_, $_, data_parallel_size => 2 ] } 1 .. 2);
    $ng->book("busy-$_", 2, dp_rank => $_, hashed(50)) for 0, 1;
    $stream->set(1, status => 503);

    for my $body ({ prompt => [ 1 .. 12 ] }, '{"prompt":"x"}', undef) {
        my $request = $ng->through($body, undef, path => '/retry/x');

        is $request->answer->status, 200, 'answered';
        like tries($request), qr{^1/[01] 2/[01]$}, 'by the other worker';
    }

    $ng->release('busy-0', 'busy-1');
    $ng->all_free;
};


story 'very many ranks' => sub {
    my $many = SelRoute->new(name => 'many', stream => $stream, workers => 1,
        options => ' max_fails=0', http => "select_kv_events off;\n")->run;

    for my $ranks (8, 16, 150) {
        $many->anew([ 1, 1, data_parallel_size => $ranks ]);
        $stream->set(2);
        $stream->close(1);

        my $request = $many->through({ prompt => new_tokens(12) });
        is $request->answer->status, 502, "$ranks ranks, none to be reached";
        is scalar(grep { $_ ne 'engines' } split /, /,
            $request->log->{address}), 8, "$ranks: no more than 8 tries";
        $many->all_free;

        $many->add(2, 2);
        $many->book('busy', 2, hashed(50));
        is_deeply [ map { $many->route({ prompt => new_tokens(12) })->status }
            1 .. 5 ], [ (200) x 5 ], "$ranks: another engine is found";
        $many->release('busy');
        $many->all_free;
        $stream->open(1);
    }

    $many->finish;
};


story 'workers that are deleted meanwhile' => sub {
    two_workers();

    my $held = $ng->begin({ prompt => [ 1 .. 13 ] }, { hold => 'request' },
        path => '/retry/x', headers => ['X-Slow: 1']);
    $held->at('request');
    $ng->remove(2);
    $stream->close(1, hard => 1);
    is $held->receive->status, 502, 'the other one has gone';
    is tries($held), '1/0', 'and is not asked';
    $ng->all_free;
    $stream->open(1);

    two_workers();
    $held = $ng->begin({ prompt => [ 1 .. 13 ] },
        { hold => 'request', events => 1 }, path => '/retry/x');
    $held->at('request');
    $ng->remove(1);
    $stream->close(1, hard => 1);
    wait_until { tries($held) eq '1/0 2/5' } 'the first one has gone';
    is $ng->loads, '2/5 13 53 2', 'the second one is booked';
    $held->release;
    is $held->receive->status, 200, 'and answers';
    $ng->loads_become('2/5 0 50 1', 'freed');
    $stream->open(1);

    two_workers(status => 503);
    $held = $ng->begin({ prompt => [ 1 .. 13 ] }, undef, path => '/retry/x');
    is $held->receive->status, 200, 'as ever';
};


story 'kept connections that the engine has closed' => sub {
    my $kept = SelRoute->new(name => 'kept', workers => 1, engines => 2,
        upstream => 'keepalive 8;', route => 'proxy_next_upstream error'
        . ' timeout non_idempotent;')->run;

    $kept->anew([ 1, 1 ], [ 2, 2 ]);
    my @status = map { $kept->route({ prompt => new_tokens(12) })->status }
        1 .. 8;
    $kept->stream->queue($_, { reset => 'request' }) for 1, 2;
    push @status, map { $kept->route({ prompt => new_tokens(12) })->status }
        1 .. 2;
    $kept->stream->close($_) for 1, 2;
    $kept->stream->open($_) for 1, 2;
    push @status, map { $kept->route({ prompt => new_tokens(12) })->status }
        1 .. 8;

    is scalar(grep { $_ != 200 } @status), 0,
        'an engine that closes kept connections has not failed'
        or diag "@status";
    $kept->all_free;
    $kept->finish;
};


# Each kept connection could be one that the engine had closed.

story 'an engine that resets all connections' => sub {
    my $kept = SelRoute->new(name => 'resets', workers => 1, engines => 2,
        upstream => 'keepalive 8;', route => 'proxy_next_upstream error'
        . ' timeout non_idempotent;')->run;

    $kept->anew([ 1, 1 ], [ 2, 2 ]);
    $kept->book('busy', 2, sequence_hashes => [], isl_tokens => 1000,
        effective_prefill_tokens => 1000);

    my @held = map { $kept->begin({ prompt => new_tokens(4) },
        { hold => 'request' }) } 1 .. 6;
    $_->at('request') for @held;
    is $_->release->receive->status, 200, 'a connection is kept' for @held;
    is join(' ', map { $_->one->{engine} } @held), '1 1 1 1 1 1',
        'all by one engine';

    $kept->stream->set(1, reset => 'request');
    my $request = $kept->through({ prompt => new_tokens(4) }, undef);
    is $request->answer->status, 200, 'another engine answers';
    is join(' ', map { $_->{engine} } $request->seen), '1 1 2',
        'after one more try';
    $request = $kept->through({ prompt => new_tokens(4) }, undef);
    is join(' ', map { $_->{engine} } $request->seen), '2',
        'and the next request goes there';
    $kept->stream->set(1);
    $kept->release('busy');
    $kept->all_free;
    $kept->finish;
};


# Failures are counted by each process, so there is one.

sub counting {
    my ($options) = @_;

    my $one = SelRoute->new(name => "fails $options", workers => 1,
        stream => $stream, options => " $options", server => <<'SERVER')->run;
    location /retry/ {
        proxy_next_upstream error timeout http_502 http_503 non_idempotent;
        proxy_read_timeout 200ms;
        proxy_pass http://engines;
    }
    location /once/ {
        proxy_next_upstream off;
        proxy_read_timeout 200ms;
        proxy_pass http://engines;
    }
SERVER

    return $one;
}


# Engines that requests go to, one after the other, while the books say that
# the worker at engine 1 is the best.

sub goes_to {
    my ($one, $count, $plan) = @_;

    return join ' ', map {
        my ($request) = $one->through({ prompt => new_tokens(4) }, $plan,
            path => '/once/x');
        my @seen = $request->seen;
        @seen ? $seen[0]{engine} : '-';
    } 1 .. $count;
}

# The workers are new ones, so they have never failed.

my $last_id = 100;

sub prefer_first {
    my ($one) = @_;

    $one->anew([ ++$last_id, 1 ], [ ++$last_id, 2 ]);
    $one->book('busy', $last_id, hashed(50));

    return;
}


story 'what counts as a failure' => sub {
    my $one = counting('fail_timeout=60s');

    for my $case (
        [ 'refused', undef, 1 ],
        [ 'reset', { reset => 'request' }, 1 ],
        [ 'closed', { fin => 'request' }, 1 ],
        [ 'silence', { hold => 'request' }, 1 ],
        [ 'a bad header', { raw => "HTTP/1.1 200 OK\r\n\0: x\r\n\r\nx" },
            1 ],
        (map { [ $_, { status => $_ }, 1 ] } 500, 502, 503, 504),
        (map { [ $_, { status => $_ }, 0 ] } 200, 204, 301, 400, 401, 404,
            408, 413, 422, 429, 499, 501, 505),
    ) {
        my ($name, $plan, $fails) = @$case;

        prefer_first($one);
        $stream->set(1, %{ $plan // {} });
        $stream->close(1) if !$plan;
        goes_to($one, 1);
        $stream->release;
        $stream->open(1) if !$plan;
        $stream->set(1);

        is goes_to($one, 3), $fails ? '2 2 2' : '1 1 1',
            $name . ($fails ? ': it is left out' : ': it stays in use');
    }

    prefer_first($one);
    $stream->set(1, status => 400);
    is goes_to($one, 51), join(' ', (1) x 51),
        'G8: 50 times 400, and still in use';
    $stream->set(1, events => 5, reset => 'event:2');
    goes_to($one, 1);
    $stream->set(1);
    note 'after a stream that was broken off: ', goes_to($one, 2);

    prefer_first($one);

    for (1 .. 3) {
        my $held = $one->begin({ prompt => [ 1 .. 4 ] },
            { hold => 'request' }, path => '/v1/x');
        $held->at('request');
        $held->leave;
        $held->ended('gone');
    }

    is goes_to($one, 2), '1 1', 'clients that leave do not count';
    $one->release('busy');
    $one->all_free;
    $one->finish;
};


story 'max_fails and fail_timeout' => sub {
    my $one = counting('max_fails=3 fail_timeout=1s');

    prefer_first($one);
    $stream->set(1, status => 500);

    my $start = time;
    is goes_to($one, 5), '1 1 1 2 2', 'left out after three failures';
    $stream->set(1);
    my $last;
    my $back = poll_for(sub {
        my $now = time;
        return $now if goes_to($one, 1) eq '1';
        $last = $now;
        return 0;
    }, at_most(5));
    ok $back, 'it comes back';
    cmp_ok $back - $start, '>=', 0.9, 'not before its time';
    cmp_ok $last - $start, '<', at_most(2.5), 'and soon after';
    is goes_to($one, 3), '1 1 1', 'and stays';

    $stream->queue(1, ({ status => 500 }) x 2);
    is goes_to($one, 2), '1 1', 'two failures';
    my $then = time;
    poll_for(sub { time - $then > 1.5 }, 3);
    $stream->queue(1, ({ status => 500 }) x 2);
    is goes_to($one, 4), '1 1 1 1', 'do not count with later ones';

    $stream->set($_, status => 503) for 1, 2;
    goes_to($one, 8);
    my %asked = map { ($_ => 1) } split / /, goes_to($one, 6);
    ok !$asked{'-'}, 'with nobody else left, those that failed are asked'
        or diag join ' ', %asked;
    $stream->set($_) for 1, 2;
    unlike goes_to($one, 6), qr/-/, 'and answer';
    $one->finish;

    my $never = counting('max_fails=0');
    prefer_first($never);
    $stream->set(1, status => 500);
    is goes_to($never, 10), join(' ', (1) x 10), 'max_fails=0: never';
    $stream->set(1);
    $never->finish;
};


story 'G9: GET with one engine dead' => sub {
    my $one = SelRoute->new(name => 'get', stream => $stream)->run;

    $one->anew([ 1, 1 ], [ 2, 2 ]);
    $stream->close(1);
    is_deeply [ map { $one->route(undef, undef, path => '/v1/models')->status }
        1 .. 20 ], [ (200) x 20 ], 'always answered';
    $stream->open(1);
    $one->finish;
};


story 'G5: an engine that hangs' => sub {
    my $one = SelRoute->new(name => 'hang', stream => $stream)->run;

    $one->anew([ 1, 1 ], [ 2, 2 ]);
    $stream->set(1, hold => 'request');

    my (@hung, @answered);
    my $start = time;

    for (1 .. 20) {
        my $request = $one->begin({ prompt => new_tokens(4) },
            { events => 2 });
        my ($seen) = poll_for(sub { ($request->seen)[0] });

        push @hung, $request and next if $seen->{engine} == 1;
        push @answered, $request;
        is $request->receive->status, 200, 'the other one answers';
    }

    cmp_ok time - $start, '<', at_most(2), 'without delay';
    is scalar(@hung), 1, 'one request meets it, the others go past';
    $stream->set(1);
    $stream->release;
    is $_->receive->status, 200, 'what hung is answered in the end' for @hung;
    $one->all_free;
    $one->finish;
};


story 'G11: an engine that dies under load' => sub {
    my $load = SelRoute->new(name => 'load', stream => $stream,
        options => ' fail_timeout=60s', upstream => 'keepalive 16;',
        route => 'proxy_next_upstream error timeout non_idempotent;')->run;

    $load->anew(map { [ $_, $_ ] } 1 .. 3);
    $stream->forget;

    my $crowd = SelCrowd->start(map {
        my $client = $_;
        sub {
            my ($go_on) = @_;
            my $http = SelHttp->new(port => $load->port);
            my %count;
            while ($go_on->()) {
                my $answer = $http->post('/v1/x',
                    { prompt => [ map { $client * 1000 + $_ } 1 .. 12 ] },
                    headers => ['X-Sim: {"events":2}']);
                $count{ $answer->status == 200 && !$answer->fault
                    ? 'ok' : 'bad' }++;
            }
            return \%count;
        }
    } 1 .. 4);

    my $done = sub { $stream->ends->{done} // 0 };
    wait_until { $done->() >= 200 } '200 requests', at_most(10);
    cmp_ok scalar($stream->seen(undef, engine => 1)), '>', 20,
        'the engine has its part';
    $stream->close(1, hard => 1);
    my $then = $done->();
    wait_until { $done->() >= $then + 300 } 'and 300 more', at_most(10);

    my ($ok, $bad) = (0, 0);
    $ok += $_->{ok} // 0, $bad += $_->{bad} // 0 for $crowd->stop;
    note "$ok answered, $bad not";
    cmp_ok $bad, '<', 0.02 * ($ok + $bad), 'less than 2 % fail';
    $load->all_free;
    $stream->open(1);
    $load->finish;
};


$ng->release('busy') if $ng->loads =~ / 50 1/;

all_done;
