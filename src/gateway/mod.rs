//! A request end to end: `process` opens, `proxy` is the hook table, `admission` finds the route, `handler` answers.

mod access_log;
mod admission;
mod agent_side;
mod body;
mod credentials;
mod ctx;
mod documents;
mod drain;
mod error;
mod explain;
mod fields;
mod following;
mod handler;
mod job;
mod lease;
mod live;
mod news_context;
mod process;
mod proxy;
mod queries;
mod reload;
mod respond;
mod router;
mod signing_keys;
mod stall;
mod thread;
mod tools;
mod upgrade;
mod views;
mod who;

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::store::Store;
use crate::telemetry::{AccessLog, Health, Metrics};

pub use documents::{Fetcher, START, fetch_named};
pub use explain::{Asked, ExplainError, Steps, explain};
pub use live::{AssembleError, catalog};
pub use process::{Process, StartError};
pub use reload::{Origin, Reload, Reloaded, Status};
pub use upgrade::{Program, Upgrade};

/// What is behind every request.
struct Gateway {
    live: ArcSwap<live::Live>,
    store: Arc<Store>,
    metrics: Metrics,
    health: Arc<Health>,
    drain: drain::Drain,
    queues: thread::Queues,
    access: AccessLog,
}
