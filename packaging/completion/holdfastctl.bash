# bash completion for holdfastctl; names of clients and ids of locks are asked of the daemon.
_holdfastctl()
{
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
    local commands="status clients locks waiters grace release notify check"
    local options="--socket --url --token-file --json --watch --yes --client --file --share --owner --lock --limit --help --version"
    local names='import json, sys; print(*[row.get(sys.argv[1], "") for row in json.load(sys.stdin)])'

    COMPREPLY=()
    case $prev in
    --socket | --token-file) compopt -o default; return ;;
    --client | check | notify)
        COMPREPLY=($(compgen -W "$(holdfastctl clients --json 2>/dev/null | python3 -c "$names" name 2>/dev/null)" -- "$cur"))
        return ;;
    --lock)
        COMPREPLY=($(compgen -W "$(holdfastctl locks --json --limit 200 2>/dev/null | python3 -c "$names" id 2>/dev/null)" -- "$cur"))
        return ;;
    --file)
        COMPREPLY=($(compgen -W "$(holdfastctl locks --json --limit 200 2>/dev/null | python3 -c "$names" file 2>/dev/null)" -- "$cur"))
        return ;;
    grace) COMPREPLY=($(compgen -W "end" -- "$cur")); return ;;
    esac
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$cur"))
    else
        COMPREPLY=($(compgen -W "$commands" -- "$cur"))
    fi
}
complete -F _holdfastctl holdfastctl
