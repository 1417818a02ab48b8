package SelConf;

# The nginx configuration that tests run with, and the $TEST_NGINX_... names
# that may stand in it.  Whatever nginx writes stays below one directory, and
# it listens on the loopback address alone.

use strict;
use warnings;

use Carp qw(croak);
use Exporter qw(import);
use File::Basename qw(dirname);
use File::Path qw(make_path);

use SelProc qw(reserve_port);

our @EXPORT_OK = qw(expand render write_file);


# Replaces $TEST_NGINX_RAND_PORT_n by a free port (kept in the hash $ports,
# so that one name is one port), and other $TEST_NGINX_... names by a value
# of the hash $values or of the environment.

sub expand {
    my ($text, $values, $ports) = @_;

    return $text if !defined $text || ref $text;

    $text =~ s{\$(TEST_NGINX_[A-Z0-9_]+)}{
        my $name = $1;
        $name =~ /^TEST_NGINX_RAND_PORT_\d+$/
            ? $ports->{$name} //= reserve_port()
            : $values->{$name} // $ENV{$name} // croak "$name is not set"
    }ge;

    return $text;
}


# Builds nginx.conf.  Options: root, port, workers, master, daemon, log_level,
# connections, reuseport, and the texts main, events, http and server.
# Without a server text the http text has to bring its own server.

sub render {
    my (%opt) = @_;

    return join '', map { "$_\n" } _top(%opt),
        'events {', "    worker_connections $opt{connections};",
        '    accept_mutex off;', $opt{events}, '}', '',
        'http {', "    access_log $opt{root}/logs/access.log;",
        _temp_paths(%opt), $opt{http}, _server(%opt), '}';
}


sub _top {
    my (%opt) = @_;

    my @modules = split ' ', $ENV{TEST_NGINX_LOAD_MODULES} // '';
    my $master  = $opt{master} ? 'on' : 'off';
    my $daemon  = $opt{daemon} ? 'on' : 'off';

    return "daemon $daemon;", "master_process $master;",
        "worker_processes $opt{workers};", "pid $opt{root}/logs/nginx.pid;",
        "error_log $opt{root}/logs/error.log $opt{log_level};",
        "error_log $opt{root}/logs/process.log notice;",
        ($> == 0 ? 'user root;' : ()),
        (map { "load_module $_;" } @modules),
        $opt{main}, '';
}


sub _temp_paths {
    my (%opt) = @_;

    return map { "    ${_}_temp_path $opt{root}/${_}_temp;" }
        grep { $opt{http} !~ /\b${_}_temp_path\b/ }
        qw(client_body proxy fastcgi scgi uwsgi);
}


sub _server {
    my (%opt) = @_;

    return if !defined $opt{server};

    my $option = $opt{reuseport} ? ' reuseport' : '';

    return '', '    server {',
        "        listen 127.0.0.1:$opt{port}$option;",
        '        server_name localhost;',
        '        client_max_body_size 30m;',
        $opt{server}, '    }';
}


# Writes bytes to a file, making its directory.

sub write_file {
    my ($path, $bytes) = @_;

    make_path(dirname $path);
    open my $fh, '>:raw', $path or croak "$path: $!";
    print $fh $bytes;
    close $fh or croak "$path: $!";

    return;
}

1;
