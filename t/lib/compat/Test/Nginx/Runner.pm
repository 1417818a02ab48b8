package Test::Nginx::Runner;

# Runs blocks: one nginx for each block that has a config section (one
# without it talks to the nginx of the block before), every block's requests
# as often as repeat_each() says, and the checks on what comes back.

use strict;
use warnings;

use Carp qw(croak);
use File::Path qw(remove_tree);
use File::Temp qw(tempdir);
use List::Util qw(shuffle);
use Test::Builder;
use Time::HiRes qw(sleep);

use SelAnswer;
use SelLog;
use SelNginx::Process;
use SelProc qw(describe reserve_port sanitizer_reports);

use Test::Nginx::Runner::Check;
use Test::Nginx::Runner::Peer;
use Test::Nginx::Runner::Request qw(exchanges);
use Test::Nginx::Runner::Sections qw(check_sections seconds skip_rule);
use Test::Nginx::Runner::Wire qw(exchange);


# Settings are those of Test::Nginx::Socket.

sub new {
    my ($class, $set) = @_;

    my $self = bless { set => $set, builder => Test::Builder->new }, $class;

    $self->{port} = $ENV{TEST_NGINX_SERVER_PORT} || $ENV{TEST_NGINX_PORT}
        || reserve_port();
    $self->{root} = $ENV{TEST_NGINX_SERVROOT};
    $self->{own_root} = !defined $self->{root};
    $self->{root} //= tempdir('servroot-XXXXXX', TMPDIR => 1);

    $ENV{TEST_NGINX_SERVER_PORT} = $self->{port};
    $ENV{TEST_NGINX_SERVER_ROOT} = $self->{root};

    return $self;
}


sub port { return $_[0]{port} }
sub root { return $_[0]{root} }


sub run {
    my ($self, @blocks) = @_;

    check_sections($_) for @blocks;

    if (!$self->{set}{no_shuffle}) {
        my $seed = $ENV{SEL_SEED} // int rand 2 ** 31;
        $self->{builder}->note("block order: SEL_SEED=$seed");
        srand $seed;
        @blocks = shuffle @blocks;
    }

    for my $block (@blocks) {
        $_->($block) for @{ $self->{set}{preprocessors} };
        check_sections($block);
        $self->_block($block);
    }

    $self->finish;

    return;
}


# Stops nginx, with the checks that are due then.

sub finish {
    my ($self) = @_;

    return if $self->{finished}++;

    $self->_stop;
    $_->() for @{ $self->{set}{cleanup} };

    if ($self->{own_root} && $self->{builder}->is_passing) {
        remove_tree($self->{root});

    } else {
        $self->{builder}->note("the files are in $self->{root}");
    }

    return;
}


sub _block {
    my ($self, $block) = @_;

    my ($rule, $count, $why) = skip_rule($block, $self->_version);
    my $dies = defined scalar $block->must_die;

    if (!$rule && defined scalar $block->config) {
        $self->_stop;
        $self->_prepare($block);
        return $self->_must_die($block) if $dies;
        $self->_start($block);
    }

    for my $round (0 .. $self->{set}{repeat_each} - 1) {
        if ($rule) {
            my $method = $rule eq 'skip' ? 'skip' : 'todo_skip';
            $self->{builder}->$method($why) for 1 .. $count;
            next;
        }

        $self->_round($block, $round);
    }

    return;
}


# A fresh server root and nginx with the block's configuration.

