//! A web service on the workers of one pool: I/O, and the computations of its requests.
//!
//! `cargo run --release -p filch-io --example service`, and then
//! `curl http://127.0.0.1:8080/primes/1000000`. With an argument, a number of connections, it calls
//! itself that often and stops.
//!
//! Idle workers wait in the reactor, so no thread hands I/O to another. What a request computes is
//! a submitted task with checkpoints, at which short requests are served.

use filch::Pool;
use filch_io::{Reactor, TcpListener, TcpStream};
use futures::{AsyncRead, AsyncWrite};
use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    rt::ReadBufCursor,
    server::conn::http1,
    service::service_fn,
};
use std::{
    convert::Infallible,
    env,
    error::Error,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

fn main() -> Result<(), Box<dyn Error>> {
    let connections: u64 = match env::args().nth(1) {
        Some(number) => number.parse()?,
        None => u64::MAX,
    };
    let reactor = Reactor::new()?;
    let pool = Pool::builder().driver(reactor.clone()).build()?;
    let port = if connections == u64::MAX { 8080 } else { 0 };
    let listener = TcpListener::bind(&reactor, ([127, 0, 0, 1], port).into())?;
    let address = listener.local_addr()?;
    println!("http://{address}/primes/1000000");
    if connections < u64::MAX {
        // Calls itself: this is how the example is tested.
        pool.spawn_future(call_itself(reactor, address, connections))
            .detach();
    }
    pool.block_on(async {
        let mut open = Vec::new();
        for _ in 0..connections {
            let (stream, _) = listener.accept().await?;
            open.push(filch::spawn_future(serve(stream)));
            open.retain(|connection| !connection.is_finished());
        }
        for connection in open {
            connection.await?;
        }
        Ok(())
    })
}

async fn serve(stream: TcpStream) {
    let io = Io {
        stream,
        buffer: vec![0; 8192],
    };
    // A caller that goes away in the middle of a request is no problem of ours.
    let _ = http1::Builder::new()
        .serve_connection(io, service_fn(answer))
        .await;
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let limit = request.uri().path().strip_prefix("/primes/");
    let Some(limit) = limit.and_then(|limit| limit.parse().ok()) else {
        let mut response = Response::new(Full::from("try /primes/1000000\n"));
        *response.status_mut() = StatusCode::NOT_FOUND;
        return Ok(response);
    };
    let text = match filch::submit(move || primes_below(limit)).await {
        Ok(count) => format!("{count} primes below {limit}\n"),
        Err(error) => format!("{error}\n"),
    };
    Ok(Response::new(Full::from(text)))
}

fn primes_below(limit: u32) -> usize {
    let is_prime = |&number: &u32| {
        if number % 1024 == 0 {
            filch::checkpoint();
        }
        number > 1
            && (2..)
                .take_while(|d| d * d <= number)
                .all(|d| number % d != 0)
    };
    (0..limit.min(10_000_000)).filter(is_prime).count()
}

/// Asks as often as there are to be connections.
async fn call_itself(reactor: Reactor, address: std::net::SocketAddr, times: u64) {
    use futures::{AsyncReadExt, AsyncWriteExt};
    for _ in 0..times {
        let call = async {
            let mut stream = TcpStream::connect(&reactor, address).await?;
            let request =
                "GET /primes/1000 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
            stream.write_all(request.as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            Ok::<_, io::Error>(answer)
        };
        match call.await {
            Ok(answer) => println!("{}", answer.lines().last().unwrap_or_default()),
            Err(error) => println!("no answer: {error}"),
        }
    }
}

/// A stream for hyper. Bytes are copied once, so that hyper sees only initialised memory.
struct Io {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl hyper::rt::Read for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut room: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, buffer } = self.get_mut();
        let most = room.remaining().min(buffer.len());
        let size = ready!(Pin::new(stream).poll_read(cx, &mut buffer[..most]))?;
        room.put_slice(&buffer[..size]);
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for Io {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_close(cx)
    }
}
