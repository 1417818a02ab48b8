package SelProc;

# Processes, ports and waiting: what the other test modules share.
#
# A port is given out by binding port 0 on the loopback address and keeping
# that socket, bound with SO_REUSEADDR and never listening.  Linux lets a
# server that sets SO_REUSEADDR too (nginx, libzmq) listen beside it, and
# gives the port to nobody else, so a server may be restarted on its port.
#
# A process is started as the leader of an own group.  What is left of it is
# found through the group, even after its parent has died.

use strict;
use warnings;

use Exporter qw(import);
use POSIX qw(WNOHANG setpgid _exit);
use Socket;
use Time::HiRes qw(sleep time);

our @EXPORT_OK = qw(reserve_port poll_for children group_members is_alive
    title spawn exit_status describe become_subreaper sanitizer_env
    sanitizer_reports);

use constant {
    PR_SET_PDEATHSIG       => 1,
    PR_SET_CHILD_SUBREAPER => 36,
    FIRST_STEP             => 0.002,
    LAST_STEP              => 0.02,
    POLL_LIMIT             => 5,
};

my (%reserved, $prctl_number);


# Returns a free TCP port, reserved until this process ends.

sub reserve_port {
    socket my $sock, PF_INET, SOCK_STREAM, 0 or die "socket: $!";
    setsockopt $sock, SOL_SOCKET, SO_REUSEADDR, 1 or die "setsockopt: $!";
    bind $sock, pack_sockaddr_in(0, INADDR_LOOPBACK) or die "bind: $!";

    my ($port) = unpack_sockaddr_in(getsockname $sock);
    $reserved{$port} = $sock;

    return $port;
}


# Calls a condition until it returns something true, which is returned; an
# empty result after the limit (seconds).  The pauses grow up to 20 ms.

sub poll_for {
    my ($condition, $limit) = @_;

    my $end  = time + ($limit // POLL_LIMIT);
    my $step = FIRST_STEP;

    while (1) {
        my $result = $condition->();
        return $result if $result;
        return if time >= $end;
        sleep $step;
        $step *= 1.5 if $step < LAST_STEP;
    }
}


# The fields of /proc/PID/stat after the name: state, parent, group, ...

sub _stat {
    my ($pid) = @_;

    open my $fh, '<', "/proc/$pid/stat" or return;
    my $line = <$fh> // return;

    return split ' ', $line =~ s/.*\)//sr;
}


# A zombie is not alive: nothing of it can act any more.

sub is_alive {
    my ($pid) = @_;

    my ($state) = _stat($pid);

    return defined $state && $state !~ /[ZX]/;
}


sub children {
    my ($pid) = @_;

    my %seen;

    for my $file (glob "/proc/$pid/task/*/children") {
        open my $fh, '<', $file or next;
        $seen{$_} = 1 for split ' ', <$fh> // '';
    }

    my @pids = sort { $a <=> $b } grep { is_alive($_) } keys %seen;

    return @pids;
}


sub group_members {
    my ($group) = @_;

    my @members;

    for my $pid (map { m{(\d+)$} } glob '/proc/[0-9]*') {
        my ($state, undef, $pgrp) = _stat($pid);
        next if !defined $state || $state =~ /[ZX]/;
        push @members, $pid if $pgrp == $group;
    }

    @members = sort { $a <=> $b } @members;

    return @members;
}


sub title {
    my ($pid) = @_;

    open my $fh, '<', "/proc/$pid/cmdline" or return '';
    local $/;

    return (<$fh> // '') =~ tr/\0/ /r =~ s/\s+$//r;
}


# Starts a command with standard input closed and both outputs in a file.
# The process dies with us, and reports death to us alone.

sub spawn {
    my (%opt) = @_;

    my $parent = $$;
    my $number = _prctl_number();
    my $pid    = fork // die "fork: $!";

    if ($pid == 0) {
        $SIG{__DIE__} = 'DEFAULT';
        eval { _exec_child($parent, $number, %opt) };
        print STDERR $@;
        _exit(127);
    }

    setpgid $pid, $pid;

    return $pid;
}


sub _exec_child {
    my ($parent, $number, %opt) = @_;

    setpgid 0, 0;
    syscall $number, PR_SET_PDEATHSIG, POSIX::SIGTERM(), 0, 0, 0
        if $number;
    _exit(127) if getppid != $parent;

    %ENV = (%ENV, %{ $opt{env} // {} });
    chdir $opt{dir} or die "$opt{dir}: $!\n" if $opt{dir};
    open STDIN, '<', '/dev/null' or die "/dev/null: $!\n";

    if ($opt{output}) {
        open STDOUT, '>>', $opt{output} or die "$opt{output}: $!\n";
        open STDERR, '>&', \*STDOUT or die "stderr: $!\n";
    }

    exec { $opt{command}[0] } @{ $opt{command} }
        or die "$opt{command}[0]: $!\n";
}


# Waits for the end of a child: its wait status, nothing after the limit.

sub exit_status {
    my ($pid, $limit) = @_;

    my $status;

    poll_for(sub {
        my $got = waitpid $pid, WNOHANG;
        return 0 if $got == 0;
        $status = $got == $pid ? $? : -1;
        return 1;
    }, $limit);

    return $status;
}


sub describe {
    my ($status) = @_;

    return 'still running'           if !defined $status;
    return 'lost'                    if $status == -1;
    return 'signal ' . ($status & 127) if $status & 127;
    return 'exit code ' . ($status >> 8);
}


# Orphans of our children become our children: they can be waited for, and
# are reaped at once even where the machine's init is slow.

sub become_subreaper {
    my $number = _prctl_number() or return 0;

    return syscall($number, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0;
}


sub _prctl_number {
    return $prctl_number if defined $prctl_number;

    local $SIG{__DIE__} = 'DEFAULT';
    local $SIG{__WARN__} = sub { };
    $prctl_number = eval { require 'syscall.ph'; SYS_prctl() } // 0;

    return $prctl_number;
}


# With SEL_ASAN_LOG naming a directory, the environment that sends sanitizer
# reports to files there whose names begin with the given prefix.

sub sanitizer_env {
    my ($prefix) = @_;

    my $dir = $ENV{SEL_ASAN_LOG} or return {};

    my %env;

    for my $name (qw(ASAN_OPTIONS UBSAN_OPTIONS)) {
        my @options = grep { length && !/^log_path=/ }
            split /[:,]/, $ENV{$name} // '';
        $env{$name} = join ':', @options, "log_path=$dir/$prefix";
    }

    return \%env;
}


sub sanitizer_reports {
    my ($prefix) = @_;

    my $dir = $ENV{SEL_ASAN_LOG} or return;

    return grep { -s } glob "\Q$dir/$prefix\E*";
}

1;
