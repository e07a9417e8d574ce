//! `run`: the gateway beside the service that it stands before, as one process to whoever started it.

use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{Pid, Signal, getpid, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use super::process::Start;
use super::{ConfigFile, Fault, complain, source};
use crate::config::{Config, Source};

/// How long a service that was asked to end may take.
const FAREWELL: Duration = Duration::from_secs(10);

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Start a service, wait until it listens, and serve before it; ends when it ends, with its exit code.
///
/// Example: restap-gateway run -c gateway.yaml -- python3 app.py
#[derive(Debug, Args)]
pub(super) struct Run {
    #[command(flatten)]
    file: ConfigFile,
    /// How long the service may take until it listens where the configuration's upstreams on this machine are.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    patience: u64,
    /// The service's program and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// The service, and how it ended.
#[derive(Clone)]
struct Service {
    child: Arc<Mutex<Child>>,
    pid: Pid,
}

impl Run {
    pub(super) fn run(&self) -> Result<ExitCode, Fault> {
        let (config, origin) = source::open(Source::file(&self.file.config))?;
        let service = Service::start(&self.command)?;
        let outcome = service.beside(&config, Duration::from_secs(self.patience)).and_then(|listening| {
            if listening {
                super::process::run(config, origin, Start::default(), |base| complain(&format!("serving on {base}")))?;
            }
            Ok(())
        });
        let ended = service.end();
        outcome?;
        Ok(ended)
    }
}

impl Service {
    fn start(command: &[OsString]) -> Result<Self, Fault> {
        let (program, arguments) = command.split_first().ok_or_else(|| Fault::new("there is no command to run"))?;
        // A group of its own: an interrupt from the terminal ends the requests first.
        let child = Command::new(program).args(arguments).process_group(0).spawn();
        let child = child.map_err(|error| Fault(format!("{} can't be started: {error}", program.display())))?;
        let pid = Pid::from_child(&child);
        Ok(Self { child: Arc::new(Mutex::new(child)), pid })
    }

    /// Waits until it listens, and has the gateway end when it ends; false where it is over already, or is to be.
    fn beside(&self, config: &Config, patience: Duration) -> Result<bool, Fault> {
        let (asked_to_end, ended) = std::sync::mpsc::channel();
        let service = self.clone();
        std::thread::Builder::new()
            .name("service".into())
            .spawn(move || service.forward(&asked_to_end))
            .map_err(Fault::new)?;
        let deadline = Instant::now() + patience;
        for address in local(config) {
            while TcpStream::connect_timeout(&address, LOOK).is_err() {
                if self.status().is_some() {
                    complain("the service has ended before it listened");
                    return Ok(false);
                }
                if ended.try_recv().is_ok() {
                    return Ok(false);
                }
                if Instant::now() > deadline {
                    let seconds = patience.as_secs();
                    return Err(Fault(format!(
                        "the service does not listen on {address} after {seconds} s; see --patience"
                    )));
                }
                std::thread::sleep(LOOK);
            }
        }
        let service = self.clone();
        std::thread::Builder::new()
            .name("service-end".into())
            .spawn(move || {
                while service.status().is_none() {
                    std::thread::sleep(LOOK);
                }
                // As if somebody had asked the gateway to end.
                let _ = kill_process(getpid(), Signal::TERM);
            })
            .map_err(Fault::new)?;
        Ok(true)
    }

    /// Passes on what is meant for the service alone, and tells of what ends both: the gateway's requests end first.
    fn forward(&self, asked_to_end: &std::sync::mpsc::Sender<()>) {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        let listening: io::Result<()> = runtime.block_on(async {
            let mut end = signal(SignalKind::terminate())?;
            let mut interrupt = signal(SignalKind::interrupt())?;
            let mut quit = signal(SignalKind::quit())?;
            let mut user = signal(SignalKind::user_defined1())?;
            loop {
                tokio::select! {
                    _ = end.recv() => drop(asked_to_end.send(())),
                    _ = interrupt.recv() => drop(asked_to_end.send(())),
                    _ = quit.recv() => self.tell(Signal::QUIT),
                    _ = user.recv() => self.tell(Signal::USR1),
                }
            }
        });
        if let Err(error) = listening {
            complain(&format!("signals can't be passed on: {error}"));
        }
    }

    /// Asks it to end, where it has not, and says how it did.
    fn end(&self) -> ExitCode {
        if let Some(status) = self.status() {
            return code(status);
        }
        self.tell(Signal::TERM);
        let deadline = Instant::now() + FAREWELL;
        loop {
            match self.status() {
                // It went as it was told.
                Some(status) if status.signal() == Some(Signal::TERM.as_raw()) => return ExitCode::SUCCESS,
                Some(status) => return code(status),
                None if Instant::now() > deadline => {
                    complain("the service does not end and is killed");
                    let _ = self.child.lock().unwrap_or_else(PoisonError::into_inner).kill();
                    return ExitCode::FAILURE;
                }
                None => std::thread::sleep(LOOK),
            }
        }
    }

    fn status(&self) -> Option<ExitStatus> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner).try_wait().ok().flatten()
    }

    fn tell(&self, signal: Signal) {
        if self.status().is_none() {
            let _ = kill_process(self.pid, signal);
        }
    }
}

/// As shells have it.
fn code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// Where the configuration expects something on this machine.
fn local(config: &Config) -> Vec<SocketAddr> {
    let urls = config
        .upstreams
        .values()
        .flat_map(|one| std::iter::once(&one.url).chain(one.servers.iter().map(|server| &server.url)));
    let addresses = urls.filter_map(|url| {
        let host = match &*url.origin.host {
            "localhost" => Ipv4Addr::LOCALHOST.into(),
            host => {
                host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().ok().filter(std::net::IpAddr::is_loopback)?
            }
        };
        Some(SocketAddr::new(host, url.origin.port))
    });
    let mut addresses: Vec<SocketAddr> = addresses.collect();
    addresses.sort();
    addresses.dedup();
    addresses
}
