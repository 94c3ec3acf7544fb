//! A source of events, and the futures that wait for it.
//!
//! The selector reports changes only (edge-triggered), so that a source is registered once. A
//! [`Direction`] remembers that the source is ready until an operation would block. An event that
//! comes between that operation and the moment when it is noted must not be forgotten, so events
//! are counted: an operation that would block clears the readiness that it began with, and no later
//! one. (So does tokio's `ScheduledIo`.)

use crate::Reactor;
use filch::future::poll_cooperative;
use mio::event::{Event, Source};
use std::{
    fmt, io,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker, ready},
};

/// Reading or writing.
#[derive(Debug, Default)]
pub(crate) struct Direction(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    ready: bool,
    /// The other end will send no more, or takes no more: it stays ready. The system reports this
    /// once, perhaps together with the last bytes.
    closed: bool,
    /// How many events there were.
    events: u64,
    /// The futures that wait: one mostly.
    waiting: Vec<Waker>,
}

/// What is known of a source.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    pub(crate) read: Direction,
    pub(crate) write: Direction,
}

impl Readiness {
    /// Notes an event, and appends the wakers of the futures that wait for it to `ready`.
    pub(crate) fn set(&self, event: &Event, ready: &mut Vec<Waker>) {
        let failed = event.is_error();
        let closed = event.is_read_closed() || failed;
        if event.is_readable() || closed {
            self.read.set(closed, ready);
        }
        let closed = event.is_write_closed() || failed;
        if event.is_writable() || closed {
            self.write.set(closed, ready);
        }
    }
}

impl Direction {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, closed: bool, ready: &mut Vec<Waker>) {
        let mut state = self.lock();
        state.ready = true;
        state.closed |= closed;
        state.events += 1;
        ready.append(&mut state.waiting);
    }

    /// The number of the last event, when the source is ready. Else the future is woken by the next
    /// event.
    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<u64> {
        let mut state = self.lock();
        if state.ready {
            return Poll::Ready(state.events);
        }
        if !state
            .waiting
            .iter()
            .any(|waker| waker.will_wake(cx.waker()))
        {
            state.waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// The source is not ready any more, if there was no event after that with the number `event`.
    fn clear(&self, event: u64) {
        let mut state = self.lock();
        if state.events == event && !state.closed {
            state.ready = false;
        }
    }
}

/// A source of mio's whose operations can be awaited.
///
/// ```
/// use filch_io::{Async, Reactor};
/// use mio::net::UdpSocket;
///
/// let reactor = Reactor::new()?;
/// let pool = filch::Pool::builder().workers(1).driver(reactor.clone()).build()?;
/// let bind = || UdpSocket::bind("127.0.0.1:0".parse().unwrap());
/// let (here, there) = (Async::new(&reactor, bind()?)?, bind()?);
/// there.send_to(b"hello", here.get_ref().local_addr()?)?;
/// let size = pool.spawn_future(async move { here.read_with(|socket| socket.recv(&mut [0; 8])).await });
/// assert_eq!(size.join()??, 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Async<S: Source> {
    source: S,
    number: usize,
    readiness: std::sync::Arc<Readiness>,
    reactor: Reactor,
}

impl<S: Source> Async<S> {
    /// Registers `source`, which must be non-blocking.
    ///
    /// ```
    /// use filch_io::{Async, Reactor};
    /// use mio::net::UdpSocket;
    ///
    /// let reactor = Reactor::new()?;
    /// let socket = Async::new(&reactor, UdpSocket::bind("127.0.0.1:0".parse()?)?)?;
    /// assert_ne!(socket.get_ref().local_addr()?.port(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When the system refuses it, since it is registered already for example.
    pub fn new(reactor: &Reactor, mut source: S) -> io::Result<Self> {
        let (number, readiness) = reactor.register(&mut source)?;
        Ok(Self {
            source,
            number,
            readiness,
            reactor: reactor.clone(),
        })
    }

