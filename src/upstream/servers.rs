//! `Servers`: which of an upstream's servers the next request goes to, and whether any is asked at all.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use tokio::time::Instant;
use tracing::{info, warn};

use super::server::{Place, Server, Standing};
use super::settings::Balance;
use crate::net::{Companion, Peer};

/// Failures in a row, of whichever server, after which none is asked for a while.
const FAILURES_MAX: u32 = 20;

/// How long none is asked: at first, and at most, doubling each time that the trial fails.
const OPEN_MIN: Duration = Duration::from_secs(1);
const OPEN_MAX: Duration = Duration::from_secs(30);

/// What ties requests to one server under `balance: consistent`. Whatever it was made of can't be told from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Affinity([u8; 32]);

impl Affinity {
    /// What belongs together has the same key.
    pub fn of(key: &[u8]) -> Self {
        Self(*blake3::hash(key).as_bytes())
    }
}

/// No server is asked now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unavailable {
    /// When it is worth another try.
    pub retry_after: Duration,
}

pub(super) struct Servers {
    all: Vec<Arc<Server>>,
    balance: Balance,
    /// What each server is owed, for turns by weight.
    owed: Mutex<Vec<f64>>,
    breaker: Mutex<Breaker>,
    name: Arc<str>,
    /// Where health checks say that all are down, the next one is worth waiting for.
    check_interval: Option<Duration>,
}

/// Stops asking an upstream that does nothing but fail, and tries with one request at a time whether it is back.
#[derive(Debug, Default)]
struct Breaker {
    failures: u32,
    open_until: Option<Instant>,
    opened: u32,
    trial: bool,
}

/// A request's place at one of an upstream's servers, until its answer has ended. Dropping it without a word says nothing
/// of the server.
pub struct Picked {
    servers: Arc<Servers>,
    index: usize,
    place: Place,
    trial: bool,
}

