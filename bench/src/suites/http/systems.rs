//! The server of each system.

use super::{
    COMPUTATION,
    load::Load,
    server::{Common, serve},
};
use crate::{
    busy::Busy,
    harness::{Case, Readings},
    pin::Placement,
};
use async_executor::Executor;
use async_io::Async;
use filch_io::Reactor;
use std::{
    future::poll_fn,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    pin::pin,
    thread,
    time::Duration,
};
use tokio::runtime::Handle;

const WORKERS: usize = 2;

/// Parts of a computation, for systems that run other tasks between two of them.
const PIECE: Duration = Duration::from_micros(20);

fn localhost() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// Takes samples of a server that `start` starts for the first one. It stays, idle, until the
/// process ends.
fn running(load: Load, start: fn() -> SocketAddr) -> impl FnMut() -> Readings {
    let mut address = None;
    move || {
        // Threads that are started from here on are not pinned.
        Placement::Free.place_worker(0);
        let address = *address.get_or_insert_with(|| {
            let address = start();
            let _ = load.sample(address);
            address
        });
        load.sample(address)
    }
}

pub(super) fn trivial(case: Case, load: Load) -> Case {
    case.system_of_many("filch", running(load, || on_filch(|pool| pool)))
        .system_of_many("filch-tokio", running(load, on_filch_by_tokio))
        .system_of_many("tokio", running(load, on_tokio))
        .system_of_many("smol", running(load, on_smol))
}

pub(super) fn mixed(case: Case, load: Load) -> Case {
    case.system_of_many("filch", running(load, || on_filch(|pool| pool)))
        .system_of_many(
            "filch-kept",
            running(load, || on_filch(|pool| pool.future_workers(1))),
        )
        .system_of_many("filch-tokio", running(load, on_filch_by_tokio))
        .system_of_many("tokio", running(load, on_tokio))
}

/// 20 ms of work with checkpoints, on the workers that serve requests.
fn compute_on_filch() -> impl Future<Output = ()> + Send {
    let piece = Busy::of(PIECE);
    let pieces = COMPUTATION.div_duration_f64(PIECE) as u32;
    let handle = filch::submit(move || {
        for _ in 0..pieces {
            piece.run();
            filch::checkpoint();
        }
    });
    async move { handle.await.expect("it does not panic") }
}

fn on_filch(set: fn(filch::PoolBuilder) -> filch::PoolBuilder) -> SocketAddr {
    let reactor = Reactor::new().expect("there is a selector");
    let pool = filch::Pool::builder()
        .workers(WORKERS)
        .driver(reactor.clone());
    let pool = set(pool).build().expect("the settings are fine");
    let listener = filch_io::TcpListener::bind(&reactor, localhost()).expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    pool.spawn_future(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            filch::spawn_future(serve(Common(stream), compute_on_filch)).detach();
        }
    })
    .detach();
    std::mem::forget(pool);
    address
}

/// filch's workers, with tokio's reactor on a separate thread.
fn on_filch_by_tokio() -> SocketAddr {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_io()
        .build()
        .expect("the settings are fine");
    let handle = runtime.handle().clone();
    std::mem::forget(runtime);
    let pool = filch::Pool::builder()
        .workers(WORKERS)
        .build()
        .expect("the settings are fine");
    let (listener, address) = {
        let _entered = handle.enter();
        listen_by_tokio()
    };
    pool.spawn_future(with_tokio(handle, async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            filch::spawn_future(serve(stream, compute_on_filch)).detach();
        }
    }))
    .detach();
    std::mem::forget(pool);
    address
}

/// Polls `future` in the context of tokio's reactor.
async fn with_tokio<F: Future>(handle: Handle, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| {
        let _entered = handle.enter();
        future.as_mut().poll(cx)
    })
    .await
}

fn listen_by_tokio() -> (tokio::net::TcpListener, SocketAddr) {
    let listener = TcpListener::bind(localhost()).expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    listener
        .set_nonblocking(true)
        .expect("sockets can be non-blocking");
    let listener = tokio::net::TcpListener::from_std(listener).expect("it is in no other reactor");
    (listener, address)
}

fn on_tokio() -> SocketAddr {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_io()
        .build()
        .expect("the settings are fine");
    let (listener, address) = {
        let _entered = runtime.enter();
        listen_by_tokio()
    };
    let compute = || async {
        let busy = Busy::of(COMPUTATION);
        tokio::task::spawn_blocking(move || busy.run())
            .await
            .expect("it does not panic");
    };
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            tokio::spawn(serve(stream, compute));
        }
    });
    std::mem::forget(runtime);
    address
}

/// async-executor with async-io, driven as in smol: each thread runs `async_io::block_on`.
fn on_smol() -> SocketAddr {
    static EXECUTOR: Executor<'static> = Executor::new();
    let listener = Async::<TcpListener>::bind(localhost()).expect("a free port");
    let address = listener.get_ref().local_addr().expect("it is bound");
    EXECUTOR
        .spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.get_ref().set_nodelay(true);
                let connection = serve(Common(stream), || async {});
                EXECUTOR.spawn(connection).detach();
            }
        })
        .detach();
    for _ in 0..WORKERS {
        thread::spawn(|| async_io::block_on(EXECUTOR.run(std::future::pending::<()>())));
    }
    address
}