    /// The source itself.
    ///
    /// ```
    /// use filch_io::{Async, Reactor};
    /// use mio::net::UdpSocket;
    ///
    /// let reactor = Reactor::new()?;
    /// let socket = Async::new(&reactor, UdpSocket::bind("127.0.0.1:0".parse()?)?)?;
    /// socket.get_ref().set_ttl(3)?;
    /// assert_eq!(socket.get_ref().ttl()?, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_ref(&self) -> &S {
        &self.source
    }

    /// The reactor that it is registered with.
    ///
    /// ```
    /// use filch_io::{Async, Reactor};
    /// use mio::net::UdpSocket;
    ///
    /// let bind = || UdpSocket::bind("127.0.0.1:0".parse().unwrap());
    /// let first = Async::new(&Reactor::new()?, bind()?)?;
    /// let second = Async::new(first.reactor(), bind()?)?; // served by the same worker
    /// # drop(second);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reactor(&self) -> &Reactor {
        &self.reactor
    }

    /// Calls `operation`, which reads, until it would not block.
    ///
    /// ```
    /// use filch_io::{Async, Reactor};
    /// use mio::net::UdpSocket;
    ///
    /// let reactor = Reactor::new()?;
    /// let pool = filch::Pool::builder().workers(1).driver(reactor.clone()).build()?;
    /// let bind = || UdpSocket::bind("127.0.0.1:0".parse().unwrap());
    /// let (here, there) = (Async::new(&reactor, bind()?)?, bind()?);
    /// let address = here.get_ref().local_addr()?;
    /// let received = pool.spawn_future(async move {
    ///     let mut bytes = [0; 8];
    ///     let size = here.read_with(|socket| socket.recv(&mut bytes)).await?;
    ///     Ok::<_, std::io::Error>(bytes[..size].to_vec())
    /// });
    /// there.send_to(b"hello", address)?;
    /// assert_eq!(received.join()??, b"hello");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of `operation`.
    pub async fn read_with<R>(
        &self,
        mut operation: impl FnMut(&S) -> io::Result<R>,
    ) -> io::Result<R> {
        std::future::poll_fn(|cx| self.poll_read_with(cx, &mut operation)).await
    }

    /// Calls `operation`, which writes, until it would not block.
    ///
    /// ```
    /// use filch_io::{Async, Reactor};
    /// use mio::net::UdpSocket;
    ///
    /// let reactor = Reactor::new()?;
    /// let pool = filch::Pool::builder().workers(1).driver(reactor.clone()).build()?;
    /// let bind = || UdpSocket::bind("127.0.0.1:0".parse().unwrap());
    /// let (here, there) = (Async::new(&reactor, bind()?)?, bind()?);
    /// let address = there.local_addr()?;
    /// let sent = pool.spawn_future(async move {
    ///     here.write_with(|socket| socket.send_to(b"hello", address)).await
    /// });
    /// assert_eq!(sent.join()??, 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of `operation`.
    pub async fn write_with<R>(
        &self,
        mut operation: impl FnMut(&S) -> io::Result<R>,
    ) -> io::Result<R> {
        std::future::poll_fn(|cx| self.poll_write_with(cx, &mut operation)).await
    }

    /// [`read_with`](Self::read_with) as a poll.
    ///
    /// ```
    /// use filch_io::{Async, Reactor};
    /// use mio::net::UdpSocket;
    /// use std::future::poll_fn;
    ///
    /// let reactor = Reactor::new()?;
    /// let pool = filch::Pool::builder().workers(1).driver(reactor.clone()).build()?;
    /// let bind = || UdpSocket::bind("127.0.0.1:0".parse().unwrap());
    /// let (here, there) = (Async::new(&reactor, bind()?)?, bind()?);
    /// there.send_to(b"hello", here.get_ref().local_addr()?)?;
    /// let size = pool.spawn_future(async move {
    ///     poll_fn(|cx| here.poll_read_with(cx, |socket| socket.recv(&mut [0; 8]))).await
    /// });
    /// assert_eq!(size.join()??, 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of `operation`.
    pub fn poll_read_with<R>(
        &self,
        cx: &mut Context<'_>,
        operation: impl FnMut(&S) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.poll_with(&self.readiness.read, cx, operation, |_| false)
    }

    /// [`write_with`](Self::write_with) as a poll.
    ///
    /// ```
    /// use filch_io::{Async, Reactor};
    /// use mio::net::UdpSocket;
    /// use std::future::poll_fn;
    ///
    /// let reactor = Reactor::new()?;
    /// let pool = filch::Pool::builder().workers(1).driver(reactor.clone()).build()?;
    /// let bind = || UdpSocket::bind("127.0.0.1:0".parse().unwrap());
    /// let (here, there) = (Async::new(&reactor, bind()?)?, bind()?);
    /// let address = there.local_addr()?;
    /// let sent = pool.spawn_future(async move {
    ///     poll_fn(|cx| here.poll_write_with(cx, |socket| socket.send_to(b"hello", address))).await
    /// });
    /// assert_eq!(sent.join()??, 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of `operation`.
    pub fn poll_write_with<R>(
        &self,
        cx: &mut Context<'_>,
        operation: impl FnMut(&S) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.poll_with(&self.readiness.write, cx, operation, |_| false)
    }

    /// [`poll_read_with`](Self::poll_read_with) that knows whether nothing is `left` to be read:
    /// then the next read need not try.
    pub(crate) fn poll_read_all<R>(
        &self,
        cx: &mut Context<'_>,
        operation: impl FnMut(&S) -> io::Result<R>,
        is_dry: impl Fn(&R) -> bool,
    ) -> Poll<io::Result<R>> {
        self.poll_with(&self.readiness.read, cx, operation, is_dry)
    }

    fn poll_with<R>(
        &self,
        direction: &Direction,
        cx: &mut Context<'_>,
        operation: impl FnMut(&S) -> io::Result<R>,
        is_dry: impl Fn(&R) -> bool,
    ) -> Poll<io::Result<R>> {
        poll_cooperative(cx, |cx| self.poll_now(direction, cx, operation, is_dry))
    }

    /// Tries `operation` until the source is not ready.
    fn poll_now<R>(
        &self,
        direction: &Direction,
        cx: &mut Context<'_>,
        mut operation: impl FnMut(&S) -> io::Result<R>,
        is_dry: impl Fn(&R) -> bool,
    ) -> Poll<io::Result<R>> {
        loop {
            let event = ready!(direction.poll_ready(cx));
            match operation(&self.source) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => direction.clear(event),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(value) => {
                    if is_dry(&value) {
                        direction.clear(event);
                    }
                    return Poll::Ready(Ok(value));
                }
                error => return Poll::Ready(error),
            }
        }
    }
}

