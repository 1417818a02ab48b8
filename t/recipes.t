# The configurations of docs/recipes.md and docs/router.md as they are printed
# there: TLS, user files chosen by request, a mount that only shows; the router
# before a fleet of engines.  Without this test the pages could promise a door
# that does not close.

use strict;
use warnings;

use File::Temp qw(tempdir);
use JSON::PP qw(decode_json encode_json);
use Test::More;

use SelNginx;
use SelProc qw(poll_for);

my $dir = tempdir('selrecipes-XXXXXX', TMPDIR => 1, CLEANUP => 1);

is system("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=x"
    . " -addext subjectAltName=IP:127.0.0.1 -keyout $dir/selector.key"
    . " -out $dir/selector.crt > /dev/null 2>&1"), 0, 'a certificate';

sub slurp { local (@ARGV, $/) = $_[0]; return scalar <> }

# The first configuration below a heading.

sub printed {
    my ($page, $heading) = @_;

    my ($conf) = slurp($page)
        =~ /^#+ \Q$heading\E\n.*?^```nginx\n(.*?)^```/ms;

    ok $conf, "$page has a configuration";
    return $conf;
}

sub user {
    my ($name) = @_;
    return "$name:" . qx(openssl passwd -apr1 secret-$name);
}

my $conf = printed('docs/recipes.md',
    'TLS, authentication, and who may write');

ok $conf =~ s/127\.0\.0\.1:8443/127.0.0.1:\$TEST_NGINX_SERVER_PORT/,
    'which listens on 8443';

my $ng = SelNginx->new(
    zone => 'selector 4m',
    http => $conf,
    files => {
        'conf/selector.key' => slurp("$dir/selector.key"),
        'conf/selector.crt' => slurp("$dir/selector.crt"),
        'conf/clients.htpasswd' => user('ray') . user('ops'),
        'conf/operators.htpasswd' => user('ops'),
    },
)->run;

my $base = 'https://127.0.0.1:' . $ng->port;
my $worker = '{"worker_id":1,"block_size":16,"endpoint":"http://e:1",'
    . '"kv_events_endpoint":"tcp://127.0.0.1:9"}';
my $prompt = '{"token_ids":[1,2,3]}';

sub status {
    my ($user, $method, $path, $body) = @_;

    my @command = ('curl', '-s', '-m', 5, '--cacert', "$dir/selector.crt",
        '--path-as-is', '-o', "$dir/out", '-w', '%{http_code}', '-X', $method);

    push @command, '-u', "$user:secret-$user" if $user;
    push @command, '-H', 'Content-Type: application/json', '-d', $body
        if $body;

    open my $pipe, '-|', @command, "$base$path" or die "curl: $!";
    my $status = <$pipe>;
    close $pipe;

    return $status;
}

is status('', 'GET', '/ready'), 401, 'nobody reads without a name';
is status('', 'POST', '/workers', $worker), 401, 'nor registers';
is status('ray', 'POST', '/workers', $worker), 401, 'a client does not';
is status('ray', 'POST', '/workers?x=1', $worker), 401, 'nor with a query';
is status('ops', 'POST', '/workers', $worker), 201, 'an operator does';
is status('ray', 'GET', '/ready'), 200, 'a client reads';
is status('ray', 'POST', '/select', $prompt), 200, 'and selects';
is status('ray', 'PATCH', '/workers/1', '{}'), 401, 'but changes nothing';
is status('ray', 'DELETE', '/workers/1'), 401, 'and removes nothing';

for my $path ('//workers/1', '/x/../workers/1', '/%77orkers/1', '/./workers/1')
{
    is status('ray', 'DELETE', $path), 404, "nor as $path";
}

is status('', 'GET', '/watch/ready'), 200, 'anybody watches';
is status('', 'GET', '/watch/workers'), 200, 'and sees the workers';
is status('', 'POST', '/watch/select', $prompt), 403, 'but selects nothing';
is status('', 'DELETE', '/watch/workers/1'), 403, 'and removes nothing';
is status('', 'GET', '/status'), 200, 'the status page is for this host';
is status('ops', 'DELETE', '/workers/1'), 200, 'an operator removes';
is status('ops', 'GET', '/ready'), 503, 'and then nothing is ready';


# The fleet.

my $fleet = printed('docs/router.md', 'The configuration');
my @modules = map { "load_module $_;\n" }
    split ' ', $ENV{TEST_NGINX_LOAD_MODULES} // '';

ok $fleet =~ s/^load_module .*\n/join '', @modules/e, 'which is complete';
ok $fleet =~ s/listen 443/listen 127.0.0.1:\$TEST_NGINX_SERVER_PORT/,
    'and listens on 443';
ok $fleet =~ s{/var/log/nginx/}{\$TEST_NGINX_SERVER_ROOT/logs/}, 'and logs';

my ($http) = $fleet =~ /^http \{\n(.*)^\}/ms;

my $paths = join '', map { "${_}_temp_path \$TEST_NGINX_SERVER_ROOT/$_;\n" }
    qw(client_body proxy fastcgi uwsgi scgi);

