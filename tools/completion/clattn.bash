# bash completion for clattn. Commands, options and their words are what --help says, so none can be missing here.
_clattn_help() { "${COMP_WORDS[0]/#\~/$HOME}" "$@" --help 2>/dev/null; }

_clattn() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]-} value
    COMPREPLY=()
    if [ "$COMP_CWORD" = 1 ]; then
        COMPREPLY=($(compgen -W "$(_clattn_help | sed -nE 's/^  ([-a-z]+)  .*/\1/p')" -- "$word"))
        return
    fi
    [[ $before == = ]] && before=${COMP_WORDS[COMP_CWORD-2]}
    [[ $word == = ]] && before=${COMP_WORDS[COMP_CWORD-1]} word=
    # What stands behind the option: nothing for one without a value.
    value=$(_clattn_help "$command" | sed -nE "s/^  $before(\[=| )([^] ]+)\]?(  .*)?\$/\2/p")
    if [[ $before == -* && $value == *\|* && $value != *[A-Z]* ]]; then
        COMPREPLY=($(compgen -W "${value//|/ }" -- "$word"))
    elif [[ $before == -* && $value == SELECTOR ]]; then
        COMPREPLY=($(compgen -W 'cpu gpu accelerator' -- "$word"))
    elif [[ $before == -* && $value == FILE ]]; then
        compopt -o filenames 2>/dev/null
        COMPREPLY=($(compgen -f -- "$word"))
    elif [[ $before != -* || -z $value ]]; then
        COMPREPLY=($(compgen -W "$(_clattn_help "$command" | sed -nE 's/^  (--?[-a-z]+).*/\1/p')" -- "$word"))
    fi
}
complete -F _clattn clattn