sub _prepare {
    my ($self, $block) = @_;

    my ($set, $root) = ($self->{set}, $self->{root});
    my %text = map { ($_ => $block->$_ // "") }
        qw(main_config http_config config);

    remove_tree(map { "$root/$_" } qw(conf html logs),
        map { "${_}_temp" } qw(client_body proxy fastcgi scgi uwsgi));

    $text{config} .= "\nlocation / { root $root/html; }\n"
        if !$set->{no_root_location};

    my $reuseport = $set->{master}
        && ($ENV{TEST_NGINX_REUSE_PORT} // $set->{workers} > 1);

    $self->{nginx} = SelNginx::Process->new(
        name => $block->name, port => $self->{port}, root => $root,
        main => join("\n", (map { "env $_;" } @{ $set->{env} }),
            $text{main_config}),
        http => "default_type text/plain;\nkeepalive_timeout 68s;\n"
            . $text{http_config},
        server      => $text{config},
        workers     => $set->{workers},
        master      => $set->{master},
        reuseport   => $reuseport,
        connections => $set->{connections},
        log_level   => $block->log_level // $set->{log_level},
        files       => { _user_files($block) },
    );

    $self->{check} = $self->_new_check($block);

    return;
}


sub _new_check {
    my ($self, $block) = @_;

    my $nginx = $self->{nginx};

    return Test::Nginx::Runner::Check->new(
        block       => $block,
        log         => $nginx->logfile,
        access      => SelLog->new("$self->{root}/logs/access.log"),
        expand      => sub { $nginx->expand_text(@_) },
        port        => $self->{port},
        body_checks => $self->{set}{body_checks},
    );
}


# Text in which ">>> name" lines begin the files, or a list of lists.

sub _user_files {
    my ($block) = @_;

    my $files = $block->user_files // '';
    my @pairs;

    if (ref $files) {
        @pairs = map { ($_->[0] => $_->[1] // '') } @$files;

    } else {
        (undef, @pairs) = split /^>>>[ \t]+(\S+)[^\n]*\n/m, $files;
    }

    my %file = (@pairs, @pairs % 2 ? '' : ());
    $file{'index.html'} //= "<p>index</p>\n";

    return map { (m{^/} ? $_ : "html/$_") => $file{$_} } keys %file;
}


sub _start {
    my ($self, $block) = @_;

    my $nginx = $self->{nginx};

    return if $nginx->start;

    my $why  = describe($nginx->exit);
    my $tail = $nginx->logfile->tail(10);
    die $block->name . ": nginx did not start ($why)\n$tail\n";
}


sub _must_die {
    my ($self, $block) = @_;

    my ($nginx, $name) = ($self->{nginx}, $block->name);
    my $want = $block->must_die;

    for (1 .. $self->{set}{repeat_each}) {
        my $started = $nginx->start;
        my $status  = $started ? 0 : $nginx->exit;

        if ($status & 127) {
            $self->{builder}->ok(0, "$name - nginx: " . describe($status));

        } elsif ($want =~ /^\s*\d+\s*$/) {
            $self->{builder}->is_num($status >> 8, $want,
                "$name - exit code");

        } else {
            $self->{builder}->isnt_num($status, 0, "$name - must die");
        }

        $self->{check}->error_log;
        $nginx->stop if $started;
    }

    delete $self->{nginx};

    return;
}


sub _stop {
    my ($self) = @_;

    my $nginx = delete $self->{nginx} // return;
    my $check = delete $self->{check};

    $nginx->stop;
    $check->shutdown_log;

    my @reports = map { SelLog->new($_)->text }
        sanitizer_reports($nginx->reports);

    $check->fault($_) for $nginx->problems, @reports;

    return;
}


sub _round {
    my ($self, $block, $round) = @_;

    my $nginx = $self->{nginx}
        // die $block->name . ": no config and no nginx before\n";

    if ($round > 0) {
        $self->{check}->next_round;
        $nginx->configure;

    } elsif ($self->{check}{block} != $block) {
        $self->{check} = $self->_new_check($block);
    }

    my $peer = $self->_peer($block);
    eval { $self->_requests($block); 1 } or my $error = $@;
    $peer->stop if $peer;
    die $error if defined $error;

    return;
}


sub _peer {
    my ($self, $block) = @_;

    my $port  = $self->{nginx}->expand_text(scalar $block->tcp_listen);
    my $reply = $block->tcp_reply;
    my $name  = $block->name;

    return if !defined $port;
    die "$name: tcp_listen takes a port\n" if $port !~ /^\s*(\d+)\s*$/;
    die "$name: tcp_listen needs tcp_reply\n" if !defined $reply;

    return Test::Nginx::Runner::Peer->new($1, $reply,
        seconds(scalar $block->tcp_reply_delay));
}


sub _requests {
    my ($self, $block) = @_;

    my @exchanges = exchanges($block,
        sub { $self->{nginx}->expand_text(@_) });
    my $several = @exchanges > 1 || defined scalar $block->pipelined_requests;
    my $i = 0;

    for my $exchange (@exchanges) {
        my $bytes = $self->_exchange($block, $exchange);

        for my $method (@{ $exchange->{methods} }) {
            (my $answer, $bytes) = SelAnswer->parse($bytes,
                method => $method, eof => 1);
            $self->_check($block, $answer, $i++, $several);
        }

        $self->{builder}->diag($block->name . ": more bytes: $bytes")
            if $bytes ne '' && !defined scalar $block->ignore_response;
    }

    return;
}


sub _exchange {
    my ($self, $block, $exchange) = @_;

    my $shutdown = $block->shutdown;
    $shutdown = 1 if defined $shutdown && $shutdown !~ /\d/;

    my ($bytes, $silent) = exchange(
        port     => $self->{port},
        pieces   => [ @{ $exchange->{pieces} } ],
        timeout  => seconds($block->timeout // $self->{set}{timeout}),
        delay    => seconds(scalar $block->raw_request_middle_delay),
        shutdown => $shutdown,
    );

    $self->{check}->fault('no end of the answer in time')
        if $silent && !defined scalar $block->abort;

    return $bytes;
}


sub _check {
    my ($self, $block, $answer, $i, $several) = @_;

    my $check   = $self->{check};
    my $ignored = defined scalar $block->ignore_response;

    $check->answer($answer, $i, $several) if !$ignored;
    sleep seconds(scalar $block->wait) if defined scalar $block->wait;
    $check->error_log;
    $check->access_log if !$ignored;

    return;
}


sub _version {
    my ($self) = @_;

    my $binary = $ENV{TEST_NGINX_BINARY} || '/usr/sbin/nginx';

    return $self->{version} //= `$binary -v 2>&1` =~ m{/(\d+\.\d+\.\d+)}
        ? $1 : croak "cannot run $binary";
}

1;
