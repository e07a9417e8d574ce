//! What a request brings to prove who is calling, verified: keys, tokens, certificates, signatures.
//!
//! A credential that is there and bad is an error. What is not there proves nothing.

use std::sync::{Arc, Mutex, PoisonError};

use http::header::{AUTHORIZATION, HOST, HeaderName};
use http::{HeaderMap, HeaderValue};
use pingora::proxy::Session;

use super::admission::Route;
use super::ctx::RequestCtx;
use super::error::Refusal;
use super::respond::Failed;
use super::who::Guard;
use super::{Gateway, body, fields};
use crate::identity::jwt::{Expected, Token};
use crate::identity::settings::{self, Profile};
use crate::identity::{Caller, Jwks, KeySets, Principal};
use crate::restap::ErrorCode;
use crate::signature::{self, Claim, KeySet, Nonces, Outcome, Refused, Scheme, Verified};
use crate::store::{AgentId, Clock, Rate, SystemClock};

/// Where callers may send an API key beside `Authorization: Bearer`.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Bytes of a body whose signature is verified.
const SIGNED_BODY_MAX: u64 = 4 << 20;

/// What a signature must cover, for those who are asked for one (RFC 9421, section 5.1).
const ACCEPT_SIGNATURE: &str = "sig1=(\"@method\" \"@authority\" \"@path\" \"@query\" \"signature-agent\";key=\"sig1\");created;expires;keyid;nonce;tag=\"web-bot-auth\"";

/// An issuer of tokens, and its keys.
#[derive(Debug)]
pub(super) struct Issuer {
    pub settings: settings::Issuer,
    pub keys: Arc<Jwks>,
}

/// Signatures of agents.
#[derive(Debug)]
pub(super) struct Signatures {
    pub settings: settings::WebBotAuth,
    pub key_sets: KeySets,
    pub nonces: Arc<Mutex<Nonces>>,
    /// The hosts that requests may be signed for.
    pub authorities: Vec<String>,
}

/// Who calls, as far as it is proven.
#[derive(Debug, Default)]
pub(super) struct Proven {
    /// Enough to be let in.
    pub caller: Option<Caller>,
    /// Enough to be counted and logged.
    pub named: Option<Caller>,
}

/// Why a request proves nothing.
pub(super) enum Bad {
    /// It tries to.
    Credential(Refusal),
    /// Reading it failed.
    Request(Failed),
}

impl From<Refusal> for Bad {
    fn from(refusal: Refusal) -> Self {
        Self::Credential(refusal)
    }
}

/// Verifies everything that a request brings.
pub(super) async fn verify(
    gateway: &Gateway,
    (agent, guard): (AgentId, &Guard),
    (session, ctx): (&mut Session, &mut RequestCtx),
    route: &Route,
) -> Result<Proven, Bad> {
    let mut principals = Vec::new();
    let headers = &session.req_header().headers;
    if guard.takes_bearer()
        && let Some(value) = single(headers, &AUTHORIZATION)?
    {
        principals.extend(bearer(guard, value, forwards(route, &AUTHORIZATION)).await?);
    }
    if !guard.access.api_keys.is_empty()
        && let Some(key) = single(headers, &API_KEY)?
    {
        match guard.access.api_keys.find(key) {
            Some(name) => principals.push(Principal::ApiKey(name.into())),
            None if forwards(route, &API_KEY) => {}
            None => return Err(bad(guard, "the API key in X-API-Key is not known here").into()),
        }
    }
    if !ctx.arrival.names.is_empty() {
        principals.push(Principal::Cert { names: ctx.arrival.names.clone() });
    }
    let mut named = None;
    if let Some(signatures) = &guard.signatures {
        // Boxed, so that requests without a signature do not carry its size.
        let signed = Box::pin(signed(gateway, (agent, guard, signatures), (session, ctx))).await?;
        match signatures.settings.profile {
            Profile::Authenticate => principals.extend(signed),
            Profile::Identify => named = Caller::new(signed),
            Profile::Off => {}
        }
    }
    Ok(Proven { caller: Caller::new(principals), named })
}

