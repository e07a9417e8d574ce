//! Reload: the file is read again, and the next request sees what it says now.
//!
//! A configuration is loaded, checked and assembled as a whole beside the one in force, and takes its place with one
//! pointer swap; a file that can't be used changes nothing. Requests end on the configuration that they began with.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::signal::unix::Signal;
use tracing::{error, info, warn};

use super::Gateway;
use super::live::Live;
use crate::config::{self, Config, Look, Source, Sources};
use crate::front::HeaderTimeout;
use crate::net::Client;
use crate::store::NewsSettings;
use crate::telemetry::{Phase, logs};
use crate::yaml::{Diagnostic, Secret};

/// How often the files are looked at. A look at thousands of files takes a while: it rests fifty times as long.
const LOOK_PAUSE: Duration = Duration::from_millis(500);
const LOOK_REST: u32 = 50;

/// Files that change together are waited for: this long nothing more must have changed, but not for ever.
const SETTLED: Duration = Duration::from_millis(100);
const SETTLING_MAX: u32 = 50;

/// Changes that are logged one by one.
const LINES_MAX: usize = 100;

/// What a process was started with.
#[derive(Debug, Clone)]
pub struct Origin {
    /// Where it is read again from.
    pub source: Source,
    /// For `${NAME}`.
    pub environment: fn(&str) -> Option<String>,
    /// When reading began, and what was read.
    pub read_at: SystemTime,
    /// The files that the configuration was made of.
    pub sources: Sources,
}

/// What a reload has done.
#[derive(Debug, Clone)]
pub struct Reloaded {
    /// What differs, one line each; empty where nothing does, and then nothing was done.
    pub changes: Vec<String>,
    /// What the operator should look at.
    pub warnings: Vec<Diagnostic>,
}

/// How the last reload went.
#[derive(Debug, Clone)]
pub struct Status {
    /// When the configuration in force was read.
    pub in_force_since: SystemTime,
    /// Why the file as it is now is not in force.
    pub refused: Option<Refused>,
}

/// A reload that changed nothing.
#[derive(Debug, Clone)]
pub struct Refused {
    /// When.
    pub at: SystemTime,
    /// Every problem of the file.
    pub problems: Arc<Vec<Diagnostic>>,
}

/// Reads the configuration again, when asked and when its files change.
#[derive(Clone)]
pub struct Reload {
    shared: Arc<Shared>,
}

struct Shared {
    gateway: Arc<Gateway>,
    client: Client,
    source: Source,
    environment: fn(&str) -> Option<String>,
    header_timeout: HeaderTimeout,
    in_force: Mutex<InForce>,
    watched: Mutex<Watched>,
    status: ArcSwap<Status>,
    admin_token: ArcSwapOption<Secret>,
}

struct InForce {
    config: Config,
    sources: Sources,
}

/// What the files looked like when they were read last, whether or not that could be used.
struct Watched {
    sources: Sources,
    look: Look,
    /// Something may have changed while they were read.
    stale: bool,
}

impl Watched {
    fn new(sources: Sources, read_at: SystemTime, before: Option<&Look>) -> Self {
        let look = sources.look();
        // A clock that was set back makes every file new: once is enough.
        let stale = look.is_newer_than(read_at) && before != Some(&look);
        Self { sources, look, stale }
    }
}

impl Reload {
    pub(super) fn new(
        gateway: Arc<Gateway>,
        client: Client,
        config: Config,
        origin: Origin,
        header_timeout: HeaderTimeout,
    ) -> Self {
        let Origin { source, environment, read_at, sources } = origin;
        let shared = Shared {
            gateway,
            client,
            source,
            environment,
            header_timeout,
            watched: Mutex::new(Watched::new(sources.clone(), read_at, None)),
            status: ArcSwap::from_pointee(Status { in_force_since: read_at, refused: None }),
            admin_token: ArcSwapOption::from(admin_token(&config)),
            in_force: Mutex::new(InForce { config, sources }),
        };
        shared.gateway.metrics.config_in_force(read_at);
        Self { shared: Arc::new(shared) }
    }

