package SelEngine;

# A simulated engine (engine.py) that publishes KV events for a test.
#
#     my $engine = SelEngine->start(ranks => 2, block_size => 4);
#     # register a worker with $engine->endpoint(0), then
#     $engine->wait_subscribers(2);          # one a worker process
#     my @hashes = $engine->publish_stored(tokens => [1 .. 8]);
#
# What is published before a subscriber has arrived is lost, as with any ZMQ
# publisher; so wait_subscribers() first.  A published batch is on its way,
# not yet in the index: wait for a condition there.
#
# Every method dies when the engine refuses or does not answer.

use strict;
use warnings;

use Carp qw(croak);
use File::Basename qw(dirname);
use IO::Select;
use JSON::PP ();
use POSIX qw(_exit);

use SelProc qw(reserve_port poll_for exit_status);

use constant ANSWER_TIME => 10;

my $JSON = JSON::PP->new->canonical;

sub program { return dirname(__FILE__) . '/engine.py' }


# Options: ranks (1), block_size (16), form (map or array) of the events,
# replay (1: a replay socket a rank), topic.

sub start {
    my ($class, %opt) = @_;

    my $self = bless {
        ranks      => 1,
        block_size => 16,
        form       => 'map',
        topic      => '',
        %opt,
        owner      => $$,
    }, $class;

    for my $rank (0 .. $self->{ranks} - 1) {
        $self->{port}[$rank] = reserve_port();
        $self->{replay_port}[$rank] = reserve_port() if $self->{replay};
    }

    $self->_launch;
    $self->open($_) for 0 .. $self->{ranks} - 1;

    return $self;
}


sub _launch {
    my ($self) = @_;

    my $program = $self->program;

    pipe my $in, my $to or die "pipe: $!";
    pipe my $from, my $out or die "pipe: $!";

    my $pid = fork // die "fork: $!";

    if ($pid == 0) {
        open STDIN, '<&', $in and open STDOUT, '>&', $out
            and exec { $program } $program;
        print STDERR "$program: $!\n";
        _exit(127);
    }

    $to->autoflush(1);
    @$self{qw(pid to from buffer)} = ($pid, $to, $from, '');

    return;
}


# The address to register: the publishing socket of a rank, and its replay
# socket.

sub endpoint {
    my ($self, $rank) = @_;

    return "tcp://127.0.0.1:" . $self->port($rank);
}


sub replay_endpoint {
    my ($self, $rank) = @_;

    return "tcp://127.0.0.1:$self->{replay_port}[$rank // 0]";
}


