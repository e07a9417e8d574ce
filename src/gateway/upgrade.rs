//! Upgrade: another process, of whatever is installed now, takes the sockets; this one lets its requests end.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tracing::{error, info};

use super::drain::Drain;
use crate::front::{Channel, Listen, Listener};
use crate::telemetry::supervisor;

/// How long the new process may take until it serves. One with thousands of agents needs seconds.
const PATIENCE: Duration = Duration::from_mins(1);

/// Tells a process that its predecessor is at its standard input.
const TAKE_OVER: &str = "--take-over";

/// How this program was started: what is started again. To be made before anything can replace the program's file.
#[derive(Debug, Clone)]
pub struct Program {
    path: PathBuf,
    arguments: Vec<OsString>,
}

impl Program {
    /// The program and the arguments of this process.
    pub fn of_this_process() -> io::Result<Self> {
        let arguments = std::env::args_os().skip(1).filter(|argument| argument != TAKE_OVER).collect();
        Ok(Self { path: std::env::current_exe()?, arguments })
    }
}

/// Has another process take over.
#[derive(Clone)]
pub struct Upgrade {
    shared: Arc<Shared>,
}

struct Shared {
    program: Option<Program>,
    drain: Drain,
    /// What is handed over; another process takes its place at most once.
    sockets: Mutex<Vec<(Listen, Listener)>>,
    done: watch::Sender<bool>,
    starting: Mutex<()>,
}

impl Upgrade {
    pub(super) fn new(program: Option<Program>, drain: Drain) -> Self {
        let shared = Shared {
            program,
            drain,
            sockets: Mutex::default(),
            done: watch::Sender::new(false),
            starting: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Has this socket handed over too.
    pub fn hand_over(&self, listen: &Listen, listener: &Listener) -> io::Result<()> {
        let socket = (listen.clone(), listener.share()?);
        self.sockets().push(socket);
        Ok(())
    }

    /// Becomes `true` when another process has taken over.
    pub fn done(&self) -> watch::Receiver<bool> {
        self.shared.done.subscribe()
    }

    /// Whether another process has taken over.
    pub fn is_done(&self) -> bool {
        *self.shared.done.borrow()
    }

    /// Starts the new process, and waits until it serves: its pid. An error is why this one goes on alone.
    pub async fn now(&self) -> Result<u32, String> {
        let this = self.clone();
        let started = tokio::task::spawn_blocking(move || this.start()).await;
        let outcome = started.unwrap_or_else(|_| Err("the upgrade failed inside the gateway".to_owned()));
        if let Err(why) = &outcome {
            error!("no other process takes over, this one goes on: {why}");
        }
        outcome
    }

    /// Lets go of the sockets: nobody waits in the kernel for a process that stops.
    pub(super) fn close(&self) {
        self.sockets().clear();
    }

    fn start(&self) -> Result<u32, String> {
        // One at a time; and nobody who stops the process has to wait for it.
        let Ok(_alone) = self.shared.starting.try_lock() else {
            return Err("another upgrade is under way".to_owned());
        };
        if *self.shared.drain.stopping().borrow() || self.is_done() {
            return Err("this process is stopping already; ask the one that has taken its place".to_owned());
        }
        let program = self.shared.program.as_ref().ok_or("this process was not started as a program of its own")?;
        let failed = |error: io::Error| error.to_string();
        let (channel, other) = Channel::pair().map_err(failed)?;
        let mut command = Command::new(&program.path);
        command.args(&program.arguments).arg(TAKE_OVER).stdin(Stdio::from(other));
        let shared = self.sockets().iter().map(|(listen, listener)| Ok((listen.clone(), listener.share()?))).collect();
        let sockets: Vec<(Listen, Listener)> = io::Result::<Vec<_>>::map_err(shared, failed)?;
        let mut child = command.spawn().map_err(|error| format!("{}: {error}", program.path.display()))?;
        // The other end is the child's alone from here on, so that its death is seen.
        drop(command);
        let handed: Vec<(&Listen, BorrowedFd<'_>)> =
            sockets.iter().map(|(listen, listener)| (listen, listener.as_fd())).collect();
        let sent = channel.send(&handed);
        // One that has ended before it took them has said why.
        let serving = channel.wait(PATIENCE).and_then(|()| sent.map_err(failed));
        if let Err(why) = serving {
            let _ = child.kill();
            let _ = child.wait();
            return Err(why);
        }
        let pid = child.id();
        supervisor::tell(&format!("MAINPID={pid}\nREADY=1"));
        info!("process {pid} has taken over");
        self.shared.done.send_replace(true);
        Ok(pid)
    }

    fn sockets(&self) -> std::sync::MutexGuard<'_, Vec<(Listen, Listener)>> {
        self.shared.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
