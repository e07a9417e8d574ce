//! The process: everything that is opened before the first request, and closed after the last.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;
use pingora::apps::HttpServerOptions;
use pingora::proxy::http_proxy;
use pingora::server::configuration::ServerConf;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Semaphore, watch};
use tracing::{error, info, warn};

use super::Gateway;
use super::documents;
use super::drain::Drain;
use super::following;
use super::live::{AssembleError, Live};
use super::proxy::Proxy;
use super::reload::{self, Origin, Reload};
use super::stall::Bounded;
use super::upgrade::{Program, Upgrade};
use crate::config::Config;
use crate::front::{BindError, Door, HeaderTimeout, Inherited, LAST_CALL, Listen, Listener, Server, SocketFile, Way};
use crate::net::{Client, Roots, tls};
use crate::store::health::CLOCK_AHEAD_ALARM;
use crate::store::{self, Store, SystemClock};
use crate::telemetry::{AccessLog, Health, Metrics, Phase, StoreMetrics, StoreState, logs, supervisor};
use crate::upstream;

/// How long an HTTP/2 connection may rest.
const H2_IDLE: Duration = Duration::from_secs(75);

/// How often the store's state is looked at.
const STORE_CHECK: Duration = Duration::from_secs(1);

/// Why the gateway does not start. Each is one sentence that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A listener's certificates.
    #[error(transparent)]
    Tls(#[from] crate::front::tls::Unusable),
    /// The store.
    #[error(transparent)]
    Store(#[from] store::OpenError),
    /// What the agents are made of.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// The system's certificate authorities.
    #[error(transparent)]
    Roots(#[from] tls::Error),
    /// Metrics that clash.
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    /// The system.
    #[error("the system refuses what the gateway needs to run: {0}")]
    System(#[from] io::Error),
}

/// A gateway that has opened everything and serves nothing yet.
pub struct Process {
    gateway: Arc<Gateway>,
    listeners: Vec<(Listener, Way)>,
    /// The agents' own, each with what its listener is called in the file.
    agent_listeners: Vec<(Listener, Arc<Listen>)>,
    control: Runtime,
    conf: Arc<ServerConf>,
    reload: Reload,
    upgrade: Upgrade,
    header_timeout: HeaderTimeout,
}

impl Process {
    /// Opens listeners, the store and everything else. Nothing is answered before [`Process::run`].
    /// `others` is where the process listens besides. Sockets of a process before this one are taken over; `program` is
    /// what a later upgrade starts.
    pub fn open(
        config: Config,
        origin: Origin,
        others: Option<SocketAddr>,
        (inherited, program): (&mut Inherited, Option<Program>),
    ) -> Result<Self, StartError> {
        logs::start(config.log);
        let listeners = open_listeners(&config, inherited)?;
        let agent_listeners = config
            .rest_listeners()
            .into_iter()
            .map(|listen| Ok((Listener::open(listen, inherited)?, Arc::new(listen.clone()))))
            .collect::<Result<Vec<_>, BindError>>()?;
        let control = Builder::new_current_thread().enable_all().build()?;
        let store = store::open(&config.store, &reload::news_of(&config), Arc::new(SystemClock))?;
        let need_system = upstream::need_system_roots(config.upstreams.values()) || tools_need_system_roots(&config);
        let roots = if need_system { Roots::system()? } else { Roots::none() };
        let conf = ServerConf { ca_file: Some(roots.file().to_owned()), threads: workers(), ..ServerConf::default() };
        let client = Client::new(roots);
        let all =
            listeners.iter().map(|(listener, _)| listener).chain(agent_listeners.iter().map(|(listener, _)| listener));
        client.listens_at(all.filter_map(Listener::address).chain(others).collect());
        let metrics = Metrics::new()?;
        let live = Live::assemble(&config, (&client, &metrics), store.keys(), None)?;
        live.watch(control.handle());
        let gateway = Arc::new(Gateway {
            live: ArcSwap::from_pointee(live),
            store,
            metrics,
            health: Arc::new(Health::default()),
            drain: Drain::new(),
            queues: Arc::default(),
            access: AccessLog::start(),
        });
        let header_timeout = HeaderTimeout::new(config.limits.header_timeout);
        let upgrade = Upgrade::new(program, gateway.drain.clone());
        for (listen, listener) in config.listen.iter().zip(&listeners) {
            upgrade.hand_over(listen, &listener.0)?;
        }
        for (listener, listen) in &agent_listeners {
            upgrade.hand_over(listen, listener)?;
        }
        let reload = Reload::new(gateway.clone(), client, config, origin, header_timeout.clone());
        Ok(Self { gateway, listeners, agent_listeners, control, conf: Arc::new(conf), reload, upgrade, header_timeout })
    }

    /// Where the first listener is, as a caller would type it.
    pub fn base(&self) -> String {
        self.listeners.first().map(|(listener, way)| listener.url(way)).unwrap_or_default()
    }

    /// Everything that is counted.
    pub fn metrics(&self) -> Metrics {
        self.gateway.metrics.clone()
    }

    /// Where the process is in its life.
    pub fn health(&self) -> Arc<Health> {
        self.gateway.health.clone()
    }

    /// Reads the configuration again.
    pub fn reload(&self) -> Reload {
        self.reload.clone()
    }

    /// Has another process take over.
    pub fn upgrade(&self) -> Upgrade {
        self.upgrade.clone()
    }

    /// How long a request's head may take, as the configuration in force says.
    pub fn header_timeout(&self) -> HeaderTimeout {
        self.header_timeout.clone()
    }

    /// Why the store can't be used, as it was seen last; `None` while it can.
    pub fn store_problem(&self) -> watch::Receiver<Option<String>> {
        let store = self.gateway.store.clone();
        // Seen once before anything is served: a gateway whose engine is away is not ready from the first moment on.
        let first = problem_of(self.control.block_on(store.health()));
        if let Some(problem) = &first {
            warn!("the store can't be used: {problem}");
        }
        let (problem, watched) = watch::channel(first);
        self.control.spawn(watch_store(store, self.gateway.metrics.store.clone(), problem));
        watched
    }

    /// Serves until SIGTERM or SIGINT, together with what runs beside it; then lets requests end and closes.
    pub fn run(
        self,
        beside: impl Future<Output = ()> + Send + 'static,
        serving: impl FnOnce(&str),
    ) -> Result<(), StartError> {
        let base = self.base();
        let finished = watch::Sender::new(false);
        let door = Door {
            server: Server {
                app: proxy(&self.conf, &self.gateway, None),
                shutdown: self.gateway.drain.stopping(),
                header_timeout: self.header_timeout,
            },
            connections: Arc::new(Semaphore::new(self.gateway.live.load().limits.connections)),
            open: self.gateway.metrics.connections.clone(),
            trusts: {
                let gateway = self.gateway.clone();
                Arc::new(move |peer| gateway.live.load().trusts(peer))
            },
        };
        let callers = self.listeners.iter().map(|(listener, way)| (listener, way.clone(), door.clone()));
        let agents = self.agent_listeners.iter().map(|(listener, listen)| {
            info!("rest_request is served on {}", listener.url(&Way::default()));
            let app = proxy(&self.conf, &self.gateway, Some(listen.clone()));
            (listener, Way::default(), Door { server: Server { app, ..door.server.clone() }, ..door.clone() })
        });
        let served: Vec<_> = callers.chain(agents).collect();
        let acceptors: Vec<_> = self.listeners.iter().filter_map(|(_, way)| way.tls.clone()).collect();
        let threads = (0..workers())
            .map(|number| worker(number, &served, finished.subscribe()))
            .collect::<io::Result<Vec<_>>>()?;
        // The workers have handles of their own: once those are closed nobody waits in the kernel for a process that stops.
        drop(served);
        let listeners = self.listeners.into_iter().map(|(listener, _)| listener);
        let listeners = listeners.chain(self.agent_listeners.into_iter().map(|(listener, _)| listener));
        let files: Vec<SocketFile> = listeners.filter_map(Listener::into_file).collect();
        let gateway = self.gateway.clone();
        self.control.block_on(async {
            // Before anybody is told that this serves: until then each of them would end the process.
            let (mut stop, hangup) = (Stop::listen()?, signal(SignalKind::hangup())?);
            let take_over = signal(SignalKind::user_defined2())?;
            tokio::spawn(beside);
            let fetching = tokio::spawn(documents::keep(self.reload.clone(), self.reload.documents()));
            let following = tokio::spawn(following::keep(gateway.clone()));
            let watching = tokio::spawn(self.reload.watch(hangup));
            for acceptor in acceptors {
                tokio::spawn(acceptor.watch());
            }
            gateway.health.set(Phase::Serving);
            serving(&base);
            let patience = tokio::select! {
                () = stop.wait() => gateway.live.load().limits.shutdown,
                () = taken_over(&self.upgrade, take_over) => gateway.live.load().limits.drain,
            };
            info!("stopping: open requests have {} s to end", patience.as_secs());
            if !self.upgrade.is_done() {
                supervisor::tell("STOPPING=1");
            }
            self.upgrade.close();
            if self.upgrade.is_done() {
                // Nobody has told the callers, and nobody should notice.
                gateway.drain.stop();
                tokio::time::sleep(LAST_CALL).await;
            }
            gateway.health.set(Phase::Draining);
            watching.abort();
            fetching.abort();
            following.abort();
            gateway.drain.finish(patience, stop.wait()).await;
            finished.send_replace(true);
            gateway.store.close().await;
            io::Result::Ok(())
        })?;
        for thread in threads {
            if thread.join().is_err() {
                error!("a worker ended by a panic");
            }
        }
        gateway.access.flush();
        if self.upgrade.is_done() {
            files.into_iter().for_each(SocketFile::keep);
        }
        Ok(())
    }
}

/// Waits until another process has taken over, which SIGUSR2 asks for too.
async fn taken_over(upgrade: &Upgrade, mut signal: Signal) {
    let mut done = upgrade.done();
    let asked = async {
        while signal.recv().await.is_some() {
            info!("SIGUSR2: starting the process that takes over");
            // What came of it is logged where it happens, and seen by the other branch.
            let _ = upgrade.now().await;
        }
    };
    tokio::select! {
        _ = done.wait_for(|done| *done) => {}
        () = asked => std::future::pending().await,
    }
}

/// Binds every address and reads every certificate before anything is served.
fn open_listeners(config: &Config, inherited: &mut Inherited) -> Result<Vec<(Listener, Way)>, StartError> {
    let bound = config.listen.iter().map(|listen| Listener::open(listen, inherited)).collect::<Result<Vec<_>, _>>()?;
    let settings = |at: usize| config.ways.iter().find(|(position, _)| *position == at).map(|(_, way)| way);
    let speaks_tls = |at: usize| settings(at).is_some_and(|way| way.tls.is_some());
    let https = bound.iter().enumerate().find(|(at, _)| speaks_tls(*at)).and_then(|(_, listener)| listener.address());
    let https = https.map(|address| address.port());
    let ways = (0..bound.len()).map(|at| match settings(at) {
        None => Ok(Way::default()),
        Some(settings) => Way::open(settings, https),
    });
    let ways = ways.collect::<Result<Vec<_>, _>>()?;
    Ok(bound.into_iter().zip(ways).collect())
}

/// One worker a core: each has its own runtime, so a connection stays where it was accepted.
fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// What answers behind one kind of door.
fn proxy(conf: &Arc<ServerConf>, gateway: &Arc<Gateway>, agent_side: Option<Arc<Listen>>) -> Arc<Bounded> {
    let mut proxy = http_proxy(conf, Proxy { gateway: gateway.clone(), agent_side });
    let mut options = HttpServerOptions::default();
    options.h2_idle_timeout = Some(H2_IDLE);
    proxy.server_options = Some(options);
    Arc::new(Bounded(Arc::new(proxy)))
}

fn tools_need_system_roots(config: &Config) -> bool {
    config.agents.iter().filter_map(|agent| agent.rest.as_ref()).any(|rest| rest.ca.is_none())
}

fn worker(
    number: usize,
    served: &[(&Listener, Way, Door<Bounded>)],
    mut finished: watch::Receiver<bool>,
) -> io::Result<JoinHandle<()>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let shared = served.iter().map(|(listener, way, door)| Ok((listener.share()?, way.clone(), door.clone())));
    let shared = shared.collect::<io::Result<Vec<_>>>()?;
    std::thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
        runtime.block_on(async {
            for (listener, way, door) in shared {
                tokio::spawn(async move {
                    if let Err(error) = door.accept(listener, way).await {
                        error!("a listener failed: {error}");
                    }
                });
            }
            let _ = finished.wait_for(|finished| *finished).await;
        });
        runtime.shutdown_background();
    })
}

