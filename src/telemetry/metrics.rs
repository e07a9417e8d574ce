//! `Metrics`: every counter, gauge and histogram, named in one place.
//!
//! Labels are what an operator wrote (agent, route, upstream) or come from a closed list. Never a path parameter,
//! a query, a session or anything else that a caller chooses.

use std::time::{Duration, SystemTime};

use prometheus::core::Collector;
use prometheus::{
    Encoder, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder,
};

use super::store_metrics::StoreMetrics;

/// Upper bounds in seconds, from a local answer to a slow model.
const LATENCY_BUCKETS: &[f64] =
    &[0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// Everything that the gateway counts.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    latency: HistogramVec,
    streams: IntGaugeVec,
    first_delta: HistogramVec,
    deltas: IntCounterVec,
    upstream_errors: IntCounterVec,
    news_appends: IntCounterVec,
    news_reads: IntCounterVec,
    server_up: IntGaugeVec,
    server_ejections: IntCounterVec,
    upstream_retries: IntCounterVec,
    config_reloads: IntCounterVec,
    config_time: IntGauge,
    config_ok: IntGauge,
    rest_requests: IntCounterVec,
    cache_requests: IntCounterVec,
    /// Bytes of answers that are kept.
    pub cache_bytes: IntGauge,
    /// Connections that callers hold open.
    pub connections: IntGauge,
    /// Requests that are being answered.
    pub requests_in_flight: IntGauge,
    /// How the store is.
    pub store: StoreMetrics,
    /// Access lines that a slow stdout lost.
    pub access_lines_dropped: IntCounter,
}

