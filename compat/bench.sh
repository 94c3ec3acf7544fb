#!/usr/bin/env bash
# Compares rayon on filch's workers with rayon on its own core: builds the same program on both, runs them in turns, and
# prints for each row the nanoseconds of both and the ratio (filch by rayon; below 1 is faster). The best of all runs
# is taken for both: noise only ever adds.
#
#   compat/bench.sh [TURNS] [ROW…]        RAYON_NUM_THREADS sets the number of threads
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

readonly TARGET="${CARGO_TARGET_DIR:-../target}"
readonly TURNS="${1:-5}"
readonly RUNS=7
shift || true

CARGO_TARGET_DIR="$TARGET/compat" cargo build --quiet --release -p compat-check --bin speed
(cd plain && CARGO_TARGET_DIR="$TARGET/compat-plain" cargo build --quiet --release)

results=$(mktemp)
trap 'rm -f "$results"' EXIT
for ((turn = 0; turn < TURNS; turn++)); do
    "$TARGET/compat-plain/release/speed" "$RUNS" "$@" | sed 's/^/rayon /' >>"$results"
    "$TARGET/compat/release/speed" "$RUNS" "$@" | sed 's/^/filch /' >>"$results"
done

# Each line: core, row, best, median.
awk '
    function least(old, new) { return old == "" || new < old ? new : old }
    !($2 in seen) { seen[$2] = 1; rows[++count] = $2 }
    { best[$1, $2] = least(best[$1, $2], $3); middle[$1, $2] = least(middle[$1, $2], $4) }
    END {
        printf "%-24s %12s %12s %8s %10s\n", "row", "rayon ns", "filch ns", "best", "median"
        for (n = 1; n <= count; n++) {
            row = rows[n]
            printf "%-24s %12d %12d %8.2f %10.2f\n", row, best["rayon", row], best["filch", row],
                best["filch", row] / best["rayon", row], middle["filch", row] / middle["rayon", row]
        }
    }
' "$results"