    /// How the last reload went.
    pub fn status(&self) -> Arc<Status> {
        self.shared.status.load_full()
    }

    /// What opens the admin listener where it is not loopback.
    pub fn admin_token(&self) -> Option<Arc<Secret>> {
        self.shared.admin_token.load_full()
    }

    /// Reads the configuration again and puts it in force, one reload at a time. An error is every problem of it; then
    /// nothing has changed.
    pub async fn now(&self) -> Result<Reloaded, Vec<Diagnostic>> {
        let done = self.again().await;
        self.shared.source.documents().look_again();
        done
    }

    /// The same because what the configuration names elsewhere has changed, which is then not asked for anew.
    pub(super) async fn again(&self) -> Result<Reloaded, Vec<Diagnostic>> {
        let shared = self.shared.clone();
        // Reading, compiling and looking at certificates takes a second for a thousand agents.
        let done = tokio::task::spawn_blocking(move || shared.reload()).await;
        done.unwrap_or_else(|_| Err(vec![self.shared.problem("the reload failed inside the gateway")]))
    }

    /// The documents that could not be fetched when it was last tried, and why.
    pub fn missing_documents(&self) -> Vec<(String, String)> {
        self.shared.source.documents().problems().into_iter().map(|(named, problem)| (named.url, problem)).collect()
    }

    /// Copies of what the configuration names elsewhere.
    pub(super) fn documents(&self) -> config::Documents {
        self.shared.source.documents().clone()
    }

    /// Reloads on SIGHUP and when a file changes, for as long as the process serves.
    pub(super) async fn watch(self, mut hangup: Signal) {
        loop {
            tokio::select! {
                _ = hangup.recv() => info!("SIGHUP: reading the configuration again"),
                () = self.changed() => info!("a file of the configuration has changed: reading it again"),
            }
            // What came of it is logged where it happens.
            let _ = self.now().await;
        }
    }

    /// Waits until a file has changed and the others that change with it have settled.
    async fn changed(&self) {
        let mut pause = LOOK_PAUSE;
        loop {
            tokio::time::sleep(pause).await;
            let began = Instant::now();
            let look = self.look().await;
            pause = LOOK_PAUSE.max(began.elapsed() * LOOK_REST);
            if let Some(look) = look
                && self.settled(look).await
            {
                return;
            }
        }
    }

    /// Waits until nothing more changes; false where somebody else has read the files meanwhile.
    async fn settled(&self, mut look: Look) -> bool {
        for _ in 0..SETTLING_MAX {
            tokio::time::sleep(SETTLED).await;
            match self.look().await {
                None => return false,
                Some(now) if now == look => return true,
                Some(now) => look = now,
            }
        }
        true
    }

    /// How the files look, where that is not how they were read.
    async fn look(&self) -> Option<Look> {
        let shared = self.shared.clone();
        let looking = move || {
            let watched = shared.watched.lock().unwrap_or_else(PoisonError::into_inner);
            let look = watched.sources.look();
            (watched.stale || look != watched.look).then_some(look)
        };
        tokio::task::spawn_blocking(looking).await.ok().flatten()
    }
}