/// A key or a token of `Authorization: Bearer`.
async fn bearer(guard: &Guard, value: &[u8], may_be_the_services: bool) -> Result<Option<Principal>, Refusal> {
    let token = bearer_token(value);
    if let Some(name) = token.and_then(|token| guard.access.api_keys.find(token)) {
        return Ok(Some(Principal::ApiKey(name.into())));
    }
    if let Some(token) = token.filter(|_| !guard.issuers.is_empty()) {
        let problem = match Token::parse(token) {
            Ok(token) => match guard.issuers.iter().find(|issuer| issuer.settings.issuer == token.issuer()) {
                Some(issuer) => return Box::pin(believe(guard, issuer, &token)).await.map(Some),
                None => "the token is from an issuer that is not known here".to_owned(),
            },
            Err(_) if !guard.access.api_keys.is_empty() => {
                "what Authorization holds is neither a key nor a token that is known here".to_owned()
            }
            Err(refused) => format!("the token {refused}"),
        };
        return if may_be_the_services { Ok(None) } else { Err(bad(guard, &problem)) };
    }
    // Where the operator sends the header on, it may be the service's.
    if may_be_the_services { Ok(None) } else { Err(bad(guard, "the API key in Authorization is not known here")) }
}

async fn believe(guard: &Guard, issuer: &Issuer, token: &Token<'_>) -> Result<Principal, Refusal> {
    let keys = issuer.keys.keys_for(token).await.map_err(|_| {
        // Whether the token is good is unknown, and that is no fault of its bearer.
        let message = "the keys of the token's issuer can't be had now; try again in a moment";
        Refusal::new(ErrorCode::UpstreamUnavailable, message).retry_after(10)
    })?;
    let settings = &issuer.settings;
    let expected = Expected {
        issuer: &settings.issuer,
        audience: &settings.audience,
        groups_claim: settings.groups_claim.as_deref(),
    };
    let believed = token
        .believe(&keys, &expected, unix_seconds())
        .map_err(|refused| bad(guard, &format!("the token {refused}")))?;
    Ok(Principal::Jwt {
        issuer: settings.issuer.as_str().into(),
        subject: believed.subject.into(),
        claims: believed.claims,
    })
}

/// Whoever has signed the request; nobody where it is not signed.
async fn signed(
    gateway: &Gateway,
    (agent, guard, signatures): (AgentId, &Guard, &Signatures),
    (session, ctx): (&mut Session, &mut RequestCtx),
) -> Result<Vec<Principal>, Bad> {
    let lenient = signatures.settings.profile == Profile::Identify;
    let refused = |refused: &Refused| refuse_signature(guard, refused);
    let verified = match Box::pin(judge(signatures, session, ctx)).await {
        Ok(None) => return Ok(Vec::new()),
        Ok(Some(verified)) => verified,
        // Nobody can tell whose it is: for logs and rates it is nobody's.
        Err(problem) if lenient && problem.outcome() == Outcome::Unverified => return Ok(Vec::new()),
        Err(problem) => return Err(refused(&problem).into()),
    };
    if verified.signs_a_body() {
        let limits = ctx.live.limits;
        let whole = body::read(session, ctx, SIGNED_BODY_MAX, limits.body_timeout).await.map_err(Bad::Request)?;
        verified.check_body(&whole).map_err(|problem| refused(&problem))?;
        ctx.whole = Some(whole);
    }
    if !lenient {
        spend(gateway, agent, signatures, &verified).await?.map_err(|problem| refused(&problem))?;
    }
    let principal = |key: &signature::Thumbprint| Principal::Agent {
        url: verified.principal.as_str().into(),
        thumbprint: key.as_str().into(),
    };
    Ok(verified.keys.iter().map(principal).collect())
}

/// Judges a signature, with the keys of whom it names.
async fn judge(signatures: &Signatures, session: &mut Session, ctx: &RequestCtx) -> Result<Option<Verified>, Refused> {
    let has_body = match body::declared_length(session) {
        Some(length) => length > 0,
        None => !session.is_body_empty(),
    };
    let request = session.req_header();
    let authority = request.uri.authority().map(http::uri::Authority::as_str);
    let authority = authority.or_else(|| request.headers.get(HOST)?.to_str().ok()).unwrap_or_default();
    let target = std::str::from_utf8(request.raw_path()).unwrap_or_default();
    let claimed = signature::Request {
        method: request.method.as_str(),
        scheme: if ctx.arrival.tls { Scheme::Https } else { Scheme::Http },
        authority,
        target,
        fields: &request.headers,
        has_body,
    };
    let profile = match signatures.settings.profile {
        Profile::Authenticate => signature::Profile::Authenticate,
        Profile::Identify | Profile::Off => signature::Profile::Identify,
    };
    let Some(claim) = Claim::read(&claimed, profile, &signatures.authorities, unix_seconds().cast_signed())? else {
        return Ok(None);
    };
    let keys = keys(&signatures.key_sets, &claim).await?;
    claim.verify(&keys).map(Some)
}

