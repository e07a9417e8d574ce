//! Signing a request, so that whom it comes from can be checked.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use url::{Host, Url};

use super::digest::ContentDigest;
use super::key::{InvalidSigningKey, SigningKey};
use super::{KEY_SET_PATH, LABELS_MAX, TAG};

/// Seconds that a signature is valid: long enough for a slow connection, no longer than a verifier's tolerance.
const LIFETIME: i64 = 60;

/// Bytes of a nonce.
const NONCE_LENGTH: usize = 64;

/// The fields that signing adds, which nobody else may set.
pub const SIGNED_FIELDS: [&str; 4] = ["content-digest", "signature-agent", "signature-input", "signature"];

/// Where an agent is for everybody: the identity that it signs with. An https URL without user, query and fragment,
/// without a slash at its end, in its canonical spelling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentUrl {
    origin: String,
    path: String,
}

/// Why nobody could check a signature that names this address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAgentUrl {
    /// No http or https URL, or more than one.
    #[error("it is no absolute URL without a user, a query and a fragment")]
    Syntax,
    /// Loopback, or `localhost`.
    #[error("it is this machine's own address")]
    Loopback,
    /// Keys must not be changed on their way.
    #[error("it is not https")]
    NotHttps,
}

impl FromStr for AgentUrl {
    type Err = InvalidAgentUrl;

    fn from_str(text: &str) -> Result<Self, InvalidAgentUrl> {
        let url = Url::parse(text).map_err(|_| InvalidAgentUrl::Syntax)?;
        let plain = url.username().is_empty() && url.password().is_none() && !text.contains(['?', '#', '@']);
        let host = url.host().filter(|_| plain && matches!(url.scheme(), "http" | "https"));
        let loopback = match host.ok_or(InvalidAgentUrl::Syntax)? {
            Host::Domain(name) => {
                let name = name.strip_suffix('.').unwrap_or(name);
                name == "localhost" || name.ends_with(".localhost")
            }
            Host::Ipv4(address) => address.is_loopback(),
            Host::Ipv6(address) => address.to_canonical().is_loopback(),
        };
        if loopback {
            return Err(InvalidAgentUrl::Loopback);
        }
        if url.scheme() != "https" {
            return Err(InvalidAgentUrl::NotHttps);
        }
        let path = url.path().trim_end_matches('/').to_owned();
        Ok(Self { origin: url.origin().ascii_serialization(), path })
    }
}

impl AgentUrl {
    /// Where its keys are.
    pub fn key_set(&self) -> String {
        format!("{self}{KEY_SET_PATH}")
    }
}

impl fmt::Display for AgentUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin, self.path)
    }
}

/// How `Signature-Agent` is written: no single form is understood by all verifiers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Form {
    /// `sig1="https://…/.well-known/jwks.json"`: draft-ietf-webbotauth-httpsig-protocol-01, and most before it.
    #[default]
    Untyped,
    /// With `;type=jwks_uri`: draft 00 alone.
    Typed,
    /// `"https://…"`, the origin: what was sent before the field was a dictionary.
    Legacy,
}

/// A request that is to be signed, exactly as it will be sent.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    /// In capitals.
    pub method: &'a str,
    /// `host[:port]` in lower case, without the scheme's default port: what `Host` will say.
    pub authority: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// Empty where there is none.
    pub body: &'a [u8],
    /// Further fields that are signed: their names in lower case, and their values.
    pub covered: &'a [(&'a str, &'a str)],
}

/// An agent that signs: where it is for everybody, and its keys.
#[derive(Debug, Clone)]
pub struct Signer {
    agent: AgentUrl,
    keys: Vec<SigningKey>,
}

impl Signer {
    /// The key that is used and, while keys are rotated, the one before it, which signs beside it. More are not used;
    /// `None` without any.
    pub fn new(agent: AgentUrl, keys: &[SigningKey]) -> Option<Self> {
        let keys: Vec<SigningKey> = keys.iter().take(LABELS_MAX).cloned().collect();
        (!keys.is_empty()).then_some(Self { agent, keys })
    }

