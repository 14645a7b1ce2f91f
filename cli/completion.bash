# SPDX-License-Identifier: Apache-2.0
# Completion for bash: asks the command itself, so it knows what that very version knows.

# Verbs, or the options of the verb $1 (and of its kind $2), one a line.
_shoal_words() {
    if [ $# -eq 0 ]; then
        shoal --help 2>/dev/null | sed -n 's/^  \([a-z]\{1,\}\) .*/\1/p' | grep -v '^shoal$'
    else
        shoal "$@" --help 2>/dev/null | grep -oE '^ {2,6}(-[[:alnum:]], )?--[a-z0-9-]+=?' |
            sed 's/.*--/--/'
    fi
}

# Names that an option may have: the first word of each row of `shoal list KIND`, below its heads.
_shoal_names() {
    shoal list "$1" 2>/dev/null | sed -n '1d; s/^  \([a-z][a-z0-9_-]*\) .*/\1/p'
}

_shoal() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} words='' verb kind i
    COMPREPLY=()
    [ "$before" = "=" ] && before=${COMP_WORDS[COMP_CWORD - 2]}
    [ "$word" = "=" ] && word=''
    verb=${COMP_WORDS[1]}
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="$(_shoal_words) help --help --version"
    elif [ "$COMP_CWORD" -eq 2 ] && [ "$verb" = help ]; then
        words=$(_shoal_words)
    elif [ "$COMP_CWORD" -eq 2 ] && [[ $verb == list && $word != -* ]]; then
        words=$(shoal list 2>/dev/null)
    elif [ "$COMP_CWORD" -eq 3 ] && [[ $verb == list && $word != -* ]]; then
        words=$(_shoal_names "$before")
    else
        case $before in
        --codec | --collective | --sync | --transport | --model | --optimizer | --schedule)
            words=$(_shoal_names "${before#--}s")
            ;;
        *)
            kind=''
            [[ $verb == bench || $verb == data ]] && kind=${COMP_WORDS[2]}
            [[ $kind == -* ]] && kind=''
            [[ $word == -* ]] && words=$(_shoal_words "$verb" ${kind:+"$kind"})
            ;;
        esac
    fi
    if [ -n "$words" ]; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
        for i in "${COMPREPLY[@]}"; do
            [[ $i == *= ]] && compopt -o nospace 2>/dev/null
        done
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        compopt -o filenames 2>/dev/null
    fi
    return 0
}

complete -F _shoal shoal
