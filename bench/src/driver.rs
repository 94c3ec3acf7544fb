//! rayon on filch's workers, beside rayon on its own.
//!
//! A program has one rayon-core. So `compat/bench` builds this whole package once more, on filch's, and that program
//! [serves](crate::serve): it takes one sample for each line that it is given, with the same code, the same checks and the same
//! places for its threads. Between two samples it waits for the next line, and its workers sleep, as those of the
//! other systems do when it is not their turn.

use crate::{
    harness::{Case, Config, Readings},
    serve,
};
use std::{
    cell::RefCell,
    env,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    rc::Rc,
};

/// Where it takes part.
const SUITES: [&str; 3] = ["join", "data", "symbolic"];

/// The systems that it runs, and what they are called then.
const SYSTEMS: [(&str, &str); 2] = [("rayon", "rayon-filch"), ("rayon-iter", "rayon-iter-filch")];

/// What it is called, beside this program.
const PROGRAM: &str = "rayon-on-filch";

/// What the same system is called on rayon's own core, if `name` is one on filch's.
pub(crate) fn on_own_core(name: &str) -> Option<&'static str> {
    let system = SYSTEMS.iter().find(|(_, on_filch)| *on_filch == name);
    system.map(|(plain, _)| *plain)
}

/// Whether systems of the driver take part in a case.
pub(crate) fn has_part(case: &Case) -> bool {
    let systems = case.system_names();
    systems.into_iter().any(|name| on_own_core(name).is_some())
}

/// Measures a case without them.
pub(crate) fn leave_out(case: &mut Case) {
    case.keep_systems(|name| on_own_core(name).is_none());
}

/// A process that has to be started before it is asked for anything.
#[derive(Debug, Default)]
pub(crate) struct Driver(Rc<RefCell<Option<Process>>>);

impl Driver {
    /// Adds its systems to the cases of a suite where it takes part.
    pub(crate) fn take_part(&self, suite: &'static str, cases: &mut [Case]) {
        if !SUITES.contains(&suite) {
            return;
        }
        for case in cases {
            for (system, name) in SYSTEMS {
                let line = format!("{suite} {} {system} {}", case.name(), case.workers());
                let driver = self.0.clone();
                case.add_after(system, name, move || {
                    let mut driver = driver.borrow_mut();
                    driver.as_mut().expect("it has been started").ask(&line)
                });
            }
        }
    }

    /// Starts `program`, or that beside this one.
    pub(crate) fn start(&self, program: Option<&Path>, config: &Config) -> Result<(), String> {
        let program = match program {
            Some(program) => program.to_owned(),
            None => beside().ok_or_else(|| missing(&own_folder()))?,
        };
        let process = Process::start(&program, config);
        let process =
            process.map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        *self.0.borrow_mut() = Some(process);
        Ok(())
    }
}

/// The folder that this program is in.
fn own_folder() -> PathBuf {
    let program = env::current_exe().unwrap_or_default();
    program.parent().unwrap_or(Path::new("")).to_owned()
}

/// The driver beside this program, if there is one.
fn beside() -> Option<PathBuf> {
    let program = own_folder().join(format!("{PROGRAM}{}", env::consts::EXE_SUFFIX));
    program.exists().then_some(program)
}

/// What to do about a driver that is not in `folder`.
fn missing(folder: &Path) -> String {
    let target = folder.parent().unwrap_or(folder);
    let here = env::current_dir().unwrap_or_default();
    let target = target.strip_prefix(here).unwrap_or(target).display();
    let release = if cfg!(debug_assertions) {
        ""
    } else {
        " --release"
    };
    format!(
        "rayon on filch's workers is left out: there is no {PROGRAM} beside this program; build it with \
         `cargo build{release} --manifest-path compat/bench/Cargo.toml --target-dir {target}`"
    )
}

/// The process, and the pipes to it.
#[derive(Debug)]
struct Process {
    child: Child,
    /// Closed to end it.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(program: &Path, config: &Config) -> std::io::Result<Self> {
        let mut child = Command::new(program)
            .arg(serve::COMMAND)
            .args(config.quick.then_some("--quick"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().expect("it is a pipe");
        Ok(Self {
            input: child.stdin.take(),
            output: BufReader::new(output),
            child,
        })
    }

    /// Has a sample taken.
    ///
    /// # Panics
    /// When there is no answer: the process has said why.
    fn ask(&mut self, line: &str) -> Readings {
        let mut answer = String::new();
        let input = self.input.as_mut().expect("open until the end");
        // In one piece. If nobody reads it, nobody will answer.
        let _ = input.write_all(format!("{line}\n").as_bytes());
        let _ = self.output.read_line(&mut answer);
        let nanos: Vec<f64> = answer.split_whitespace().flat_map(str::parse).collect();
        assert!(!nanos.is_empty(), "no answer to {line:?} but {answer:?}");
        Readings {
            nanos,
            ..Readings::default()
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The end of its input is the end of its work.
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::{Driver, has_part, leave_out, missing, on_own_core};
    use crate::{harness::Config, suites};
    use std::path::Path;

    #[test]
    fn it_takes_part_wherever_rayon_loops_over_data() {
        for suite in suites::ALL {
            let mut cases = (suite.cases)(&Config::default());
            Driver::default().take_part(suite.name, &mut cases);
            for mut case in cases {
                let rayons = case.system_names();
                let rayons = rayons.iter().filter(|name| name.starts_with("rayon"));
                let on_filch = rayons.clone().filter(|name| on_own_core(name).is_some());
                if ["data", "symbolic"].contains(&suite.name) {
                    assert_eq!(on_filch.count() * 2, rayons.count(), "{}", case.name());
                    assert!(has_part(&case));
                }
                leave_out(&mut case);
                assert!(!has_part(&case));
            }
        }
    }

    #[test]
    fn whoever_has_no_driver_is_told_how_to_build_it() {
        let message = missing(Path::new("/somewhere/target/release"));
        assert!(
            message.contains("--target-dir /somewhere/target`"),
            "{message}"
        );
    }
}
