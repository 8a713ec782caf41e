#!/usr/bin/env bash
# docs/run accepts pages that are true, and refuses those that are not. The pages are made here; nothing is installed.
#   run_test.sh SOURCE_DIR
set -euo pipefail
source_dir=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

# Stands for cmake --install DIR --prefix PREFIX.
cat >"$scratch/cmake" <<'END'
#!/bin/sh
mkdir -p "$4/lib/pkgconfig" && : >"$4/lib/pkgconfig/weir.pc"
END
chmod +x "$scratch/cmake"

run_page() { # NAME: the page is the standard input
    cat >"$scratch/$1.md"
    CMAKE=$scratch/cmake bash "$source_dir/docs/run" --build "$scratch" "$scratch/$1.md" >"$scratch/$1.log" 2>&1
}

is_true() { # NAME
    run_page "$1" || { cat "$scratch/$1.log"; echo "docs/run refuses: $1"; failures=$((failures + 1)); }
}

is_false() { # NAME WORDS_OF_THE_COMPLAINT
    local status=0
    run_page "$1" || status=$?
    if [ $status = 0 ]; then
        echo "docs/run accepts: $1"
    elif ! grep -qF -- "$2" "$scratch/$1.log"; then
        cat "$scratch/$1.log"
        echo "docs/run says nothing of \"$2\": $1"
    else
        return 0
    fi
    failures=$((failures + 1))
}

is_true commands_and_output <<'END'
```console
$ echo one; echo "took 5 s"
one
took … s
$ printf '%s\n' a b c
a
…
c
$ echo a \
> b
a b
$ cd "$HOME" && word=kept
$ echo $word
kept
```
END

is_false a_command_fails 'exit status 3' <<'END'
```console
$ echo one; (exit 3)
one
```
END

is_false another_output '-one' <<'END'
```console
$ echo two
one
```
END

is_false a_line_too_many '+two' <<'END'
```console
$ echo one; echo two
one
```
END

is_false a_line_missing '-two' <<'END'
```console
$ echo one
one
two
```
END

is_false another_end_of_a_line '+took 5 s' <<'END'
```console
$ echo took 5 s
took … ms
```
END

is_false another_begin_of_a_line '+took 5 s' <<'END'
```console
$ echo took 5 s
spent … s
```
END

is_false the_second_line_of_a_command 'a b' <<'END'
```console
$ echo a \
> b
a
```
END

is_true a_block_that_needs_what_is_missing <<'END'
<!-- needs false: there is nothing -->
```console
$ exit 1
```
END

is_true code_of_a_file <<'END'
<!-- docs/part.awk -->
```c
BEGIN { while ((getline line < block) > 0) block_line[++blocks] = line }
...
    exit 1
}
```
END

is_false code_that_is_in_no_file 'not in docs/part.awk' <<'END'
<!-- docs/part.awk -->
```c
BEGIN { while ((getline line < block) > 0) block_line[++blocks] = line }
{ file_line[1] = $0 }
```
END

is_false code_of_no_file 'names no file' <<'END'
```c
int main(void);
```
END

is_false code_of_a_file_that_is_missing 'there is no docs/none.c' <<'END'
<!-- docs/none.c -->
```c
int main(void);
```
END

exit $((failures > 0))
