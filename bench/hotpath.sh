#!/usr/bin/env bash
# Prints and checks the machine code of the hot paths: at most one fence, and no other locked
# instruction, in the body of each probe in hotpath/src/main.rs. Rare paths are in separate
# functions, which the probes only call; those are not checked.
#
# Exit codes: 0 passed, 1 a probe has too many, 2 it could not be checked.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

cannot() {
    echo "hotpath.sh: $1" >&2
    exit 2
}

command -v objdump >/dev/null || cannot "objdump is missing; install binutils"
[ "$(uname -m)" = x86_64 ] || cannot "this script supports x86-64 only"

program=$(
    cargo build --quiet --release --package filch-hotpath --message-format=json |
        sed -n 's/.*"name":"filch-hotpath".*"executable":"\([^"]*\)".*/\1/p'
)
[ -x "$program" ] || cannot "the program was not built"
code=$(objdump --disassemble --demangle --no-show-raw-insn "$program")

# Prints the lines of the function $1.
body() {
    awk -v name="filch_hotpath::$1>:" '
        index($0, name) && /^[0-9a-f]+ </ { inside = 1 }
        inside && /^$/ { exit }
        inside && !/\tint3/ { print }
    ' <<<"$code"
}

# Fences: mfence, or the locked no-op on the stack that compilers emit in its place.
fence='mfence|lock orl? +\$0x0,(-?0x[0-9a-f]+)?\(%rsp\)'
# All locked instructions: the prefix, and exchanges with memory, which lock implicitly.
locked='\block |xchg[bwlq]? .*\('

count() {
    grep -cE "$1" || true
}

failed=0
check() {
    local lines fences others
    lines=$(body "$1")
    [ -n "$lines" ] || cannot "no function $1 in the program"
    fences=$(count "$fence" <<<"$lines")
    others=$(grep -vE "$fence" <<<"$lines" | count "$locked")
    if [ "$2" = canary ]; then
        # A checker that misses the canary proves nothing about the probes.
        [ "$fences" = 2 ] && [ "$others" = 2 ] ||
            cannot "the canary has 2 fences and 2 other locked instructions, but $fences and $others were found"
        return
    fi
    echo "$lines"
    echo
    echo "$1: $fences fence(s), $others other locked instruction(s)"
    echo
    if [ "$fences" -gt 1 ] || [ "$others" -gt 0 ]; then
        echo "$1: at most 1 fence and no other locked instruction are allowed" >&2
        failed=1
    fi
}

check probe_canary canary
check probe_push_pop hot
check probe_spawn_local hot
exit "$failed"
