#!/usr/bin/env bash
# What it costs to compile a program with rayon's iterators on filch's workers, compared with
# rayon's own core. Prints for both, with the ratio (filch divided by rayon):
#
# - the lines of LLVM code that the compiler generates, before any optimisation: most of the compile
#   time is spent on that code;
# - the CPU time of compiling and linking the program, in milliseconds, when its dependencies are
#   built: the best of some builds, without incremental state;
# - the size of its code and constants, in bytes.
#
#   compat/lines.sh [BUILDS]
#
# Exit codes: 0 both profiles have at most MOST_LINES percent of the lines with rayon's core, 1 one
# of them has more.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

readonly TARGET="${CARGO_TARGET_DIR:-$PWD/../target}"
readonly BUILDS="${1:-3}"
# In percent of the lines with rayon's core: what is generic and need not be shows here.
readonly MOST_LINES=130
export CARGO_INCREMENTAL=0

# compile FOLDER PACKAGE PROFILE [OPTION...]: compiles the program with these options of the
# compiler.
compile() {
    local folder=$1 package=$2 profile=$3
    shift 3
    (cd "$folder" && CARGO_TARGET_DIR="$TARGET/compat-lines-$package" \
        cargo rustc --quiet -p "$package" --bin speed --profile "$profile" -- "$@") 1>&2
}

# lines FOLDER PACKAGE PROFILE: prints the number of lines.
lines() {
    local target="$TARGET/compat-lines-$2" file
    rm -f "$target"/*/deps/speed-*.ll
    compile "$@" --emit=llvm-ir -C no-prepopulate-passes -C codegen-units=1 -C debuginfo=0
    file=("$target"/*/deps/speed-*.ll)
    wc -l <"${file[0]}"
}

# cpu_time FOLDER PACKAGE PROFILE: prints the CPU time of the best build, in milliseconds.
cpu_time() {
    local target="$TARGET/compat-lines-$2" build
    compile "$@"
    for ((build = 0; build < BUILDS; build++)); do
        # Cargo compiles it again if it has no record of the last time.
        rm -rf "$target"/*/.fingerprint/"$2"-*
        { TIMEFORMAT="%U %S"; time compile "$@" 2>/dev/null; } 2>&1
    done | awk '{ ms = ($1 + $2) * 1000 } NR == 1 || ms < best { best = ms } END { printf "%d\n", best }'
}

# bytes PACKAGE PROFILE: prints the size of what `compile` has built.
bytes() {
    local folder=$2
    if [[ $folder == dev ]]; then folder=debug; fi
    size "$TARGET/compat-lines-$1/$folder/speed" | awk 'NR == 2 { print $1 }'
}

# row PROFILE WHAT RAYON FILCH: prints a row of the table.
row() {
    awk -v profile="$1" -v what="$2" -v rayon="$3" -v filch="$4" 'BEGIN {
        printf "%-8s %-8s rayon %9d  filch %9d  ratio %.2f\n", profile, what, rayon, filch, filch / rayon
    }'
}

code=0
for profile in dev release; do
    rayon=$(lines plain compat-plain "$profile")
    filch=$(lines . compat-check "$profile")
    row "$profile" lines "$rayon" "$filch"
    if ((filch * 100 > rayon * MOST_LINES)); then code=1; fi
    row "$profile" "cpu ms" "$(cpu_time plain compat-plain "$profile")" \
        "$(cpu_time . compat-check "$profile")"
    if command -v size >/dev/null; then
        row "$profile" bytes "$(bytes compat-plain "$profile")" "$(bytes compat-check "$profile")"
    fi
done
exit "$code"
