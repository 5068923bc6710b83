# Debian packages: what to build with, and how missing ones are installed.
# Sourced by tools/quickstart.sh and tests/run.sh.

BUILD_PACKAGES=(gcc g++ make cmake ninja-build pkg-config ocl-icd-opencl-dev opencl-headers libclblast-dev
                libcjson-dev libcairo2-dev fonts-dejavu-core)

die() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

# Installs those of the packages that are missing; the output goes to the file LOG.
install_packages() { # LOG PACKAGE...
    local log=$1 missing=() package
    shift
    for package in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    echo "installing with apt-get: ${missing[*]}"
    command -v apt-get >/dev/null ||
        die "this machine has no apt-get: install what corresponds to ${missing[*]}"
    local as_root=()
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || die "run this as root, or first run as root: apt-get install ${missing[*]}"
        as_root=(sudo)
    fi
    { "${as_root[@]}" apt-get update &&
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"; } \
        >"$log" 2>&1 ||
        die "apt-get could not install ${missing[*]}: see $log, mend apt or the network, and run this again"
}
