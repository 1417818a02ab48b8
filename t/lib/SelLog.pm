package SelLog;

# A growing error log: its text, the part since a mark, and what nginx says
# there about its processes (level notice and below).

use strict;
use warnings;


sub new {
    my ($class, $path) = @_;

    return bless { path => $path, seen => 0, started => {}, leaving => {} },
        $class;
}


# The text from a byte offset on (default: all of it).

sub text {
    my ($self, $from) = @_;

    open my $fh, '<:raw', $self->{path} or return '';
    seek $fh, $from // 0, 0;
    local $/;

    return <$fh> // '';
}


# The present end, to be given to text() later.

sub mark { return -s $_[0]{path} // 0 }


sub tail {
    my ($self, $count) = @_;

    my @lines = grep { !/\[debug\]/ } split /\n/, $self->text;
    splice @lines, 0, -$count if @lines > $count;

    return join "\n", @lines;
}


# True for a process that nginx started as a worker process.

sub is_worker {
    my ($self, $pid) = @_;

    $self->_scan;

    return $self->{started}{$pid};
}


# True for a worker process that was told to finish and takes no more
# connections.

sub is_leaving {
    my ($self, $pid) = @_;

    $self->_scan;

    return $self->{leaving}{$pid};
}


# Lines of the three worst levels that match none of the patterns.

sub unexpected {
    my ($self, @allowed) = @_;

    my @lines;

    for my $line (grep { /\[(?:alert|emerg|crit)\]/ }
        split /\n/, $self->text)
    {
        push @lines, $line if !grep { $line =~ $_ } @allowed;
    }

    return @lines;
}


sub _scan {
    my ($self) = @_;

    my $text = $self->text($self->{seen});
    my $end  = rindex($text, "\n") + 1;

    $text = substr $text, 0, $end;
    $self->{seen} += $end;

    # in order: a new process may have the pid of one that left

    while ($text =~ /\[notice\]\ (?:
            .*:\ start\ worker\ process\ (\d+)
            | (\d+)\#.*:\ gracefully\ shutting\ down
        )$/xmg)
    {
        if (defined $1) {
            $self->{started}{$1} = 1;
            delete $self->{leaving}{$1};

        } else {
            $self->{leaving}{$2} = 1;
        }
    }

    return;
}

1;
