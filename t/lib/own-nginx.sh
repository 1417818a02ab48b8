#!/bin/bash
# own-nginx.sh asan|plain OUT [TREE]: builds nginx and the module into OUT, with
# or without sanitizers, from the sources in TREE (a tarball's or a repository's)
# or from those of Debian's package.
set -e

kind=$1
shift

top=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
tree=$2

# Debian's upstream tarball, by a source list of its own: the machine's apt
# configuration stays as it is.

if [ -z "$tree" ]; then
    apt=$out/apt
    mkdir -p "$apt/lists/partial" "$apt/parts"
    . /etc/os-release
    echo "deb-src http://deb.debian.org/debian $VERSION_CODENAME main" \
        > "$apt/parts/source.list"

    (
        cd "$apt"
        options=(-o Dir::Etc::SourceList=/dev/null
                 -o Dir::Etc::SourceParts="$apt/parts"
                 -o Dir::State::Lists="$apt/lists")
        apt-get "${options[@]}" update -qq
        apt-get "${options[@]}" source -qq --download-only nginx
        tar xf nginx_*.orig.tar.*
    ) > "$out/fetch.log" 2>&1 || { cat "$out/fetch.log"; exit 1; }

    tree=$(echo "$apt"/nginx-*/)
fi

# nginx's configure writes below its own directory

rm -rf "$out/tree"
cp -r "$tree" "$out/tree"
cd "$out/tree"

cc="-O1 -g -Wno-maybe-uninitialized"
ld=

if [ "$kind" = asan ]; then
    ld="-fsanitize=address,undefined -fno-sanitize=nonnull-attribute"
    ld="$ld -fno-omit-frame-pointer"
    cc="$cc $ld -DNGX_DEBUG_PALLOC=1 -DNGX_HAVE_NONALIGNED=0"
fi

configure=./configure
[ -x $configure ] || configure=auto/configure

$configure --with-compat --with-threads --with-debug --with-http_ssl_module \
    --with-http_v2_module --with-http_auth_request_module \
    --with-http_stub_status_module --add-dynamic-module="$top" \
    --with-cc-opt="$cc" --with-ld-opt="$ld" > "$out/configure.log" 2>&1 \
    || { tail -20 "$out/configure.log"; exit 1; }

make -j"$(nproc)" > "$out/make.log" 2>&1 \
    || { grep -A5 -E 'error:|Error ' "$out/make.log"; exit 1; }

cp objs/nginx objs/ngx_http_select_module.so "$out/"
