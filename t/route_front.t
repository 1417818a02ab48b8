# The router among what nginx does besides: TLS to the engines, HTTP/2 to the
# clients, access control, limits, mirrors, error pages, caches, subrequests,
# and the other lines of an upstream block.  Without this suite a request that
# was refused could stay booked, one that is sent twice be booked once, or a
# configuration that looks right route by chance.

use strict;
use warnings;

use File::Temp qw(tempdir);
use Test::More;

use SelProc qw(poll_for spawn exit_status);
use SelRoute;
use SelStream;

my $dir = tempdir('selfront-XXXXXX', TMPDIR => 1, CLEANUP => 1);

is system("openssl req -x509 -newkey rsa:2048 -nodes -days 2"
    . " -subj /CN=engines -addext subjectAltName=DNS:engines,DNS:localhost"
    . " -keyout $dir/key -out $dir/crt > /dev/null 2>&1"), 0, 'a certificate';

my $ng = SelRoute->new(name => 'front', engines => 2, workers => 2,
    options => ' max_fails=0',
    http => <<'HTTP', server => <<'SERVER')->run;
    limit_req_zone $http_x_user zone=users:1m rate=1r/m;
    limit_conn_zone $http_x_user zone=together:1m;
    proxy_cache_path $TEST_NGINX_SERVER_ROOT/cache keys_zone=answers:1m;
    server {
        listen 127.0.0.1:$TEST_NGINX_RAND_PORT_1;
        location = /auth {
            if ($http_x_user = bad) { return 403; }
            if ($http_x_user = none) { return 401; }
            return 204;
        }
        location / { return 200 plain; }
    }
    server {
        listen 127.0.0.1:$TEST_NGINX_RAND_PORT_2 http2;
        access_log $TEST_NGINX_SERVER_ROOT/logs/route.log route;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_buffering off;
        location / { proxy_pass http://engines; }
    }
HTTP
    location = /auth {
        internal;
        proxy_pass http://127.0.0.1:$TEST_NGINX_RAND_PORT_1/auth;
        proxy_pass_request_body off;
        proxy_set_header Content-Length "";
    }
    location /auth/ { auth_request /auth; proxy_pass http://engines; }
    location = /routed {
        internal;
        proxy_pass http://engines/routed;
        proxy_pass_request_body off;
        proxy_set_header Content-Length "";
    }
    location /routed/ { auth_request /routed; proxy_pass http://engines; }
    location /limit/ {
        limit_req zone=users;
        limit_req_status 429;
        proxy_pass http://engines;
    }
    location /together/ {
        limit_conn together 1;
        limit_conn_status 429;
        proxy_pass http://engines;
    }
    location /deny/ { deny all; proxy_pass http://engines; }
    location /large/ { client_max_body_size 10; proxy_pass http://engines; }
    location /mirror/ { mirror /copy; proxy_pass http://engines; }
    location = /copy {
        internal;
        proxy_pass http://127.0.0.1:$TEST_NGINX_RAND_PORT_3/copy;
    }
    location /twice/ { mirror /second; proxy_pass http://engines; }
    location = /second { internal; proxy_pass http://engines/second; }
    location /shadow/ {
        mirror /second;
        proxy_pass http://127.0.0.1:$TEST_NGINX_RAND_PORT_1;
    }
    location /page/ {
        proxy_intercept_errors on;
        error_page 500 502 503 504 = /sorry;
        proxy_pass http://engines;
    }
    location = /sorry { return 200 "sorry\n"; }
    location /again/ {
        proxy_intercept_errors on;
        error_page 500 502 503 504 = @again;
        proxy_pass http://engines;
    }
    location @again {
        proxy_intercept_errors off;
        proxy_pass http://engines;
    }
    location /cached/ {
        proxy_cache answers;
        proxy_cache_valid 200 1m;
        proxy_buffering on;
        proxy_pass http://engines;
    }
    location /rate/ { limit_rate 100k; proxy_pass http://engines; }
    location /parts/ { ssi on; ssi_types *; proxy_pass http://engines; }
    location /10/ { proxy_http_version 1.0; proxy_pass http://engines; }
SERVER

my $stream = $ng->stream;
my $plain  = SelStream->start;


sub begin {
    my ($plan, $path, %opt) = @_;

    return $ng->begin({ prompt => new_tokens(12) }, $plan,
        path => $path, %opt);
}

sub through {
    my $request = begin(@_);

    $request->receive;

    return $request;
}


story 'I14: auth_request' => sub {
    $ng->anew([ 1, 1 ]);

    for my $case ([ 'good', 200 ], [ 'bad', 403 ], [ 'none', 401 ]) {
        my ($user, $status) = @$case;
        my $request = through({ events => 2 }, '/auth/x',
            headers => ["X-User: $user"]);

        is $request->answer->status, $status, "$user: $status";
        is scalar($request->seen), $status == 200 ? 1 : 0,
            "$user: the engine";
        is $request->log->{selection} ne '' ? 'booked' : '',
            $status == 200 ? 'booked' : '', "$user: the books";
        is $request->log->{prefill}, $status == 200 ? 12 : '',
            "$user: its prompt";
    }

    my $held = begin({ events => 2, hold => 'event:1' }, '/auth/x');
    $held->at('event:1');
    $held->got(qr/data/);
    $ng->loads_are('1/0 0 3 1', 'one booking');
    $held->release->receive;
    $ng->all_free;

    my $request = through({ events => 2 }, '/routed/x');
    is $request->answer->status, 200, 'the subrequest is routed, too';
    is join(' ', sort map { $_->{path} } $request->seen),
        '/routed /routed/x', 'both were sent';
    $ng->all_free('and are freed');
};


story 'limits and refusals' => sub {
    $ng->anew([ 1, 1 ]);

    my @requests = map { through({ events => 2 }, '/limit/x',
        headers => ['X-User: a']) } 1 .. 3;
    is join(' ', map { $_->answer->status } @requests), '200 429 429',
        'limit_req';
    is join(' ', map { scalar(my @seen = $_->seen) } @requests), '1 0 0',
        'the engine has one';
    is join(' ', map { $_->log->{selection} eq '' ? 0 : 1 } @requests),
        '1 0 0', 'the others were not booked';

    my $held = begin({ events => 2, hold => 'request' }, '/together/x',
        headers => ['X-User: a']);
    $held->at('request');
    my $request = through(undef, '/together/x', headers => ['X-User: a']);
    is $request->answer->status, 429, 'limit_conn';
    $ng->loads_are('1/0 12 3 1', 'one is booked');
    is $held->release->receive->status, 200, 'and answered';

    for my $case ([ '/deny/x', 403 ], [ '/large/x', 413 ]) {
        my ($path, $status) = @$case;
        my $request = through(undef, $path);

        is $request->answer->status, $status, "$path: $status";
        is scalar($request->seen), 0, "$path: not sent";
        is $request->log->{selection}, '', "$path: not booked";
    }

    $ng->all_free;
};


story 'mirror' => sub {
    $ng->anew([ 1, 1 ]);

    my $mirror = $ng->port(3);
    $plain->call('open', engine => 'mirror', port => $mirror);

    my $request = through({ events => 2 }, '/mirror/x');
    is $request->answer->status, 200, 'answered';
    my $copy = $plain->wait_end($request->tag);
    is $copy->{path}, '/copy', 'a copy went elsewhere';
    is $copy->{sha256}, $request->one->{sha256}, 'the same body';
    is $request->log->{reason}, 'prompt', 'the request was routed';
    $ng->all_free;

    my $held = begin({ events => 2, hold => 'request' }, '/twice/x');
    wait_until { 2 == grep { $_->{at} eq 'request' } $held->seen }
        'a copy to the same engines';
    $ng->loads_are('1/0 24 3 2', 'is booked by itself');
    is join(' ', sort map { $_->{path} } $held->seen), '/second /twice/x',
        'both are sent';
    is join(' ', map { $_->{headers}{'x-data-parallel-rank'} } $held->seen),
        '0 0', 'for a rank';
    $held->release->receive;
    is $held->answer->status, 200, 'answered';
    $stream->release;
    $ng->all_free('and freed');

    $request = through({ events => 2 }, '/shadow/x');
    is $request->answer->body, 'plain', 'the copy alone is routed';
    wait_until { ($request->seen)[0] } 'it comes';
    is $request->one->{path}, '/second', 'where it belongs';
    $ng->all_free('freed');

    $ng->anew;
    $request = through(undef, '/shadow/x');
    is $request->answer->body, 'plain', 'nobody to copy to';
    is scalar($request->seen), 0, 'so there is no copy';
};


story 'error pages' => sub {
    $ng->anew([ 1, 1 ], [ 2, 2, data_parallel_start_rank => 4 ]);
    $ng->book('busy', 2, dp_rank => 4, hashed(50));

    my @errors = ([ '500', { status => 500 } ],
        [ 'reset', { reset => 'request' } ], [ 'refused', undef ]);

    for my $case (@errors) {
        my ($name, $plan) = @$case;

        $stream->set(1, %{ $plan // {} });
        $stream->close(1) if !$plan;

        my $request = through(undef, '/page/x');

        if ($plan) {
            is $request->answer->status . ' ' . $request->answer->body,
                "200 sorry\n", "$name: a page";
            $ng->loads_become('1/0 0 0 0, 2/4 0 50 1', "$name: freed");
        }

        # The first engine is asked again: this is another request to nginx.
        $stream->set(1);
        $stream->queue(1, $plan) if $plan;
        my $again = begin({ events => 2 }, '/again/x');
        is $again->receive->status, 200, "$name: routed anew";
        $ng->loads_become('1/0 0 0 0, 2/4 0 50 1', "$name: and freed");
        is scalar($again->seen), $plan ? 2 : 1, "$name: after one try";
        is $again->log->{reason}, 'prompt', "$name: by its prompt";

        $stream->open(1) if !$plan;
    }

    $ng->release('busy');
    $ng->anew([ 1, 1 ]);
    $stream->set(1, status => 500);
    my $request = through(undef, '/again/x');
    is $request->answer->status, 500, 'the second one fails, too';
    is scalar($request->seen), 2, 'two were made';
    $ng->all_free;
    $stream->set(1);

    $ng->anew([ 1, 1 ]);

    for my $case ([ '/sorry', 'sorry' ], [ '/v1/other', '"choices"' ]) {
        my ($path, $text) = @$case;

        $stream->queue(1, { headers => "X-Accel-Redirect: $path" });
        $request = through({}, '/v1/x');
        is $request->answer->status, 200, "X-Accel-Redirect: $path";
        like $request->answer->body, qr/$text/, 'answered there';
        is join(' ', map { $_->{path} } $request->seen), $path eq '/sorry'
            ? '/v1/x' : "/v1/x $path", 'the engines';
        $ng->all_free('and freed');
    }

    $ng->anew;
    $request = through(undef, '/v1/x');
    is $request->answer->status, 503, 'nobody to choose';
};


story 'caches, rates and old protocols' => sub {
    $ng->anew([ 1, 1 ]);

    my @gets = map { $ng->through(undef, undef, path => '/cached/models') }
        1 .. 3;
    is join(' ', map { $_->answer->status } @gets), '200 200 200', 'answered';
    is join(' ', map { scalar(my @seen = $_->seen) } @gets), '1 0 0',
        'by the cache';
    $ng->all_free;

    my $request = through({ events => 3, repeat => 900 }, '/rate/x');
    is scalar(() = $request->answer->body =~ /^data: /mg), 4, 'limit_rate';
    $request = through({ events => 3, framing => 'close' }, '/10/x');
    is scalar(() = $request->answer->body =~ /^data: /mg), 4,
        'HTTP/1.0 to the engine';

    my $client = $ng->connection;
    $client->send_raw("POST /v1/x HTTP/1.0\r\nX-Id: old\r\n"
        . "X-Sim: {\"events\":3}\r\nContent-Length: 20\r\n\r\n"
        . '{"prompt":[1,2,3,4]}');
    is scalar(() = $client->receive->body =~ /^data: /mg), 4,
        'HTTP/1.0 in front';
    is $stream->one('old')->{length}, 20, 'the body';
    $ng->all_free;
};


story 'subrequests' => sub {
    $ng->anew([ 1, 1, data_parallel_start_rank => 3 ]);

    my $parts = join '', map { qq{<!--# include virtual="/v1/$_" -->} } 1, 2;
    my $request = through({ body => "($parts)", headers => 'X: y' },
        '/parts/x');
    is $request->answer->status, 200, 'a page of parts';
    is $request->answer->body, "(($parts)($parts))", 'whole';
    is join(' ', sort map { $_->{path} } $request->seen),
        '/parts/x /v1/1 /v1/2', 'three requests';
    is join(' ', map { $_->{headers}{'x-data-parallel-rank'} }
        $request->seen), '3 3 3', 'each for the rank';
    $ng->all_free;
};


# HTTP/2: curl where an ordinary client will do, and frames by hand where one
# stream of several has to end.

sub curl {
    my ($tag, @args) = @_;

    return spawn(output => "$dir/$tag", command => [ 'curl', '-sN',
        '--http2-prior-knowledge', '-m', 10, '-w', '%{http_version}',
        '-H', "X-Id: $tag", @args, 'http://127.0.0.1:' . $ng->port(2)
        . '/v1/x' ]);
}

sub said {
    my ($tag) = @_;

    return SelLog->new("$dir/$tag")->text;
}


package H2 {
    use IO::Socket::INET;

    sub new {
        my ($class, $port) = @_;

        my $sock = IO::Socket::INET->new("127.0.0.1:$port") or die "h2: $!";
        my $self = bless { sock => $sock, next => 1 }, $class;

        $sock->print("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" . frame(4, 0, 0, ''));

        return $self;
    }

    sub frame {
        my ($type, $flags, $stream, $payload) = @_;

        return substr(pack('N', length $payload), 1)
            . pack('CCN', $type, $flags, $stream) . $payload;
    }

    # A header that is in no table.

    sub field {
        my ($name, $value) = @_;

        return join '', "\0", map { length() < 127 ? chr(length) . $_
            : chr(127) . chr(length() - 127) . $_ } $name, $value;
    }

    sub post {
        my ($self, $body, %headers) = @_;

        my $stream = $self->{next};

        $self->{next} += 2;
        $self->{sock}->print(frame(1, 4, $stream, join '',
            field(':method', 'POST'), field(':scheme', 'http'),
            field(':path', '/v1/x'), field(':authority', 'x'),
            map { field($_, $headers{$_}) } sort keys %headers),
            frame(0, 1, $stream, $body));
        $self->{sock}->flush;

        return $stream;
    }

    sub cancel {
        my ($self, $stream) = @_;

        $self->{sock}->print(frame(3, 0, $stream, pack 'N', 8));
        $self->{sock}->flush;

        return;
    }

    # Takes what has come: bodies by stream in {data}, ended ones in {end}.

    sub take {
        my ($self) = @_;

        $self->{sock}->blocking(0);
        1 while sysread $self->{sock}, $self->{buffer}, 65536,
            length($self->{buffer} //= '');
        $self->{sock}->blocking(1);

        while (length $self->{buffer} >= 9) {
            my ($high, $low, $type, $flags, $stream)
                = unpack 'CnCCN', $self->{buffer};
            my $size = ($high << 16) + $low;

            last if length $self->{buffer} < 9 + $size;
            my $payload = substr substr($self->{buffer}, 0, 9 + $size, ''), 9;

            $self->{data}{$stream} .= $payload if $type == 0;
            $self->{end}{$stream} = 1 if $type <= 1 && $flags & 1;
            $self->{reset}{$stream} = 1 if $type == 3;
        }

        return $self;
    }
}


story 'HTTP/2 in front' => sub {
    $ng->anew([ 1, 1 ]);

    my $body = '{"prompt":[' . join(',', 1 .. 12) . ']}';
    my $pid = curl('h2', '-d', $body, '-H', 'X-Data-Parallel-Rank: 7', '-H',
        'X-Sim: {"events":5,"hold":"event:5"}');
    $stream->wait_at('h2', 'event:5');
    wait_until { said('h2') =~ /"token 5 "/ } 'events come as they are made';
    $ng->loads_are('1/0 0 4 1', 'booked and counted');
    $stream->release('h2');
    is exit_status($pid), 0, 'it ends well';
    like said('h2'), qr/\[DONE\]\s+2\z/, 'whole, by HTTP/2';
    is $stream->one('h2')->{length}, length $body, 'the body was whole';
    is $stream->one('h2')->{headers}{'x-data-parallel-rank'}, 0, 'the rank';
    $ng->all_free;

    $pid = curl('large', '-d', '{"prompt":[' . join(',', 1 .. 20_000) . ']}',
        '-H', 'X-Sim: {"events":1}');
    is exit_status($pid), 0, '100 kB';
    is +($ng->lines('large'))[0]{prefill}, 20_000, 'all tokens';

    my $h2 = H2->new($ng->port(2));
    my @ids = map { $h2->post($body, 'x-id' => "two-$_",
        'x-sim' => '{"events":5,"hold":"event:2"}') } 1, 2;
    $stream->wait_at("two-$_", 'event:2') for 1, 2;
    wait_until {
        !grep { ($h2->take->{data}{$_} // '') !~ /"token 2 "/ } @ids
    } 'two streams';
    $ng->loads_are('1/0 0 3 2', 'are booked');

    my $left = now();
    $h2->cancel($ids[0]);
    my $end = $stream->wait_end('two-1', 'gone')->{times}{end};
    cmp_ok $end - $left, '<', at_most(0.1),
        'G3: one is cancelled, its engine told at once';
    $ng->loads_become('1/0 0 3 1', 'and freed');
    $stream->release('two-2');
    wait_until { $h2->take->{end}{ $ids[1] } } 'the other one ends';
    like $h2->{data}{ $ids[1] }, qr/"token 5 ".*\[DONE\]/s, 'whole';
    $ng->all_free;

    @ids = map { $h2->post($body, 'x-id' => "all-$_",
        'x-sim' => '{"events":5,"hold":"request"}') } 1 .. 3;
    $stream->wait_at("all-$_", 'request') for 1 .. 3;
    $ng->loads_are('1/0 36 3 3', 'three of them');
    $h2->{sock}->close;
    $stream->wait_end("all-$_", 'gone') for 1 .. 3;
    $ng->all_free('a client that leaves frees all its streams');
};


story 'TLS to the engines' => sub {
    my %tls = (certificate => "$dir/crt", key => "$dir/key");
    my $secure = SelRoute->new(name => 'tls', engines => 2, tls => \%tls,
        workers => 1, options => ' max_fails=0',
        server => <<"SERVER")->run;
    proxy_ssl_verify on;
    proxy_ssl_trusted_certificate $dir/crt;
    proxy_ssl_server_name on;
    location /wrong/ { proxy_ssl_name other; proxy_pass https://engines; }
    location /retry/ {
        proxy_next_upstream error timeout http_503 non_idempotent;
        proxy_pass https://engines;
    }
    location /variable/ { set \$u https://engines; proxy_pass \$u; }
    location /plain/ { proxy_pass http://engines; }
SERVER

    $secure->anew([ 1, 1 ], [ 2, 2, data_parallel_start_rank => 5 ]);
    $secure->book('busy', 2, dp_rank => 5, hashed(50));

    my $held = $secure->begin({ prompt => [ 1 .. 12 ] },
        { events => 5, hold => 'event:4' });
    $held->at('event:4');
    $held->got(qr/"token 4 "/);
    $secure->loads_are('1/0 0 4 1, 2/5 0 50 1', 'booked and counted');
    is $held->release->receive->status, 200, 'answered';
    is $held->one->{headers}{'x-data-parallel-rank'}, 0, 'with the rank';
    is join(' ', @{ $secure->stream->report(1)->{names} }), 'engines',
        'the name it asked for';

    $held = $secure->begin({ prompt => [ 1 .. 12 ] },
        { hold => 'request' });
    $held->at('request');
    my $left = $held->leave;
    cmp_ok $held->ended('gone')->{times}{end} - $left, '<', at_most(0.1),
        'G3: an engine is told at once when the client leaves';
    $secure->loads_become('1/0 0 0 0, 2/5 0 50 1', 'freed');

    $secure->stream->set(1, status => 503);
    my $request = $secure->through({ prompt => [ 1 .. 12 ] }, undef,
        path => '/retry/x');
    is join(' ', map { $_->{engine} . '/'
        . $_->{headers}{'x-data-parallel-rank'} } $request->seen), '1/0 2/5',
        'another rank';
    $secure->stream->set(1);

    is $secure->route({ prompt => [ 1 .. 12 ] }, undef, path => '/variable/')
        ->status, 200, 'a variable';
    is $secure->route({ prompt => [ 1 .. 12 ] }, undef, path => '/wrong/x')
        ->status, 502, 'another name than that of the certificate';
    isnt $secure->route({ prompt => [ 1 .. 12 ] }, undef, path => '/plain/x')
        ->status, 200, 'without TLS there is no answer';
    $secure->loads_become('1/0 0 0 0, 2/5 0 50 1', 'all are freed');
    $secure->finish;

    my $kept = SelRoute->new(name => 'tls kept', workers => 1,
        stream => $secure->stream, upstream => 'keepalive 4;')->run;

    $kept->anew([ 1, 1 ]);
    is join(' ', map { $kept->through({ prompt => [ 1 .. 12 ] },
        { events => 1 })->one->{nth} } 1 .. 3), '1 2 3',
        'connections are kept';
    $kept->finish;
};


# The upstream block.

my $redefined = qr/load balancing method redefined/;

story 'I14: other lines of the block' => sub {
    for my $case (
        [ 'zone before', { before => 'zone up 64k;' }, 0 ],
        [ 'zone behind', { upstream => 'zone up 64k;' }, 0 ],
        [ 'keepalive behind', { upstream => 'keepalive 4;' }, 0 ],
        [ 'keepalive before', { before => 'keepalive 4;' }, 1 ],
        [ 'least_conn before', { before => 'least_conn;' }, 1 ],
        [ 'servers before', { before => 'server 127.0.0.1:1;' }, 0 ],
        [ 'servers behind', { upstream => 'server 127.0.0.1:1 backup;'
            . 'server 127.0.0.1:2 down; server 127.0.0.1:3 weight=2;' }, 0 ],
        [ 'all of it', { before => 'zone up 64k; server 127.0.0.1:1;',
            upstream => 'keepalive 4; keepalive_timeout 5s;' }, 0 ],
    ) {
        my ($name, $text, $warned) = @$case;
        my $one = SelRoute->new(name => $name, stream => $stream, %$text)
            ->run;

        is scalar($one->log =~ $redefined ? 1 : 0), $warned,
            "$name: " . ($warned ? 'warned of' : 'no warning');
        $one->anew([ 1, 1 ], [ 2, 2 ]);

        my @held = map { $one->begin({ prompt => new_tokens(12) },
            { events => 1, hold => 'request' }) } 1 .. 4;
        $_->at('request') for @held;
        $one->loads_are('1/0 24 6 2, 2/0 24 6 2', "$name: it routes");
        $_->release->receive for @held;
        $one->all_free("$name: and frees");
        $one->finish;
    }
};


story 'configurations that are refused' => sub {
    my $tester = SelRoute->new(name => 'refused', stream => $stream);
    my $http   = $tester->{http};

    for my $case (
        [ 'an unknown zone', 'select_route other;', '' ],
        [ 'no zone', 'select_route;', '' ],
        [ 'twice', 'select_route selector; select_route selector;', '' ],
        [ 'max_fails', 'select_route selector max_fails=;', '' ],
        [ 'fail_timeout', 'select_route selector fail_timeout=;', '' ],
        [ 'a word', 'select_route selector other;', '' ],
        [ 'fallback', 'select_route selector;',
            'select_route_fallback maybe;' ],
        [ 'two fallbacks', 'select_route selector;',
            'select_route_fallback off; select_route_fallback on;' ],
        [ 'a router of another zone', 'select_route selector;',
            'location /r/ { select_router other; }' ],
        [ 'select_route in a server', 'select_route selector;',
            'select_route selector;' ],
        [ 'another method behind it', 'select_route selector; least_conn;',
            '' ],
        [ 'the same with servers', 'select_route selector; ip_hash;'
            . 'server 127.0.0.1:1;', '' ],
        [ 'a router that also forwards', 'select_route selector;',
            'location /r/ { select_router selector;'
            . ' proxy_pass http://engines; }' ],
        [ 'an empty header', 'select_route selector;',
            'select_route_rank_header "";' ],
        [ 'a header that is none', 'select_route selector;',
            'select_route_rank_header "X Y";' ],
    ) {
        my ($name, $block, $server) = @$case;

        for my $value ('', $block =~ /=;/ ? qw(x -1 1x) : ()) {
            my $lines = $block =~ s/=;/=$value;/r;
            my ($code, $said) = $tester->test_conf(
                http => $http =~ s/select_route selector;/$lines/r,
                server => "$tester->{server}\n$server");

            ok $code =~ /exit code 1/ && $said =~ /\[emerg\]/,
                "$name $value" or diag "$code: $said";
        }
    }
};


# The answer "nobody" can lead elsewhere, and what is larger than the API
# allows has no prompt.

story 'an error_page for nobody' => sub {
    my $led = SelRoute->new(name => 'led', stream => $stream,
        route => 'error_page 503 = @elsewhere;',
        server => 'location @elsewhere { return 200 "elsewhere"; }')->run;

    $led->anew;
    my $request = $led->through({ prompt => [ 1 .. 12 ] }, undef);
    is $request->answer->status . $request->answer->body, '200elsewhere',
        'it is followed';
    $led->anew([ 1, 1 ]);
    is $led->route({ prompt => [ 1 .. 12 ] }, { events => 1 })->status, 200,
        'only then';
    $led->all_free;
    $led->finish;
};


story 'a body beyond 8 MiB has no prompt' => sub {
    my $large = SelRoute->new(name => 'large', stream => $stream,
        http => "client_max_body_size 20m;\n")->run;

    $large->anew([ 1, 1 ]);

    for my $size (8 * 1024 * 1024, 8 * 1024 * 1024 + 1) {
        my $body = '{"prompt":[1,2,3,4]';
        $body .= ' ' x ($size - length($body) - 1) . '}';

        my $request = $large->through($body, { events => 1 });
        is $request->answer->status . $request->log->{reason},
            $size > 8 * 1024 * 1024 ? '200load' : '200prompt',
            "$size bytes";
    }

    $large->all_free;
    $large->finish;
};


story 'the example of docs/router.md' => sub {
    my $page = do { local (@ARGV, $/) = 'docs/router.md'; <> };
    my ($conf) = $page =~ /^```nginx\nhttp \{\n(.*?)^\}\n```/ms;

    ok $conf, 'the page has a configuration';
    like $conf, qr/proxy_read_timeout\s+1h;/, 'G2: a long read time-out';
    like $conf, qr/proxy_buffering\s+off;/, 'G2: no buffering';
    ok $conf =~ s/listen 8000;/listen 127.0.0.1:\$TEST_NGINX_SERVER_PORT;/,
        'it listens on 8000';
    $conf =~ s/allow 10\.0\.0\.0\/8;/allow 127.0.0.0\/8;/;

    my $example = SelNginx->new(name => 'example', http => $conf,
        workers => 1)->run;
    my $silent = 'tcp://127.0.0.1:1';

    is $example->post('/select/workers', { worker_id => 1, block_size => 16,
        kv_events_endpoint => $silent,
        endpoint => $stream->endpoint(1) })->status, 201, 'a worker';
    my $answer = $example->post('/v1/completions', { prompt => [ 1 .. 64 ] },
        headers => ['X-Sim: {"events":3}']);
    is $answer->status, 200, 'a request';
    is scalar(() = $answer->body =~ /^data: /mg), 4, 'is answered';
    is $example->get('/select/loads')->json->[0]{loads}[0]{active_requests},
        0, 'and freed';
    $example->finish;
};

all_done;
