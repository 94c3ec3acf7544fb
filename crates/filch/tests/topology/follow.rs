//! Pools that follow limits which change.

use crate::{
    fake::{Fake, symmetric},
    support::{LIMIT, until, within},
};
use filch::{Pool, time::PausedClock};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

#[test]
fn a_pool_follows_quota_and_cpus() {
    within(LIMIT, || {
        let fake = Fake::new(&symmetric([1, 1, 1, 4], 1));
        fake.group("/service");
        let quota = |max: &str| fake.write("sys/fs/cgroup/service/cpu.max", max);
        quota("250000 100000");
        let pool = Pool::builder().topology(fake.read()).max_workers(4);
        let pool = pool.build().unwrap();
        let root = fake.root.clone();
        let limits = move || filch::topology::Topology::read_from(&root).parallelism();
        let following = pool.resize_every(Duration::from_millis(2), limits);
        let follows = |workers| until("it follows", || pool.workers() == workers);
        quota("100000 100000");
        follows(1);
        quota("max 100000");
        follows(4);
        fake.write("sys/fs/cgroup/service/cpuset.cpus.effective", "1-2");
        follows(2);
        assert_eq!(pool.broadcast(|worker| worker), [0, 1]);
        fake.write("sys/fs/cgroup/service/cpuset.cpus.effective", "0-3");
        follows(4);
        following.cancel();
        assert!(following.join().is_err());
        quota("100000 100000");
        assert_eq!(pool.workers(), 4);
    });
}

#[test]
fn what_is_not_allowed_is_the_nearest_that_is() {
    within(LIMIT, || {
        let clock = PausedClock::new();
        let pool = Pool::builder().workers(2).max_workers(3).clock(&clock);
        let pool = pool.build().unwrap();
        let (asked, calls) = (Arc::new(AtomicUsize::new(2)), Arc::new(AtomicUsize::new(0)));
        let inside = (asked.clone(), calls.clone());
        let workers = move || {
            inside.1.fetch_add(1, SeqCst);
            inside.0.load(SeqCst)
        };
        pool.resize_every(Duration::from_secs(1), workers).detach();
        let expected = [(0, 1), (100_000, 3), (2, 2), (usize::MAX, 3)];
        for (n, (ask, workers)) in (1..).zip(expected) {
            asked.store(ask, SeqCst);
            until("it sleeps", || clock.pending() == 1);
            clock.advance(Duration::from_secs(1));
            until("it is resized", || pool.workers() == workers);
            assert_eq!(calls.load(SeqCst), n, "once a second");
        }
        pool.shutdown();
    });
}

#[test]
fn a_pool_that_cannot_be_resized_is_left_alone() {
    within(LIMIT, || {
        let pool = Pool::builder().workers(0).build().unwrap();
        let following = pool.resize_every(Duration::ZERO, || 3);
        assert_eq!(following.join().ok(), Some(()));
        assert_eq!(pool.workers(), 0);
    });
}