impl Servers {
    pub(super) fn new(name: &str, all: Vec<Server>, balance: Balance, check_interval: Option<Duration>) -> Self {
        Self {
            owed: Mutex::new(vec![0.0; all.len()]),
            all: all.into_iter().map(Arc::new).collect(),
            balance,
            breaker: Mutex::default(),
            name: name.into(),
            check_interval,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Server>> {
        self.all.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// The server for the next try of a request that `tried` have failed. One that was tried is tried again only where
    /// there is no other.
    pub(super) fn pick(self: &Arc<Self>, affinity: Option<Affinity>, tried: &[usize]) -> Result<Picked, Unavailable> {
        let now = Instant::now();
        let standing: Vec<Standing> = self.all.iter().map(|server| server.standing(now)).collect();
        if standing.iter().all(|standing| *standing == Standing::Down) {
            return Err(Unavailable { retry_after: self.check_interval.unwrap_or(OPEN_MIN) });
        }
        let trial = self.breaker().admit(now)?;
        let takers = |fresh: bool| -> Vec<(usize, f64)> {
            let shares = standing.iter().enumerate().filter_map(|(index, standing)| match standing {
                Standing::Takes(share) => Some((index, *share)),
                Standing::LeftOut | Standing::Down => None,
            });
            shares.filter(|(index, _)| !fresh || !tried.contains(index)).collect()
        };
        let mut candidates = takers(true);
        if candidates.is_empty() {
            candidates = takers(false);
        }
        if candidates.is_empty() {
            // All have failed lately, but somebody must be asked.
            let left_out = standing.iter().enumerate().filter(|(_, standing)| **standing == Standing::LeftOut);
            candidates = left_out.map(|(index, _)| (index, 1.0)).collect();
        }
        let index = self.choose(&candidates, affinity);
        let server = self.all.get(index).ok_or(Unavailable { retry_after: OPEN_MIN })?;
        Ok(Picked { servers: self.clone(), index, place: server.begin(), trial })
    }

    /// Whether a server that was not tried would take a request.
    pub(super) fn has_other_than(&self, tried: &[usize]) -> bool {
        let now = Instant::now();
        self.all
            .iter()
            .enumerate()
            .any(|(index, server)| !tried.contains(&index) && matches!(server.standing(now), Standing::Takes(_)))
    }

    fn choose(&self, candidates: &[(usize, f64)], affinity: Option<Affinity>) -> usize {
        match (candidates, self.balance, affinity) {
            ([], ..) => 0,
            ([(only, _)], ..) => *only,
            (_, Balance::LeastConn, _) => self.least_busy(candidates),
            (_, Balance::Consistent, Some(affinity)) => self.bound(candidates, affinity),
            _ => self.next_in_turn(candidates),
        }
    }

    /// Turns by weight that are spread evenly: each is owed its share, and who is owed most is next.
    fn next_in_turn(&self, candidates: &[(usize, f64)]) -> usize {
        let mut owed = self.owed.lock().unwrap_or_else(PoisonError::into_inner);
        let total: f64 = candidates.iter().map(|(_, share)| share).sum();
        let mut next = (0, f64::MIN);
        for (index, share) in candidates {
            let Some(owed) = owed.get_mut(*index) else { continue };
            *owed += share;
            if *owed > next.1 {
                next = (*index, *owed);
            }
        }
        if let Some(owed) = owed.get_mut(next.0) {
            *owed -= total;
        }
        next.0
    }

    /// The fewest requests for its share; whose turn it is where several have as few.
    fn least_busy(&self, candidates: &[(usize, f64)]) -> usize {
        let load = |(index, share): &(usize, f64)| {
            let requests = self.all.get(*index).map_or(0, |server| server.in_flight());
            (requests + 1) as f64 / share.max(f64::MIN_POSITIVE)
        };
        let least = candidates.iter().map(load).fold(f64::MAX, f64::min);
        let idle: Vec<_> = candidates.iter().copied().filter(|one| load(one) <= least).collect();
        self.next_in_turn(&idle)
    }

    /// Rendezvous hashing by weight: a server that comes or goes moves its own share of the keys and no other.
    fn bound(&self, candidates: &[(usize, f64)], Affinity(key): Affinity) -> usize {
        let score = |(index, share): &(usize, f64)| {
            let url = self.all.get(*index).map(|server| server.url.origin.authority()).unwrap_or_default();
            let hash = blake3::keyed_hash(&key, url.as_bytes());
            // 48 bits, which a float holds exactly.
            let bits = hash.as_bytes().iter().take(6).fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
            let drawn = bits as f64 + 0.5;
            -share / (drawn / (1_u64 << 48) as f64).ln()
        };
        let best = candidates.iter().max_by(|one, other| score(one).total_cmp(&score(other)));
        best.map_or(0, |(index, _)| *index)
    }

    fn breaker(&self) -> std::sync::MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn record(&self, server: &Server, succeeded: bool) {
        let others = self.all.iter().any(|other| {
            !std::ptr::eq(&raw const **other, server) && matches!(other.standing(Instant::now()), Standing::Takes(_))
        });
        server.record(succeeded, others);
        let mut breaker = self.breaker();
        if succeeded {
            if breaker.open_until.is_some() {
                info!("upstream {} answers again", self.name);
            }
            *breaker = Breaker::default();
            return;
        }
        breaker.failures = breaker.failures.saturating_add(1);
        let failed_trial = breaker.open_until.is_some_and(|until| Instant::now() >= until);
        if failed_trial || (breaker.open_until.is_none() && breaker.failures >= FAILURES_MAX) {
            let wait = OPEN_MAX.min(OPEN_MIN * 2_u32.saturating_pow(breaker.opened.min(10)));
            breaker.open_until = Some(Instant::now() + wait);
            breaker.opened = breaker.opened.saturating_add(1);
            warn!("upstream {}: not asked for {} s, as it does nothing but fail", self.name, wait.as_secs());
        }
    }
}

impl Breaker {
    /// Whether the request is a trial; an error where nothing is asked now.
    fn admit(&mut self, now: Instant) -> Result<bool, Unavailable> {
        match self.open_until {
            None => Ok(false),
            Some(until) if now < until => Err(Unavailable { retry_after: until - now }),
            Some(_) if self.trial => Err(Unavailable { retry_after: OPEN_MIN }),
            Some(_) => {
                self.trial = true;
                Ok(true)
            }
        }
    }
}

impl std::fmt::Debug for Picked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Picked").field("server", &self.place.server).finish_non_exhaustive()
    }
}

impl Picked {
    /// Its place among the servers, for the next pick.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Where its connections go.
    pub fn peer(&self) -> &Peer {
        &self.place.server.peer
    }

    /// What the `Host` of a request to it says.
    pub fn authority(&self) -> &HeaderValue {
        &self.place.server.authority
    }

    pub(super) fn server(&self) -> &Arc<Server> {
        &self.place.server
    }

    /// Tells how the request went.
    pub fn record(&self, succeeded: bool) {
        self.servers.record(&self.place.server, succeeded);
    }
}

/// An answer that breaks is a failure of its server.
impl Companion for Picked {
    fn broken(&self) {
        self.record(false);
    }
}

impl Drop for Picked {
    fn drop(&mut self) {
        if self.trial {
            self.servers.breaker().trial = false;
        }
    }
}

#[cfg(test)]
mod tests;
