//! `Downstream`: a caller's HTTP/1 connection, of which Pingora sees one request at a time.
//!
//! Pingora reads heads leniently, without a deadline, and may read past the end of a request. So the bytes of
//! a connection stay here: [`Downstream::next_request`] takes a head and judges it, and what Pingora then reads
//! ends exactly where that request does. Bytes of the next request wait in a small buffer, which is how
//! pipelining works, and a connection that the caller has closed is still noticed while a reply is under way.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Buf, BytesMut};
use pingora::protocols::l4::socket::SocketAddr;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::{
    ALPN, GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, TimingDigest, UniqueID,
    UniqueIDType,
};
use pingora::time::timeout;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufWriter, ReadBuf, Take};

use super::arrival::Arrival;
use super::chunked::Chunked;
use super::head::{self, Framing, Refused};

/// What opens an HTTP/2 connection without TLS (RFC 9113, section 3.4).
const H2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes that one read asks for, and that wait here of a request to come.
const READ_BYTES: usize = 8 << 10;

/// Bytes of an answer that are held until they are flushed.
const WRITE_BYTES: usize = 4 << 10;

/// What a caller sends next.
#[derive(Debug)]
pub(super) enum Next {
    /// A head that was judged; Pingora may read the request.
    Request,
    /// The preface of HTTP/2; Pingora may read everything.
    Http2,
    /// A head that is refused: answer and close.
    Refused(Refused),
    /// Half a head, for too long: answer and close.
    TimedOut,
    /// Nothing more.
    Closed,
}

/// Peer and listener; `None` on a unix socket.
pub(super) type Ends = (Option<SocketAddr>, Option<SocketAddr>);

/// How long a caller may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadlines {
    /// Until the first byte of the next request.
    pub idle: Duration,
    /// From there until the head is whole.
    pub head: Duration,
}

/// A connection and the bytes of it that nobody has taken yet.
pub(super) struct Downstream<S> {
    /// `Take` bounds a read to the body that is open.
    io: Take<BufWriter<S>>,
    id: UniqueIDType,
    digest: Arc<SocketDigest>,
    arrival: Option<Arc<ProxyDigest>>,
    /// Bytes that were read: the judged head in front, then of the body, then of the next request.
    buffer: BytesMut,
    /// What Pingora may take of `buffer` and of the connection.
    open: Open,
}

