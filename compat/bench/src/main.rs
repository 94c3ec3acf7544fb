//! `filch-bench` with rayon on filch's workers. `filch-bench` starts it as `rayon-on-filch serve`.

use std::process::ExitCode;

fn main() -> ExitCode {
    filch_bench::main()
}
