//! rayon on filch's workers, measured beside rayon on its own core.
//!
//! A program has one rayon-core. So `compat/bench` builds this whole package a second time on
//! filch's rayon-core, and that program [serves](crate::serve): it takes one sample per input line,
//! with the same code, checks and thread placement. Between two samples it waits for input and its
//! workers sleep, like those of the other systems.

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

/// The suites in which the driver takes part.
const SUITES: [&str; 3] = ["join", "data", "symbolic"];

/// The systems that the driver runs, and their names in this program.
const SYSTEMS: [(&str, &str); 2] = [("rayon", "rayon-filch"), ("rayon-iter", "rayon-iter-filch")];

/// The driver's file name, in the folder of this program.
const PROGRAM: &str = "rayon-on-filch";

/// The name of the same system on rayon's own core, if `name` is one on filch's workers.
pub(crate) fn on_own_core(name: &str) -> Option<&'static str> {
    let system = SYSTEMS.iter().find(|(_, on_filch)| *on_filch == name);
    system.map(|(plain, _)| *plain)
}

/// Whether systems of the driver take part in a case.
pub(crate) fn has_part(case: &Case) -> bool {
    let systems = case.system_names();
    systems.into_iter().any(|name| on_own_core(name).is_some())
}

/// Removes the driver's systems from a case.
pub(crate) fn leave_out(case: &mut Case) {
    case.keep_systems(|name| on_own_core(name).is_none());
}

/// The driver's process, which has to be started before the first sample.
#[derive(Debug, Default)]
pub(crate) struct Driver(Rc<RefCell<Option<Process>>>);

impl Driver {
    /// Adds the driver's systems to the cases of a suite in which it takes part.
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
                    driver.as_mut().expect("it was started").ask(&line)
                });
            }
        }
    }

    /// Starts `program`, or the driver in the folder of this program.
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

/// Returns the folder of this program.
fn own_folder() -> PathBuf {
    let program = env::current_exe().unwrap_or_default();
    program.parent().unwrap_or(Path::new("")).to_owned()
}

/// Returns the driver in the folder of this program, if it exists.
fn beside() -> Option<PathBuf> {
    let program = own_folder().join(format!("{PROGRAM}{}", env::consts::EXE_SUFFIX));
    program.exists().then_some(program)
}

/// The message about a driver that is missing in `folder`.
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

/// The process and its pipes.
#[derive(Debug)]
struct Process {
    child: Child,
    /// Closing it ends the process.
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

    /// Requests a sample.
    ///
    /// # Panics
    /// When there is no answer. The process has printed the reason.
    fn ask(&mut self, line: &str) -> Readings {
        let mut answer = String::new();
        let input = self.input.as_mut().expect("open until the end");
        // One write per request. If it fails, the missing answer is reported below.
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
        // Closing its input ends the process.
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