/// Where the request that Pingora reads ends.
#[derive(Debug, Clone, Copy)]
enum Open {
    /// So many bytes of the head, then the body.
    Head(usize, Framing),
    /// So many bytes of the body.
    Length(u64),
    /// A chunked body.
    Chunked(Chunked),
    /// Everything: the connection speaks HTTP/2.
    Http2,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Downstream<S> {
    /// `id` is the socket's descriptor; `ends` who is at the other end, and the address that listens.
    pub(super) fn new(io: S, id: UniqueIDType, (peer, local): Ends) -> Self {
        let digest = SocketDigest::from_raw_fd(id);
        // Set once here, or every request would ask the kernel. The listener's address also tells how public it is.
        let _ = digest.peer_addr.set(peer);
        let _ = digest.local_addr.set(local);
        Self {
            io: BufWriter::with_capacity(WRITE_BYTES, io).take(0),
            id,
            digest: Arc::new(digest),
            arrival: None,
            buffer: BytesMut::new(),
            open: Open::Length(0),
        }
    }

    /// These bytes of it were read already.
    pub(super) fn begun(mut self, bytes: &[u8]) -> Self {
        self.buffer.extend_from_slice(bytes);
        self
    }

    /// It came like this.
    pub(super) fn arrived(mut self, arrival: Arrival) -> Self {
        self.arrival = arrival.into_digest();
        self
    }

    /// The head that was judged last, before anybody has read it.
    pub(super) fn head(&self) -> &[u8] {
        match self.open {
            Open::Head(end, _) => self.buffer.get(..end).unwrap_or_default(),
            _ => &[],
        }
    }

    /// Waits for the next head and judges it. Only to be called when the request before is over.
    pub(super) async fn next_request(&mut self, deadlines: Deadlines) -> Next {
        if self.buffer.is_empty() {
            // Pingora's clock ticks every 10 ms and costs a request next to nothing; a timer of tokio's wakes its runtime.
            match timeout(deadlines.idle, self.fill()).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false) | Err(_)) | Err(_) => return Next::Closed,
            }
        }
        match timeout(deadlines.head, self.read_head()).await {
            Ok(Ok(next)) => next,
            Ok(Err(_)) => Next::Closed,
            Err(_) => Next::TimedOut,
        }
    }

    async fn read_head(&mut self) -> io::Result<Next> {
        let mut seen = 0;
        loop {
            // RFC 9112, section 2.2: an empty line before a request is skipped.
            while self.buffer.starts_with(b"\r\n") {
                self.buffer.advance(2);
            }
            if H2_PREFACE.starts_with(self.buffer.get(..H2_PREFACE.len()).unwrap_or(&self.buffer)) {
                if self.buffer.len() >= H2_PREFACE.len() {
                    self.open = Open::Http2;
                    return Ok(Next::Http2);
                }
            } else if let Some(end) = head::end_of_head(&self.buffer, seen) {
                return Ok(match head::check(self.buffer.get(..end).unwrap_or_default()) {
                    Ok(framing) => {
                        self.open = Open::Head(end, framing);
                        Next::Request
                    }
                    Err(refused) => Next::Refused(refused),
                });
            } else if let Some(refused) = head::over_limit(&self.buffer) {
                return Ok(Next::Refused(refused));
            }
            seen = self.buffer.len();
            if !self.fill().await? {
                return Ok(Next::Closed);
            }
        }
    }

    /// Reads once into the buffer; `false` at the end of the connection.
    async fn fill(&mut self) -> io::Result<bool> {
        self.buffer.reserve(READ_BYTES);
        Ok(self.io.get_mut().read_buf(&mut self.buffer).await? > 0)
    }

    /// Writes an answer and closes, giving the caller a moment to read it before the connection is gone.
    pub(super) async fn refuse(mut self, answer: &[u8]) {
        let linger = async {
            let io = self.io.get_mut();
            io.write_all(answer).await?;
            io.shutdown().await?;
            // Closing with unread bytes would reset the connection and could take the answer with it.
            let mut rest = [0; 1024];
            for _ in 0..LINGER_READS_MAX {
                if io.read(&mut rest).await? == 0 {
                    break;
                }
            }
            io::Result::Ok(())
        };
        let _ = timeout(LINGER, linger).await;
    }
}

/// How long a refused caller may take to read why.
const LINGER: Duration = Duration::from_secs(1);

/// Reads of 1 KiB that a refused caller's rest is drained by.
const LINGER_READS_MAX: usize = 256;

