# The configuration of docs/recipes.md as it is printed there: TLS, user files
# chosen by request, a mount that only shows.  Without this test the page could
# promise a door that does not close.

use strict;
use warnings;

use Test::More;

use SelNginx;

my $page = do { local (@ARGV, $/) = 'docs/recipes.md'; <> };
my ($conf) = $page =~ /^```nginx\n(.*?)^```/ms;

ok $conf, 'the page has a configuration';
ok $conf =~ s/127\.0\.0\.1:8443/127.0.0.1:\$TEST_NGINX_SERVER_PORT/,
    'which listens on 8443';

my $dir = "/tmp/sel-recipe-$$";
mkdir $dir or die "mkdir: $!";
END { unlink glob "$dir/*"; rmdir $dir }

is system("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=x"
    . " -addext subjectAltName=IP:127.0.0.1 -keyout $dir/selector.key"
    . " -out $dir/selector.crt > /dev/null 2>&1"), 0, 'a certificate';

sub slurp { local (@ARGV, $/) = $_[0]; return scalar <> }

sub user {
    my ($name) = @_;
    return "$name:" . qx(openssl passwd -apr1 secret-$name);
}

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

all_done;
