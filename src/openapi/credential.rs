//! What the service wants to be shown: security schemes, and parameters that are credentials. Nothing secret is read from
//! a document; each becomes the name of a variable that the operator sets.

use super::bundle::clipped;
use super::id::slug;
use super::survey::Survey;
use crate::yaml::{Kind, Node};

/// One credential that goes with every request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Credential {
    /// What the document calls it.
    pub name: String,
    /// How it is shown.
    pub scheme: Scheme,
}

/// How a credential is shown to the service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// In a header of its own.
    Header(String),
    /// In the query.
    Query(String),
    /// As a cookie.
    Cookie(String),
    /// HTTP Basic.
    Basic,
    /// `Authorization: Bearer`.
    Bearer,
    /// A token that the gateway itself gets with its client's credentials.
    OAuth2 {
        /// Where.
        token_url: String,
        /// For what.
        scopes: Vec<String>,
    },
}

impl Scheme {
    /// Whether both stand at the same place of a request.
    pub(super) fn is_same_place(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Header(one), Self::Header(other)) => one.eq_ignore_ascii_case(other),
            (one, other) => one == other || one.is_authorization() && other.is_authorization(),
        }
    }

    /// Whether it takes the place of `Authorization`.
    fn is_authorization(&self) -> bool {
        match self {
            Self::Header(name) => name.eq_ignore_ascii_case("authorization"),
            Self::Basic | Self::Bearer | Self::OAuth2 { .. } => true,
            Self::Query(_) | Self::Cookie(_) => false,
        }
    }
}

/// Headers that the gateway itself sets for each connection.
const OF_CONNECTION: [&str; 7] =
    ["connection", "content-length", "host", "te", "trailer", "transfer-encoding", "upgrade"];

/// What an operation of this `security` shows: the first of the alternatives that can be met.
pub(super) fn of_security<'d>(survey: &Survey<'d>, security: Option<Node<'d>>) -> Vec<Credential> {
    let Some(security) = security else { return Vec::new() };
    if security.kind() != Kind::List {
        let message = "`security` is no list".to_owned();
        survey.warn("bad_security", security, message, "set what the service wants on the upstream by hand");
        return Vec::new();
    }
    let mut unmet = None;
    for requirement in security.children() {
        match met(survey, requirement) {
            Ok(credentials) => {
                if security.children().nth(1).is_some() {
                    let message = "there are alternatives; the first that can be met is taken".to_owned();
                    survey.info(
                        "security_alternatives",
                        security,
                        message,
                        "change the upstream where another is wanted",
                    );
                }
                return credentials;
            }
            Err(reason) => unmet = unmet.or(Some(reason)),
        }
    }
    if let Some((node, message)) = unmet {
        let fix = "requests are sent without it; set what the service wants on the upstream by hand";
        survey.warn("security_unsupported", node, message, fix);
    }
    Vec::new()
}

type Unmet<'d> = (Node<'d>, String);

fn met<'d>(survey: &Survey<'d>, requirement: Node<'d>) -> Result<Vec<Credential>, Unmet<'d>> {
    let mut credentials: Vec<Credential> = Vec::new();
    for scheme in requirement.children() {
        let name = scheme.key().unwrap_or_default();
        let Some(definition) = definition(survey, name) else {
            let message = format!("there is no security scheme `{}`", clipped(name));
            survey.warn(
                "security_undefined",
                scheme,
                message,
                "add it to the document, or set it on the upstream by hand",
            );
            continue;
        };
        let credential = Credential { name: name.to_owned(), scheme: of_definition(survey, definition, scheme)? };
        if credential.scheme.is_authorization() && credentials.iter().any(|other| other.scheme.is_authorization()) {
            return Err((scheme, "two credentials can't both be `Authorization`".to_owned()));
        }
        if !credentials.iter().any(|known| known.scheme.is_same_place(&credential.scheme)) {
            credentials.push(credential);
        }
    }
    Ok(credentials)
}

fn definition<'d>(survey: &Survey<'d>, name: &str) -> Option<Node<'d>> {
    let schemes = survey.root.get("components").and_then(|it| it.get("securitySchemes"));
    let schemes = schemes.or(survey.root.get("securityDefinitions"))?;
    survey.bundle.follow(schemes.get(name)?).ok().filter(|it| it.kind() == Kind::Mapping)
}

