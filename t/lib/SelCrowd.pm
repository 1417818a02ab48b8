package SelCrowd;

# Clients that act at the same time, each a process of its own.
#
#     my $crowd = SelCrowd->start(map { my $n = $_; sub {
#         my ($go_on) = @_;
#         my $count = 0;
#         $count++ while $go_on->() && ask($n);
#         return { count => $count };
#     } } 1 .. 4);
#     ...
#     my @results = $crowd->stop;
#
# What the code returns, a structure, reaches the test; a client that dies
# makes stop() and results() die with its words.  The clients end with the
# test, because they watch a pipe that only the test holds open.

use strict;
use warnings;

use Carp qw(croak);
use IO::Select;
use JSON::PP ();
use POSIX qw(_exit);

use SelProc qw(exit_status);

my $JSON = JSON::PP->new->allow_nonref;


sub start {
    my ($class, @clients) = @_;

    pipe my $told, my $tell or die "pipe: $!";

    my $self = bless { owner => $$, tell => $tell, clients => [] }, $class;

    for my $client (@clients) {
        pipe my $from, my $to or die "pipe: $!";
        my $pid = fork // die "fork: $!";

        if ($pid == 0) {
            close $tell;
            _act($client, $told, $to);
        }

        close $to;
        push @{ $self->{clients} }, { pid => $pid, from => $from };
    }

    return $self;
}


sub _act {
    my ($client, $told, $to) = @_;

    local $SIG{__DIE__} = 'DEFAULT';

    my $select = IO::Select->new($told);
    my $result = eval {
        { result => scalar $client->(sub { !$select->can_read(0) }) }
    } // { died => "$@" };

    print $to $JSON->encode($result);
    close $to;
    _exit(0);
}


# Waits until the clients have ended and returns their results, in order.

sub results {
    my ($self) = @_;

    my (@results, @deaths);

    for my $client (@{ $self->{clients} }) {
        my $from = $client->{from};
        my $text = do { local $/; <$from> };

        exit_status($client->{pid});
        my $result = eval { $JSON->decode($text) }
            // { died => "a client ended without a result\n" };
        push @deaths, $result->{died} if $result->{died};
        push @results, $result->{result};
    }

    $self->{clients} = [];
    croak join '', @deaths if @deaths;

    return @results;
}


# Tells the clients to come to an end, then as results().

sub stop {
    my ($self) = @_;

    close delete $self->{tell};

    return $self->results;
}


sub DESTROY {
    my ($self) = @_;

    local ($., $@, $!, $^E, $?);

    return if $self->{owner} != $$;

    for my $client (@{ $self->{clients} }) {
        kill KILL => $client->{pid};
        waitpid $client->{pid}, 0;
    }

    return;
}

1;
