#!/usr/bin/env bash
# Builds everything and tests it on every OpenCL implementation that runs without a GPU.
#   tests/run.sh            all stages
#   tests/run.sh STAGE...   only these: format tidy layers package pocl intel rusticl oclgrind lanes four asan tsan
# Installs what is missing (Debian, root or sudo). May be run again; what is built stays in build/tests.
# One line a step. Its whole output is in build/tests/log and is shown when the step fails. Exits with 0 only when every
# stage asked for ran and nothing failed: an implementation that is missing is a failure.
set -uo pipefail
cd "$(dirname "$(realpath "$0")")/.." || exit 1
root=$PWD
. tools/packages.sh

TEST_PACKAGES=(libcmocka-dev clang clang-format clang-tidy python3 python3-numpy python3-venv binutils pocl-opencl-icd
               mesa-opencl-icd oclgrind man-db zsh)
ALL_STAGES=(format tidy layers package pocl intel rusticl oclgrind lanes four asan tsan)
HOST_OR_SHAPES='tools/|attention_[^k]|mha_results'
PROGRAM_SECONDS=600 # a test program that takes longer has failed

stages=("$@")
[ $# -gt 0 ] || stages=("${ALL_STAGES[@]}")
for stage in "${stages[@]}"; do
    [[ " ${ALL_STAGES[*]} " == *" $stage "* ]] || die "no stage $stage; there are: ${ALL_STAGES[*]}"
done

out=$root/build/tests
logs=$out/log
mkdir -p "$logs"
jobs=$(nproc)
[ "$jobs" -le 8 ] || jobs=8
total_passed=0 total_failed=0 summary=()
# What one process compiled, no other compiles again: PoCL and Mesa keep kernels themselves, for Intel the library does.
export PROGRAM_SECONDS POCL_CACHE_DIR=$out/cache/pocl MESA_SHADER_CACHE_DIR=$out/cache/mesa
mkdir -p "$POCL_CACHE_DIR" "$MESA_SHADER_CACHE_DIR"

wanted() { # STAGE...: one of them was asked for
    local name
    for name in "$@"; do [[ " ${stages[*]} " == *" $name "* ]] && return 0; done
    return 1
}

# ---- Steps and counts ----------------------------------------------------------------------------------------------

counts_of() { # LOG: the numbers of its last line "N passed, N failed", if it is one
    tail -n 1 "$1" | sed -nE 's/^([0-9]+) passed, ([0-9]+) failed$/\1 \2/p'
}

step() { # NAME WHAT COMMAND...
    local name=$1 what=$2 started=$SECONDS status=0 counts
    shift 2
    printf '%-8s %s ... ' "$name" "$what"
    ("$@") >"$logs/$name.log" 2>&1 || status=$?
    counts=$(counts_of "$logs/$name.log")
    [ -z "$counts" ] || printf '%s passed, %s failed, ' $counts
    echo "$((SECONDS - started)) s"
    if [ $status != 0 ]; then
        grep -vE '^(-- |\[[0-9]+/[0-9]+\] )' "$logs/$name.log" | tail -n 80 | sed 's/^/    /'
        echo "    FAILED: the whole output is in build/tests/log/$name.log"
    fi
    return $status
}

count() { # STAGE PASSED FAILED
    total_passed=$((total_passed + $2))
    total_failed=$((total_failed + $3))
    summary+=("$1 $2 passed")
    [ "$3" = 0 ] || summary[-1]+=" and $3 FAILED"
}

finish() {
    local IFS=,
    local line="${summary[*]-nothing}"
    echo "${line//,/, }: $total_failed failed"
    echo "$total_passed passed, $total_failed failed"
    [ "$total_failed" = 0 ]
    exit
}

# A step without which the rest makes no sense.
must() { # NAME WHAT COMMAND...
    step "$@" && return
    count "$1" 0 1
    finish
}

# A stage: one that counts its parts on its last line, or else is one check.
stage() { # NAME WHAT COMMAND...
    wanted "$1" || return 0
    local status=0 passed=0 failed=0 counts
    step "$@" || status=1
    counts=$(counts_of "$logs/$1.log")
    if [ -n "$counts" ]; then
        read -r passed failed <<<"$counts"
        [ "$passed" -gt 0 ] || [ "$failed" -gt 0 ] || failed=1
    elif [ $status = 0 ]; then
        passed=1
    fi
    [ $status = 0 ] || [ "$failed" -gt 0 ] || failed=1
    count "$1" "$passed" "$failed"
}

# ---- Installing and building ---------------------------------------------------------------------------------------

install_intel() { # Intel's CPU runtime; the .icd file of the wheel names a path that does not exist, so we write one
    local venv=$root/.deps/intel library
    if [ ! -e "$venv/complete" ]; then
        rm -rf "$venv"
        mkdir -p "$root/.deps"
        python3 -m venv "$venv" || return 1
        local pip=("$venv/bin/pip" install --disable-pip-version-check)
        "${pip[@]}" intel-opencl-rt==2026.2.0 && "${pip[@]}" --no-deps intel-cmplr-lib-rt==2026.2.0 || {
            echo "pip could not install Intel's OpenCL runtime from PyPI: mend the network or pip, and run this again"
            return 1
        }
        touch "$venv/complete"
    fi
    library=$(find "$venv" -name libintelocl.so | head -n 1)
    [ -n "$library" ] || { echo "no libintelocl.so in $venv: remove .deps and run this again"; return 1; }
    echo "$library" >"$root/.deps/intel.icd"
}

build() { # NAME OPTION...; TARGETS are what is built of it, or everything
    local folder=$out/$1
    shift
    cmake -S "$root" -B "$folder" -G Ninja -DCLATTN_BUILD_TESTS=ON -DCLATTN_WERROR=ON \
        -DCMAKE_EXPORT_COMPILE_COMMANDS=ON "$@" && cmake --build "$folder" --parallel "$jobs" -- -k 0 ${TARGETS-}
}

# ---- Stages --------------------------------------------------------------------------------------------------------

clang_format() {
    find host include tools tests -name '*.[ch]' -o -name '*.cpp' | xargs -P "$jobs" -n 8 clang-format --dry-run -Werror
}

clang_tidy() {
    find host tools -name '*.c' | xargs -P "$jobs" -n 4 clang-tidy --quiet -p "$out/clang"
}

# Runs one test program in a folder of its own and leaves there: output, counts (passed, failed, seconds).
run_program() { # FOLDER PROGRAM [LAUNCHER...]
    local program=$2 status=0 passed failed
    mkdir -p "$1" && cd "$1" || return
    shift 2
    timeout --foreground --kill-after=10 $PROGRAM_SECONDS "$@" "$program" >output 2>&1 || status=$?
    passed=$(sum_of PASSED)
    failed=$(($(sum_of FAILED) + $(sum_of SKIPPED))) # what was not run has not passed
    if [ -s report ]; then # Oclgrind's exit status hides what it found
        sed 's/^/oclgrind: /' report >>output
        failed=$((failed + 1))
    fi
    [ $status != 124 ] || echo "stopped after $PROGRAM_SECONDS s" >>output
    [ $status = 0 ] || echo "ended with status $status" >>output
    [ "$failed" -gt 0 ] || { [ $status = 0 ] && [ "$passed" -gt 0 ]; } || failed=1
    echo "$passed $failed $SECONDS" >counts
}

sum_of() { # WORD of cmocka's summary lines in the file output
    sed -nE "s/.*\[  $1 *\] ([0-9]+) test\(s\).*/\1/p" output | awk '{ sum += $1 } END { print sum + 0 }'
}

export -f run_program sum_of

# A device of PLATFORM is what the environment chooses.
expect_platform() { # PROGRAM PLATFORM [LAUNCHER...]
    local program=$1 platform=$2 seen
    shift 2
    seen=$("$@" "$program" probe --json 2>&1)
    grep -qiF "$platform" <<<"$seen" && return
    echo "no device of '$platform' with OCL_ICD_VENDORS=${OCL_ICD_VENDORS-}; clattn probe says: $seen"
    return 1
}

# What run_program left in FOLDER/NAME, a line each, with the output of those that failed, and the sum.
sum_up() { # FOLDER NAME...
    local folder=$1 name all_passed=0 all_failed=0 passed failed seconds
    shift
    for name in "$@"; do
        passed=0 failed=1 seconds=0
        [ ! -e "$folder/$name/counts" ] || read -r passed failed seconds <"$folder/$name/counts"
        all_passed=$((all_passed + passed)) all_failed=$((all_failed + failed))
        echo "$name: $passed passed, $failed failed, $seconds s"
        [ "$failed" = 0 ] || {
            echo "== $name"
            grep -vE '\[( RUN      |       OK |   WARN   )\]' "$folder/$name/output" | tail -n 60
        }
    done
    echo "$all_passed passed, $all_failed failed"
    [ $all_failed = 0 ]
}

# All test programs of a build on the implementation that the environment chooses.
run_tests() { # STAGE BUILD PLATFORM [LAUNCHER...]
    local folder=$out/run/$1 stage=$1 build=$out/$2 platform=$3 file names=()
    shift 3
    expect_platform "$build/tools/clattn" "$platform" "$@" || return 1
    rm -rf "$folder"
    for file in tests/*/test_*.c; do
        # Oclgrind looks into kernels, and is slow: what tests the host, or other shapes of the same kernels, is left out.
        [[ $stage != oclgrind || ! $file =~ $HOST_OR_SHAPES ]] || continue
        # What these two test of the host takes a minute, and is the same everywhere.
        [[ $stage == pocl || $stage == asan || ! $file =~ /test_(bench|probe)\.c ]] || continue
        [[ $stage != tsan || $file == */test_attention_threads.c ]] || continue
        names+=("$(basename "$file" .c)")
    done
    printf '%s\n' "${names[@]}" | xargs -P "$jobs" -I{} bash -c 'run_program "$@"' _ "$folder/{}" "$build/tests/{}" "$@"
    sum_up "$folder" "${names[@]}"
}

