#!/usr/bin/env bash
# script/bootstrap waits while another apt holds a lock (of the package lists or of dpkg), and then installs. The test runs
# the real apt-get over folders, a package source and a dpkg of its own.
#   bootstrap.sh SOURCE_DIR
set -euo pipefail
source_dir=$1
for tool in apt-get dpkg-deb python3; do
    command -v $tool >/dev/null || { echo "skipped: no $tool"; exit 77; }
done
scratch=$(mktemp -d)
holder=
trap '[ -z "$holder" ] || kill "$holder"; rm -rf "$scratch"' EXIT
fail() { echo "$*" >&2; cat "$scratch/log" >&2; exit 1; }

# Five packages that script/demo needs have no command to look for. A dpkg-query that knows no package makes them missing.
mkdir -p "$scratch"/{bin,repository,state/lists/partial,cache/archives/partial,dpkg,empty}
for package in zlib1g-dev liblzma-dev libjansson-dev libhwloc-dev libsqlite3-dev; do
    mkdir -p "$scratch/$package/DEBIAN"
    printf '%s\n' "Package: $package" 'Version: 1' 'Architecture: all' 'Maintainer: none <none@weir.invalid>' 'Description: none' \
        >"$scratch/$package/DEBIAN/control"
    deb=$scratch/repository/$package.deb
    dpkg-deb --build "$scratch/$package" "$deb" >/dev/null
    cat "$scratch/$package/DEBIAN/control" - >>"$scratch/repository/Packages" \
        <<<"Filename: ./$package.deb"$'\n'"Size: $(stat -c %s "$deb")"$'\n'"SHA256: $(sha256sum "$deb" | cut -d' ' -f1)"$'\n'
done
touch "$scratch/dpkg/status"
echo "deb [trusted=yes] file:$scratch/repository ./" >"$scratch/sources.list"
printf '#!/bin/sh\nexit 1\n' >"$scratch/bin/dpkg-query"
printf '#!/bin/sh\n[ "$1" != -n ] || shift\nexec "$@"\n' >"$scratch/bin/sudo"
printf '#!/bin/sh\necho "$*" >>%s/installed\n' "$scratch" >"$scratch/bin/dpkg"
for tool in c++ cmake ninja pkg-config; do printf '#!/bin/sh\n' >"$scratch/bin/$tool"; done
chmod +x "$scratch"/bin/*
cat >"$scratch/apt.conf" <<CONF
Dir::State "$scratch/state";
Dir::State::status "$scratch/dpkg/status";
Dir::Cache "$scratch/cache";
Dir::Etc::sourcelist "$scratch/sources.list";
Dir::Etc::sourceparts "$scratch/empty";
Dir::Etc::parts "$scratch/empty";
Dir::Bin::dpkg "$scratch/bin/dpkg";
Dir::Log "$scratch/empty";
APT::Sandbox::User "";
CONF
export APT_CONFIG=$scratch/apt.conf PATH=$scratch/bin:$PATH

# Takes the given locks, reports it, and releases them one after the other, SECONDS apart.
cat >"$scratch/hold.py" <<'HOLD'
import fcntl, sys, time
files = [open(name, 'w') for name in sys.argv[2:]]
for file in files:
    fcntl.lockf(file, fcntl.LOCK_EX)
print('held', flush=True)
for file in files:
    time.sleep(int(sys.argv[1]))
    file.close()
HOLD
hold() { # SECONDS FILE...
    rm -f "$scratch/held"
    python3 "$scratch/hold.py" "$@" >"$scratch/held" &
    holder=$!
    until [ -s "$scratch/held" ]; do sleep 0.1; done
}

hold 60 "$scratch/state/lists/lock" "$scratch/dpkg/lock-frontend"
! BOOTSTRAP_PATIENCE=0 "$source_dir/script/bootstrap" demo >"$scratch/log" 2>&1 || fail "no lock was held, the test proves nothing"
kill "$holder"
wait "$holder" || true
rm -rf "$scratch"/state/lists/*Packages*
hold 1 "$scratch/state/lists/lock" "$scratch/dpkg/lock-frontend"
"$source_dir/script/bootstrap" demo >"$scratch/log" 2>&1 || fail "script/bootstrap did not wait for the locks"
holder=
grep -q 'unpack.*libhwloc-dev' "$scratch/installed" || fail "nothing was installed: $(cat "$scratch/installed" 2>&1)"
echo "waited for both locks, and installed"