impl Metrics {
    /// All metrics at zero. Fails only where two of them have one name.
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let metrics = Self {
            requests: register(
                &registry,
                IntCounterVec::new(
                    Opts::new("restap_requests_total", "Requests answered, by agent, route and status."),
                    &["agent", "route", "status"],
                )?,
            )?,
            latency: register(
                &registry,
                HistogramVec::new(
                    HistogramOpts::new("restap_request_seconds", "From a request's head to the end of its answer.")
                        .buckets(LATENCY_BUCKETS.to_vec()),
                    &["agent", "route"],
                )?,
            )?,
            streams: register(
                &registry,
                IntGaugeVec::new(Opts::new("restap_talk_streams", "Talk streams that are open."), &["agent"])?,
            )?,
            first_delta: register(
                &registry,
                HistogramVec::new(
                    HistogramOpts::new("restap_talk_first_delta_seconds", "From a talk's request to its first text.")
                        .buckets(LATENCY_BUCKETS.to_vec()),
                    &["agent"],
                )?,
            )?,
            deltas: register(
                &registry,
                IntCounterVec::new(
                    Opts::new("restap_talk_deltas_total", "Pieces of text received from upstreams."),
                    &["agent"],
                )?,
            )?,
            upstream_errors: register(
                &registry,
                IntCounterVec::new(
                    Opts::new("restap_upstream_errors_total", "Failures of upstreams, by upstream and error code."),
                    &["upstream", "code"],
                )?,
            )?,
            news_appends: register(
                &registry,
                IntCounterVec::new(
                    Opts::new("restap_news_appends_total", "News items posted, by agent and outcome."),
                    &["agent", "outcome"],
                )?,
            )?,
            news_reads: register(
                &registry,
                IntCounterVec::new(
                    Opts::new("restap_news_reads_total", "Pages of news read, by agent and outcome."),
                    &["agent", "outcome"],
                )?,
            )?,
            server_up: register(
                &registry,
                IntGaugeVec::new(
                    Opts::new(
                        "restap_upstream_server_up",
                        "1 while a server of an upstream is asked, 0 while it is left out.",
                    ),
                    &["upstream", "server"],
                )?,
            )?,
            server_ejections: register(
                &registry,
                IntCounterVec::new(
                    Opts::new("restap_upstream_ejections_total", "Times that a server was left out for its failures."),
                    &["upstream", "server"],
                )?,
            )?,
            upstream_retries: register(
                &registry,
                IntCounterVec::new(
                    Opts::new("restap_upstream_retries_total", "Requests that were sent again, as `retry` allows."),
                    &["upstream"],
                )?,
            )?,
            config_reloads: register(
                &registry,
                IntCounterVec::new(
                    Opts::new("restap_config_reloads_total", "Times the configuration was read again, by outcome."),
                    &["outcome"],
                )?,
            )?,
            config_time: register(
                &registry,
                IntGauge::new(
                    "restap_config_last_reload_success_timestamp_seconds",
                    "When the configuration in force was last read or found unchanged.",
                )?,
            )?,
            config_ok: register(
                &registry,
                IntGauge::new(
                    "restap_config_last_reload_successful",
                    "1 while the file says what is in force, 0 after a reload that was refused.",
                )?,
            )?,
            rest_requests: register(
                &registry,
                IntCounterVec::new(
                    Opts::new(
                        "restap_rest_requests_total",
                        "Calls of rest_request, by agent, outcome (2xx to 5xx or a code) and whether the last hop was signed.",
                    ),
                    &["agent", "outcome", "signed"],
                )?,
            )?,
            cache_requests: register(
                &registry,
                IntCounterVec::new(
                    Opts::new(
                        "restap_cache_requests_total",
                        "Calls of capabilities with `route.cache`, by agent, route and outcome: hit, collapsed, miss, pass, bypass or fail.",
                    ),
                    &["agent", "route", "outcome"],
                )?,
            )?,
            cache_bytes: register(
                &registry,
                IntGauge::new("restap_cache_bytes", "Bytes of the answers that `route.cache` keeps.")?,
            )?,
            connections: register(&registry, IntGauge::new("restap_connections", "Connections of callers.")?)?,
            requests_in_flight: register(
                &registry,
                IntGauge::new("restap_requests_in_flight", "Requests that are being answered.")?,
            )?,
            store: StoreMetrics::new(&registry)?,
            access_lines_dropped: register(
                &registry,
                IntCounter::new(
                    "restap_access_lines_dropped_total",
                    "Access log lines lost because stdout was too slow.",
                )?,
            )?,
            registry,
        };
        Ok(metrics)
    }

    /// Counts one answered request.
    pub fn request(&self, agent: &str, route: &str, status: u16, took: Duration) {
        let mut digits = [0; 3];
        self.requests.with_label_values(&[agent, route, status_text(status, &mut digits)]).inc();
        self.latency.with_label_values(&[agent, route]).observe(took.as_secs_f64());
    }

    /// The gauge of an agent's open talk streams.
    pub fn streams(&self, agent: &str) -> IntGauge {
        self.streams.with_label_values(&[agent])
    }

    /// Notes what a finished talk received.
    pub fn talk(&self, agent: &str, deltas: u64, first_delta: Option<Duration>) {
        self.deltas.with_label_values(&[agent]).inc_by(deltas);
        if let Some(first_delta) = first_delta {
            self.first_delta.with_label_values(&[agent]).observe(first_delta.as_secs_f64());
        }
    }

    /// Counts a failure that an upstream is to blame for.
    pub fn upstream_error(&self, upstream: &str, code: &str) {
        self.upstream_errors.with_label_values(&[upstream, code]).inc();
    }

    /// Whether a server is asked.
    pub fn server_up(&self, upstream: &str, server: &str) -> IntGauge {
        self.server_up.with_label_values(&[upstream, server])
    }

    /// How often a server was left out.
    pub fn server_ejections(&self, upstream: &str, server: &str) -> IntCounter {
        self.server_ejections.with_label_values(&[upstream, server])
    }

    /// How often requests to an upstream were repeated.
    pub fn upstream_retries(&self, upstream: &str) -> IntCounter {
        self.upstream_retries.with_label_values(&[upstream])
    }

    /// Counts a posted item; `outcome` is `stored` or an error code.
    pub fn news_append(&self, agent: &str, outcome: &str) {
        self.news_appends.with_label_values(&[agent, outcome]).inc();
    }

    /// Counts a page of news; `outcome` is `items`, `empty` or an error code.
    pub fn news_read(&self, agent: &str, outcome: &str) {
        self.news_reads.with_label_values(&[agent, outcome]).inc();
    }

    /// Counts a reload; `outcome` is `applied`, `unchanged` or `refused`.
    pub fn config_reload(&self, outcome: &str) {
        self.config_reloads.with_label_values(&[outcome]).inc();
        if outcome == "refused" {
            self.config_ok.set(0);
        }
    }

    /// Notes that what was read then is in force.
    pub fn config_in_force(&self, read_at: SystemTime) {
        let seconds = read_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        self.config_time.set(i64::try_from(seconds).unwrap_or(i64::MAX));
        self.config_ok.set(1);
    }

    /// Counts a call of the outbound tool; `outcome` is a class of statuses or one of the tool's codes.
    pub fn rest_request(&self, agent: &str, outcome: &str, signed: bool) {
        let signed = if signed { "true" } else { "false" };
        self.rest_requests.with_label_values(&[agent, outcome, signed]).inc();
    }

    /// Counts a call whose answer may be kept; `outcome` is a word of a closed list.
    pub fn cache_request(&self, agent: &str, route: &str, outcome: &str) {
        self.cache_requests.with_label_values(&[agent, route, outcome]).inc();
    }

    /// All metrics in Prometheus's text format.
    pub fn render(&self) -> Vec<u8> {
        let mut text = Vec::new();
        // Writing into memory fails only for a family without metrics, which the registry never gives.
        let _ = TextEncoder::new().encode(&self.registry.gather(), &mut text);
        text
    }
}

