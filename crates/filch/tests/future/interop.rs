//! Futures of other libraries on our workers: channels, locks, combinators, and I/O with their own
//! reactors.
//!
//! A future is a future: none of these knows filch, and filch knows none of them.

use crate::support::{LIMIT, pool, within};
use async_io::{Async, Timer};
use filch::{
    Pool,
    time::{self, PausedClock},
};
use futures::{
    AsyncReadExt, AsyncWriteExt, StreamExt,
    future::{self, Either, join_all, select},
    stream::{self, FuturesUnordered},
};
use std::{
    future::Future,
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    runtime::{self, Handle},
    sync::{Mutex, Notify, Semaphore, mpsc, oneshot},
};

/// Calls `f` with pools of no, one and two workers.
#[track_caller]
fn on_pools(f: impl Fn(&Pool) + Send + 'static) {
    within(LIMIT, move || [0, 1, 2].map(pool).iter().for_each(f));
}

const LOOPBACK: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

#[test]
fn async_channel_between_tasks() {
    on_pools(|pool| {
        let (send, receive) = async_channel::bounded(3);
        let senders: Vec<_> = (0..4)
            .map(|n| {
                let send = send.clone();
                pool.spawn_future(async move {
                    for m in 0..100 {
                        send.send(n * 100 + m).await.unwrap();
                    }
                })
            })
            .collect();
        drop(send);
        let receivers: Vec<_> = (0..3)
            .map(|_| {
                let receive = receive.clone();
                pool.spawn_future(async move {
                    let mut sum = 0;
                    while let Ok(n) = receive.recv().await {
                        sum += n;
                    }
                    sum
                })
            })
            .collect();
        let sum: u32 = receivers.into_iter().map(|task| task.join().unwrap()).sum();
        assert_eq!(sum, (0..400).sum::<u32>());
        senders.into_iter().for_each(|task| task.join().unwrap());
    });
}

#[test]
fn async_channel_between_tasks_and_threads() {
    on_pools(|pool| {
        let (ask, asked) = async_channel::bounded::<u32>(1);
        let (answer, answered) = async_channel::bounded(1);
        let server = pool.spawn_future(async move {
            while let Ok(n) = asked.recv().await {
                answer.send(n * n).await.unwrap();
            }
        });
        let client = thread::spawn(move || {
            (0..50)
                .map(|n| {
                    ask.send_blocking(n).unwrap();
                    answered.recv_blocking().unwrap()
                })
                .sum::<u32>()
        });
        // On a pool without threads this works for the client.
        server.join().unwrap();
        assert_eq!(client.join().unwrap(), (0..50).map(|n| n * n).sum::<u32>());
    });
}

#[test]
fn tokio_mpsc_and_oneshot() {
    on_pools(|pool| {
        type Request = (u64, oneshot::Sender<u64>);
        let (send, mut receive) = mpsc::channel::<Request>(2);
        let server = pool.spawn_future(async move {
            let mut served = 0;
            while let Some((n, answer)) = receive.recv().await {
                answer.send(n + 1).unwrap();
                served += 1;
            }
            served
        });
        let clients: Vec<_> = (0..10)
            .map(|n| {
                let send = send.clone();
                pool.spawn_future(async move {
                    let mut value = n;
                    for _ in 0..20 {
                        let (answer, answered) = oneshot::channel();
                        send.send((value, answer)).await.unwrap();
                        value = answered.await.unwrap();
                    }
                    value
                })
            })
            .collect();
        drop(send);
        for (n, client) in (0..).zip(clients) {
            assert_eq!(client.join().unwrap(), n + 20);
        }
        assert_eq!(server.join().unwrap(), 200);
        // A sender that is dropped is noticed.
        let (answer, answered) = oneshot::channel::<()>();
        let waits = pool.spawn_future(answered);
        drop(answer);
        assert!(waits.join().unwrap().is_err());
    });
}

