//! Logs: what an operator should know on stderr, one line a request on stdout.
//!
//! Pingora logs through the `log` crate, which nothing here listens to: its lines hold raw request bytes, among
//! which a session id may be. What operators need of them is logged by the gateway in its own words.

use std::io::Write;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, channel, sync_channel};
use std::time::Duration;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Layered, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry, reload};

use super::settings::{Format, Level, Settings};

/// Access lines that wait for a slow stdout; further ones are dropped and counted.
const LINES_MAX: usize = 16 << 10;

/// How long the end of a process waits for its last lines.
const FLUSH: Duration = Duration::from_secs(1);

/// Bytes that one write to stdout gathers.
const WRITE_BYTES: usize = 64 << 10;

/// How the log is changed while it runs.
static CONTROLS: OnceLock<Controls> = OnceLock::new();

type Lines = Box<dyn Layer<Layered<reload::Layer<LevelFilter, Registry>, Registry>> + Send + Sync>;

struct Controls {
    level: reload::Handle<LevelFilter, Registry>,
    lines: reload::Handle<Lines, Layered<reload::Layer<LevelFilter, Registry>, Registry>>,
}

/// Starts the log on stderr. To be called once, before anything is logged.
pub fn start(settings: Settings) {
    let (level, level_control) = reload::Layer::new(level(settings.level));
    let (lines, lines_control) = reload::Layer::new(lines(settings.format));
    // A second start in one process keeps the first log, which is what tests of the library want.
    if tracing_subscriber::registry().with(level).with(lines).try_init().is_ok() {
        let _ = CONTROLS.set(Controls { level: level_control, lines: lines_control });
    }
}

/// Goes on with these settings.
pub fn adjust(settings: Settings) {
    let Some(controls) = CONTROLS.get() else { return };
    // They fail only where the log is gone, and then there is nobody to tell.
    let _ = controls.level.reload(level(settings.level));
    let _ = controls.lines.reload(lines(settings.format));
}

fn level(level: Level) -> LevelFilter {
    match level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    }
}

fn lines(format: Format) -> Lines {
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false);
    match format {
        Format::Json => lines.json().flatten_event(true).boxed(),
        Format::Text => lines.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).boxed(),
    }
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
    /// An access log on stdout.
    pub fn start() -> Self {
        let (lines, received) = sync_channel(LINES_MAX);
        let thread = std::thread::Builder::new().name("access-log".into()).stack_size(128 << 10);
        let started = thread.spawn(move || write(&received));
        Self { lines: started.is_ok().then_some(lines) }
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
