//! Runs the program with itself as the driver, so rayon runs on its own core in both. The program
//! checks all results itself.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_filch-bench");
const SMALL: &str = "data --quick --json --case sum_small --workers 1,2";

fn run(program: &Path, line: &str, input: &str) -> Output {
    let mut child = Command::new(program)
        .args(line.split_whitespace())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(input.as_bytes()).unwrap();
    drop(pipe);
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn a_driver_is_measured_beside_the_others() {
    let line = format!("{SMALL} --system rayon,rayon-filch --driver {PROGRAM}");
    let output = run(Path::new(PROGRAM), &line, "");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{err}");
    let systems = out.lines().map(|line| {
        assert!(line.contains("\"samples\":5"), "{line}");
        assert_eq!(line.contains("\"to_rayon\""), line.contains("rayon-filch"));
        line.contains("\"system\":\"rayon-filch\"")
    });
    assert_eq!(systems.collect::<Vec<_>>(), [false, true, false, true]);
}

#[test]
fn without_a_driver_its_systems_are_left_out_with_a_word() {
    let alone = Path::new(env!("CARGO_TARGET_TMPDIR")).join("alone");
    fs::create_dir_all(&alone).unwrap();
    let program = alone.join("filch-bench");
    let _ = fs::remove_file(&program);
    fs::hard_link(PROGRAM, &program).unwrap();
    let output = run(&program, &format!("{SMALL} --system rayon,rayon-filch"), "");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{err}");
    assert!(err.contains("compat/bench/Cargo.toml"), "{err}");
    assert_eq!(out.lines().count(), 2, "{out}");
    assert!(!out.contains("rayon-filch"), "{out}");
    // If no other system is requested, no case is left.
    let output = run(&program, &format!("{SMALL} --system rayon-filch"), "");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_driver_that_is_named_and_not_there_is_an_error() {
    let line = format!("{SMALL} --driver nowhere/at-all");
    let output = run(Path::new(PROGRAM), &line, "");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("nowhere/at-all"));
}

#[test]
fn a_server_refuses_what_makes_no_sense() {
    let input = "data sum_small rayon 1\ndata nothing rayon 1\n";
    let output = run(Path::new(PROGRAM), "serve --quick", input);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stdout).lines().count(), 1);
    assert!(text(&output.stderr).contains("\"nothing\""));
}

#[test]
fn the_help_tells_of_both_sides() {
    let output = run(Path::new(PROGRAM), "--help", "");
    let help = text(&output.stdout);
    assert!(help.contains("--driver PATH") && help.contains("filch-bench serve"));
}

#[test]
fn a_closed_pipe_is_no_error() {
    for command in ["list", "--help"] {
        let mut child = Command::new(PROGRAM)
            .arg(command)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
}
