#!/usr/bin/env bash
# Makes a Debian package of cpack's into what Debian's own tools would have made.    deb_finish.sh PACKAGE.deb
#   Multi-Arch; what other packages must depend on that link a public library; the loader's cache renewed by a trigger, not by
#   scripts; packed manual pages; owners, times (SOURCE_DATE_EPOCH) and order of files that are the same each time. STRIP: the program
#   that strips static libraries.
set -euo pipefail
package=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
dpkg-deb -R "$package" "$scratch/tree"
cd "$scratch/tree"
chmod 755 .

name=$(sed -nE 's/^Package: //p' DEBIAN/control)
version=$(sed -nE 's/^Version: (.*)-.*/\1/p' DEBIAN/control)
if [[ $name == lib* ]] && ! grep -q '^Multi-Arch:' DEBIAN/control; then
    sed -i 's/^Architecture: .*/&\nMulti-Arch: same/' DEBIAN/control
fi

rm -f DEBIAN/postinst DEBIAN/postrm
while read -r library; do
    readelf -d "$library" | sed -nE "s/.*SONAME.*\[(.*)\.so\.(.*)\]/\1 \2 $name (>= $version)/p" >>DEBIAN/shlibs
    echo 'activate-noawait ldconfig' >DEBIAN/triggers
done < <(find usr/lib -maxdepth 2 -type f -name 'lib*.so.*' | LC_ALL=C sort)
find . -path './usr/share/man/*' -type f ! -name '*.gz' -exec gzip -9n {} +
find . -name '*.a' -exec "$STRIP" --strip-debug --enable-deterministic-archives {} +
find usr -type d -exec chmod 755 {} +
find usr -type f ! -perm /111 -exec chmod 644 {} +
find usr -type f -name '*.so*' -exec chmod 644 {} +
size=$(find usr -type f -printf '%s\n' | awk '{ sum += int(($1 + 1023) / 1024) } END { print sum }')
sed -i "s/^Installed-Size: .*/Installed-Size: $size/" DEBIAN/control
find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums
chmod 644 DEBIAN/*
dpkg-deb --root-owner-group -Zxz -b . "$package" >/dev/null
chmod 644 "$package"
