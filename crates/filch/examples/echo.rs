//! An echo server and its clients on the same workers, over real sockets of this machine, through
//! `async-io`.
//!
//! Shows futures with I/O on a pool: connections as spawned futures, a bound on how many are open
//! at the same time, a time limit for idle clients, and a shutdown by a token.
//!
//! `cargo run --release --example echo -- 200 100 64`

use async_io::Async;
use filch::{CancelToken, FutureHandle, Pool, Semaphore, observe::Histogram, time};
use futures::{
    AsyncReadExt, AsyncWriteExt,
    future::{Either, join_all, select},
};
use std::{
    env,
    error::Error,
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    process::ExitCode,
    time::{Duration, Instant},
};

const HELP: &str = "\
Starts a TCP echo server on a free port of this machine, connects clients to it, and prints how long
the answers took.
Server and clients are futures on the same workers. Ends by itself.

Usage: echo [CLIENTS [MESSAGES [BYTES]]]

  CLIENTS     connections [100]
  MESSAGES    messages of each [100]
  BYTES       length of a message [64]
  --help      this text

All from 1 to 100000. FILCH_WORKERS sets the number of workers.";

/// Connections at the same time; others wait. Each needs two open files.
const OPEN: u64 = 128;

/// The server closes a connection that sends nothing for this long.
const IDLE_LIMIT: Duration = Duration::from_secs(10);

/// The time limit of the whole program.
const LIMIT: Duration = Duration::from_secs(120);

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    if arguments
        .iter()
        .any(|text| text == "--help" || text == "-h")
    {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let number = |place: usize, otherwise: usize| match arguments.get(place) {
        None => Some(otherwise),
        Some(text) => text.parse().ok().filter(|n| (1..=100_000).contains(n)),
    };
    let (Some(clients), Some(messages), Some(bytes)) =
        (number(0, 100), number(1, 100), number(2, 64))
    else {
        eprintln!("echo: numbers from 1 to 100000, please; see --help");
        return ExitCode::from(2);
    };
    match talk(clients, messages, bytes) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("echo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn talk(clients: usize, messages: usize, bytes: usize) -> Result<(), Failure> {
    let pool = Pool::builder().build()?;
    let listener = Async::<TcpListener>::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.get_ref().local_addr()?;
    let end = CancelToken::new();
    let server = pool.spawn_future(serve(listener, end.clone()));

    let start = Instant::now();
    let crowd = Semaphore::new(OPEN);
    let clients: Vec<_> = (0..clients)
        .map(|n| pool.spawn_future(client(address, crowd.clone(), n, messages, bytes)))
        .collect();
    let latencies = pool.block_on(time::timeout(LIMIT, all(clients)))??;
    let took = start.elapsed();
    end.cancel();
    let served = server.join()??;

    println!(
        "{} connections, {} messages of {bytes} bytes echoed and compared, {} workers, {:.2} s",
        served.connections,
        latencies.count(),
        pool.workers(),
        took.as_secs_f64()
    );
    println!(
        "{:.0} messages a second, {} bytes through the server",
        latencies.count() as f64 / took.as_secs_f64().max(1e-9),
        served.bytes
    );
    println!(
        "latency: p50 {:.1?}, p99 {:.1?}, longest {:.1?}",
        latencies.p50(),
        latencies.p99(),
        latencies.max()
    );
    Ok(())
}

/// What all clients measured.
async fn all(
    clients: Vec<FutureHandle<Result<Vec<Duration>, Failure>>>,
) -> Result<Histogram, Failure> {
    let mut latencies = Histogram::new();
    for client in join_all(clients).await {
        client??.into_iter().for_each(|time| latencies.add(time));
    }
    Ok(latencies)
}

/// What a server has done.
struct Served {
    connections: usize,
    bytes: u64,
}

/// Accepts connections until its token is cancelled, then waits for those that are still served.
async fn serve(listener: Async<TcpListener>, end: CancelToken) -> Result<Served, Failure> {
    let mut connections = Vec::new();
    loop {
        let accept = Box::pin(listener.accept());
        match select(accept, end.cancelled()).await {
            Either::Left((accepted, _)) => {
                let (stream, _) = accepted?;
                connections.push(filch::spawn_future(echo(stream)));
            }
            Either::Right(_) => break,
        }
    }
    let mut served = Served {
        connections: connections.len(),
        bytes: 0,
    };
    for connection in join_all(connections).await {
        served.bytes += connection??;
    }
    Ok(served)
}

/// Sends back what comes, until the other side ends; says how many bytes.
async fn echo(mut stream: Async<TcpStream>) -> io::Result<u64> {
    stream.get_ref().set_nodelay(true)?;
    let mut buffer = vec![0; 16 << 10];
    let mut bytes = 0;
    loop {
        let read = time::timeout(IDLE_LIMIT, stream.read(&mut buffer)).await??;
        if read == 0 {
            return Ok(bytes);
        }
        stream.write_all(&buffer[..read]).await?;
        bytes += read as u64;
    }
}

/// Sends messages one after the other, compares the answers, and says how long each took.
async fn client(
    server: SocketAddr,
    crowd: Semaphore,
    number: usize,
    messages: usize,
    bytes: usize,
) -> Result<Vec<Duration>, Failure> {
    let _place = crowd.acquire_async().await?;
    let mut stream = Async::<TcpStream>::connect(server).await?;
    stream.get_ref().set_nodelay(true)?;
    let mut answer = vec![0; bytes];
    let mut latencies = Vec::with_capacity(messages);
    for n in 0..messages {
        let message = vec![(number + n) as u8; bytes];
        let start = Instant::now();
        stream.write_all(&message).await?;
        stream.read_exact(&mut answer).await?;
        latencies.push(start.elapsed());
        if answer != message {
            return Err(format!("client {number} got something else back than message {n}").into());
        }
    }
    Ok(latencies)
}
