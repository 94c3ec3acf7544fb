//! Requests for several semaphores at once.

use super::{LONG, Out, Polled, four_threads};
use crate::support::{LIMIT, block_on, within};
use filch::Semaphore;
use std::time::Duration;

#[test]
fn several_semaphores_are_all_or_none() {
    let (objects, bytes) = (Semaphore::new(2), Semaphore::new(100));
    let free = || (objects.available(), bytes.available());
    let first = Semaphore::acquire_all([(&bytes, 60), (&objects, 1), (&bytes, 10)]).unwrap();
    let units: Vec<_> = first.iter().map(|permit| permit.units()).collect();
    assert_eq!(units, [60, 1, 10]);
    assert_eq!(free(), (1, 30));
    let wanted = [(&objects, 1), (&bytes, 31)];
    assert!(Semaphore::try_acquire_all(wanted).unwrap_err().is_full());
    let late = Semaphore::acquire_all_timeout(wanted, Duration::from_millis(2));
    assert!(late.unwrap_err().is_timeout());
    let mut waiting = Polled::waiting(Semaphore::acquire_all_async(wanted));
    assert_eq!(free(), (1, 30), "a waiter holds nothing");
    drop(first);
    assert_eq!(waiting.wakes.calls(), 1);
    drop(waiting.poll().unwrap().unwrap());
    assert_eq!(free(), (2, 100));
}

#[test]
fn wrong_requests_for_several_semaphores_are_clear_errors() {
    let (objects, bytes) = (Semaphore::new(2), Semaphore::new(100));
    let wanted = [(&objects, 1), (&bytes, 101)];
    for error in [
        Semaphore::acquire_all(wanted).unwrap_err(),
        Semaphore::try_acquire_all(wanted).unwrap_err(),
        Semaphore::acquire_all_timeout(wanted, LONG).unwrap_err(),
        block_on(Semaphore::acquire_all_async(wanted)).unwrap_err(),
    ] {
        assert!(error.is_too_large(), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("101 units") && text.contains("100"), "{text}");
    }
    assert_eq!(objects.available(), 2);
    let nothing = Semaphore::acquire_all([(&objects, 0), (&bytes, 0)]).unwrap();
    assert_eq!((nothing[0].units(), nothing[1].units()), (0, 0));
    objects.close();
    for wanted in [[(&objects, 0), (&bytes, 1)], [(&bytes, 1), (&objects, 1)]] {
        assert!(Semaphore::acquire_all(wanted).unwrap_err().is_closed());
    }
    assert_eq!(bytes.available(), 100);
}

#[test]
fn a_request_waits_only_behind_requests_for_its_own_semaphores() {
    let [a, b, c] = [(); 3].map(|()| Semaphore::new(2));
    let held = a.acquire_many(2).unwrap();
    let mut both = Polled::waiting(Semaphore::acquire_all_async([(&a, 1), (&b, 1)]));
    // No request waits for `c`.
    drop(c.try_acquire().unwrap());
    // There is enough of `b`, but an earlier request wants some.
    assert!(b.try_acquire().unwrap_err().is_full());
    let mut chained = Polled::waiting(Semaphore::acquire_all_async([(&b, 2), (&c, 1)]));
    assert!(c.try_acquire().unwrap_err().is_full());
    let mut last = Polled::waiting(c.acquire_many_async(2));
    drop(chained);
    assert_eq!((last.wakes.calls(), both.wakes.calls()), (1, 0));
    drop(last.poll());
    chained = Polled::waiting(Semaphore::acquire_all_async([(&c, 1), (&b, 2)]));
    drop(held);
    assert_eq!((both.wakes.calls(), chained.wakes.calls()), (1, 0));
    drop(both.poll());
    assert!(chained.poll().unwrap().is_ok());
    let all = [&a, &b, &c];
    assert_eq!(all.map(|semaphore| semaphore.available()), [2; 3]);
    assert_eq!(all.map(|semaphore| semaphore.waiting()), [0; 3]);
}

/// One release grants a chain of requests: each waits only because it is behind the one before it.
#[test]
fn a_long_chain_of_requests_is_granted() {
    const LENGTH: usize = 10_000;
    let all: Vec<_> = (0..=LENGTH).map(|_| Semaphore::new(2)).collect();
    let held = all[0].acquire_many(2).unwrap();
    let pairs = all.windows(2).map(|pair| [(&pair[1], 1), (&pair[0], 1)]);
    let mut requests: Vec<_> = pairs
        .map(|pair| Polled::waiting(Semaphore::acquire_all_async(pair)))
        .collect();
    drop(held);
    for request in &mut requests {
        assert_eq!(request.wakes.calls(), 1);
        assert!(request.poll().unwrap().is_ok());
    }
    for semaphore in &all {
        assert_eq!((semaphore.available(), semaphore.waiting()), (2, 0));
    }
}

#[test]
fn several_semaphores_close_grow_and_shrink() {
    let (a, b) = (Semaphore::new(1), Semaphore::new(0));
    let held = a.acquire().unwrap();
    let mut grown = Polled::waiting(a.acquire_async());
    a.add(1);
    b.add(5);
    assert!(grown.poll().unwrap().is_ok());
    let mut refused = Polled::waiting(Semaphore::acquire_all_async([(&a, 2), (&b, 1)]));
    let mut behind = Polled::waiting(b.acquire_many_async(5));
    held.forget();
    assert!(refused.poll().unwrap().unwrap_err().is_too_large());
    let all_b = behind.poll().unwrap().unwrap();
    let mut closed = Polled::waiting(Semaphore::acquire_all_async([(&a, 1), (&b, 1)]));
    let mut passes = Polled::waiting(a.acquire_async());
    b.close();
    assert!(closed.poll().unwrap().unwrap_err().is_closed());
    assert!(passes.poll().unwrap().is_ok());
    drop(all_b);
    assert_eq!((b.available(), b.waiting(), b.is_closed()), (5, 0, true));
    assert_eq!((a.available(), a.waiting(), a.is_closed()), (1, 0, false));
}

#[test]
fn opposite_orders_on_four_threads() {
    within(LIMIT, || {
        const ORDERS: [[usize; 2]; 4] = [[0, 1], [1, 0], [1, 2], [2, 1]];
        let all = [(); 3].map(|()| (Semaphore::new(3), Out::new(3)));
        four_threads(|rng| {
            let [(first, first_out), (second, second_out)] =
                ORDERS[rng.below(4)].map(|number| &all[number]);
            let (n, m) = (rng.below(3) as u64 + 1, rng.below(3) as u64 + 1);
            let wanted = [(first, n), (second, m)];
            let permits = match rng.below(5) {
                0 => Semaphore::try_acquire_all(wanted),
                1 => Semaphore::acquire_all_timeout(wanted, Duration::from_micros(n)),
                2 => block_on(Semaphore::acquire_all_async(wanted)),
                3 => {
                    // On its own, without a lock if it need not wait.
                    let permit = second.acquire_many(m).unwrap();
                    second_out.hold(m, || ());
                    drop(permit);
                    return;
                }
                _ => Semaphore::acquire_all(wanted),
            };
            if let Ok(permits) = permits {
                first_out.hold(n, || second_out.hold(m, || ()));
                drop(permits);
            }
        });
        for (semaphore, _) in &all {
            assert_eq!((semaphore.available(), semaphore.waiting()), (3, 0));
        }
    });
}
