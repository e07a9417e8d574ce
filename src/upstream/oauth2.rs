//! `Tokens`: the token of an upstream's client credentials (RFC 6749, section 4.4), asked for once for all who need it.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Problem;
use super::settings::{OAuth2, Settings};
use crate::net::{self, Bounds, Client, Coding, HttpVersion, Peer, Request, peer, tls};

/// What asking for a token may take.
const BOUNDS: Bounds = Bounds { bytes: 64 << 10, time: Duration::from_secs(10) };

/// How long a token is believed that does not say so, at most.
const LIFE_DEFAULT: Duration = Duration::from_mins(5);
const LIFE_MAX: Duration = Duration::from_hours(24);

/// A token is renewed so long before its end, or a tenth of its life before.
const MARGIN: Duration = Duration::from_secs(30);

/// After a failure nobody asks again for so long.
const PAUSE: Duration = Duration::from_secs(1);

/// Where tokens come from, and the one that is in use.
pub(super) struct Tokens {
    peer: Peer,
    target: PathAndQuery,
    basic: HeaderValue,
    body: Bytes,
    /// The same with the credentials in the body, for servers that take them only there.
    body_with_secret: Bytes,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    token: Option<(HeaderValue, Instant)>,
    failed: Option<(net::Error, Instant)>,
}

/// Asks for a token once: the value of `Authorization`.
pub async fn token(client: &Client, oauth2: &OAuth2) -> Result<HeaderValue, net::Error> {
    let tokens = Tokens::with(oauth2, tls::Settings::default(), client);
    tokens
        .map_err(|_| net::Error::Credentials("its client's credentials can't be sent"))?
        .ask(client)
        .await
        .map(|(token, _)| token)
}

impl Tokens {
    pub(super) fn new(settings: &Settings, oauth2: &OAuth2, client: &Client) -> Result<Self, Problem> {
        let same_service = oauth2.token_url.origin == settings.url.origin;
        Self::with(oauth2, if same_service { settings.tls.clone() } else { tls::Settings::default() }, client)
    }

    fn with(oauth2: &OAuth2, tls: tls::Settings, client: &Client) -> Result<Self, Problem> {
        let url = &oauth2.token_url;
        let peer = client.peer(&peer::Settings {
            origin: url.origin.clone(),
            tls,
            version: HttpVersion::Auto,
            connect: BOUNDS.time,
            write: BOUNDS.time,
            read: BOUNDS.time,
        })?;
        let path = if url.prefix.is_empty() { "/" } else { &url.prefix };
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let (id, secret) = (encoded(oauth2.client_id.expose()), encoded(oauth2.client_secret.expose()));
        let mut basic = HeaderValue::try_from(format!("Basic {}", BASE64.encode(format!("{id}:{secret}"))))
            .map_err(|_| Problem::Header(AUTHORIZATION))?;
        basic.set_sensitive(true);
        let mut body = "grant_type=client_credentials".to_owned();
        if !oauth2.scopes.is_empty() {
            body = format!("{body}&scope={}", encoded(&oauth2.scopes.join(" ")));
        }
        Ok(Self {
            peer,
            target: format!("{path}{}", url.query).parse().map_err(|_| Problem::Target)?,
            basic,
            body_with_secret: format!("{body}&client_id={id}&client_secret={secret}").into(),
            body: body.into(),
            state: Mutex::default(),
        })
    }

    /// The value of `Authorization`. `refused` is one that the service did not take: another is asked for, unless
    /// somebody else has done so meanwhile.
    pub(super) async fn authorization(
        &self,
        client: &Client,
        refused: Option<&HeaderValue>,
    ) -> Result<HeaderValue, net::Error> {
        let mut state = self.state.lock().await;
        let now = Instant::now();
        if let Some((token, until)) = &state.token
            && *until > now
            && refused != Some(token)
        {
            return Ok(token.clone());
        }
        if let Some((error, until)) = &state.failed
            && *until > now
        {
            return Err(error.clone());
        }
        match self.ask(client).await {
            Ok((token, life)) => {
                let margin = MARGIN.min(life / 10);
                *state = State { token: Some((token.clone(), Instant::now() + life - margin)), failed: None };
                Ok(token)
            }
            Err(error) => {
                *state = State { token: None, failed: Some((error.clone(), Instant::now() + PAUSE)) };
                Err(error)
            }
        }
    }

    async fn ask(&self, client: &Client) -> Result<(HeaderValue, Duration), net::Error> {
        let mut document = client.fetch(&self.peer, self.request(true), BOUNDS).await?;
        if matches!(document.status.as_u16(), 400 | 401) {
            document = client.fetch(&self.peer, self.request(false), BOUNDS).await?;
        }
        if document.status.is_client_error() {
            return Err(net::Error::Credentials("its token endpoint refuses the client's credentials"));
        }
        if !document.status.is_success() {
            return Err(net::Error::Protocol("its token endpoint failed"));
        }
        let answer: Value = serde_json::from_slice(&document.body).unwrap_or_default();
        let token = answer.get("access_token").and_then(Value::as_str).filter(|token| !token.is_empty());
        let token = token.and_then(|token| HeaderValue::try_from(format!("Bearer {token}")).ok());
        let mut token = token.ok_or(net::Error::Protocol("its token endpoint answered without a token"))?;
        token.set_sensitive(true);
        let life = answer.get("expires_in");
        let life = life.and_then(|life| life.as_u64().or_else(|| life.as_str()?.parse().ok()));
        Ok((token, life.map_or(LIFE_DEFAULT, Duration::from_secs).min(LIFE_MAX)))
    }

    fn request(&self, with_basic: bool) -> Request {
        let mut headers = HeaderMap::from_iter([
            (CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded")),
            (ACCEPT, HeaderValue::from_static("application/json")),
        ]);
        if with_basic {
            headers.insert(AUTHORIZATION, self.basic.clone());
        }
        Request {
            method: Method::POST,
            target: self.target.clone(),
            headers,
            body: if with_basic { self.body.clone() } else { self.body_with_secret.clone() },
            coding: Coding::Decoded,
            timeouts: net::Timeouts { first_byte: Some(BOUNDS.time), idle: Some(BOUNDS.time) },
        }
    }
}
