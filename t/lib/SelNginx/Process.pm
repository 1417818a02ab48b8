package SelNginx::Process;

# One nginx under test: configuration, start, stop, and its worker processes.
# Says nothing to the test harness; SelNginx does that.
#
# nginx runs with "daemon off" as our child and as leader of a process group.
# Only an nginx that is to be upgraded runs with "daemon on", since otherwise
# it takes itself for a new binary whose old one still runs; being sub-reaper
# we are its parent then too.
# It is up when its pid file is there, because nginx listens before it writes
# that, and all worker processes have been started.  What nginx logs about its
# processes is read from a log of its own, logs/process.log, so that any level
# may be chosen for the error log.

use strict;
use warnings;

use Carp qw(croak);
use File::Path qw(remove_tree);
use File::Temp qw(tempdir);
use POSIX ();

use SelConf qw(expand render write_file);
use SelLog;
use SelProc qw(reserve_port poll_for children group_members is_alive spawn
    exit_status describe become_subreaper sanitizer_env);

my %DEFAULT = (
    main        => '',
    events      => '',
    http        => '',
    server      => undef,
    workers     => 2,
    master      => 1,
    daemon      => 0,
    reuseport   => undef,
    log_level   => 'info',
    connections => 512,
    limit       => 5,
    files       => {},
);

my $count = 0;


# Options: the texts main, events, http, server; workers, master (0: a single
# process), reuseport (default: with more than one worker process), daemon,
# log_level, connections; files {path below root => text}; port, root (both
# made when absent); limit (seconds that a change of state may take); name;
# zone (text of a select_zone directive).

sub new {
    my ($class, %opt) = @_;

    become_subreaper();

    my $self = bless { %DEFAULT, name => 'nginx', %opt }, $class;

    $self->{owner}   = $$;
    $self->{ports}   = {};
    $self->{port}    //= reserve_port();
    $self->{root}    //= tempdir('selnginx-XXXXXX', TMPDIR => 1);
    $self->{reports} = join '-', 'nginx', $$, ++$count;
    $self->{limit}  *= 4 if $ENV{TEST_NGINX_WRAP};
    $self->{problems} = [];
    $self->{log} = SelLog->new("$self->{root}/logs/error.log");
    $self->{process_log} = SelLog->new("$self->{root}/logs/process.log");

    return $self;
}


sub root    { return $_[0]{root} }
sub master  { return $_[0]{pid} }
sub logfile { return $_[0]{log} }
sub reports { return $_[0]{reports} }

sub is_running { return defined $_[0]{pid} && is_alive($_[0]{pid}) }


# The port of the server, or with a number that of RAND_PORT_n.

sub port {
    my ($self, $number) = @_;

    return $self->{port} if !defined $number;

    return $self->{ports}{"TEST_NGINX_RAND_PORT_$number"} //= reserve_port();
}


sub expand_text {
    my ($self, $text) = @_;

    return expand($text, {
        TEST_NGINX_SERVER_PORT => $self->{port},
        TEST_NGINX_SERVER_ROOT => $self->{root},
    }, $self->{ports});
}


# Writes the configuration and the user files.

