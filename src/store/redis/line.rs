//! `Line`: a connection that is made again whenever it is lost; and the one that listens.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ErrorKind, RedisError, RedisResult, Script, TlsCertificates, Value, cmd};
use tokio::sync::Notify;

use super::{Shared, settings};
use crate::net::tls;
use crate::store::settings::Server;
use crate::store::shared::{Backoff, CONNECT_TIMEOUT, DEADLINE, Problem};
use crate::store::{OpenError, StoreError};

/// How often a connection that says nothing is asked whether it is there.
const PING_EVERY: std::time::Duration = std::time::Duration::from_secs(1);

/// What was appended is told here: the first two digits of the feed's hash.
const ARRIVALS: &str = "{restap}:arrivals";

const AWAY: StoreError = StoreError::Unavailable("Redis can't be reached");

#[derive(Default)]
pub(super) struct Line {
    connection: ArcSwapOption<MultiplexedConnection>,
    /// It is of no use any more.
    renew: Notify,
}

/// Whether it can be read at all.
pub(in crate::store) fn is_url(url: &str) -> bool {
    ["redis://", "rediss://", "valkey://", "valkeys://"].iter().any(|scheme| url.starts_with(scheme))
        && Client::open(url).is_ok()
}

pub(super) fn client(server: &Server) -> Result<Client, OpenError> {
    let url = server.url.expose();
    let encrypted = url.starts_with("rediss://") || url.starts_with("valkeys://");
    let opened = if encrypted {
        let root_cert = tls::bundle(&server.tls)?;
        Client::build_with_tls(url, TlsCertificates { client_tls: None, root_cert: Some(root_cert) })
    } else {
        Client::open(url)
    };
    opened.map_err(|_| OpenError::Url("store.redis.url"))
}

impl Line {
    fn is_connected(&self) -> bool {
        self.connection.load().is_some()
    }

    fn connection(&self) -> Result<MultiplexedConnection, StoreError> {
        self.connection.load_full().map(|connection| (*connection).clone()).ok_or(AWAY)
    }

    pub(super) async fn run(&self, script: &Script, arguments: Vec<Vec<u8>>) -> Result<Value, StoreError> {
        let mut connection = self.connection()?;
        let mut invocation = script.prepare_invoke();
        for argument in &arguments {
            invocation.arg(argument.as_slice());
        }
        invocation.invoke_async(&mut connection).await.map_err(|error| self.failed(&error))
    }

    /// What callers get.
    fn failed(&self, error: &RedisError) -> StoreError {
        let text = error.to_string();
        let says = |code: &str| error.code() == Some(code) || text.contains(code);
        if says("OOM") || says("MISCONF") {
            tracing::error!("store: Redis: {text}");
            return StoreError::Full;
        }
        if says("NOREPLICAS") {
            return StoreError::Unavailable("Redis has too few replicas");
        }
        let elsewhere = ["READONLY", "LOADING", "MOVED", "CLUSTERDOWN", "MASTERDOWN", "NOAUTH"];
        if error.is_io_error() || error.is_connection_dropped() || elsewhere.into_iter().any(says) {
            self.renew.notify_one();
            return AWAY;
        }
        if error.is_timeout() {
            return StoreError::Unavailable("Redis is too slow");
        }
        tracing::error!("store: Redis: {text}");
        StoreError::Unavailable("Redis refuses a command")
    }
}

/// Keeps a connection for as long as the engine is open.
pub(super) async fn keep(shared: Arc<Shared>, line: impl Fn(&Shared) -> &Line + Send) {
    let line = line(&shared);
    let mut backoff = Backoff::new();
    let config =
        AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT_TIMEOUT)).set_response_timeout(Some(DEADLINE));
    loop {
        let connected = shared.client.get_multiplexed_async_connection_with_config(&config).await;
        let problem = match connected {
            Ok(mut connection) => match settings::admit(&mut connection, &shared).await {
                Ok(()) => {
                    backoff.reset();
                    line.connection.store(Some(Arc::new(connection.clone())));
                    if shared.writing.is_connected() && shared.reading.is_connected() {
                        shared.status.recover();
                    }
                    let problem = until_lost(line, &mut connection).await;
                    line.connection.store(None);
                    problem
                }
                Err(problem) => problem,
            },
            Err(error) => away(&error),
        };
        shared.status.fail(problem);
        backoff.wait().await;
    }
}

async fn until_lost(line: &Line, connection: &mut MultiplexedConnection) -> Problem {
    loop {
        tokio::select! {
            () = line.renew.notified() => {
                return Problem::Away("the connection was lost; it is made again as soon as possible".into());
            }
            () = tokio::time::sleep(PING_EVERY) => {
                let answered: RedisResult<Value> = cmd("PING").query_async(connection).await;
                if let Err(error) = answered {
                    return away(&error);
                }
            }
        }
    }
}

/// What operators read.
pub(super) fn away(error: &RedisError) -> Problem {
    let advice = match error.code() {
        Some("MOVED") => {
            "; it is part of a cluster, and store.redis.url must name the server that has the slot of {restap}"
        }
        _ if error.kind() == ErrorKind::AuthenticationFailed => "; store.redis.url holds the user and the password",
        _ => "",
    };
    Problem::Away(format!("{error}{advice}"))
}

/// Wakes who waits here for what is appended at other gateways.
pub(super) async fn listen(shared: Arc<Shared>) {
    let mut backoff = Backoff::new();
    loop {
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, shared.client.get_async_pubsub()).await;
        if let Ok(Ok(mut pubsub)) = connected
            && pubsub.subscribe(ARRIVALS).await.is_ok()
        {
            backoff.reset();
            // What came while nobody listened.
            shared.arrivals.announce_all();
            let mut messages = pubsub.into_on_message();
            while let Some(message) = next(&mut messages).await {
                match std::str::from_utf8(message.get_payload_bytes())
                    .ok()
                    .and_then(|mark| u8::from_str_radix(mark, 16).ok())
                {
                    Some(mark) => shared.arrivals.announce_mark(mark),
                    None => shared.arrivals.announce_all(),
                }
            }
        }
        backoff.wait().await;
    }
}

async fn next(messages: &mut redis::aio::PubSubStream) -> Option<redis::Msg> {
    use futures_core::Stream as _;
    let mut messages = std::pin::Pin::new(messages);
    std::future::poll_fn(|cx| messages.as_mut().poll_next(cx)).await
}

/// Bytes of all items, how far the newest timestamp lies ahead of the server's clock, and how many feeds there are.
pub(super) async fn facts(shared: &Shared) -> Result<(u64, u64, u64), StoreError> {
    let mut connection = shared.reading.connection()?;
    let asked: RedisResult<(Option<u64>, Option<u64>, Option<u64>)> =
        cmd("HMGET").arg("{restap}:t").arg("bytes").arg("newest").arg("feeds").query_async(&mut connection).await;
    let (bytes, newest, feeds) = asked.map_err(|error| shared.reading.failed(&error))?;
    let asked: RedisResult<(u64, u64)> = cmd("TIME").query_async(&mut connection).await;
    let (seconds, micros) = asked.map_err(|error| shared.reading.failed(&error))?;
    let now = shared.clock.as_ref().map_or(seconds * 1000 + micros / 1000, |clock| clock.unix_ms());
    Ok((bytes.unwrap_or(0), newest.unwrap_or(0).saturating_sub(now), feeds.unwrap_or(0)))
}
