//! Logs: what an operator should know on stderr, one line a request on stdout.
//!
//! Pingora logs through the `log` crate, which nothing here listens to: its lines hold raw request bytes, among
//! which a session id may be. What operators need of them is logged by the gateway in its own words.

use std::io::Write;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, channel, sync_channel};
use std::time::Duration;

use tracing_subscriber::filter::LevelFilter;

use super::settings::{Format, Level, Settings};

/// Access lines that wait for a slow stdout; further ones are dropped and counted.
const LINES_MAX: usize = 16 << 10;

/// How long the end of a process waits for its last lines.
const FLUSH: Duration = Duration::from_secs(1);

/// Bytes that one write to stdout gathers.
const WRITE_BYTES: usize = 64 << 10;

/// Starts the log on stderr. To be called once, before anything is logged.
pub fn start(settings: Settings) {
    let level = match settings.level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    };
    let log = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).with_target(false);
    // A second start in one process keeps the first log, which is what tests of the library want.
    let _ = match settings.format {
        Format::Json => log.json().flatten_event(true).try_init(),
        Format::Text => log.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).try_init(),
    };
}

/// Writes access lines to stdout from a thread of its own, so that no request waits for a terminal or a pipe.
#[derive(Debug, Clone)]
pub struct AccessLog {
    lines: Option<SyncSender<Entry>>,
}

#[derive(Debug)]
enum Entry {
    Line(String),
    /// Everything before is to be written, and then this said.
    Flush(std::sync::mpsc::Sender<()>),
}

impl AccessLog {
    /// An access log on stdout, or none where the settings say so.
    pub fn start(settings: Settings) -> Self {
        if !settings.access {
            return Self { lines: None };
        }
        let (lines, received) = sync_channel(LINES_MAX);
        let thread = std::thread::Builder::new().name("access-log".into()).stack_size(128 << 10);
        let started = thread.spawn(move || write(&received));
        Self { lines: started.is_ok().then_some(lines) }
    }

    /// Whether lines are wanted at all.
    pub fn is_on(&self) -> bool {
        self.lines.is_some()
    }

    /// Hands over one line without its line break; `false` where stdout is too slow and the line is lost.
    pub fn line(&self, line: String) -> bool {
        self.lines.as_ref().is_none_or(|lines| lines.try_send(Entry::Line(line)).is_ok())
    }

    /// Waits until everything is written, a second at most.
    pub fn flush(&self) {
        let (written, wait) = channel();
        if self.lines.as_ref().is_some_and(|lines| lines.try_send(Entry::Flush(written)).is_ok()) {
            // A stdout that nobody reads does not hold the end up.
            let _ = wait.recv_timeout(FLUSH);
        }
    }
}

fn write(entries: &Receiver<Entry>) {
    let mut buffer = Vec::with_capacity(WRITE_BYTES);
    let mut next = entries.recv().ok();
    while let Some(entry) = next.take() {
        let said = match entry {
            Entry::Line(line) => {
                buffer.extend_from_slice(line.as_bytes());
                buffer.push(b'\n');
                None
            }
            Entry::Flush(said) => Some(said),
        };
        let waiting = entries.try_recv();
        if waiting.is_err() || said.is_some() || buffer.len() >= WRITE_BYTES {
            // A closed stdout must not end the gateway.
            let mut stdout = std::io::stdout().lock();
            let _ = stdout.write_all(&buffer).and_then(|()| stdout.flush());
            buffer.clear();
        }
        if let Some(said) = said {
            let _ = said.send(());
        }
        next = match waiting {
            Ok(entry) => Some(entry),
            Err(TryRecvError::Empty) => entries.recv().ok(),
            Err(TryRecvError::Disconnected) => None,
        };
    }
}
