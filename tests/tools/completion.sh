#!/usr/bin/env bash
# What the completion offers, asked as bash and zsh ask it.
#   completion.sh CLATTN     one line a fact; the last line counts them; non-zero when one is false
set -u
program=$(realpath "${1:?usage: completion.sh CLATTN}")
completions=$(dirname "$(realpath "$0")")/../../tools/completion
. "$completions/clattn.bash"
compopt() { :; } # only there while bash completes
passed=0 failed=0

is() { # NAME GOT WANTED
    if [ "$2" = "$3" ]; then
        passed=$((passed + 1))
        echo "ok: $1"
    else
        failed=$((failed + 1))
        echo "FAILED: $1: offers '$2', not '$3'"
    fi
}

offers() { # NAME WANTED WORD...: bash completes the last word
    local name=$1 wanted=$2
    shift 2
    COMP_WORDS=("$program" "$@") COMP_CWORD=$# COMPREPLY=()
    _clattn
    is "$name" "${COMPREPLY[*]-}" "$wanted"
}

# zsh's own functions are only there while it completes; here they print what they are given.
zsh_offers() { # NAME WANTED WORD...: zsh completes the last word
    local name=$1 wanted=$2
    shift 2
    is "zsh: $name" "$(zsh -fc 'compadd() { shift; print -r -- "$@"; }; _files() { print files; }
        words=("${@:2}") CURRENT=$(($# - 1)) PREFIX=${@[-1]}; . "$1"' zsh "$completions/_clattn" "$program" "$@" 2>&1)" \
        "$wanted"
}

offers 'commands' 'probe' p
offers 'every command' 'probe run mha bench --version --help' ''
zsh_offers 'every command' 'probe run mha bench --version --help' ''
zsh_offers 'files' 'files' run --q ''
for command in probe run mha bench; do
    wanted=$("$program" $command --help | grep -oE '^  --?[a-z-]+' | tr -d ' ' | paste -sd' ')
    [ -n "$wanted" ] || wanted="some options"
    offers "every option of $command" "$wanted" $command ''
    zsh_offers "every option of $command" "$wanted" $command -
done
offers 'options that begin so' '--seconds' bench --se
offers 'words of an option' 'bhsd bshd' run --layout ''
offers 'words that begin so' 'f16' run --dtype f1
offers 'words behind =' 'top-left' run --causal = t
offers 'kinds of device' 'gpu' probe --device g
offers 'nothing where a number is wanted' '' bench --seconds ''
cd "$(mktemp -d)" && touch here.npy
offers 'files' 'here.npy' run --q h
rm here.npy && rmdir "$PWD"

echo "$passed passed, $failed failed"
[ $failed = 0 ]