    /// Whom it signs as.
    pub fn agent(&self) -> &AgentUrl {
        &self.agent
    }

    /// The fields to add, name and value: those of [`SIGNED_FIELDS`], `content-digest` only where there is a body.
    /// `now` is in Unix seconds; `nonce` fills its argument with random bytes, anew at every call.
    pub fn sign(
        &self,
        request: &Outgoing<'_>,
        form: Form,
        now: i64,
        nonce: &mut dyn FnMut(&mut [u8]),
    ) -> Result<Vec<(&'static str, String)>, InvalidSigningKey> {
        let [content_digest, signature_agent, signature_input, signature] = SIGNED_FIELDS;
        let (path, query) = request.target.split_once('?').unwrap_or((request.target, ""));
        let path = if path.is_empty() { "/" } else { path };
        let mut components = vec![
            ("@method", request.method.to_owned()),
            ("@authority", request.authority.to_owned()),
            ("@path", path.to_owned()),
            ("@query", format!("?{query}")),
        ];
        let digest = (!request.body.is_empty()).then(|| ContentDigest::field_of(request.body));
        components.extend(digest.iter().map(|digest| (content_digest, digest.clone())));
        components.extend(request.covered.iter().map(|(name, value)| (*name, value.trim().to_owned())));

        let member = match form {
            Form::Untyped => format!("\"{}\"", self.agent.key_set()),
            Form::Typed => format!("\"{}\";type=jwks_uri", self.agent.key_set()),
            Form::Legacy => format!("\"{}\"", self.agent.origin),
        };
        let (mut agents, mut inputs, mut signatures) = (Vec::new(), Vec::new(), Vec::new());
        for (number, key) in (1..).zip(&self.keys) {
            let label = format!("sig{number}");
            let agent_component = match form {
                Form::Legacy => format!("\"{signature_agent}\""),
                Form::Untyped | Form::Typed => format!("\"{signature_agent}\";key=\"{label}\""),
            };
            let mut random = [0; NONCE_LENGTH];
            nonce(&mut random);
            let named: Vec<(String, &str)> = components
                .iter()
                .map(|(name, value)| (format!("\"{name}\""), value.as_str()))
                .chain([(agent_component, member.as_str())])
                .collect();
            let parameters = format!(
                "created={now};expires={};keyid=\"{}\";alg=\"ed25519\";nonce=\"{}\";tag=\"{TAG}\"",
                now + LIFETIME,
                key.thumbprint(),
                BASE64_STANDARD.encode(random),
            );
            let (input, bytes) = sign_components(key, &named, &parameters)?;
            inputs.push(format!("{label}={input}"));
            signatures.push(format!("{label}=:{}:", BASE64_STANDARD.encode(bytes)));
            agents.push(format!("{label}={member}"));
        }
        let agents = if form == Form::Legacy { member } else { agents.join(", ") };
        let digest = digest.map(|digest| (content_digest, digest));
        let rest =
            [(signature_agent, agents), (signature_input, inputs.join(", ")), (signature, signatures.join(", "))];
        Ok(digest.into_iter().chain(rest).collect())
    }
}

/// Signs components in their order, each with its identifier as it stands in a base. Returns the member of
/// `Signature-Input` and the signature.
pub(super) fn sign_components(
    key: &SigningKey,
    components: &[(String, &str)],
    parameters: &str,
) -> Result<(String, [u8; 64]), InvalidSigningKey> {
    let mut base = String::new();
    for (identifier, value) in components {
        base.extend([identifier, ": ", value, "\n"]);
    }
    let identifiers: Vec<&str> = components.iter().map(|(identifier, _)| identifier.as_str()).collect();
    let input = format!("({});{parameters}", identifiers.join(" "));
    base.extend(["\"@signature-params\": ", &input]);
    Ok((input, key.sign(base.as_bytes())?))
}

#[cfg(test)]
mod tests;
