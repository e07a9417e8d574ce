//! Runs a gateway with the operators' listener beside it, until a signal ends it.

use std::sync::Arc;

use tokio::sync::{Semaphore, watch};

use super::{Fault, complain};
use crate::admin::Admin;
use crate::config::Config;
use crate::front::{Door, Listener, Server};
use crate::gateway::Process;

/// Connections of the admin listener: scrapers and probes, not callers.
const ADMIN_CONNECTIONS: usize = 64;

/// Opens everything, then serves; `serving` is called with the base URL once requests are answered.
pub(super) fn run(config: &Config, serving: impl FnOnce(&str)) -> Result<(), Fault> {
    let admin = listener(config)?;
    let process = Process::open(config).map_err(Fault::new)?;
    let problem = process.store_problem();
    // Operators are answered until the very end: that the process drains is what they want to know.
    let ended = watch::Sender::new(false);
    let socket = admin.as_ref().map(|(listener, _)| listener.share()).transpose().map_err(Fault::new)?;
    let _file = socket.and_then(Listener::into_file);
    let beside = admin.map(|(listener, settings)| {
        let app = Admin {
            metrics: process.metrics(),
            health: process.health(),
            store: Arc::new(move || problem.borrow().clone()),
            listen: settings.listen.clone(),
        };
        let server =
            Server { app: Arc::new(app), shutdown: ended.subscribe(), header_timeout: config.limits.header_timeout };
        // Operators' own connections are not counted among the callers'.
        let open = prometheus::IntGauge::new("admin_connections", "Connections of operators.").map_err(Fault::new)?;
        Ok((Door { server, connections: Arc::new(Semaphore::new(ADMIN_CONNECTIONS)), open }, listener))
    });
    let beside = beside.transpose()?;
    let beside = async move {
        if let Some((door, listener)) = beside {
            // It ends with the process; until then the kernel refuses nothing that matters here.
            drop(door.accept(listener).await);
        }
    };
    process.run(config.limits, beside, serving).map_err(Fault::new)
}

/// The admin listener. One that the operator did not ask for gives way to whoever has its address.
fn listener(config: &Config) -> Result<Option<(Listener, &crate::config::settings::Admin)>, Fault> {
    let Some(admin) = &config.admin else { return Ok(None) };
    match Listener::bind(&admin.listen) {
        Ok(listener) => Ok(Some((listener, admin))),
        Err(error) if admin.written => Err(Fault::new(error)),
        Err(error) => {
            complain(&format!("warning: no admin listener: {error}; write admin.listen, or admin: off"));
            Ok(None)
        }
    }
}
