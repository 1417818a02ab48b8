# Blocks in host memory, on disk and in outside storage, end to end: what
# engines publish of them extends the device prefix of a rank in a fixed order,
# is worth what the weights say, and is the same in both worker processes.
# Without this suite a prompt could be sent where its blocks cannot be loaded
# from, or past the worker that holds them, and the tokens that clients book
# could be wrong.
#
# Block n stands for the tokens 4n to 4n + 3; its external hash is 100 + n.

use strict;
use warnings;

use JSON::PP ();
use Test::More;

use SelEngine;
use SelService;

my %medium = (device => undef, host => 'CPU', disk => 'DISK',
    external => 'EXTERNAL');

my $JSON = JSON::PP->new->canonical;
my $next = 1;
my $ng   = SelService->new(server => <<'SERVER')->run;
    location /whole/ {
        select_host_cache_weight 1;
        select_disk_cache_weight 1;
        select_service selector;
    }
    location /device/ {
        select_host_cache_weight 0;
        select_disk_cache_weight 0;
        select_service selector;
    }
SERVER


# A worker in a partition of its own: its id, its engine, and what makes a
# prompt of blocks.

sub worker {
    my (%members) = @_;

    my $ranks  = delete $members{ranks} // 1;
    my $id     = $next++;
    my $engine = SelEngine->start(ranks => $ranks, block_size => 4);

    $ng->register($id, model_name => "m$id",
        events($engine, 0 .. $ranks - 1), %members);
    $engine->wait_subscribers(2, $_) for 0 .. $ranks - 1;

    return ($id, $engine, sub {
        return { model_name => "m$id", token_ids => [ tokens(@_) ] };
    });
}


sub tokens { return map { 4 * $_ .. 4 * $_ + 3 } @_ }

sub hashes { return [ map { 100 + $_ } @_ ] }


# Stores blocks in a tier, behind block "after" if that is given.

sub store {
    my ($engine, $tier, $blocks, %opt) = @_;

    my $after = delete $opt{after};

    $engine->publish_stored(tokens => [ tokens(@$blocks) ],
        hashes => hashes(@$blocks), medium => $medium{$tier},
        defined $after ? (parent => 100 + $after) : (), %opt);

    return;
}


sub discard {
    my ($engine, $tier, $blocks, %opt) = @_;

    $engine->publish_removed(hashes => hashes(@$blocks),
        medium => $medium{$tier}, %opt);

    return;
}


# Checks that each process has applied what the code publishes, exactly.

sub applied {
    my ($count, $name, $code) = @_;

    my $batches = $count->{batches} // eval {
        my $sum = 0;
        $sum += $_ for map { $count->{$_} // 0 } qw(stored removed cleared);
        $sum;
    };

    return $ng->counts({ %$count, batches => $batches }, $name, $code);
}


# Checks the rows of the score page in each process, in their order.  A row
# is expected as [ "WORKER/RANK", device, host, disk, credit ], the latter of
# the default weights when it is missing.

