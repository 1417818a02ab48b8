# Several worker processes are one service: what one of them answered is in
# force in all others, at once, whatever comes first.  Without this suite a
# worker could be registered in half of the service, two processes could fix
# different block sizes for one partition, or a request could meet a worker
# that another process has removed.

use strict;
use warnings;

use Test::More;

use SelNginx;

my $ng = SelNginx->new(workers => 3, zone => 'selector 4m', http => <<'HTTP',
    select_kv_events off;
    add_header X-Select-Process $pid always;
HTTP
    server => 'location / { select_service selector; }')->run;

my @clients = map { $ng->connection_to($_, '/health') } $ng->workers;
my ($one, $two, $three) = @clients;


sub record {
    my ($id, %more) = @_;

    return { worker_id => $id, endpoint => 'a', block_size => 4, %more };
}


# What each process answers: status, and the chosen worker.

sub choices {
    my (%body) = @_;

    return join ' ', map {
        my $answer = $_->post('/select', { token_ids => [1], %body });
        join ':', $answer->status, $answer->json->{worker_id} // ();
    } @clients;
}


is scalar @clients, 3, 'three processes';
is choices(), '503 503 503', 'nothing to choose at first';

# Steps go round the processes, and each is seen by all.

my @wrong;

for my $round (1 .. 30) {
    my ($first, $second, $third) =
        @clients[ map { ($_ + $round) % 3 } 0 .. 2 ];

    $first->post('/workers', record($round));
    my $seen = choices();
    push @wrong, "registered $round: $seen"
        if $seen ne join ' ', ("200:$round") x 3;

    $second->patch("/workers/$round", { endpoint => '' });
    $seen = choices();
    push @wrong, "incomplete $round: $seen" if $seen ne '503 503 503';

    $third->patch("/workers/$round",
        { endpoint => 'b', taints => ["t$round"] });
    $seen = choices(routing_constraints => { required_taints => ["t$round"] });
    push @wrong, "changed $round: $seen"
        if $seen ne join ' ', ("200:$round") x 3;

    $second->post('/workers', record($round, routing_group => 'g'));
    $seen = choices() . ' ' . choices(routing_group => 'g');
    push @wrong, "moved $round: $seen"
        if $seen ne join ' ', (503) x 3, ("200:$round") x 3;

    my $status = join ' ', map { $_->delete("/workers/$round")->status }
        $first, $second, $third;
    $seen = choices(routing_group => 'g');
    push @wrong, "deleted $round: $status, $seen"
        if "$status $seen" ne '200 404 404 503 503 503';
}

is "@wrong", '', 'each step is in force in all processes at once';

# All at the same moment.

sub at_once {
    my (@requests) = @_;

    $clients[ $_ % 3 ]->send(@{ $requests[$_] }) for 0 .. $#requests;

    return map { $clients[ $_ % 3 ]->receive } 0 .. $#requests;
}

@wrong = ();

for my $round (1 .. 30) {
    my @answers = at_once(map {
        [ POST => '/workers', body => record(100 + $_, model_name => "m$round",
            block_size => 4 * $_) ]
    } 1 .. 3);
    my @good = grep { $_->json->{lifecycle} eq 'schedulable' } @answers;
    my ($size) = map { $_->json->{block_size} } @good;
    my @told = grep {
        $_->body =~ /existing=$size requested=\d+"\]\}$/
    } @answers;

    push @wrong, "$round: " . scalar @good if @good != 1 || @told != 2;
}

is "@wrong", '', 'the first of several fixes the block size, for all';

my @answers = at_once(map { [ POST => '/workers', body => record(7,
    model_name => 'race', total_kv_blocks => $_) ] } 1 .. 60);

is scalar(grep { $_->status == 201 } @answers), 60,
    'many registrations of one worker';

my @lists = map { $_->get('/workers?model_name=race')->body } @clients;

is scalar @{ $one->get('/workers?model_name=race')->json }, 1,
    'are one worker';
is scalar(grep { $_ eq $lists[0] } @lists), 3, 'the same in each process';

@answers = at_once(map { [ DELETE => '/workers/7' ] } 1 .. 30);
is join(' ', sort map { $_->status } @answers), join(' ', 200, (404) x 29),
    'and it can be deleted once';

@answers = at_once(map { [ POST => '/workers', body => record(1000 + $_,
    model_name => 'many') ] } 1 .. 300);
is scalar(grep { $_->status == 201 } @answers), 300, 'many workers';

for my $client (@clients) {
    is join(' ', map { $_->{worker_id} }
        @{ $client->get('/workers?model_name=many')->json }),
        join(' ', 1001 .. 1300), 'are in each process, in order';
}

is $two->get('/ready')->json->{schedulable_workers},
    $three->get('/ready')->json->{schedulable_workers},
    'the same number is ready everywhere';

# A new process knows what the one before it knew.

my ($gone) = $ng->workers;
$ng->kill_worker(0);
my @fresh = grep { $_ ne $gone } $ng->workers;
is scalar @fresh, 3, 'a process was killed and replaced';

for my $pid (@fresh) {
    my $answer = $ng->connection_to($pid, '/health')
        ->post('/select', { model_name => 'many', token_ids => [1] });
    is $answer->status, 200, 'and all can choose';
}

all_done;
