# SPDX-License-Identifier: MIT
# Completion for bash. `sluice __complete WORDS` prints the candidates.

# Stores the words up to the cursor, as typed, in `typed`. Bash splits --size=640x360 and cipd:camera into three words; parts
# without space between them are joined again.
_sluice_words()
{
    local rest=$COMP_LINE word before='' i
    typed=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ ${#typed[@]} -gt 0 && -n $word && $rest == "$word"* && $before$word == *[:=]* &&
              ($before =~ ^[:=]+$ || $word =~ ^[:=]+$) ]]; then
            typed[-1]+=$word
        else
            typed+=("$word")
        fi
        rest=${rest#*"$word"}
        before=$word
    done
}

# Unquotes a word into `plain`, without expanding $ and `, and stores a quote that is still open in `open`.
_sluice_plain()
{
    local word=$1 c i
    plain='' open=''
    for ((i = 0; i < ${#word}; i++)); do
        c=${word:i:1}
        if [[ $c == \\ && $open != \' ]]; then
            i=$((i + 1))
            [[ -n $open && ${word:i:1} != [\\\"\$\`] ]] && plain+=$c
            plain+=${word:i:1}
        elif [[ $c == "$open" ]]; then
            open=''
        elif [[ -z $open && $c == [\'\"] ]]; then
            open=$c
        else
            plain+=$c
        fi
    done
}

# Prints a word quoted for insertion after the open quote `open`.
_sluice_quoted()
{
    case $open in
    \') printf '%s' "${1//\'/\'\\\'\'}" ;;
    \") printf '%s' "$1" | sed 's/[\\"$`]/\\&/g' ;;
    *) printf '%q' "$1" ;;
    esac
}

_sluice()
{
    local typed words=() word plain open line current head files='' offered=()
    _sluice_words
    for word in "${typed[@]:1}"; do
        _sluice_plain "$word"
        words+=("$plain")
    done
    current=${typed[-1]}
    [[ $current == --*=* ]] && current=${current#*=}

    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
        :files) files=1 && compopt -o filenames -o default; mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "$current") ;;
        :folders) files=1 && compopt -o filenames -o dirnames; mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -d -- "$current") ;;
        *) offered+=("${line%%$'\t'*}") ;;
        esac
    done < <("${COMP_WORDS[0]/#\~/$HOME}" __complete "${words[@]}" 2>/dev/null)

    # Bash replaces the text after the last : or = or open quote. File names are quoted by bash itself.
    _sluice_plain "${typed[-1]%"$2"}"
    head=$plain
    for word in "${offered[@]}"; do
        word=${word#"$head"}
        [[ -n $files ]] || word=$(_sluice_quoted "$word")
        COMPREPLY+=("$word")
    done
}

complete -F _sluice sluice
