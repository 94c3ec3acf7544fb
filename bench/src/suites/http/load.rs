//! The load: connections that send a request, wait for the response, and send the next one.

use crate::harness::Readings;
use mio::{Events, Interest, Poll, Token, net::TcpStream};
use std::{
    io::{self, ErrorKind, Read, Write},
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

/// Concurrent connections.
pub(super) const CONNECTIONS: usize = 64;

/// Threads of the load.
pub(super) const THREADS: usize = 2;

/// The body of every response.
pub(super) const BODY: &str = "Hello, world!";

/// The path of requests that compute.
pub(super) const COMPUTE: &str = "/compute";

/// Time before the window, in which the load reaches a steady state.
const SETTLE: Duration = Duration::from_millis(100);

/// The time without any response after which the sample fails.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// The kind of requests and the length of the window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) window: Duration,
    /// One request in this many computes; none by default.
    pub(super) computes: Option<u32>,
}

impl Load {
    /// Sends requests to the server at `address` during the window, and returns the latency of each
    /// response.
    pub(super) fn sample(self, address: SocketAddr) -> Readings {
        let start = Instant::now() + SETTLE;
        let ask = move |thread| {
            move || {
                self.ask(address, thread, start)
                    .expect("the loopback interface and the server work")
            }
        };
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| thread::spawn(ask(thread)))
            .collect();
        let nanos: Vec<f64> = threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("it has not panicked"))
            .collect();
        Readings {
            per_second: Some(nanos.len() as f64 / self.window.as_secs_f64()),
            nanos,
            ..Readings::default()
        }
    }

    /// The share of one thread.
    fn ask(self, address: SocketAddr, thread: usize, start: Instant) -> io::Result<Vec<f64>> {
        let mut poll = Poll::new()?;
        let mut events = Events::with_capacity(CONNECTIONS);
        let mut connections = Vec::new();
        for number in 0..CONNECTIONS / THREADS {
            // `connect` blocks, so the first event is a response.
            let stream = std::net::TcpStream::connect(address)?;
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let mut stream = TcpStream::from_std(stream);
            let interest = Interest::READABLE;
            poll.registry()
                .register(&mut stream, Token(number), interest)?;
            // Staggers the requests that compute.
            let sent = (thread * CONNECTIONS + number) as u32 * 37;
            let mut connection = Connection::new(stream, sent);
            connection.send(self)?;
            connections.push(connection);
        }
        let end = start + self.window;
        let mut nanos = Vec::with_capacity(1 << 16);
        // Every request is answered before the sample ends, so the next sample starts without a
        // backlog.
        let mut waiting = connections.len();
        while waiting > 0 {
            poll.poll(&mut events, Some(RESPONSE_TIMEOUT))?;
            if events.is_empty() {
                return Err(ErrorKind::TimedOut.into());
            }
            for event in &events {
                let connection = &mut connections[event.token().0];
                if connection.receive()? {
                    let now = Instant::now();
                    if now >= start && now < end {
                        nanos.push((now - connection.since).as_secs_f64() * 1e9);
                    }
                    if now < end {
                        connection.send(self)?;
                    } else {
                        waiting -= 1;
                    }
                }
            }
        }
        Ok(nanos)
    }
}

struct Connection {
    stream: TcpStream,
    answer: Vec<u8>,
    /// When the current request was sent.
    since: Instant,
    /// The number of requests sent.
    sent: u32,
}

impl Connection {
    fn new(stream: TcpStream, sent: u32) -> Self {
        Self {
            stream,
            answer: Vec::with_capacity(1024),
            since: Instant::now(),
            sent,
        }
    }

    fn send(&mut self, load: Load) -> io::Result<()> {
        self.sent = self.sent.wrapping_add(1);
        let computes = load
            .computes
            .is_some_and(|every| self.sent.is_multiple_of(every));
        let path = if computes { COMPUTE } else { "/" };
        self.answer.clear();
        self.since = Instant::now();
        // The request is short and nothing else is in flight, so the kernel accepts all of it.
        write!(
            Whole(&self.stream),
            "GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n"
        )
    }

    /// Reads available data. Returns whether the response is complete.
    fn receive(&mut self) -> io::Result<bool> {
        let mut bytes = [0; 1024];
        loop {
            match (&self.stream).read(&mut bytes) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(size) => {
                    self.answer.extend_from_slice(&bytes[..size]);
                    if self.answer.ends_with(BODY.as_bytes()) {
                        return Ok(true);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Collects formatted output, to write it at once.
struct Whole<'a>(&'a TcpStream);

impl Write for Whole<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn write_fmt(&mut self, args: std::fmt::Arguments<'_>) -> io::Result<()> {
        let text = args.to_string();
        self.write_all(text.as_bytes())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
