# Directives as docs/directives.md describes them: where each may stand, which
# values it takes, and what a refusal says.  Without this suite a mistyped
# value could start a selector that works otherwise than its configuration
# says, or the documentation could promise what nginx refuses.
#
# Everything is asked of "nginx -t"; what the zone keeps over a reload is at
# the end.  Defaults from the environment are in environment.t.

use strict;
use warnings;

use File::Basename qw(dirname);
use List::Util qw(uniq);
use Test::More;

use SelNginx;

my $tester = SelNginx->new(workers => 1, connections => 8192);

# Values of each directive: good ones, and bad ones with the reason.

my @numbers = qw(0 1 0.5 1e3 1E-3 10.25);
my @no_numbers = map { ($_ => qr/invalid value "\Q$_\E"/) }
    qw(-1 -0.001 x 1x 0x10 nan inf infinity 1e999 1.5.2 on), '1,5';
my @no_off = (off => qr/invalid value "off"/);
my @switch = (
    good => [qw(on off)],
    bad  => [ map { ($_ => qr/it must be "on" or "off"/) } qw(1 yes true x) ],
);

my @no_times = map { ($_ => qr/invalid time/) }
    qw(x -1s 1.5s 1x 1s1h), '""', '9' x 20;
my @no_year = map { ($_ => qr/must be/) } qw(366d 31536001 31536000001ms);
my @years = qw(1s 300s 300 5m 1h30m 1500ms 365d 31536000);

my %directive = (
    select_zone => {
        good => ['new 1m', 'new 1024k', 'new 1048576', 'new 4m', 'new 1g'],
        bad  => [
            'new'          => qr/invalid number of arguments/,
            'new 1m more'  => qr/invalid number of arguments/,
            'new x'        => qr/invalid size "x"/,
            'new -1m'      => qr/invalid size "-1m"/,
            'new 1023k'    => qr/too small/,
            'new 1048575'  => qr/too small/,
            'new 0'        => qr/too small/,
            '"" 1m'        => qr/name/,
        ],
    },
    select_service => {
        good => ['selector'],
        bad  => [
            'selector x' => qr/invalid number of arguments/,
            'nobody'     => qr/unknown zone "nobody"/,
            'Selector'   => qr/unknown zone "Selector"/,
        ],
    },
    select_status => {
        good => ['selector'],
        bad  => [
            'selector x' => qr/invalid number of arguments/,
            'nobody'     => qr/unknown zone "nobody"/,
        ],
    },
    (map { $_ => {@switch} } qw(select_kv_events select_track_prefill_tokens
        select_assume_kv_reuse select_track_active_blocks
        select_load_aware)),
    select_index_memory => {
        good => [qw(off 1m 64m 2048m 2g)],
        bad  => [
            'x'    => qr/invalid size/,
            '-1m'  => qr/invalid size/,
            '1mm'  => qr/invalid size/,
            '0'    => qr/must be at least 1m/,
            '64k'  => qr/must be at least 1m/,
        ],
    },
    select_silence_warning => {
        good => [ 'off', '1ms', @years ],
        bad  => [
            @no_times, @no_year,
            '1s off' => qr/invalid number of arguments/,
            '0'      => qr/must be more than 0 and at most 365d, or off/,
        ],
    },
    select_reservation_expire => {
        good => [ '1000ms', @years ],
        bad  => [
            @no_times, @no_year,
            '1s 2s' => qr/invalid number of arguments/,
            'off'   => qr/invalid time/,
            (map { ($_ => qr/must be between 1s and 365d/) } qw(0 999ms)),
        ],
    },
    select_session_affinity => {
        good => [ 'off', '1s', '1000ms', @years ],
        bad  => [
            @no_times,
            '1s off' => qr/invalid number of arguments/,
            'on'     => qr/invalid time/,
            (map { ($_ => qr/must be between 1 and 31536000 seconds, or off/) }
                qw(0 999ms 31536001s)),
        ],
    },
    select_approximate_ttl => {
        good => [ '0', '1ms', @years ],
        bad  => [
            @no_times, @no_year,
            '1s 2s' => qr/invalid number of arguments/,
            'off'   => qr/invalid time/,
        ],
    },
    select_predicted_ttl => {
        good => [ 'off', '0', '1ms', @years ],
        bad  => [
            @no_times, @no_year,
            '1s off' => qr/invalid number of arguments/,
            'on'     => qr/invalid time/,
        ],
    },
    select_approximate_policy => {
        good => ['ttl'],
        bad  => [
            'ttl lru' => qr/invalid number of arguments/,
            map { ($_ => qr/invalid value "\Q$_\E"/) } qw(x off ttl=1s fifo),
        ],
    },
    select_pending => {
        good => [
            'ttl=120s max=4096 size=256m', 'size=1k max=1 ttl=1ms',
            qw(ttl=0 ttl=1 ttl=365d max=0 max=1 max=2147483647 size=0 size=1
            size=1023 size=64k size=4g),
        ],
        bad  => [
            (map { ("max=5 $_" => qr/invalid parameter "\Q$_\E" of /) }
                qw(x off 1 ttl max size ttl= max= size= TTL=1s Max=1 Size=1m
                ttl=x ttl=-1s ttl=1.5s ttl=366d ttl=31536001 ttl=off
                max=x max=-1 max=1.5 max=1k max=2147483648 max=off
                size=x size=-1 size=1mm size=m size=1.5m size=off
                ttl:1s maximum=1 =1), 'max=' . '9' x 20, 'size=' . '9' x 20,
                'ttl=' . '9' x 20),
            '""' => qr/invalid parameter "" of /,
        ],
    },
    select_block_size => {
        good => [qw(1 16 2147483647)],
        bad  => [
            (map { ($_ => qr/must be between 1 and 2147483647/) }
                qw(0 2147483648)),
            (map { ($_ => qr/invalid number/) } qw(-1 x 1.5 off 1k),
                '9' x 20),
            '16 32' => qr/invalid number of arguments/,
        ],
    },
    select_indexer_threads => {
        good => [qw(1 4 1024)],
        bad  => [
            '0'    => qr/must be between 1 and 1024/,
            '1025' => qr/must be between 1 and 1024/,
            '-1'   => qr/invalid number/,
            'x'    => qr/invalid number/,
            '1.5'  => qr/invalid number/,
        ],
    },
    (map { $_ => { good => \@numbers, bad => [ @no_numbers, @no_off ] } }
        qw(select_overlap_score_credit select_overlap_score_credit_decay
        select_prefill_load_scale select_active_request_weight
        select_temperature)),
    (map { $_ => {
        good => [qw(0 1 0.5 1e-3)],
        bad  => [ @no_numbers, @no_off,
            map { ($_ => qr/must be between 0 and 1/) } qw(1.001 2 1e3) ],
    } } qw(select_host_cache_weight select_disk_cache_weight)),
    (map { $_ => {
        good => [ @numbers, 'off' ],
        bad  => \@no_numbers,
    } } qw(select_prefill_busy_threshold select_decode_busy_threshold)),
);