sub configure {
    my ($self, $file) = @_;

    my %text = map { ($_ => $self->expand_text($self->{$_})) }
        qw(main events http server);

    $text{http} = "    select_zone $self->{zone};\n$text{http}"
        if defined $self->{zone};

    croak "without a server text the http text must listen on "
        . '$TEST_NGINX_SERVER_PORT'
        if !defined $text{server} && $text{http} !~ /\b$self->{port}\b/;

    my $reuseport = $self->{reuseport}
        // ($self->{master} && $self->{workers} > 1);

    write_file("$self->{root}/conf/" . ($file // 'nginx.conf'),
        render(%$self, %text, reuseport => $reuseport));

    for my $path (keys %{ $self->{files} }) {
        my $bytes = $self->expand_text($self->{files}{$path});
        write_file($path =~ m{^/} ? $path : "$self->{root}/$path", $bytes);
    }

    return;
}


sub command {
    my ($self, $file, $log) = @_;

    my $root = $self->{root};

    return split(' ', $ENV{TEST_NGINX_WRAP} // ''),
        $ENV{TEST_NGINX_BINARY} || '/usr/sbin/nginx',
        '-p', "$root/", '-e', "$root/logs/" . ($log // 'error.log'),
        '-c', "$root/conf/" . ($file // 'nginx.conf');
}


# Starts nginx and waits until it listens.  When it ends instead, returns
# false and leaves the wait status in exit().

sub start {
    my ($self) = @_;

    my $root = $self->{root};
    my $file = "$root/logs/nginx.pid";

    write_file("$root/logs/output", '');
    unlink $file;
    $self->configure;

    delete $self->{exit};
    $self->{pid} = $self->{group} = spawn(
        command => [ $self->command ],
        dir     => $root,
        env     => sanitizer_env($self->{reports}),
        output  => "$root/logs/output",
    );

    my $up = poll_for(sub { $self->_is_up($file) }, $self->{limit} * 2);

    return 1 if $up && $up eq 'up';

    $self->stop('KILL') if !$up;
    delete $self->{pid};

    return 0;
}


sub _is_up {
    my ($self, $file) = @_;

    # A daemon is there when the process that we started has ended well.
    my $launched = $self->{daemon} && defined $self->{exit};
    my $status   = $launched ? undef : exit_status($self->{pid}, 0);

    if (defined $status) {
        $self->{exit} = $status;
        return 'ended' if !$self->{daemon} || $status != 0;
    }

    my ($pid) = SelLog->new($file)->text =~ /^(\d+)\n/;
    return 0 if !$pid || $self->{daemon} && !defined $self->{exit};

    $self->{pid} = $self->{group} = $pid;

    return $self->workers == $self->_process_count ? 'up' : 0;
}


sub _process_count {
    my ($self) = @_;

    return $self->{master} ? $self->{workers} : 1;
}


# The wait status of the nginx that ended last.

sub exit { return $_[0]{exit} }


# Runs "nginx -t" with changed options: its exit code and its output.

sub test_conf {
    my ($self, %change) = @_;

    local @$self{ keys %change } = values %change;
    $self->configure('test.conf');

    my $output = "$self->{root}/logs/test-output";
    write_file($output, '');
    my $pid = spawn(dir => $self->{root}, output => $output,
        command => [ $self->command('test.conf', 'test.log'), '-t' ]);
    my $status = exit_status($pid, $self->{limit} * 2);

    kill KILL => $pid if !defined $status;

    return (describe($status), SelLog->new($output)->text);
}


# Process numbers of the worker processes that take new connections.

sub workers {
    my ($self) = @_;

    my ($log, @pids) = ($self->{process_log});

    if ($self->is_running) {
        @pids = !$self->{master} ? $self->{pid}
            : grep { $log->is_worker($_) && !$log->is_leaving($_) }
                children($self->{pid});
    }

    return @pids;
}


sub signal {
    my ($self, $name, $pid) = @_;

    return kill $name, $pid // $self->{pid};
}


# Ends nginx with a signal (QUIT) and returns its wait status.  What does not
# end in time is killed and noted as a problem.

sub stop {
    my ($self, $signal) = @_;

    my $group = $self->{group} // return $self->{exit};
    my $pid   = delete $self->{pid};

    $signal //= 'QUIT';

    kill $signal, $signal ne 'KILL' && $pid ? $pid : group_members($group);

    if (defined $pid) {
        $self->{exit} = _end_of($pid, $self->{limit});

    } else {
        poll_for(sub { !group_members($group) }, $self->{limit});
    }

    poll_for(sub { !group_members($group) }, 1)
        or $self->_kill_group($group);
    1 while waitpid(-$group, POSIX::WNOHANG()) > 0;
    delete $self->{group};
    push @{ $self->{problems} }, $self->_output_faults;

    return $self->{exit};
}


# Findings of valgrind, and of sanitizers that have no log, on standard error.

sub _output_faults {
    my ($self) = @_;

    my $output = SelLog->new("$self->{root}/logs/output")->text;

    return grep {
        /==\d+==.*(?:Invalid|uninitialised|definitely lost)/
            || /Sanitizer|runtime error:/
    } split /\n/, $output;
}


sub _end_of {
    my ($pid, $limit) = @_;

    my $status = exit_status($pid, $limit);

    # An upgraded master is no child of ours where there is no sub-reaper.
    poll_for(sub { !is_alive($pid) }, $limit)
        if defined $status && $status == -1;

    return $status;
}


sub _kill_group {
    my ($self, $group) = @_;

    push @{ $self->{problems} },
        map { "process $_ was left: " . SelProc::title($_) }
        group_members($group);

    kill KILL => -$group;
    poll_for(sub { !group_members($group) }, 1);

    return;
}


# What went wrong while stopping: sentences.

sub problems { return @{ $_[0]{problems} } }

sub remove_root {
    my ($self) = @_;

    remove_tree($self->{root});

    return;
}

1;