# The known cases with the kernels for float vectors of each width that CPUs have: NEON and SSE, AVX, AVX-512.
run_widths() { # BUILD PLATFORM LAUNCHER...
    local folder=$out/run/lanes build=$out/$1 platform=$2 widths=(4 8 16)
    shift 2
    expect_platform "$build/tools/clattn" "$platform" "$@" || return 1
    rm -rf "$folder"
    printf '%s\n' "${widths[@]}" | xargs -P "$jobs" -I{} env CLATTN_TEST_FLOAT_WIDTH={} \
        bash -c 'run_program "$@"' _ "$folder/{}" "$build/tests/test_attention_known" "$@"
    sum_up "$folder" "${widths[@]}"
}

# ---- All together --------------------------------------------------------------------------------------------------

install_packages "$logs/apt.log" "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
if wanted intel four; then # while others build; when it fails, the stage finds no device
    { install_intel >"$logs/pip.log" 2>&1 || tail -n 5 "$logs/pip.log"; } &
fi

wanted layers package pocl rusticl oclgrind lanes four && must gcc 'build with gcc' \
    build gcc -DCMAKE_C_COMPILER=gcc -DCMAKE_BUILD_TYPE=Release
wanted tidy intel && must clang 'build with clang, asserts on' \
    build clang -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Debug '-DCMAKE_C_FLAGS_DEBUG=-g -O2'
