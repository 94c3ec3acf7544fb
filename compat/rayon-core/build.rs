//! Builds nothing: cargo requires a build script in a package with `links`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
