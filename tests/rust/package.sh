#!/usr/bin/env bash
# package.sh SOURCE LIBRARY TARGETS: the crate as `cargo package` packs it, unpacked beside programs that use it: its examples and
# those programs' tests pass over the shared libweir in the folder of LIBRARY, without a network. TARGETS is cargo's folder.
set -euo pipefail
source=$1 library=$(dirname "$2") targets=$3
command -v cargo >/dev/null && cargo --version >/dev/null 2>&1 || { echo 'skipped: no cargo'; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp -r "$source/bindings/rust" "$scratch/source" # cargo writes beside what it reads
export CARGO_TARGET_DIR=$targets CARGO_NET_OFFLINE=true CARGO_TERM_COLOR=never RUSTFLAGS='-D warnings' RUST_BACKTRACE=0

if env -u WEIR_LIB_DIR PKG_CONFIG_PATH=/nowhere PKG_CONFIG_LIBDIR=/nowhere CARGO_TARGET_DIR="$scratch/refused" \
    cargo check --quiet --manifest-path "$scratch/source/Cargo.toml" >"$scratch/log" 2>&1 ||
    ! grep -q 'weir is not found: install it' "$scratch/log"; then
    cat "$scratch/log"
    echo "FAILED: without a library the build script does not say so"
    exit 1
fi

version=$(sed -nE 's/^version = "(.*)"/\1/p' "$source/bindings/rust/Cargo.toml")
for part in MAJOR MINOR PATCH; do
    sed -nE "s/^#define WEIR_VERSION_$part ([0-9]+)/\1/p" "$source/core/include/weir/base.h"
done | paste -sd. | grep -qx "$version" || { echo "FAILED: the crate's version is $version, base.h has another"; exit 1; }

export WEIR_LIB_DIR=$library LD_LIBRARY_PATH=$library
cargo package --quiet --allow-dirty --no-verify --manifest-path "$scratch/source/Cargo.toml" --target-dir "$scratch/pack"
tar -xzf "$scratch/pack/package/weir-$version.crate" -C "$scratch"
mv "$scratch/weir-$version" "$scratch/weir"
cp -r "$source/tests/rust" "$scratch/user"
cd "$scratch/user"
cargo test --quiet
cargo run --quiet --bin ends | tee "$scratch/ends"
grep -q 'blocks of four threads and 1048576 bytes are live' "$scratch/ends"
cd "$scratch/weir"
cargo test --quiet
cargo check --quiet --features cuda,ascend
