# What broken, hostile or vanished publishers send and do costs at most the
# message or the event in question: it is counted, the stream goes on, and
# requests are answered.  Without the checks of the decoder and the listeners
# one bad engine would stop or crash the selector.

use strict;
use warnings;

use File::Basename qw(dirname);
use IO::Socket::INET;
use JSON::PP ();
use Test::More;
use Time::HiRes qw(time);

use SelConf qw(write_file);
use SelEngine;
use SelProc qw(spawn exit_status poll_for);
use SelService;

use constant {
    EMPTY_BATCH => '93cb41da39de001000009000',
    FLOOD       => 50,        # messages
    EVENTS      => 50_000,    # in each of them
};

my $next = 1;
my $ng;

# Always there, and selected to show that requests are served.
my $steady = SelEngine->start(block_size => 4);

start('streams');


sub start {
    my ($name) = @_;

    $ng->finish if $ng;
    $ng = SelService->new(name => $name)->run;
    $ng->register(1000, events($steady, 0));
    $steady->wait_subscribers(2);

    return;
}


# A worker in a partition of its own, its engine, and a prompt maker.

sub worker {
    my (%members) = @_;

    my $id     = $next++;
    my $engine = SelEngine->start(block_size => 4);

    $ng->register($id, model_name => "m$id", events($engine, 0), %members);
    $engine->wait_subscribers(2);

    return ($id, $engine, sub { return { model_name => "m$id", @_ } });
}


# Checks that the fault is counted so, that the next batch of the same
# publisher is taken, and that requests are served.