sub holds {
    my ($prompt, $rows, $name, $path) = @_;

    my $want = $JSON->encode([ map { _expected_row(@$_) } @$rows ]);
    my $url  = ($path // '') . '/overlap_scores';

    return $ng->at_once(sub { $ng->post($url, $prompt) }, sub {
        my ($answer) = @_;
        return 0 if $answer->status != 200;
        my @got = map { _row($_) } @{ $answer->json->{workers} };
        return $JSON->encode(\@got) eq $want;
    }, $name);
}

sub _expected_row {
    my ($rank, $device, $host, $disk, $credit) = @_;

    $credit //= $device + 0.75 * $host + 0.25 * $disk;

    return join ' ', $rank, $device, $device + $host,
        $device + $host + $disk, $host, $disk, 'null', $credit;
}

sub _row {
    my ($row) = @_;

    return join ' ', "$row->{worker_id}/$row->{dp_rank}",
        @$row{qw(device_blocks host_pinned_blocks disk_blocks
            host_pinned_extension_blocks disk_extension_blocks)},
        $row->{shared_beyond_device_blocks} // 'null',
        $row->{router_credit_blocks};
}


# Checks what each process selects: [ "WORKER/RANK", { rank => gpu }, cpu,
# disk, effective_prefill_tokens ], and blocks if they are given.

sub selects {
    my ($body, $want, $name, $path) = @_;

    my ($rank, $dp, $cpu, $disk, $prefill, $blocks) = @$want;
    my ($gpu)     = sort { $b <=> $a } values %$dp;
    my ($longest) = sort { $b <=> $a } $gpu, $cpu, $disk;

    my $expected = $JSON->encode([ $rank, { gpu => $gpu, cpu => $cpu,
        disk => $disk, dp => $dp, longest_matched => $longest }, $prefill ]);

    return $ng->at_once(sub { $ng->post(($path // '') . '/select', $body) },
        sub {
            my $json = $_[0]->status == 200 ? $_[0]->json : return 0;
            return $JSON->encode([ "$json->{worker_id}/$json->{dp_rank}",
                $json->{overlap}, $json->{effective_prefill_tokens} ])
                eq $expected
                && (!defined $blocks
                    || $json->{potential_decode_blocks} == $blocks);
        }, $name);
}


subtest 'each tier extends the one before' => sub {
    my ($id, $engine, $prompt) = worker();
    my $ask = $prompt->(1 .. 7);

    applied({ stored => 4 }, 'device 2, then one of each', sub {
        store($engine, device   => [ 1, 2 ]);
        store($engine, host     => [3], after => 2);
        store($engine, disk     => [4], after => 3);
        store($engine, external => [5], after => 4);
    });

    holds($ask, [ [ "$id/0", 2, 1, 2 ] ], 'the page');
    selects($ask, [ "$id/0", { 0 => 8 }, 12, 20, 28 - 13, 7 ],
        'the selection: 3.25 blocks are worth 13 tokens');
    selects({ %$ask, token_ids => [ tokens(1 .. 6), 99 ] },
        [ "$id/0", { 0 => 8 }, 12, 20, 25 - 13, 7 ],
        'a tail that is no whole block');
    holds($prompt->(1, 2, 3), [ [ "$id/0", 2, 1, 0 ] ], 'a shorter prompt');
    holds($prompt->(1), [ [ "$id/0", 1, 0, 0 ] ], 'the first block alone');
    holds($prompt->(3, 4, 5), [ [ "$id/0", 0, 0, 0 ] ],
        'what comes later in a chain is nothing at the start');
    holds($prompt->(1, 2, 9, 4), [ [ "$id/0", 2, 0, 0 ] ],
        'a prompt that leaves the chain');
    holds({ %$ask, lora_name => 'x' }, [ [ "$id/0", 0, 0, 0 ] ],
        'another adapter');

    # Precomputed hashes find the same.
    my %hashed = (model_name => "m$id", sequence_hashes => [ 1, 2 ],
        isl_tokens => 8);
    $ng->at_once(sub { $ng->post('/overlap_scores', { %hashed,
        block_hashes => [ 1, 2 ] }) }, sub {
        _row($_[0]->json->{workers}[0]) eq _expected_row("$id/0", 0, 0, 0)
    }, 'hashes of nothing find nothing');
};


subtest 'O2: credit of a host block, and the row of an idle worker' => sub {
    my ($id, $engine, $prompt) = worker();
    my $idle  = $next++;
    my $other = SelEngine->start(block_size => 4);
    my $ask   = $prompt->(1 .. 4);
    my $half  = { router_config_override => { overlap_score_credit => 0.5 } };

    $ng->register($idle, model_name => "m$id", events($other, 0));

    applied({ stored => 2 }, 'device 2, host 1', sub {
        store($engine, device => [ 1, 2 ]);
        store($engine, host   => [3], after => 2);
    });

    holds({ %$ask, %$half }, [ [ "$id/0", 2, 1, 0, 1.75 ],
        [ "$idle/0", 0, 0, 0, 0 ] ], 'a device block is worth a half');
    holds($ask, [ [ "$id/0", 2, 1, 0, 2.75 ], [ "$idle/0", 0, 0, 0, 0 ] ],
        'or one');
    holds($ask, [ [ "$id/0", 2, 1, 0, 3 ], [ "$idle/0", 0, 0, 0, 0 ] ],
        'the weight of host memory is the location\'s', '/whole');
    holds($ask, [ [ "$id/0", 2, 1, 0, 2 ], [ "$idle/0", 0, 0, 0, 0 ] ],
        'nothing where the location says so', '/device');
};


subtest 'ranks of one worker: each maximum for itself' => sub {
    my ($id, $engine, $prompt) = worker(ranks => 2);
    my $ask = $prompt->(1 .. 6);
    my $pin = sub {
        return { %$ask, pinned_worker => { worker_id => $id,
            dp_rank => $_[0] } };
    };

    # The reference's own example.
    applied({ stored => 5 }, 'stored', sub {
        store($engine, device => [ 1, 2 ]);
        store($engine, host   => [3], after => 2);
        store($engine, disk   => [ 4, 5 ], after => 3);
        store($engine, device => [1], rank => 1);
        store($engine, disk   => [2], after => 1, rank => 1);
    });
    holds($ask, [ [ "$id/0", 2, 1, 2 ], [ "$id/1", 1, 0, 1 ] ], 'the page');

    my @overlap = ({ 0 => 8, 1 => 4 }, 12, 20);
    selects($pin->(0), [ "$id/0", @overlap, 24 - 13 ], 'rank 0');
    selects($pin->(1), [ "$id/1", @overlap, 24 - 5 ],
        'rank 1: the same overlap, more to do');
    selects($ask, [ "$id/0", @overlap, 24 - 13, 6 ], 'rank 0 is cheaper');

    # gpu from one rank, cpu and disk from the other.
    applied({ cleared => 2 }, 'cleared', sub {
        $engine->publish_cleared(rank => $_) for 0, 1;
    });
    applied({ stored => 2 }, 'one on the device, one in host memory', sub {
        store($engine, device => [ 1 .. 3 ]);
        store($engine, host   => [ 1 .. 5 ], rank => 1);
    });
    holds($ask, [ [ "$id/0", 3, 0, 0 ], [ "$id/1", 0, 5, 0 ] ], 'the page');
    selects($pin->(0), [ "$id/0", { 0 => 12, 1 => 0 }, 20, 20, 12 ],
        'rank 0');
    selects($pin->(1), [ "$id/1", { 0 => 12, 1 => 0 }, 20, 20, 9 ], 'rank 1');
};


subtest 'host memory alone' => sub {
    my ($id, $engine, $prompt) = worker();
    my $ask    = $prompt->(1 .. 3);
    my $before = $ng->metric('select_selections_without_overlap_total');

    applied({ stored => 1 }, 'two blocks', sub {
        store($engine, host => [ 1, 2 ]);
    });
    holds($ask, [ [ "$id/0", 0, 2, 0 ] ], 'the page');
    selects($ask, [ "$id/0", { 0 => 0 }, 8, 8, 6, 3 ], 'the selection');
    is $ng->metric('select_selections_without_overlap_total'), $before,
        'is one with overlap';
};


subtest 'A10: a hole ends the credit' => sub {
    my ($id, $engine, $prompt) = worker();
    my $ask = $prompt->(1 .. 6);

    applied({ stored => 3 }, 'host memory holds 4 but not 3, and 5', sub {
        store($engine, device => [ 1, 2 ]);
        store($engine, host   => [4], after => 3);
        store($engine, host   => [5], after => 4);
    });
    holds($ask, [ [ "$id/0", 2, 0, 0 ] ], 'nothing behind the hole');

    applied({ stored => 1 }, '3 comes, on disk', sub {
        store($engine, disk => [3], after => 2);
    });
    holds($ask, [ [ "$id/0", 2, 0, 1 ] ],
        'a tier that was passed is not gone back to');

    applied({ stored => 1 }, '3 comes, in host memory', sub {
        store($engine, host => [3], after => 2);
    });
    holds($ask, [ [ "$id/0", 2, 3, 0 ] ], 'now all of them count');
    selects($ask, [ "$id/0", { 0 => 8 }, 20, 20, 24 - 17 ], 'when selected');

    applied({ removed => 1 }, 'a new hole', sub {
        discard($engine, host => [4]);
    });
    holds($ask, [ [ "$id/0", 2, 1, 0 ] ], 'ends it again');

    applied({ stored => 1 }, 'refilled', sub {
        store($engine, host => [4], after => 3);
    });
    holds($ask, [ [ "$id/0", 2, 3, 0 ] ], 'and all is as before');

    applied({ removed => 1 }, 'a hole on the device', sub {
        discard($engine, device => [1]);
    });
    holds($ask, [ [ "$id/0", 0, 0, 0 ] ], 'takes everything along');
};


subtest 'one way through the tiers' => sub {
    my ($id, $engine, $prompt) = worker();
    my $ask = $prompt->(1 .. 5);

    applied({ stored => 2, removed => 1 }, 'block 1 moves to host memory',
        sub {
            store($engine, device  => [ 1, 2 ]);
            store($engine, host    => [1]);
            discard($engine, device => [1]);
        });
    holds($ask, [ [ "$id/0", 0, 1, 0 ] ],
        'a device block behind it is not credited');

    applied({ stored => 1 }, 'a host block behind it', sub {
        store($engine, host => [2], after => 1);
    });
    holds($ask, [ [ "$id/0", 0, 2, 0 ] ], 'is');

    applied({ stored => 2 }, 'disk, then host memory', sub {
        store($engine, disk => [3], after => 2);
        store($engine, host => [4], after => 3);
    });
    holds($ask, [ [ "$id/0", 0, 2, 1 ] ], 'a host block behind a disk block'
        . ' is not');

    applied({ stored => 1 }, 'external behind disk', sub {
        store($engine, external => [4], after => 3);
    });
    holds($ask, [ [ "$id/0", 0, 2, 2 ] ], 'goes on');
};


subtest 'copies in several tiers count once' => sub {
    my ($id, $engine, $prompt) = worker();
    my $ask = $prompt->(1 .. 6);

    applied({ stored => 3 }, 'device 2, host 4, disk 5', sub {
        store($engine, device => [ 1, 2 ]);
        store($engine, host   => [ 1 .. 4 ]);
        store($engine, disk   => [ 1 .. 5 ]);
    });
    holds($ask, [ [ "$id/0", 2, 2, 1 ] ], 'in the first of them');
    selects($ask, [ "$id/0", { 0 => 8 }, 16, 20, 24 - 15 ], 'when selected');

    applied({ removed => 1 }, 'the device loses its last one', sub {
        discard($engine, device => [2]);
    });
    holds($ask, [ [ "$id/0", 1, 3, 1 ] ], 'host memory takes over');

    applied({ removed => 1 }, 'host memory loses all', sub {
        discard($engine, host => [ 1 .. 4 ]);
    });
    holds($ask, [ [ "$id/0", 1, 0, 4 ] ], 'then disk');

    applied({ removed => 1 }, 'disk, too', sub {
        discard($engine, disk => [ 1 .. 5 ]);
    });
    holds($ask, [ [ "$id/0", 1, 0, 0 ] ], 'the device keeps its own');
};


subtest 'a block whose parent is not there yet' => sub {
    my ($id, $engine, $prompt) = worker();
    my $ask = $prompt->(1 .. 4);

    applied({ stored => 1, unknown_parent => 1, batches => 2 },
        'a lower tier takes it, the device does not', sub {
            store($engine, host   => [3], after => 2);
            store($engine, device => [3], after => 2);
        });
    holds($ask, [ [ "$id/0", 0, 0, 0 ] ], 'it is worth nothing');

    applied({ stored => 1 }, 'the chain before it arrives', sub {
        store($engine, device => [ 1, 2 ]);
    });
    holds($ask, [ [ "$id/0", 2, 1, 0 ] ], 'now it counts');
};


subtest 'stored twice, removed once, removed where it is not' => sub {
    my ($id, $engine, $prompt) = worker();
    my $ask = $prompt->(1 .. 3);

    applied({ stored => 4 }, 'stored', sub {
        store($engine, device => [1]);
        store($engine, host   => [ 2, 3 ], after => 1) for 1 .. 3;
    });
    holds($ask, [ [ "$id/0", 1, 2, 0 ] ], 'as if once');

    applied({ removed => 1, unknown_block => 1 }, 'removed from disk', sub {
        discard($engine, disk => [2]);
    });
    holds($ask, [ [ "$id/0", 1, 2, 0 ] ], 'changes nothing');

    applied({ removed => 1, unknown_block => 1 },
        'one that is there and one that is not', sub {
            discard($engine, host => [ 77, 3 ]);
        });
    holds($ask, [ [ "$id/0", 1, 1, 0 ] ], 'one is gone');
};


subtest 'one edge, one hash' => sub {
    my ($id, $engine, $prompt) = worker(ranks => 2);
    my $ask = $prompt->(1 .. 3);

    applied({ stored => 1 }, 'the first rank', sub {
        store($engine, host => [ 1 .. 3 ]);
    });

    # Rank 1 says that block 2 has another hash.
    applied({ conflict => 1, batches => 1 }, 'the second', sub {
        store($engine, host => [ 1 .. 3 ], rank => 1,
            hashes => [ 101, 902, 103 ]);
    });
    holds($ask, [ [ "$id/0", 0, 3, 0 ], [ "$id/1", 0, 1, 0 ] ],
        'keeps what came before the conflict');

    # And a hash has one place in a tier of a rank.
    applied({ conflict => 1, batches => 1 }, 'a hash in a second place',
        sub {
            store($engine, host => [9], hashes => [103]);
        });
    holds($ask, [ [ "$id/0", 0, 3, 0 ], [ "$id/1", 0, 1, 0 ] ],
        'leaves the first');
    holds($prompt->(9), [ [ "$id/0", 0, 0, 0 ], [ "$id/1", 0, 0, 0 ] ],
        'and is not in the second');
};


subtest 'engines with hashes of their own' => sub {
    my ($id, $engine, $prompt) = worker(ranks => 2);
    my $ask = $prompt->(1 .. 4);

    applied({ stored => 4 }, 'the same content under two names', sub {
        store($engine, device => [ 1, 2 ]);
        store($engine, device => [ 1, 2 ], rank => 1,
            hashes => [ 501, 502 ]);
        store($engine, host   => [3], rank => 1, hashes => [503],
            parent => 502);
        store($engine, disk   => [4], rank => 1, hashes => [504],
            parent => 503);
    });
    holds($ask, [ [ "$id/0", 2, 0, 0 ], [ "$id/1", 2, 1, 1 ] ],
        'each goes on behind its own');

    applied({ stored => 1 }, 'the first one, too', sub {
        store($engine, host => [3], after => 2);
    });
    holds($ask, [ [ "$id/0", 2, 1, 0 ], [ "$id/1", 2, 1, 1 ] ], 'goes on');

    applied({ cleared => 1 }, 'the first one leaves', sub {
        $engine->publish_cleared;
    });
    holds($ask, [ [ "$id/0", 0, 0, 0 ], [ "$id/1", 2, 1, 1 ] ],
        'the second one is as it was');
};


subtest 'A4: a clear empties every tier of that rank' => sub {
    my ($id, $engine, $prompt) = worker(ranks => 2);
    my $other  = $next++;
    my $second = SelEngine->start(block_size => 4);
    my $ask    = $prompt->(1 .. 5);

    $ng->register($other, model_name => "m$id", events($second, 0));
    $second->wait_subscribers(2);

    applied({ stored => 12 }, 'three ranks, four tiers', sub {
        for my $to ([ $engine, rank => 0 ], [ $engine, rank => 1 ],
            [ $second, rank => 0 ])
        {
            my ($from, @rank) = @$to;
            store($from, device   => [ 1, 2 ], @rank);
            store($from, host     => [3], after => 2, @rank);
            store($from, disk     => [4], after => 3, @rank);
            store($from, external => [5], after => 4, @rank);
        }
    });
    holds($ask, [ map { [ $_, 2, 1, 2 ] } "$id/0", "$id/1", "$other/0" ],
        'all are full');

    applied({ cleared => 1 }, 'one clears', sub {
        $engine->publish_cleared(rank => 1);
    });
    holds($ask, [ [ "$id/0", 2, 1, 2 ], [ "$id/1", 0, 0, 0 ],
        [ "$other/0", 2, 1, 2 ] ], 'its neighbours keep theirs');

    applied({ stored => 1 }, 'its device comes back', sub {
        store($engine, device => [ 1, 2 ], rank => 1);
    });
    holds($ask, [ [ "$id/0", 2, 1, 2 ], [ "$id/1", 2, 0, 0 ],
        [ "$other/0", 2, 1, 2 ] ], 'its other tiers do not');

    $ng->remove($id);
    holds($ask, [ [ "$other/0", 2, 1, 2 ] ], 'a worker takes all along');
    $ng->register($id, model_name => "m$id", events($engine, 0, 1));
    holds($ask, [ [ "$id/0", 0, 0, 0 ], [ "$id/1", 0, 0, 0 ],
        [ "$other/0", 2, 1, 2 ] ], 'and comes back with nothing');

    $ng->patch("/workers/$other", { events($engine, 0) });
    holds($ask, [ [ "$id/0", 0, 0, 0 ], [ "$id/1", 0, 0, 0 ],
        [ "$other/0", 0, 0, 0 ] ], 'another endpoint empties all tiers');
};


subtest 'a rank that nobody registered' => sub {
    my ($id, $engine, $prompt) = worker();
    my $ask = $prompt->(1 .. 4);

    applied({ stored => 2 }, 'holds host and disk blocks', sub {
        store($engine, host => [ 1, 2 ], dp_rank => 6);
        store($engine, disk => [3], after => 2, dp_rank => 6);
    });
    holds($ask, [ [ "$id/0", 0, 0, 0 ], [ "$id/6", 0, 2, 1 ] ],
        'has a row of its own');
    selects($ask, [ "$id/0", { 0 => 0 }, 0, 0, 16 ],
        'but no part in a selection');
};


subtest 'A13: names of the tiers' => sub {
    my ($id, $engine, $prompt) = worker();
    my $start = 1000;
    my %names = (
        1 => [qw(GPU DEVICE gpu Device), ''],
        2 => [qw(CPU CPU_PINNED CPU_TIER1 cpu Cpu_Pinned cpu_tier1)],
        3 => [qw(CPU_TIER2 DISK NVME STORAGE disk nvme Storage cpu_tier2)],
        4 => [qw(EXTERNAL NETWORK REMOTE SHARED external Network shared)],
    );

    for my $tier (sort keys %names) {
        my %block;
        my @names = @{ $names{$tier} };

        applied({ stored => scalar @names }, "@names", sub {
            for my $name (@names) {
                $block{$name} = ++$start;
                store($engine, device => [ $block{$name} ],
                    medium => $name);
            }
        });

        for my $name (@names) {
            holds($prompt->($block{$name}), [ [ "$id/0", $tier == 1 ? 1 : 0,
                $tier == 2 ? 1 : 0, $tier > 2 ? 1 : 0 ] ], "\"$name\"");
        }
    }

    my @unknown = qw(FS OBJ tape CPU_TIER3 GPU0 CPU-PINNED);
    my $first   = $start + 1;

    applied({ medium => 2 * @unknown, stored => 1,
        batches => 2 * @unknown + 1 }, 'what nobody knows is counted', sub {
            for my $name (@unknown) {
                store($engine, device => [ ++$start ], medium => $name);
                discard($engine, device => [ $start ], medium => $name);
            }
            store($engine, device => [ ++$start ]);
        });
    holds($prompt->($_), [ [ "$id/0", 0, 0, 0 ] ], 'and not stored')
        for $first .. $start - 1;
    holds($prompt->($start), [ [ "$id/0", 1, 0, 0 ] ], 'the stream goes on');
};


subtest 'array form, and a removal in each tier' => sub {
    my ($id, $engine, $prompt) = worker();
    my $ask  = $prompt->(1 .. 5);
    my @form = (form => 'array');

    applied({ stored => 4 }, 'stored', sub {
        store($engine, device   => [ 1, 2 ], @form);
        store($engine, host     => [3], after => 2, @form);
        store($engine, disk     => [4], after => 3, @form);
        store($engine, external => [5], after => 4, @form);
    });
    holds($ask, [ [ "$id/0", 2, 1, 2 ] ], 'in four tiers');

    my @left = ([ 2, 1, 2 ], [ 2, 1, 1 ], [ 2, 1, 0 ], [ 2, 0, 0 ],
        [ 1, 0, 0 ]);
    for my $step ([ external => 5 ], [ disk => 4 ], [ host => 3 ],
        [ device => 2 ])
    {
        my ($tier, $block) = @$step;
        shift @left;

        applied({ removed => 1 }, "$tier", sub {
            discard($engine, $tier => [$block], @form);
        });
        holds($ask, [ [ "$id/0", @{ $left[0] } ] ], 'one less');
    }
};


subtest 'groups and salts of lower tiers' => sub {
    my ($id, $engine, $prompt) = worker();
    my %window = (keys => { group_idx => 1,
        kv_cache_spec_kind => 'sliding_window' });
    my %salt = (cache_salt => 't');

    applied({ stored => 2, group => 1, batches => 3 },
        'groups matter in host memory, not on disk', sub {
            store($engine, host     => [1], %window);
            store($engine, disk     => [1], %window);
            store($engine, external => [2], after => 1, %window);
        });
    holds($prompt->(1, 2), [ [ "$id/0", 0, 0, 2 ] ], 'as the page says');

    # A host block takes the salt of its parent, a disk block has to name it.
    applied({ stored => 4 }, 'salts', sub {
        store($engine, device => [11], keys => {%salt});
        store($engine, host   => [12], after => 11);
        store($engine, disk   => [13], after => 12, keys => {%salt});
        store($engine, external => [14], after => 13);
    });
    holds({ %{ $prompt->(11 .. 14) }, %salt }, [ [ "$id/0", 1, 1, 1 ] ],
        'found with the salt');
    holds($prompt->(11 .. 14), [ [ "$id/0", 0, 0, 0 ] ], 'not without');
};


# Three workers: 4 + 2 + 2 blocks, 10 in host memory, 20 on disk; the prompt
# has 32 blocks of 16 tokens.

subtest 'the cheapest rank' => sub {
    my $engine = SelEngine->start(ranks => 3, block_size => 16);
    my $group  = 'cheap' . $next;
    my @ids    = map { $next++ } 0 .. 2;
    my ($mix, $host, $disk) = @ids;
    my $cut    = sub { map { 16 * $_ .. 16 * $_ + 15 } @_ };

    for my $i (0 .. 2) {
        $ng->register($ids[$i], model_name => $group, block_size => 16,
            events($engine, $i));
        $engine->wait_subscribers(2, $i);
    }

    applied({ stored => 6 }, 'stored', sub {
        my $put = sub {
            my ($rank, $tier, $after, @blocks) = @_;
            $engine->publish_stored(rank => $rank, dp_rank => 0,
                tokens => [ $cut->(@blocks) ], hashes => hashes(@blocks),
                medium => $medium{$tier},
                $after ? (parent => 100 + $after) : ());
        };
        $put->(0, device   => 0, 1 .. 4);
        $put->(0, host     => 4, 5, 6);
        $put->(0, disk     => 6, 7);
        $put->(0, external => 7, 8);
        $put->(1, host     => 0, 1 .. 10);
        $put->(2, disk     => 0, 1 .. 20);
    });

    my %ask = (model_name => $group, token_ids => [ $cut->(1 .. 32) ]);
    my $pin = sub { (pinned_worker => { worker_id => $_[0], dp_rank => 0 }) };
    my $override = sub { (router_config_override => {@_}) };

    my @mix  = ("$mix/0", { 0 => 64 }, 96, 128);
    my @host = ("$host/0", { 0 => 0 }, 160, 160);
    my @disk = ("$disk/0", { 0 => 0 }, 0, 320);

    holds({%ask}, [ [ "$mix/0", 4, 2, 2 ], [ "$host/0", 0, 10, 0 ],
        [ "$disk/0", 0, 0, 20 ] ], 'the page');
    holds({ %ask, $override->(overlap_score_credit => 0.5) },
        [ [ "$mix/0", 4, 2, 2, 4 ], [ "$host/0", 0, 10, 0 ],
        [ "$disk/0", 0, 0, 20 ] ], 'half a credit is for the device alone');

    selects({%ask}, [ @host, 392, 32 ], 'costs 58, 56.5 and 59');
    selects({ %ask, $pin->($mix) }, [ @mix, 416, 32 ], 'the first one');
    selects({ %ask, $pin->($disk) }, [ @disk, 432, 32 ], 'the third one');

    selects({%ask}, [ @disk, 192, 32 ], 'weights of 1: the longest', '/whole');
    selects({ %ask, $pin->($mix) }, [ @mix, 384, 32 ], 'the first one then',
        '/whole');
    selects({%ask}, [ @mix, 448, 32 ], 'weights of 0: the device decides',
        '/device');
    selects({ %ask, $pin->($host) }, [ @host, 512, 32 ],
        'what is worth nothing is matched all the same', '/device');

    selects({ %ask, $override->(overlap_score_credit => 3) },
        [ @mix, 416, 32 ], 'a high credit of the device decides,'
        . ' without making tokens cached');
    selects({ %ask, $override->(overlap_score_credit => 0) },
        [ @host, 392, 32 ], 'none leaves the other tiers');
    selects({ %ask, $override->(overlap_score_credit => 0), $pin->($mix) },
        [ @mix, 416, 32 ], 'nor does that make tokens uncached');
    selects({ %ask, allowed_worker_ids => [ $mix, $disk ] },
        [ @mix, 416, 32 ], 'without the best the second best');

    # A preferred taint of the third worker: exp(-tanh(0.05)) * 59 < 56.5.
    $ng->patch("/workers/$disk", { taints => ['t'] });
    selects({ %ask, routing_constraints => { preferred_taints =>
        { t => 0.05 } } }, [ @disk, 432, 32 ], 'a taint tips the balance');
    selects({ %ask, routing_constraints => { preferred_taints =>
        { t => 0.04 } } }, [ @host, 392, 32 ], 'if it weighs enough');
    $ng->remove(@ids);
};


subtest 'cached tokens are rounded half away from zero' => sub {
    for my $case ([ 2, disk => 1, 1 ], [ 2, host => 1, 2 ],
        [ 1, host => 1, 1 ], [ 1, disk => 1, 0 ], [ 1, disk => 2, 1 ],
        [ 3, host => 1, 2 ], [ 3, disk => 1, 1 ], [ 3, host => 2, 5 ])
    {
        my ($size, $tier, $blocks, $cached) = @$case;
        my ($id, $engine) = worker(block_size => $size);
        my @tokens = 1 .. $size * $blocks;

        applied({ stored => 1 }, "$blocks of $size in $tier", sub {
            $engine->publish_stored(tokens => \@tokens, block_size => $size,
                medium => $medium{$tier});
        });
        $ng->at_once(sub { $ng->post('/select', { model_name => "m$id",
            token_ids => [ @tokens, 77 ] }) }, sub {
            $_[0]->json->{effective_prefill_tokens} == @tokens + 1 - $cached
        }, "$cached tokens are cached");
        $ng->remove($id);
    }
};


subtest 'nothing is left of workers that are gone' => sub {
    my @left = map { $_->{worker_id} } @{ $ng->get('/workers')->json };

    $ng->remove(@left);
    $ng->until(sub {
        return !grep { $_ != 0 } map { $ng->metric("select_index_$_") }
            qw(blocks nodes ranks_retired);
    }, 'no block, in no tier, in no process');
};

all_done;
