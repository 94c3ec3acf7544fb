//! hyper's server over the streams of each system.

use super::load::{BODY, COMPUTE};
use futures_lite::{AsyncRead, AsyncWrite};
use http_body_util::Full;
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    rt::ReadBufCursor,
    server::conn::http1,
    service::service_fn,
};
use std::{
    convert::Infallible,
    io::{self, IoSlice},
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

/// The size of the buffer for a request.
const BUFFER: usize = 8192;

/// The connection type of a system.
pub(super) trait Stream: Unpin + Send + 'static {
    fn read(&mut self, cx: &mut Context<'_>, bytes: &mut [u8]) -> Poll<io::Result<usize>>;
    fn write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;
    fn write_parts(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>>;
    fn close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}

/// A stream with the traits of `futures-io`: that of filch-io and of async-io.
pub(super) struct Common<S>(pub(super) S);

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for Common<S> {
    fn read(&mut self, cx: &mut Context<'_>, bytes: &mut [u8]) -> Poll<io::Result<usize>> {
        pin!(&mut self.0).poll_read(cx, bytes)
    }

    fn write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        pin!(&mut self.0).poll_write(cx, bytes)
    }

    fn write_parts(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        pin!(&mut self.0).poll_write_vectored(cx, parts)
    }

    fn close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        pin!(&mut self.0).poll_close(cx)
    }
}

impl Stream for tokio::net::TcpStream {
    fn read(&mut self, cx: &mut Context<'_>, bytes: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut room = ReadBuf::new(bytes);
        ready!(pin!(self).poll_read(cx, &mut room))?;
        Poll::Ready(Ok(room.filled().len()))
    }

    fn write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        pin!(self).poll_write(cx, bytes)
    }

    fn write_parts(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        pin!(self).poll_write_vectored(cx, parts)
    }

    fn close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        pin!(self).poll_shutdown(cx)
    }
}

/// The stream adapter for hyper, the same for all systems. Reads are copied, which costs some 10 ns
/// per request.
struct Io<S> {
    stream: S,
    buffer: Box<[u8]>,
}

impl<S: Stream> hyper::rt::Read for Io<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut room: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, buffer } = self.get_mut();
        let most = room.remaining().min(buffer.len());
        let size = ready!(stream.read(cx, &mut buffer[..most]))?;
        room.put_slice(&buffer[..size]);
        Poll::Ready(Ok(()))
    }
}

impl<S: Stream> hyper::rt::Write for Io<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().stream.write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().stream.close(cx)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().stream.write_parts(cx, parts)
    }
}

/// Serves one connection until it is closed. `compute` does the CPU work of requests that request
/// it.
pub(super) async fn serve<F: Future<Output = ()> + Send>(
    stream: impl Stream,
    compute: impl Fn() -> F + Send + Sync,
) {
    let answer = async |request: Request<Incoming>| {
        if request.uri().path() == COMPUTE {
            compute().await;
        }
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(
            BODY.as_bytes(),
        ))))
    };
    let io = Io {
        stream,
        buffer: vec![0; BUFFER].into(),
    };
    // The load closes connections in the middle of a request, so errors are ignored.
    let _ = http1::Builder::new()
        .serve_connection(io, service_fn(answer))
        .await;
}