fn of_definition<'d>(survey: &Survey<'d>, definition: Node<'d>, requirement: Node<'d>) -> Result<Scheme, Unmet<'d>> {
    let text = |key: &str| definition.get(key).and_then(Node::as_text).unwrap_or_default();
    let unsupported = |what: &str| Err((definition, format!("{what} is not supported")));
    match text("type").to_ascii_lowercase().as_str() {
        "apikey" => match (text("in"), text("name")) {
            (_, "") => unsupported("a key without a name"),
            ("query", name) => Ok(Scheme::Query(name.to_owned())),
            ("header", name) if OF_CONNECTION.contains(&name.to_ascii_lowercase().as_str()) => {
                unsupported("a header of the connection")
            }
            ("cookie", name) if is_token(name) => Ok(Scheme::Cookie(name.to_owned())),
            ("header", name) if is_token(name) => Ok(Scheme::Header(name.to_owned())),
            _ => unsupported("a key at this place"),
        },
        "basic" => Ok(Scheme::Basic),
        "http" => match text("scheme").to_ascii_lowercase().as_str() {
            "basic" => Ok(Scheme::Basic),
            "bearer" => Ok(Scheme::Bearer),
            other => unsupported(&format!("the HTTP scheme `{}`", clipped(other))),
        },
        "oauth2" => Ok(oauth2(survey, definition, requirement)),
        "openidconnect" => Ok(from_outside(survey, definition, "OpenID Connect")),
        "mutualtls" => unsupported("a client certificate without a file"),
        other => unsupported(&format!("the security scheme `{}`", clipped(other))),
    }
}

fn oauth2<'d>(survey: &Survey<'d>, definition: Node<'d>, requirement: Node<'d>) -> Scheme {
    let flow = definition.get("flows").and_then(|flows| flows.get("clientCredentials").or(flows.get("application")));
    let flow = flow.or_else(|| {
        matches!(definition.get("flow")?.as_text()?, "application" | "clientCredentials").then_some(definition)
    });
    let token_url =
        flow.and_then(|flow| flow.get("tokenUrl")?.as_text()).filter(|url| url.parse::<crate::net::Url>().is_ok());
    match token_url {
        Some(token_url) => Scheme::OAuth2 {
            token_url: token_url.to_owned(),
            scopes: requirement.children().filter_map(Node::as_text).map(str::to_owned).collect(),
        },
        None => from_outside(survey, definition, "an OAuth 2 flow that needs a person"),
    }
}

/// A token that somebody else has to get.
fn from_outside<'d>(survey: &Survey<'d>, definition: Node<'d>, what: &str) -> Scheme {
    let message = format!("{what} is not done by the gateway");
    survey.warn(
        "security_unsupported",
        definition,
        message,
        "get a token elsewhere and set it as the upstream's bearer",
    );
    Scheme::Bearer
}

/// Whether a parameter of this name is a credential.
pub(super) fn is_key_like(name: &str) -> bool {
    const NAMES: [&str; 12] = [
        "api_key",
        "apikey",
        "x_api_key",
        "key",
        "token",
        "access_token",
        "app_id",
        "app_key",
        "x_auth_token",
        "authorization",
        "x_access_token",
        "x_apikey",
    ];
    let name = name.to_ascii_lowercase().replace('-', "_");
    NAMES.contains(&name.as_str())
}

/// Whether a header can have this name (RFC 9110 5.1).
pub(super) fn is_token(name: &str) -> bool {
    name.parse::<http::HeaderName>().is_ok()
}

/// What the variable of a credential is called: the service's name, then its own.
pub(super) fn variable(service: &str, credential: &Credential, what: &str) -> String {
    let own = slug(&credential.name);
    let what = if own.ends_with(what) || what.is_empty() { String::new() } else { format!("_{what}") };
    let name = format!("{}_{own}{what}", slug(service)).to_ascii_uppercase();
    if name.starts_with(|first: char| first.is_ascii_digit()) { format!("_{name}") } else { name }
}
