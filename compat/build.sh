#!/usr/bin/env bash
# Builds the peer once and writes target/classpath-<version>.txt for every
# Redisson version given (by default all supported ones).
# Usage: build.sh [version...]
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
here=$(pwd -P)
classes=$here/target/classes
log=$here/target/build.log
built=$here/target/built

[ $# -gt 0 ] || set -- 4.7.0 3.52.0 3.27.2 3.16.8

# Runs Maven quietly: maven <what for the error line> <argument...>
maven() {
    local what=$1
    shift
    if ! mvn --batch-mode --quiet --no-transfer-progress -Dstyle.color=never "$@" >"$log" 2>&1; then
        echo "compat/build.sh: $what failed; end of $log:" >&2
        tail -n 25 "$log" >&2
        exit 1
    fi
}

classes_are_current() {
    [ -e "$built" ] && [ -z "$(find pom.xml src -newer "$built" -print -quit)" ]
}

# A class path is current if it is newer than the POM and all its entries still exist.
classpath_is_current() {
    local entry
    [ "$1" -nt pom.xml ] || return 1
    while IFS= read -r -d : entry; do
        [ -e "$entry" ] || return 1
    done < <(tr '\n' : <"$1")
}

write_classpath() {
    local version=$1 file=$2 jars=$here/target/jars.txt
    maven "resolving Redisson $version" dependency:build-classpath \
        -Dredisson.version="$version" -DincludeScope=runtime -Dmdep.outputFile="$jars"
    echo "$classes:$(cat "$jars")" >"$file.new"
    mv "$file.new" "$file"
}

# Several test processes may build at the same time.
mkdir -p target
exec 9>target/lock
flock 9

if ! classes_are_current; then
    rm -rf "$classes"
    touch target/started
    maven "compiling" compile
    mv target/started "$built"
fi
for version in "$@"; do
    file=$here/target/classpath-$version.txt
    classpath_is_current "$file" || write_classpath "$version" "$file"
done
