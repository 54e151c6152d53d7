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

_holdfastctl()
{
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
    local commands="status clients locks waiters why exports grace losses history release notify check doctor cluster page backup"
    local options="--socket --url --token-file --json --wide --watch --yes --client --file --share --owner --lock --limit --at --since --until --help --version"

    COMPREPLY=()
    case $prev in
    --socket | --token-file | backup) compopt -o default ;;
    --url | --share | --owner | --limit | --at | --since | --until) ;;
    --client | check | notify | why) _holdfastctl_ask clients name ;;
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
