//! Who waits for a reply: a caller, or nobody.

use bytes::Bytes;
use pingora::proxy::Session;

use crate::gateway::ctx::RequestCtx;
use crate::gateway::respond::{self, Failed};

/// What a conversation needs to know of those it is for.
pub(super) trait Audience: Send {
    /// Comes back when nobody waits any more.
    fn gone(&mut self) -> impl Future<Output = ()> + Send;

    /// Writes frames of a stream, with its head in front of the first ones.
    fn write(&mut self, frames: Bytes) -> impl Future<Output = Result<(), Failed>> + Send;
}

/// A caller on its connection.
pub(super) struct Caller<'a> {
    pub session: &'a mut Session,
    pub ctx: &'a mut RequestCtx,
    opened: bool,
}

impl<'a> Caller<'a> {
    pub(super) fn new(session: &'a mut Session, ctx: &'a mut RequestCtx) -> Self {
        Self { session, ctx, opened: false }
    }

    /// Writes the last frames and ends the stream.
    pub(super) async fn end(&mut self, frames: Bytes) -> Result<(), Failed> {
        self.open().await?;
        respond::write_frames(self.session, frames, true).await
    }

    async fn open(&mut self) -> Result<(), Failed> {
        if std::mem::replace(&mut self.opened, true) {
            return Ok(());
        }
        respond::open_stream(self.session, self.ctx).await
    }
}

impl Audience for Caller<'_> {
    async fn gone(&mut self) {
        // Whatever a caller sends now is the next request's and waits in front of Pingora, so only its end is seen.
        let _ = self.session.downstream_session.read_body_or_idle(true).await;
    }

    async fn write(&mut self, frames: Bytes) -> Result<(), Failed> {
        self.open().await?;
        respond::write_frames(self.session, frames, false).await
    }
}

/// Nobody: the answer is kept for later.
pub(super) struct Nobody;

impl Audience for Nobody {
    async fn gone(&mut self) {
        std::future::pending::<()>().await;
    }

    async fn write(&mut self, _: Bytes) -> Result<(), Failed> {
        Ok(())
    }
}
