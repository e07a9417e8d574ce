//! `Principal`: a name that a caller has proven, and `Caller`: all that it has proven at once.

use std::fmt;

/// Characters of a name that a log line or a header shows.
const SHOWN_MAX: usize = 256;

/// A verified name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    /// An API key, by its name in gateway.yaml.
    ApiKey(Box<str>),
    /// An agent that signed the request (Web Bot Auth).
    Agent {
        /// Its canonical URL, such as `https://bot.partner.example/agents/scout`.
        url: Box<str>,
        /// The thumbprint of the key (RFC 7638).
        thumbprint: Box<str>,
    },
    /// The bearer of a token.
    Jwt {
        /// `iss`.
        issuer: Box<str>,
        /// `sub`; empty where the token names none.
        subject: Box<str>,
        /// Names and values that groups may be made of; `group` is whatever the issuer's `groups_claim` is.
        claims: Vec<(Box<str>, Box<str>)>,
    },
    /// A client certificate.
    Cert {
        /// Its names, such as `dns:edge.example.com`, `uri:spiffe://…` and `sha256:…`; the first is what it is called.
        names: Vec<Box<str>>,
    },
}

/// How a caller is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// By a signature.
    Agent,
    /// By an API key.
    ApiKey,
    /// By a token.
    Jwt,
    /// By a client certificate.
    Cert,
}

impl Kind {
    /// As it stands in gateway.yaml, in logs and in `Restap-Caller-Kind`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::ApiKey => "api_key",
            Self::Jwt => "jwt",
            Self::Cert => "cert",
        }
    }
}

impl Principal {
    /// How it was proven.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Agent { .. } => Kind::Agent,
            Self::ApiKey(_) => Kind::ApiKey,
            Self::Jwt { .. } => Kind::Jwt,
            Self::Cert { .. } => Kind::Cert,
        }
    }

    /// What it is called, without its kind: the same for the same caller, and for no other one of the kind.
    pub fn name(&self) -> String {
        match self {
            Self::ApiKey(name) => name.to_string(),
            Self::Agent { url, .. } => url.to_string(),
            Self::Jwt { issuer, subject, .. } => format!("{issuer}#sub={subject}"),
            Self::Cert { names } => names.first().map(ToString::to_string).unwrap_or_default(),
        }
    }
}

/// `api_key:ci`, `agent:https://…`, `jwt:https://…#sub=…`, `cert:dns:…`.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind().as_str(), self.name())
    }
}

/// A verified caller: at least one principal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    first: Principal,
    others: Vec<Principal>,
}

impl Caller {
    /// `None` where nothing is proven. A signature says most of who calls, then what stands in the request, then what its
    /// connection brought: the caller is called by the first of these.
    pub fn new(mut principals: Vec<Principal>) -> Option<Self> {
        principals.sort_by_key(|principal| match principal.kind() {
            Kind::Agent => 0,
            Kind::ApiKey => 1,
            Kind::Jwt => 2,
            Kind::Cert => 3,
        });
        let mut principals = principals.into_iter();
        Some(Self { first: principals.next()?, others: principals.collect() })
    }

    /// What it is called by.
    pub fn principal(&self) -> &Principal {
        &self.first
    }

    /// Everything that it has proven.
    pub fn principals(&self) -> impl Iterator<Item = &Principal> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// The caller for a log line: visible ASCII, and not endless.
    pub fn shown(&self) -> String {
        let whole = self.first.to_string();
        let visible = whole.chars().map(|c| if c.is_ascii_graphic() { c } else { '?' });
        visible.take(SHOWN_MAX).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Principal {
        Principal::ApiKey(name.into())
    }

    #[test]
    fn a_caller_is_called_by_what_says_most_of_it() {
        let cert = Principal::Cert { names: vec!["dns:edge.example".into()] };
        let agent = Principal::Agent { url: "https://bot.example".into(), thumbprint: "t".into() };
        assert_eq!(Caller::new(Vec::new()), None);
        for (principals, shown) in [
            (vec![cert.clone()], "cert:dns:edge.example"),
            (vec![cert.clone(), key("ci")], "api_key:ci"),
            (vec![cert, key("ci"), agent], "agent:https://bot.example"),
        ] {
            let count = principals.len();
            let caller = Caller::new(principals).unwrap();
            assert_eq!((caller.shown().as_str(), caller.principals().count()), (shown, count));
        }
    }

    #[test]
    fn a_log_line_can_carry_any_caller() {
        let jwt = Principal::Jwt { issuer: "https://id".into(), subject: "é\n x".into(), claims: Vec::new() };
        assert_eq!(Caller::new(vec![jwt]).unwrap().shown(), "jwt:https://id#sub=???x");
        let long = Caller::new(vec![key(&"a".repeat(1000))]).unwrap();
        assert_eq!(long.shown().len(), SHOWN_MAX);
    }
}
