# SPDX-License-Identifier: Apache-2.0
# Completion for fish: asks the command itself, so it knows what that very version knows.

# "verb<tab>what it does", one a line.
function __shoal_verbs
    shoal --help 2>/dev/null | string match -r '^  [a-z]+ +.*' |
        string replace -r '^  ([a-z]+) +(.*)' '$1\t$2' | string match -v -r '^shoal\t'
end

# Names that an option may have: below the table's heads.
function __shoal_names
    shoal list $argv[1] 2>/dev/null | tail -n +2 | string match -r '^  [a-z][a-z0-9_-]* +.*' |
        string replace -r '^  ([a-z][a-z0-9_-]*) +(.*)' '$1\t$2'
end

# What the word that is being typed may become: an option of the verb, or a name behind one.
function __shoal_words
    set -l typed (commandline -opc)
    set -l word (commandline -ct)
    set -l asked $typed[2]
    if contains -- "$asked" bench data; and test (count $typed) -ge 3
        string match -q -- '-*' $typed[3]; or set -a asked $typed[3]
    end
    set -l option (string replace -r '^--([a-z-]+)=.*' '$1' -- $word)
    set -l named codec collective sync transport model optimizer schedule
    if test "$option" != "$word"
        if contains -- $option $named
            __shoal_names {$option}s | string replace -r '^' -- "--$option="
        end
        return
    end
    set option (string replace -r '^--' '' -- $typed[-1])
    if test "$typed[2]" = list; and test (count $typed) -eq 2; and not string match -q -- '-*' $word
        shoal list 2>/dev/null | string trim
    else if test "$typed[2]" = list; and test (count $typed) -eq 3; and not string match -q -- '-*' $word
        __shoal_names $typed[3]
    else if contains -- $option $named; and string match -q -- '--*' $typed[-1]
        __shoal_names {$option}s
    else if string match -q -- '-*' $word
        shoal $asked --help 2>/dev/null |
            string match -r '^ {2,6}(?:-[[:alnum:]], )?--[a-z0-9-]+.*' |
            string replace -r '^ *(?:-[[:alnum:]], )?(--[a-z0-9-]+=?)\S* *(.*)' '$1\t$2'
    end
end

complete -c shoal -f -n 'test (count (commandline -opc)) -eq 1' -a '(__shoal_verbs)'
complete -c shoal -f -n 'test (string join -- " " (commandline -opc)) = "shoal help"' -a '(__shoal_verbs)'
complete -c shoal -n 'test (count (commandline -opc)) -ge 2' -a '(__shoal_words)'
