//! Cancellation of tasks that are queued: by a token that they share, and by their handles.
//!
//! Each worker is held in a task, so that none of the queued tasks starts. Only the cancellation is
//! timed.

use crate::{
    harness::Case,
    pools,
    stopwatch::{Sample, Stopwatch},
};
use filch::{CancelToken, Pool, TaskHandle};
use std::sync::{Arc, Barrier};

/// What cancels the tasks.
#[derive(Clone, Copy, Debug)]
enum By {
    Token,
    Handle,
}

pub(super) fn by_token(case: Case, workers: usize, tasks: usize) -> Case {
    case.system("filch", sampler(workers, tasks, By::Token))
}

pub(super) fn by_handle(case: Case, workers: usize, tasks: usize) -> Case {
    case.system("filch", sampler(workers, tasks, By::Handle))
}

fn sampler(workers: usize, tasks: usize, by: By) -> impl FnMut() -> Sample {
    pools::used(
        move || pools::filch(workers, 0),
        move |pool| sample(pool, workers, tasks, by),
        |_| (),
    )
}

fn sample(pool: &Pool, workers: usize, tasks: usize, by: By) -> Sample {
    let gate = Arc::new(Barrier::new(workers + 1));
    let hold = || {
        let gate = gate.clone();
        pool.submit(move || {
            gate.wait();
            gate.wait();
        })
    };
    let held: Vec<_> = (0..workers).map(|_| hold()).collect();
    gate.wait();
    let token = CancelToken::new();
    let submit = |_| {
        let task = pool.task(|| ());
        let task = match by {
            By::Token => task.token(&token),
            By::Handle => task,
        };
        task.submit().expect("the pool is open")
    };
    let handles: Vec<_> = (0..tasks).map(submit).collect();
    let mut watch = Stopwatch::default();
    watch.time(|| match by {
        By::Token => token.cancel(),
        By::Handle => handles.iter().all(TaskHandle::cancel),
    });
    gate.wait();
    for holder in held {
        holder.join().expect("it does not panic");
    }
    for handle in handles {
        let ended = handle.join().expect_err("it was cancelled");
        assert!(ended.is_cancelled(), "{ended}");
    }
    watch.sample(tasks as u64)
}

#[cfg(test)]
mod tests {
    use super::{by_handle, by_token};
    use crate::harness::{Case, Config};

    #[test]
    fn every_task_is_cancelled() {
        let config = Config::default();
        for (name, systems) in [
            ("token", by_token as fn(_, _, _) -> _),
            ("handle", by_handle),
        ] {
            for workers in [1, 2] {
                let case = systems(Case::new(name, workers, &config), workers, 100);
                // A sample checks its results itself.
                case.rounds(1, 1).run();
            }
        }
    }
}
