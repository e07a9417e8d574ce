//! `StoreMetrics`: how the store is, as it was looked at last.

use std::time::Duration;

use prometheus::{Gauge, Histogram, HistogramOpts, IntCounter, IntGauge, IntGaugeVec, Opts, Registry};

use super::metrics::register;

/// Upper bounds in seconds, from a page in memory to a disk that is stuck.
const BUCKETS: &[f64] =
    &[0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];

/// What is measured of the store.
#[derive(Debug, Clone)]
pub struct StoreMetrics {
    state: IntGaugeVec,
    feeds: IntGauge,
    bytes: IntGauge,
    removed: IntCounter,
    clock_ahead: Gauge,
    waiting: IntGaugeVec,
    /// How long a durable append took.
    pub append_latency: Histogram,
    /// How long a page took.
    pub read_latency: Histogram,
}

/// How a store is at one moment.
#[derive(Debug, Clone, Copy)]
pub struct StoreState {
    /// Which engine.
    pub engine: &'static str,
    /// Pages can be read.
    pub readable: bool,
    /// Changes can be made.
    pub writable: bool,
    /// How many feeds there are.
    pub feeds: u64,
    /// Bytes of all items.
    pub bytes: u64,
    /// Items that retention and caps have removed since the process began.
    pub removed: u64,
    /// How far the newest timestamp lies in the future.
    pub clock_ahead: Duration,
}

impl StoreMetrics {
    pub(super) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let latency = |name, help| Histogram::with_opts(HistogramOpts::new(name, help).buckets(BUCKETS.to_vec()));
        Ok(Self {
            state: register(
                registry,
                IntGaugeVec::new(
                    Opts::new(
                        "restap_store_state",
                        "1 where the store's engine can be read, and where it can be written.",
                    ),
                    &["engine", "state"],
                )?,
            )?,
            feeds: register(registry, IntGauge::new("restap_store_feeds", "Feeds that the store keeps.")?)?,
            bytes: register(
                registry,
                IntGauge::new("restap_store_bytes", "Bytes of all items that the store keeps.")?,
            )?,
            removed: register(
                registry,
                IntCounter::new(
                    "restap_store_removed_items_total",
                    "Items that retention and caps have removed, where the store is in this process.",
                )?,
            )?,
            clock_ahead: register(
                registry,
                Gauge::new(
                    "restap_store_clock_ahead_seconds",
                    "How far the newest timestamp lies in the future, since the clock was ahead once.",
                )?,
            )?,
            waiting: register(
                registry,
                IntGaugeVec::new(Opts::new("restap_news_waiting", "Readers that wait for news."), &["agent"])?,
            )?,
            append_latency: register(
                registry,
                latency("restap_news_append_seconds", "How long a durable append of a news item took.")?,
            )?,
            read_latency: register(
                registry,
                latency("restap_news_read_seconds", "How long reading a page of news took.")?,
            )?,
        })
    }

    /// Takes note of how the store is.
    pub fn set(&self, state: StoreState) {
        for (name, is) in [("readable", state.readable), ("writable", state.writable)] {
            self.state.with_label_values(&[state.engine, name]).set(is.into());
        }
        self.feeds.set(state.feeds.cast_signed());
        self.bytes.set(state.bytes.cast_signed());
        self.removed.inc_by(state.removed.saturating_sub(self.removed.get()));
        self.clock_ahead.set(state.clock_ahead.as_secs_f64());
    }

    /// The gauge of an agent's readers that wait.
    pub fn waiting(&self, agent: &str) -> IntGauge {
        self.waiting.with_label_values(&[agent])
    }
}
