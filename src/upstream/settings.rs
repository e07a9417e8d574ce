//! `Settings`: one entry of `upstreams:`.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::HeaderName;
use http::header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};

use crate::net::Url;
use crate::yaml::{Fields, Node, Period, Problem, ReadableFile, Secret, Slot, Switch, Value};

/// Headers that belong to the connection, which the gateway sets itself.
const OWN_HEADERS: [HeaderName; 7] = [CONNECTION, CONTENT_LENGTH, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

mod balancing;

pub use balancing::{Balance, Health, Retry, Server, When};
use balancing::{health, retry, servers};

pub use crate::net::HttpVersion;
pub use crate::net::tls::Settings as Tls;

/// A service behind the gateway.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The key under `upstreams:`, or the URL itself where it was written in place of a name.
    pub name: String,
    /// Where it is; the path goes in front of every request's own. Of several servers the first.
    pub url: Url,
    /// All of `servers:`; empty where `url:` is written.
    pub servers: Vec<Server>,
    /// Which of them is next.
    pub balance: Balance,
    /// Whether requests are repeated; `None` is only where nothing of them was sent.
    pub retry: Option<Retry>,
    /// Whether servers are asked how they are.
    pub health: Option<Health>,
    /// Set on every request, in place of the caller's; `basic:` and `bearer:` stand here as `authorization`.
    pub headers: Vec<(HeaderName, Secret)>,
    /// Added to every request's query; names and values are not yet encoded.
    pub query: Vec<(String, Secret)>,
    /// The credential for the dialect's own place (`api_key:`).
    pub api_key: Option<Secret>,
    /// Client credentials that a token is asked for with.
    pub oauth2: Option<OAuth2>,
    /// What was set; the kind of use (capability or talk) fills in the rest.
    pub timeout: Timeouts,
    /// TLS towards the service.
    pub tls: Tls,
    /// The version of HTTP.
    pub http: HttpVersion,
    /// Whether `Set-Cookie` reaches the caller.
    pub cookies: Cookies,
    /// What becomes of redirects.
    pub redirects: Redirects,
    /// Whether agents of other files may name it.
    pub shared: bool,
}

/// `timeout:`; `None` is the default of the kind of use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the connection stands, TLS included.
    pub connect: Option<Duration>,
    /// From the request's end until the answer's first byte.
    pub first_byte: Option<Duration>,
    /// Between any two bytes of the answer.
    pub idle: Option<Duration>,
    /// Between any two decoded events of a talk; keep-alives do not count.
    pub progress: Option<Duration>,
    /// Over the whole exchange; off unless set.
    pub total: Option<Duration>,
}

/// `cookies:` of an upstream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Cookies {
    /// `Set-Cookie` is dropped.
    #[default]
    Drop,
    /// `Set-Cookie` reaches the caller.
    Pass,
}

/// `oauth2:` of an upstream: client credentials (RFC 6749, section 4.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuth2 {
    /// Where tokens are asked for.
    pub token_url: Url,
    /// Who asks.
    pub client_id: Secret,
    /// The proof of it.
    pub client_secret: Secret,
    /// What is asked for.
    pub scopes: Vec<String>,
}

/// `redirects:` of an upstream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Redirects {
    /// They reach the caller.
    #[default]
    Pass,
    /// Those of GET and HEAD are followed within the origin, three at most.
    Follow,
}

impl Settings {
    /// A service of which nothing but the URL is written.
    pub fn at(name: &str, url: Url) -> Self {
        Self {
            name: name.to_owned(),
            url,
            servers: Vec::new(),
            balance: Balance::default(),
            retry: None,
            health: None,
            headers: Vec::new(),
            query: Vec::new(),
            api_key: None,
            oauth2: None,
            timeout: Timeouts::default(),
            tls: Tls::default(),
            http: HttpVersion::default(),
            cookies: Cookies::default(),
            redirects: Redirects::default(),
            shared: false,
        }
    }

