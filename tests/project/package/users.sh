#!/usr/bin/env bash
# Builds and runs users of an installed weir: C and C++, by find_package, by pkg-config and by Meson, against each kind of
# library that is installed, and the README's first program. Then checks the names and versions in the shared libraries.
#   users.sh TESTS_DIR README ROOT PREFIX LIBDIR
# ROOT is empty, or the folder into which a package with PREFIX /usr was unpacked. From the environment: CC (cc), CXX (none:
# no C++), CMAKE (cmake), GENERATOR (Ninja), CFLAGS, CXXFLAGS, EMULATOR (none: programs run on this machine).
set -euo pipefail
here=$1/project/package examples=$1/../docs/examples readme=$2 root=$3 prefix=$4 libdir=$5
cc=${CC:-cc} cxx=${CXX:-} cmake=${CMAKE:-cmake} generator=${GENERATOR:-Ninja}
installed=$root$prefix/$libdir
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "users.sh: $*" >&2; exit 1; }
quietly() { "$@" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; fail "failed: $*"; }; }
# Libraries are found through the loader's path, as with every installation into a private prefix.
run() { LD_LIBRARY_PATH=$installed${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} quietly ${EMULATOR:-} "$@"; }

kinds=()
[ ! -e "$installed/libweir.a" ] || kinds+=(static)
[ ! -e "$installed/libweir.so" ] || kinds+=(shared)
[ ${#kinds[@]} -gt 0 ] || fail "no libweir in $installed"
parts=() modules=()
part() { parts+=("$1"); [ -z "${2:-}" ] || modules+=("$2"); }
[ ! -e "$installed/pkgconfig/weir-acl.pc" ] || part acl weir-acl
[ ! -e "$installed/weir/libascendcl.so" ] || part ascendcl_sim weir-ascendcl-sim
[ ! -e "$installed/pkgconfig/weir-jemalloc.pc" ] || part jemalloc weir-jemalloc
[ ! -e "$installed/pkgconfig/weir-cuda.pc" ] || part cuda weir-cuda
[ ! -e "$installed/pkgconfig/weir-onnxruntime.pc" ] || part onnxruntime weir-onnxruntime
[ ! -e "$installed/pkgconfig/weir-trace.pc" ] || part trace weir-trace
[ ! -e "$installed/libweir_torch.so" ] || part torch
[ ! -e "$root$prefix/bin/weir" ] || part tools
has() { [[ " ${parts[*]} " == *" $1 "* ]]; }
echo "${kinds[*]}; weir ${parts[*]}"

version=$(sed -nE 's/^#define WEIR_VERSION_(MAJOR|MINOR|PATCH) //p' "$root$prefix/include/weir/base.h" | paste -sd.)
soname=${version%.*}
[[ $version == 0.* ]] || soname=${version%%.*}

# The README's first program, unchanged.
awk '/^```c$/ && !seen { inside = seen = 1; next } /^```$/ { inside = 0 } inside' "$readme" >"$scratch/readme.c"
cp "$scratch/readme.c" "$scratch/readme.cc"
grep -q 'int main' "$scratch/readme.c" || fail "the README has no first program"
says='100 blocks of 3 MiB'

# check_program FILE KIND: checks that it is linked as it should be, and runs it.
check_program() {
    local names
    names=$(readelf -d "$1" | sed -nE 's/.*NEEDED.*\[(libweir[^]]*)\]/\1/p')
    case $2:$names in
    static:*libweir*) fail "$1 should be static and needs $names" ;;
    shared:) fail "$1 should need a libweir" ;;
    esac
    run "$1"
    case $1 in */readme*) grep -q "$says" "$scratch/log" || fail "$1 does not say '$says'" ;; esac
}

# configure BUILD KIND PARTS WITH_CXX
configure() {
    quietly "$cmake" -G "$generator" -S "$here/user" -B "$1" -DCMAKE_PREFIX_PATH="$root$prefix" -DKIND="$2" -DPARTS="$3" \
        -DWITH_CXX="$4" -DREADME="$scratch/readme.c"
}

