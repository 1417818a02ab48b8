package Test::Nginx::Runner::Peer;

# The mock server of tcp_listen: a process that takes one connection, reads
# once, waits and sends the reply.

use strict;
use warnings;

use IO::Socket::INET;
use POSIX qw(_exit);
use Time::HiRes qw(sleep);


# The socket listens when new() returns.

sub new {
    my ($class, $port, $reply, $delay) = @_;

    my $listener = IO::Socket::INET->new(
        LocalAddr => '127.0.0.1',
        LocalPort => $port,
        Listen    => 5,
        ReuseAddr => 1,
    ) or die "cannot listen on 127.0.0.1:$port: $!\n";

    my $pid = fork // die "fork: $!";

    if ($pid == 0) {
        $SIG{$_} = 'DEFAULT' for qw(INT TERM HUP);
        eval { _serve($listener, $reply, $delay) };
        print STDERR $@;
        _exit(0);
    }

    return bless { pid => $pid }, $class;
}


sub _serve {
    my ($listener, $reply, $delay) = @_;

    my $client = $listener->accept or return;

    sysread $client, my $request, 65536;
    sleep $delay if $delay;

    $reply = $reply->($request) if ref $reply eq 'CODE';
    syswrite $client, $_ for ref $reply ? @$reply : $reply;

    return;
}


sub stop {
    my ($self) = @_;

    kill KILL => $self->{pid};
    waitpid $self->{pid}, 0;

    return;
}

1;
