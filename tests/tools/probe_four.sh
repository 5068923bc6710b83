#!/usr/bin/env bash
# clattn probe with four implementations at once: what it says of them, figures and names of processors masked.
#   probe_four.sh CLATTN INTEL_ICD     one line a fact; the last line counts them; non-zero when one is false
set -u
program=$(realpath "${1:?usage: probe_four.sh CLATTN INTEL_ICD}")
golden=$(dirname "$(realpath "$0")")/../data/probe_four.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/vendors"
cp /etc/OpenCL/vendors/pocl.icd /etc/OpenCL/vendors/rusticl.icd "$2" "$work/vendors" || exit 1
echo /usr/lib/oclgrind/liboclgrind-rt-icd.so >"$work/vendors/oclgrind.icd"
export OCL_ICD_VENDORS=$work/vendors RUSTICL_ENABLE=llvmpipe

mask() {
    sed -E -e "s,$work,FOLDER,g" \
        -e 's/^(.) +[0-9]+  .*(Oclgrind  |Intel\(R\) Open|Portable Comp|rusticl  )/\1 N NAME \2/' \
        -e 's/^[0-9]+  .* \((Oclgrind|Intel\(R\) OpenCL|Portable Computing Language|rusticl)\)$/N NAME (\1)/' \
        -e 's/[0-9]+(\.[0-9]+)*/N/g' -e 's/ +/ /g' -e 's/ $//'
}

# The loader lists devices in the order of a folder's entries, which differs: everything is sorted, devices as blocks.
blocks() { awk '/^N NAME/ && NR > 1 { print "" } { printf "%s\r", $0 } END { print "" }' | sort | tr '\r' '\n' | grep .; }

said() {
    echo '$ clattn probe'
    "$program" probe --timeout 200 | mask | grep -E '^(\*? N NAME| no name|pick) ' | sort
    echo '$ clattn probe -v'
    "$program" probe -v --timeout 200 | sed '1,/^pick/d' | mask |
        grep -E '^(N NAME| (kernel|local_memory|half_storage|split|lanes|tiles-N|steps-[a-z]+) )' | blocks
    echo '$ clattn probe --doctor'
    "$program" probe --doctor --timeout 200 | mask | grep -E '^(driver|compiler|kernel)(:| (ok|broken|unknown)) '
}
export LC_ALL=C.UTF-8

said >"$work/said" 2>&1
if diff "$golden" "$work/said"; then
    echo '1 passed, 0 failed'
else
    echo '0 passed, 1 failed'
    exit 1
fi
