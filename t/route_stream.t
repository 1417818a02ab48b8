# Streams through the router: what is passed on when, what is counted of it,
# and that the books are right again however a stream ends.  Without this suite
# a client could wait for a first token that is there, an engine could go on
# generating for a client that has left, or a rank could carry the load of
# requests that are over.

use strict;
use warnings;

use Test::More;

use SelCrowd;
use SelRoute;
use SelProc qw(poll_for is_alive);

# What counts as "at once", in seconds.
my $at_once = at_most(0.1);

my $ng = SelRoute->new(name => 'main', engines => 3, connections => 256,
    options => ' max_fails=0', server => <<'SERVER')->run;
    location /buffered/ { proxy_buffering on; proxy_pass http://engines; }
    location /ignore/ {
        proxy_ignore_client_abort on;
        proxy_pass http://engines;
    }
    location /told/ {
        add_header X-Select-Process $pid;
        add_header X-Selection $select_selection_id;
        proxy_pass http://engines;
    }
    location /slow/ {
        proxy_buffering on;
        limit_rate 2k;
        proxy_pass http://engines;
    }
    location /gzip/ {
        gzip on;
        gzip_types *;
        gzip_min_length 1;
        gzip_proxied any;
        proxy_pass http://engines;
    }
    location /short/ { proxy_read_timeout 300ms; proxy_pass http://engines; }
SERVER

my $stream = $ng->stream;


sub begin {
    my ($plan, %opt) = @_;

    return $ng->begin({ prompt => new_tokens($opt{tokens} // 12),
        stream => \1 }, $plan, %opt);
}


# Tokens of an answer so far, by their numbers.

sub tokens {
    my ($request) = @_;

    my $text = $request->answer ? $request->answer->body
        : $request->client->partial;

    return join ' ', $text =~ /"token (\d+) "/g;
}


story 'nothing is delayed' => sub {
    $ng->anew([ 1, 1 ]);

    for my $case ([ '/v1/', 'chunked' ], [ '/v1/', 'close' ],
        [ '/v1/', 'length' ], [ '/ignore/', 'chunked' ])
    {
        my ($path, $framing) = @$case;
        my $name = "$path $framing";
        my $held = begin({ events => 3, framing => $framing,
            hold => [qw(headers event:1 event:2),
                $framing eq 'length' ? () : 'end'] }, path => "${path}x");

        $held->at('headers');
        $held->got(qr/\r\n\r\n/);
        unlike $held->client->partial, qr/data/, "$name: headers alone";

        for my $number (1 .. 3) {
            my $sent = now();
            $held->release;
            my $came = $held->got(qr/"token $number "/);
            cmp_ok $came - $sent, '<', $at_once, "$name: event $number";
            is tokens($held), join(' ', 1 .. $number), "$name: no other"
                if $number < 3;
        }

        if ($framing ne 'length') {
            $held->at('end');
            $held->got(qr/\[DONE\]/);
            $held->release;
        }

        $held->receive;
        is tokens($held), '1 2 3', "$name: complete";
        is $held->answer->fault, undef, "$name: and well ended";
    }

    my $held = begin({ events => 3, hold => 'event:1',
        headers => ['X-Accel-Buffering: no'] }, path => '/buffered/x');
    $held->got(qr/"token 1 "/);
    pass 'G2: X-Accel-Buffering is respected';
    $held->release->receive;
    $ng->all_free;
};


story 'prefill is complete at the first byte' => sub {
    $ng->anew([ 1, 1 ]);

    for my $path (qw(/v1/ /buffered/)) {
        my $held = begin({ events => 2,
            hold => [qw(request headers event:1)] }, path => "${path}x");

        $held->at('request');
        $ng->loads_are('1/0 12 3 1', "$path: not before the headers");
        $held->release->at('headers');
        $held->got(qr/\r\n\r\n/) if $path eq '/v1/';
        $ng->loads_are('1/0 12 3 1', "$path: nor with them");
        $held->release->at('event:1');
        $held->got(qr/data: /) if $path eq '/v1/';
        $ng->loads_become('1/0 0 3 1', "$path: but with the first byte");
        $held->release->receive;
        $ng->all_free("$path: freed at the end");
    }

    for my $case ([ 'JSON', {} ], [ 'JSON in pieces', { split => 5,
        framing => 'chunked' } ], [ 'until the end', { framing => 'close' } ],
        [ 'an error', { status => 400 } ], [ 'a large one',
            { repeat => 300_000 } ])
    {
        my ($name, $plan) = @$case;
        my $held = begin({ hold => 'event:1', framing => 'chunked', %$plan });

        $held->at('event:1');
        $ng->loads_become('1/0 0 3 1', "$name: prefill complete");
        $held->release->receive;
        is $held->answer->status, $plan->{status} // 200, "$name: answered";
        is $held->answer->fault, undef, "$name: whole";
        $ng->all_free("$name: freed");
    }

    for my $status (204, 304) {
        is begin({ status => $status })->receive->status, $status,
            "$status: without a body";
        $ng->all_free("$status: freed");
    }

    my $slow = begin({ repeat => 20_000 }, path => '/slow/x');
    $slow->ended('done');
    $ng->all_free('freed when the engine has answered,');
    unlike $slow->client->partial, qr/\}\]\}\z/,
        'though the client has not got all of it';
    $slow->leave;
    is $slow->log->{reason}, 'prompt', 'the log tells of it as ever';

    my $held = begin({ body => '', framing => 'chunked',
        hold => 'headers' });
    $held->at('headers');
    $held->got(qr/\r\n\r\n/);
    $ng->loads_are('1/0 12 3 1', 'an empty body has no first byte');
    is $held->release->receive->status, 200, 'it is answered';
    $ng->all_free('and freed');
};


