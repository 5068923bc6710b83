#!/usr/bin/env bash
# Installs a build and uses it as a stranger would: CMake package, pkg-config, shared, static, C and C++.
#   check.sh BUILD      one line a fact; the last line counts them; non-zero when one is false
set -u
build=$(realpath "${1:?usage: check.sh BUILD}")
here=$(dirname "$(realpath "$0")")
root=$(realpath "$here/../..")
work=$build/package
rm -rf "$work"
mkdir -p "$work/cache"
export POCL_CACHE_DIR=${POCL_CACHE_DIR:-$work/cache}
passed=0 failed=0

# fact NAME COMMAND...: the command's output is shown only when it fails.
fact() {
    local name=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        passed=$((passed + 1))
        echo "ok: $name"
    else
        failed=$((failed + 1))
        echo "FAILED: $name"
        sed 's/^/    /' "$work/log"
    fi
}

same_version() { # program: it runs and says the version of the header
    local said
    said=$("$@") && [ "$said" = "$version" ] || { echo "says '$said', not $version"; return 1; }
}

stands_alone() { # program: needs no libclattn.so
    [ -x "$1" ] && ! readelf -d "$1" | grep libclattn
}

installs_this_only() {
    local unknown
    unknown=$(cd "$prefix" && find . ! -type d | grep -vE "^\./(bin/clattn|libexec/clattn/clattn-cl|share/(clattn/probe\.schema\.json|man/man1/clattn-probe\.1|bash-completion/completions/clattn|zsh/site-functions/_clattn)|include/clattn/[a-z]+\.h|$lib/libclattn\.(a|so[.0-9]*)|$lib/cmake/clattn/clattn[-A-Za-z]*\.cmake|$lib/pkgconfig/clattn\.pc)$")
    [ -z "$unknown" ] || { echo "$unknown"; return 1; }
    diff <(cd "$root/include/clattn" && ls) <(cd "$prefix/include/clattn" && ls)
}

exports_clattn_only() {
    local names
    names=$(nm -D --defined-only "$1" | awk '{ print $NF }' | sed 's/@.*//')
    grep -q '^clattn_version$' <<<"$names" || { echo "clattn_version is not exported"; return 1; }
    ! grep -v '^clattn_' <<<"$names"
}