pub(super) fn register<C: Collector + Clone + 'static>(registry: &Registry, metric: C) -> Result<C, prometheus::Error> {
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

/// The three digits of a status without an allocation.
fn status_text(status: u16, digits: &mut [u8; 3]) -> &str {
    let digit = |value: u16| b'0' + (value % 10) as u8;
    *digits = [digit(status / 100), digit(status / 10), digit(status)];
    std::str::from_utf8(digits).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::StoreState;

    #[test]
    fn what_is_counted_stands_in_the_text() {
        let metrics = Metrics::new().unwrap();
        metrics.request("weather", "talk", 502, Duration::from_millis(3));
        let text = String::from_utf8(metrics.render()).unwrap();
        assert!(text.contains(r#"restap_requests_total{agent="weather",route="talk",status="502"} 1"#), "{text}");
    }

    #[test]
    fn docs_metrics_lists_every_metric() {
        let metrics = Metrics::new().unwrap();
        metrics.request("a", "talk", 200, Duration::ZERO);
        metrics.streams("a").set(0);
        metrics.talk("a", 0, Some(Duration::ZERO));
        metrics.upstream_error("u", "upstream_error");
        metrics.news_append("a", "stored");
        metrics.news_read("a", "empty");
        metrics.store.waiting("a").set(0);
        let (readable, writable, clock_ahead) = (true, true, Duration::ZERO);
        let (feeds, bytes, removed) = (0, 0, 0);
        metrics.store.set(StoreState { engine: "e", readable, writable, feeds, bytes, removed, clock_ahead });
        metrics.config_reload("applied");
        metrics.server_up("u", "http://127.0.0.1");
        metrics.server_ejections("u", "http://127.0.0.1");
        metrics.upstream_retries("u");
        metrics.rest_request("a", "2xx", true);
        metrics.cache_request("a", "it", "hit");
        let rows: String = metrics.registry.gather().iter().fold(String::new(), |rows, family| {
            let labels: Vec<&str> =
                family.get_metric()[0].get_label().iter().map(prometheus::proto::LabelPair::name).collect();
            let kind = format!("{:?}", family.get_field_type()).to_lowercase();
            format!("{rows}| `{}` | {kind} | {} | {} |\n", family.name(), labels.join(", "), family.help())
        });
        let page = format!(
            "# Metrics\n\n`GET /metrics` on the admin listener, in Prometheus's text format. Labels hold what the operator wrote or a word\n\
             of a closed list; never a path parameter, a query or a session.\n\n| metric | type | labels | what it says |\n|---|---|---|---|\n{rows}\n\
             A dashboard for Grafana is [packaging/grafana.json](../packaging/grafana.json), and rules for alerts are\n\
             [packaging/alerts.yaml](../packaging/alerts.yaml).\n"
        );
        expect_test::expect_file!["../../docs/metrics.md"].assert_eq(&page);
    }
}