# Tests a text in a context, in a configuration that is sound without it.
# Returns the exit code, what nginx says, and the lines of the text.

my $ZONE = "select_zone selector 4m;\n";

sub try_in {
    my ($context, $text, %opt) = @_;

    my %part = map { $_ => '' } qw(main events http server location);
    $part{$context} = "\n$text\n";

    my $zone = $text =~ /\bselect_zone\b/ ? '' : $ZONE;
    my ($code, $said) = $tester->test_conf(
        main   => $part{main},
        events => $part{events},
        http   => "$zone$part{http}",
        server => "$part{server}\nlocation / { $part{location} }",
        %opt,
    );

    return ($code =~ /(\d+)/, $said, lines_of($text));
}


# The numbers of the lines in which a text stands in the configuration.

sub lines_of {
    my ($text) = @_;

    my $number = 0;
    my @lines;

    for my $line (split /\n/, SelLog->new($tester->root . '/conf/test.conf')
        ->text)
    {
        $number++;
        push @lines, $number if index($line, $text) >= 0;
    }

    return @lines;
}


# Checks that nginx accepts a text, without a word.

sub accepted {
    my ($context, $text, %opt) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my ($code, $said) = try_in($context, $text, %opt);
    $said =~ s/^nginx: (?:the )?configuration file .*\n//mg;

    return is "$code $said", '0 ', "in $context: $text";
}


# Checks that nginx refuses it, and says why, in which file and line.

sub refused {
    my ($context, $text, $reason, %opt) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my ($code, $said, @lines) = try_in($context, $text, %opt);
    my $place = join '|', map { "test\\.conf:$_\$" } @lines;

    my $good = $code == 1
        && $said =~ /\[emerg\] .*$reason.* in \S+(?:$place)/m;

    return ok($good, "not in $context: $text") || diag "$code: $said";
}


# The documentation.

my $docs = SelLog->new(dirname(__FILE__) . '/../docs/directives.md')->text;
my %documented;

while ($docs =~ /^### (select_\w+)\n(.*?)(?=^##|\z)/gms) {
    my ($name, $text) = ($1, $2);

    $documented{$name} = { map {
        /^    (\w+):\s+(.*?);?$/ ? (lc $1 => $2) : ()
    } split /\n/, $text };
}

is_deeply [ sort keys %documented ], [ sort keys %directive ],
    'the documentation knows the directives of this table';