sub survives {
    my ($engine, $count, $name, $fault) = @_;

    $ng->counts({ %$count,
        stored => ($count->{stored} // 0) + 1,
        batches => ($count->{batches} // 0) + 1 }, $name, sub {
            $fault->();
            $engine->publish_stored(tokens => [ 900 .. 903 ]);
        });
    $ng->still_serves(1000, 'and requests are served');

    return;
}


sub frames_of {
    my (@numbers) = @_;

    my $file = dirname(__FILE__) . '/vectors/kv-events.json';
    open my $fh, '<:raw', $file or die "$file: $!";
    local $/;
    my $messages = JSON::PP->new->decode(<$fh>)->{messages};

    return map { my $n = $_;
        map { $_->{frames_hex} } grep { $_->{name} =~ /^$n-/ } @$messages
    } @numbers;
}


sub sequence { return sprintf '%016x', $_[0] }


subtest 'messages of another shape' => sub {
    my ($id, $engine) = worker();
    my $mark  = $ng->log_mark;
    my @cases = (
        [ '1 frame', [EMPTY_BATCH] ],
        [ '2 frames', [ '', sequence(0) ] ],
        [ '4 frames', [ '', '', sequence(0), EMPTY_BATCH ] ],
        [ '9 frames', [ ('') x 9 ] ],
        [ 'a sequence of 7 bytes', [ '', '00' x 7, EMPTY_BATCH ] ],
        [ 'a sequence of 9 bytes', [ '', '00' x 9, EMPTY_BATCH ] ],
        [ 'a sequence of 0 bytes', [ '', '', EMPTY_BATCH ] ],
        [ 'a long sequence', [ '', '00' x 4096, EMPTY_BATCH ] ],
    );

    for my $case (@cases) {
        my ($name, $frames) = @$case;
        survives($engine, { frames => 1 }, $name,
            sub { $engine->raw($frames) });
    }

    survives($engine, { frames => 100 }, 'a hundred of them',
        sub { $engine->raw(['']) for 1 .. 100 });

    my @lines = $ng->log($mark) =~ /.*worker $id rank 0.*/g;
    cmp_ok scalar @lines, '>=', 1, 'the log tells of it';
    cmp_ok scalar @lines, '<=', 4, 'not of each message';
};


subtest 'payloads that are no batch' => sub {
    my ($id, $engine) = worker();

    # A fault takes no sequence number here, so the next batch makes no gap.
    my @payloads = (
        [ 'nothing'           => '' ],
        [ 'text'              => '68656c6c6f' ],
        [ 'nil'               => 'c0' ],
        [ 'a reserved byte'   => 'c1' ],
        [ 'a map'             => '80' ],
        [ 'an empty array'    => '90' ],
        [ 'one element'       => '9101' ],
        [ 'no timestamp'      => '93a0' . '9000' ],
        [ 'events are a map'  => '93018000' ],
        [ 'events are nil'    => '9301c000' ],
        [ 'the rank is text'  => '930190a130' ],
        [ 'the rank is 2^32'  => '930190cf0000000100000000' ],
        [ 'array bomb'        => 'ddffffffff' ],
        [ 'map bomb'          => 'df7fffffff' ],
        [ 'larger map bomb'   => 'dfffffffff' ],
        [ 'text bomb'         => 'dbffffffff' ],
        [ 'bytes bomb'        => 'c6ffffffff' ],
        [ 'extension bomb'    => 'c9ffffffff00' ],
        [ 'bomb as events'    => '9301ddffffffff' ],
        [ 'bomb as event'     => '930191ddffffffff' ],
        [ 'map bomb as event' => '930191df7fffffff' ],
        [ 'bomb as hashes'    =>
            '93019195ab426c6f636b53746f726564ddffffffffc09004' ],
        [ 'bomb as tokens'    =>
            '93019195ab426c6f636b53746f7265649101c0ddffffffff04' ],
        [ 'bomb as topmost'   => 'ddffffffff0190' . '00' x 64 ],
        [ 'deep arrays'       => '91' x 100_000 . 'c0' ],
        [ 'deep maps'         => '81a178' x 100_000 . 'c0' ],
        [ 'deep event member' =>
            '93019182a474797065a749676e6f726564a178' . '91' x 40 . 'c000' ],
    );

    my @before = map { memory_kib($_) } $ng->workers;

    for my $case (@payloads) {
        my ($name, $payload) = @$case;
        my $sequence = $engine->report->{next};
        survives($engine, { batch => 1 }, $name, sub {
            $engine->raw([ '', sequence($sequence), $payload ]);
        });
    }

    my @after = map { memory_kib($_) } $ng->workers;
    cmp_ok $after[$_] - $before[$_], '<', at_most(32 * 1024),
        'no memory was taken for what was promised' for 0, 1;

    # From a real publisher the number is used up: the fault shows as a gap.
    survives($engine, { batch => 1, gap => 1, missed => 1 },
        'a number that is used up', sub {
            my $sequence = $engine->report->{next};
            $engine->raw([ '', sequence($sequence), 'c0' ]);
            $engine->set_sequence($sequence + 1);
        });
};


subtest 'nesting that is still taken' => sub {
    my ($id, $engine) = worker();

    survives($engine, { ignored => 1, batches => 1 }, 'eight deep', sub {
        $engine->publish([ { type => 'Ignored',
            x => [ [ [ [ [ { y => 1 } ] ] ] ] ] } ]);
    });
};


subtest 'truncated batches' => sub {
    my ($id, $engine, $prompt) = worker();
    my @frames = frames_of('01', '03', '06');
    my $count  = 0;

    $count += length($_->[2]) / 2 for @frames;

    $ng->counts({ batch => $count }, 'each is refused whole', sub {
        for my $frames (@frames) {
            my ($topic, undef, $payload) = @$frames;
            $engine->raw([ $topic, sequence(0),
                substr $payload, 0, 2 * $_ ])
                for 0 .. length($payload) / 2 - 1;
        }
    });
    $ng->now($prompt->(token_ids => [ 100 .. 107 ]), { "$id/0" => 0 },
        'not even the first block entered');

    $ng->counts({ batches => 1, stored => 1 }, 'the whole one', sub {
        $engine->raw($frames[0]);
    });
    $ng->now($prompt->(token_ids => [ 100 .. 107 ]), { "$id/0" => 2 },
        'is taken');
    $ng->still_serves(1000);
};


subtest 'a bad event between two good ones' => sub {
    my ($id, $engine, $prompt) = worker();
    my %good = (type => 'BlockStored', block_size => 4,
        token_ids => [ 1 .. 4 ], block_hashes => [1]);
    my $stored = sub {
        my (%change) = @_;
        my %event = (%good, %change);
        delete @event{ grep { ref $event{$_} eq 'CODE' } keys %event };
        return \%event;
    };
    my $absent = sub { };
    my @array  = ('BlockStored', [1], undef, [ 1 .. 4 ], 4);

    my @bad = (
        [ malformed => 'no hashes', $stored->(block_hashes => $absent) ],
        [ malformed => 'no tokens', $stored->(token_ids => $absent) ],
        [ malformed => 'nil tokens', $stored->(token_ids => undef) ],
        [ malformed => 'no block size', $stored->(block_size => $absent) ],
        [ malformed => 'hashes are a number', $stored->(block_hashes => 1) ],
        [ malformed => 'hash is text', $stored->(block_hashes => ['1']) ],
        [ malformed => 'hash is a fraction',
            $stored->(block_hashes => [1.5]) ],
        [ malformed => 'hash is nil', $stored->(block_hashes => [undef]) ],
        [ malformed => 'parent is text', $stored->(parent_block_hash => '') ],
        [ malformed => 'negative token',
            $stored->(token_ids => [ 1, 2, 3, -4 ]) ],
        [ malformed => 'token of 33 bits',
            $stored->(token_ids => [ 1, 2, 3, 4294967296 ]) ],
        [ malformed => 'token is text',
            $stored->(token_ids => [ 1, 2, 3, '4' ]) ],
        [ malformed => 'pair among tokens',
            $stored->(token_ids => [ 1, 2, 3, [ 4, 5 ] ]) ],
        [ malformed => 'three in a pair',
            $stored->(token_ids => [ map { [ 1, 2, 3 ] } 1 .. 5 ]) ],
        [ malformed => 'negative block size', $stored->(block_size => -4) ],
        [ malformed => 'block size is text', $stored->(block_size => '4') ],
        [ malformed => 'medium is a number', $stored->(medium => 1) ],
        [ malformed => 'LoRA name is a list', $stored->(lora_name => []) ],
        [ malformed => 'extra keys are text', $stored->(extra_keys => 'x') ],
        [ malformed => 'array: ends early', [ @array[ 0 .. 3 ] ] ],
        [ malformed => 'array: fields swapped', [ @array[ 0, 2, 1, 3, 4 ] ] ],
        [ malformed => 'array: no members', ['BlockStored'] ],
        [ malformed => 'removal without hashes', { type => 'BlockRemoved' } ],
        [ malformed => 'no type', { block_hashes => [1] } ],
        [ malformed => 'type is a number', { type => 1 } ],
        [ malformed => 'empty array', [] ],
        [ malformed => 'empty map', {} ],
        [ malformed => 'nil', undef ],
        [ malformed => 'a number', 1 ],
        [ malformed => 'text', 'BlockStored' ],
        [ unknown_tag => 'unknown type', { %good, type => 'BlockMoved' } ],
        [ unknown_tag => 'array: unknown type', [ 'BlockMoved', 1 ] ],
        [ unknown_tag => 'another case', { type => 'blockstored' } ],
    );
    my $start = 1000;

    for my $case (@bad) {
        my ($reason, $name, $event) = @$case;
        my $hash = $start += 8;

        $ng->counts({ stored => 2, $reason => 1, batches => 1 }, $name, sub {
            $engine->publish([
                { %good, block_hashes => [$hash],
                    token_ids => [ $start .. $start + 3 ] },
                $event,
                { %good, block_hashes => [ $hash + 1 ],
                    parent_block_hash => $hash,
                    token_ids => [ $start + 4 .. $start + 7 ] },
            ]);
        });
        $ng->now($prompt->(token_ids => [ $start .. $start + 7 ]),
            { "$id/0" => 2 }, "$name: both neighbours are in the index");
    }

    $ng->still_serves(1000);
};


subtest 'damaged messages' => sub {
    my ($id, $engine) = worker();
    my $seed   = $ENV{SEL_SEED} // int time;
    my @frames = frames_of(map { sprintf '%02d', $_ } 1 .. 20);
    my $sent   = 0;
    my @before = $ng->counters;
    my $total  = sub {
        my ($counts) = @_;
        my $sum = 0;
        $sum += $counts->{$_} // 0 for qw(frames batch old batches);
        return $sum;
    };

    note "SEL_SEED=$seed";
    srand $seed;

    for my $sequence (0 .. 1499) {
        my $payload = pack 'H*', $frames[ rand @frames ][2];

        for (0 .. rand 4) {
            my $at = rand length $payload;
            my $kind = int rand 3;
            $kind == 0 ? substr($payload, $at, 1, chr rand 256)
                : $kind == 1 ? substr($payload, $at, 1, '')
                : substr($payload, $at, 0, pack 'C*',
                    map { rand 256 } 0 .. rand 3);
        }

        $engine->raw([ '', sequence($sequence), unpack 'H*', $payload ]);
        $sent++;
    }

    $ng->until(sub {
        my @after = $ng->counters;
        return !grep { $total->($after[$_]) - $total->($before[$_]) != $sent }
            0, 1;
    }, 'each process has counted every message once');

    $engine->set_sequence(1500);
    my @read = $ng->counters;
    $engine->publish_stored(tokens => [ 1 .. 4 ]);
    $ng->until(sub {
        my @after = $ng->counters;
        return !grep { $after[$_]{stored} != $read[$_]{stored} + 1 } 0, 1;
    }, 'a sound one is still taken');
    $ng->still_serves(1000);
    $ng->remove($id);
};


start('sizes');

subtest 'a batch of several MiB' => sub {
    my ($id, $engine, $prompt) = worker(block_size => 8);
    my $blocks = 100_000;
    my $hashes = pack '(CQ>)*', map { (0xcf, $_) } 1 .. $blocks;
    my $tokens = pack '(CN)*', map { (0xce, 100_000 + $_) } 1 .. 8 * $blocks;
    my $event  = "\x95\xabBlockStored" . pack('CN', 0xdd, $blocks) . $hashes
        . "\xc0" . pack('CN', 0xdd, 8 * $blocks) . $tokens . "\x08";
    $ng->counts({ stored => 2, batches => 2 }, 'is taken', sub {
        $engine->raw([ '', sequence(0),
            unpack 'H*', "\x93\x01\x91$event\x00" ]);
        $ng->still_serves(1000, 'requests are served meanwhile');
        $engine->set_sequence(1);
        $engine->publish_stored(tokens => [ 1 .. 8 ], block_size => 8);
    });
    $ng->until(sub {
        my @now = $ng->metric('select_index_blocks');
        return !grep { $now[$_] != $blocks + 1 } 0, 1;
    }, 'every block is in the index of each process');
    $ng->now($prompt->(token_ids => [ 100_001 .. 100_000 + 8 * 2_000 ]),
        { "$id/0" => 2_000 }, 'a prompt finds them');

    $ng->remove($id);
    $ng->until(sub {
        my @now = $ng->metric('select_index_blocks');
        return !grep { $_ != 0 } @now;
    }, 'they go with the worker');
};


# Events come first to last however many there are, and neither requests nor
# other engines wait for the end of them.

subtest 'C11: an engine that floods' => sub {
    my ($id, $engine) = worker();
    my $event = '91a749676e6f726564';
    my $batch = '9301dc' . sprintf('%04x', EVENTS) . $event x EVENTS . '00';
    my @before = $ng->counters;
    my ($asked, $worst) = (0, 0);
    my $done = sub {
        my @after = $ng->counters;
        return !grep { ($after[$_]{batches} // 0)
            - ($before[$_]{batches} // 0) < FLOOD + 1 } 0, 1;
    };

    # All of it waits for the processes.
    kill STOP => $ng->workers;
    $engine->raw([ '', sequence($_), $batch ]) for 0 .. FLOOD - 1;
    $steady->publish_stored(tokens => [ 700 .. 703 ]);
    kill CONT => $ng->workers;

    $ng->until(sub {
        my $start = time;
        my $answer = $ng->post('/select', { token_ids => [ 700 .. 703 ] });
        my $took = time - $start;
        $worst = $took if $took > $worst;
        $asked += $answer->status == 200;
        return $done->();
    }, 'each process reads all that was sent');
    note sprintf '%d selections meanwhile, the longest took %.3f s', $asked,
        $worst;
    cmp_ok $asked, '>', 0, 'requests are answered';
    cmp_ok $worst, '<', at_most(1), 'at once';

    my @after = $ng->counters;
    is $after[$_]{ignored} - ($before[$_]{ignored} // 0), FLOOD * EVENTS,
        'every event is counted' for 0, 1;
    is $after[$_]{gap} // 0, $before[$_]{gap} // 0, 'and none is missing'
        for 0, 1;
    $ng->now({ token_ids => [ 700 .. 703 ] }, { '1000/0' => 1 },
        'another engine is heard');
    $ng->remove($id);
};


subtest 'gaps and duplicates' => sub {
    my ($id, $engine, $prompt) = worker();
    my $send = sub {
        my ($sequence, $start) = @_;
        $engine->set_sequence($sequence);
        $engine->publish_stored(tokens => [ $start .. $start + 3 ]);
    };
    my $has = sub {
        my ($start, $blocks, $name) = @_;
        $ng->now($prompt->(token_ids => [ $start .. $start + 3 ]),
            { "$id/0" => $blocks }, $name);
    };

    $ng->counts({ stored => 1, batches => 1, gap => 1, missed => 40 },
        'the first one is number 40', sub { $send->(40, 100) });
    $ng->counts({ stored => 1, batches => 1 }, 'number 41',
        sub { $send->(41, 200) });
    $ng->counts({ stored => 1, batches => 1, gap => 1, missed => 3 },
        'number 45', sub { $send->(45, 300) });
    ok $ng->log =~ /worker $id rank 0/, 'the log tells of a gap';
    $has->(100, 1, 'what was stored before the gap stays');
    $has->(300, 1, 'what comes behind it is taken');

    $ng->counts({ old => 3 }, '45 and 44 again, and 0', sub {
        $send->(45, 400);
        $send->(44, 500);
        $send->(0, 600);
    });
    $has->($_, 0, 'nothing of them is applied') for 400, 500, 600;

    $ng->counts({ stored => 1, batches => 1 }, 'number 46',
        sub { $send->(46, 700) });
    $has->(700, 1, 'the stream goes on');

    my @before = $ng->counters;
    $engine->raw([ '', 'f' x 16, EMPTY_BATCH ]);
    $engine->raw([ '', 'f' x 16, EMPTY_BATCH ]);
    $engine->raw([ '', '0' x 16, EMPTY_BATCH ]);
    $ng->until(sub {
        my @after = $ng->counters;
        return !grep {
            $after[$_]{batches} != $before[$_]{batches} + 1
                || $after[$_]{old} != $before[$_]{old} + 2
        } 0, 1;
    }, 'the last number there is, and none behind it');
    $ng->still_serves(1000);
};


subtest 'A2: a publisher that dies and returns' => sub {
    my ($id, $engine, $prompt) = worker();
    my $store = sub { $engine->publish_stored(tokens => [@_]) };
    my $ask   = sub { $prompt->(token_ids => [@_]) };

    $ng->counts({ stored => 3, batches => 3 }, 'three batches',
        sub { $store->($_ .. $_ + 3) for 100, 200, 300 });

    $engine->close;
    $ng->still_serves(1000, 'while the publisher is away');
    $engine->open;
    $engine->wait_subscribers(2);
    $ng->counts({ stored => 1, batches => 1 }, 'the sequence goes on',
        sub { $store->(400 .. 403) });
    $ng->now($ask->(100 .. 103), { "$id/0" => 1 }, 'old blocks are there');

    $engine->restart('KILL');
    $engine->set_sequence(4);
    $engine->wait_subscribers(2);
    $ng->counts({ stored => 1, batches => 1 }, 'also after a crash',
        sub { $store->(500 .. 503) });

    $engine->restart('KILL');
    $engine->wait_subscribers(2);
    $ng->counts({ old => 5 }, 'it begins at 0 again: all is old', sub {
        $store->($_ .. $_ + 3) for 600, 610, 620, 630, 640;
    });
    $ng->now($ask->(600 .. 603), { "$id/0" => 0 }, 'nothing is applied');
    $ng->counts({ stored => 1, batches => 1 }, 'until it has caught up',
        sub { $store->(700 .. 703) });

    $engine->restart('KILL');
    $ng->remove($id);
    $engine->wait_subscribers(0);
    $ng->register($id, model_name => "m$id", events($engine, 0));
    $engine->wait_subscribers(2);
    $ng->now($ask->(100 .. 103), { "$id/0" => 0 },
        'DELETE and POST: the old blocks are gone');
    $ng->counts({ stored => 1, batches => 1 }, 'and number 0 is taken',
        sub { $store->(800 .. 803) });
    $ng->now($ask->(800 .. 803), { "$id/0" => 1 }, 'into the index');

    $engine->restart('KILL');
    $engine->wait_subscribers(2);
    my $elsewhere = SelEngine->start(block_size => 4);
    $ng->patch("/workers/$id", { events($elsewhere, 0) });
    $elsewhere->wait_subscribers(2);
    $engine->wait_subscribers(0);
    $ng->now($ask->(800 .. 803), { "$id/0" => 0 },
        'another endpoint: the old blocks are gone');
    $ng->counts({ stored => 1, batches => 1 }, 'and number 0 is taken',
        sub { $elsewhere->publish_stored(tokens => [ 900 .. 903 ]) });
};


start('endpoints');

subtest 'an endpoint that nobody listens on' => sub {
    my $id     = $next++;
    my $engine = SelEngine->start(block_size => 4);
    my $prompt = sub { return { model_name => "m$id", @_ } };

    $engine->close;
    $ng->register($id, model_name => "m$id", events($engine, 0));
    $ng->listeners('active', 2, 'the listener is active');
    $ng->at_once(sub { $ng->post('/select', $prompt->(token_ids => [1])) },
        sub { $_[0]->status == 200 }, 'the worker is selected');

    $engine->open;
    $engine->wait_subscribers(2, 0, 10);
    $ng->counts({ stored => 1, batches => 1 }, 'the engine came later',
        sub { $engine->publish_stored(tokens => [ 1 .. 4 ]) });
};


subtest 'an endpoint that libzmq refuses' => sub {
    my $id   = $next++;
    my $mark = $ng->log_mark;
    my %ask  = (model_name => "m$id", token_ids => [ 1 .. 4 ]);

    $ng->register($id, model_name => "m$id",
        kv_events_endpoint => 'tcp://*:1');
    $ng->listeners('failed', 1, 'the listener has failed');
    $ng->at_once(sub { $ng->post('/select', \%ask) },
        sub { $_[0]->status == 200 }, 'the worker is selected');
    $ng->until(sub {
        2 == (() = $ng->log($mark) =~
            /\[error\] .* worker $id rank 0: .*Invalid argument/g);
    }, 'each process logs the reason');

    my $engine = SelEngine->start(block_size => 4);
    is $ng->patch("/workers/$id", {
        kv_events_endpoint => $engine->endpoint(0) })->status, 200, 'PATCH';
    $engine->wait_subscribers(2);
    $ng->listeners('failed', 0, 'a good endpoint cures it');
    $ng->counts({ stored => 1, batches => 1 }, 'events arrive',
        sub { $engine->publish_stored(tokens => [ 1 .. 4 ]) });
    $ng->now(\%ask, { "$id/0" => 1 }, 'in each process');
};


subtest 'an endpoint that speaks another protocol' => sub {
    my $id = $next++;

    $ng->register($id, model_name => "m$id",
        kv_events_endpoint => 'tcp://127.0.0.1:' . $ng->port);
    $ng->log_like(qr/client sent invalid|400/, 'is spoken to');
    $ng->still_serves(1000);
    $ng->remove($id);
};


# libzmq never connects again after a peer has broken its protocol; the
# listener has to.

subtest 'peers that break the protocol' => sub {
    my $greeting = "\xff" . "\0" x 8 . "\x7f\x03\0NULL" . "\0" x 48;
    my $ready    = sub { "\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03$_[0]" };
    my %says = (
        'bytes that are no frame' => "$greeting" . "\xee" x 200,
        'the end of the handshake, then no frame'
            => $greeting . $ready->('PUB') . "\x40\x05abcde" x 20,
        'a socket of another type' => $greeting . $ready->('SUB'),
        'a message of a terabyte'
            => $greeting . $ready->('PUB') . "\x02" . pack('Q>', 1 << 40),
        'nothing, and hangs up' => '',
    );
    my @peers;

    for my $name (sort keys %says) {
        my $id     = $next++;
        my $engine = SelEngine->start(block_size => 4);
        my ($server, @clients);

        $engine->close;
        poll_for(sub {
            $server = IO::Socket::INET->new(LocalAddr => '127.0.0.1',
                LocalPort => $engine->port, Listen => 16, ReuseAddr => 1);
        }) or die "port of $name: $!";

        $ng->register($id, model_name => "m$id", events($engine, 0));

        for (1 .. 2) {
            push @clients, scalar $server->accept;
            syswrite $clients[-1], $says{$name};
        }
        close $_ for $server, length $says{$name} ? () : @clients;
        push @peers, [ $id, $name, $engine, \@clients ];
    }

    for my $peer (@peers) {
        my ($id, $name, $engine, $clients) = @$peer;

        for my $client (grep { $_->opened } @$clients) {
            1 while sysread $client, my $bytes, 4096;
            close $client;
        }
        $engine->open;
    }

    my $end = time + 8;
    for my $peer (@peers) {
        my ($id, $name, $engine) = @$peer;
        my $left = $end - time;
        ok eval { $engine->wait_subscribers(2, 0, $left > 0 ? $left : 0.1) },
            "$name: an engine in its place is followed";
    }
    $ng->still_serves(1000);
    $ng->remove(map { $_->[0] } @peers);
};


# The worker stays registered to the end: a name that is being looked up must
# not delay the exit either.

subtest 'a host that nobody knows' => sub {
    my $id = $next++;

    $ng->register($id, model_name => "m$id",
        kv_events_endpoint => 'tcp://no-such-host.invalid:5557');
    $ng->still_serves(1000);
    $ng->at_once(sub { $ng->post('/select', { model_name => "m$id",
        token_ids => [1] }) }, sub { $_[0]->status == 200 },
        'the worker is selected');
};


# A publisher of its own: binds, waits for both processes to subscribe, sends
# one message, whose frames are hexadecimal or "NUMBER*BYTE", and waits for
# both to leave.

my $publisher = <<'PYTHON';
import sys
import zmq
socket = zmq.Context().socket(zmq.XPUB)
socket.setsockopt(zmq.XPUB_VERBOSER, 1)
socket.setsockopt(zmq.LINGER, 0)
socket.bind(sys.argv[1])
def peers(count):
    for _ in range(count):
        socket.recv()
def frame(text):
    count, star, byte = text.partition('*')
    return bytes.fromhex(byte) * int(count) if star else bytes.fromhex(text)
peers(2)
socket.send_multipart([frame(text) for text in sys.argv[2:]])
peers(2)
PYTHON


sub publisher {
    my ($endpoint, @frames) = @_;

    my $file = $ng->root . '/publisher.py';
    write_file($file, $publisher);

    return spawn(output => $ng->root . '/publisher.log',
        command => [ '/usr/bin/python3', $file, $endpoint, @frames ]);
}


subtest 'ipc' => sub {
    my $id       = $next++;
    my $endpoint = 'ipc://' . $ng->root . '/events';
    my ($frames) = frames_of('01');
    my $pid;

    $ng->register($id, model_name => "m$id",
        kv_events_endpoint => $endpoint);
    $ng->still_serves(1000, 'a socket that does not exist yet');
    $ng->counts({ stored => 1, batches => 1 }, 'events arrive',
        sub { $pid = publisher($endpoint, @$frames) });
    $ng->now({ model_name => "m$id", token_ids => [ 100 .. 107 ] },
        { "$id/0" => 2 }, 'in each process');

    $ng->remove($id);
    is exit_status($pid), 0, 'the publisher sees both leave';
};


# libzmq hangs up on a publisher that sends too much.

subtest 'a message of more than 64 MiB' => sub {
    my $id       = $next++;
    my $endpoint = 'ipc://' . $ng->root . '/large';
    my @before   = map { memory_kib($_) } $ng->workers;

    $ng->register($id, model_name => "m$id",
        kv_events_endpoint => $endpoint);
    my $pid = publisher($endpoint, '', sequence(0), '68157440*00');
    is exit_status($pid), 0, 'the processes hang up';

    my ($frames) = frames_of('01');
    $ng->counts({ stored => 1, batches => 1 }, 'the next one is taken',
        sub { $pid = publisher($endpoint, @$frames) });
    my @after = map { memory_kib($_) } $ng->workers;
    cmp_ok $after[$_] - $before[$_], '<', at_most(32 * 1024),
        'without its memory' for 0, 1;
    $ng->still_serves(1000);
    $ng->remove($id);
    exit_status($pid);
};


# A name server that is slow: libzmq looks names up where it moves messages.

subtest 'a name whose look-up takes long' => sub {
    my $root    = $ng->root;
    my $library = "$root/slow.so";

    write_file("$root/slow.c", <<'C');
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>

int
getaddrinfo(const char *name, const char *service,
    const struct addrinfo *hints, struct addrinfo **list)
{
    int  (*real)(const char *, const char *, const struct addrinfo *,
                 struct addrinfo **);

    if (name != NULL && strstr(name, ".slow") != NULL) {
        sleep(6);
        return EAI_AGAIN;
    }

    real = (void *) dlsym(RTLD_NEXT, "getaddrinfo");

    return real(name, service, hints, list);
}
C
    my $built = spawn(output => "$root/gcc.log", command => [ 'gcc',
        '-shared', '-fPIC', '-o', $library, "$root/slow.c", '-ldl' ]);
    is exit_status($built), 0, 'the slow resolver is built';

    my $engine = SelEngine->start(block_size => 4);
    my $slow;
    {
        local $ENV{LD_PRELOAD} = $library;
        $slow = SelService->new(name => 'resolver')->run;
    }

    $slow->register(1, kv_events_endpoint => 'tcp://engine.slow:5557');
    $slow->register(2, events($engine, 0));
    $slow->still_serves(2);
    ok eval { $engine->wait_subscribers(2, 0, 2) },
        'other engines are not kept waiting';

    my $start = time;
    $slow->stop('QUIT');
    cmp_ok time - $start, '<', at_most(2), 'nor is the exit';
    $slow->finish;
};

all_done;
