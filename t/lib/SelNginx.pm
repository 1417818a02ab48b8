package SelNginx;

# nginx under test for life-cycle tests: SelNginx::Change with an HTTP
# client, conditions to wait for, and checks that report to Test::More.
#
#     my $ng = SelNginx->new(server => 'location / { return 200 ok; }')->run;
#     is $ng->get('/')->body, 'ok', 'an answer';
#     all_done;
#
# finish() (which all_done calls for every instance) stops nginx and makes two
# checks: a clean error log; no process and no sanitizer report left behind.
# In a file with a plan count two more checks for each instance.

use strict;
use warnings;

use parent qw(SelNginx::Change);

use Carp qw(croak);
use Exporter ();
use Scalar::Util qw(weaken);
use Test::More ();

use SelHttp;
use SelProc qw(poll_for sanitizer_reports);

our @EXPORT = qw(wait_until all_done);

use constant TRIES => 200;

my %live;
my $late_faults = 0;

sub import { goto &Exporter::import }

$SIG{$_} ||= sub { exit 1 } for qw(INT TERM HUP);


sub new {
    my ($class, %opt) = @_;

    my $self = $class->SUPER::new(%opt);

    $self->{expected} = [];
    weaken($live{$self} = $self);

    return $self;
}


# Starts nginx, or dies with the end of the log.

sub run {
    my ($self) = @_;

    return $self if $self->start;

    my $why = SelProc::describe($self->exit);
    croak "$self->{name} did not start ($why):\n" . $self->logfile->tail(10);
}


# Checks that nginx refuses the configuration at start, for a reason that the
# log tells.

sub start_refused {
    my ($self, $reason, $name) = @_;

    my $started = $self->start;
    my $told    = $self->log =~ $reason;

    $self->expect_log($reason);

    return _check(!$started && $told, $name,
        $started ? 'nginx started' : (),
        $told    ? () : $self->logfile->tail(5));
}


# Asks for a reload with changed options and checks that nginx refuses it and
# that the worker processes stay.  The options are taken back.

sub reload_refused {
    my ($self, $reason, $name, %change) = @_;

    my $mark = $self->logfile->mark;
    my @old  = $self->workers;

    {
        local @$self{ keys %change } = values %change;
        $self->configure;
    }

    $self->signal('HUP');
    $self->expect_log($reason);

    my $said = poll_for(sub { $self->logfile->text($mark) =~ $reason },
        $self->{limit});
    $self->configure;

    my $stay = "@old" eq join ' ', $self->workers;

    return _check($said && $stay, $name,
        $said ? () : 'the log does not tell the reason',
        $stay ? () : 'the worker processes were replaced');
}


# Lines of the three worst levels that match the pattern are allowed.

sub expect_log {
    my ($self, @patterns) = @_;

    push @{ $self->{expected} }, @patterns;

    return;
}


sub kill_worker {
    my ($self, $i, $signal) = @_;

    my $pid = $self->SUPER::kill_worker($i, $signal);

    $self->expect_log(qr/\[alert\] .* $pid exited on signal/);

    return $pid;
}


# Each request has a connection of its own.

for my $method (qw(get post put patch delete request)) {
    no strict 'refs';
    *$method = sub {
        my ($self, @args) = @_;
        return $self->connection(keepalive => 0)->$method(@args);
    };
}


# A client: options as for SelHttp.

sub connection {
    my ($self, %opt) = @_;

    return SelHttp->new(port => $self->port, timeout => $self->{limit}, %opt);
}


# A keep-alive connection on which one worker process answers: asks for a
# path until a connection meets that process.

sub connection_to {
    my ($self, $pid, $path, %opt) = @_;

    for (1 .. TRIES) {
        my $client  = $self->connection(%opt);
        my $process = $client->get($path)->process // '';
        return $client if $process eq $pid;
    }

    croak "no connection met process $pid in " . TRIES . ' tries';
}


# Calls the code, which returns an answer, until answers of two processes
# were seen; checks that this happened and returns one answer of each.