story 'output blocks' => sub {
    $ng->anew([ 1, 1 ]);

    my $held = begin({ events => 9,
        hold => [ map { "event:$_" } 1 .. 9 ] }, tokens => 13);

    for my $number (1 .. 9) {
        $held->at("event:$number");
        $held->got(qr/"token $number "/);
        $ng->loads_are('1/0 0 ' . (3 + int $number / 4) . ' 1',
            "$number events");
        $held->release;
    }

    $held->receive;
    $ng->all_free;
    is $held->log->{output}, 9, 'the variable';

    for my $case (
        [ 'bytes one by one', { split => 1 } ],
        [ 'pieces of seven', { split => 7 } ],
        [ 'CR LF', { newline => "\r\n" } ],
        [ 'CR LF, one by one', { newline => "\r\n", split => 1 } ],
        [ 'comments', { comments => 1 } ],
        [ 'names and ids', { names => 1, comments => 1, split => 3 } ],
        [ 'no blank behind the colon', { tight => 1 } ],
        [ 'the same, one by one', { tight => 1, split => 1 } ],
        [ 'no [DONE]', { done => 0 } ],
        [ 'a charset', { type => 'text/event-stream; charset=utf-8' } ],
        [ 'another case', { type => 'Text/Event-Stream' } ],
        [ 'until the end', { framing => 'close' } ],
        [ 'text like events', { text => 'a\ndata: b\n\n[DONE]' } ],
        [ 'long events', { repeat => 900 } ],
        [ 'long events in pieces', { repeat => 500, split => 999 } ],
        [ 'buffered', {}, '/buffered/x' ],
        [ 'compressed', {}, '/gzip/x' ],
    ) {
        my ($name, $plan, $path) = @$case;
        my $held = begin({ events => 10, hold => 'event:10', %$plan },
            path => $path, headers => ['Accept-Encoding: gzip']);

        $held->at('event:10');
        $ng->loads_become('1/0 0 5 1', "$name: two blocks");
        $held->release->receive;
        $ng->all_free("$name: freed");
        is $held->log->{output}, 10, "$name: ten events";
    }

    $held = begin({ raw_events => [ ": a\n\n", "event: x\n\n", "id: 5\n\n",
        "dat", "a: [DONE]\n\n", "data", ": 1\n\ndata: 2", "\n\n",
        " data: 3\n\n", "xdata: 4\n\n", "data : 5\n\n" ] });
    $held->receive;
    is $held->log->{output}, 2, 'what is an event, and what is none';

    for my $case ([ 'no event stream', { type => 'text/plain' } ],
        [ 'a body of JSON', { events => undef, framing => 'chunked',
            body => "data: 1\n\n" x 20 } ])
    {
        my ($name, $plan) = @$case;
        my $held = begin({ events => 10, hold => 'end', %$plan });

        $held->at('end');
        $ng->loads_become('1/0 0 3 1', "$name: no blocks");
        $held->release->receive;
        $ng->all_free("$name: freed");
    }

    my $long = begin({ events => 20_000, hold => 'end' });
    $long->got(qr/\[DONE\]/);
    $ng->loads_are('1/0 0 5003 1', '20,000 events');
    $long->release->receive;
    ok tokens($long) eq join(' ', 1 .. 20_000), 'none is lost';

    $ng->anew([ 2, 2, model_name => 'large', block_size => 16 ]);
    $held = $ng->begin({ model => 'large', prompt => [ 1 .. 32 ] },
        { events => 33, hold => 'event:33' });
    $held->at('event:33');
    $held->got(qr/"token 33 "/);
    is $ng->loads('?model_name=large'), '2/0 0 4 1', 'larger blocks';
    $held->release->receive;

    $held = $ng->begin('{"model":"large","messages":[]}',
        { events => 33, hold => 'event:33' });
    $held->at('event:33');
    $held->got(qr/"token 33 "/);
    is $ng->loads('?model_name=large'), '2/0 0 2 1',
        'output of what has no prompt';
    $held->release->receive;
    $ng->all_free;
};