/// The key set that a claim names; one that lacks its keys is fetched anew if it is not young.
async fn keys(key_sets: &KeySets, claim: &Claim) -> Result<KeySet, Refused> {
    let discovery = claim.discovery();
    let fetched = key_sets.get(&discovery.url).await;
    let read = |fetched: &crate::identity::key_sets::Fetched| {
        let document = fetched.document.as_ref().map_err(|why| Refused::unreachable(why))?;
        if discovery.media_type().is_some_and(|wanted| wanted != &*fetched.media_type) {
            return Err(Refused::unreachable("its media type is not that of a key directory"));
        }
        Ok(KeySet::parse(document, discovery.directory)?)
    };
    let keys = read(&fetched)?;
    if claim.finds_its_keys_in(&keys) || !fetched.is_old() {
        return Ok(keys);
    }
    read(&key_sets.renew(&discovery.url, &fetched).await)
}

/// Spends the nonces of a signature, here and at every gateway on the store.
async fn spend(
    gateway: &Gateway,
    agent: AgentId,
    signatures: &Signatures,
    verified: &Verified,
) -> Result<Result<(), Refused>, Refusal> {
    let now = unix_seconds().cast_signed();
    let here = {
        let mut nonces = signatures.nonces.lock().unwrap_or_else(PoisonError::into_inner);
        verified.spend(&mut nonces, now)
    };
    if here.is_err() {
        return Ok(here);
    }
    let keys = gateway.store.keys();
    let caller = keys.caller(&format!("agent:{}", verified.principal));
    for (nonce, until) in verified.nonces() {
        // A bucket of one that is refilled when the signature ends: the second taker finds it empty.
        let period = std::time::Duration::from_secs(u64::try_from(until - now).unwrap_or_default().max(1));
        let key = keys.rate(agent, &format!("nonce {nonce}"), Some(caller));
        if !gateway.store.spend(key, Rate::new(1, period)).await?.allowed {
            return Ok(Err(Refused::replayed()));
        }
    }
    Ok(Ok(()))
}

fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h [u8]>, Refusal> {
    fields::single(headers, name).map(|value| value.map(<[u8]>::trim_ascii))
}

/// The token of `Bearer TOKEN`; the scheme is compared without case.
fn bearer_token(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(value.iter().position(|byte| *byte == b' ')?)?;
    scheme.eq_ignore_ascii_case(b"bearer").then(|| token.trim_ascii())
}

fn forwards(route: &Route, header: &HeaderName) -> bool {
    matches!(route, Route::Capability(_, call, _) if call.capability.settings().route.forward_headers.contains(header))
}

fn unix_seconds() -> u64 {
    SystemClock.unix_ms() / 1000
}

/// What callers may prove who they are with, as a sentence has it.
pub(super) fn accepted(guard: &Guard) -> String {
    let mut ways = Vec::new();
    if !guard.access.api_keys.is_empty() {
        ways.push("an API key as Authorization: Bearer KEY or X-API-Key: KEY");
    }
    if !guard.issuers.is_empty() {
        ways.push("a token as Authorization: Bearer TOKEN");
    }
    if guard.signatures.as_ref().is_some_and(|signatures| signatures.settings.profile == Profile::Authenticate) {
        ways.push("a signature (Web Bot Auth) with tag=\"web-bot-auth\" and a nonce");
    }
    ways.join(", or ")
}

/// A credential that is bad.
fn bad(guard: &Guard, what: &str) -> Refusal {
    let message = format!("{what}; send {}, or none at all to ask as nobody", accepted(guard));
    challenge(guard, Refusal::new(ErrorCode::Unauthorized, message), ", error=\"invalid_token\"")
}

fn refuse_signature(guard: &Guard, refused: &Refused) -> Refusal {
    let message = format!("{}: {refused}", refused.code().as_str());
    challenge(guard, Refusal::new(ErrorCode::Unauthorized, message), "")
}

/// RFC 9110, section 11.6.1: every 401 says how to prove who one is.
pub(super) fn challenge(guard: &Guard, refusal: Refusal, error: &str) -> Refusal {
    let mut challenges = Vec::new();
    let realm = &guard.realm;
    let mut add = |name: HeaderName, value: String| {
        challenges.extend(HeaderValue::try_from(value).ok().map(|value| (name, value)));
    };
    let signatures = guard.signatures.as_ref().is_some_and(|signs| signs.settings.profile == Profile::Authenticate);
    if guard.takes_bearer() || !signatures {
        add(http::header::WWW_AUTHENTICATE, format!("Bearer realm=\"{realm}\"{error}"));
    }
    if signatures {
        add(http::header::WWW_AUTHENTICATE, format!("Signature realm=\"{realm}\", tag=\"web-bot-auth\""));
        add(HeaderName::from_static("accept-signature"), ACCEPT_SIGNATURE.to_owned());
    }
    Refusal { challenges, ..refusal }
}