#[test]
fn tokio_mutex_semaphore_and_notify() {
    on_pools(|pool| {
        let count = Arc::new(Mutex::new(0));
        let places = Arc::new(Semaphore::new(2));
        let inside = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                let (count, places, inside) = (count.clone(), places.clone(), inside.clone());
                pool.spawn_future(async move {
                    for _ in 0..10 {
                        let permit = places.acquire().await.unwrap();
                        let others = inside.fetch_add(1, Ordering::SeqCst);
                        assert!(others < 2, "{others} others have a place");
                        // Held over a point at which others run.
                        let mut count = count.lock().await;
                        filch::future::yield_now().await;
                        *count += 1;
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(permit);
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
        assert_eq!(pool.block_on(async { *count.lock().await }), 200);
        let notify = Arc::new(Notify::new());
        let waits = pool.spawn_future({
            let notify = notify.clone();
            async move { notify.notified().await }
        });
        notify.notify_one();
        waits.join().unwrap();
    });
}

#[test]
fn futures_combinators() {
    on_pools(|pool| {
        let square = |n: u64| {
            filch::spawn_future(async move {
                filch::future::yield_now().await;
                n * n
            })
        };
        pool.block_on(async {
            let all = join_all((0..100).map(square)).await;
            let all: Vec<u64> = all.into_iter().map(Result::unwrap).collect();
            assert_eq!(all, (0..100).map(|n| n * n).collect::<Vec<_>>());

            let mut unordered: FuturesUnordered<_> = (0..100).map(square).collect();
            let mut sum = 0;
            while let Some(n) = unordered.next().await {
                sum += n.unwrap();
            }
            assert_eq!(sum, (0..100).map(|n| n * n).sum::<u64>());

            let buffered = stream::iter(0..100).map(square).buffered(7);
            let sum = buffered
                .fold(0, |sum, n| future::ready(sum + n.unwrap()))
                .await;
            assert_eq!(sum, (0..100).map(|n| n * n).sum::<u64>());
        });
    });
}

#[test]
fn futures_select_against_our_time() {
    let clock = PausedClock::auto();
    let pool = Pool::builder().workers(0).clock(&clock).build().unwrap();
    within(LIMIT, move || {
        pool.block_on(async {
            let hours = |n: u64| Duration::from_secs(n * 3600);
            let (quick, slow) = (time::sleep(hours(1)), time::sleep(hours(2)));
            let slow = match select(quick, slow).await {
                Either::Left(((), slow)) => slow,
                Either::Right(_) => panic!("two hours came before one"),
            };
            assert_eq!(clock.elapsed(), hours(1));
            slow.await;
            assert_eq!(clock.elapsed(), hours(2));
            // An interval is a stream, by way of `poll_tick`.
            let mut interval = time::interval(hours(1));
            let ticks = stream::poll_fn(move |cx| interval.poll_tick(cx).map(Some));
            let ticks: Vec<Instant> = ticks.take(5).collect().await;
            assert_eq!(ticks[4] - ticks[0], hours(4));
        });
    });
}

/// Sends everything back until the other side has ended.
async fn echo(mut stream: Async<TcpStream>) -> io::Result<usize> {
    let (mut buffer, mut total) = ([0; 64], 0);
    loop {
        match AsyncReadExt::read(&mut stream, &mut buffer).await? {
            0 => return Ok(total),
            n => {
                AsyncWriteExt::write_all(&mut stream, &buffer[..n]).await?;
                total += n;
            }
        }
    }
}

async fn ask(server: SocketAddr, text: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = Async::<TcpStream>::connect(server).await?;
    let mut answer = vec![0; text.len()];
    for _ in 0..10 {
        AsyncWriteExt::write_all(&mut stream, text).await?;
        AsyncReadExt::read_exact(&mut stream, &mut answer).await?;
        assert_eq!(answer, text);
    }
    Ok(answer)
}

#[test]
fn io_through_async_io() {
    on_pools(|pool| {
        const CLIENTS: u8 = 8;
        let listener = Async::<TcpListener>::bind(LOOPBACK).unwrap();
        let address = listener.get_ref().local_addr().unwrap();
        let server = pool.spawn_future(async move {
            let mut connections = Vec::new();
            for _ in 0..CLIENTS {
                let (stream, _) = listener.accept().await.unwrap();
                connections.push(filch::spawn_future(echo(stream)));
            }
            let totals = join_all(connections).await.into_iter();
            totals.map(|total| total.unwrap().unwrap()).sum::<usize>()
        });
        let clients: Vec<_> = (0..CLIENTS)
            .map(|n| pool.spawn_future(async move { ask(address, &[n; 100]).await }))
            .collect();
        for (n, client) in (0..).zip(clients) {
            assert_eq!(client.join().unwrap().unwrap(), [n; 100]);
        }
        assert_eq!(server.join().unwrap(), usize::from(CLIENTS) * 1000);
    });
}

#[test]
fn our_timeouts_end_their_io_and_their_timers_run_here() {
    on_pools(|pool| {
        let listener = Async::<TcpListener>::bind(LOOPBACK).unwrap();
        let address = listener.get_ref().local_addr().unwrap();
        pool.block_on(async {
            let mut silent = Async::<TcpStream>::connect(address).await.unwrap();
            let mut byte = [0];
            let read = AsyncReadExt::read(&mut silent, &mut byte);
            assert!(time::timeout(Duration::from_millis(5), read).await.is_err());
            let start = Instant::now();
            let task = filch::spawn_future(async {
                Timer::after(Duration::from_millis(3)).await;
            });
            task.await.unwrap();
            assert!(start.elapsed() >= Duration::from_millis(3));
        });
    });
}

/// Polls `future` inside a tokio runtime that another thread drives: for sockets and timers, which
/// ask for it when they are made.
async fn with_tokio<F: Future>(handle: Handle, future: F) -> F::Output {
    let mut future = pin!(future);
    future::poll_fn(move |cx| {
        let _entered = handle.enter();
        future.as_mut().poll(cx)
    })
    .await
}

/// A tokio runtime on a thread of its own, which does nothing but I/O and timers.
struct Reactor {
    handle: Handle,
    end: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Reactor {
    fn start() -> Self {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        let thread = thread::spawn(move || {
            let _ = runtime.block_on(ended);
        });
        Self {
            handle,
            end: Some(end),
            thread: Some(thread),
        }
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        drop(self.end.take());
        self.thread.take().map(thread::JoinHandle::join);
    }
}

async fn tokio_echo(mut stream: tokio::net::TcpStream) -> io::Result<usize> {
    let (mut buffer, mut total) = ([0; 64], 0);
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(total),
            n => {
                stream.write_all(&buffer[..n]).await?;
                total += n;
            }
        }
    }
}

#[test]
fn io_and_time_through_a_tokio_handle() {
    on_pools(|pool| {
        let reactor = Reactor::start();
        let handle = reactor.handle.clone();
        let total = pool.block_on(with_tokio(handle.clone(), async move {
            let listener = tokio::net::TcpListener::bind(LOOPBACK).await.unwrap();
            let address = listener.local_addr().unwrap();
            let server = filch::spawn_future(with_tokio(handle.clone(), async move {
                let (stream, _) = listener.accept().await.unwrap();
                tokio_echo(stream).await.unwrap()
            }));
            let client = filch::spawn_future(with_tokio(handle, async move {
                assert!(Pool::current().is_some(), "on one of our workers");
                let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
                for n in 0..50_u8 {
                    let mut answer = [0; 3];
                    stream.write_all(&[n; 3]).await.unwrap();
                    stream.read_exact(&mut answer).await.unwrap();
                    assert_eq!(answer, [n; 3]);
                    tokio::time::sleep(Duration::from_micros(100)).await;
                }
            }));
            client.await.unwrap();
            server.await.unwrap()
        }));
        assert_eq!(total, 150);
    });
}

#[test]
fn tasks_of_both_talk_to_each_other() {
    on_pools(|pool| {
        let reactor = Reactor::start();
        let (there, mut from_here) = mpsc::channel::<u32>(1);
        let (here, mut from_there) = mpsc::channel::<u32>(1);
        let theirs = reactor.handle.spawn(async move {
            while let Some(n) = from_here.recv().await {
                here.send(n + 1).await.unwrap();
            }
        });
        let ours = pool.spawn_future(async move {
            let mut n = 0;
            while n < 200 {
                there.send(n).await.unwrap();
                n = from_there.recv().await.unwrap();
            }
            n
        });
        assert_eq!(ours.join().unwrap(), 200);
        // Their handle, awaited by us.
        pool.block_on(theirs).unwrap();
    });
}

#[test]
fn work_for_the_cores_inside_of_a_future_between_io() {
    on_pools(|pool| {
        let listener = Async::<TcpListener>::bind(LOOPBACK).unwrap();
        let address = listener.get_ref().local_addr().unwrap();
        let server = pool.spawn_future(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut number = [0; 8];
            AsyncReadExt::read_exact(&mut stream, &mut number)
                .await
                .unwrap();
            let n = u64::from_le_bytes(number);
            // Fork and join on the same workers, and a submitted task that is awaited.
            let (a, b) = filch::join(|| (0..n / 2).sum::<u64>(), || (n / 2..n).sum::<u64>());
            let sum = filch::submit(move || a + b).await.unwrap();
            AsyncWriteExt::write_all(&mut stream, &sum.to_le_bytes())
                .await
                .unwrap();
        });
        let answer = pool.block_on(async {
            let mut stream = Async::<TcpStream>::connect(address).await.unwrap();
            AsyncWriteExt::write_all(&mut stream, &1000_u64.to_le_bytes())
                .await
                .unwrap();
            let mut number = [0; 8];
            AsyncReadExt::read_exact(&mut stream, &mut number)
                .await
                .unwrap();
            u64::from_le_bytes(number)
        });
        assert_eq!(answer, (0..1000).sum::<u64>());
        server.join().unwrap();
    });
}