story 'what the engine reports' => sub {
    $ng->anew([ 1, 1 ]);

    my %usage = (completion_tokens => 77, prompt_tokens => 12,
        cached_tokens => 8);

    for my $case (
        [ 'at the end', { events => 5 }, 8, 77 ],
        [ 'in the last event', { events => 5, usage_inside => 1 }, 8, 77 ],
        [ 'in pieces', { events => 5, split => 1 }, 8, 77 ],
        [ 'CR LF', { events => 5, newline => "\r\n", split => 6 }, 8, 77 ],
        [ 'no [DONE]', { events => 5, done => 0 }, 8, 77 ],
        [ 'plain JSON', {}, 8, 77 ],
        [ 'plain JSON in pieces', { framing => 'chunked', split => 1 }, 8,
            77 ],
        (map { [ "behind $_ bytes of text", { repeat => $_ }, 8, 77 ] }
            1000, 4090, 10_000, 100_000),
        [ 'behind large events', { events => 3, repeat => 3000 }, 8, 77 ],
        [ 'inside of one', { events => 3, repeat => 3000,
            usage_inside => 1 }, 8, 77 ],
        [ 'none cached', { events => 1, cached_tokens => 0 }, 0, 77 ],
        [ 'no details', { events => 5, cached_tokens => undef }, '', 77 ],
        [ 'no usage', { events => 5, completion_tokens => undef }, '', 5 ],
        [ 'no usage, plain JSON', { completion_tokens => undef }, '',
            qr/^0?$/ ],
        [ 'text that looks alike', { events => 5, usage_inside => 1,
            text => '"usage":{"completion_tokens":9,'
                . '"prompt_tokens_details":{"cached_tokens":9}}' }, 8, 77 ],
        [ 'text alone that looks alike', { events => 5,
            completion_tokens => undef, text => '"usage":{"completion_tokens"'
                . ':9,"prompt_tokens_details":{"cached_tokens":9}}' }, '',
            5 ],
        [ 'buffered', { events => 5 }, 8, 77, '/buffered/x' ],
        [ 'compressed', { events => 5 }, 8, 77, '/gzip/x' ],
    ) {
        my ($name, $plan, $cached, $output, $path) = @$case;
        my $request = begin({ %usage, %$plan }, path => $path,
            headers => ['Accept-Encoding: gzip']);

        is $request->receive->status, 200, "$name: answered";
        my $log = $request->log;
        is $log->{cached}, $cached, "$name: cached tokens";
        ref $output ? like $log->{output}, $output, "$name: output tokens"
            : is $log->{output}, $output, "$name: output tokens";
    }

    my $usage = '"usage":{"prompt_tokens":9,"total_tokens":12,'
        . '"completion_tokens":3,';
    for my $case (
        [ 'another order', "{$usage\"prompt_tokens_details\":{\"x\":[1],"
            . '"cached_tokens":4}},"choices":[]}', 4, 3 ],
        [ 'null', "{$usage\"prompt_tokens_details\":null}}", '', 3 ],
        [ 'null usage', '{"usage":null}', '', 1 ],
        [ 'no numbers', '{"usage":{"completion_tokens":"x",'
            . '"prompt_tokens_details":{"cached_tokens":-1}}}', '', 1 ],
        [ 'cut off', "{$usage\"prompt_tokens_details\":{\"cached_tok", '',
            qr/^[13]$/ ],
    ) {
        my ($name, $text, $cached, $output) = @$case;
        my $request = begin({ raw_events => ["data: $text\n\n",
            "data: [DONE]\n\n"] });

        is $request->receive->status, 200, "$name: answered";
        is $request->log->{cached}, $cached, "$name: cached tokens";
        ref $output ? like $request->log->{output}, $output, "$name: output"
            : is $request->log->{output}, $output, "$name: output";
    }

    my $request = begin({ events => 9, hold => 'event:6' });
    $request->got(qr/"token 6 "/);
    $request->leave;
    is $request->log->{output}, 6, 'of a stream that was broken off';
    $ng->all_free;
};


