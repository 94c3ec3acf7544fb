//! There is nothing to build: cargo wants a script where `links` is.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
