#!/usr/bin/env bash
# Counts the instructions of a join, or of scopes, with one worker, so without steals: the difference
# of the instructions for two sizes, divided by the difference of their operations, so that start and
# end of the program cancel out. Without valgrind it is skipped.
#
# instructions.sh [SYSTEM...]           joins, of a Fibonacci number
# instructions.sh scopes [SYSTEM...]    scopes with 0, 1, 4 and 8 tasks; tasks of large scopes
#
# Exit codes: 0 counted or skipped, 2 it could not be counted.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# Fibonacci numbers.
SMALL=15
LARGE=22

# The cases of scopes, each with two numbers of rounds. Before the smaller number, queues and pages
# have grown.
SCOPES="scope_0:200:2200 scope_1:200:2200 scope_4:200:2200 scope_8:200:2200 flat:2:12 queens:2:12"

cannot() {
    echo "instructions.sh: $1" >&2
    exit 2
}

if ! command -v valgrind >/dev/null; then
    echo "instructions.sh: skipped, valgrind is missing"
    exit 0
fi

# Builds the example $1, and prints its path.
build() {
    cargo build --quiet --release --package filch-bench --example "$1" --message-format=json |
        sed -n 's/.*"name":"'"$1"'".*"executable":"\([^"]*\)".*/\1/p'
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Prints the operations and the instructions of the program with these arguments.
count() {
    local operations instructions
    operations=$(valgrind --tool=callgrind --callgrind-out-file="$scratch/out" \
        --log-file="$scratch/log" "$program" "$@") ||
        cannot "failed with $*: $(tail -n 1 "$scratch/log")"
    instructions=$(sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$scratch/log")
    [ -n "$instructions" ] || cannot "valgrind counted nothing for $*"
    echo "$operations $instructions"
}

# Prints the instructions per operation: those of $2 without those of $1.
per_operation() {
    awk -v small="$1" -v large="$2" 'BEGIN {
        split(small, s); split(large, l)
        printf "%.1f\n", (l[2] - s[2]) / (l[1] - s[1])
    }'
}

if [ "${1-}" = scopes ]; then
    shift
    [ "$#" -gt 0 ] || set -- filch rayon
    program=$(build scope_instructions)
    [ -x "$program" ] || cannot "the example was not built"
    printf '%-10s %-10s %18s\n' case system instructions
    for sizes in $SCOPES; do
        IFS=: read -r case few_rounds many_rounds <<<"$sizes"
        for system in "$@"; do
            few=$(count "$system" "$case" "$few_rounds")
            many=$(count "$system" "$case" "$many_rounds")
            printf '%-10s %-10s %18s\n' "$case" "$system" "$(per_operation "$few" "$many")"
        done
    done
    exit 0
fi

[ "$#" -gt 0 ] || set -- filch filch-with rayon chili seq
program=$(build instructions)
[ -x "$program" ] || cannot "the example was not built"
printf '%-10s %18s\n' system instructions/join
for system in "$@"; do
    small=$(count "$system" "$SMALL")
    large=$(count "$system" "$LARGE")
    printf '%-10s %18s\n' "$system" "$(per_operation "$small" "$large")"
done