impl<S: AsyncRead + AsyncWrite + Unpin> Downstream<S> {
    /// Gives Pingora what it may have; `Ok(None)` where nothing of the request is left.
    fn poll_request(&mut self, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<Option<()>>> {
        loop {
            match &mut self.open {
                Open::Http2 | Open::Length(_) if !self.buffer.is_empty() => {
                    let most = if let Open::Length(left) = &self.open { *left } else { u64::MAX };
                    let taken = (self.buffer.len().min(out.remaining()) as u64).min(most) as usize;
                    if taken == 0 {
                        return Poll::Ready(Ok(None));
                    }
                    self.hand_over(taken, out);
                    if let Open::Length(left) = &mut self.open {
                        *left -= taken as u64;
                    }
                    return Poll::Ready(Ok(Some(())));
                }
                Open::Length(0) => return Poll::Ready(Ok(None)),
                Open::Length(left) => {
                    self.io.set_limit(*left);
                    ready!(Pin::new(&mut self.io).poll_read(cx, out))?;
                    *left = self.io.limit();
                    return Poll::Ready(Ok(Some(())));
                }
                Open::Http2 => {
                    self.io.set_limit(u64::MAX);
                    ready!(Pin::new(&mut self.io).poll_read(cx, out))?;
                    return Poll::Ready(Ok(Some(())));
                }
                Open::Head(left, framing) => {
                    let (left_now, framing) = (*left, *framing);
                    let taken = left_now.min(out.remaining());
                    self.hand_over(taken, out);
                    self.open = match (left_now - taken, framing) {
                        (0, Framing::Length(length)) => Open::Length(length),
                        (0, Framing::Chunked) => Open::Chunked(Chunked::new()),
                        (left, framing) => Open::Head(left, framing),
                    };
                    return Poll::Ready(Ok(Some(())));
                }
                Open::Chunked(chunked) if chunked.is_done() => return Poll::Ready(Ok(None)),
                Open::Chunked(chunked) => {
                    if self.buffer.is_empty() {
                        if !ready!(self.poll_fill(cx))? {
                            return Poll::Ready(Ok(Some(())));
                        }
                        continue;
                    }
                    let most = self.buffer.len().min(out.remaining());
                    let taken = chunked
                        .take(self.buffer.get(..most).unwrap_or_default())
                        .map_err(|malformed| io::Error::new(io::ErrorKind::InvalidData, malformed))?;
                    self.hand_over(taken, out);
                    return Poll::Ready(Ok(Some(())));
                }
            }
        }
    }

    fn hand_over(&mut self, count: usize, out: &mut ReadBuf<'_>) {
        out.put_slice(self.buffer.get(..count).unwrap_or_default());
        self.buffer.advance(count.min(self.buffer.len()));
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let mut space = [std::mem::MaybeUninit::uninit(); READ_BYTES];
        let mut read = ReadBuf::uninit(&mut space);
        ready!(Pin::new(self.io.get_mut()).poll_read(cx, &mut read))?;
        self.buffer.extend_from_slice(read.filled());
        Poll::Ready(Ok(!read.filled().is_empty()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Downstream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if ready!(self.poll_request(cx, out))?.is_some() {
            return Poll::Ready(Ok(()));
        }
        // The request is over, so only the connection's end is of interest; what else comes is the next request's.
        while self.buffer.len() < READ_BYTES {
            if !ready!(self.poll_fill(cx))? {
                return Poll::Ready(Ok(()));
            }
        }
        // A caller that sends this much ahead is not watched any further: a write will tell.
        Poll::Pending
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Downstream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(self.io.get_mut()).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self.io.get_mut()).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.get_ref().is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.io.get_mut()).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.io.get_mut()).poll_shutdown(cx)
    }
}

#[async_trait]
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Shutdown for Downstream<S> {
    async fn shutdown(&mut self) {
        let _ = AsyncWriteExt::shutdown(self.io.get_mut()).await;
    }
}

impl<S> UniqueID for Downstream<S> {
    fn id(&self) -> UniqueIDType {
        self.id
    }
}

impl<S> Ssl for Downstream<S> {
    fn selected_alpn_proto(&self) -> Option<ALPN> {
        matches!(self.open, Open::Http2).then_some(ALPN::H2)
    }
}

impl<S> GetTimingDigest for Downstream<S> {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        Vec::new()
    }
}

impl<S> GetProxyDigest for Downstream<S> {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        self.arrival.clone()
    }
}

impl<S> GetSocketDigest for Downstream<S> {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        Some(self.digest.clone())
    }
}

impl<S> Peek for Downstream<S> {}

impl<S> fmt::Debug for Downstream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Neither the bytes nor the peer: Pingora prints this into its own log.
        f.debug_struct("Downstream").field("id", &self.id).finish_non_exhaustive()
    }
}
