//! `Target`: where the server is and how it is spoken to.

use std::future::poll_fn;
use std::str::FromStr as _;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio_postgres::config::{ChannelBinding, Host, SslMode, TargetSessionAttrs};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::line::full;
use crate::net::tls;
use crate::store::OpenError;
use crate::store::settings::Server;
use crate::store::shared::{CONNECT_TIMEOUT, Problem, SILENCE};

pub(super) struct Target {
    config: Config,
    /// `None` where the server is on this machine or `sslmode=disable`.
    tls: Option<MakeRustlsConnect>,
}

/// Whether it can be read at all.
pub(in crate::store) fn is_url(url: &str) -> bool {
    (url.starts_with("postgres://") || url.starts_with("postgresql://")) && Config::from_str(&plain(url)).is_ok()
}

/// libpq's names of modes that verify: here TLS always does.
fn plain(url: &str) -> String {
    url.replace("sslmode=verify-full", "sslmode=require").replace("sslmode=verify-ca", "sslmode=require")
}

impl Target {
    pub(super) fn new(server: &Server) -> Result<Self, OpenError> {
        let mut config =
            Config::from_str(&plain(server.url.expose())).map_err(|_| OpenError::Url("store.postgres.url"))?;
        config
            .application_name("restap-gateway")
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_user_timeout(SILENCE)
            .keepalives_idle(SILENCE)
            // Of several hosts the one that takes changes.
            .target_session_attrs(TargetSessionAttrs::ReadWrite);
        let local = config.get_hosts().iter().all(|host| match host {
            Host::Tcp(name) => name == "localhost" || name.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback()),
            Host::Unix(_) => true,
        });
        let wanted = config.get_ssl_mode() == SslMode::Require || server.tls.ca.is_some();
        if wanted {
            config.ssl_mode(SslMode::Require);
        }
        let tls = if wanted || (!local && config.get_ssl_mode() != SslMode::Disable) {
            Some(MakeRustlsConnect::new(tls::client_config(&server.tls)?))
        } else {
            config.ssl_mode(SslMode::Disable);
            config.channel_binding(ChannelBinding::Disable);
            None
        };
        Ok(Self { config, tls })
    }

    /// A new connection, and the task that drives it; `heard` gets what is notified.
    pub(super) async fn connect(
        &self,
        heard: impl FnMut(&str) + Send + 'static,
    ) -> Result<(Client, JoinHandle<()>), Problem> {
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, async {
            match &self.tls {
                None => self.config.connect(NoTls).await.map(|(client, connection)| (client, drive(connection, heard))),
                Some(tls) => {
                    let connected = self.config.connect(tls.clone()).await;
                    connected.map(|(client, connection)| (client, drive(connection, heard)))
                }
            }
        });
        match connected.await {
            Ok(Ok(connected)) => Ok(connected),
            Ok(Err(error)) => Err(Problem::Away(full(&error))),
            Err(_) => Err(Problem::Away("it does not answer".into())),
        }
    }
}

fn drive<S, T>(mut connection: Connection<S, T>, mut heard: impl FnMut(&str) + Send + 'static) -> JoinHandle<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(notification) = message {
                heard(notification.payload());
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_told_from_other_text() {
        for url in [
            "postgres://u:p@db:5432/restap",
            "postgresql:///restap?host=/run/postgresql",
            "postgres://a,b/restap?sslmode=verify-full",
        ] {
            assert!(is_url(url), "{url}");
        }
        for url in ["", "http://db", "redis://db", "postgres://u:p@db:port/x", "postgres://db/x?sslmode=perhaps"] {
            assert!(!is_url(url), "{url}");
        }
    }
}
