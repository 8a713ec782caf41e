# Completion of the weir command for bash. The command itself lists its options, so this file need not know them.

_weir() {
    local word=$2 previous=$3 command=${COMP_WORDS[1]}
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W 'replay advise info diff import record run topo help version' -- "$word")
        return
    fi
    case $command in
    help)
        mapfile -t COMPREPLY < <(compgen -W 'replay advise info diff import record run topo' -- "$word")
        return
        ;;
    replay | advise | info | diff | import | record | run | topo) ;;
    *) return ;;
    esac
    case $previous in
    --strategy | -s)
        local done='' names
        [[ $word == *,* ]] && done=${word%,*},
        names=$("$1" help replay 2>/dev/null | awk '/^Strategies:/ { on = 1; next } on && NF == 0 { exit } on { print $1 }')
        mapfile -t COMPREPLY < <(
            compgen -P "$done" -W "$names" -- "${word##*,}"
            compgen -P "$done" -f -X '!*.so' -- "${word##*,}" # strategies in shared objects
            [[ $word == */* ]] && compgen -P "$done" -d -S / -- "${word##*,}"
        )
        compopt -o nospace
        return
        ;;
    --from | --to | --stream | --device | -d | --jobs | -j | --capacity | -c | --limit | -l | --seed | --repeat | --pad)
        return # a number
        ;;
    --growth)
        mapfile -t COMPREPLY < <(compgen -W 'balanced grow-first wait-first' -- "$word")
        return
        ;;
    esac
    if [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$("$1" "$command" --list-options 2>/dev/null)" -- "$word")
        [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace
        return
    fi
    mapfile -t COMPREPLY < <(
        compgen -f -- "$word"
        [[ $command == replay || $command == advise || $command == info || $command == diff ]] && compgen -W "$("$1" info --list 2>/dev/null | awk '{ print $1 }')" -- "$word"
    )
    compopt -o filenames
}

complete -F _weir weir
