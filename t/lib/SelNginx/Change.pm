package SelNginx::Change;

# Changes to a running nginx: reload, upgrade, and the death of its processes.
# Each method returns when the change is complete and dies when it does not
# come.
#
# A new generation serves when every old worker process has left or has logged
# that it shuts down, because it closes its listening sockets then.

use strict;
use warnings;

use parent qw(SelNginx::Process);

use Carp qw(croak);

use SelLog;
use SelProc qw(poll_for group_members is_alive exit_status);


# Takes new options over, reloads and waits until only the new generation
# serves; with gone => 1 also until the old processes have ended.  Returns
# the old process numbers.

sub reload {
    my ($self, %change) = @_;

    croak 'no reload in single-process mode' if !$self->{master};

    my $gone = delete $change{gone};
    my @old  = $self->workers;

    @$self{ keys %change } = values %change;
    $self->configure;
    $self->signal('HUP');

    poll_for(sub { $self->_is_new_generation($gone, @old) },
        $self->{limit} * 2)
        or croak "$self->{name} did not reload:\n" . $self->{log}->tail(10);

    return @old;
}


sub _is_new_generation {
    my ($self, $gone, @old) = @_;

    my %is_old = map { ($_ => 1) } @old;

    for my $pid (grep { is_alive($_) } @old) {
        return 0 if $gone || !$self->{process_log}->is_leaving($pid);
    }

    return $self->{workers} == grep { !$is_old{$_} } $self->workers;
}


# Sends a signal to worker process number $i (0 is the oldest).  When the
# signal ends it, waits until it is gone and, as long as the master lives,
# replaced.  Returns its process number.

sub kill_worker {
    my ($self, $i, $signal) = @_;

    $signal //= 'KILL';

    my @pids = $self->workers;
    my $pid  = $pids[$i] // croak "there is no worker process $i";

    $self->signal($signal, $pid);
    return $pid if $signal =~ /^(?:STOP|CONT|USR1|WINCH|0)$/;

    poll_for(sub { !is_alive($pid) && $self->workers == @pids },
        $self->{limit})
        or croak "worker process $pid was not replaced after $signal";

    return $pid;
}


# Kills the master alone.  Its worker processes live on; returns them.

sub kill_master {
    my ($self) = @_;

    my $pid = delete $self->{pid};

    kill KILL => $pid;
    $self->{exit} = exit_status($pid, $self->{limit});

    return group_members($self->{group});
}


# Replaces the running binary (USR2, then QUIT to the old master) and waits
# until only the new one is there.

sub upgrade {
    my ($self) = @_;

    croak 'an upgrade needs the option daemon' if !$self->{daemon};

    my $old  = $self->{pid};
    my $file = "$self->{root}/logs/nginx.pid";

    $self->signal('USR2');

    my $new = poll_for(sub {
        my ($pid) = SelLog->new($file)->text =~ /^(\d+)\n/;
        return $pid && $pid != $old && is_alive($pid) ? $pid : 0;
    }, $self->{limit} * 2)
        or croak "no new master:\n" . $self->{log}->tail(10);

    $self->{pid} = $new;
    poll_for(sub { $self->workers == $self->{workers} }, $self->{limit})
        or croak 'the new master has no worker processes';

    $self->signal('QUIT', $old);
    $self->{exit} = exit_status($old, $self->{limit})
        // croak 'the old master did not end';

    return $new;
}

1;