sub on_both {
    my ($self, $code, $name) = @_;

    my (%answer, @order);

    for my $try (1 .. TRIES) {
        my $answer = $code->($try);
        my $pid = $answer->process // next;
        push @order, $pid if !$answer{$pid};
        $answer{$pid} //= $answer;
        last if @order == 2;
    }

    _check(@order == 2, $name // 'two processes answered',
        'answers came from: ' . (join(', ', @order) || 'nobody'));

    return @answer{@order};
}


# Waits for a condition, checks that it came true, and returns its value.

sub wait_until(&;$$) {
    my ($condition, $name, $limit) = @_;

    my $value = poll_for($condition, $limit);

    _check($value, $name // 'condition', map {
        "end of the log of $_->{name}:\n" . $_->logfile->tail(5)
    } grep { defined } values %live);

    return $value;
}


# The same as a method, with the limit of this instance.

sub until {
    my ($self, $condition, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return wait_until(\&$condition, $name, $self->{limit});
}


sub log {
    my ($self, $from) = @_;

    return $self->logfile->text($from);
}


sub log_mark { return $_[0]->logfile->mark }


# Waits for a line in the log, behind a mark if one is given.

sub log_like {
    my ($self, $pattern, $name, $mark) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return wait_until { $self->log($mark) =~ $pattern }
        $name // "log line $pattern", $self->{limit};
}


sub log_unlike {
    my ($self, $pattern, $name, $mark) = @_;

    my @found = $self->log($mark) =~ /^.*$pattern.*$/mg;

    return _check(!@found, $name // "no log line $pattern", @found);
}


# Stops nginx and makes the two closing checks.

sub finish {
    my ($self) = @_;

    return if $self->{finished}++ || $self->{owner} != $$;

    my ($log, $rest) = $self->_closing_faults;

    _check(!@$log, "$self->{name}: the error log is clean", @$log);
    _check(!@$rest, "$self->{name}: nothing is left behind", @$rest);

    if (Test::More->builder->is_passing) {
        $self->remove_root;

    } else {
        Test::More->builder->diag("the files are in $self->{root}");
    }

    return;
}


sub _closing_faults {
    my ($self) = @_;

    $self->stop;

    my @log  = $self->logfile->unexpected(@{ $self->{expected} });
    my @rest = $self->problems;

    for my $file (sanitizer_reports($self->reports)) {
        push @rest, "$file:\n" . SelLog->new($file)->text;
    }

    return (\@log, \@rest);
}


# One check, reported at our caller's caller, and what to say if it fails.

sub _check {
    my ($ok, $name, @words) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 2;

    my $builder = Test::More->builder;

    if (!$builder->ok($ok, $name)) {
        $builder->diag($_) for @words;
    }

    return $ok;
}


# Finishes every instance and ends the plan.

sub all_done {
    _finish_all();
    Test::More::done_testing();

    return;
}


sub _finish_all {
    $_->finish for sort { $a->{port} <=> $b->{port} }
        grep { defined } values %live;

    return;
}


sub DESTROY {
    my ($self) = @_;

    local ($., $@, $!, $^E, $?);

    delete $live{$self};
    $late_faults += $self->_end
        if $self->{owner} == $$ && !$self->{finished};

    return;
}


# When the plan has ended already a check would come too late: then faults
# are told and make the exit code.

sub _end {
    my ($self) = @_;

    my $builder = Test::More->builder;

    if (!_plan_is_over($builder)) {
        $self->finish;
        return 0;
    }

    $self->{finished} = 1;
    my @faults = map { @$_ } $self->_closing_faults;
    $builder->diag("$self->{name}: $_") for @faults;

    return scalar @faults;
}


sub _plan_is_over {
    my ($builder) = @_;

    my $planned = $builder->has_plan;

    return $planned && $planned ne 'no_plan'
        && $builder->current_test >= $planned;
}


END {
    my $code = $?;

    for my $self (grep { defined } values %live) {
        next if $self->{owner} != $$ || $self->{finished};
        $late_faults += $self->_end;
    }

    $? = $code || ($late_faults ? 1 : 0);
}

1;
