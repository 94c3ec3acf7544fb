#!/usr/bin/env bash
# Builds and runs the cases of the suite `graph` for Taskflow and oneTBB, if they are installed. The
# options are --quick, --workers, --case and --system, as for filch-bench.
#
# Exit codes: 0 passed, 1 a task did not run the expected number of times, 2 nothing could be
# measured.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cxx=${CXX:-c++}

cannot() {
    echo "run.sh: $1" >&2
    exit 2
}

command -v "$cxx" >/dev/null || cannot "there is no C++ compiler; install g++, or name one in CXX"

# has HEADER: whether the compiler finds it. CPATH adds folders to its search path.
has() {
    echo "#include <$1>" | "$cxx" -std=c++20 -E -x c++ - >/dev/null 2>&1
}

libraries=()
taskflow=yes onetbb=yes
if ! has taskflow/taskflow.hpp; then
    taskflow=no
    echo "run.sh: left out Taskflow: there is no <taskflow/taskflow.hpp>; install libtaskflow-cpp-dev (Debian 13)," >&2
    echo "        or set CPATH to a folder that has its headers" >&2
fi
if has oneapi/tbb/flow_graph.h; then
    libraries+=(-ltbb)
else
    onetbb=no
    echo "run.sh: left out oneTBB: there is no <oneapi/tbb/flow_graph.h>; install libtbb-dev" >&2
fi
[ "$taskflow$onetbb" != nono ] || cannot "neither of them is installed, so there is nothing to measure"

target=${CARGO_TARGET_DIR:-$here/../../target}/cpp
mkdir -p "$target"
"$cxx" -std=c++20 -O3 -DNDEBUG -pthread -o "$target/graph" "$here/graph.cpp" "${libraries[@]}"
exec "$target/graph" "$@"
