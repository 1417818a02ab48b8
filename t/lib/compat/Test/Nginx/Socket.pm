package Test::Nginx::Socket;

# A small runner for test files in the format of Test::Nginx, for machines
# that lack that module.  Files that say "use Test::Nginx::Socket" run under
# either; which sections and calls there are is told in t/README.md.

use Test::Base -base;

use File::Basename ();
use File::Spec ();

use lib File::Spec->rel2abs(File::Basename::dirname(__FILE__) . '/../../..');

use Test::Nginx::Runner;

our @EXPORT = qw(
    run_tests repeat_each timeout log_level no_shuffle no_long_string
    no_root_location master_on master_off workers worker_connections
    env_to_nginx add_block_preprocessor add_response_body_check
    add_cleanup_handler server_root html_dir server_port
);

my %set = (
    repeat_each      => 1,
    timeout          => $ENV{TEST_NGINX_TIMEOUT} || 3,
    log_level        => $ENV{TEST_NGINX_LOG_LEVEL} || 'debug',
    no_shuffle       => $ENV{TEST_NGINX_NO_SHUFFLE},
    no_root_location => 0,
    master           => ($ENV{TEST_NGINX_MASTER_PROCESS} // '') eq 'on',
    workers          => 1,
    connections      => 64,
    env              => [],
    preprocessors    => [],
    body_checks      => [],
    cleanup          => [],
);

my $runner = Test::Nginx::Runner->new(\%set);


# These four read the setting, or set it when given a value.

sub repeat_each(@) { return _setting('repeat_each', @_) }
sub timeout(@)     { return _setting('timeout', @_) }
sub log_level(@)   { return _setting('log_level', @_) }
sub workers(@)     { return _setting('workers', @_) }

sub worker_connections(@) { return _setting('connections', @_) }

sub no_shuffle()       { $set{no_shuffle} = 1; return }
sub no_root_location() { $set{no_root_location} = 1; return }
sub master_on()        { $set{master} = 1; return }
sub master_off()       { $set{master} = 0; return }

sub no_long_string() { return }

sub env_to_nginx(@) { push @{ $set{env} }, @_; return }

sub add_block_preprocessor(&) { unshift @{ $set{preprocessors} }, @_; return }
sub add_response_body_check($) { push @{ $set{body_checks} }, @_; return }
sub add_cleanup_handler($)     { unshift @{ $set{cleanup} }, @_; return }

sub server_root() { return $runner->root }
sub html_dir()    { return $runner->root . '/html' }
sub server_port(@) { return $runner->port }

sub run_tests() { $runner->run(Test::Base::blocks()); return }


sub _setting {
    my ($name, @value) = @_;

    $set{$name} = $value[0] if @value;

    return $set{$name};
}


END {
    my $code = $?;
    $runner->finish;
    $? = $code;
}

1;
