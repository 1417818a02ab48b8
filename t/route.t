# The router: to which rank a request goes, what is booked for it meanwhile,
# and that body and answer pass as they are.  Without this suite a prompt could
# miss the cache that holds it, a body could arrive changed, a request could be
# served by a rank that nobody chose, or a client see no answer at all where an
# engine was free.

use strict;
use warnings;

use Digest::SHA qw(sha256_hex);
use IO::Socket::INET;
use JSON::PP ();
use Test::More;

use SelEngine;
use SelRoute;
use SelProc qw(poll_for);
use SelStream;

my $JSON = JSON::PP->new->canonical;

my $ng = SelRoute->new(name => 'main', engines => 4, options => ' max_fails=0',
    server => <<'SERVER')->run;
    location /off/  { select_route_fallback off;  proxy_pass http://engines; }
    location /open/ { select_route_fallback open; proxy_pass http://engines; }
    location /east/ { select_route_group east;    proxy_pass http://engines; }
    location /group/ {
        select_route_group $http_x_group;
        proxy_pass http://engines;
    }
    location /header/ {
        select_route_rank_header X-My-Rank;
        proxy_pass http://engines;
    }
    location /no-header/ {
        select_route_rank_header off;
        proxy_pass http://engines;
    }
    location /variable/ {
        set $where engines;
        proxy_pass http://$where;
    }
    location /uri/     { proxy_pass http://engines/v2/; }
    location /request/ { proxy_pass http://engines$request_uri; }
    location /rewrite/ {
        rewrite ^/rewrite(/.*)$ /new$1 break;
        proxy_pass http://engines;
    }
    location /if/ {
        if ($http_x_id) { proxy_pass http://engines; }
    }
    location /try/ { try_files /none @named; }
    location @named { proxy_pass http://engines; }
    location /bare/ {
        proxy_pass_request_headers off;
        proxy_set_header Connection "";
        proxy_set_header X-Data-Parallel-Rank $select_dp_rank;
        proxy_set_header X-Id $http_x_id;
        proxy_pass http://engines;
    }
    location /own-header/ {
        select_route_rank_header off;
        proxy_set_header Connection "";
        proxy_set_header X-Rank "$select_worker_id/$select_dp_rank";
        proxy_pass http://engines;
    }
    location /small/ {
        client_body_buffer_size 1k;
        proxy_pass http://engines;
    }
    location /file/ {
        client_body_in_file_only clean;
        proxy_pass http://engines;
    }
    location /single/ {
        client_body_in_single_buffer on;
        client_body_buffer_size 1m;
        proxy_pass http://engines;
    }
    location /unbuffered/ {
        proxy_request_buffering off;
        proxy_pass http://engines;
    }
    location /router/ { select_router selector; }
SERVER

my $stream = $ng->stream;


# An answer of the router itself.

sub unavailable {
    my ($answer, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $error = eval { $answer->json->{error} };
    my $right = $answer->status == 503
        && ($answer->header('Content-Type') // '') =~ m{^application/json\b}
        && ref $error eq 'HASH'
        && "@{[ sort keys %$error ]}" eq 'code message type'
        && $answer->body eq '{"error":{"message":'
            . JSON::PP->new->allow_nonref->encode($error->{message})
            . ',"type":"service_unavailable","code":503}}'
        && length $error->{message};

    return ok($right, $name) || diag $answer->status . ' '
        . ($answer->fault // '') . ' ' . $answer->body;
}


# Workers that requests went to, by the engines, as "worker=count ...".

sub spread {
    my (@requests) = @_;

    my %count;

    $count{ join ',', map { $_->{engine} } $_->seen }++ for @requests;

    return join ' ', map { "$_=$count{$_}" } sort keys %count;
}


story 'a prompt is read, booked, and freed' => sub {
    $ng->anew([ 1, 1 ]);

    for my $name (qw(token_ids prompt)) {
        my $body = $JSON->encode({ $name => new_tokens(13), max_tokens => 5,
            stream => JSON::PP::true });
        my $held = $ng->begin($body, { events => 2, hold => 'request' });
        my $seen = $held->at('request');

        $ng->loads_are('1/0 13 3 1', "$name: booked");
        is $seen->{sha256}, sha256_hex($body), "$name: the body as it was";
        is $seen->{method} . ' ' . $seen->{path}, 'POST /v1/completions',
            "$name: method and path";
        is $seen->{headers}{'x-data-parallel-rank'}, '0', "$name: the rank";

        my $answer = $held->release->receive;
        is $answer->status, 200, "$name: answered";
        is scalar(() = $answer->body =~ /^data: /mg), 3, "$name: all events";
        $ng->all_free("$name: and freed");

        my $log = $held->log;
        is_deeply { map { ($_ => $log->{$_}) } qw(worker rank endpoint overlap
                prefill reason status output cached) },
            { worker => '1', rank => '0', overlap => '0', prefill => '13',
                reason => 'prompt', status => '200', cached => '',
                output => '2', endpoint => $stream->endpoint(1) },
            "$name: variables" or diag explain $log;
        like $log->{time}, qr/^0\.\d{6}$/, "$name: the time it took";
        like $log->{selection}, qr/\S/, "$name: the booking had a name";
    }
};


story 'which member is the prompt' => sub {
    $ng->anew([ 1, 1 ]);

    for my $case (
        [ 'token_ids beside text', { prompt => 'a', token_ids => [ 1 .. 9 ] },
            'prompt', 9 ],
        [ 'token_ids beside messages',
            { messages => [], token_ids => [ 1 .. 9 ] }, 'prompt', 9 ],
        [ 'prompt beside null', { prompt => [ 1 .. 9 ], token_ids => undef },
            'prompt', 9 ],
        [ 'a single token', { prompt => [4294967295] }, 'prompt', 1 ],
        [ 'members that mean something elsewhere',
            { prompt => [ 1 .. 9 ], worker_id => 'x', selection_id => 5,
                block_hashes => 'y', isl_tokens => -1, pinned_worker => [],
                router_config_override => 1, allowed_worker_ids => [7],
                model_name => 'other', routing_group => 'other' },
            'prompt', 9 ],
    ) {
        my ($name, $body, $reason, $prefill) = @$case;
        my $request = $ng->through($body, { events => 1 });

        is $request->answer->status, 200, "$name: answered";
        is $request->log->{reason}, $reason, "$name: $reason";
        is $request->log->{prefill}, $prefill, "$name: $prefill tokens";
    }

    my $spaced = "\n{ \"x\" : {\"token_ids\":[9]} , \"prompt\"\t: [ 1 , 2 ,\n"
        . '3,4, 5 ] , "y":[{"prompt":"z"}] }' . "\r\n";
    my $request = $ng->through($spaced, { events => 1 });
    is $request->log->{prefill}, 5, 'blanks, and the same names below';
    is $request->one->{sha256}, sha256_hex($spaced), 'arrive as they were';
};


# G15, and what else is no prompt of token ids.

my @OTHER = (
    [ 'text'                  => '{"prompt":"Hello"}' ],
    [ 'several texts'         => '{"prompt":["Hello","you"]}' ],
    [ 'several prompts'       => '{"prompt":[[1,2,3,4],[5,6,7,8]]}' ],
    [ 'a chat'                => '{"messages":[{"role":"user",'
        . '"content":"Hello"}],"stream":true}' ],
    [ 'no members'            => '{}' ],
    [ 'an array'              => '[1,2,3,4]' ],
    [ 'a number'              => '5' ],
    [ 'null'                  => 'null' ],
    [ 'an empty prompt'       => '{"prompt":[]}' ],
    [ 'fractions'             => '{"prompt":[1.5,2,3,4]}' ],
    [ 'negative ids'          => '{"prompt":[1,2,-3,4]}' ],
    [ 'ids above 32 bits'     => '{"token_ids":[1,2,3,4294967296]}' ],
    [ 'text among ids'        => '{"token_ids":[1,2,"3",4]}' ],
    [ 'null among ids'        => '{"token_ids":[1,2,null,4]}' ],
    [ 'an object'             => '{"token_ids":{"0":1}}' ],
    [ 'no JSON'               => 'Hello' ],
    [ 'a form'                => 'a=b&c=d' ],
    [ 'half of an array'      => '{"token_ids":[1,2,3,4' ],
    [ 'no end'                => '{"token_ids":[1,2,3,4]' ],
    [ 'more behind the end'   => '{"token_ids":[1,2,3,4]} x' ],
    [ 'a trailing comma'      => '{"token_ids":[1,2,3,4,]}' ],
    [ 'G15: no UTF-8'         => "{\"prompt\":\"a\xc3\x28b\"}" ],
    [ 'G15: no UTF-8 at all'  => "\xff\xfe\x00\x01" ],
    [ 'G15: cut UTF-8'        => "{\"prompt\":\"a\xe2\x82\"}" ],
    [ 'G15: a lone surrogate' => '{"prompt":"\ud800"}' ],
    [ 'G15: UTF-16'           => "\xff\xfe{\0\"\0p\0\"\0:\x000\0}\0" ],
    [ 'NUL'                   => "{\"prompt\":\"a\0b\"}" ],
    [ 'blanks'                => " \r\n\t " ],
    [ 'deep nesting'          => '[' x 10_000 ],
    [ 'deep nesting, closed'  => '{"a":' x 5_000 . '1' . '}' x 5_000 ],
);

story 'G15: other bodies go to the least loaded rank' => sub {
    $ng->anew([ 1, 1 ], [ 2, 2 ]);
    $ng->book('busy', 1, hashed(9));

    for my $case (@OTHER) {
        my ($name, $body) = @$case;
        my $request = $ng->through($body, { events => 1 });

        is $request->answer->status, 200, "$name: answered"
            or diag $request->answer->body;
        is join(' ', map { $_->{sha256} } $request->seen), sha256_hex($body),
            "$name: arrives as it is";
        is spread($request), '2=1', "$name: at the least loaded";
        is $request->log->{reason}, 'load', "$name: the reason";
    }

    my $held = $ng->begin('{"prompt":"x"}', { hold => 'request' });
    $held->at('request');
    $ng->loads_are('1/0 0 9 1, 2/0 0 0 1', 'it is booked, without blocks');
    like $held->release->receive->body, qr/"engine": 2/, 'answered';
    like $held->log->{selection}, qr/\S/, 'and its booking has a name';
    $ng->release('busy');
    $ng->all_free;
};


story 'bodies at the edge' => sub {
    $ng->anew([ 1, 1 ], [ 2, 2, model_name => 'llama' ]);

    for my $case (
        [ 'an escaped name', '{"pr\u006fmpt":[1,2,3,4]}', 1, 4 ],
        [ 'an escaped model', '{"prompt":[1,2,3,4],"model":"ll\u0061ma"}', 2,
            4 ],
        [ 'a model that is none', '{"prompt":[1,2,3,4],"model":5}', 1, 4 ],
        [ 'a model of null', '{"prompt":[1,2,3,4],"model":null}', 1, 4 ],
        [ 'a long model', '{"prompt":[1,2,3,4],"model":"' . 'x' x 70_000
            . '"}', 1, 4 ],
        [ 'limits that are none', '{"prompt":[1,2,3,4],"max_tokens":"x"}', 1,
            4 ],
        [ 'a negative limit', '{"prompt":[1,2,3,4],"max_tokens":-5}', 1, 4 ],
        [ 'a huge limit', '{"prompt":[1,2,3,4],'
            . '"max_tokens":18446744073709551616}', 1, 4 ],
        [ 'a real limit', '{"prompt":[1,2,3,4],"max_tokens":1e99}', 1, 4 ],
        [ 'zeros in front', '{"prompt":[01,2,3,4]}', 1, '' ],
        [ 'exponents', '{"prompt":[1e3,2,3,4]}', 1, '' ],
        [ 'twice', '{"prompt":[1,2,3,4],"prompt":[1,2,3,4]}', 1, undef ],
        [ 'twice, in two ways', '{"prompt":"x","prompt":[1,2,3,4]}', 1,
            undef ],
        [ 'two models', '{"model":"a","prompt":[1,2,3,4],"model":"b"}', 1,
            undef ],
    ) {
        my ($name, $body, $worker, $prefill) = @$case;
        my $request = $ng->through($body, { events => 1 });

        is $request->answer->status, 200, "$name: answered";
        is join(' ', map { $_->{sha256} } $request->seen), sha256_hex($body),
            "$name: arrives as it is";
        is spread($request), "$worker=1", "$name: the worker"
            if defined $prefill;
        is $request->log->{reason}, $prefill ? 'prompt' : 'load',
            "$name: the reason" if defined $prefill;
        is $request->log->{prefill}, $prefill, "$name: the tokens"
            if $prefill;
    }

    $ng->all_free;
};


story 'fallback off' => sub {
    $ng->anew([ 1, 1 ]);

    for my $case (@OTHER) {
        my ($name, $body) = @$case;
        my $request = $ng->through($body, { events => 1 },
            path => '/off/v1/completions');

        unavailable($request->answer, "$name: refused");
        is scalar($request->seen), 0, "$name: no engine has seen it";
    }

    my $request = $ng->through('x', undef, path => '/off/x');
    is $request->log->{reason}, 'no_prompt', 'the reason';
    is $request->log->{worker}, '', 'and no worker';

    $request = $ng->through({ prompt => [ 1 .. 4 ] }, { events => 1 },
        path => '/off/x');
    is $request->answer->status, 200, 'a prompt is served';

    $request = $ng->through(undef, undef, path => '/off/v1/models');
    is $request->answer->status, 200, 'and what has no body';

    my $client = $ng->connection;
    is join(' ', map { $_ % 2 ? $ng->through('x' x 100, undef,
            path => '/off/', client => $client)->answer->status
            : $client->get('/health')->status } 1 .. 4),
        '503 200 503 200', 'the connection goes on behind a refused body';
    $ng->all_free;
};


story 'G12: nobody can be chosen' => sub {
    $ng->anew;

    for my $case (
        [ 'a prompt', { prompt => [ 1 .. 4 ] } ],
        [ 'another body', '{"prompt":"x"}' ],
        [ 'no body', undef ],
    ) {
        my ($name, $body) = @$case;

        for my $path (qw(/v1/x /off/x /open/x)) {
            my $request = $ng->through($body, undef, path => $path);
            unavailable($request->answer, "$name, $path: refused");
            is $request->log->{reason}, $path eq '/off/x'
                && ($body // '') =~ /"x"/ ? 'no_prompt' : 'no_worker',
                "$name, $path: the reason";
        }
    }

    $ng->add(1, 1, model_name => 'llama');
    unavailable($ng->route({ model => 'other', prompt => [ 1 .. 4 ] }),
        'another model');
    is $ng->route({ model => 'llama', prompt => [ 1 .. 4 ] })->status, 200,
        'the right one';
    is $ng->route({ prompt => [ 1 .. 4 ] })->status, 200,
        'no model: the one that there is';
    unavailable($ng->route({ prompt => [ 1 .. 4 ] }, undef, path => '/east/x'),
        'of the group alone');
    $ng->all_free;
};


story 'G12: the block has servers of its own' => sub {
    my $own = SelStream->start;
    my $two = SelRoute->new(name => 'open', stream => $stream,
        upstream => 'server 127.0.0.1:' . $own->port(1) . ';',
        route    => 'select_route_fallback open;', server => <<'SERVER')->run;
    location /load/ { proxy_pass http://engines; }
    location /off/ { select_route_fallback off; proxy_pass http://engines; }
    location /variable/ {
        select_route_fallback open;
        set $where engines;
        proxy_pass http://$where;
    }
SERVER
    my @bodies = ({ prompt => [ 1 .. 4 ] }, '{"prompt":"x"}', undef);

    for my $body (@bodies) {
        my $request = $two->through($body, undef, path => '/v1/x');
        my $name    = defined $body ? ref $body ? 'a prompt' : 'text'
            : 'no body';

        is $request->answer->status, 200, "$name: open: answered";
        is scalar($own->seen($request->tag)), 1, "$name: by that server";
        is $request->log->{reason}, 'open', "$name: open: the reason";
        is $request->log->{worker}, '', "$name: open: no worker";

        $request = $two->through($body, undef, path => '/variable/x');
        is scalar($own->seen($request->tag)), 1, "$name: with a variable";

        $request = $two->through($body, undef, path => "/$_/x"),
            unavailable($request->answer, "$name: $_: refused"),
            is scalar($own->seen($request->tag)), 0, "$name: $_: not sent"
            for qw(load off);
    }

    $two->add(1, 1);

    for my $body (@bodies) {
        my $request = $two->through($body, undef, path => '/v1/x');
        is scalar($request->seen), 1, 'with a worker: it has it';
        is $request->log->{reason}, ref $body ? 'prompt' : 'load',
            'for the usual reason';
    }

    $two->all_free;
    $two->finish;
};


story 'G9: no body' => sub {
    $ng->anew([ 1, 1, model_name => 'a' ], [ 2, 2, model_name => 'b' ],
        [ 3, 3, model_name => 'b', routing_group => 'east' ]);
    $ng->book('busy', 1, model_name => 'a', hashed(9));

    my @gets = map { $ng->through(undef, undef, path => '/v1/models') } 1 .. 6;
    is spread(@gets), '2=6', 'the least loaded rank of the group, any model';
    is $gets[0]->one->{path}, '/v1/models', 'the path';
    is $gets[0]->log->{reason}, 'load', 'the reason';
    is $gets[0]->log->{selection}, '', 'no booking';
    is $gets[0]->log->{worker}, '2', 'the worker';

    @gets = map { $ng->through(undef, undef, path => '/east/x') } 1 .. 4;
    is spread(@gets), '3=4', 'another group';

    my $held = $ng->begin(undef, { hold => 'request' });
    is $held->at('request')->{headers}{'x-data-parallel-rank'}, '0',
        'the rank is told';
    is $ng->loads('?model_name=b&routing_group=default'), '2/0 0 0 0',
        'it is not booked';
    $held->release->receive;

    for my $method (qw(GET HEAD DELETE OPTIONS)) {
        my $request = $ng->through(undef, undef, method => $method);
        is $request->answer->status, 200, "$method: answered";
        is $request->one->{method}, $method, "$method: as it was";
    }

    my $request = $ng->through('', undef, method => 'GET');
    is $request->answer->status, 200, 'GET with an empty body';
    $request = $ng->through('', undef);
    is $request->answer->status, 200, 'POST with an empty body';
    is $request->one->{method} . $request->one->{length}, 'POST0',
        'as it was';
    $ng->release('busy');
};


story 'models and groups' => sub {
    $ng->anew([ 1, 1, model_name => 'llama' ],
        [ 2, 2, model_name => 'qwen/a"b' ],
        [ 3, 3 ], [ 4, 4, model_name => 'llama', routing_group => 'east' ]);

    my @tokens = (1 .. 8);

    for my $case (
        [ 1, 'llama', '/v1/' ], [ 2, 'qwen/a"b', '/v1/' ],
        [ 3, undef, '/v1/' ], [ 3, 'default', '/v1/' ],
        [ 3, 'an-adapter', '/v1/' ],
        [ 4, 'llama', '/east/' ], [ 4, 'llama', '/group/', 'east' ],
        [ 1, 'llama', '/group/', 'default' ],
    ) {
        my ($worker, $model, $path, $group) = @$case;
        my %members = defined $model ? (model => $model) : ();
        my $name = join ' ', map { $_ // '-' } $model, $path, $group;

        for my $body ({ prompt => \@tokens }, { messages => [] }) {
            my @requests = map { $ng->through({ %$body, %members }, undef,
                path => "${path}x",
                headers => [ $group ? "X-Group: $group" : () ]) } 1 .. 3;
            is spread(@requests), "$worker=3", "$name, "
                . join ' ', keys %$body;
        }
    }

    unavailable($ng->route({ prompt => \@tokens, model => 'llama' }, undef,
        path => '/group/x', headers => ['X-Group: west']), 'another group');

    $ng->anew([ 1, 1, model_name => 'llama' ]);
    my $request = $ng->through("{\"model\":\"llama\",\"prompt\":\"\xff\"}");
    is $request->answer->status, 200, 'G15: no UTF-8, and a model';
    $request = $ng->through("\xff");
    is $request->answer->status, 200, 'G15: no JSON, so any model'
        or diag $request->answer->body;
    $ng->all_free;
};


story 'the load is spread' => sub {
    $ng->anew(map { [ $_, $_ ] } 1 .. 3);

    my @held = map { $ng->begin({ prompt => new_tokens(16) },
        { events => 1, hold => 'headers' }) } 1 .. 12;
    $_->at('headers') for @held;

    is spread(@held), '1=4 2=4 3=4', 'prompts';
    $ng->loads_are('1/0 64 16 4, 2/0 64 16 4, 3/0 64 16 4', 'as booked');
    $_->release for @held;
    is_deeply [ map { $_->receive->status } @held ], [ (200) x 12 ],
        'all are answered';
    $ng->all_free;

    $stream->forget;
    $ng->anew(map { [ $_, $_ ] } 1 .. 2);
    @held = map { $ng->begin({ prompt => new_tokens(16) },
        { hold => 'headers' }, tag => 'H9') } 1 .. 200;
    poll_for(sub { ($stream->ends(tag => 'H9')->{open} // 0) == 200 });
    is join(' ', map { scalar(my @all = $stream->seen('H9', engine => $_)) }
        1, 2), '100 100', 'H9: 200 at the same time';
    $stream->release('H9');
    is scalar(grep { $_->receive->status != 200 } @held), 0,
        'all are answered';
    $ng->all_free;

    $ng->anew(map { [ $_, $_ ] } 1 .. 3);
    @held = map { $ng->begin('{"messages":[]}', { hold => 'headers' }) }
        1 .. 12;
    $_->at('headers') for @held;
    is spread(@held), '1=4 2=4 3=4', 'H9: and other bodies';
    $_->release->receive for @held;
    $ng->all_free;
};


story 'ranks of a worker, and the header that tells them' => sub {
    $ng->anew([ 1, 1, data_parallel_size => 2 ],
        [ 2, 2, data_parallel_size => 2, data_parallel_start_rank => 4 ]);

    my @held = map { $ng->begin({ prompt => new_tokens(16) },
        { hold => 'request' },
        headers => [ 'X-Data-Parallel-Rank: 9', 'x-data-parallel-rank: 8' ]) }
        1 .. 8;
    my %count;
    $count{"$_->{engine}/" . $_->{headers}{'x-data-parallel-rank'}}++
        for map { $_->at('request') } @held;
    is_deeply \%count, { '1/0' => 2, '1/1' => 2, '2/4' => 2, '2/5' => 2 },
        'each rank, and what the client sent is replaced'
        or diag explain \%count;
    $_->release->receive for @held;
    is_deeply [ map { $_->log->{rank} } @held ],
        [ map { $_->one->{headers}{'x-data-parallel-rank'} } @held ],
        'the variable says the same';

    my @mine = ('X-Data-Parallel-Rank: 9', 'X-My-Rank: 8');
    my $body = { prompt => [ 1 .. 4 ], x => 1 };
    my $request = $ng->through($body, undef, path => '/header/',
        headers => \@mine);
    is $request->one->{headers}{'x-my-rank'}, $request->log->{rank},
        'another name';
    is $request->one->{headers}{'x-data-parallel-rank'}, '9',
        'then the usual one is like any other';

    $request = $ng->through($body, undef, path => '/no-header/',
        headers => \@mine);
    is_deeply [ @{ $request->one->{headers} }{qw(x-data-parallel-rank
        x-my-rank)} ], [ 9, 8 ], 'off: both are as the client sent them';
    $request = $ng->through($body, undef, path => '/no-header/');
    ok !exists $request->one->{headers}{'x-data-parallel-rank'},
        'off: no header is added';

    $request = $ng->through(undef, undef, headers => \@mine);
    is $request->one->{headers}{'x-data-parallel-rank'}, $request->log->{rank},
        'without a body, too';
    $request = $ng->through($body, undef, path => '/bare/',
        headers => \@mine);
    is $request->one->{headers}{'x-data-parallel-rank'}, $request->log->{rank},
        'and without the headers of the client';
    $request = $ng->through($body, undef, path => '/own-header/');
    is $request->one->{headers}{'x-rank'},
        join('/', @{ $request->log }{qw(worker rank)}),
        'a header made of the variables';
    $ng->all_free;
};


story 'K4: prompts go to the rank that holds them' => sub {
    my $engine = SelEngine->start(ranks => 4, block_size => 4);

    $ng->anew([ 1, 1, events($engine, 0, 1) ], [ 2, 2, events($engine, 2) ],
        [ 3, 3, events($engine, 3) ]);
    $engine->wait_subscribers(2, $_) for 0 .. 3;

    my @ranks = ([ 1, 0, 0 ], [ 1, 1, 1 ], [ 2, 0, 2 ], [ 3, 0, 3 ]);
    my %tokens = map { ($_->[2] => new_tokens(12)) } @ranks;

    $engine->publish_stored(rank => $_->[2], dp_rank => $_->[1],
        tokens => [ @{ $tokens{ $_->[2] } }[ 0 .. 7 ] ]) for @ranks;

    for my $rank (@ranks) {
        my %rows = map { ("$_->[0]/$_->[1]" => 0) } @ranks;
        $rows{"$rank->[0]/$rank->[1]"} = 2;
        $ng->soon({ token_ids => $tokens{ $rank->[2] } }, \%rows,
            "both processes know what $rank->[0]/$rank->[1] holds");
    }

    my @wrong;

    for my $round (1 .. 10) {
        for my $rank (@ranks) {
            my $request = $ng->through({ $round % 2 ? 'prompt' : 'token_ids',
                $tokens{ $rank->[2] } }, { events => 1 });
            my $log = $request->log;
            my $got = join ' ', $request->one->{engine},
                @$log{qw(worker rank overlap prefill reason)};
            my $want = "$rank->[0] $rank->[0] $rank->[1] 8 4 prompt";
            push @wrong, "$got, not $want" if $got ne $want;
        }
    }

    is "@wrong", '', '40 requests went to what holds them';

    my %seen;
    $ng->on_both(sub {
        my $answer = $ng->route({ prompt => $tokens{2} });
        $seen{ $answer->json->{engine} }++;
        return $answer;
    }, 'both processes route');
    is_deeply [ keys %seen ], [2], 'to the same worker';

    $engine->publish_cleared(rank => 2, dp_rank => 0);
    $ng->soon({ token_ids => $tokens{2} },
        { '1/0' => 0, '1/1' => 0, '2/0' => 0, '3/0' => 0 },
        'G14: a rank has lost everything');
    my $request = $ng->through({ prompt => $tokens{2} }, { events => 1 });
    is $request->log->{overlap}, 0, 'G14: nothing is expected of it then';
    $ng->all_free;
};


story 'prompts go where they were booked' => sub {
    my $plain = SelRoute->new(name => 'plain', stream => $stream,
        http => "select_kv_events off;\n")->run;

    $plain->anew(map { [ $_, $_ ] } 1 .. 4);

    my @wrong;

    for my $round (1 .. 10) {
        my $body = { prompt => new_tokens(12) };
        my @requests = map { $plain->through($body, { events => 1 }) } 1 .. 4;
        my ($first, @more) = map { join ' ', $_->one->{engine},
            @{ $_->log }{qw(overlap prefill)} } @requests;
        my $engine = $requests[0]->one->{engine};
        push @wrong, "$first, @more"
            if $first ne "$engine 0 12" || grep { $_ ne "$engine 12 0" } @more;
    }

    is "@wrong", '', 'four times the same prompt, in any process';

    my $tokens = new_tokens(12);
    my $overlap = sub {
        my (%members) = @_;
        my $log = $plain->through({ prompt => $tokens, %members },
            { events => 1 })->log;
        return $log->{overlap};
    };

    is $overlap->(lora_name => 'a'), 0, 'with an adapter';
    is $overlap->(lora_name => 'b'), 0, 'another one shares nothing';
    is $overlap->(lora_name => 'a'), 12, 'the same does';
    is $overlap->(cache_salt => 'a'), 0, 'with a salt';
    is $overlap->(cache_salt => 'b'), 0, 'another one shares nothing';
    is $overlap->(cache_salt => 'a'), 12, 'the same does';
    is $overlap->(), 0, 'without';
    is $overlap->(lora_name => 5, cache_salt => ['a']), 12,
        'what is no text does not count';

    my @shared = @{ new_tokens(144) };
    my @held;

    for (1 .. 40) {
        push @held, $plain->begin(
            { prompt => [ @shared, @{ new_tokens(16) } ] },
            { events => 2, hold => 'event:1' });
        $held[-1]->at('event:1');
        $held[-1]->got(qr/data: /);
    }

    my %count;
    $count{ $_->one->{engine} }++ for @held;
    is scalar keys %count, 4, 'G14: a common beginning pins to nobody';
    is scalar(grep { $_ > 20 } values %count), 0,
        'G14: nobody has more than half' or diag explain \%count;
    $_->release->receive for @held;
    $plain->all_free;
    $plain->finish;
};


story 'bodies of all sizes' => sub {
    $ng->anew([ 1, 1 ]);

    for my $case ([ '5 kB', 700 ], [ '200 kB', 28_500 ], [ '5 MB', 714_000 ]) {
        my ($name, $count) = @$case;
        my $body = '{"model":"default","stream":true,"token_ids":['
            . join(',', map { 100_000 + $_ % 900_000 } 1 .. $count) . ']}';
        my $sha = sha256_hex($body);

        for my $path ($count > 100_000 ? '/v1/'
            : qw(/v1/ /small/ /file/ /single/ /unbuffered/ /variable/))
        {
            my $request = $ng->through($body, { events => 1 },
                path => "${path}x");

            is $request->answer->status, 200, "$name, $path: answered";
            is $request->one->{sha256}, $sha, "$name, $path: the body";
            is join(' ', @{ $request->log }{qw(reason prefill)}),
                "prompt $count", "$name, $path: all its tokens";
        }

        next if $count > 100_000;

        my $chunked = join '', map { sprintf "%x\r\n%s\r\n", length, $_ }
            unpack('(a3000)*', $body), '';
        my $request = $ng->through($chunked, { events => 1 },
            headers => ['Transfer-Encoding: chunked']);
        is $request->one->{sha256}, $sha, "$name, chunked: the body";
        is join(' ', @{ $request->log }{qw(reason prefill)}),
            "prompt $count", "$name, chunked: all its tokens";
    }

    my @wrong;

    for my $length (1015 .. 1030, 2040 .. 2052, 8185 .. 8200) {
        my $body = '{"prompt":[';
        my $count = int(($length - 20) / 4);
        $body .= join(',', map { 100 + $_ % 900 } 1 .. $count) . ']';
        $body .= ' ' x ($length - 1 - length $body) . '}';
        my $request = $ng->through($body, { events => 1 }, path => '/small/');
        push @wrong, $length if $request->one->{sha256} ne sha256_hex($body)
            || $request->log->{prefill} ne $count;
    }

    is "@wrong", '', 'sizes around those of buffers';

    my $body = '{"messages":["' . 'x' x 12_000_000 . '"]}';
    my $request = $ng->through($body, undef);
    is $request->one->{sha256}, sha256_hex($body), '12 MB of chat';
    $ng->all_free;
};


story 'a body that comes slowly, or never' => sub {
    $ng->anew([ 1, 1 ]);

    my $body   = $JSON->encode({ prompt => [ 1 .. 12 ] });
    my $client = $ng->connection;
    my ($one, $two) = unpack 'a20 a*', $body;

    $client->send_raw("POST /v1/slow HTTP/1.1\r\nHost: x\r\nX-Id: slow\r\n"
        . "Expect: 100-continue\r\nContent-Length: " . length($body)
        . "\r\n\r\n");
    wait_until { $client->partial =~ /100 Continue/ } 'asked for';
    syswrite $client->{sock}, $one;
    is $ng->connection->get('/health')->status, 200, 'others are served';
    $ng->loads_are('1/0 0 0 0', 'nothing is booked before it is there');
    is scalar($stream->seen('slow')), 0, 'nor sent';
    syswrite $client->{sock}, $two;
    is $client->receive->status, 200, 'answered';
    is $stream->one('slow')->{sha256}, sha256_hex($body), 'it came whole';

    $client = $ng->connection;
    $client->send_raw("POST /v1/never HTTP/1.1\r\nHost: x\r\nX-Id: never\r\n"
        . "Content-Length: 100\r\n\r\n$one");
    $client->close;
    wait_until { $ng->lines('never') } 'a client that leaves is logged';
    is scalar($stream->seen('never')), 0, 'and no engine has heard of it';
    $ng->all_free;
};


story 'proxy_pass in all its forms' => sub {
    $ng->anew([ 1, 1, data_parallel_start_rank => 3 ]);

    for my $case (
        [ '/variable/a', '/variable/a' ], [ '/uri/a?b=c', '/v2/a?b=c' ],
        [ '/request/a%2Fb?c', '/request/a%2Fb?c' ],
        [ '/rewrite/a', '/new/a' ], [ '/if/a', '/if/a' ],
        [ '/try/a', '/try/a' ],
    ) {
        my ($path, $sent) = @$case;
        my $held = $ng->begin({ prompt => new_tokens(12) },
            { events => 1, hold => 'request' }, path => $path);
        my $seen = $held->at('request');

        is $seen->{path}, $sent, "$path: the path";
        is $seen->{headers}{'x-data-parallel-rank'}, 3, "$path: the rank";
        $ng->loads_are('1/3 12 3 1', "$path: booked");
        is $held->release->receive->status, 200, "$path: answered";
        $ng->all_free("$path: freed");
        is $held->log->{reason}, 'prompt', "$path: the reason";
        is $held->log->{worker}, 1, "$path: the worker";
    }

    $ng->anew;
    my $request = $ng->through({ prompt => [1] }, undef,
        path => '/variable/x');
    is $request->answer->status, 502, 'a variable, and nobody to choose';
    is $request->log->{reason}, 'no_worker', 'the reason';
};


# What one process has looked up, the next generation knows from the start.

my $has_names = gethostbyname 'localhost';

story 'names over a reload' => sub {
    return Test::More->builder->skip('localhost has no address')
        if !$has_names;

    my $named = SelRoute->new(name => 'named', stream => $stream)->run;

    $named->anew;
    $named->register(1, endpoint => 'http://localhost:' . $stream->port(1));
    wait_until {
        $named->route({ prompt => [ 1 .. 4 ] })->status == 200
    } 'reached';

    for (1 .. 3) {
        $named->reload;
        is join(' ', map { $named->route({ prompt => [ 1 .. 4 ] })->status }
            1 .. 6), '200 200 200 200 200 200', 'at once';
    }

    $named->all_free;
    $named->finish;
};


story 'endpoints' => sub {
    my $port = $stream->port(1);

    for my $endpoint ("http://127.0.0.1:$port/", "http://127.0.0.1:$port/v9/x",
        "https://127.0.0.1:$port",
        $has_names ? "http://localhost:$port" : ())
    {
        $ng->anew;
        $stream->set(1);
        $ng->register(1, endpoint => $endpoint);

        my $request;
        wait_until {
            $request = $ng->through({ prompt => [ 1 .. 4 ] });
            $request->answer->status == 200;
        } "$endpoint: reached";
        is $request->one->{path}, '/v1/completions', "$endpoint: the path";
        is $request->log->{address}, "127.0.0.1:$port",
            "$endpoint: the address";
        is $request->log->{endpoint}, $endpoint, "$endpoint: as registered";
    }

    my $ipv6 = eval { $stream->open('six', host => '::1'); 1 };

    SKIP: {
        skip 'no IPv6', 1 if !$ipv6;
        $ng->anew;
        $ng->register(1, endpoint => 'http://[::1]:' . $stream->port('six'));
        is $ng->route({ prompt => [ 1 .. 4 ] })->status, 200, 'IPv6';
    }

    for my $case ([ 'http://127.0.0.1', 80 ], [ 'https://127.0.0.1', 443 ]) {
        my ($endpoint, $default) = @$case;

        SKIP: {
            skip "port $default is in use", 2
                if IO::Socket::INET->new("127.0.0.1:$default");
            $ng->anew;
            $ng->register(1, endpoint => $endpoint);
            my $request = $ng->through({ prompt => [ 1 .. 4 ] });
            is $request->answer->status, 502, "$endpoint: nobody is there";
            like $request->log->{address}, qr/^127\.0\.0\.1:$default(?!\d)/,
                "$endpoint: at port $default";
        }
    }
};


story 'endpoints that are not routable' => sub {
    for my $endpoint (qw(ray://actor-7 http://no-such-host.invalid:1
        grpc://127.0.0.1:1))
    {
        my $mark = $ng->log_mark;

        $ng->anew;
        $ng->register(7, endpoint => $endpoint);
        $ng->gives('POST /select', { token_ids => [ 1 .. 4 ] }, 200,
            qr/"worker_id":7,.*"endpoint":"\Q$endpoint\E"/,
            "$endpoint: other calls select it");
        unavailable($ng->route({ prompt => [ 1 .. 4 ] }),
            "$endpoint: not routed to");

        $stream->set(1);
        $ng->add(1, 1);
        is_deeply [ map { $ng->route({ prompt => [ 1 .. 4 ] })->status }
            1 .. 6 ], [ (200) x 6 ], "$endpoint: others are";

        my ($host) = $endpoint =~ m{//([^:]+)};
        $ng->log_like(qr/\[warn\].*\Q$host\E/, "$endpoint: it is logged",
            $mark);
        cmp_ok scalar(() = $ng->log($mark) =~ /\[warn\].*\Q$host\E/g), '<=',
            $ng->workers, "$endpoint: once by a process";

        $ng->remove(1);
        $ng->register(7, endpoint => $stream->endpoint(1));
        is $ng->route({ prompt => [ 1 .. 4 ] })->status, 200,
            "$endpoint: a better one comes into force at once";
    }
};


story 'a worker that changes' => sub {
    $ng->anew([ 1, 1 ]);
    $stream->set(2);

    my $held = $ng->begin({ prompt => new_tokens(12) },
        { events => 5, hold => 'event:2' });
    $held->at('event:2');

    for my $engine (2, 1, 2) {
        $ng->patch('/workers/1', { endpoint => $stream->endpoint($engine) });
        my @requests = map { $ng->through({ prompt => new_tokens(12) },
            { events => 1 }) } 1 .. 4;
        is spread(@requests), "$engine=4", 'another endpoint, at once';
        is $requests[0]->log->{endpoint}, $stream->endpoint($engine),
            'the variable';
    }

    $ng->patch('/workers/1', { endpoint => '' });
    unavailable($ng->route({ prompt => [ 1 .. 4 ] }), 'incomplete');
    is $held->release->receive->fault, undef, 'a stream goes on';
    $ng->patch('/workers/1', { endpoint => $stream->endpoint(1),
        taints => ['t'] });
    is $ng->route({ prompt => [ 1 .. 4 ] })->status, 200, 'complete again';
    $ng->all_free;
};


story 'two requests on a connection' => sub {
    $ng->anew([ 1, 1 ]);

    my $client = $ng->connection;
    my $body = '{"prompt":[1,2,3,4]}';

    $client->send_raw(join '', map {
        "POST /v1/x HTTP/1.1\r\nHost: x\r\nX-Id: pipe-$_\r\n"
            . "X-Sim: {\"hold\":\"request\"}\r\nContent-Length: "
            . length($body) . "\r\n\r\n$body" } 1, 2);
    push @{ $client->{pending} }, 'POST';
    $stream->wait_at('pipe-1', 'request');
    $ng->loads_are('1/0 4 1 1', 'one at a time');
    $stream->release('pipe-1');
    is $client->receive->status, 200, 'answered';
    $stream->wait_at('pipe-2', 'request');
    $ng->loads_are('1/0 4 1 1', 'then the other one');
    $stream->release('pipe-2');
    is $client->receive->status, 200, 'answered';
    $ng->all_free;
};


story 'a full zone' => sub {
    my $small = SelRoute->new(name => 'small', stream => $stream,
        zone => 'selector 1m', server => <<'SERVER')->run;
    location /open/ { select_route_fallback open; proxy_pass http://engines; }
SERVER
    my $count = 0;
    my $body = { prompt => new_tokens(4000) };

    $small->add(1, 1);
    $stream->set(1);

    for my $size (1000, 100, 10, 1) {
        1 while $count++ < 3000 && $small->ask('POST /reservations',
            { selection_id => "s$count", worker_id => 1,
                hashed([ map { $count * 1000 + $_ } 1 .. $size ]) })->status
            == 201;
    }

    for my $path (qw(/v1/x /open/x)) {
        my $request = $small->through($body, undef, path => $path);
        unavailable($request->answer, "$path: no room for a booking");
        is $request->log->{reason}, 'full', "$path: the reason";
    }

    is $small->route(undef)->status, 200, 'what is not booked is served';
    $small->remove(1);
    $small->add(1, 1);
    is $small->route($body)->status, 200, 'there is room again';
    $small->all_free;
    $small->expect_log(qr/\[crit\].*no memory|zone.*full/);
    $small->finish;
};


story 'without a master' => sub {
    my $one = SelRoute->new(name => 'single', stream => $stream, master => 0,
        workers => 1)->run;

    $one->anew([ 1, 1 ]);
    my $held = $one->begin({ prompt => new_tokens(12) },
        { events => 5, hold => 'event:4' });
    $held->at('event:4');
    $held->got(qr/"token 4 "/);
    $one->loads_are('1/0 0 4 1', 'booked and counted');
    is $held->release->receive->status, 200, 'answered';
    $one->all_free;
    $one->finish;
};


story 'both processes' => sub {
    $ng->anew(map { [ $_, $_ ] } 1 .. 2);

    my @clients = map { $ng->connection_to($_, '/health') } $ng->workers;
    my @held = map { $ng->begin({ prompt => new_tokens(16) },
        { events => 1, hold => 'request' }, client => $clients[ $_ % 2 ]) }
        0, 1;
    $_->at('request') for @held;
    is spread(@held), '1=1 2=1', 'one goes past what the other has booked';
    $ng->loads_are('1/0 16 4 1, 2/0 16 4 1', 'as both say');
    isnt $_->release->receive->process, undef, 'answered' for @held;
    isnt $held[0]->answer->process, $held[1]->answer->process,
        'by two processes';

    is join(' ', map { $clients[ $_ % 2 ]->post('/v1/x',
        { prompt => [ 1 .. 4 ] })->status } 1 .. 10),
        join(' ', (200) x 10), 'keep-alive in front';
    $ng->all_free;
};


story 'connections to the engines are kept' => sub {
    my $kept = SelRoute->new(name => 'kept', workers => 1, engines => 2,
        upstream => 'keepalive 8;')->run;

    $kept->anew([ 1, 1 ], [ 2, 2, data_parallel_start_rank => 2 ]);

    my @wrong;

    for my $worker (1, 2) {
        $kept->book("away-$worker", 3 - $worker, ($worker == 1
            ? (dp_rank => 2) : ()), hashed(99));

        for my $number (1 .. 10) {
            my $request = $kept->through({ prompt => new_tokens(12) },
                { events => 2 });
            my $seen = $request->one;
            push @wrong, "$worker: $seen->{engine} $seen->{nth} "
                . $request->log->{rank}
                if "$seen->{engine} $seen->{nth}" ne "$worker $number"
                || $seen->{headers}{'x-data-parallel-rank'}
                    ne ($worker == 1 ? 0 : 2)
                || $request->log->{worker} ne $worker;
        }

        $kept->release("away-$worker");
    }

    is "@wrong", '', 'ten requests on one connection, with each engine';
    is join(' ', map { $kept->stream->report($_)->{accepted} } 1, 2), '1 1',
        'there were no others';
    $kept->all_free;
    $kept->finish;
};


story 'POST /best_worker_id and /get_overlap_scores' => sub {
    my $engine = SelEngine->start(ranks => 2, block_size => 4);

    $ng->anew([ 1, 1, events($engine, 0) ],
        [ 18446744073709551615, 2, data_parallel_start_rank => 6,
            kv_events_endpoints => { 6 => $engine->endpoint(1) } ]);
    $engine->wait_subscribers(2, $_) for 0, 1;
    $engine->publish_stored(rank => 1, dp_rank => 6, tokens => [ 1 .. 8 ]);
    $ng->soon({ token_ids => [ 1 .. 12 ] },
        { '1/0' => 0, '18446744073709551615/6' => 2 }, 'cached');

    my $prompt = { token_ids => [ 1 .. 12 ] };

    $ng->gives('POST /router/best_worker_id', $prompt, 200,
        '{"worker_id":18446744073709551615,"dp_rank":6,"overlap_blocks":2}',
        'the best worker') for 1, 2;
    $ng->loads_are('1/0 0 0 0, 18446744073709551615/6 0 0 0',
        'nothing is booked');
    $ng->gives('POST /router/best_worker_id',
        { %$prompt, allowed_worker_ids => [1] }, 200,
        '{"worker_id":1,"dp_rank":0,"overlap_blocks":0}',
        'with members of /select');
    $ng->gives('POST /router/best_worker_id', { block_hashes => [ 1, 2 ],
        sequence_hashes => [ 1, 2 ], isl_tokens => 8,
        allowed_worker_ids => [1] }, 200, qr/"worker_id":1,/, 'with hashes');

    for my $case ([ $prompt, 200 ], [ {}, 400 ], [ 'x', 400 ],
        [ { %$prompt, model_name => 'none' }, 503 ],
        [ { token_ids => 'x' }, 422 ])
    {
        my ($body, $status) = @$case;
        my $same = sub {
            my ($one, $two) = map { $ng->ask("POST $_", $body) } @_;
            return ok($one->status == $status && $two->status == $status
                && $one->body eq $two->body, "$status: $_[0]")
                || diag $one->status, ' ', $one->body, ' ', $two->body;
        };

        $same->('/router/get_overlap_scores', '/overlap_scores')
            if $status != 503;
        $same->('/router/best_worker_id', '/select') if $status != 200;
    }

    is $ng->get("/router/$_")->status, 405, "GET $_"
        for qw(best_worker_id get_overlap_scores);
    is $ng->post("/router/$_", $prompt)->status, 404, "POST /router/$_"
        for qw(select workers x best_worker_id/), '';
};


story 'variables of the API' => sub {
    my $engine = SelEngine->start(block_size => 4);
    my $count  = 0;
    my $log    = sub {
        my ($method, $path, $body) = @_;
        my $id = 'api-' . ++$count;
        my $answer = $ng->request($method, $path, body => $body,
            headers => ["X-Id: $id"]);
        wait_until { $ng->lines($id) } "$path: in the log";
        return ($ng->lines($id))[0];
    };

    $ng->anew([ 5, 1, data_parallel_start_rank => 2,
        kv_events_endpoints => { 2 => $engine->endpoint(0) } ]);
    $engine->wait_subscribers(2);
    $engine->publish_stored(tokens => [ 1 .. 8 ], dp_rank => 2);
    $ng->soon({ token_ids => [ 1 .. 12 ] }, { '5/2' => 2 }, 'cached');

    my %want = (worker => '5', rank => '2', overlap => '8', prefill => '4',
        endpoint => $stream->endpoint(1), reason => '', cached => '',
        output => '');
    my %prompt = (token_ids => [ 1 .. 12 ]);

    for my $case ([ '/select', '' ], [ '/select', 'x' ],
        [ '/select_and_reserve', 'y' ])
    {
        my ($path, $id) = @$case;
        my $line = $log->(POST => $path,
            { %prompt, $id ? (selection_id => $id) : () });

        is_deeply { map { ($_ => $line->{$_}) } keys %want }, \%want, $path
            or diag explain $line;
        is $line->{selection}, $id, "$path: the id";
        like $line->{time}, qr/^0\.\d{6}$/, "$path: the time";
    }

    my $line = $log->(POST => '/select_and_reserve', { %prompt });
    like $line->{selection}, uuid_pattern(), 'an id that was made';
    $line = $log->(POST => '/reservations',
        { selection_id => 'z', worker_id => 5, dp_rank => 2, hashed(2) });
    is_deeply [ @$line{qw(worker rank endpoint selection)} ],
        [ 5, 2, $stream->endpoint(1), 'z' ], '/reservations';

    for my $case ([ GET => '/loads' ], [ GET => '/workers' ],
        [ POST => '/select', { %prompt, model_name => 'none' } ])
    {
        my $line = $log->(@$case);
        is join('', @$line{qw(worker rank endpoint selection overlap prefill
            reason)}), '', "$case->[1]: empty";
    }

    $line = $ng->through(undef, undef, path => '/none')->log;
    is join('', @$line{qw(worker rank endpoint selection overlap prefill time
        reason cached output)}), '', 'another location: empty';
};

all_done;
