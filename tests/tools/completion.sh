#!/usr/bin/env bash
# What the completion offers, asked as bash asks it.
#   completion.sh CLATTN     one line a fact; the last line counts them; non-zero when one is false
set -u
program=$(realpath "${1:?usage: completion.sh CLATTN}")
. "$(dirname "$(realpath "$0")")/../../tools/completion/clattn.bash"
compopt() { :; } # only there while bash completes
passed=0 failed=0

offers() { # NAME WANTED WORD...: completes the last word
    local name=$1 wanted=$2 got
    shift 2
    COMP_WORDS=("$program" "$@") COMP_CWORD=$# COMPREPLY=()
    _clattn
    got="${COMPREPLY[*]-}"
    if [ "$got" = "$wanted" ]; then
        passed=$((passed + 1))
        echo "ok: $name"
    else
        failed=$((failed + 1))
        echo "FAILED: $name: offers '$got', not '$wanted'"
    fi
}

offers 'commands' 'probe' p
offers 'every command' 'probe run mha bench --version --help' ''
for command in probe run mha bench; do
    wanted=$("$program" $command --help | grep -oE '^  --?[a-z-]+' | tr -d ' ' | paste -sd' ')
    [ -n "$wanted" ] || wanted="some options"
    offers "every option of $command" "$wanted" $command ''
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
