# rig.sh: for the scripts that run programs on the vendor's runtime. Sourced.

# use_runtime runtime=FOLDER DRIVER_FOLDER CC: prepares a folder in $scratch, and the function on_vendor, which runs a program on the
# vendor's runtime. Without a folder the script is skipped.
use_runtime() {
    local runtime=${1#runtime=} driver=$2 cc=$3
    [ -n "$runtime" ] || { echo "skipped: WEIR_CANN_RUNTIME names no folder with the libraries of the vendor's runtime"; exit 77; }
    local library=$runtime/libascendcl.so
    [ -e "$library" ] || library=$runtime/libacl_rt.so
    [ -e "$library" ] || { echo "$runtime has neither libascendcl.so nor libacl_rt.so" >&2; exit 1; }
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    mkdir "$scratch/lib"
    cp "$driver"/libascend_hal.so "$driver"/libtsdclient.so "$scratch/lib/"
    # In the public sources the functions are in libacl_rt.so; programs ask for libascendcl.so.
    ln -s "$(realpath "$library")" "$scratch/lib/libascendcl.so"
    absent_functions "$runtime" "$scratch/lib" "$cc"
    vendor_path=$scratch/lib:$runtime${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

# Functions of the driver that no library has succeed and do nothing, as in the stand-in that the vendor links with.
absent_functions() {
    local runtime=$1 ours=$2 cc=$3
    nm -D --undefined-only "$runtime"/*.so | awk '$2 ~ /^(hal|drv|dsmi|Tsd|tsd|prof_)/ { print $2 }' |
        sort -u >"$scratch/needed"
    nm -D --defined-only "$runtime"/*.so "$ours"/libascend_hal.so "$ours"/libtsdclient.so |
        awk 'NF == 3 { sub(/@.*/, "", $3); print $3 }' | sort -u >"$scratch/present"
    comm -23 "$scratch/needed" "$scratch/present" |
        awk '{ print "unsigned " $1 "(void); unsigned " $1 "(void) { return 0; }" }' >"$scratch/absent.c"
    "$cc" -shared -fPIC "$scratch/absent.c" -o "$ours/libabsent.so"
}

# on_vendor CONTROLS PROGRAM ARGS...
on_vendor() {
    local controls=$1
    shift
    LD_LIBRARY_PATH=$vendor_path LD_PRELOAD=$scratch/lib/libascend_hal.so:$scratch/lib/libabsent.so:$controls "$@"
}