find_package_users() { # KIND
    local build=$scratch/cmake-$1 program
    configure "$build" "$1" "$(IFS=,; echo "${parts[*]}")" "$([ -n "$cxx" ] && echo ON || echo OFF)"
    EMULATOR='' run "$cmake" --build "$build" # weir::command is run by it
    for program in "$build"/{user,readme}*_c*; do
        case $program in
        *_torch_c) run "$program" "$(cat "$build/torch_library")" ;;
        *_sim_c) run "$program" ;;
        *.dir) ;;
        *) [ ! -x "$program" ] || [ -d "$program" ] || check_program "$program" "$1" ;;
        esac
    done
    # A project without C++ links a part that is written in C++.
    if has onnxruntime && [ -n "$cxx" ]; then
        configure "$build-c" "$1" onnxruntime OFF
        quietly "$cmake" --build "$build-c" --target user_onnxruntime_c
        check_program "$build-c/user_onnxruntime_c" "$1"
    fi
}

# compile KIND OUTPUT SOURCE MODULE...: compiles with pkg-config's options and with the caller's array `extra`. If both
# kinds are installed, a linker takes the shared library unless it is given the file.
compile() {
    local kind=$1 output=$2 source=$3 compiler=("$cc" -std=c11) flags libs static=()
    shift 3
    [[ $source != *.cc ]] || compiler=("$cxx" -std=c++17)
    [ "$kind" = shared ] || static=(--static)
    read -ra flags <<<"${CFLAGS:-} $(pkg-config "${static[@]}" --cflags "$@")"
    read -ra libs <<<"$(pkg-config "${static[@]}" --libs "$@")"
    [ "${kinds[*]} $kind" != 'static shared static' ] || libs=($(sed -E 's/-l(weir\w*)/-l:lib\1.a/' < <(printf '%s\n' "${libs[@]}")))
    quietly "${compiler[@]}" "$source" ${extra[@]+"${extra[@]}"} "${flags[@]}" -o "$output" "${libs[@]}"
}

pkg_config_users() { # KIND
    local programs=(user.c user_heap.c user_host.c) program output
    export PKG_CONFIG_PATH=$installed/pkgconfig
    [ -z "$root" ] || export PKG_CONFIG_SYSROOT_DIR=$root
    for module in weir "${modules[@]}"; do
        quietly pkg-config --exact-version="$version" "$module"
    done
    [ -z "$cxx" ] || programs+=(user.cc user_pmr.cc)
    for program in "${programs[@]/#/$here/user/}" "$scratch"/readme.c ${cxx:+"$scratch/readme.cc"}; do
        output=$scratch/$(basename "$program" | tr . _)
        compile "$1" "$output" "$program" weir
        check_program "$output" "$1"
    done
    for program in cuda jemalloc onnxruntime trace; do
        has $program || continue
        compile "$1" "$scratch/user_$program" "$here/user/user_$program.c" weir-$program
        check_program "$scratch/user_$program" "$1"
    done
    if has ascendcl_sim; then
        compile "$1" "$scratch/user_acl" "$here/user/user_acl.c" weir-acl weir-ascendcl-sim
        check_program "$scratch/user_acl" "$1"
        compile "$1" "$scratch/user_sim" "$here/user/user_sim.c" weir-ascendcl-sim
        run "$scratch/user_sim"
    fi
    contracts_by_hand "$1"
    # Links a program without any shared library, if all libraries that weir needs have a static one.
    if [ "$1" = static ] && ! grep -q hwloc "$installed/pkgconfig/weir.pc"; then
        CFLAGS="${CFLAGS:-} -static" compile static "$scratch/user_host" "$here/user/user_host.c" weir
        ! readelf -d "$scratch/user_host" | grep NEEDED >&2 || fail "a program linked with -static needs these"
        check_program "$scratch/user_host" static
    fi
    unset PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR
}

# Static libraries of other projects need more libraries: hwloc's may need udev's, and that package may be missing.
static_links() {
    local libs
    ! grep -q '^Requires.*hwloc' "$installed/pkgconfig/weir.pc" && return 0
    read -ra libs < <(pkg-config --static --libs hwloc)
    echo 'int main(void) { return 0; }' | "$cc" ${CFLAGS:-} -x c - -o "$scratch/empty" "${libs[@]}" 2>/dev/null && return 0
    echo "left out: hwloc's private libraries are not installed (${libs[*]})"
    return 1
}

