//! I/O on the workers of a [filch] pool, without a thread for the reactor.
//!
//! A [`Reactor`] is a [`Driver`](filch::Driver): the pool's idle workers wait in it, and its busy
//! workers poll it. The futures of an event are woken on the worker that has found the event.
//!
//! ```
//! use filch::Pool;
//! use filch_io::{Reactor, TcpListener, TcpStream};
//! use futures::{AsyncReadExt, AsyncWriteExt};
//!
//! let reactor = Reactor::new()?;
//! let pool = Pool::builder().workers(2).driver(reactor.clone()).build()?;
//! let listener = TcpListener::bind(&reactor, "127.0.0.1:0".parse()?)?;
//! let address = listener.local_addr()?;
//!
//! // Sends back what it gets.
//! let server = pool.spawn_future(async move {
//!     let (mut stream, _) = listener.accept().await?;
//!     let mut bytes = [0; 5];
//!     stream.read_exact(&mut bytes).await?;
//!     stream.write_all(&bytes).await
//! });
//! let client = pool.spawn_future(async move {
//!     let mut stream = TcpStream::connect(&reactor, address).await?;
//!     stream.write_all(b"hello").await?;
//!     let mut answer = String::new();
//!     stream.read_to_string(&mut answer).await?;
//!     Ok::<_, std::io::Error>(answer)
//! });
//! assert_eq!(client.join()??, "hello");
//! server.join()??;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`TcpStream`] implements the traits of [`futures_io`]. [`Async`] makes a future-aware source of
//! any other source of mio's, such as a UDP socket.

mod reactor;
mod source;
mod tcp;

pub use reactor::Reactor;
pub use source::Async;
pub use tcp::{TcpListener, TcpStream};
