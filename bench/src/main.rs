//! The program `filch-bench`; the library has all of it.

use std::process::ExitCode;

fn main() -> ExitCode {
    filch_bench::main()
}