# Meson also uses other projects' static libraries, if it finds them.
meson_users() { # KIND
    local build=$scratch/meson-$1 chosen=() part program
    command -v meson >/dev/null || { echo "left out: no meson"; return; }
    [ -z "${EMULATOR:-}" ] || { echo "left out: Meson reads the name of a cross compiler from a file"; return; }
    [[ ${CFLAGS:-} != *-fsanitize* ]] || return 0 # --no-undefined, which Meson adds, and a sanitizer exclude each other
    for part in acl cuda jemalloc onnxruntime trace; do
        if has $part && { [ $part != acl ] || has ascendcl_sim; }; then chosen+=("$part"); fi
    done
    CC=$cc PKG_CONFIG_PATH=$installed/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root quietly meson setup "$build" "$here/user" \
        -Dkind="$1" -Dparts="$(IFS=,; echo "${chosen[*]}")"
    quietly meson compile -C "$build"
    for program in user user_heap user_host "${chosen[@]/#/user_}"; do
        check_program "$build/$program" "$1"
    done
}

# Compiles every installed header alone, with only the prefix's include folder.
headers_alone() {
    local header count=0
    for header in "$root$prefix"/include/weir/*.h*; do
        case $header in
        */ascendcl.h | */acl.h) continue ;; # want the vendor's headers, or the simulated runtime's
        *.hpp) [ -n "$cxx" ] || continue ;;
        *) echo "#include \"$header\"" | quietly "$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only \
            -I"$root$prefix/include" -x c - ;;
        esac
        [ -z "$cxx" ] || echo "#include \"$header\"" | quietly "$cxx" -std=c++17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only \
            -I"$root$prefix/include" -x c++ -
        count=$((count + 1))
    done
    [ $count -gt 10 ] || fail "only $count headers in $root$prefix/include/weir"
}

# The installed contract suites, on the device and the strategy of docs/examples.
# run_contract PROGRAM NAME ARGUMENT...
run_contract() {
    run "$1" "${@:3}"
    grep -q "^$2: [1-9][0-9]* passed, .* 0 failed" "$scratch/log" || fail "$1 says $(cat "$scratch/log")"
}

contracts_by_hand() { # KIND
    local suites=$root$prefix/share/weir/contract extra
    extra=(-pthread -I"$suites" "$suites/device_contract.c" "$examples/memfd_device.c")
    compile "$1" "$scratch/memfd_contract" "$examples/memfd_contract.c" weir
    run_contract "$scratch/memfd_contract" memfd
    extra=(-I"$suites" "$suites/strategy_contract.c" "$examples/first_fit.c")
    compile "$1" "$scratch/first_fit_contract" "$examples/first_fit_contract.c" weir
    run_contract "$scratch/first_fit_contract" first_fit 1 100
}

contracts_by_find_package() {
    quietly "$cmake" -G "$generator" -S "$examples" -B "$scratch/contracts" -DCMAKE_PREFIX_PATH="$root$prefix"
    quietly "$cmake" --build "$scratch/contracts"
    run_contract "$scratch/contracts/memfd_contract" memfd
    run_contract "$scratch/contracts/first_fit_contract" first_fit 1 100
}

# Checks the name that a library records, and that each symbol has a version.
names_and_versions() {
    local file name node=WEIR_${version%.*}
    for file in "$installed"/libweir*.so; do
        name=$(basename "$file")
        readelf -d "$file" | grep -q "SONAME.*\[$name\.$soname\]" || fail "$file: its SONAME is not $name.$soname"
        [ "$(readlink -f "$file")" = "$(readlink -f "$installed/$name.$version")" ] || fail "$file is not $name.$version"
        case $name in libweir_torch*.so) continue ;; esac # loaded by name at run time and never linked
        nm -D --defined-only --with-symbol-versions "$file" | awk -v node="@@$node" '
            $2 == "A" { next }
            index($3, node) == 0 { print $3 " has no version " node; bad = 1 }
            { count++ }
            END { exit bad || count == 0 }' >&2 || fail "$file: symbols without their version"
    done
    readelf -V "$scratch/cmake-shared/user_c" | grep -q "Name: $node " || fail "a program does not say that it needs $node"
    readelf -V "$scratch/user_c" | grep -q "Name: $node " || fail "a program made with pkg-config does not say that it needs $node"
}

headers_alone
echo "contract suites: find_package"
contracts_by_find_package
for kind in "${kinds[@]}"; do
    echo "$kind: find_package"
    find_package_users "$kind"
    [ "$kind" = shared ] || static_links || continue
    echo "$kind: pkg-config"
    pkg_config_users "$kind"
    echo "$kind: Meson"
    meson_users "$kind"
done
if [ "${kinds[-1]}" = shared ]; then
    echo "names and versions"
    names_and_versions
fi
