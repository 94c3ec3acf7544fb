//! `filch-bench`, in which rayon stands on filch's workers. It runs `filch-bench serve` for the other one.

use std::process::ExitCode;

fn main() -> ExitCode {
    filch_bench::main()
}
