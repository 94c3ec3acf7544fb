#!/usr/bin/env bash
# Counts the instructions of a join with one worker, so without steals: the difference of the
# instructions for two Fibonacci numbers, divided by the difference of their joins, so that start
# and end of the program cancel out. Without valgrind it is skipped.
#
# instructions.sh [SYSTEM...]
#
# Exit codes: 0 counted or skipped, 2 it could not be counted.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

SMALL=15
LARGE=22

cannot() {
    echo "instructions.sh: $1" >&2
    exit 2
}

if ! command -v valgrind >/dev/null; then
    echo "instructions.sh: skipped, valgrind is missing"
    exit 0
fi

program=$(
    cargo build --quiet --release --package filch-bench --example instructions --message-format=json |
        sed -n 's/.*"name":"instructions".*"executable":"\([^"]*\)".*/\1/p'
)
[ -x "$program" ] || cannot "the example was not built"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Prints the joins and the instructions of system $1 at size $2.
count() {
    local joins instructions
    joins=$(valgrind --tool=callgrind --callgrind-out-file="$scratch/out" --log-file="$scratch/log" \
        "$program" "$1" "$2") || cannot "$1 failed with $2: $(tail -n 1 "$scratch/log")"
    instructions=$(sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$scratch/log")
    [ -n "$instructions" ] || cannot "valgrind counted nothing for $1"
    echo "$joins $instructions"
}

[ "$#" -gt 0 ] || set -- filch filch-with rayon chili seq

printf '%-10s %18s\n' system instructions/join
for system in "$@"; do
    small=$(count "$system" "$SMALL")
    large=$(count "$system" "$LARGE")
    awk -v system_name="$system" -v small="$small" -v large="$large" 'BEGIN {
        split(small, s); split(large, l)
        printf "%-10s %18.1f\n", system_name, (l[2] - s[2]) / (l[1] - s[1])
    }'
done