declared_and_exported() { # every function of the headers is in the library
    local name missing=0
    for name in $(grep -ohE '\bCLATTN_API [^;(]*\(' "$root"/include/clattn/*.h | grep -oE 'clattn_[a-z0-9_]+ *\($' | tr -d ' ('); do
        nm -D --defined-only "$1" | grep -qE " T $name$" || { echo "missing: $name"; missing=1; }
    done
    return $missing
}

# A folder that looks like CUDA's toolkit to CMake, whose OpenCL nobody must take.
fake_cuda() {
    local cuda=$work/cuda
    mkdir -p "$cuda/bin" "$cuda/include/CL" "$cuda/lib64" "$cuda/lib"
    for header in cl.h opencl.h; do echo '#error "headers of the CUDA toolkit"' >"$cuda/include/CL/$header"; done
    echo 'not a library' | tee "$cuda/lib64/libOpenCL.so" >"$cuda/lib/libOpenCL.so"
    CUDA_PATH=$cuda CUDA_HOME=$cuda CMAKE_PREFIX_PATH=$cuda PATH=$cuda/bin:$PATH cmake "$@"
}

takes_the_systems_opencl() { # build folder: neither the cache nor the commands name a CUDA toolkit
    grep -E '^OpenCL_(LIBRARY|INCLUDE_DIR):' "$1/CMakeCache.txt"
    ! grep -E '^OpenCL_(LIBRARY|INCLUDE_DIR):.*cuda' "$1/CMakeCache.txt" || return 1
    grep -qE '^OpenCL_LIBRARY:[A-Z]+=/usr/lib.*/libOpenCL\.so$' "$1/CMakeCache.txt" || return 1
    local commands
    commands=$(find "$1" -name link.txt -o -name build.ninja)
    [ -n "$commands" ] || { echo "no link commands in $1"; return 1; }
    grep -hE 'libOpenCL' $commands | grep -oE '[^ ]*libOpenCL[^ ]*' | sort -u | tee "$work/linked"
    [ -s "$work/linked" ] && ! grep -v '^/usr/lib' "$work/linked"
}

manual_has_options() {
    local option missing=0
    for option in $("$prefix/bin/clattn" probe --help | grep -oE '^  --[a-z]+' | grep -v -- --help); do
        grep -qE "Fl Fl ${option#--}( |$)" "$prefix/share/man/man1/clattn-probe.1" || { echo "missing: $option"; missing=1; }
    done
    return $missing
}

version=$(sed -nE 's/#define CLATTN_VERSION_(MAJOR|MINOR|PATCH) ([0-9]+)/\2/p' "$root/include/clattn/context.h" | paste -sd.)

# Installed, and then moved: nothing may remember where it was.
fact 'cmake --install works' cmake --install "$build" --prefix "$work/installed"
[ $failed = 0 ] && mv "$work/installed" "$work/moved" || { echo "0 passed, 1 failed"; exit 1; }
prefix=$work/moved
lib=$(cd "$prefix" && dirname "$(find . -name libclattn.so)" | sed 's,^\./,,')
fact 'the headers, the libraries, the packages and the program are installed, and nothing else' installs_this_only
fact 'the shared library exports clattn_* only' exports_clattn_only "$prefix/$lib/libclattn.so"
fact 'every function of the headers is exported' declared_and_exported "$prefix/$lib/libclattn.so"
fact 'no installed text names the build or the source folder' \
    bash -c '! grep -rIlE "$1|$2" "$3"' _ "$build/(C|c|t|h)" "$root/(host|cl|include)" "$prefix"

outside=$work/outside
mkdir -p "$outside"
(cd "$prefix/include" && ls clattn/*.h | sed 's/.*/#include <&>/') >"$outside/headers.inc"
fact 'find_package(clattn) is found' fake_cuda -S "$here" -B "$outside" -DCMAKE_PREFIX_PATH="$prefix"
fact 'an outside project builds with the package, C++ with every header too' cmake --build "$outside"
for kind in clattn shared static cpp; do fact "use_$kind runs" same_version "$outside/use_$kind"; done
fact 'an outside project takes the system OpenCL beside a CUDA toolkit' takes_the_systems_opencl "$outside"
fact 'use_static needs no libclattn.so' stands_alone "$outside/use_static"

pc() { PKG_CONFIG_PATH=$prefix/$lib/pkgconfig pkg-config "$@" clattn; }
fact 'pkg-config says the version' bash -c '[ "$1" = "$2" ]' _ "$(pc --modversion)" "$version"
fact 'pkg-config builds a shared user' cc -std=c11 "$here/consumer.c" $(pc --cflags --libs) -lm -o "$work/pc_shared"
fact 'the shared user runs' same_version env LD_LIBRARY_PATH="$prefix/$lib" "$work/pc_shared"
mkdir "$work/archive" && cp "$prefix/$lib/libclattn.a" "$work/archive"
fact 'pkg-config --static builds a static user' \
    cc -std=c11 "$here/consumer.c" -L"$work/archive" $(pc --static --cflags --libs) -lm -o "$work/pc_static"
fact 'the static user needs no libclattn.so' stands_alone "$work/pc_static"
fact 'the static user runs' same_version "$work/pc_static"

readme_example() { # NUMBER FIRST_LINE: the README's C block of that number, as it stands there, and what it prints
    local source=$work/example$1.c said
    awk -v want="$1" '/^```c$/ { n++; on = n == want; next } /^```/ { on = 0 } on' "$root/README.md" >"$source"
    [ -s "$source" ] || { echo "README.md has no C block $1"; return 1; }
    cc -std=c11 -Wall -Wextra -Werror "$source" $(pc --cflags --libs) -o "${source%.c}" || return 1
    said=$(LD_LIBRARY_PATH=$prefix/$lib "${source%.c}") || { echo "$said"; return 1; }
    [[ $said == $2* ]] || { echo "says '$said', not '$2'"; return 1; }
}
fact "the README's example of the simple face runs" readme_example 1 1.0000
fact "the README's example of the expert face runs" readme_example 2 'kernel '

peers() { # PYTHON ARGUMENT...: tools/peers.py on clattn alone, after some Python
    local first=$1
    shift
    PYTHONPATH=$root/tools PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -c "import sys, peers, peers_clattn
$first
sys.exit(peers.main())" --library "$prefix/$lib/libclattn.so" --peers '' --rounds 1 --seconds 0.01 "$@"
}
fails_saying() { # TEXT COMMAND...
    local text=$1 said
    shift
    said=$("$@" 2>&1) && { echo "$said"; return 1; }
    grep -qF -- "$text" <<<"$said" || { echo "$said"; return 1; }
}
tiny='--workloads tiny,tiny-decode,tiny-mha'
fact 'the peer script times the installed library, right in f32' peers pass $tiny --json "$work/peers.json"
fact 'the peer script writes its rows' grep -q '"workload": "tiny-mha"' "$work/peers.json"
fact 'the peer script compares bf16 with f32' peers pass $tiny --dtype bf16 --peers clattn-f32
fact 'the peer script gives a wrong answer no time' fails_saying 'clattn: wrong: the largest difference is' \
    peers 'peers.Attention.truth = lambda self, q, k, v: q + 0.01' --workloads tiny
fact 'the peer script notices a description that has grown' \
    fails_saying 'clattn_attention_desc of this library is another' peers 'fields = dict(peers_clattn.Desc._fields_)
peers_clattn.Desc = peers_clattn.structure("clattn_attention_desc", more=peers_clattn.c_int64, **fields)
peers_clattn.attention(sys.argv[2], None, "f32", peers.WORKLOADS["tiny"], *peers.WORKLOADS["tiny"].inputs())'
fact 'the peer script names what it does not know' fails_saying '--workloads tinny: not one of base-512' \
    peers pass --workloads tinny

fact 'clattn configures beside a CUDA toolkit' fake_cuda -S "$root" -B "$work/beside" -DCLATTN_BUILD_TOOLS=OFF
fact 'clattn takes the system OpenCL beside a CUDA toolkit' takes_the_systems_opencl "$work/beside"
fact 'this build takes the system OpenCL' takes_the_systems_opencl "$build"
fact 'the installed program runs where it was moved to' "$prefix/bin/clattn" --version
fact 'and through a link to it' eval 'ln -s "$prefix/bin/clattn" "$work/link" && "$work/link" probe'
needs_no_opencl() { ! readelf -d "$1" | grep -iE 'opencl|clattn|clblast'; }
fact 'the program that people call needs no OpenCL' needs_no_opencl "$prefix/bin/clattn"
fact 'the completion offers what --help says' "$here/../tools/completion.sh" "$prefix/bin/clattn"
manual_is_right() { local said; said=$(man --warnings -E UTF-8 -l -Tutf8 -Z "$1" 2>&1 >/dev/null) && [ -z "$said" ] || { echo "$said"; return 1; }; }
fact 'the manual page has no mistake' manual_is_right "$prefix/share/man/man1/clattn-probe.1"
fact 'the manual page has every option of probe' manual_has_options

echo "$passed passed, $failed failed"
[ $failed = 0 ]
