//! `Host`: the thread on which the connections to a server live. Requests come and go; what they asked for is done here.

use std::future::Future;
use std::io;
use std::sync::{Mutex, PoisonError};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

use super::DEADLINE;
use crate::store::StoreError;

pub(in crate::store) const CLOSED: StoreError = StoreError::Unavailable("it is closed");

/// The handle of the thread, which ends with it.
pub(in crate::store) struct Host {
    runtime: Mutex<Option<Runtime>>,
    handle: Handle,
}

impl Host {
    /// Starts the thread.
    pub(in crate::store) fn start(name: &str) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name(name).enable_all().build()?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Mutex::new(Some(runtime)) })
    }

    /// Does something there, whether somebody waits for it or not.
    pub(in crate::store) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.handle.spawn(work)
    }

    /// Does something there and waits for its end. Dropping the future cancels nothing.
    pub(in crate::store) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        match tokio::time::timeout(DEADLINE, self.spawn(work)).await {
            Ok(done) => done.unwrap_or(Err(CLOSED)),
            Err(_) => Err(StoreError::Unavailable("its server is too slow")),
        }
    }

    /// Ends the thread and all that it does.
    pub(in crate::store) fn stop(&self) {
        if let Some(runtime) = self.runtime.lock().unwrap_or_else(PoisonError::into_inner).take() {
            runtime.shutdown_background();
        }
    }
}

/// A runtime may not be dropped where another one runs.
impl Drop for Host {
    fn drop(&mut self) {
        self.stop();
    }
}