sub port {
    my ($self, $rank) = @_;

    return $self->{port}[$rank // 0];
}


# All publish methods take: rank (the socket, 0), dp_rank (in the batch;
# default the rank, undef for nil, 'none' to leave it out), drop (1: the batch
# takes a sequence number and is kept for replay, but is not sent), ts.
#
# tokens gives the blocks and, unless hashes are given, their external hashes:
# equal prefixes have equal ones.  A chain goes on with parent => HASH.
# Further: medium, lora_name, extra_keys, keys (more fields of the map form).
# Returns the external hashes as decimal strings.

sub publish_stored {
    my ($self, %opt) = @_;

    return @{ $self->_publish('stored', %opt)->{hashes} };
}


# Takes hashes, or the tokens (and parent) of which they were made.

sub publish_removed {
    my ($self, %opt) = @_;

    return @{ $self->_publish('removed', %opt)->{hashes} };
}


sub publish_cleared {
    my ($self, %opt) = @_;

    return $self->_publish('cleared', %opt)->{seq};
}


# A batch of events as they shall be encoded; {hex => '...'} stands for
# bytes.  Returns the sequence number.

sub publish {
    my ($self, $events, %opt) = @_;

    return $self->_publish('publish', events => $events, %opt)->{seq};
}


# One message of frames given in hexadecimal.  The sequence stays as it is.

sub raw {
    my ($self, $frames, %opt) = @_;

    $self->call('raw', %opt, frames => $frames);

    return;
}


sub _publish {
    my ($self, $do, %opt) = @_;

    my $rank = $opt{rank} //= 0;

    $opt{dp_rank} = $rank if !exists $opt{dp_rank};
    delete $opt{dp_rank} if ($opt{dp_rank} // '') eq 'none';
    $opt{block_size} //= $self->{block_size};
    $opt{form} //= $self->{form};

    return $self->call($do, %opt);
}


# The sequence number of the next batch.

sub set_sequence {
    my ($self, $next, $rank) = @_;

    return $self->call('set', rank => $rank, next => $next);
}


# How replay requests are answered: vllm, sglang or silent.

sub set_replay_style {
    my ($self, $style, $rank) = @_;

    return $self->call('set', rank => $rank, replay_style => $style);
}


# Forgets what was sent, so that it cannot be replayed.

sub forget {
    my ($self, $rank) = @_;

    return $self->call('set', rank => $rank, forget => 1);
}


# Closes the sockets of a rank; open() binds them again on the same ports
# (sequence and replay buffer go on).

sub close {
    my ($self, $rank) = @_;

    return $self->call('close', rank => $rank);
}


sub open {
    my ($self, $rank) = @_;

    $rank //= 0;

    return $self->call('open', rank => $rank, topic => $self->{topic},
        port => $self->{port}[$rank],
        replay_port => $self->{replay_port}[$rank]);
}


# What the engine knows of a rank: port, replay_port, next (sequence),
# subscribers, replay_requests (start sequences asked for).

sub report {
    my ($self, $rank) = @_;

    return $self->call('report', rank => $rank);
}


# Waits until a rank has exactly so many subscribers.

sub wait_subscribers {
    my ($self, $count, $rank, $limit) = @_;

    my $have;

    poll_for(sub {
        $have = $self->report($rank)->{subscribers};
        return $have == $count;
    }, $limit)
        or croak "rank " . ($rank // 0) . " has $have subscribers, "
        . "not $count";

    return 1;
}


# One command, for what has no method here.

sub call {
    my ($self, $do, %opt) = @_;

    local $SIG{PIPE} = 'IGNORE';

    $opt{rank} = ($opt{rank} // 0) + 0;
    print { $self->{to} } $JSON->encode({ %opt, do => $do }), "\n";

    my $answer = $JSON->decode($self->_line($do));
    croak "the engine refuses $do: $answer->{error}" if !$answer->{ok};

    return $answer;
}


sub _line {
    my ($self, $do) = @_;

    my $select = IO::Select->new($self->{from});

    while ($self->{buffer} !~ /\n/) {
        $select->can_read(ANSWER_TIME)
            or croak "the engine does not answer $do";
        sysread $self->{from}, $self->{buffer}, 65536,
            length $self->{buffer}
            or croak "the engine ended before it answered $do";
    }

    $self->{buffer} =~ s/\A(.*)\n//;

    return $1;
}


# A new engine on the same ports: its sequence starts at 0 again and there is
# nothing to replay.  A signal other than TERM may be given.

sub restart {
    my ($self, $signal) = @_;

    $self->stop($signal // 'TERM');
    $self->_launch;
    $self->open($_) for 0 .. $self->{ranks} - 1;

    return;
}


# Ends the engine: by the end of its input, or by a signal.

sub stop {
    my ($self, $signal) = @_;

    my $pid = delete $self->{pid} // return;

    kill $signal => $pid if defined $signal;
    delete @$self{qw(to from)};

    if (!defined exit_status($pid)) {
        kill KILL => $pid;
        waitpid $pid, 0;
    }

    return;
}


sub DESTROY {
    my ($self) = @_;

    local ($., $@, $!, $^E, $?);

    $self->stop if $self->{owner} == $$;

    return;
}

1;