story 'G3: a client that leaves' => sub {
    $ng->anew([ 1, 1 ]);

    for my $case ([ 'request', '12 3 1' ], [ 'headers', '12 3 1' ],
        [ 'event:1', '0 3 1' ], [ 'event:5', '0 4 1' ], [ 'end', '0 4 1' ])
    {
        my ($point, $load) = @$case;

        for my $path (qw(/v1/ /buffered/)) {
            my $held = begin({ events => 5, hold => $point },
                path => "${path}x");

            $held->at($point);
            $held->got($point eq 'headers' ? qr/\r\n\r\n/ : $point =~ /(\d)/
                ? qr/"token $1 "/ : qr/DONE/)
                if $path eq '/v1/' && $point ne 'request';
            $ng->loads_become("1/0 $load", "$path $point: booked");

            my $left = $held->leave;
            my $end  = $held->ended('gone')->{times}{end};
            cmp_ok $end - $left, '<', $at_once,
                "G3: $path $point: the engine is told at once";
            $ng->all_free("$path $point: and the booking is freed");
        }
    }

    my $held = begin({ hold => 'request' }, path => '/ignore/x');
    $held->at('request');
    $held->leave;
    $ng->loads_are('1/0 12 3 1', 'proxy_ignore_client_abort: it goes on');
    $held->release->ended('done');
    $ng->all_free('and is freed at its end');
    is $stream->report(1)->{open}, 0, 'no connection is left';
};


