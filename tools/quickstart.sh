#!/usr/bin/env bash
# From a fresh clone to a result: installs what is missing (Debian, root or sudo), builds into build/, and runs layer 0's
# attention of all-MiniLM-L6-v2 on two sentences. Compares with PyTorch's output and draws attention.png.
# May be run again. Takes no options.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."
. tools/packages.sh
[ $# = 0 ] || die "takes no options; got $1"

BOUND=2e-5 # largest difference from PyTorch that passes; both sum in f32, and the outputs go up to 4.3
mkdir -p build

packages=("${BUILD_PACKAGES[@]}")
compgen -G '/etc/OpenCL/vendors/*.icd' >/dev/null || packages+=(pocl-opencl-icd) # no OpenCL here: the CPU's
install_packages build/apt.log "${packages[@]}"

echo 'configuring and building into build/'
generator=(-G Ninja)
[ ! -e build/CMakeCache.txt ] || generator=() # the one that build/ has
cmake -S . -B build "${generator[@]}" >build/configure.log 2>&1 ||
    die "cmake failed: $(grep -m1 -A1 'CMake Error' build/configure.log | paste -sd' '); see build/configure.log"
cmake --build build --parallel "$(nproc)" >build/build.log 2>&1 ||
    die "the build failed: $(grep -m1 -E 'error:|undefined reference' build/build.log || tail -n1 build/build.log); see build/build.log"

build/tools/clattn probe >build/probe.log 2>&1 ||
    die "$(grep -m1 '^trouble' build/probe.log || tail -n1 build/probe.log); build/tools/clattn probe --doctor says what to do"

data=tests/data/minilm.safetensors
echo "running layer 0's attention of all-MiniLM-L6-v2, two sentences, 12 heads"
build/tools/clattn mha --weights $data --prefix encoder.layer.0.attention. --x $data:x --key-padding $data:key_padding \
    --heads 12 --expect $data:expected --tolerance $BOUND --tokens tests/data/minilm_tokens_0.txt --plot attention.png ||
    die "clattn failed or differs from PyTorch by more than $BOUND; the lines above say why"
