# Defaults from the environment (docs/directives.md, "Variables of the
# environment").  Without this suite a selector that takes the place of another
# one could run with other weights than the deployment's variables say, and
# nobody would be told.

use strict;
use warnings;

use Test::More;

use SelNginx;

delete @ENV{ grep { /^DYN_/ } keys %ENV };

my $tester = SelNginx->new(workers => 1, connections => 8192,
    server => 'location / { }', zone => 'selector 4m');


# "nginx -t" with variables and directives: exit code, and what it says.

sub check {
    my ($env, $directives) = @_;

    local %ENV = (%ENV, %$env);
    my ($code, $said) = $tester->test_conf(http => $directives // '');
    $said =~ s/^nginx: (?:the )?configuration file .*\n//mg;

    return ($code =~ /(\d+)/, $said);
}


# Starts nginx with variables and directives, and returns its settings as
# "directive value (origin)".

sub settings {
    my ($env, $http) = @_;

    local %ENV = (%ENV, %$env);
    my $ng = SelNginx->new(workers => 1, zone => 'selector 4m',
        http => $http // '', server => 'location / { }')->run;
    my ($line) = $ng->log =~ /\[notice\] .*, settings: (.*)/;
    $ng->finish;

    my %settings = map { /^(\w+) (.+) \((\S+)\)$/ ? ($1 => "$2 ($3)") : () }
        split /; */, $line // '';

    return \%settings;
}


# Every variable that is a default: directive, variable, value, how it is
# printed, the default, and a value out of range, which stops the start.

my $credit = 'DYN_ROUTER_KV_OVERLAP_SCORE_CREDIT';
my $busy   = 'DYN_ROUTER_CONDITIONAL_DISAGG';
my @variables = (
    [ select_overlap_score_credit       => $credit, '0.5', '0.5', '1.0', -1 ],
    [ select_overlap_score_credit_decay => "${credit}_DECAY",
        '1e1', '10.0', '0.0', -1 ],
    [ select_prefill_load_scale         => 'DYN_ROUTER_PREFILL_LOAD_SCALE',
        '2', '2.0', '1.0', -0.5 ],
    [ select_active_request_weight      =>
        'DYN_ROUTER_DECODE_ACTIVE_REQUEST_WEIGHT', '3', '3.0', '0.0', -1 ],
    [ select_host_cache_weight          => 'DYN_ROUTER_HOST_CACHE_HIT_WEIGHT',
        '1', '1.0', '0.75', 1.5 ],
    [ select_disk_cache_weight          => 'DYN_ROUTER_DISK_CACHE_HIT_WEIGHT',
        '0', '0.0', '0.25', -0.1 ],
    [ select_temperature                => 'DYN_ROUTER_TEMPERATURE',
        '0.25', '0.25', '0.0', -1 ],
    [ select_prefill_busy_threshold     => "${busy}_PREFILL_BUSY_THRESHOLD",
        '0.5', '0.5', 'off', -1 ],
    [ select_decode_busy_threshold      => "${busy}_DECODE_BUSY_THRESHOLD",
        '0.9', '0.9', 'off', -1 ],
    [ select_track_prefill_tokens       => 'DYN_ROUTER_TRACK_PREFILL_TOKENS',
        'false', 'off', 'on', undef ],
    [ select_assume_kv_reuse            => 'DYN_ROUTER_ASSUME_KV_REUSE',
        'no', 'off', 'on', undef ],
    [ select_kv_events                  => 'DYN_ROUTER_USE_KV_EVENTS',
        'yes', 'on', 'on', undef ],
);

# Those that are times, in seconds: values with their milliseconds, and values
# out of range, which are ignored.

my $year  = 365 * 24 * 60 * 60;
my @times = (
    [ select_reservation_expire => 'DYN_ROUTER_ACTIVE_REQUEST_EXPIRY_SECS',
        '60', '60000ms', '300000ms',
        { 1 => '1000ms', '1.5' => '1500ms', '1e2' => '100000ms',
            $year => "${year}000ms" },
        qr/must be between 1s and 365d/, 0, '0.999' ],
    [ select_approximate_ttl    => 'DYN_ROUTER_TTL_SECS',
        '7', '7000ms', '120000ms',
        { '0.25' => '250ms', 120 => '120000ms', $year => "${year}000ms" },
        qr/must be at most 365d/ ],
    [ select_predicted_ttl      => 'DYN_ROUTER_PREDICTED_TTL_SECS',
        '2.5', '2500ms', 'off',
        { 0 => 'off', 5 => '5000ms', $year => "${year}000ms" },
        qr/must be at most 365d, or off/ ],
);

# And the one that is a word.

my $policy = 'DYN_ROUTER_APPROXIMATE_CACHE_POLICY';

my @all = (@variables, @times,
    [ select_approximate_policy => $policy, 'ttl', 'ttl', 'ttl' ]);

# Some settings have no variable.

my %plain = (
    select_index_memory     => '2048m (default)',
    select_silence_warning  => '300000ms (default)',
    select_session_affinity => 'off (default)',
    select_pending          => 'ttl=120000ms max=4096 size=268435456 (default)',
);

is settings({})->{$_}, $plain{$_}, "the default of $_" for sort keys %plain;

is settings({}, 'select_kv_events off;')->{select_kv_events},
    'off (directive)', 'A17: the log says that events are not followed';

sub with_variables {
    my %settings = %{ settings(@_) };
    delete @settings{ keys %plain };
    return \%settings;
}

# All at their defaults, all by variables, all by directives.

is_deeply with_variables({}),
    { map { $_->[0] => "$_->[4] (default)" } @all },
    'without variables the defaults are in force';

my %set = map { $_->[1] => $_->[2] } @all;

is_deeply with_variables(\%set),
    { map { $_->[0] => "$_->[3] ($_->[1])" } @all },
    'each variable is the default of its directive';

is_deeply with_variables({ map { $_->[1] => '' } @all }),
    { map { $_->[0] => "$_->[4] (default)" } @all },
    'an empty variable is as good as none';

my $written = join '', map { "$_->[0] $_->[4];\n" } @all;

is_deeply with_variables(\%set, $written),
    { map { $_->[0] => "$_->[4] (directive)" } @all },
    'a directive that is written wins';

for my $variable (@variables) {
    my ($directive, $name, undef, undef, $default, $outside) = @$variable;
    my $quiet = 'select_kv_events off;';
    $quiet = '' if $directive eq 'select_kv_events';

    my ($code, $said) = check({ $name => 'rubbish' }, $quiet);
    is $code, 0, "$name=rubbish: nginx starts";
    is scalar(() = $said =~ /\[warn\] .*\b$name\b/g), 1, 'and warns once'
        or diag $said;
    is +(settings({ $name => 'rubbish' }, $quiet))->{$directive},
        "$default (default)", 'the default is in force';

    ($code, $said) = check({ $name => 'rubbish' },
        "$quiet $directive $default;");
    is "$code $said", '0 ', 'a variable that is not used is not looked at';

    next if !defined $outside;

    ($code, $said) = check({ $name => $outside }, $quiet);
    is $code, 1, "$name=$outside stops the start";
    like $said, qr/\[emerg\] .*\b$name\b/, 'and is named' or diag $said;

    ($code, $said) = check({ $name => $outside },
        "$quiet $directive $default;");
    is "$code $said", '0 ', 'unless the directive is written';
}

# Times.

for my $time (@times) {
    my ($directive, $name, undef, undef, $default, $good, $wrong, @outside) =
        @$time;

    is settings({ $name => $_ })->{$directive}, "$good->{$_} ($name)",
        "$name=$_" for sort keys %$good;

    for my $value (-1, -0.001, $year + 1, '1e300', @outside) {
        my ($code, $said) = check({ $name => $value });

        is $code, 0, "$name=$value: nginx starts";
        is scalar(() = $said =~ /\[warn\] .*\b$name\b.*$wrong/g), 1,
            'and says once what is wrong' or diag $said;
        is settings({ $name => $value })->{$directive},
            "$default (default)", 'the default is in force';
    }

    for my $value (qw(x 5s nan inf 1e999 off), '1,5') {
        my ($code, $said) = check({ $name => $value });

        is $code, 0, "$name=$value: nginx starts";
        is scalar(() = $said
            =~ /\[warn\] .*\b$name=$value is not a number and is ignored/g),
            1, 'and warns once' or diag $said;
        is settings({ $name => $value })->{$directive},
            "$default (default)", 'the default is in force';
    }

    for my $value ($year + 1, 'x') {
        my ($code, $said) = check({ $name => $value },
            "$directive $default;");
        is "$code $said", '0 ', "$name=$value is not looked at when the"
            . ' directive is written';
    }
}

# The policy of the approximate index.

for my $value ('x', 'LRU', 'Ttl', 'lru ', 'off', '0') {
    my ($code, $said) = check({ $policy => $value }, 'select_kv_events off;');

    is $code, 1, "$policy=$value stops the start";
    like $said, qr/\[emerg\] unknown approximate cache policy "$value"/,
        'and says why';
    like $said, qr/"$value", expected 'ttl' or 'lru'$/m, 'and what is right';

    ($code, $said) = check({ $policy => $value },
        'select_approximate_policy ttl;');
    is "$code $said", '0 ', 'unless the directive is written';
}

is settings({ $policy => 'lru', DYN_ROUTER_USE_KV_EVENTS => 'off' })
    ->{select_approximate_policy}, "lru ($policy)", 'lru without events';

# Settings that do not go together, wherever they come from.

my ($events, $predicted) = map { "DYN_ROUTER_$_" }
    qw(USE_KV_EVENTS PREDICTED_TTL_SECS);
my $lru_alone = 'router_approximate_cache_policy=lru requires '
    . 'use_kv_events=false; the local side indexer is TTL-only';
my $events_needed = 'router_predicted_ttl_secs requires use_kv_events=true';
my $no_lru = 'select_approximate_policy lru is not implemented';

for my $case (
    [ emerg => $lru_alone, { $policy => 'lru' }, '' ],
    [ emerg => $lru_alone, { $policy => 'lru', $events => 'on' }, '' ],
    [ emerg => $lru_alone, { $policy => 'lru', $events => 'off' },
        'select_kv_events on;' ],
    [ emerg => $lru_alone, {}, 'select_approximate_policy lru;' ],
    [ warn  => $no_lru, { $policy => 'lru', $events => 'off' }, '' ],
    [ warn  => $no_lru, { $policy => 'lru' }, 'select_kv_events off;' ],
    [ warn  => $no_lru, { $events => 'off' },
        'select_approximate_policy lru;' ],
    [ none  => '', { $policy => 'lru' }, 'select_approximate_policy ttl;' ],
    [ none  => '', { $policy => 'ttl' }, '' ],
    [ none  => '', { $policy => 'ttl', $events => 'off' }, '' ],

    [ emerg => $events_needed, { $predicted => 5, $events => 'off' }, '' ],
    [ emerg => $events_needed, { $predicted => 0.001 },
        'select_kv_events off;' ],
    [ emerg => $events_needed, { $events => 'off' },
        'select_predicted_ttl 5s;' ],
    [ none  => '', { $predicted => 5 }, '' ],
    [ none  => '', { $predicted => 5, $events => 'off' },
        'select_kv_events on;' ],
    [ none  => '', { $predicted => 5, $events => 'off' },
        'select_predicted_ttl off;' ],
    [ none  => '', { $predicted => '', $events => 'off' }, '' ],
) {
    my ($level, $text, $env, $directives) = @$case;
    my ($code, $said) = check($env, $directives);
    my $name = join ' ', "$level:", map({ "$_=$env->{$_}" } sort keys %$env),
        $directives;

    is $code, $level eq 'emerg' ? 1 : 0, $name or diag $said;

    if ($level eq 'none') {
        is $said, '', 'without a word';

    } else {
        is scalar(() = $said =~ /\[$level\] .*$text/g), 1, 'with one'
            or diag $said;
    }
}

# Booleans.

for my $value (qw(1 true on yes TRUE On yEs)) {
    is settings({ DYN_ROUTER_TRACK_PREFILL_TOKENS => $value })
        ->{select_track_prefill_tokens},
        'on (DYN_ROUTER_TRACK_PREFILL_TOKENS)', "$value is on";
}

for my $value (qw(0 false off no FALSE Off nO)) {
    is settings({ DYN_ROUTER_TRACK_PREFILL_TOKENS => $value })
        ->{select_track_prefill_tokens},
        'off (DYN_ROUTER_TRACK_PREFILL_TOKENS)', "$value is off";
}

# Two names for one setting.

my ($first, $second) = qw(DYN_ROUTER_USE_KV_EVENTS DYN_USE_KV_EVENTS);

is settings({ $second => 'off' })->{select_kv_events}, "off ($second)",
    'the second name counts';
is settings({ $first => '', $second => 'off' })->{select_kv_events},
    "off ($second)", 'also when the first is empty';
is settings({ $first => 'on', $second => 'off' })->{select_kv_events},
    "on ($first)", 'the first one goes before';

# The deprecated weight.

($first, $second) = qw(DYN_ROUTER_KV_OVERLAP_SCORE_WEIGHT
    DYN_OVERLAP_SCORE_WEIGHT);

for my $name ($first, $second) {
    my $got = settings({ $name => 3 });
    is $got->{select_prefill_load_scale}, "3.0 ($name)",
        "$name sets the load scale";
    is $got->{select_overlap_score_credit}, '1.0 (default)', 'and no more';

    $got = settings({ $name => 0 });
    is $got->{select_prefill_load_scale}, "0.0 ($name)", 'with 0';
    is $got->{select_overlap_score_credit}, "0.0 ($name)",
        'it sets the credit, too';

    $got = settings({ $name => 0, $credit => 2,
        DYN_ROUTER_PREFILL_LOAD_SCALE => 2 });
    is "$got->{select_prefill_load_scale} $got->{select_overlap_score_credit}",
        "0.0 ($name) 0.0 ($name)", 'and goes before both';

    $got = settings({ $name => 0 }, 'select_overlap_score_credit 2;'
        . ' select_prefill_load_scale 2;');
    is "$got->{select_prefill_load_scale} $got->{select_overlap_score_credit}",
        '2.0 (directive) 2.0 (directive)', 'but not before directives';

    my ($code, $said) = check({ $name => 1 });
    is $code, 0, 'nginx starts';
    like $said, qr/\[warn\] .*\b$name is deprecated/, 'and warns'
        or diag $said;

    ($code, $said) = check({ $name => 'rubbish' });
    is $code, 0, 'nginx starts with rubbish';
    is scalar(() = $said =~ /\b$name=rubbish is not a number/g), 1,
        'and warns of it once' or diag $said;

    ($code, $said) = check({ $name => -1 });
    is $code, 1, 'a weight out of range stops the start';
    like $said, qr/\[emerg\] .*\b$name\b/, 'and is named' or diag $said;
}

is settings({ $first => 3, $second => 4 })->{select_prefill_load_scale},
    "3.0 ($first)", 'of two weights the first one counts';

# Variables that have no effect here.

for my $case (
    [ DYN_USE_REMOTE_INDEXER        => 1, 'true', '1', 'ON' ],
    [ DYN_USE_REMOTE_INDEXER        => 0, 'false', '0', '' ],
    [ DYN_SHARED_CACHE_TYPE         => 1, 'hicache' ],
    [ DYN_SHARED_CACHE_TYPE         => 0, 'none', '' ],
    [ DYN_ROUTER_PREFILL_LOAD_MODEL => 1, 'aic' ],
    [ DYN_ROUTER_PREFILL_LOAD_MODEL => 0, 'none', '' ],
) {
    my ($name, $warnings, @values) = @$case;

    for my $value (@values) {
        my ($code, $said) = check({ $name => $value });

        is $code, 0, "$name=$value: nginx starts";
        is scalar(() = $said =~ /\[warn\] .*\b$name\b.*no effect/g),
            $warnings, $warnings ? 'and warns' : 'without a word'
            or diag $said;
    }
}

# What they are good for.

{
    my %books = (DYN_ROUTER_ACTIVE_REQUEST_EXPIRY_SECS => 60,
        DYN_ROUTER_TTL_SECS => 7, DYN_ROUTER_PREDICTED_TTL_SECS => 0,
        $policy => 'ttl', DYN_ROUTER_ASSUME_KV_REUSE => 'off');

    local %ENV = (%ENV, %books, DYN_ROUTER_USE_KV_EVENTS => 'false',
        "${busy}_DECODE_BUSY_THRESHOLD" => '0', OTHER => 'x');

    my $ng = SelNginx->new(daemon => 1, zone => 'selector 4m',
        server => <<'SERVER')->run;
        location / { select_service selector; }
        location /mine/ {
            select_decode_busy_threshold off;
            select_service selector;
        }
SERVER

    my $ask = sub {
        $ng->post('/workers', { worker_id => 1, endpoint => 'a',
            block_size => 4, total_kv_blocks => 10 });
        return join ' ', map {
            $ng->post($_, { token_ids => [1] })->json->{decode_busy} // 'unset'
        } qw(/select /mine/select);
    };

    is $ask->(), '1 unset',
        'variables are in force, directives before them';

    $ng->reload(gone => 1);
    is $ask->(), '1 unset', 'also after a reload';

    delete @ENV{ grep { /^DYN_/ } keys %ENV };
    my $mark = $ng->log_mark;
    $ng->upgrade;
    is $ask->(), '1 unset', 'and after a binary upgrade';
    $ng->log_like(qr/\[notice\] .*, settings: .*\($_\)/,
        "which keeps $_", $mark) for sort keys %books;
}

# Without a zone nothing is read.

{
    local $ENV{DYN_ROUTER_TEMPERATURE} = -1;
    my ($code) = $tester->test_conf(zone => undef);
    is $code, 'exit code 0', 'variables do not matter without a zone';
}

all_done;
