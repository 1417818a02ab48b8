# The simulated engine sends what it is told to: a test of KV events that
# rests on it would prove nothing if a frame, a field or a sequence number
# were not what a real engine sends.

use strict;
use warnings;

use File::Basename qw(dirname);
use File::Temp qw(tempdir);
use JSON::PP ();
use Test::More;

my $here;
BEGIN { $here = dirname(__FILE__) }
use lib $here;

use SelEngine;
use SelProc qw(exit_status is_alive poll_for spawn);

my $dir = tempdir(CLEANUP => 1);
my %subscriber;

END {
    my $code = $?;
    for my $pid (values %subscriber) {
        kill KILL => $pid;
        waitpid $pid, 0;
    }
    $? = $code;
}


sub subscribe {
    my ($name, $endpoint) = @_;

    $subscriber{$name} = spawn(output => "$dir/$name",
        command => ["$here/selftest/subscriber.py", 'live', $endpoint]);

    return;
}


sub unsubscribe {
    my ($name) = @_;

    my $pid = delete $subscriber{$name};
    kill KILL => $pid;
    exit_status($pid);

    return;
}


# The first $count messages that a subscriber got, at the latest in 5 s.

sub messages {
    my ($name, $count) = @_;

    my @lines;

    poll_for(sub {
        open my $fh, '<', "$dir/$name" or return 0;
        @lines = grep { /\n\z/ } <$fh>;
        return @lines >= $count;
    });

    return map { JSON::PP->new->decode($_) } @lines;
}


sub replay {
    my ($endpoint, $start) = @_;

    my $pid = spawn(output => "$dir/replay-$start",
        command => ["$here/selftest/subscriber.py", 'replay', $endpoint,
            $start]);

    is(exit_status($pid), 0, "replay from $start ends");

    return messages("replay-$start", 1);
}


my $engine = SelEngine->start(ranks => 2, block_size => 4, replay => 1,
    topic => 'kv');

isnt($engine->port(0), $engine->port(1), 'a port a rank');
is($engine->report->{subscribers}, 0, 'nobody subscribed yet');
ok(!eval { $engine->wait_subscribers(1, 0, 0.05) }, 'and that is an error');

subscribe(one => $engine->endpoint(0));
subscribe(two => $engine->endpoint(0));
$engine->wait_subscribers(2);
pass('two subscribers have arrived');
is($engine->report(1)->{subscribers}, 0, 'none at the other rank');

# Events in both forms.

my @hashes = $engine->publish_stored(tokens => [ 1 .. 9 ]);
my @prefix = $engine->publish_stored(tokens => [ 1 .. 4 ], form => 'array',
    medium => 'CPU', dp_rank => undef);
my @child = $engine->publish_stored(tokens => [ 5 .. 8 ],
    parent => $hashes[0], keys => { group_idx => 3 });

is(@hashes, 2, 'whole blocks only');
is_deeply(\@prefix, [ $hashes[0] ], 'equal prefixes have equal hashes');
is_deeply(\@child, [ $hashes[1] ], 'a parent carries the chain on');

my $large = '18446744073709551615';
$engine->publish_stored(tokens => [ 1 .. 4 ], hashes => [$large],
    parent => '9223372036854775809', dp_rank => 'none');
$engine->publish_removed(hashes => [ $large, -5 ], medium => 'GPU');
my @removed = $engine->publish_removed(tokens => [ 1 .. 8 ],
    form => 'array');
is_deeply(\@removed, \@hashes, 'a removal by tokens');
$engine->publish_cleared(form => 'array');
$engine->publish([ { type => 'Ignored' }, [ 'X', { hex => '00ff' } ] ],
    ts => 7, dp_rank => 1, more => ['extra']);
$engine->publish([]);

my @got = messages('one', 9);
my @batch = map { $_->{batch} } @got;

is(@got, 9, 'all batches came');
is_deeply([ map { $_->{frames}[1] } @got ],
    [ map { sprintf '%016x', $_ } 0 .. 8 ], 'the sequence counts up');
