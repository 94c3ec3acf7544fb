//! TCP.

use crate::{Async, Reactor};
use futures_io::{AsyncRead, AsyncWrite};
use mio::net;
use std::{
    future::poll_fn,
    io::{self, IoSlice, IoSliceMut, Read, Write},
    net::{Shutdown, SocketAddr},
    pin::Pin,
    task::{Context, Poll, ready},
};

/// Whether a read that does not fill the buffer has read all there was. That holds where the
/// selector reports the next bytes as a change (`epoll`, see `epoll(7)`); elsewhere the next read
/// tries.
const SHORT_READS_ARE_LAST: bool = cfg!(any(target_os = "linux", target_os = "android"));

/// A socket that accepts connections.
///
/// The [crate](crate) shows one at work.
#[derive(Debug)]
pub struct TcpListener {
    inner: Async<net::TcpListener>,
}

impl TcpListener {
    /// Listens on `address`; the system chooses a port if that is zero.
    ///
    /// ```
    /// use filch_io::{Reactor, TcpListener};
    ///
    /// let listener = TcpListener::bind(&Reactor::new()?, "127.0.0.1:0".parse()?)?;
    /// assert_ne!(listener.local_addr()?.port(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When the address is in use, or not one of this machine's.
    pub fn bind(reactor: &Reactor, address: SocketAddr) -> io::Result<Self> {
        let inner = Async::new(reactor, net::TcpListener::bind(address)?)?;
        Ok(Self { inner })
    }

    /// The address that it listens on.
    ///
    /// ```
    /// use filch_io::{Reactor, TcpListener};
    ///
    /// let listener = TcpListener::bind(&Reactor::new()?, "127.0.0.1:0".parse()?)?;
    /// println!("listening on {}", listener.local_addr()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When the system does not know.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.get_ref().local_addr()
    }

    /// Waits for a connection.
    ///
    /// ```
    /// use filch_io::{Reactor, TcpListener, TcpStream};
    ///
    /// let reactor = Reactor::new()?;
    /// let pool = filch::Pool::builder().workers(1).driver(reactor.clone()).build()?;
    /// let listener = TcpListener::bind(&reactor, "127.0.0.1:0".parse()?)?;
    /// let address = listener.local_addr()?;
    /// let server = pool.spawn_future(async move { listener.accept().await });
    /// let client = pool.spawn_future(async move { TcpStream::connect(&reactor, address).await });
    /// let (_stream, from) = server.join()??;
    /// assert_eq!(from, client.join()??.local_addr()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When the connection was given up before it was accepted, or the process has no file
    /// descriptor left for it. The listener goes on.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        poll_fn(|cx| self.poll_accept(cx)).await
    }

    /// [`accept`](Self::accept) as a poll.
    ///
    /// ```
    /// use filch_io::{Reactor, TcpListener, TcpStream};
    /// use std::future::poll_fn;
    ///
    /// let reactor = Reactor::new()?;
    /// let pool = filch::Pool::builder().workers(1).driver(reactor.clone()).build()?;
    /// let listener = TcpListener::bind(&reactor, "127.0.0.1:0".parse()?)?;
    /// let address = listener.local_addr()?;
    /// let server = pool.spawn_future(async move { poll_fn(|cx| listener.poll_accept(cx)).await });
    /// let client = pool.spawn_future(async move { TcpStream::connect(&reactor, address).await });
    /// let (_stream, from) = server.join()??;
    /// assert_eq!(from, client.join()??.local_addr()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`accept`](Self::accept).
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let accepted = self.inner.poll_read_with(cx, net::TcpListener::accept);
        let (stream, address) = ready!(accepted)?;
        Poll::Ready(TcpStream::new(self.inner.reactor(), stream).map(|stream| (stream, address)))
    }
}

/// A connection. It implements the traits of [`futures_io`].
///
/// The [crate](crate) shows one at work.
#[derive(Debug)]
pub struct TcpStream {
    inner: Async<net::TcpStream>,
}

impl TcpStream {
    fn new(reactor: &Reactor, stream: net::TcpStream) -> io::Result<Self> {
        let inner = Async::new(reactor, stream)?;
        Ok(Self { inner })
    }