$fleet =~ s{^(?=http \{\n)}{pid \$TEST_NGINX_SERVER_ROOT/logs/fleet.pid;\n}m;
$fleet =~ s{^http \{\n\K}{$paths}m;

$ng = SelNginx->new(
    http => $http,
    files => {
        'conf/router.key' => slurp("$dir/selector.key"),
        'conf/router.crt' => slurp("$dir/selector.crt"),
        'conf/api-keys.map' => qq("Bearer sk-alice" alice;\n),
        'conf/operators.htpasswd' => user('ops'),
        'conf/fleet.conf' => $fleet,
    },
)->run;

$base = 'https://127.0.0.1:' . $ng->port;

is system(join(' ', $ng->command('fleet.conf'), '-t -q > /dev/null 2>&1')), 0,
    'nginx -t takes it as it is';

my %engine;
END { kill TERM => map { $_->{pid} } values %engine }

for my $id (1, 2) {
    my $pid = open my $out, '-|',
        'exec /usr/bin/python3 conf/demo/engine.py 2> /dev/null'
        or die "engine: $!";
    $engine{$id} = { pid => $pid, out => $out, %{ decode_json(<$out>) } };
}

sub worker {
    my ($id) = @_;

    return encode_json({ worker_id => $id, model_name => 'llama',
        block_size => 16, endpoint => "http://127.0.0.1:$engine{$id}{http}",
        kv_events_endpoint => "tcp://127.0.0.1:$engine{$id}{kv_events}" });
}

sub complete {
    my ($key, @prompt) = @_;

    open my $pipe, '-|', 'curl', '-s', '-m', 10, '--cacert',
        "$dir/selector.crt", '-o', "$dir/out", '-w', '%{http_code}',
        '-H', "Authorization: Bearer $key", '--json',
        encode_json({ model => 'llama', prompt => \@prompt, max_tokens => 20,
            stream => \1 }), "$base/v1/completions" or die "curl: $!";
    my $status = <$pipe>;
    close $pipe;

    return $status;
}

sub last_line {
    my ($lines) = @_;

    my @lines;
    poll_for(sub {
        @lines = grep { m{"uri":"/v1/completions"} }
            split /\n/, slurp($ng->root . '/logs/llm.log') // '';
        return @lines == $lines;
    }) or return {};

    return decode_json($lines[-1]);
}

# What is published before a subscriber has arrived is lost.

sub followed {
    my ($id) = @_;

    return poll_for(sub {
        my $state = qx(curl -s -m 5 http://127.0.0.1:$engine{$id}{http}/);
        return decode_json($state)->{subscriptions} >= 2;
    });
}

# Each worker process has an index of its own, and each connection meets
# another one: twelve that know the prompt's six blocks are all.

sub known {
    my ($id, @prompt) = @_;

    my $body = encode_json({ model_name => 'llama', token_ids => \@prompt });
    my $met = 0;

    return poll_for(sub {
        status('ops', 'POST', '/select/overlap_scores', $body);
        my $row = qr/"worker_id":$id,"dp_rank":0,"device_blocks":6,/;
        $met = slurp("$dir/out") =~ $row ? $met + 1 : 0;
        return $met == 12;
    });
}

is status('', 'POST', '/select/workers', worker(1)), 401,
    'registration needs a name';
is status('ops', 'POST', '/select/workers', worker($_)), 201,
    "worker $_ is registered" for 1, 2;
ok followed($_), 'both processes follow its events' for 1, 2;

my @prompt = map { 1000 + $_ } 1 .. 100;

is complete('sk-mallory', @prompt), 401, 'a wrong key is refused';
is last_line(1)->{user}, '', 'and logged';
is complete('sk-alice', @prompt), 200, 'a right one serves';
like slurp("$dir/out"), qr/^data: \[DONE\]\n\n\z/m, 'a whole stream';

my $first = last_line(2);
my $id = $first->{worker};

is "@$first{qw(user reason overlap cached output)}", 'alice prompt 0 0 20',
    'the log has its numbers';
ok known($id, @prompt), 'its blocks become known';
is complete('sk-alice', @prompt, 1 .. 20), 200, 'the prompt goes on';

my $next = last_line(3);

is "@$next{qw(worker rank overlap cached)}", "$id 0 96 96",
    'where its blocks are, as predicted';

kill TERM => $engine{$id}{pid};
waitpid $engine{$id}{pid}, 0;

is complete('sk-alice', @prompt), 200, 'the other engine takes over';

my $other = last_line(4);

is "@$other{qw(worker tries)}", 3 - $id . ' 502, 200', 'at the second try';
is status('ops', 'GET', '/select/loads'), 200, 'there are loads';
unlike slurp("$dir/out"), qr/"active_requests":[1-9]/, 'and none is left';
is status('', 'GET', '/status'), 200, 'the status page is for this host';
is status('', 'GET', '/health'), 404, 'other paths lead nowhere';

all_done;