impl Shared {
    fn reload(&self) -> Result<Reloaded, Vec<Diagnostic>> {
        let mut in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
        let read_at = SystemTime::now();
        let outcome = self.replace(&mut in_force, read_at);
        let metrics = &self.gateway.metrics;
        match &outcome {
            Ok(Reloaded { changes, warnings }) => {
                for warning in warnings {
                    warn!("{}", in_one_line(warning));
                }
                if changes.is_empty() {
                    info!("the configuration says what is in force already");
                } else {
                    info!("the new configuration is in force");
                }
                metrics.config_reload(if changes.is_empty() { "unchanged" } else { "applied" });
                metrics.config_in_force(read_at);
                self.status.store(Arc::new(Status { in_force_since: read_at, refused: None }));
            }
            Err(problems) => {
                let told = self.status.load().refused.as_ref().is_some_and(|refused| *refused.problems == *problems);
                for problem in problems.iter().filter(|_| !told) {
                    error!("{}", in_one_line(problem));
                }
                let still = if told { "still refused, for the same problems" } else { "refused" };
                error!("the new configuration is {still}; the one in force stays");
                metrics.config_reload("refused");
                let refused = Some(Refused { at: read_at, problems: Arc::new(problems.clone()) });
                self.status.rcu(|status| Status { refused: refused.clone(), ..Status::clone(status) });
            }
        }
        outcome
    }

    fn replace(&self, in_force: &mut InForce, read_at: SystemTime) -> Result<Reloaded, Vec<Diagnostic>> {
        if self.gateway.health.phase() == Phase::Draining {
            return Err(vec![self.problem("the gateway is stopping; ask the one that takes its place")]);
        }
        let reading = self.source.read(&self.environment, Some(&in_force.config));
        {
            let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
            *watched = Watched::new(reading.sources.clone(), read_at, Some(&watched.look));
        }
        let loaded = reading.outcome?;
        let parts: HashSet<PathBuf> = reading.sources.parts_changed_since(&in_force.sources).into_iter().collect();
        let mut changes = config::changes(&in_force.config, &loaded.config);
        let mut named: Vec<&PathBuf> = parts.iter().collect();
        named.sort();
        changes.extend(named.into_iter().map(|path| format!("~ file {}", path.display())));
        if !changes.is_empty() {
            self.put_in_force(&loaded.config, &parts, &changes)?;
        }
        *in_force = InForce { config: loaded.config, sources: reading.sources };
        Ok(Reloaded { changes, warnings: loaded.warnings })
    }

    fn put_in_force(
        &self,
        config: &Config,
        parts: &HashSet<PathBuf>,
        changes: &[String],
    ) -> Result<(), Vec<Diagnostic>> {
        let gateway = &self.gateway;
        let before = gateway.live.load_full();
        let assembled =
            Live::assemble(config, (&self.client, &gateway.metrics), gateway.store.keys(), Some((&before, parts)));
        let live = assembled.map_err(|error| vec![self.problem(&error.to_string())])?;
        for change in changes.iter().take(LINES_MAX) {
            info!("reload: {change}");
        }
        if changes.len() > LINES_MAX {
            info!("reload: and {} more changes", changes.len() - LINES_MAX);
        }
        gateway.store.configure(&news_of(config));
        logs::adjust(config.log);
        self.header_timeout.set(config.limits.header_timeout);
        self.admin_token.store(admin_token(config));
        live.watch(&tokio::runtime::Handle::current());
        gateway.live.store(Arc::new(live));
        Ok(())
    }

    fn problem(&self, message: &str) -> Diagnostic {
        Diagnostic::of_file(&self.source.name(), message.to_owned())
    }
}

/// What the store has to know of the agents.
pub(super) fn news_of(config: &Config) -> Vec<(&str, NewsSettings)> {
    config.agents.iter().map(|agent| (agent.key.as_str(), agent.news.unwrap_or_default())).collect()
}

fn admin_token(config: &Config) -> Option<Arc<Secret>> {
    config.admin.as_ref().and_then(|admin| admin.token.clone()).map(Arc::new)
}

/// A problem as one line of a log, without the line of the file that it is about.
fn in_one_line(problem: &Diagnostic) -> String {
    let Diagnostic { file, line, column, path, message, suggestion, .. } = problem;
    let path = if path.is_empty() { String::new() } else { format!(" (in {path})") };
    let help = suggestion.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
    format!("{file}:{line}:{column}: {message}{path}{help}")
}
