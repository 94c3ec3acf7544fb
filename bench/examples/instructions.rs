//! `instructions SYSTEM N`: computes a Fibonacci number by joins with one worker, and prints the
//! number of joins. `instructions.sh` counts its instructions.

use std::{env, hint::black_box, mem, num::NonZero, process::ExitCode, time::Duration};

fn seq(n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    seq(n - 1) + seq(n - 2)
}

fn filch(n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    let (a, b) = filch::join(|| filch(n - 1), || filch(n - 2));
    a + b
}

fn filch_with(cx: &filch::CurrentWorker, n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    let (a, b) = cx.join(
        move |cx| filch_with(cx, n - 1),
        move |cx| filch_with(cx, n - 2),
    );
    a + b
}

fn rayon(n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    let (a, b) = rayon::join(|| rayon(n - 1), || rayon(n - 2));
    a + b
}

fn chili(scope: &mut chili::Scope<'_>, n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    let (a, b) = scope.join(|s| chili(s, n - 1), |s| chili(s, n - 2));
    a + b
}

/// Runs `system` with one worker: the caller, or with rayon a thread that the caller waits for.
fn run(system: &str, n: u32) -> Option<u64> {
    Some(match system {
        "seq" => seq(n),
        "filch" => {
            let pool = filch::Pool::builder().workers(0).build();
            pool.expect("the settings are fine").install(|| filch(n))
        }
        "filch-with" => {
            let pool = filch::Pool::builder().workers(0).build();
            let pool = pool.expect("the settings are fine");
            pool.with(|cx| filch_with(cx, n))
        }
        "rayon" => {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
            pool.expect("the settings are fine").install(|| rayon(n))
        }
        "chili" => {
            // chili's second thread only sends heartbeats. They are rare here, so that the joins
            // are what is counted; and the pool is leaked, because dropping it would wait for the
            // next heartbeat.
            let pool = chili::ThreadPool::with_config(chili::Config {
                thread_count: NonZero::new(1),
                heartbeat_interval: Duration::from_secs(3600),
            });
            let result = chili(&mut pool.scope(), n);
            mem::forget(pool);
            result
        }
        _ => return None,
    })
}

fn main() -> ExitCode {
    let args: Vec<_> = env::args().skip(1).collect();
    let [system, n] = args.as_slice() else {
        eprintln!("usage: instructions filch|filch-with|rayon|chili|seq N");
        return ExitCode::from(2);
    };
    let n: u32 = match n.parse() {
        Ok(n) if (2..=40).contains(&n) => n,
        _ => {
            eprintln!("instructions: N must be a number from 2 to 40, not {n:?}");
            return ExitCode::from(2);
        }
    };
    let Some(result) = run(system, black_box(n)) else {
        eprintln!(
            "instructions: there is no system {system:?}; choose filch, filch-with, rayon, chili or \
             seq"
        );
        return ExitCode::from(2);
    };
    // The Fibonacci number `n`, and the next one.
    let (fib, next) = (0..n).fold((0_u64, 1), |(a, b), _| (b, a + b));
    assert_eq!(result, fib, "{system} gave a wrong result");
    println!("{}", next - 1);
    ExitCode::SUCCESS
}