    /// Reads the entry of this name.
    pub fn take(name: &str, slot: Slot<'_, '_>) -> Option<Self> {
        slot.section("upstream", |fields| {
            let doc = "Where the service is. Its path goes in front of every request's own.";
            let url = fields.with("url", doc, url);
            let servers = fields.with("servers", "Several servers of the service, in place of `url`.", servers);
            let doc = "Which server is next: in turn, whoever has the fewest requests, or one a session.";
            let balance = fields.word("balance", &Balance::WORDS, Balance::default(), doc);
            let doc = "When a request is sent again; by default only where nothing of it was sent.";
            let retry = fields.with("retry", doc, retry);
            let health = fields.with("health", "A path that says whether a server is well.", health);
            let headers = fields.with("headers", "Headers to set on every request.", headers);
            let query = fields.with("query", "Parameters to add to every request's query.", query);
            let authorization = authorization(fields);
            let doc = "Client credentials; the token is asked for, kept, renewed, and sent as `Authorization: Bearer`.";
            let oauth2 = fields.with("oauth2", doc, OAuth2::take);
            let api_key =
                fields.optional("api_key", "The credential that goes where the dialect's service expects it.");
            let timeout =
                fields.with("timeout", "How long to wait; a talk waits longer than a capability.", Timeouts::take);
            let tls = fields.with("tls", "TLS towards the service.", Tls::take);
            let http = fields.word("http", &HttpVersion::WORDS, HttpVersion::Auto, "The version of HTTP.");
            let cookies =
                fields.word("cookies", &Cookies::WORDS, Cookies::Drop, "Whether `Set-Cookie` reaches the caller.");
            let doc = "Whether redirects of GET and HEAD within the service's origin are followed, three at most.";
            let redirects = fields.word("redirects", &Redirects::WORDS, Redirects::Pass, doc);
            let shared = fields.or("shared", false, "Whether agents of other files may name it.");

            let url = one_place(fields, url, servers.as_deref())?;
            let mut settings = Self::at(name, url);
            settings.servers = servers.unwrap_or_default();
            settings.balance = balance;
            settings.retry = retry;
            settings.health = health;
            if let Some(node) = fields.get("tls").filter(|_| !settings.url.origin.tls) {
                let help = "write https:// in the URL, or leave `tls` out";
                fields.problem(Problem::error(node, "`tls` does nothing here: the URL is http://").at_key().help(help));
            }
            settings.headers = headers.unwrap_or_default();
            settings.headers.extend(authorization.map(|value| (AUTHORIZATION, value)));
            settings.query = query.unwrap_or_default();
            settings.api_key = api_key;
            settings.oauth2 = oauth2;
            settings.timeout = timeout.unwrap_or_default();
            settings.tls = tls.unwrap_or_default();
            settings.http = http;
            settings.cookies = cookies;
            settings.redirects = redirects;
            settings.shared = shared;
            Some(settings)
        })
    }
}

fn url(slot: Slot<'_, '_>) -> Option<Url> {
    slot.parsed::<Url>("a URL such as http://127.0.0.1:9000/v1", Some("[Hh][Tt][Tt][Pp][Ss]?://.+"))
}

/// `url`, or the first of `servers`: exactly one of the two says where the service is.
fn one_place(fields: &Fields<'_, '_>, url: Option<Url>, servers: Option<&[Server]>) -> Option<Url> {
    match (fields.get("url"), fields.get("servers")) {
        (None, None) => {
            let problem = Problem::error(fields.node()?, "neither `url` nor `servers` says where the service is");
            fields.problem(problem.help("add `url`, such as url: http://127.0.0.1:9000"));
        }
        (Some(_), Some(servers)) => {
            let problem = Problem::error(servers, "`url` already says where the service is").at_key();
            fields.problem(problem.help("keep one of `url` and `servers`"));
        }
        _ => {}
    }
    if let Some(node) = fields.get("balance").filter(|_| servers.is_none_or(|servers| servers.len() < 2)) {
        let problem = Problem::error(node, "`balance` does nothing here: there is one server").at_key();
        fields.problem(problem.help("write `servers`, or leave it out"));
    }
    url.or_else(|| servers?.first().map(|first| first.url.clone()))
}

/// `basic:` or `bearer:`, as the value of `Authorization`.
fn authorization(fields: &mut Fields<'_, '_>) -> Option<Secret> {
    let basic = fields.with("basic", "HTTP Basic credentials.", |slot| {
        slot.section("basic", |fields| {
            let user = fields.required::<Secret>("user", "The user name.");
            let password = fields.required::<Secret>("password", "The password.");
            let (user, password) = (user?, password?);
            if let Some(node) = fields.get("user").filter(|_| user.expose().contains(':')) {
                fields.problem(Problem::error(node, "a user name of HTTP Basic can't hold a colon (RFC 7617)"));
            }
            let pair = format!("{}:{}", user.expose(), password.expose());
            Some(Secret::new(format!("Basic {}", BASE64.encode(pair))))
        })
    });
    let bearer = fields.with("bearer", "The token of `Authorization: Bearer`.", |slot| {
        let node = slot.node();
        let token = header_value(slot)?;
        node.map(|_| Secret::new(format!("Bearer {}", token.expose())))
    });
    let written = fields.get("headers").into_iter().flat_map(Node::children);
    let written = written.filter(|header| header.key().is_some_and(|key| key.eq_ignore_ascii_case("authorization")));
    let others = ["basic", "bearer", "oauth2"].into_iter().filter_map(|name| fields.get(name));
    let rivals: Vec<_> = written.chain(others).collect();
    if let [first, rest @ ..] = rivals.as_slice() {
        for rival in rest {
            let by = first.key().filter(|key| matches!(*key, "basic" | "bearer" | "oauth2")).unwrap_or("headers");
            let message = format!("`Authorization` is already set by `{by}`");
            fields.problem(Problem::error(*rival, message).at_key().help("keep one of them"));
        }
    }
    basic.or(bearer)
}

