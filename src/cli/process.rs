//! Runs a gateway with the operators' listener beside it, until a signal ends it.

use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};

use super::{Fault, complain};
use crate::admin::{Admin, Operator};
use crate::config::Config;
use crate::front::{Channel, Door, Inherited, Listen, Listener, Server, Way};
use crate::gateway::{Origin, Process, Program, Reload, Upgrade};
use crate::telemetry::supervisor;
use crate::yaml::{Diagnostic, Secret};

/// Connections of the admin listener: scrapers and probes, not callers.
const ADMIN_CONNECTIONS: usize = 64;

/// What a process begins with.
#[derive(Default)]
pub(super) struct Start {
    /// What an upgrade starts; `None` for what is no gateway of its own.
    pub(super) program: Option<Program>,
    /// The process whose sockets are taken over.
    pub(super) predecessor: Option<Channel>,
}

/// Opens everything, then serves; `serving` is called with the base URL once requests are answered.
pub(super) fn run(config: Config, origin: Origin, start: Start, serving: impl FnOnce(&str)) -> Result<(), Fault> {
    let Start { program, predecessor } = start;
    let inherited = predecessor.as_ref().map(Channel::receive).transpose();
    let mut inherited =
        inherited.map_err(|error| Fault(format!("no sockets were handed over: {error}")))?.unwrap_or_default();
    let admin = listener(&config, &mut inherited)?;
    let operators = admin.as_ref().and_then(|(listener, _)| listener.address());
    let process = Process::open(config, origin, operators, (&mut inherited, program)).map_err(Fault::new)?;
    // What the configuration does not name any more is closed.
    drop(inherited);
    let upgrade = process.upgrade();
    let operator =
        Arc::new(Running { store: process.store_problem(), reload: process.reload(), upgrade: upgrade.clone() });
    // Operators are answered until the very end, or by the process that has taken over: that this one drains is what
    // they want to know.
    let ended = upgrade.done();
    if let Some((listener, listen)) = &admin {
        upgrade.hand_over(listen, listener).map_err(Fault::new)?;
    }
    let socket = admin.as_ref().map(|(listener, _)| listener.share()).transpose().map_err(Fault::new)?;
    let file = socket.and_then(Listener::into_file);
    let beside = admin.map(|(listener, listen)| {
        let app = Admin { metrics: process.metrics(), health: process.health(), operator, listen };
        let header_timeout = process.header_timeout();
        let server = Server { app: Arc::new(app), shutdown: ended, header_timeout };
        // Operators' own connections are not counted among the callers'.
        let open = prometheus::IntGauge::new("admin_connections", "Connections of operators.").map_err(Fault::new)?;
        let connections = Arc::new(Semaphore::new(ADMIN_CONNECTIONS));
        Ok((Door { server, connections, open, trusts: Arc::new(|_| false) }, listener))
    });
    let beside = beside.transpose()?;
    let beside = async move {
        if let Some((door, listener)) = beside {
            // It ends with the process; until then the kernel refuses nothing that matters here.
            drop(door.accept(listener, Way::default()).await);
        }
    };
    let served = process.run(beside, |base| {
        serving(base);
        match &predecessor {
            // The predecessor tells the supervisor, which does not know this process yet.
            Some(predecessor) => drop(predecessor.say_serving()),
            None => supervisor::tell("READY=1"),
        }
    });
    if upgrade.is_done()
        && let Some(file) = file
    {
        file.keep();
    }
    served.map_err(Fault::new)
}

/// The admin listener. One that the operator did not ask for gives way to whoever has its address.
fn listener(config: &Config, inherited: &mut Inherited) -> Result<Option<(Listener, Listen)>, Fault> {
    let Some(admin) = &config.admin else { return Ok(None) };
    match Listener::open(&admin.listen, inherited) {
        Ok(listener) => Ok(Some((listener, admin.listen.clone()))),
        Err(error) if admin.written => Err(Fault::new(error)),
        Err(error) => {
            complain(&format!("warning: no admin listener: {error}; write admin.listen, or admin: off"));
            Ok(None)
        }
    }
}

/// The process as its operators ask for it.
struct Running {
    store: watch::Receiver<Option<String>>,
    reload: Reload,
    upgrade: Upgrade,
}

#[async_trait]
impl Operator for Running {
    fn store_problem(&self) -> Option<String> {
        self.store.borrow().clone()
    }

    fn configuration(&self) -> Value {
        let status = self.reload.status();
        let refused = status.refused.as_ref().map(|refused| {
            let problems: Vec<String> = refused.problems.iter().map(problem).collect();
            json!({"at": timestamp(refused.at), "problems": problems})
        });
        let missing = self.reload.missing_documents().into_iter();
        let documents: Vec<_> = missing.map(|(url, problem)| json!({"url": url, "problem": problem})).collect();
        let mut said = json!({"in_force_since": timestamp(status.in_force_since), "refused": refused});
        if let (Value::Object(said), false) = (&mut said, documents.is_empty()) {
            said.insert("documents".to_owned(), documents.into());
        }
        said
    }

    fn token(&self) -> Option<Arc<Secret>> {
        self.reload.admin_token()
    }

    async fn reload(&self) -> Result<Value, Value> {
        match self.reload.now().await {
            Ok(done) => {
                let status = if done.changes.is_empty() { "unchanged" } else { "reloaded" };
                Ok(json!({"status": status, "changes": done.changes, "warnings": done.warnings}))
            }
            Err(problems) => Err(json!(problems)),
        }
    }

    async fn upgrade(&self) -> Result<u32, String> {
        self.upgrade.now().await
    }
}

fn problem(problem: &Diagnostic) -> String {
    format!("{}:{}:{}: {}", problem.file, problem.line, problem.column, problem.message)
}

fn timestamp(time: SystemTime) -> String {
    DateTime::<Utc>::from(time).to_rfc3339_opts(SecondsFormat::Millis, true)
}
