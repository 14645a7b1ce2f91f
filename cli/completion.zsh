#compdef shoal
# SPDX-License-Identifier: Apache-2.0
# Completion for zsh: asks the command itself, so it knows what that very version knows.

# "verb:what it does", one a line.
_shoal_verbs() {
    shoal --help 2>/dev/null | sed -n 's/^  \([a-z]\{1,\}\)  *\(.*\)/\1:\2/p' | grep -v '^shoal:'
}

# Options of a verb (and its kind), one a line: "--name=:text" with a value, "--name:text" without.
_shoal_options() {
    shoal "$@" --help 2>/dev/null |
        sed -nE 's/^ {2,6}(-[[:alnum:]], )?(--[a-z0-9-]+)(=?)[^ ]* *(.*)/\2\3:\4/p'
}

# Names that an option may have, "name:what it is"; below the table's heads.
_shoal_names() {
    shoal list "$1" 2>/dev/null | sed -n '1d; s/^  \([a-z][a-z0-9_-]*\)  *\(.*\)/\1:\2/p'
}

_shoal() {
    local -a found valued plain
    local before=${words[CURRENT-1]} verb=${words[2]} option='' line
    local -a asked
    asked=($verb)
    [[ $verb == (bench|data|help) && -n ${words[3]} && ${words[3]} != -* ]] && asked+=(${words[3]})
    if (( CURRENT == 2 )) || [[ $verb == help && CURRENT -eq 3 ]]; then
        found=("${(@f)$(_shoal_verbs)}")
        _describe -t verbs verb found
        return
    fi
    if [[ $verb == list && $PREFIX != -* ]] && (( CURRENT == 3 || CURRENT == 4 )); then
        if (( CURRENT == 3 )); then found=(${=$(shoal list 2>/dev/null)})
        else found=("${(@f)$(_shoal_names $before)}"); fi
        _describe -t names name found
        return
    fi
    if [[ $PREFIX == --*=* ]]; then
        option=${${PREFIX%%=*}#--}
        compset -P '*='
    elif [[ $before == --* ]]; then
        option=${before#--}
    fi
    case $option in
    codec|collective|sync|transport|model|optimizer|schedule)
        found=("${(@f)$(_shoal_names ${option}s)}")
        _describe -t names $option found
        return
        ;;
    esac
    if [[ -z $option && $PREFIX == -* ]]; then
        for line in "${(@f)$(_shoal_options $asked)}"; do
            if [[ $line == *=:* ]]; then valued+=("$line"); else plain+=("$line"); fi
        done
        _describe -t options option plain
        _describe -t values option valued -S ''
        return
    fi
    _files
}

# Called by zsh the first time, or read by hand.
if [[ $funcstack[1] == _shoal ]]; then
    _shoal "$@"
else
    compdef _shoal shoal
fi