impl<S: Source> Drop for Async<S> {
    fn drop(&mut self) {
        self.reactor.deregister(&mut self.source, self.number);
    }
}

impl<S: Source + fmt::Debug> fmt::Debug for Async<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Async").field(&self.source).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{Async, Direction};
    use crate::Reactor;
    use std::{
        io,
        task::{Context, Poll, Waker},
        time::Duration,
    };

    #[test]
    fn an_event_during_an_operation_is_not_cleared_by_it() {
        let (direction, mut woken) = (Direction::default(), Vec::new());
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(direction.poll_ready(cx).is_pending());
        direction.set(false, &mut woken);
        assert_eq!(woken.len(), 1);
        let Poll::Ready(before) = direction.poll_ready(cx) else {
            panic!("not ready after an event");
        };
        // It would block, but then there is another event.
        direction.set(false, &mut woken);
        direction.clear(before);
        assert_eq!(direction.poll_ready(cx), Poll::Ready(before + 1));
        direction.clear(before + 1);
        assert!(direction.poll_ready(cx).is_pending());
    }

    #[test]
    fn a_closed_source_stays_ready() {
        let (direction, mut woken) = (Direction::default(), Vec::new());
        let cx = &mut Context::from_waker(Waker::noop());
        direction.set(true, &mut woken);
        direction.clear(1);
        assert!(direction.poll_ready(cx).is_ready());
    }

    #[test]
    fn a_timeout_ends_what_is_always_ready() -> Result<(), Box<dyn std::error::Error>> {
        let reactor = Reactor::new()?;
        let pool = filch::Pool::builder()
            .workers(1)
            .driver(reactor.clone())
            .build()?;
        let socket = mio::net::UdpSocket::bind("127.0.0.1:0".parse()?)?;
        let socket = Async::new(&reactor, socket)?;
        let endless = async move {
            loop {
                socket.write_with(|_| io::Result::Ok(())).await.unwrap();
            }
        };
        let ended = pool.spawn_future(filch::time::timeout(Duration::from_millis(1), endless));
        assert!(ended.join()?.is_err());
        Ok(())
    }
}
