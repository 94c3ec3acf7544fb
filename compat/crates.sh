#!/usr/bin/env bash
# Runs the test suites of published crates that use rayon, with rayon on filch's workers. The sources
# come from the crate registry; nothing else is downloaded. Tests whose files were not published with
# the crate are not part of it.
#
#   compat/crates.sh [CRATE…]      all crates of the list below, or those that are named
#
# Prints a line for each crate: its version, how many tests passed and failed, and where the log is.
# Returns 1 if one of them failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

readonly CORE="$PWD/rayon-core"
readonly WORK="${CARGO_TARGET_DIR:-$PWD/../target}/compat-crates"

# Name, version, and the arguments of `cargo test`.
readonly CRATES=(
    "rayon 1.12 --tests --lib"
    "jwalk 0.9 --tests --lib"
    "indexmap 2 --features rayon --tests --lib"
    # Its other tests need pictures that are not published.
    "image 0.25 --doc"
    "ndarray 0.17 --features rayon --tests --lib"
    "petgraph 0.8 --features rayon --tests --lib"
)

# source_of NAME VERSION: fetches a crate and prints the folder of its sources.
source_of() {
    local fetch="$WORK/fetch-$1"
    mkdir -p "$fetch/src"
    touch "$fetch/src/lib.rs"
    printf '[workspace]\n[package]\nname = "fetch"\nedition = "2024"\n[dependencies]\n%s = "%s"\n' \
        "$1" "$2" >"$fetch/Cargo.toml"
    cargo metadata --quiet --format-version 1 --manifest-path "$fetch/Cargo.toml" |
        grep -o '"manifest_path":"[^"]*/'"$1"'-[0-9][^"/]*/Cargo.toml"' |
        head -1 | sed 's/.*:"//; s/\/Cargo.toml"//'
}

# suite NAME VERSION ARGUMENT…: runs the tests of a crate.
suite() {
    local name="$1" version="$2" source copy log passed failed status=ok
    shift 2
    source=$(source_of "$name" "$version")
    copy="$WORK/$name"
    log="$WORK/$name.log"
    rm -rf "$copy" && cp -r "$source" "$copy" && rm -f "$copy/Cargo.lock"
    chmod -R u+w "$copy"
    printf '\n[workspace]\n\n[patch.crates-io]\nrayon-core = { path = "%s" }\n' "$CORE" \
        >>"$copy/Cargo.toml"
    (cd "$copy" && CARGO_TARGET_DIR="$WORK/target" cargo test --no-fail-fast "$@") >"$log" 2>&1 ||
        status=failed
    # The patch must have been used.
    (cd "$copy" && cargo tree --quiet --edges normal,dev "${features[@]}" --invert rayon-core) 2>/dev/null |
        head -1 | grep -q "$CORE" || status="not patched"
    passed=$(awk '/^test result:/ { sum += $4 } END { print sum + 0 }' "$log")
    failed=$(awk '/^test result:/ { sum += $6 } END { print sum + 0 }' "$log")
    echo "$(basename "$source"): $passed passed, $failed failed ($status; $log)"
    [ "$status" = ok ] && [ "$passed" -gt 0 ]
}

# Dependencies that this compiler can build.
export CARGO_RESOLVER_INCOMPATIBLE_RUST_VERSIONS=fallback
mkdir -p "$WORK"
result=0
for entry in "${CRATES[@]}"; do
    read -ra words <<<"$entry"
    if [ $# -gt 0 ] && [[ " $* " != *" ${words[0]} "* ]]; then
        continue
    fi
    features=()
    if [[ "$entry" == *"--features rayon"* ]]; then
        features=(--features rayon)
    fi
    suite "${words[@]}" || result=1
done
exit "$result"