/// The signals that end the process.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    fn listen() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Why a store can't be used.
fn problem_of(health: store::Health) -> Option<String> {
    if health.writable { None } else { Some(health.problem.unwrap_or_else(|| "it can't be written".into())) }
}

/// Measures the store, and logs when it becomes unusable and when it is back.
async fn watch_store(store: Arc<Store>, metrics: StoreMetrics, problem: watch::Sender<Option<String>>) {
    let mut was_ahead = false;
    loop {
        let health = store.health().await;
        metrics.set(StoreState {
            engine: health.engine,
            readable: health.readable,
            writable: health.writable,
            feeds: health.feeds,
            bytes: health.bytes,
            removed: health.removed.unwrap_or(0),
            clock_ahead: health.clock_ahead,
        });
        let is_ahead = health.clock_ahead >= CLOCK_AHEAD_ALARM;
        if !std::mem::replace(&mut was_ahead, is_ahead) && is_ahead {
            let ahead = health.clock_ahead.as_secs();
            warn!("the newest item is {ahead} s in the future: the clock was ahead, and timestamps rise from there");
        }
        let now = problem_of(health);
        let changed = problem.send_if_modified(|before| {
            let changed = *before != now;
            before.clone_from(&now);
            changed
        });
        match (changed, now) {
            (true, Some(problem)) => warn!("the store can't be used: {problem}"),
            (true, None) => info!("the store can be used again"),
            (false, _) => {}
        }
        tokio::time::sleep(STORE_CHECK).await;
    }
}
