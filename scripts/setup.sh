#!/usr/bin/env bash
# Installs what `make demo` and `make test` need and is missing. Changes nothing when nothing is missing.
#
#   scripts/setup.sh [redis] [java] [python] [rust]     the parts; all of these without arguments
#   scripts/setup.sh oldest-rust                        the oldest Rust that the crate is for, through rustup
#
# REDISSON_VERSIONS names the versions of Redisson to fetch; without it compat/build.sh takes all it knows.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly JDK=17
readonly POLICY=/usr/sbin/policy-rc.d

fail() {
    echo "setup: $*" >&2
    exit 1
}

have() {
    command -v "$1" >/dev/null 2>&1
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

have_jdk() {
    local version
    version=$(javac -version 2>&1) || return 1
    version=${version#javac }
    [ "${version%%[.-]*}" -ge "$JDK" ] 2>/dev/null
}

# The JDK's package: by its number where there is one, else the distribution's choice.
jdk_package() {
    if apt-cache policy "openjdk-$JDK-jdk-headless" | grep -q 'Candidate: [0-9]'; then
        echo "openjdk-$JDK-jdk-headless"
    else
        echo default-jdk-headless
    fi
}

# Installs packages. The redis package would start a server on port 6379 and at each boot: this one does not,
# and a server that was there before is left alone.
install() {
    local missing="$* (jdk: $JDK or later)"
    have apt-get || fail "please install: $missing"
    as_root true 2>/dev/null || fail "neither root nor sudo without a password; please install: $missing"
    echo "setup: installing $*"
    as_root apt-get update -qq
    local packages=("$@") i
    for i in "${!packages[@]}"; do
        if [ "${packages[i]}" = jdk ]; then packages[i]=$(jdk_package); fi
    done
    if [ ! -e "$POLICY" ]; then
        trap 'as_root rm -f "$POLICY"' EXIT
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$POLICY" >/dev/null
        as_root chmod 755 "$POLICY"
    fi
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
    if [[ " $* " = *" redis-server "* ]] && have systemctl; then
        as_root systemctl disable --now --quiet redis-server 2>/dev/null || true
    fi
}

rust() {
    have cargo || fail "cargo is missing: install Rust with rustup"
    local component
    for component in fmt clippy; do
        if ! cargo "$component" --version >/dev/null 2>&1; then
            have rustup || fail "cargo $component is missing: install rustfmt and clippy"
            rustup component add rustfmt clippy
            return
        fi
    done
}

# What Cargo.toml promises, for one check: nothing else of it is used.
oldest_rust() {
    local version
    version=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    if cargo "+$version" --version >/dev/null 2>&1; then return; fi
    have rustup || fail "Rust $version is missing, the oldest that the crate is for: install it with rustup"
    rustup toolchain install "$version" --profile minimal
}

parts=${*:-redis java python rust}
packages=()
for part in $parts; do
    case $part in
        redis) have redis-server || packages+=(redis-server) ;;
        java)
            have_jdk || packages+=(jdk)
            have mvn || packages+=(maven)
            ;;
        # Debian's python3 comes without what a virtual environment needs.
        python) python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv) ;;
        rust) rust ;;
        oldest-rust) oldest_rust ;;
        *) fail "no such part: $part (there are redis, java, python, rust and oldest-rust)" ;;
    esac
done

if [ "${#packages[@]}" -gt 0 ]; then install "${packages[@]}"; fi

if [[ " $parts " = *" java "* ]]; then
    have_jdk || fail "javac is still older than $JDK: put a newer JDK first in PATH"
    # shellcheck disable=SC2086
    compat/build.sh ${REDISSON_VERSIONS:-}
fi

if [[ " $parts " = *" python "* ]]; then compat/python/build.sh; fi
