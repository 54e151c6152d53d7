# bash completion for holdfastctl. Names of clients, paths and ids of locks are asked of the daemon; peers
# choose their names, so only plain ones are offered, and none goes through compgen -W, which expands.
_holdfastctl_ask()
{
    local word
    while IFS= read -r word; do
        [[ $word == "$cur"* ]] && COMPREPLY+=("$word")
    done < <(holdfastctl "$1" --json --limit 200 2>/dev/null | python3 -c '
import json, re, sys
for row in json.load(sys.stdin):
    word = next((row[key] for key in sys.argv[1:] if row[key]), "")
    if re.fullmatch(r"[A-Za-z0-9._:/+@-]+", word):
        print(word)' "${@:2}" 2>/dev/null)
}

# What a list can be sorted by, from the help of the command.
_holdfastctl_columns()
{
    local word
    for word in "${COMP_WORDS[@]:1}"; do
        case $word in
        locks | waiters | clients | reservations)
            COMPREPLY=($(compgen -W "$(holdfastctl "$word" --help | sed -n 's/^COLUMN is one of://p')" -- "$cur"))
            return ;;
        esac
    done
}

_holdfastctl()
{
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
    local commands="status top clients client locks waiters reservations why exports grace losses history release notify check doctor cluster page backup help"
    local options="--socket --url --token-file --json --wide --watch --yes --client --file --share --owner --address --held --waited --sort --limit --csv --tree --once --lock --dry-run --at --since --until --server --after-restart --help --version"

    COMPREPLY=()
    case $prev in
    --socket | --token-file | backup) compopt -o default ;;
    --url | --share | --owner | --address | --held | --limit | --at | --since | --until | --server) ;;
    --sort) _holdfastctl_columns ;;
    client) COMPREPLY=($(compgen -W "dead" -- "$cur")) ;;
    --client | check | notify | why | dead) _holdfastctl_ask clients name ;;
    --lock) _holdfastctl_ask locks id ;;
    --file) _holdfastctl_ask locks path file ;;
    grace) COMPREPLY=($(compgen -W "end hold" -- "$cur")) ;;
    exports) COMPREPLY=($(compgen -W "release take-back" -- "$cur")) ;;
    losses) COMPREPLY=($(compgen -W "ack" -- "$cur")) ;;
    *)
        if [[ $cur == -* ]]; then
            COMPREPLY=($(compgen -W "$options" -- "$cur"))
        else
            COMPREPLY=($(compgen -W "$commands" -- "$cur"))
        fi ;;
    esac
}
complete -F _holdfastctl holdfastctl
