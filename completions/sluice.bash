# SPDX-License-Identifier: MIT
# Completion for bash. The command itself knows what may stand at the cursor: `sluice __complete WORDS`.

_sluice()
{
    local words=() word line current
    # Bash takes --size=640x360 for three words: they are put together again.
    for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
        if [[ ${#words[@]} -gt 0 && ($word == = || ${words[-1]} == --*=) ]]; then
            words[-1]+=$word
        else
            words+=("$word")
        fi
    done
    current=${words[-1]}
    [[ $current == --*=* ]] && current=${current#*=}

    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
        :files) compopt -o filenames -o default; mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "$current") ;;
        :folders) compopt -o filenames -o dirnames; mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -d -- "$current") ;;
        *)
            line=${line%%$'\t'*}
            [[ $line == --*=* ]] && line=${line#*=}
            COMPREPLY+=("$line")
            ;;
        esac
    done < <("${COMP_WORDS[0]/#\~/$HOME}" __complete "${words[@]}" 2>/dev/null)
}

complete -F _sluice sluice