story 'I9: a thousand clients that leave' => sub {
    $ng->anew(map { [ $_, $_ ] } 1 .. 3);
    $stream->forget;

    for my $round (1 .. 20) {
        my @held = map { $ng->begin({ prompt => new_tokens(12) },
            { events => 9, hold => [qw(request event:1 event:9)[ $_ % 3 ]] },
            tag => 'thousand') } 1 .. 50;

        poll_for(sub {
            ($stream->ends(tag => 'thousand')->{open} // 0) == 50
        }) or die "the requests did not arrive\n";

        for my $number (0 .. 49) {
            $held[$number]->got(qr/"token/) if ($number + 1) % 3;
            $held[$number]->leave;
        }

        poll_for(sub { !$stream->ends(tag => 'thousand')->{open} });
    }

    is_deeply $stream->ends(tag => 'thousand'), { gone => 1000 },
        'each engine was told of each';
    $ng->all_free('a thousand streams leave no load');
    is_deeply [ map { $stream->report($_)->{open} } 1 .. 3 ], [ 0, 0, 0 ],
        'no connection to an engine is left';
    is_deeply [ map { $ng->route({ prompt => new_tokens(12) })->status }
        1 .. 10 ], [ (200) x 10 ], 'others are served';
};


story 'an engine that breaks off' => sub {
    $ng->anew([ 1, 1 ]);

    for my $how (qw(reset fin)) {
        for my $point (qw(headers event:1 event:5 end)) {
            my $request = begin({ events => 5, $how => $point });
            my $answer  = $request->receive;

            ok $answer->status == 200 && $answer->fault
                || $answer->status == 0 || $answer->status == 502,
                "$how at $point: the client sees it"
                or diag $answer->status, ' ', $answer->fault // '-';
            is scalar($request->seen), 1, "$how at $point: nobody else is asked"
                if $point ne 'headers';
            $ng->all_free("$how at $point: and the booking is freed");
        }
    }

    my $request = begin({ events => 5, hold => 'event:2' },
        path => '/short/x');
    ok $request->receive->fault, 'silence in the midst: broken off';
    is tokens($request), '1 2', 'behind what had come';
    $ng->all_free('and freed');
    $stream->release;
};


story 'a process that dies' => sub {
    $ng->anew([ 1, 1 ], [ 2, 2 ]);

    my @held = map { begin({ events => 9, hold => 'event:5' }) } 1 .. 8;
    push @held, map { begin({ hold => 'request' }) } 1 .. 4;
    $_->at('event:5') for @held[ 0 .. 7 ];
    $_->at('request') for @held[ 8 .. 11 ];

    my ($victim) = $held[0]->process;
    my ($index) = grep { ($ng->workers)[$_] == $victim } 0, 1;
    my @lost = grep { $held[$_]->process == $victim } 0 .. 7;
    my @stay = grep { $held[$_]->process != $victim } 0 .. 7;

    $ng->kill_worker($index);
    $ng->meet;
    $held[$_]->ended('gone') for @lost;
    pass 'the engines of ' . @lost . ' streams are told';
    is_deeply [ grep { $stream->one($held[$_]->tag)->{end} } @stay ], [],
        'those of the other process go on';

    my $rest = sub { scalar grep { !$_->one->{end} } @held };
    wait_until {
        my ($loads, $sum) = ($ng->loads, 0);
        $sum += $1 while $loads =~ m{\d/0 \d+ \d+ (\d+)}g;
        $sum == $rest->();
    } 'their bookings alone are left', at_most(5);

    for (grep { !$_->one->{end} } @held) {
        $_->release;
        is $_->receive->status, 200, 'and end well';
    }

    $ng->all_free;
};


story 'a process that is told to end at once' => sub {
    $ng->anew([ 1, 1 ]);

    my @held = map { begin({ events => 9, hold => 'event:5' }) } 1 .. 8;
    $_->at('event:5') for @held;
    $_->got(qr/"token 5 "/) for @held;

    my $pid = $held[0]->process;
    my ($index) = grep { ($ng->workers)[$_] == $pid } 0, 1;
    my @gone = grep { $_->process == $pid } @held;
    my @rest = grep { $_->process != $pid } @held;

    $ng->kill_worker($index, 'TERM');
    $ng->meet;
    $_->ended('gone') for @gone;
    pass 'its engines are told';

    my $want = scalar @rest;
    wait_until { $ng->loads =~ m{^1/0 0 \d+ $want$} } 'its bookings end';
    $_->release for @rest;
    is scalar(grep { $_->receive->fault } @rest), 0,
        'the streams of the other one end well';
    $ng->all_free;
};


story 'reload' => sub {
    $ng->anew([ 1, 1 ]);

    my @held = (begin({ events => 9, hold => [qw(event:5 event:6)] }),
        begin({ events => 2, hold => 'request' }));
    $held[0]->at('event:5');
    $held[0]->got(qr/"token 5 "/);
    $held[1]->at('request');

    my @old = $ng->reload;
    $ng->meet;
    $ng->loads_are('1/0 12 7 2', 'new processes know the bookings');
    $held[0]->release->at('event:6');
    $held[0]->got(qr/"token 6 "/);
    is $ng->route({ prompt => new_tokens(4) }, { events => 1 })->status, 200,
        'and route';
    $_->release for @held;
    is join(' ', map { $_->receive->status . ' ' . tokens($_) } @held),
        '200 1 2 3 4 5 6 7 8 9 200 1 2', 'old streams end whole';
    $ng->all_free;
    wait_until { !grep { is_alive($_) } @old } 'I6: then their processes end';

    $ng->reload(main => 'worker_shutdown_timeout 1s;');
    $ng->meet;

    my $held = begin({ events => 9, hold => 'event:5' });
    $held->at('event:5');
    $held->got(qr/"token 5 "/);
    @old = $ng->reload;
    $ng->meet;
    $ng->loads_are('1/0 0 4 1', 'I8: it streams on for a while');
    $held->ended('gone');
    ok $held->receive->fault, 'I8: and is broken off after it';
    $ng->all_free('I8: freed');
    wait_until { !grep { is_alive($_) } @old } 'I8: the processes end';
    $ng->expect_log(qr/open socket #\d+ left in connection/);
};


story 'a worker that is deleted' => sub {
    $ng->anew([ 1, 1 ], [ 2, 2 ]);
    $ng->book('busy', 2, hashed(99));

    my $held = begin({ events => 9, hold => [qw(event:5 event:8)] });
    $held->at('event:5');
    my $early = begin({ events => 1, hold => 'request' });
    is $early->at('request')->{engine}, 1, 'both streams are there';

    $ng->remove(1);

    my @new = map { begin({ events => 1 }) } 1 .. 4;
    is_deeply [ map { $_->receive->status } @new ], [ (200) x 4 ],
        'new requests are served';
    is_deeply [ map { $_->one->{engine} } @new ], [ (2) x 4 ], 'by another';
    is $ng->loads, '2/0 0 99 1', 'there is no load of it';

    $held->release->at('event:8');
    $ng->add(1, 1);
    $ng->loads_are('1/0 0 0 0, 2/0 0 99 1', 'nor when it returns');

    my $fresh = begin({ events => 1, hold => 'request' });
    is $fresh->at('request')->{engine}, 1, 'it is used again';
    $held->release;
    is $held->receive->status . ' ' . tokens($held),
        '200 1 2 3 4 5 6 7 8 9', 'the old stream ends whole';
    $early->release;
    is $early->receive->status, 200, 'and so does the other';
    is $early->answer->fault, undef, 'whole';
    $ng->loads_are('1/0 12 3 1, 2/0 0 99 1', 'what is new stays booked');
    $fresh->release->receive;
    $ng->release('busy');
    $ng->all_free;
};


story 'a booking that others would end' => sub {
    $ng->anew([ 1, 1 ]);

    my $held = begin({ events => 9, hold => [qw(event:1 event:8)] },
        path => '/told/x');
    $held->at('event:1');
    $held->got(qr/"token 1 "/);
    my ($id) = $held->client->partial =~ /^X-Selection: (\S+)\r$/m;
    is $ng->ask("DELETE /reservations/$id")->status, 404,
        'it is none of the API';
    is $ng->ask("POST /reservations/$id/output_block")->status, 404,
        'for any call';
    $ng->loads_are('1/0 0 3 1', 'nothing is changed');
    $held->release->at('event:8');
    $held->got(qr/"token 8 "/);
    $ng->loads_are('1/0 0 5 1', 'its output counts');
    is $held->release->receive->fault, undef, 'the stream ends well';
    is $held->log->{output}, 9, 'and is counted for the log';
    is $held->log->{selection}, $id, 'under its name';
    $ng->all_free;
};


# Only what nobody watches over expires.  The booking by the API tells when
# the time is over.

story 'a stream that takes long' => sub {
    $ng->anew([ 1, 1 ]);
    $ng->reload(main => '', http => $ng->{http}
        =~ s/^/select_reservation_expire 1s;\n/r);
    $ng->meet;

    my $held = begin({ events => 9, hold => [qw(event:1 event:8)] });
    $held->at('event:1');
    $held->got(qr/"token 1 "/);
    $ng->book('mark', 1, hashed(2));
    $ng->loads_become('1/0 0 3 1', 'it does not expire');
    $held->release->at('event:8');
    $held->got(qr/"token 8 "/);
    $ng->loads_are('1/0 0 5 1', 'its output counts');
    is $held->release->receive->fault, undef, 'it ends well';
    $ng->all_free('and then is freed');
};


story 'a reload that takes the router away' => sub {
    my $gone = SelRoute->new(name => 'gone', stream => $stream)->run;

    $gone->anew([ 1, 1 ]);
    my $held = $gone->begin({ prompt => new_tokens(12) },
        { events => 9, hold => [qw(event:1 event:8)] });
    $held->at('event:1');
    $held->got(qr/"token 1 "/);

    my $server = 'server 127.0.0.1:' . $stream->port(2);
    my @old = $gone->reload(http =>
        $gone->{http} =~ s/select_route selector/$server/r);
    $gone->meet;
    is $gone->through({ prompt => [ 1 .. 4 ] }, undef)->one->{engine}, 2,
        'nginx chooses by itself';
    $gone->loads_are('1/0 0 3 1', 'the old stream is booked');
    $held->release->at('event:8');
    $held->got(qr/"token 8 "/);
    $gone->loads_are('1/0 0 5 1', 'and counted');
    is $held->release->receive->fault, undef, 'it ends well';
    $gone->all_free;
    wait_until { !grep { is_alive($_) } @old } 'and its process with it';
    $gone->finish;
};


# Clients that wait, leave, and meet engines that break off, while worker
# processes are killed and replaced, and workers go and come.

story 'all of it together' => sub {
    my $seed = $ENV{SEL_SEED} || int rand 1e6;
    note "SEL_SEED=$seed";

    my $storm = SelRoute->new(name => 'storm', stream => $stream,
        connections => 256, options => ' fail_timeout=1s', http => <<'HTTP',
    proxy_next_upstream error timeout http_503 non_idempotent;
    proxy_read_timeout 1s;
HTTP
        upstream => 'keepalive 4;')->run;

    $storm->anew(map { [ $_, $_, data_parallel_size => 2 ] } 1 .. 3);
    $stream->forget;

    my @plans = ({ events => 3 }, { events => 40, interval => 0.005 },
        { events => 9, delay => 0.02 }, { events => 9, reset => 'event:3' },
        { events => 9, fin => 'event:5' }, { status => 500 },
        { status => 503 }, { reset => 'request' }, { echo => 1 },
        { events => 9, split => 5 });

    my $crowd = SelCrowd->start(map {
        my $client = $_;
        sub {
            my ($go_on) = @_;
            my ($whole, $other) = (0, 0);

            srand $seed + $client;

            while ($go_on->()) {
                my $plan    = $plans[ rand @plans ];
                my $request = $storm->begin(rand() < 0.7
                    ? { prompt => [ map { int rand 1000 } 1 .. rand 200 ] }
                    : rand() < 0.5 ? '{"messages":[]}' : undef, $plan,
                    tag => 'storm');

                if (rand() < 0.3) {
                    select undef, undef, undef, rand 0.02;
                    $request->leave;

                } else {
                    my $answer = $request->receive;
                    $answer->status == 200 && !$answer->fault ? $whole++
                        : $other++;
                }
            }

            return [ $whole, $other ];
        }
    } 1 .. 4);

    my $goes_on = sub {
        my $ends = $stream->ends(tag => 'storm');
        my $then = ($ends->{done} // 0) + 60;
        wait_until { ($stream->ends(tag => 'storm')->{done} // 0) >= $then }
            $_[0], at_most(10);
    };

    for my $round (1 .. 2) {
        $goes_on->('requests are served');
        $storm->kill_worker($round % 2);
        $goes_on->('also by the process that replaces another');
        $storm->remove(2);
        $goes_on->('by two workers');
        $storm->reload;
        $goes_on->('by new processes');
        $storm->add(2, 2, data_parallel_size => 2);
    }

    my ($whole, $other) = (0, 0);
    ($whole, $other) = ($whole + $_->[0], $other + $_->[1]) for $crowd->stop;
    note "$whole answers were whole, $other were not";
    $storm->meet;
    $storm->all_free('at the end no load is left');
    wait_until { !$stream->ends(tag => 'storm')->{open} } 'nor a request';
    $storm->expect_log(qr/was locked by/);
    $storm->finish;
};

all_done;