for my $name (sort keys %documented) {
    my ($syntax, $default, $context) =
        @{ $documented{$name} }{qw(syntax default context)};
    my $good = $directive{$name}{good}[0];

    like $syntax, qr/^$name /, "$name: the syntax begins with its name";

    for my $where (qw(main events http server location)) {
        if ($context =~ /\b$where\b/) {
            accepted($where, "$name $good;");

        } else {
            refused($where, "$name $good;",
                qr/"$name" directive is not allowed/);
        }
    }

    my ($at_home) = split /, /, $context;

    accepted($at_home, "$default;") if $default ne "\xe2\x80\x94";
    refused($at_home, "$name $good; $name $good;", qr/duplicate/);
    refused($at_home, "$name;", qr/invalid number of arguments/);
    accepted($at_home, "$name $_;") for @{ $directive{$name}{good} };

    my @bad = @{ $directive{$name}{bad} };

    while (my ($value, $reason) = splice @bad, 0, 2) {
        refused($at_home, "$name $value;", $reason);
    }
}

# Around the zone.

my %bare = (http => '', server => 'location / { }');

is((try_in(http => '', %bare))[0], 0, 'the module alone does nothing');
refused(location => 'select_service selector;',
    qr/unknown zone "selector"/, http => '');
refused(location => 'select_status selector;',
    qr/unknown zone "selector"/, http => '');
