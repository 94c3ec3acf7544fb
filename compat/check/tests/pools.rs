//! The settings of a pool.

use rayon_core::{
    ThreadPoolBuilder, Yield, current_num_threads, current_thread_index, join, scope, spawn,
    yield_now,
};
use std::{
    cell::Cell,
    io,
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

const LONG: Duration = Duration::from_secs(30);

#[test]
fn threads_have_names_and_stacks() {
    fn deep(levels: u32) -> u64 {
        let room = [u64::from(levels); 64];
        if levels == 0 {
            return 0;
        }
        deep(levels - 1) + std::hint::black_box(room)[7]
    }
    let mut asked = vec![];
    let (send, names) = mpsc::channel();
    let pool = ThreadPoolBuilder::new()
        .num_threads(3)
        .stack_size(64 << 20)
        .thread_name(move |index| {
            asked.push(index);
            send.send(asked.clone()).unwrap();
            format!("worker {index}")
        })
        .build()
        .unwrap();
    assert_eq!(names.iter().last().unwrap(), [0, 1, 2]);
    let names = pool.broadcast(|_| thread::current().name().map(String::from));
    let expected = ["worker 0", "worker 1", "worker 2"];
    assert!(names.iter().flatten().eq(expected));
    assert!(
        pool.install(|| deep(15_000)) > 0,
        "more than the default of 2 MB"
    );
}

#[test]
fn handlers_are_called_on_every_thread() {
    thread_local!(static SET_UP: Cell<usize> = const { Cell::new(0) });
    let (send, exits) = mpsc::channel();
    let pool = ThreadPoolBuilder::new()
        .num_threads(3)
        .start_handler(|index| {
            assert_eq!(current_thread_index(), Some(index));
            assert_eq!(current_num_threads(), 3);
            // Handlers may call the functions of the pool.
            assert_eq!(join(|| 1, || 2), (1, 2));
            SET_UP.set(index + 100);
        })
        .exit_handler(move |index| {
            assert_eq!(current_thread_index(), Some(index));
            send.send((index, SET_UP.get())).unwrap();
        })
        .build()
        .unwrap();
    assert_eq!(pool.broadcast(|_| SET_UP.get()), [100, 101, 102]);
    drop(pool);
    let mut ended: Vec<_> = exits.iter().collect();
    ended.sort_unstable();
    assert_eq!(ended, [(0, 100), (1, 101), (2, 102)]);
}

#[test]
fn panics_that_nobody_waits_for_go_to_the_handler() {
    let (send, panics) = mpsc::channel();
    let pool = ThreadPoolBuilder::new()
        .num_threads(2)
        .panic_handler(move |payload| {
            let text = payload.downcast::<&str>().map_or("?", |text| *text);
            send.send(text).unwrap();
        })
        .start_handler(|index| assert!(index != 1, "start"))
        .exit_handler(|index| assert!(index != 1, "exit"))
        .build()
        .unwrap();
    pool.spawn(|| panic!("spawn"));
    pool.install(|| spawn(|| panic!("inside")));
    pool.spawn_fifo(|| panic!("fifo"));
    pool.spawn_broadcast(|_| panic!("broadcast"));
    assert_eq!(pool.join(|| 1, || 2), (1, 2));
    drop(pool);
    let mut told: Vec<_> = panics.iter().collect();
    told.sort_unstable();
    assert_eq!(
        told,
        [
            "broadcast",
            "broadcast",
            "exit",
            "fifo",
            "inside",
            "spawn",
            "start"
        ]
    );
}

#[test]
fn dropping_a_pool_does_not_wait_but_everything_runs() {
    let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let (barrier, done) = (Arc::new(Barrier::new(2)), Arc::new(AtomicUsize::new(0)));
    let (send, finished) = mpsc::channel::<()>();
    {
        let (barrier, done, send) = (barrier.clone(), done.clone(), send.clone());
        pool.spawn(move || {
            barrier.wait();
            for _ in 0..10 {
                let (done, send) = (done.clone(), send.clone());
                spawn(move || {
                    done.fetch_add(1, Ordering::Relaxed);
                    drop(send);
                });
            }
        });
    }
    drop(pool); // with its first task in the middle
    barrier.wait();
    drop(send);
    assert!(finished.recv_timeout(LONG) == Err(mpsc::RecvTimeoutError::Disconnected));
    assert_eq!(done.load(Ordering::Relaxed), 10);
}

#[test]
fn a_pool_can_be_dropped_by_its_own_task() {
    let pool = Arc::new(ThreadPoolBuilder::new().num_threads(2).build().unwrap());
    let (send, receive) = mpsc::channel();
    let mine = pool.clone();
    pool.spawn(move || {
        drop(mine);
        send.send(join(|| 1, || 2)).unwrap();
    });
    drop(pool);
    assert_eq!(receive.recv_timeout(LONG), Ok((1, 2)));
}

#[test]
fn scoped_threads_borrow_and_are_waited_for() {
    thread_local!(static PLACE: Cell<usize> = const { Cell::new(0) });
    let numbers = [10, 20, 30];
    let ended = AtomicUsize::new(0);
    let sums = ThreadPoolBuilder::new()
        .num_threads(3)
        .thread_name(|index| format!("scoped {index}"))
        .build_scoped(
            |thread| {
                assert_eq!(thread.name(), Some(&*format!("scoped {}", thread.index())));
                PLACE.set(numbers[thread.index()]);
                thread.run();
                ended.fetch_add(1, Ordering::Relaxed);
            },
            |pool| pool.broadcast(|_| PLACE.get()),
        );
    assert_eq!(sums.unwrap(), numbers);
    assert_eq!(ended.into_inner(), 3);
}

#[test]
fn threads_from_a_handler_that_start_late() {
    let mut waiting = vec![];
    let pool = ThreadPoolBuilder::new()
        .num_threads(2)
        .spawn_handler(|thread| {
            assert_eq!((thread.name(), thread.stack_size()), (None, None));
            waiting.push(thread);
            Ok(())
        })
        .build()
        .unwrap();
    let (send, receive) = mpsc::channel();
    pool.spawn(move || send.send(current_thread_index()).unwrap());
    let threads: Vec<_> = waiting
        .into_iter()
        .map(|thread| {
            thread::spawn(|| {
                thread.run();
                // After `run` the thread belongs to no pool.
                assert_eq!(current_thread_index(), None);
            })
        })
        .collect();
    assert!(receive.recv_timeout(LONG).unwrap().is_some());
    assert_eq!(pool.broadcast(|cx| cx.index()), [0, 1]);
    drop(pool);
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_handler_that_fails_is_told_so_and_its_threads_go_home() {
    let started = Mutex::new(vec![]);
    let error = ThreadPoolBuilder::new()
        .num_threads(4)
        .spawn_handler(|thread| {
            if thread.index() == 2 {
                return Err(io::Error::other("no more threads"));
            }
            started.lock().unwrap().push(thread::spawn(|| thread.run()));
            Ok(())
        })
        .build()
        .unwrap_err();
    assert!(error.to_string().contains("no more threads"), "{error}");
    let started = started.into_inner().unwrap();
    assert_eq!(started.len(), 2);
    started
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

/// Runs `f` on a new thread, since the thread belongs to its pool permanently.
fn on_a_thread(f: impl FnOnce() + Send + 'static) {
    thread::spawn(f).join().unwrap();
}

#[test]
fn the_current_thread_as_the_only_one() {
    on_a_thread(|| {
        let pool = ThreadPoolBuilder::new()
            .num_threads(1)
            .use_current_thread()
            .build()
            .unwrap();
        assert_eq!(
            (current_thread_index(), pool.current_thread_index()),
            (Some(0), Some(0))
        );
        assert_eq!(current_num_threads(), 1);
        assert_eq!(pool.install(|| join(|| 1, || 2)), (1, 2));
        let here = thread::current().id();
        let (send, receive) = mpsc::channel();
        pool.spawn(move || send.send(thread::current().id()).unwrap());
        assert!(receive.try_recv().is_err(), "not before the thread yields");
        assert_eq!(yield_now(), Some(Yield::Executed));
        assert_eq!(receive.try_recv(), Ok(here));
        assert_eq!(pool.broadcast(|_| thread::current().id()), [here]);
        let again = ThreadPoolBuilder::new()
            .use_current_thread()
            .build()
            .unwrap_err();
        assert!(again.to_string().contains("already"), "{again}");
        drop(pool);
        assert_eq!(current_thread_index(), Some(0));
    });
}

#[test]
fn the_current_thread_as_one_of_several() {
    on_a_thread(|| {
        let pool = ThreadPoolBuilder::new()
            .num_threads(3)
            .use_current_thread()
            .start_handler(|index| assert!(index > 0, "not on this thread"))
            .build()
            .unwrap();
        let here = thread::current().id();
        let ids = pool.broadcast(|_| thread::current().id());
        assert!(ids[0] == here && ids[1] != here && ids[2] != here);
        // Other threads run its tasks while it waits, and it runs theirs.
        let sum = AtomicUsize::new(0);
        scope(|s| {
            for n in 0..1000 {
                let sum = &sum;
                s.spawn(move |_| {
                    sum.fetch_add(n, Ordering::Relaxed);
                });
            }
        });
        assert_eq!(sum.into_inner(), 499_500);
        let (send, receive) = mpsc::channel();
        pool.spawn(move || send.send(current_thread_index()).unwrap());
        // The task is in the queue of this thread, and is stolen.
        assert!(matches!(receive.recv_timeout(LONG), Ok(Some(1 | 2))));
    });
}

#[test]
#[expect(deprecated, reason = "they still work")]
fn the_old_names() {
    use rayon_core::{Configuration, ThreadPool};
    let old = Configuration::new()
        .num_threads(2)
        .breadth_first()
        .stack_size(1 << 20);
    let pool = ThreadPool::new(old).unwrap();
    assert_eq!(pool.current_num_threads(), 2);
    let pool = ThreadPoolBuilder::new()
        .num_threads(2)
        .breadth_first()
        .build()
        .unwrap();
    assert_eq!(pool.install(current_num_threads), 2);
}

#[test]
fn too_many_threads_are_cut_down() {
    assert!(rayon_core::max_num_threads() < 1 << 20);
    let mut asked = 0;
    let error = ThreadPoolBuilder::new()
        .num_threads(usize::MAX)
        .spawn_handler(|thread| {
            asked = thread.index();
            if asked == 5 {
                Err(io::Error::other("enough"))
            } else {
                Ok(())
            }
        })
        .build()
        .unwrap_err();
    assert!(asked == 5 && error.to_string().contains("enough"));
}
