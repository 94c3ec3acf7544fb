#!/usr/bin/env bash
# Compares rayon on filch's workers with rayon on its own core: builds the same program on both,
# runs them in turn, and prints for each row the nanoseconds of both and the ratio (filch divided by
# rayon; below 1 filch is faster), of the medians over all turns and of the best runs. For rows of a
# few microseconds the best run varies at random.
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

# Each line has core, row, best and median. After sorting by the median, the middle line of each
# core and row has the median over all turns.
sort -k1,2 -k4,4n "$results" | awk '
    function least(old, new) { return old == "" || new < old ? new : old }
    { n = ++turns[$1, $2]; best[$1, $2] = least(best[$1, $2], $3); medians[$1, $2, n] = $4 }
    $1 == "rayon" && n == 1 { rows[++count] = $2 }
    function middle(core, row) { return medians[core, row, int((turns[core, row] + 1) / 2)] }
    END {
        printf "%-24s %12s %12s %8s %10s\n", "row", "rayon ns", "filch ns", "median", "best"
        for (n = 1; n <= count; n++) {
            row = rows[n]
            printf "%-24s %12d %12d %8.2f %10.2f\n", row, middle("rayon", row), middle("filch", row),
                middle("filch", row) / middle("rayon", row), best["filch", row] / best["rayon", row]
        }
    }
'
