//! Futures that wake each other.

use super::Load;
use crate::{
    countdown::Countdown,
    futures::Futures,
    mailbox::Mailbox,
    stopwatch::{Sample, Stopwatch},
};
use std::sync::Arc;

/// Futures in the ring.
const RING: u64 = 300;

/// Futures that send to one receiver.
const SENDERS: u64 = 50;

/// The capacity of the receiver's mailbox, in messages.
const ROOM: usize = 64;

/// Two futures that send each other a message in turn, for this number of round trips.
#[derive(Clone, Copy)]
pub(super) struct PingPong(pub(super) u64);

impl Load for PingPong {
    fn sample<S: Futures>(self, pool: &S::Pool) -> Sample {
        let (countdown, times) = (Countdown::new(2), self.0);
        let (there, back) = (Arc::new(Mailbox::new(1)), Arc::new(Mailbox::new(1)));
        let (ping, pong) = ((there.clone(), back.clone()), (there, back));
        let mut watch = Stopwatch::default();
        watch.time(|| {
            S::detach(pool, async move {
                let (there, back) = ping;
                for n in 0..times {
                    there.send(n).await;
                    assert_eq!(back.receive().await, n);
                }
                countdown.one();
            });
            S::detach(pool, async move {
                let (there, back) = pong;
                for _ in 0..times {
                    back.send(there.receive().await).await;
                }
                countdown.one();
            });
            countdown.wait();
        });
        watch.sample(times)
    }
}

/// A message that passes around the ring this number of times.
#[derive(Clone, Copy)]
pub(super) struct Ring(pub(super) u64);

impl Load for Ring {
    fn sample<S: Futures>(self, pool: &S::Pool) -> Sample {
        let (countdown, laps) = (Countdown::new(RING), self.0);
        let ring: Arc<[_]> = (0..RING).map(|_| Mailbox::new(1)).collect();
        let last = ring.len() - 1;
        for n in 0..ring.len() {
            let ring = ring.clone();
            S::detach(pool, async move {
                for lap in 1..=laps {
                    let hops = ring[n].receive().await;
                    assert_eq!(hops, (lap - 1) * RING + n as u64);
                    if n < last {
                        ring[n + 1].send(hops + 1).await;
                    } else if lap < laps {
                        ring[0].send(hops + 1).await;
                    }
                }
                countdown.one();
            });
        }
        let mut watch = Stopwatch::default();
        watch.time(|| {
            S::block_on(pool, ring[0].send(0));
            countdown.wait();
        });
        watch.sample(RING * laps)
    }
}

/// [`SENDERS`] futures that send this number of messages each to one receiver, which adds them up.
#[derive(Clone, Copy)]
pub(super) struct FanIn(pub(super) u64);

impl Load for FanIn {
    fn sample<S: Futures>(self, pool: &S::Pool) -> Sample {
        let (countdown, each) = (Countdown::new(SENDERS + 1), self.0);
        let messages = SENDERS * each;
        let mailbox = Arc::new(Mailbox::new(ROOM));
        let mut watch = Stopwatch::default();
        watch.time(|| {
            let inbox = mailbox.clone();
            S::detach(pool, async move {
                let mut sum = 0;
                for _ in 0..messages {
                    sum += inbox.receive().await;
                }
                assert_eq!(sum, messages, "not every message came once");
                countdown.one();
            });
            for _ in 0..SENDERS {
                let mailbox = mailbox.clone();
                S::detach(pool, async move {
                    for _ in 0..each {
                        mailbox.send(1).await;
                    }
                    countdown.one();
                });
            }
            countdown.wait();
        });
        watch.sample(messages)
    }
}
