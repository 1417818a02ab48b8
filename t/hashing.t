# The hashes of blocks, seen from outside: an engine publishes the tokens of a
# vector, and both the vector's hashes and its tokens must find these blocks
# in every process.  Without this suite the selector could hash events and
# prompts alike but wrongly, so that clients that hash by themselves never hit;
# or leave LoRA, cache salt, EAGLE or multimodal objects out of the hash, so
# that one tenant's blocks are taken for another's.

use strict;
use warnings;

use File::Basename qw(dirname);
use JSON::PP ();
use Test::More;

use SelEngine;
use SelNginx;

my $vectors = JSON::PP->new->decode(
    SelLog->new(dirname(__FILE__) . '/vectors/hashing.json')->text);
my @public = grep { $_->{mode} eq 'public-xxh3-v1' && @{ $_->{block_hashes} } }
    @{ $vectors->{vectors} };

cmp_ok scalar @public, '>=', 20, 'there are vectors';

my $engine = SelEngine->start(ranks => scalar @public);
my $ng = SelNginx->new(zone => 'selector 4m', http => <<'HTTP',
    add_header X-Select-Process $pid always;
HTTP
    server => 'location / { select_service selector; }')->run;
my @clients = map { $ng->connection_to($_, '/health') } $ng->workers;


# One multimodal record for each block, as requests and events have them.

sub mm_infos {
    my ($vector) = @_;

    my $hashes = $vector->{block_mm_hashes} // return;

    return [ map {
        $_ && { mm_objects => [ map {
            { mm_hash => $_ + 0, offsets => [ [ 0, 1 ] ] }
        } @$_ ] }
    } @$hashes ];
}


sub tokens { return [ map { $_ + 0 } @{ $_[0]{token_ids} } ] }


# The event by which an engine tells of the vector's blocks.

sub event {
    my ($vector) = @_;

    my $tokens = tokens($vector);
    my $infos  = mm_infos($vector);

    $tokens = [ map { [ @$tokens[ $_, $_ + 1 ] ] } 0 .. $#$tokens - 1 ]
        if $vector->{is_eagle};

    return {
        type              => 'BlockStored',
        block_hashes      => [ 1 .. @{ $vector->{block_hashes} } ],
        parent_block_hash => undef,
        token_ids         => $tokens,
        block_size        => $vector->{block_size},
        lora_name         => $vector->{lora_name},
        cache_salt        => $vector->{cache_namespace},
        $infos ? (block_mm_infos => $infos) : (),
    };
}


# How many blocks each process finds, and how many it looked for.

sub found {
    my ($vector, $prompt) = @_;

    return map {
        my $answer = $_->post('/overlap_scores',
            { model_name => $vector->{name}, %$prompt })->json;
        "$answer->{workers}[0]{device_blocks} of $answer->{num_blocks}"
    } @clients;
}


sub finds {
    my ($vector, $prompt, $count, $of, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return is_deeply [ found($vector, $prompt) ], [ ("$count of $of") x 2 ],
        "$vector->{name}: $name";
}


# A prompt of hashes.  JSON::PP keeps integers of 64 bits exact.

sub hashed {
    my (@hashes) = @_;

    return {
        block_hashes    => \@hashes,
        sequence_hashes => [ map { 0 } @hashes ],
        isl_tokens      => 1,
    };
}


sub signed { return unpack 'q', pack 'Q', $_[0] }


for my $i (0 .. $#public) {
    my $vector = $public[$i];
    my $answer = $ng->post('/workers', {
        worker_id           => $i,
        model_name          => $vector->{name},
        endpoint            => 'a',
        block_size          => $vector->{block_size},
        is_eagle            => $vector->{is_eagle},
        kv_events_endpoints => { 0 => $engine->endpoint($i) },
    });

    is $answer->json->{lifecycle}, 'schedulable',
        "a worker for $vector->{name}";
}

for my $i (0 .. $#public) {
    my $vector = $public[$i];

    my @hashes = map { $_ + 0 } @{ $vector->{block_hashes} };
    my $count  = @hashes;
    my $tokens = tokens($vector);
    my $infos  = mm_infos($vector);

    $engine->wait_subscribers(2, $i);
    $engine->publish([ event($vector) ], rank => $i, dp_rank => 0);

    wait_until {
        !grep { !/^$count of/ } found($vector, hashed(@hashes));
    } "$vector->{name}: the blocks are found by the vector's hashes";

    finds($vector, hashed(map { signed($_) } @hashes), $count, $count,
        'N4: also when they are signed');
    finds($vector, hashed(@hashes[ 0 .. $#hashes - 1 ], $hashes[-1] ^ 1),
        $count - 1, $count, 'not by another last hash');

    # The prompt's own tokens, in each place where they may stand.
    my %same = (
        lora_name  => $vector->{lora_name},
        cache_salt => $vector->{cache_namespace},
    );

    finds($vector, { %same, token_ids => $tokens, block_mm_infos => $infos },
        $count, $count, 'by tokens');
    finds($vector, { %same, token_ids => [1], mm_routing_info => {
        routing_token_ids => $tokens, block_mm_infos => $infos // [] } },
        $count, $count, 'by multimodal tokens');

    # Every token of a block counts.
    my @other = @$tokens;
    $other[0] ^= 1;
    finds($vector, { %same, token_ids => \@other, block_mm_infos => $infos },
        0, $count, 'not by another first token');

    # And so does whatever else is in the hash.
    for my $member (qw(lora_name cache_salt)) {
        finds($vector, { %same, token_ids => $tokens,
            block_mm_infos => $infos, $member => 'another' },
            0, $count, "N2: not with another $member");
        finds($vector, { %same, token_ids => $tokens,
            block_mm_infos => $infos, $member => undef },
            0, $count, "not without $member") if $same{$member};
    }

    # Where in the prompt the first hash is that objects are part of.
    my $first = 0;
    $first++ while $first < $count
        && !@{ ($vector->{block_mm_hashes} // [])->[$first] // [] };

    finds($vector, { %same, token_ids => $tokens }, $first, $count,
        'without multimodal objects up to the first') if $first < $count;

    my @more = map { { mm_objects => [ { mm_hash => 5, offsets => [] } ] } }
        @hashes;
    finds($vector, { %same, token_ids => $tokens, block_mm_infos => \@more },
        0, $count, 'not with other objects');
}

# The flag of a request decides over the partition's.

my ($plain) = grep { $_->{name} =~ /^p02/ } @public;
my ($eagle) = grep { $_->{name} =~ /^p17/ } @public;

finds($plain, { token_ids => tokens($plain), is_eagle => JSON::PP::true },
    0, 2, 'as an EAGLE prompt it is another');
finds($eagle, { token_ids => tokens($eagle), is_eagle => JSON::PP::false },
    0, 2, 'as another prompt it is not found');

all_done;
