//! The deque and the injector in isolation, with no threads other than those of the case.

mod deques;
mod injectors;

use crate::{
    harness::{Case, Config},
    pin::Placement,
    stopwatch::{Sample, Stopwatch},
};
use deques::{Crossbeam, Deques, Filch, Plain, St3, Stolen};
use filch::engine::Steal;
use injectors::{FilchBatches, Injectors};
use std::{
    hint::{black_box, spin_loop},
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// Tasks that the owner holds at a time, in the shallow and in the deep cases.
const SHALLOW: u64 = 64;
const DEEP: u64 = 1000;

/// Failed attempts before a consumer yields its core: the contended case may have more threads than
/// cores, and a producer may wait for this one.
const ATTEMPTS_BEFORE_YIELD: u32 = 64;

pub(super) fn cases(config: &Config) -> Vec<Case> {
    let tasks = config.pick(2_000_000, 5_000_000);
    let case = |name, threads| Case::new(name, threads, config);
    vec![
        case("push_pop", 1)
            .system("filch", move || push_pop::<Filch>(tasks, SHALLOW))
            .system("crossbeam", move || push_pop::<Crossbeam>(tasks, SHALLOW))
            .system("st3", move || push_pop::<St3>(tasks, SHALLOW))
            .system("seq", move || push_pop::<Plain>(tasks, SHALLOW)),
        case("push_pop_deep", 1)
            .system("filch", move || push_pop::<Filch>(tasks, DEEP))
            .system("crossbeam", move || push_pop::<Crossbeam>(tasks, DEEP))
            .system("st3", move || push_pop::<St3>(tasks, DEEP))
            .system("seq", move || push_pop::<Plain>(tasks, DEEP)),
        case("steal", 1)
            .system("filch", move || steal::<Filch>(tasks, Filch::steal))
            .system("crossbeam", move || {
                steal::<Crossbeam>(tasks, Crossbeam::steal)
            })
            .system("st3", move || steal::<St3>(tasks, St3::steal)),
        case("steal_batch", 1)
            .system("filch", move || steal::<Filch>(tasks, Filch::steal_batch))
            .system("crossbeam", move || {
                steal::<Crossbeam>(tasks, Crossbeam::steal_batch)
            })
            .system("st3", move || steal::<St3>(tasks, St3::steal_batch)),
        case("ping_pong", 2)
            .system("filch", move || ping_pong::<Filch>(tasks))
            .system("crossbeam", move || ping_pong::<Crossbeam>(tasks))
            .system("st3", move || ping_pong::<St3>(tasks)),
        case("injector", 1)
            .system("filch", move || injector::<Filch>(tasks))
            .system("filch-batch", move || injector::<FilchBatches>(tasks))
            .system("crossbeam", move || injector::<Crossbeam>(tasks)),
        case("injector_contended", 3)
            .system("filch", move || contended::<Filch>(tasks))
            .system("filch-batch", move || contended::<FilchBatches>(tasks))
            .system("crossbeam", move || contended::<Crossbeam>(tasks)),
    ]
}

/// The owner pushes `burst` tasks and pops them; an operation is a push and its pop.
fn push_pop<D: Deques>(tasks: u64, burst: u64) -> Sample {
    let store = D::store();
    let (mut owner, _) = D::open(&store);
    let mut watch = Stopwatch::default();
    let bursts = tasks / burst;
    watch.time(|| {
        for _ in 0..bursts {
            for task in 0..burst {
                D::push(&mut owner, black_box(task));
            }
            for _ in 0..burst {
                black_box(D::pop(&mut owner)).expect("there is no thief");
            }
        }
    });
    watch.sample(bursts * burst)
}

/// A thief empties a deque of [`DEEP`] tasks by `steal`; only that is timed.
fn steal<D: Deques>(
    tasks: u64,
    steal: impl Fn(&D::Thief<'_>, &mut D::Owner<'_>) -> Stolen,
) -> Sample {
    let (victims, thiefs) = (D::store(), D::store());
    let (mut victim, thief) = D::open(&victims);
    let (mut into, _) = D::open(&thiefs);
    let mut watch = Stopwatch::default();
    let fills = tasks / DEEP;
    for _ in 0..fills {
        (0..DEEP).for_each(|task| D::push(&mut victim, task));
        let taken = watch.time(|| {
            let mut taken = 0;
            loop {
                match steal(&thief, &mut into) {
                    Steal::Taken((task, moved)) => {
                        black_box(task);
                        taken += 1 + moved as u64;
                    }
                    Steal::Empty => return taken,
                    Steal::Retry => {}
                }
            }
        });
        assert_eq!(taken, DEEP, "a thief without competition takes everything");
        while let Some(task) = D::pop(&mut into) {
            black_box(task);
        }
    }
    watch.sample(fills * DEEP)
}

/// The owner pushes bursts and pops what is left of them, while a thief on another core steals one
/// by one without pause. An operation is a task, popped or stolen.
fn ping_pong<D: Deques>(tasks: u64) -> Sample {
    let store = D::store();
    let (mut owner, thief) = D::open(&store);
    let (start, over) = (&Barrier::new(2), &AtomicBool::new(false));
    let mut watch = Stopwatch::default();
    let bursts = tasks / SHALLOW;
    let got = thread::scope(|scope| {
        let stolen = scope.spawn(move || {
            Placement::Pinned.place_worker(0);
            let spare = D::store();
            let (mut spare, _) = D::open(&spare);
            start.wait();
            let mut stolen = 0_u64;
            loop {
                match D::steal(&thief, &mut spare) {
                    Steal::Taken((task, _)) => {
                        black_box(task);
                        stolen += 1;
                    }
                    // Acquire: pairs with the release store below, after which nothing is pushed.
                    Steal::Empty if over.load(Ordering::Acquire) => return stolen,
                    Steal::Empty | Steal::Retry => spin_loop(),
                }
            }
        });
        start.wait();
        let popped = watch.time(|| {
            let mut popped = 0_u64;
            for _ in 0..bursts {
                (0..SHALLOW).for_each(|task| D::push(&mut owner, black_box(task)));
                while let Some(task) = D::pop(&mut owner) {
                    black_box(task);
                    popped += 1;
                }
            }
            popped
        });
        over.store(true, Ordering::Release);
        popped + stolen.join().expect("the thief does not panic")
    });
    assert_eq!(got, bursts * SHALLOW, "each task is taken once");
    watch.sample(bursts * SHALLOW)
}

/// Tasks are pushed into the injector, taken in batches into a deque, and popped from there.
fn injector<I: Injectors>(tasks: u64) -> Sample {
    let injector = I::new();
    let store = <I::Into as Deques>::store();
    let (mut owner, _) = I::Into::open(&store);
    let mut watch = Stopwatch::default();
    let fills = tasks / DEEP;
    watch.time(|| {
        for _ in 0..fills {
            I::push_all(&injector, DEEP);
            assert_eq!(
                consume::<I>(&injector, &mut owner, DEEP),
                DEEP * (DEEP - 1) / 2
            );
        }
    });
    watch.sample(fills * DEEP)
}

/// Two producers and one consumer.
fn contended<I: Injectors>(tasks: u64) -> Sample {
    let injector = I::new();
    let store = <I::Into as Deques>::store();
    let (mut owner, _) = I::Into::open(&store);
    let each = tasks / 2;
    let start = &Barrier::new(3);
    let mut watch = Stopwatch::default();
    thread::scope(|scope| {
        for producer in 0..2 {
            let injector = &injector;
            scope.spawn(move || {
                Placement::Pinned.place_worker(producer);
                start.wait();
                I::push_all(injector, each);
            });
        }
        start.wait();
        let sum = watch.time(|| consume::<I>(&injector, &mut owner, 2 * each));
        assert_eq!(sum, each * (each - 1), "each task is taken once");
    });
    watch.sample(2 * each)
}

/// Takes `tasks` tasks and returns their sum.
fn consume<I: Injectors>(
    injector: &I::Injector,
    owner: &mut <I::Into as Deques>::Owner<'_>,
    tasks: u64,
) -> u64 {
    let (mut taken, mut sum, mut in_vain) = (0, 0, 0);
    while taken < tasks {
        let Steal::Taken(mut task) = I::take(injector, owner) else {
            in_vain += 1;
            if in_vain % ATTEMPTS_BEFORE_YIELD == 0 {
                thread::yield_now();
            }
            spin_loop();
            continue;
        };
        loop {
            taken += 1;
            sum += black_box(task);
            match I::Into::pop(owner) {
                Some(next) => task = next,
                None => break,
            }
        }
    }
    sum
}
