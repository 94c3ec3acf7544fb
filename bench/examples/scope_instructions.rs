//! `scope_instructions SYSTEM CASE ROUNDS`: runs a case with scopes on one worker, and prints the
//! number of operations: scopes, or with `flat` and `queens` tasks. `instructions.sh scopes` counts
//! its instructions.

use std::{cell::Cell, env, hint::black_box, process::ExitCode};

/// The number of tasks in a scope of the case `flat`.
const FLAT: u64 = 10_000;

/// The number of rows of the board of the case `queens`.
const ROWS: u32 = 6;

thread_local! {
    /// The number of tasks that have run on this thread.
    static RAN: Cell<u64> = const { Cell::new(0) };
}

/// A system with scopes.
trait Scopes {
    type Scope<'scope>;

    fn scope<'scope>(f: impl FnOnce(&Self::Scope<'scope>) + Send);

    fn spawn<'scope>(
        scope: &Self::Scope<'scope>,
        task: impl FnOnce(&Self::Scope<'scope>) + Send + 'scope,
    );

    /// Calls `f` on one worker, and returns its result: on the caller, or with rayon on a thread
    /// that the caller waits for.
    fn enter(f: impl FnOnce() -> u64 + Send) -> u64;
}

struct Filch;

impl Scopes for Filch {
    type Scope<'scope> = filch::Scope<'scope>;

    fn scope<'scope>(f: impl FnOnce(&filch::Scope<'scope>) + Send) {
        filch::scope(f);
    }

    #[inline(always)]
    fn spawn<'scope>(
        scope: &filch::Scope<'scope>,
        task: impl FnOnce(&filch::Scope<'scope>) + Send + 'scope,
    ) {
        scope.spawn(task);
    }

    fn enter(f: impl FnOnce() -> u64 + Send) -> u64 {
        let pool = filch::Pool::builder().workers(0).build();
        pool.expect("the settings are fine").install(f)
    }
}

struct Rayon;

impl Scopes for Rayon {
    type Scope<'scope> = rayon::Scope<'scope>;

    fn scope<'scope>(f: impl FnOnce(&rayon::Scope<'scope>) + Send) {
        rayon::scope(f);
    }

    #[inline(always)]
    fn spawn<'scope>(
        scope: &rayon::Scope<'scope>,
        task: impl FnOnce(&rayon::Scope<'scope>) + Send + 'scope,
    ) {
        scope.spawn(task);
    }

    fn enter(f: impl FnOnce() -> u64 + Send) -> u64 {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
        pool.expect("the settings are fine").install(f)
    }
}

fn count_task() {
    RAN.set(RAN.get() + 1);
}

fn spawn_many<S: Scopes>(scope: &S::Scope<'_>, tasks: u64) {
    for task in 0..tasks {
        S::spawn(scope, move |_| {
            black_box(task);
            count_task();
        });
    }
}

/// The columns and diagonals that queens attack in the next row of a board, one bit per column.
#[derive(Clone, Copy)]
struct Board {
    columns: u32,
    rising: u32,
    falling: u32,
}

/// Spawns a task for each queen that may be placed in the next row.
fn place_queens<'scope, S: Scopes>(scope: &S::Scope<'scope>, board: Board) {
    let mut open = ((1 << ROWS) - 1) & !(board.columns | board.rising | board.falling);
    while open != 0 {
        let column = open & open.wrapping_neg();
        open ^= column;
        let next = Board {
            columns: board.columns | column,
            rising: (board.rising | column) << 1,
            falling: (board.falling | column) >> 1,
        };
        S::spawn(scope, move |scope| {
            count_task();
            place_queens::<S>(scope, next);
        });
    }
}

/// Runs `rounds` scopes, and returns the number of tasks that have run.
fn run<S: Scopes>(case: Case, rounds: u64) -> u64 {
    S::enter(move || {
        for _ in 0..rounds {
            S::scope(|scope| match case {
                Case::Tasks(tasks) => spawn_many::<S>(scope, tasks),
                Case::Flat => spawn_many::<S>(scope, FLAT),
                Case::Queens => place_queens::<S>(
                    scope,
                    Board {
                        columns: 0,
                        rising: 0,
                        falling: 0,
                    },
                ),
            });
        }
        RAN.get()
    })
}

#[derive(Clone, Copy)]
enum Case {
    /// A scope with this number of tasks. The operation is the scope.
    Tasks(u64),
    Flat,
    Queens,
}

fn main() -> ExitCode {
    let args: Vec<_> = env::args().skip(1).collect();
    let parsed = match args.as_slice() {
        [system, case, rounds] => case_named(case)
            .zip(rounds.parse::<u64>().ok())
            .map(|(case, rounds)| (system.as_str(), case, black_box(rounds))),
        _ => None,
    };
    let (case, rounds, ran) = match parsed {
        Some(("filch", case, rounds)) => (case, rounds, run::<Filch>(case, rounds)),
        Some(("rayon", case, rounds)) => (case, rounds, run::<Rayon>(case, rounds)),
        _ => {
            eprintln!("usage: scope_instructions filch|rayon scope_TASKS|flat|queens ROUNDS");
            return ExitCode::from(2);
        }
    };
    let ops = match case {
        Case::Tasks(tasks) => {
            assert_eq!(ran, rounds * tasks, "not every task ran once");
            rounds
        }
        Case::Flat => {
            assert_eq!(ran, rounds * FLAT, "not every task ran once");
            ran
        }
        Case::Queens => ran,
    };
    println!("{ops}");
    ExitCode::SUCCESS
}

fn case_named(name: &str) -> Option<Case> {
    match name {
        "flat" => Some(Case::Flat),
        "queens" => Some(Case::Queens),
        _ => {
            let tasks = name.strip_prefix("scope_")?;
            tasks.parse().ok().map(Case::Tasks)
        }
    }
}