wanted asan && must sanitize 'build with AddressSanitizer and UBSan, asserts on' \
    build asan -DCMAKE_C_COMPILER=gcc -DCMAKE_BUILD_TYPE=Debug '-DCMAKE_C_FLAGS_DEBUG=-g -O1' \
    -DCLATTN_SANITIZE=address,undefined
wanted tsan && TARGETS='clattn_front test_attention_threads' must threads 'build with ThreadSanitizer' \
    build tsan -DCMAKE_C_COMPILER=gcc -DCMAKE_BUILD_TYPE=Debug '-DCMAKE_C_FLAGS_DEBUG=-g -O1' -DCLATTN_SANITIZE=thread

pocl=/etc/OpenCL/vendors/pocl.icd
stage format 'clang-format changes nothing' clang_format
stage tidy 'clang-tidy finds nothing' clang_tidy
stage layers 'who may call whom' python3 tests/layers/check.py "$out/gcc"
OCL_ICD_VENDORS=$pocl stage package 'installed and used from outside' tests/package/check.sh "$out/gcc"
OCL_ICD_VENDORS=$pocl stage pocl 'all tests on PoCL' run_tests pocl gcc 'Portable Computing Language'
wait
OCL_ICD_VENDORS=$root/.deps/intel.icd CLATTN_CACHE_DIR=$out/cache/intel \
    stage intel "all tests on Intel's CPU runtime" run_tests intel clang 'Intel(R) OpenCL'
OCL_ICD_VENDORS=/etc/OpenCL/vendors/rusticl.icd RUSTICL_ENABLE=llvmpipe CLATTN_TEST_SIZE=small \
    stage rusticl 'small tests on rusticl' run_tests rusticl gcc rusticl
CLATTN_TEST_SIZE=tiny stage oclgrind 'tiny tests on Oclgrind: races, uninitialised reads' \
    run_tests oclgrind gcc oclgrind oclgrind --data-races --uninitialized --log report
CLATTN_TEST_SIZE=tiny stage lanes 'kernels for float vectors of 4, 8 and 16 on Oclgrind: stray accesses' \
    run_widths gcc oclgrind oclgrind --log report
CLATTN_CACHE_DIR=$out/cache/four stage four 'all four at once, as clattn probe sees them' \
    tests/tools/probe_four.sh "$out/gcc/tools/clattn" "$root/.deps/intel.icd"
OCL_ICD_VENDORS=$pocl CLATTN_TEST_SIZE=small ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 \
    LSAN_OPTIONS=suppressions=$root/tests/leaks.supp:print_suppressions=0 \
    stage asan 'all tests with AddressSanitizer and UBSan on PoCL' run_tests asan asan 'Portable Computing Language'
OCL_ICD_VENDORS=$pocl stage tsan 'threads with ThreadSanitizer on PoCL' \
    run_tests tsan tsan 'Portable Computing Language'
finish
