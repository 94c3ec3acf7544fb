//! See the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    filch_bench::main()
}