refused(http => "server { location / { select_service selector; } } $ZONE"
    =~ s/\n//r, qr/unknown zone "selector"/, server => 'location / { }');
refused(http => 'select_zone one 1m; select_zone two 1m;', qr/duplicate/);
refused(http => 'limit_req_zone $uri zone=one:1m rate=1r/s;'
    . ' select_zone one 1m;', qr/"one" is already declared/);

# One location, one handler.

for my $text (
    'select_service selector; select_status selector;',
    'select_status selector; select_service selector;',
    'stub_status; select_service selector;',
    'proxy_pass http://127.0.0.1:1; select_status selector;',
) {
    refused(location => $text, qr/another handler|the other|duplicate/);
}

# What nginx says without refusing.

sub warns {
    my ($pattern, $name, $count, @try) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my ($code, $said) = try_in(@try);
    my @warnings = $said =~ /\[warn\].*$pattern.*/g;

    return ok($code == 0 && @warnings == $count, $name)
        || diag "$code: $said";
}

# Settings that do not go together are refused when all is read, whatever their
# order, and therefore without a line of the configuration.

sub apart {
    my ($said, @settings) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    for my $text (uniq "@settings", join ' ', reverse @settings) {
        my ($code, $got) = try_in(http => $text);

        ok($code == 1 && $got =~ /\[emerg\] .*$said/, "not together: $text")
            || diag "$code: $got";
    }

    return;
}

my $lru_alone = 'router_approximate_cache_policy=lru requires '
    . 'use_kv_events=false; the local side indexer is TTL-only';
my $events_needed = 'router_predicted_ttl_secs requires use_kv_events=true';

apart($lru_alone, 'select_approximate_policy lru;', 'select_kv_events on;');
apart($lru_alone, 'select_approximate_policy lru;');
apart($events_needed, 'select_predicted_ttl 5s;', 'select_kv_events off;');
apart($events_needed, 'select_predicted_ttl 1ms;', 'select_kv_events off;');
apart($events_needed, 'select_predicted_ttl 5s;', 'select_kv_events off;',
    'select_approximate_policy lru;');

accepted(http => $_) for (
    'select_kv_events off; select_predicted_ttl off;',
    'select_kv_events on; select_predicted_ttl 5s;',
    'select_kv_events on; select_predicted_ttl 5s;'
        . ' select_approximate_policy ttl; select_approximate_ttl 1s;',
    'select_kv_events off; select_approximate_policy ttl;',
);

for my $text (
    'select_kv_events off; select_approximate_policy lru;',
    'select_approximate_policy lru; select_approximate_ttl 1s;'
        . ' select_kv_events off;',
) {
    warns(qr/select_approximate_policy lru is not implemented/,
        "one warning: $text", 1, http => $text);
}

# Nothing of it matters without a zone.

is((try_in(http => '', %bare,
    http => 'select_approximate_policy lru; select_kv_events on;'))[0], 0,
    'nothing is checked without a zone');

# A server that sets no limit for bodies, which is nginx's limit of 1m then.
sub server {
    my ($location) = @_;

    return 'server { listen 127.0.0.1:$TEST_NGINX_RAND_PORT_1;'
        . " location / { $location } }";
}

for my $case (
    [ 1, 'client_max_body_size 2m; select_service selector;' ],
    [ 1, 'client_max_body_size 8388607; select_service selector;' ],
    [ 0, 'client_max_body_size 8m; select_service selector;' ],
    [ 0, 'client_max_body_size 0; select_service selector;' ],
    [ 0, 'select_service selector;' ],
    [ 0, 'select_service selector; limit_except GET { deny all; }' ],
    [ 0, 'select_service selector; if ($http_x) { set $y 1; }' ],
    [ 0, 'client_max_body_size 1m; select_status selector;' ],
) {
    warns(qr/client_max_body_size/, "$case->[0] warnings: $case->[1]",
        $case->[0], http => server($case->[1]));
}

warns(qr/worker_connections/, '8191 connections', 1,
    http => 'select_kv_events on;', connections => 8191);
warns(qr/worker_connections/, '8192 connections', 0,
    http => 'select_kv_events on;', connections => 8192);
warns(qr/worker_connections/, '64 connections without events', 0,
    http => 'select_kv_events off;', connections => 64);
warns(qr/worker_connections/, '64 connections without a zone', 0,
    http => '', %bare, connections => 64);

warns(qr/worker_processes/, '9 worker processes', 1,
    http => 'select_kv_events on;', workers => 9);
warns(qr/worker_processes/, '8 worker processes', 0,
    http => 'select_kv_events on;', workers => 8);
warns(qr/worker_processes/, '9 worker processes without events', 0,
    http => 'select_kv_events off;', workers => 9);

# The values that are in force, by their places.

my $ng = SelNginx->new(workers => 1, zone => 'selector 4m', http => <<'HTTP',
    select_kv_events off;
    select_decode_busy_threshold 0;
    select_assume_kv_reuse off;
    select_reservation_expire 90s;
    select_pending max=7 ttl=1500ms;
    select_approximate_ttl 1m;
HTTP
    server => <<'SERVER')->run;
    select_prefill_busy_threshold 0;
    location / { select_service selector; }
    location /mine/ {
        select_decode_busy_threshold 1;
        select_prefill_busy_threshold off;
        select_assume_kv_reuse on;
        select_service selector;
    }
SERVER

$ng->log_like(qr/\[notice\] .*select_decode_busy_threshold 0\.0 \(directive\)/,
    'the settings of the http level are logged');
$ng->log_like(qr/\[notice\] .*select_temperature 0\.0 \(default\)/,
    'with their origin');
$ng->log_like(qr/\[notice\] .*\Q$_\E \(directive\)/, $_) for (
    'select_assume_kv_reuse off',
    'select_reservation_expire 90000ms',
    'select_pending ttl=1500ms max=7 size=268435456',
    'select_approximate_ttl 60000ms',
);

$ng->post('/workers', { worker_id => 1, endpoint => 'a', block_size => 4,
    total_kv_blocks => 10 });

my %advice = (token_ids => [ 1 .. 4 ], advisory => \1);
my $answer = $ng->post('/select', \%advice)->json;

is $answer->{decode_busy}, 1, 'a value of the http level is inherited';
is $answer->{worker_load}{prefill_busy}, 0, 'and one of the server';

$answer = $ng->post('/mine/select', \%advice)->json;
is $answer->{decode_busy}, 0, 'a location has its own';
ok !exists $answer->{worker_load}{prefill_busy}, 'and can turn it off';

sub blocks_after {
    my ($route) = @_;

    $ng->post($route, { token_ids => [ 1 .. 4 ] });

    return $ng->get('/loads')->json->[0]{loads}[0]{potential_decode_blocks};
}

is_deeply [ map { blocks_after($_) } ('/select_and_reserve') x 2 ], [ 1, 2 ],
    'a flag of the http level is inherited: no prompt shares its blocks';
is_deeply [ map { blocks_after($_) } ('/mine/select_and_reserve') x 2 ],
    [ 3, 3 ], 'and a location has its own';

# What the zone keeps.

my $mark = $ng->log_mark;

$ng->reload;
is scalar @{ $ng->get('/workers')->json }, 1, 'a reload keeps the catalog';
$ng->log_unlike(qr/new, empty zone/, 'and says nothing of it', $mark);
$ng->log_like(qr/select_decode_busy_threshold 0\.0/,
    'but tells the settings again', $mark);

$ng->reload_refused(qr/"selector" is too small/, 'a refused configuration',
    zone => 'selector 1k');
is scalar @{ $ng->get('/workers')->json }, 1, 'changes nothing';

$ng->kill_worker(0);
is scalar @{ $ng->get('/workers')->json }, 1,
    'the death of a worker process neither';

$mark = $ng->log_mark;
$ng->reload(zone => 'selector 5m');
is scalar @{ $ng->get('/workers')->json }, 0, 'another size begins anew';
$ng->log_like(qr/"selector": a new, empty zone/, 'and the log tells', $mark);

all_done;
