package Test::Nginx::Runner::Wire;

# One exchange on one connection: sends the pieces, reads until the server
# closes or is silent for too long.

use strict;
use warnings;

use Errno qw(EAGAIN EINTR);
use Exporter qw(import);
use IO::Select;
use IO::Socket::INET;
use Time::HiRes qw(time);

use SelProc qw(poll_for);

our @EXPORT_OK = qw(exchange);

use constant {
    READ_SIZE  => 65536,
    CLOSE_TIME => 0.5,
};


# Options: port, pieces, timeout (silence, in seconds), delay (between two
# pieces), shutdown (how to shut the socket down after sending).  Returns the
# bytes received and whether the server kept silent.

sub exchange {
    my (%opt) = @_;

    local $SIG{PIPE} = 'IGNORE';

    my $sock = IO::Socket::INET->new(
        PeerAddr => '127.0.0.1',
        PeerPort => $opt{port},
        Proto    => 'tcp',
        Timeout  => $opt{timeout},
    ) or return ('', 0);

    $sock->blocking(0);

    my $own = $sock->sockport;
    my ($bytes, $silent) = _talk($sock, %opt);

    close $sock;
    poll_for(sub { !_is_held($opt{port}, $own) }, CLOSE_TIME);

    return ($bytes, $silent);
}


sub _talk {
    my ($sock, %opt) = @_;

    my @pieces = @{ $opt{pieces} };
    my $due    = time;
    my $quiet  = $due + $opt{timeout};
    my $input  = '';

    while (time < $quiet) {
        my $sending = @pieces && time >= $due;
        my $end = @pieces && !$sending ? $due : $quiet;
        my ($read, $write) = _wait($sock, $sending, $end - time);

        if ($write && _write($sock, \$pieces[0])) {
            shift @pieces;
            $due = time + ($opt{delay} // 0);
            shutdown $sock, $opt{shutdown}
                if !@pieces && defined $opt{shutdown};
        }

        my $open = !$read || _read($sock, \$input);
        return ($input, 0) if !$open;
        $quiet = time + $opt{timeout} if $read || $write || @pieces;
    }

    return ($input, 1);
}


sub _wait {
    my ($sock, $sending, $time) = @_;

    my $set = IO::Select->new($sock);
    my ($read, $write) = IO::Select->select($set, $sending ? $set : undef,
        undef, $time > 0 ? $time : 0);

    return (scalar @{ $read // [] }, scalar @{ $write // [] });
}


# True when the piece is sent, or the server wants no more of it.

sub _write {
    my ($sock, $piece) = @_;

    my $n = syswrite $sock, $$piece;

    return !$!{EAGAIN} && !$!{EINTR} if !defined $n;
    substr $$piece, 0, $n, '';

    return $$piece eq '';
}


# False at the end of the connection.

sub _read {
    my ($sock, $input) = @_;

    my $n = sysread $sock, $$input, READ_SIZE, length $$input;

    return $!{EAGAIN} || $!{EINTR} if !defined $n;

    return $n > 0;
}


# True while a process holds the server's end of the connection: until then
# the log phase of the request may not have run.

sub _is_held {
    my ($port, $own) = @_;

    my $mark = sprintf ':%04X 0100007F:%04X', $port, $own;

    open my $fh, '<', '/proc/net/tcp' or return 0;

    for my $line (grep { index($_, $mark) >= 0 } <$fh>) {
        my $inode = (split ' ', $line)[9];
        return 1 if $inode;
    }

    return 0;
}

1;
