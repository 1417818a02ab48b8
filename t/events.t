# KV events end to end: what real ZMQ publishers send is what both worker
# processes know of each rank's cache.  Without the decoder, the listeners or
# the index behind them a prompt would find no block, or blocks that are not
# there.

use strict;
use warnings;

use File::Basename qw(dirname);
use JSON::PP ();
use Test::More;

use SelEngine;
use SelService;

my $ng   = SelService->new->run;
my $next = 1;

my ($true, $false) = (JSON::PP::true, JSON::PP::false);


# A worker in a partition of its own: its id, its engine, and what makes a
# prompt of members.

sub worker {
    my (%members) = @_;

    my $ranks  = delete $members{ranks} // 1;
    my $id     = $next++;
    my $engine = SelEngine->start(ranks => $ranks, block_size => 4);

    $ng->register($id, model_name => "m$id",
        events($engine, 0 .. $ranks - 1), %members);
    $engine->wait_subscribers(2, $_) for 0 .. $ranks - 1;

    return ($id, $engine, sub { return { model_name => "m$id", @_ } });
}


# Pairs as an EAGLE engine sends them.

sub pairs {
    my (@tokens) = @_;

    return [ map { [ @tokens[ $_, $_ + 1 ] ] } 0 .. $#tokens - 1 ];
}


for my $form (qw(map array)) {
    subtest "stored, removed, cleared: $form form" => sub {
        my ($id, $engine, $prompt) = worker();
        my $ask = $prompt->(token_ids => [ 1 .. 14 ]);
        my @hashes;

        $ng->now($ask, { "$id/0" => 0 }, 'at first there is nothing');

        $ng->counts({ stored => 2, batches => 2 }, 'both counted', sub {
            @hashes = $engine->publish_stored(form => $form,
                tokens => [ 1 .. 8 ]);
            push @hashes, $engine->publish_stored(form => $form,
                tokens => [ 9 .. 12 ], parent => $hashes[1]);
        });
        $ng->now($ask, { "$id/0" => 3 }, 'a chain of two events');
        $ng->now($prompt->(token_ids => [ 1 .. 8, 90 .. 98 ]),
            { "$id/0" => 2 }, 'a prompt that leaves the chain');
        $ng->now($prompt->(token_ids => [ 9 .. 12 ]),
            { "$id/0" => 0 }, 'a later block alone');

        $ng->counts({ removed => 1, batches => 1 }, 'removed', sub {
            $engine->publish_removed(form => $form, hashes => [ $hashes[1] ]);
        });
        $ng->now($ask, { "$id/0" => 1 }, 'a match ends at a hole');

        $ng->counts({ stored => 1, batches => 1 }, 'refilled', sub {
            $engine->publish_stored(form => $form, tokens => [ 5 .. 8 ],
                parent => $hashes[0], hashes => [ $hashes[1] ]);
        });
        $ng->now($ask, { "$id/0" => 3 }, 'and goes on when it is refilled');

        $ng->counts({ cleared => 1, batches => 1 }, 'cleared', sub {
            $engine->publish_cleared(form => $form);
        });
        $ng->now($ask, { "$id/0" => 0 }, 'nothing is left');
    };
}


subtest 'B8: every shape in one batch' => sub {
    my ($id, $engine, $prompt) = worker();
    my $ask = $prompt->(token_ids => [ 1 .. 20 ]);

    $ng->counts({ stored => 5, ignored => 2, batches => 1 }, 'taken', sub {
        $engine->publish([
            [ 'BlockStored', [101], undef, [ 1 .. 4 ], 4 ],
            [ 'BlockStored', [102], 101, [ 5 .. 8 ], 4, 7, 'GPU', undef,
                undef, 0, 'full_attention', undef, 'LOCAL', undef, 'x', [] ],
            { type => 'BlockStored', block_hashes => [103],
                parent_block_hash => 102, token_ids => [ 9 .. 12 ],
                block_size => 4 },
            ['Ignored'], { type => 'Ignored', other => 1 },
            { type => 'BlockStored', block_hashes => [104],
                parent_block_hash => 103, token_ids => [ 13 .. 16 ],
                block_size => 4, lora_id => undef, medium => 'GPU',
                lora_name => undef, extra_keys => undef, group_idx => 0,
                kv_cache_spec_kind => 'full_attention',
                session_id => 's', event_version => 9,
                future => { deep => [ [ {} ] ] } },
            [ 'BlockStored', [105], 104, [ 17 .. 20 ], 4, undef, '',
                undef, undef, undef, undef ],
        ], dp_rank => 0, ts => 12, more => [ 'later', { x => 1 } ]);
    });
    $ng->now($ask, { "$id/0" => 5 }, 'all five blocks');

    $ng->counts({ removed => 3, batches => 1 }, 'removals', sub {
        $engine->publish([
            [ 'BlockRemoved', [105] ],
            [ 'BlockRemoved', [104], 'DEVICE', 0, 'full_attention', undef,
                'LOCAL', undef, 'x' ],
            { type => 'BlockRemoved', block_hashes => [103], other => [] },
        ], dp_rank => 0);
    });
    $ng->now($ask, { "$id/0" => 2 }, 'three are gone');

    $ng->counts({ cleared => 2, batches => 1 }, 'clears', sub {
        $engine->publish([ [ 'AllBlocksCleared', undef, 'x' ],
            { type => 'AllBlocksCleared', other => 1 } ], dp_rank => 0);
    });
    $ng->now($ask, { "$id/0" => 0 }, 'all are gone');
};


subtest 'the rank of a batch' => sub {
    my ($id, $engine, $prompt) = worker(ranks => 2);
    my $ask = sub { $prompt->(token_ids => [ $_[0] .. $_[0] + 3 ]) };

    my %start = (none => 100, nil => 200, negative => 300, other => 400,
        beside => 500);

    $ng->counts({ stored => 5, batches => 5 }, 'all are taken', sub {
        my @to = (rank => 0);
        my $tokens = sub { tokens => [ $_[0] .. $_[0] + 3 ] };

        $engine->publish_stored(@to, dp_rank => 'none', $tokens->(100));
        $engine->publish_stored(@to, dp_rank => undef, $tokens->(200));
        $engine->publish_stored(@to, dp_rank => -1, $tokens->(300));
        $engine->publish_stored(@to, dp_rank => 1, $tokens->(400));
        $engine->publish_stored(@to, dp_rank => 5, $tokens->(500));
    });

    # Whether an unregistered rank without a matching block has a row is left
    # open.
    my $now = sub {
        my ($start, $want, $name) = @_;
        my $body = $ask->($start);
        $ng->at_once(sub { $ng->post('/overlap_scores', $body) }, sub {
            my $rows = SelService::rows($_[0]);
            return join(' ', map { $rows->{"$id/$_"} // '-' } 0, 1)
                . ' ' . ($rows->{"$id/5"} // 0) eq $want
                && keys %$rows <= 3;
        }, $name);
    };

    $now->(100, '1 0 0', 'no rank in the batch: the registered one');
    $now->(200, '1 0 0', 'nil: the registered one');
    $now->(300, '1 0 0', 'negative: the registered one');
    $now->(400, '0 1 0', 'another rank overrides the registered one');
    $now->(500, '0 0 1', 'an unregistered rank has a row of its own');

    for (1 .. 20) {
        my $answer = $ng->post('/select', $ask->(500))->json;
        next if $answer->{dp_rank} =~ /^[01]$/
            && $answer->{overlap}{longest_matched} == 0
            && join(' ', sort keys %{ $answer->{overlap}{dp} }) eq '0 1';
        fail('an unregistered rank is never selected, and not in overlap.dp');
        last;
    }

    # Sequence numbers belong to the socket: those of socket 1 begin at 0.
    $ng->counts({ stored => 1, batches => 1 }, 'each socket counts alone',
        sub {
            $engine->publish_stored(rank => 1, dp_rank => 0,
                tokens => [ 600 .. 603 ]);
        });
    $now->(600, '1 0 0', 'two sockets may speak for one rank');

    is $ng->patch("/workers/$id", { data_parallel_size => 1 })->status, 200,
        'rank 1 is given up';
    $now->(500, '0 - 1', 'its row is gone, the unregistered rank stays');

    $ng->remove($id);
    $ng->register(1000, model_name => "m$id", events($engine, 0, 1));
    $ng->now($ask->(500), { '1000/0' => 0, '1000/1' => 0 },
        'it goes with the worker');
    $ng->remove(1000);
};


subtest 'A4: a clear leaves the neighbours' => sub {
    my ($id, $engine, $prompt) = worker(ranks => 2);
    my $other = $next++;
    my $ask   = $prompt->(token_ids => [ 1 .. 8 ]);

    my $second = SelEngine->start(block_size => 4);
    $ng->register($other, model_name => "m$id", events($second, 0));
    $second->wait_subscribers(2);

    $ng->counts({ stored => 3, batches => 3 }, 'stored thrice', sub {
        $_->publish_stored(tokens => [ 1 .. 8 ]) for $engine, $second;
        $engine->publish_stored(tokens => [ 1 .. 8 ], rank => 1);
    });
    $ng->now($ask, { "$id/0" => 2, "$id/1" => 2, "$other/0" => 2 },
        'three ranks hold the same blocks');

    $ng->counts({ cleared => 1, batches => 1 }, 'one clears', sub {
        $engine->publish_cleared(rank => 0);
    });
    $ng->now($ask, { "$id/0" => 0, "$id/1" => 2, "$other/0" => 2 },
        'the other rank and the other worker keep theirs');

    my $body = $prompt->(token_ids => [ 1 .. 8 ],
        allowed_worker_ids => [$id]);
    $ng->at_once(sub { $ng->post('/select', $body) }, sub {
        my $answer = $_[0]->json;
        return $answer->{dp_rank} == 1
            && $answer->{overlap}{dp}{0} == 0
            && $answer->{overlap}{dp}{1} == 8
            && $answer->{overlap}{gpu} == 8
            && $answer->{effective_prefill_tokens} == 0;
    }, 'the full rank is selected');
};


subtest 'B5: LoRA' => sub {
    my ($id, $engine, $prompt) = worker();
    my $ask = sub { $prompt->(token_ids => [ 1 .. 8 ], @_) };
    my @parent;

    $ng->counts({ stored => 2, batches => 2 }, 'stored', sub {
        @parent = $engine->publish_stored(tokens => [ 1 .. 4 ],
            lora_name => 'adapter', form => 'map');
        $engine->publish_stored(tokens => [ 5 .. 8 ], parent => $parent[0],
            lora_name => 'adapter', form => 'array');
    });

    $ng->now($ask->(lora_name => 'adapter'), { "$id/0" => 2 }, 'its prompt');
    $ng->now($ask->(), { "$id/0" => 0 }, 'without LoRA');
    $ng->now($ask->(lora_name => ''), { "$id/0" => 0 }, 'an empty name');
    $ng->now($ask->(lora_name => 'Adapter'), { "$id/0" => 0 }, 'another');
    $ng->now($ask->(cache_salt => 'adapter'), { "$id/0" => 0 },
        'a salt of the same text');
};


subtest 'B5, N2: cache salt' => sub {
    my ($id, $engine, $prompt) = worker();
    my $ask = sub {
        my ($start, @salt) = @_;
        $prompt->(token_ids => [ $start .. $start + 7 ], @salt);
    };

    $ng->counts({ stored => 6, batches => 1 }, 'stored', sub {
        $engine->publish([
            { type => 'BlockStored', block_hashes => [11], block_size => 4,
                token_ids => [ 100 .. 103 ], cache_salt => 't' },
            [ 'BlockStored', [12], 11, [ 104 .. 107 ], 4 ],
            [ 'BlockStored', [21], undef, [ 200 .. 203 ], 4, undef, 'GPU',
                { cache_salt => 't', session_id => 's' } ],
            { type => 'BlockStored', block_hashes => [22], block_size => 4,
                token_ids => [ 204 .. 207 ], parent_block_hash => 21 },
            [ 'BlockStored', [ 31, 32 ], undef, [ 300 .. 307 ], 4, undef,
                'GPU', undef, [ ['dynamo-cache-salt:t'], undef ] ],
            [ 'BlockStored', [41], undef, [ 400 .. 403 ], 4, undef, 'GPU',
                undef, [ [ 'untagged', 'dynamo-cache-salt:' ] ] ],
        ]);
    });

    for my $case ([ 100, 'map member' ], [ 200, 'metadata map' ],
        [ 300, 'extra keys' ])
    {
        my ($start, $name) = @$case;
        $ng->now($ask->($start, cache_salt => 't'), { "$id/0" => 2 },
            "$name: found with the salt, also the child without one");
        $ng->now($ask->($start), { "$id/0" => 0 }, "$name: not without");
        $ng->now($ask->($start, cache_salt => 'u'), { "$id/0" => 0 },
            "$name: not with another");
    }

    $ng->now($ask->(400), { "$id/0" => 1 }, 'an empty or untagged text');
    $ng->now($ask->(400, cache_salt => ''), { "$id/0" => 1 },
        'an empty salt in the prompt');

    $ng->counts({ stored => 3, batches => 1, ambiguous_namespace => 1 },
        'a child of a block with two salts', sub {
            $engine->publish([
                (map { { type => 'BlockStored', block_hashes => [51],
                    block_size => 4, token_ids => [ 500 .. 503 ],
                    cache_salt => $_ } } 'a', 'b'),
                [ 'BlockStored', [52], 51, [ 504 .. 507 ], 4 ],
                { type => 'BlockStored', block_hashes => [53],
                    block_size => 4, token_ids => [ 504 .. 507 ],
                    parent_block_hash => 51, cache_salt => 'b' },
            ]);
        });
    $ng->now($ask->(500, cache_salt => 'b'), { "$id/0" => 2 },
        'is taken only when it names one');
};


subtest 'N1: multimodal' => sub {
    my ($id, $engine, $prompt) = worker();
    my $large = 18446744073709551615;
    my $hex   = '0123456789abcdef' x 4;
    my $mm    = sub { return { mm_objects => [ map {
        { mm_hash => $_, offsets => [ [ 0, 2 ] ] } } @_ ] } };
    my $ask = sub {
        my ($start, @infos) = @_;
        $prompt->(token_ids => [ $start .. $start + 7 ],
            @infos ? (block_mm_infos => \@infos) : ());
    };

    $ng->counts({ stored => 5, batches => 1 }, 'stored', sub {
        $engine->publish([
            { type => 'BlockStored', block_hashes => [ 11, 12 ],
                block_size => 4, token_ids => [ 100 .. 107 ],
                block_mm_infos => [ $mm->($large, 3), undef ] },
            [ 'BlockStored', [ 21, 22 ], undef, [ 200 .. 207 ], 4, undef,
                'GPU', undef, undef, [ undef, $mm->(7) ] ],
            [ 'BlockStored', [ 31, 32 ], undef, [ 300 .. 307 ], 4, undef,
                'GPU', undef, undef, [ [ [ [ 7, [] ] ] ], undef ] ],
            { type => 'BlockStored', block_hashes => [ 41, 42 ],
                block_size => 4, token_ids => [ 400 .. 407 ],
                extra_keys => [ [ $hex, 'no digest', 5, 0.5, $true ],
                    [ [ $hex, -3 ] ] ] },
            { type => 'BlockStored', block_hashes => [ 51, 52 ],
                block_size => 4, token_ids => [ 500 .. 507 ],
                extra_keys => [ [$hex], undef ],
                block_mm_infos => [ undef, $mm->(9) ] },
        ]);
    });

    $ng->now($ask->(100, $mm->(3, $large)), { "$id/0" => 2 },
        'two objects, in any order');
    $ng->now($ask->(100, $mm->($large)), { "$id/0" => 0 }, 'one missing');
    $ng->now($ask->(100), { "$id/0" => 0 }, 'plain tokens');
    $ng->now({ %{ $ask->(900) }, mm_routing_info => {
        routing_token_ids => [ 100 .. 107 ],
        block_mm_infos    => [ $mm->($large, 3), undef ] } },
        { "$id/0" => 2 }, 'mm_routing_info is used instead of token_ids');
    $ng->now($ask->(200, undef, $mm->(7)), { "$id/0" => 2 },
        'array form, records are maps');
    $ng->now($ask->(200), { "$id/0" => 1 }, 'blocks without object match');
    $ng->now($ask->(300, $mm->(7)), { "$id/0" => 2 },
        'array form, records are arrays');
    $ng->now($ask->(400, map { $mm->(81985529216486895) } 1, 2),
        { "$id/0" => 2 }, 'digests in extra keys');
    $ng->now($ask->(500, undef, $mm->(9)), { "$id/0" => 2 },
        'block_mm_infos win over extra keys');
};


subtest 'EAGLE' => sub {
    my ($id, $engine, $prompt) = worker(is_eagle => $true);
    my $ask = sub { $prompt->(token_ids => [@_]) };

    $ng->counts({ stored => 2, batches => 1, tokens => 0 }, 'stored', sub {
        $engine->publish([
            [ 'BlockStored', [ 11, 12 ], undef, pairs(1 .. 9), 4 ],
            { type => 'BlockStored', block_hashes => [21], block_size => 4,
                token_ids => pairs(101 .. 105) },
        ]);
    });

    $ng->now($ask->(1 .. 9), { "$id/0" => 2 }, 'two windows');
    $ng->now($ask->(1 .. 8), { "$id/0" => 1 }, 'the last token is missing');
    $ng->now($ask->(1 .. 4, 99), { "$id/0" => 0 }, 'the token behind counts');
    $ng->now($ask->(101 .. 105), { "$id/0" => 1 }, 'map form');
    $ng->now($prompt->(token_ids => [ 1 .. 9 ], is_eagle => $false),
        { "$id/0" => 0 }, 'a prompt hashed without EAGLE');

    my ($plain, $publisher, $question) = worker();
    $ng->counts({ stored => 1, batches => 1 }, 'stored elsewhere', sub {
        $publisher->publish([
            [ 'BlockStored', [ 11, 12 ], undef, pairs(1 .. 9), 4 ] ]);
    });
    $ng->now($question->(token_ids => [ 1 .. 9 ]), { "$plain/0" => 0 },
        'pairs do not match in a partition without EAGLE');
    $ng->now($question->(token_ids => [ 1 .. 9 ], is_eagle => $true),
        { "$plain/0" => 2 }, 'unless the prompt says so');
};


subtest 'hashes: bytes, signed, all 64 bits' => sub {
    my ($id, $engine, $prompt) = worker();
    my $bytes = sub { return { hex => join '', map { sprintf '%02x', $_ }
        $_[0] .. $_[0] + 31 } };
    my $ask = $prompt->(token_ids => [ 1 .. 20 ]);

    $ng->counts({ stored => 5, batches => 5 }, 'a chain through all', sub {
        my $store = sub {
            my ($hash, $parent, $start) = @_;
            $engine->publish([ { type => 'BlockStored', block_size => 4,
                block_hashes => [$hash], parent_block_hash => $parent,
                token_ids => [ $start .. $start + 3 ] } ]);
        };

        $store->($bytes->(0), undef, 1);
        $store->($bytes->(64), 1736447835066146335, 5);
        $store->(-5, $bytes->(64), 9);
        $store->(18446744073709551615, 18446744073709551611, 13);
        $store->(0, -1, 17);
    });
    $ng->now($ask, { "$id/0" => 5 }, 'each found its parent');

    $ng->counts({ removed => 3, batches => 3 }, 'removed', sub {
        $engine->publish([ [ 'BlockRemoved', [0] ] ]);
        $engine->publish([ [ 'BlockRemoved', [-1] ] ]);
        $engine->publish([ [ 'BlockRemoved',
            [ { hex => '18191a1b1c1d1e1f' } ] ] ]);
    });
    $ng->now($ask, { "$id/0" => 0 }, 'by another form of the same number');
};


subtest 'A8, A11: stores that are refused whole' => sub {
    my ($id, $engine, $prompt) = worker();
    my $ask = $prompt->(token_ids => [ 1 .. 12 ]);

    $ng->counts({ stored => 1, batches => 1 }, 'two blocks', sub {
        $engine->publish_stored(tokens => [ 1 .. 8 ], hashes => [ 7, 8 ]);
    });

    $ng->counts({ repeated_hash => 2, unknown_parent => 1, batches => 3 },
        'a block that is its own parent, twice a block, a foreign parent',
        sub {
            $engine->publish_stored(tokens => [ 1 .. 4 ], hashes => [7],
                parent => 7);
            $engine->publish_stored(tokens => [ 9 .. 16 ],
                hashes => [ 9, 9 ], parent => 8);
            $engine->publish_stored(tokens => [ 9 .. 12 ], hashes => [9],
                parent => 999);
        });
    $ng->now($ask, { "$id/0" => 2 }, 'leave what was there');

    $ng->counts({ block_size => 1, tokens => 1, stored => 1, batches => 2 },
        'another block size; too few tokens', sub {
            $engine->publish_stored(tokens => [ 9 .. 16 ], block_size => 8,
                hashes => [19], parent => 8);
            $engine->publish_stored(tokens => [ 9 .. 14 ], parent => 8,
                hashes => [ 9, 10 ]);
        });
    $ng->now($ask, { "$id/0" => 3 }, 'the complete blocks enter');

    $ng->counts({ unknown_parent => 1, batches => 1 }, 'and only they', sub {
        $engine->publish_stored(tokens => [ 17 .. 20 ], hashes => [11],
            parent => 10);
    });
};


subtest 'A11: other cache groups' => sub {
    my ($id, $engine, $prompt) = worker();
    my $event = sub {
        my ($start, %members) = @_;
        return { type => 'BlockStored', block_hashes => [$start],
            token_ids => [ $start .. $start + 3 ], block_size => 4,
            %members };
    };
    my %window = (kv_cache_spec_kind => 'sliding_window');
    my %full   = (kv_cache_spec_kind => 'full_attention');

    $ng->counts({ stored => 3, group => 5, batches => 1 }, 'counted', sub {
        $engine->publish([
            $event->(100, group_idx => 1, %window,
                kv_cache_spec_sliding_window => 128),
            $event->(110, group_idx => 1),
            $event->(120, %window),
            $event->(130, group_idx => 2),
            [ 'BlockRemoved', [140], undef, 1 ],
            $event->(140, group_idx => 0),
            $event->(150, group_idx => 3, %full),
            $event->(160),
        ]);
    });

    $ng->now($prompt->(token_ids => [ $_ .. $_ + 3 ]), { "$id/0" => 0 },
        "block $_ is of no use") for 100, 110, 120, 130;
    $ng->now($prompt->(token_ids => [ $_ .. $_ + 3 ]), { "$id/0" => 1 },
        "block $_ is of full attention") for 140, 150, 160;
};


subtest 'B6: engines that name the same blocks differently' => sub {
    my ($id, $engine, $prompt) = worker(ranks => 2);
    my $ask = $prompt->(token_ids => [ 1 .. 12 ]);

    $ng->counts({ stored => 3, removed => 1, batches => 4 }, 'taken', sub {
        $engine->publish_stored(tokens => [ 1 .. 8 ], hashes => [ 11, 12 ]);
        $engine->publish_stored(tokens => [ 1 .. 8 ], hashes => [ 21, 22 ],
            rank => 1);
        $engine->publish_stored(tokens => [ 9 .. 12 ], hashes => [23],
            parent => 22, rank => 1);
        $engine->publish_removed(hashes => [12]);
    });
    $ng->now($ask, { "$id/0" => 1, "$id/1" => 3 },
        'are known by content, removed and extended by name');
};


subtest 'partitions do not mix' => sub {
    my ($one, $first) = worker();
    my ($two, $second) = worker(routing_group => 'east');
    my $three = $next++;
    my $third = SelEngine->start(block_size => 4);

    $ng->register($three, model_name => "m$two", events($third, 0));
    $third->wait_subscribers(2);

    $ng->counts({ stored => 3, batches => 3 }, 'one chain, three depths',
        sub {
            $first->publish_stored(tokens => [ 1 .. 4 ]);
            $second->publish_stored(tokens => [ 1 .. 8 ]);
            $third->publish_stored(tokens => [ 1 .. 12 ]);
        });

    my %ask = (token_ids => [ 1 .. 12 ]);
    $ng->now({ %ask, model_name => "m$one" }, { "$one/0" => 1 }, 'first');
    $ng->now({ %ask, model_name => "m$two", routing_group => 'east' },
        { "$two/0" => 2 }, 'second');
    $ng->now({ %ask, model_name => "m$two" }, { "$three/0" => 3 }, 'third');

    $ng->counts({ cleared => 1, batches => 1 }, 'one is cleared', sub {
        $second->publish_cleared;
    });
    $ng->now({ %ask, model_name => "m$two", routing_group => 'east' },
        { "$two/0" => 0 }, 'it is empty');
    $ng->now({ %ask, model_name => "m$two" }, { "$three/0" => 3 },
        'the other group of the model is not');
};


subtest 'B2: block sizes 1 and 0' => sub {
    my ($id, $engine, $prompt) = worker(block_size => 1);

    $ng->counts({ stored => 1, batches => 1 }, 'stored', sub {
        $engine->publish_stored(tokens => [ 1 .. 5 ], block_size => 1);
    });
    $ng->now($prompt->(token_ids => [ 1 .. 4, 9 ]), { "$id/0" => 4 },
        'a block a token');

    my $answer = $ng->post('/workers', { worker_id => 5000, block_size => 0,
        endpoint => 'http://x', events($engine, 0) });
    is $answer->status, 201, 'block size 0 is stored';
    is_deeply $answer->json->{not_schedulable_reasons},
        ['block_size must be greater than 0'], 'with the reason';
    $ng->remove(5000);
};


subtest 'A14: a prompt of 8,000 blocks' => sub {
    my ($id, $engine, $prompt) = worker(block_size => 16);
    my @tokens = map { ($_ * 2654435761) % 4294967296 } 1 .. 128_000;
    my $body   = JSON::PP->new->encode($prompt->(token_ids => \@tokens));
    my $parent;

    $ng->counts({ stored => 9, batches => 9 }, 'nine events', sub {
        my @sizes = (64_000, (8_000) x 8);
        my $start = 0;

        for my $size (@sizes) {
            my @hashes = $engine->publish_stored(block_size => 16,
                tokens => [ @tokens[ $start .. $start + $size - 1 ] ],
                parent => $parent);
            ($parent, $start) = ($hashes[-1], $start + $size);
        }
    });

    $ng->at_once(sub { $ng->post_json('/overlap_scores', $body) }, sub {
        my $answer = $_[0]->json;
        return $answer->{num_blocks} == 8_000
            && $answer->{workers}[0]{device_blocks} == 8_000;
    }, 'matches to its full depth');
    $ng->at_once(sub { $ng->post_json('/select', $body) }, sub {
        my $answer = $_[0]->json;
        return $answer->{overlap}{dp}{0} == 128_000
            && $answer->{overlap}{longest_matched} == 128_000
            && $answer->{effective_prefill_tokens} == 0;
    }, 'and is selected for all of it');
};


# The sample messages, each from a publisher of its own; what the processes
# must have counted then, beside the batch and the gap before it, and how many
# blocks of all stored ones the named rank holds at the end.

my %sample = (
    '01' => { depth => 2, stored => 1 },
    '02' => { depth => 2, stored => 2, removed => 1, before => '01' },
    '03' => { rank => 1, stored => 1, removed => 1, cleared => 1 },
    '04' => { stored => 1, removed => 1 },
    '05' => { stored => 1, removed => 1, group => 3 },
    '06' => { depth => 3, stored => 2 },
    '07' => { locality => 1, medium => 1, ownership => 1, stored => 2 },
    '08' => { stored => 2, removed => 1, unknown_block => 1, cleared => 1 },
    '09' => { depth => 2, stored => 1 },
    '10' => { stored => 1, removed => 1 },
    '11' => { depth => 1, rank => 2, stored => 1, removed => 1 },
    '12' => { repeated_hash => 2 },
    '13' => { depth => 1, stored => 1, tokens => 1, block_size => 1 },
    '14' => { depth => 1, stored => 1 },
    '15' => { depth => 1, stored => 1 },
    '16' => { stored => 1, removed => 1, unknown_tag => 1 },
    '17' => {},
    '18' => { cleared => 1 },
    '19' => { depth => 1, stored => 1, block_size_of_worker => 16 },
    '20' => { malformed => 1 },
);

my %message = do {
    my $file = dirname(__FILE__) . '/vectors/kv-events.json';
    open my $fh, '<:raw', $file or die "$file: $!";
    local $/;
    map { (substr($_->{name}, 0, 2) => $_) }
        @{ JSON::PP->new->decode(<$fh>)->{messages} };
};

is_deeply [ sort keys %message ], [ sort keys %sample ],
    'every sample message has an expectation';

for my $number (sort keys %message) {
    my $message = $message{$number};

    subtest "sample $message->{name}" => sub {
        my %want = %{ $sample{$number} };
        my ($rank, $depth, $before, $block_size) = delete
            @want{qw(rank depth before block_size_of_worker)};
        my @sent = map { $message{$_} } grep { defined } $before, $number;
        my ($id, $engine, $prompt)
            = worker(block_size => $block_size // 4);

        $want{batches} = @sent;
        @want{qw(gap missed)} = (1, $sent[0]{seq}) if $sent[0]{seq};

        $ng->counts(\%want, 'is counted', sub {
            $engine->raw($_->{frames_hex}) for @sent;
        });

        my @hashes = map { 0 + $_->{tokens_hash} }
            map { @{ $_->{event}{blocks} // [] } }
            grep { ($_->{event}{tier} // '') eq 'device' }
            map { @{ $_->{expected_for_us} // $_->{expected} } } @sent;

        return if !@hashes;

        my $owner = "$id/" . ($rank // 0);
        my $body  = $prompt->(block_hashes => \@hashes,
            sequence_hashes => \@hashes, isl_tokens => 4 * @hashes);
        $ng->at_once(sub { $ng->post('/overlap_scores', $body) }, sub {
            my $rows = SelService::rows($_[0]);
            return ($rows->{$owner} // 0) == ($depth // 0)
                && !grep { $rows->{$_} && $_ ne $owner } keys %$rows;
        }, 'is in the index');
    };
}

# The gauges are those of a process's whole index, so this one has an nginx of
# its own.

$ng->finish;
$ng = SelService->new(name => 'duplicates')->run;

subtest 'A7: duplicates' => sub {
    my ($id, $engine, $prompt) = worker(ranks => 2);
    my $ask  = $prompt->(token_ids => [ 1 .. 8 ]);
    my $size = sub {
        my ($blocks, $nodes) = @_;
        return !grep({ $_ != $blocks } $ng->metric('select_index_blocks'))
            && !grep { $_ != $nodes } $ng->metric('select_index_nodes');
    };
    my @hashes;

    for (1 .. 2) {
        $ng->counts({ stored => 2, batches => 2 }, 'stored', sub {
            @hashes = $engine->publish_stored(tokens => [ 1 .. 8 ],
                rank => $_) for 0, 1;
        });
    }
    $ng->counts({ stored => 1, batches => 1 }, 'and one more', sub {
        $engine->publish_stored(tokens => [ 50 .. 53 ]);
    });
    $ng->until(sub { $size->(5, 3) },
        'what is stored twice is counted once in each process');

    $ng->counts({ removed => 1, batches => 1 }, 'one removal', sub {
        $engine->publish_removed(hashes => [ $hashes[0] ]);
    });
    $ng->now($ask, { "$id/0" => 0, "$id/1" => 2 }, 'undoes both');

    $ng->counts({ removed => 1, unknown_block => 1, batches => 1 },
        'removed again', sub {
            $engine->publish_removed(hashes => [ @hashes ]);
        });
    $ng->until(sub { $size->(3, 3) },
        'an unknown block does not keep the others from going');
};

all_done;
