//! The services that do the work: where they are, how they are spoken to, and how they have been doing.
//!
//! [`Upstream::send`] and [`Upstream::pick`] are where a request meets its server: `servers.rs` says which one is next and
//! whether any is asked at all, `server.rs` knows how each has been doing, `budget.rs` bounds repeats.

mod budget;
mod health;
mod oauth2;
mod server;
mod servers;
mod service;
pub mod settings;
mod target;

pub use oauth2::token;
pub use servers::{Affinity, Picked, Unavailable};
pub use service::{CONNECTIONS_MAX, Kind, Seat, Timeouts, Upstream, is_failure};
pub use settings::Settings;
pub use target::InvalidTarget;

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::runtime::Handle;

use crate::net::{Client, tls};
use crate::telemetry::Metrics;

/// Every upstream of one configuration, by name.
#[derive(Debug)]
pub struct Upstreams {
    by_name: BTreeMap<String, Arc<Upstream>>,
}

/// What is wrong with an upstream's section.
#[derive(Debug, thiserror::Error)]
#[error("upstream `{name}`: {problem}")]
pub struct Error {
    /// The upstream's name.
    pub name: String,
    /// What is wrong.
    pub problem: Problem,
}

/// What can be wrong with one upstream.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// A certificate, a key or a bundle.
    #[error(transparent)]
    Tls(#[from] tls::Error),
    /// A value that no header can carry. The value is a secret and not shown.
    #[error("the value of header `{0}` holds a character that no header can carry")]
    Header(http::HeaderName),
    /// The URL's path or query.
    #[error("the URL's path or query can't be sent")]
    Target,
}

impl Upstreams {
    /// Makes all of them, reading their certificates. Those of `before` go on as they are, with all they know of their
    /// servers, where their settings are the same and none of the files that hold something else now is theirs.
    pub fn new(
        settings: BTreeMap<String, Settings>,
        client: &Client,
        metrics: Option<&Metrics>,
        before: Option<(&Self, &HashSet<PathBuf>)>,
    ) -> Result<Self, Error> {
        let kept = |name: &str, settings: &Settings| {
            let (before, changed) = before?;
            before.get(name).filter(|upstream| upstream.is_still(settings, changed)).cloned()
        };
        let by_name = settings
            .into_iter()
            .map(|(name, settings)| match kept(&name, &settings) {
                Some(upstream) => Ok((name, upstream)),
                None => match Upstream::new(&settings, client, metrics) {
                    Ok(upstream) => Ok((name, Arc::new(upstream))),
                    Err(problem) => Err(Error { name, problem }),
                },
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { by_name })
    }

    /// The upstream of that name; a URL written in place of a name is one.
    pub fn get(&self, name: &str) -> Option<&Arc<Upstream>> {
        self.by_name.get(name)
    }

    /// Asks the servers of all that have a `health:` how they are, for as long as these are used.
    pub fn watch(&self, runtime: &Handle) {
        self.by_name.values().for_each(|upstream| upstream.watch(runtime));
    }

    /// All, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        self.by_name.values()
    }
}

/// Whether any of them is verified against the system's certificate authorities, which are then worth loading at start.
pub fn need_system_roots<'a>(settings: impl IntoIterator<Item = &'a Settings>) -> bool {
    settings.into_iter().any(|settings| {
        let token = settings.oauth2.as_ref().is_some_and(|oauth2| oauth2.token_url.origin.tls);
        token || settings.url.origin.tls && tls::needs_system_roots(&settings.tls)
    })
}

#[cfg(test)]
mod tests;