    /// Connects to `address`.
    ///
    /// ```
    /// use filch_io::{Reactor, TcpListener, TcpStream};
    ///
    /// let reactor = Reactor::new()?;
    /// let pool = filch::Pool::builder().workers(1).driver(reactor.clone()).build()?;
    /// let listener = TcpListener::bind(&reactor, "127.0.0.1:0".parse()?)?;
    /// let address = listener.local_addr()?;
    /// let stream = pool.spawn_future(async move { TcpStream::connect(&reactor, address).await });
    /// let stream = stream.join()??; // the system has accepted it for the listener
    /// assert_eq!(stream.peer_addr()?, address);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When there is no answer, or a refusal.
    pub async fn connect(reactor: &Reactor, address: SocketAddr) -> io::Result<Self> {
        let stream = Self::new(reactor, net::TcpStream::connect(address)?)?;
        // Writable when the system has connected it, or given up.
        let connected = |stream: &net::TcpStream| match stream.take_error()? {
            Some(error) => Err(error),
            None => match stream.peer_addr() {
                Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                    Err(io::ErrorKind::WouldBlock.into())
                }
                peer => peer.map(drop),
            },
        };
        stream.inner.write_with(connected).await?;
        Ok(stream)
    }

    /// Whether small writes are sent at once, instead of being collected.
    ///
    /// ```
    /// use filch_io::{Reactor, TcpListener, TcpStream};
    ///
    /// let reactor = Reactor::new()?;
    /// let pool = filch::Pool::builder().workers(1).driver(reactor.clone()).build()?;
    /// let listener = TcpListener::bind(&reactor, "127.0.0.1:0".parse()?)?;
    /// let address = listener.local_addr()?;
    /// let stream = pool.spawn_future(async move { TcpStream::connect(&reactor, address).await });
    /// let stream = stream.join()??; // the system has accepted it for the listener
    /// stream.set_nodelay(true)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.inner.get_ref().set_nodelay(nodelay)
    }

    /// The address of this end.
    ///
    /// ```
    /// use filch_io::{Reactor, TcpListener, TcpStream};
    ///
    /// let reactor = Reactor::new()?;
    /// let pool = filch::Pool::builder().workers(1).driver(reactor.clone()).build()?;
    /// let listener = TcpListener::bind(&reactor, "127.0.0.1:0".parse()?)?;
    /// let address = listener.local_addr()?;
    /// let stream = pool.spawn_future(async move { TcpStream::connect(&reactor, address).await });
    /// let stream = stream.join()??; // the system has accepted it for the listener
    /// assert_ne!(stream.local_addr()?.port(), address.port());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When the system does not know.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.get_ref().local_addr()
    }

    /// The address of the other end.
    ///
    /// ```
    /// use filch_io::{Reactor, TcpListener, TcpStream};
    ///
    /// let reactor = Reactor::new()?;
    /// let pool = filch::Pool::builder().workers(1).driver(reactor.clone()).build()?;
    /// let listener = TcpListener::bind(&reactor, "127.0.0.1:0".parse()?)?;
    /// let address = listener.local_addr()?;
    /// let stream = pool.spawn_future(async move { TcpStream::connect(&reactor, address).await });
    /// let stream = stream.join()??; // the system has accepted it for the listener
    /// assert_eq!(stream.peer_addr()?, address);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When the connection is closed.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.inner.get_ref().peer_addr()
    }

    /// Closes one half of the connection, or both.
    ///
    /// ```
    /// use futures::AsyncReadExt;
    /// use filch_io::{Reactor, TcpListener, TcpStream};
    ///
    /// let reactor = Reactor::new()?;
    /// let pool = filch::Pool::builder().workers(1).driver(reactor.clone()).build()?;
    /// let listener = TcpListener::bind(&reactor, "127.0.0.1:0".parse()?)?;
    /// let address = listener.local_addr()?;
    /// let stream = pool.spawn_future(async move { TcpStream::connect(&reactor, address).await });
    /// let stream = stream.join()??; // the system has accepted it for the listener
    /// stream.shutdown(std::net::Shutdown::Write)?;
    /// let left = pool.spawn_future(async move {
    ///     let (mut accepted, _) = listener.accept().await?;
    ///     accepted.read_to_end(&mut Vec::new()).await
    /// });
    /// assert_eq!(left.join()??, 0); // the other end sends no more
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When it is closed already.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.inner.get_ref().shutdown(how)
    }

    fn poll_read_into(
        &self,
        cx: &mut Context<'_>,
        room: usize,
        mut read: impl FnMut(&net::TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let is_dry = |&size: &usize| SHORT_READS_ARE_LAST && 0 < size && size < room;
        self.inner.poll_read_all(cx, &mut read, is_dry)
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_read_into(cx, bytes.len(), |mut stream| stream.read(bytes))
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        let room = parts.iter().map(|part| part.len()).sum();
        self.poll_read_into(cx, room, |mut stream| stream.read_vectored(parts))
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.inner
            .poll_write_with(cx, |mut stream| stream.write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.inner
            .poll_write_with(cx, |mut stream| stream.write_vectored(parts))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.shutdown(Shutdown::Write) {
            // The other end was first.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Poll::Ready(Ok(())),
            closed => Poll::Ready(closed),
        }
    }
}