is($got[0]{frames}[0], unpack('H*', 'kv'), 'the topic');
is(@{ $got[0]{frames} }, 3, 'three frames');
is_deeply($batch[0][1], [ {
    type => 'BlockStored', block_hashes => [ map { 0 + $_ } @hashes ],
    parent_block_hash => undef, token_ids => [ 1 .. 9 ], block_size => 4,
    lora_id => undef, medium => undef, lora_name => undef,
} ], 'a store as a map');
is($batch[0][2], 0, 'with the rank');
is_deeply($batch[1][1], [
    [ 'BlockStored', [ 0 + $hashes[0] ], undef, [ 1 .. 4 ], 4, undef, 'CPU',
        undef ],
], 'a store as an array');
is(@{ $batch[1] }, 3, 'nil rank');
is($batch[1][2], undef, 'is nil');
is($batch[2][1][0]{group_idx}, 3, 'more fields');
is("$batch[3][1][0]{block_hashes}[0]", $large, 'a hash of 64 bits');
is(@{ $batch[3] }, 2, 'a batch without a rank');
is("$batch[4][1][0]{block_hashes}[1]", '-5', 'a negative hash');
is_deeply($batch[5][1], [
    [ 'BlockRemoved', [ map { 0 + $_ } @hashes ], undef ],
], 'a removal as an array');
is_deeply($batch[6][1], [ ['AllBlocksCleared'] ], 'a clear');
is(substr($got[7]{frames}[2], -26), 'a158c40200ff01a56578747261',
    'bytes, the rank and a further element');
is_deeply($batch[8][1], [], 'an empty batch');
is(messages('two', 9), 9, 'the other subscriber got as many');

# Gaps and replay.

$engine->publish_stored(tokens => [ 1 .. 4 ], drop => 1);
is($engine->publish([]), 10, 'a dropped batch has a number');
is((messages('one', 10))[9]{frames}[1], '000000000000000a',
    'and is not sent');

my @again = replay($engine->replay_endpoint, 8);
is_deeply([ map { $_->{frames}[2] } @again ],
    [ '0000000000000008', '0000000000000009', '000000000000000a',
        'ffffffffffffffff' ], 'replay holds it, up to the end marker');
is($again[0]{frames}[1], unpack('H*', 'kv'), 'with the topic');
is($again[-1]{frames}[3], '', 'the end has no payload');

$engine->set_replay_style('sglang');
@again = replay($engine->replay_endpoint, 10);
is_deeply([ map { scalar @{ $_->{frames} } } @again ], [ 3, 3 ],
    'the other style has no topic');
is_deeply($engine->report->{replay_requests}, [ 8, 10 ],
    'the engine tells what was asked for');
$engine->forget;
is(replay($engine->replay_endpoint, 0), 1, 'what is forgotten is gone');

# Raw frames, sequences, closing and restarting.

$engine->raw([ '', '0000000000000001', 'c1' ], rank => 1);
$engine->raw([ 'ff', '00' ]);
is($engine->report->{next}, 11, 'raw frames take no number');
$engine->set_sequence(5);
is($engine->publish([]), 5, 'a sequence set');

unsubscribe('two');
$engine->wait_subscribers(1);
pass('one subscriber has left');

my $port = $engine->port;
$engine->close;
$engine->open;
is($engine->report->{port}, $port, 'the port is the same after closing');
$engine->wait_subscribers(1);
is($engine->publish([]), 6, 'the sequence goes on');

for my $signal (qw(TERM KILL)) {
    $engine->restart($signal);
    is($engine->report->{port}, $port, "the port after $signal");
    $engine->wait_subscribers(1);
    is($engine->publish([]), 0, 'a new engine starts at 0');
}

ok(!eval { $engine->raw(['zz']); 1 }, 'what is refused is an error');
like($@, qr/refuses raw/, 'and says why');

my $pid = $engine->{pid};
$engine->stop;
ok(!is_alive($pid), 'the engine has ended');
ok(!eval { $engine->report; 1 }, 'and answers no more');

done_testing;
