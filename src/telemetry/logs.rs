//! Logs: what an operator should know on stderr, one line a request on stdout.
//!
//! Pingora logs through the `log` crate, which nothing here listens to: its lines hold raw request bytes, among
//! which a session id may be. What operators need of them is logged by the gateway in its own words.

use std::io::Write;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

use tracing_subscriber::filter::LevelFilter;

use super::settings::{Format, Level, Settings};

/// Access lines that wait for a slow stdout; further ones are dropped and counted.
const LINES_MAX: usize = 16 << 10;

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
    lines: Option<SyncSender<String>>,
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
        self.lines.as_ref().is_none_or(|lines| lines.try_send(line).is_ok())
    }
}

fn write(lines: &Receiver<String>) {
    let mut buffer = Vec::with_capacity(WRITE_BYTES);
    let mut next = lines.recv().ok();
    while let Some(line) = next.take() {
        buffer.extend_from_slice(line.as_bytes());
        buffer.push(b'\n');
        next = match lines.try_recv() {
            Ok(line) if buffer.len() < WRITE_BYTES => Some(line),
            other => {
                // A closed stdout must not end the gateway.
                let mut stdout = std::io::stdout().lock();
                let _ = stdout.write_all(&buffer).and_then(|()| stdout.flush());
                buffer.clear();
                match other {
                    Ok(line) => Some(line),
                    Err(TryRecvError::Empty) => lines.recv().ok(),
                    Err(TryRecvError::Disconnected) => None,
                }
            }
        };
    }
}