fn headers(slot: Slot<'_, '_>) -> Option<Vec<(HeaderName, Secret)>> {
    slot.map(|key, slot| {
        let name = key.parse().ok();
        match &name {
            None => {
                slot.problem(|node| Problem::error(node, format!("{key:?} can't be the name of a header")).at_key());
            }
            Some(name) if OWN_HEADERS.contains(name) => slot.problem(|node| {
                Problem::error(node, format!("the gateway sets the header `{key}` itself"))
                    .at_key()
                    .help("leave it out")
            }),
            Some(_) => {}
        }
        let value = header_value(slot);
        Some((name?, value?))
    })
}

/// A credential that can stand in a header.
fn header_value(slot: Slot<'_, '_>) -> Option<Secret> {
    let (node, report) = (slot.node(), slot.report());
    let secret = Secret::take(slot)?;
    if http::HeaderValue::from_str(secret.expose()).is_ok() {
        return Some(secret);
    }
    report?.add(Problem::error(node?, "a header can't carry this value: it holds a control character or is not ASCII"));
    None
}

fn query(slot: Slot<'_, '_>) -> Option<Vec<(String, Secret)>> {
    slot.map(|key, slot| Some((key.to_owned(), Secret::take(slot)?)))
}

impl Timeouts {
    fn take(slot: Slot<'_, '_>) -> Option<Self> {
        slot.section("timeout", |fields| {
            let mut period = |name, doc: &str| fields.optional::<Period>(name, doc).map(Into::into);
            Some(Self {
                connect: period("connect", "Until the connection stands, TLS included: 5s unless set."),
                first_byte: period("first_byte", "Until the answer's first byte: 60s unless set, 5m for a talk."),
                idle: period("idle", "Between any two bytes of the answer: 60s unless set, 2m for a talk."),
                progress: period(
                    "progress",
                    "Between any two events of a talk that are no keep-alives: 5m unless set.",
                ),
                total: fields.with("total", "Over the whole exchange; off unless set.", |slot| {
                    match slot.switch(Period::take)? {
                        Switch::On(period) => Some(period.into()),
                        Switch::Off | Switch::Default => None,
                    }
                }),
            })
        })
    }
}

impl Tls {
    fn take(slot: Slot<'_, '_>) -> Option<Self> {
        slot.section("upstream_tls", |fields| {
            let ca = fields
                .optional::<ReadableFile>("ca", "PEM file of the authorities to trust in place of the system's.")
                .map(Into::into);
            let cert = fields
                .optional::<ReadableFile>("cert", "PEM file of the client certificate and its chain.")
                .map(Into::into);
            let key =
                fields.optional::<ReadableFile>("key", "PEM file of the client certificate's key.").map(Into::into);
            let server_name = fields.optional("server_name", "The name to verify, where it is not the URL's host.");
            let verify = fields.or("verify", true, "Whether the service must prove who it is.");
            for (present, absent) in [("cert", "key"), ("key", "cert")] {
                if let (Some(node), None) = (fields.get(present), fields.get(absent)) {
                    let problem = Problem::error(node, format!("`{present}` does nothing without `{absent}`"));
                    fields.problem(problem.at_key().help(format!("add `{absent}`")));
                }
            }
            if !verify {
                fields.useless(&["ca"], "`verify: false` trusts everybody");
            }
            Some(Self { ca, cert, key, server_name, insecure: !verify })
        })
    }
}

impl HttpVersion {
    const WORDS: [(&str, Self); 4] =
        [("auto", Self::Auto), ("1.0", Self::Http10), ("1.1", Self::Http11), ("2", Self::Http2)];
}

impl OAuth2 {
    fn take(slot: Slot<'_, '_>) -> Option<Self> {
        slot.section("oauth2", |fields| {
            let token_url = fields.required_with("token_url", "Where tokens are asked for.", |slot| {
                slot.parsed::<Url>("a URL such as https://id.example.com/token", Some("[Hh][Tt][Tt][Pp][Ss]?://.+"))
            });
            let client_id = fields.required::<Secret>("client_id", "Who asks.");
            let client_secret = fields.required::<Secret>("client_secret", "The proof of it.");
            let scopes = fields.optional("scopes", "What is asked for.");
            Some(Self {
                token_url: token_url?,
                client_id: client_id?,
                client_secret: client_secret?,
                scopes: scopes.unwrap_or_default(),
            })
        })
    }
}

impl Redirects {
    const WORDS: [(&str, Self); 2] = [("pass", Self::Pass), ("follow", Self::Follow)];
}

impl Cookies {
    const WORDS: [(&str, Self); 2] = [("drop", Self::Drop), ("pass", Self::Pass)];
}
