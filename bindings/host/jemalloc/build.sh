#!/bin/sh
# build.sh DIRECTORY: a private jemalloc 5.3.0 for -DWEIR_JEMALLOC=DIRECTORY: names of its own, no initial-exec
# thread-local data (so that it can be loaded late), no C++. Takes the source from Debian's mirror; two minutes on two cores.
set -e
[ $# -eq 1 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
mkdir -p "$1/lists/partial"
cd "$1"
echo 'deb-src http://deb.debian.org/debian bookworm main' > src.list
apt_get() {
    apt-get -o Dir::Etc::sourcelist="$PWD/src.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::State::lists="$PWD/lists" -o APT::Sandbox::User=root "$@"
}
apt_get update
apt_get source --download-only jemalloc
echo "2db82d1e7119df3e71b7640219b6dfe84789bc0537983c3b7ac4f7189aecfeaa  jemalloc_5.3.0.orig.tar.bz2" | sha256sum -c
tar xf jemalloc_5.3.0.orig.tar.bz2
mkdir -p build
cd build
arch_flags= page=
case $(uname -m) in
x86_64) arch_flags=-mtls-dialect=gnu2 ;;    # TLS descriptors, the default on arm64
aarch64) page=--with-lg-page=16 ;;          # kernels with pages of 64 KiB
esac
../jemalloc-5.3.0/configure --with-jemalloc-prefix=weir_je_ --with-private-namespace=weir_jep_ \
    --disable-initial-exec-tls --disable-cxx --disable-shared --enable-static --without-export \
    --disable-doc --disable-fill --disable-cache-oblivious $page \
    CFLAGS="-O3 -fPIC -fvisibility=hidden -std=gnu11 $arch_flags"
make -j"$(nproc)" lib/libjemalloc_pic.a
