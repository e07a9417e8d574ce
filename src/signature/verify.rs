//! Verifying: what a request claims, and whether it is true.

use http::HeaderMap;
use sfv::{BareItem, InnerList, ListEntry};

use super::agent::{Discovery, SignatureAgent, Unusable};
use super::base::{self, Message, Scheme, Target, normal_authority, signature_base};
use super::digest::ContentDigest;
use super::key::{SIGNATURE_LENGTH, Thumbprint};
use super::key_set::KeySet;
use super::nonces::Nonces;
use super::refused::{Code, Refused};
use super::structured::{self, Malformed};
use super::{LABELS_MAX, SKEW, TAG};

/// Characters of a nonce.
const NONCE_MAX: usize = 256;

/// Seconds that a signature of the strict profile may be valid.
const WINDOW_MAX: i64 = 3600;

/// What must be signed of every request, by the strict profile.
const REQUIRED: [&str; 4] = ["@method", "@authority", "@path", "@query"];

/// How much a signature must prove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// The least that draft-ietf-webbotauth-httpsig-protocol-01 asks for: enough to know whom a request names, for logs
    /// and rates. Such a signature may be used again for another path of the same host until it expires.
    Identify,
    /// Enough to let somebody in: the whole request is signed, with a nonce, for no more than an hour.
    Authenticate,
}

/// A request as it came.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// In capitals, as it came.
    pub method: &'a str,
    /// How the caller reached the gateway.
    pub scheme: Scheme,
    /// `Host`, or `:authority`, as it came.
    pub authority: &'a str,
    /// The request target as it came: path and query, nothing resolved.
    pub target: &'a str,
    /// All fields as they came.
    pub fields: &'a HeaderMap,
    /// Whether a body follows that is not empty.
    pub has_body: bool,
}

/// What a request says of who has sent it: everything holds that can be judged without the keys.
#[derive(Debug, Clone)]
pub struct Claim {
    labels: Vec<Label>,
    discovery: Discovery,
    digest: Option<String>,
}

#[derive(Debug, Clone)]
struct Label {
    /// What may have been signed: one text a spelling of the target.
    bases: Vec<String>,
    signature: Vec<u8>,
    parameters: Parameters,
}

#[derive(Debug, Clone)]
struct Parameters {
    keyid: Thumbprint,
    expires: i64,
    nonce: Option<String>,
}

/// A signature that holds, of this request but for its body.
#[derive(Debug, Clone)]
pub struct Verified {
    /// Who has signed, such as `https://caller.example/agents/a`.
    pub principal: String,
    /// The keys, one or two.
    pub keys: Vec<Thumbprint>,
    nonces: Vec<(String, i64)>,
    digest: Option<String>,
}

/// That no nonce of a request had been used before.
pub type Spent = Result<(), Refused>;

impl Claim {
    /// Judges what a request says of its signature. `Ok(None)`: it says nothing that is for us, which is a request
    /// without a signature and, by the lenient profile, one whose signatures all have another purpose.
    ///
    /// `authorities` are the hosts, with their ports, that requests may be signed for; without any every host counts.
    /// `now` is in Unix seconds.
    pub fn read(
        request: &Request<'_>,
        profile: Profile,
        authorities: &[String],
        now: i64,
    ) -> Result<Option<Self>, Refused> {
        let present = |name: &str| request.fields.contains_key(name);
        if !present("signature-input") && !present("signature") {
            return Ok(None);
        }
        let members = tagged(labels(request.fields)?, profile)?;
        if members.is_empty() && profile == Profile::Identify {
            return Ok(None);
        }
        check_number(members.len())?;
        let parameters = members
            .iter()
            .map(|(_, input, signature)| parameters(input, signature, profile, now))
            .collect::<Result<Vec<_>, _>>()?;
        let authority = authority(request, authorities)?;
        let field = structured::field(request.fields, "signature-agent").map_err(|_| agent_malformed())?;
        let Some(field) = field else {
            let sentence = "there is no Signature-Agent: send one that names the key set of who signs, and sign it";
            return Err(Refused::unverified(Code::Agent, sentence));
        };
        let agent = SignatureAgent::parse(&field).map_err(|_| agent_malformed())?;

        let targets = Target::spellings(request.target);
        let mut claim: Option<Self> = None;
        for ((_, input, signature), parameters) in members.into_iter().zip(parameters) {
            let digest_covered = coverage(&input, request, profile)?;
            let discovery = discovery(&agent, &input, profile)?;
            let message = |target| Message {
                method: request.method,
                scheme: request.scheme,
                authority: &authority,
                target,
                fields: request.fields,
                rare: profile == Profile::Identify,
            };
            let bases = targets.iter().map(|target| signature_base(&input, &message(target)));
            let bases = bases.collect::<Result<Vec<_>, _>>().map_err(|Malformed| base_impossible())?;
            let claim =
                claim.get_or_insert_with(|| Self { labels: Vec::new(), discovery: discovery.clone(), digest: None });
            if claim.discovery != discovery {
                return Err(Refused::new(Code::Agent, "all signatures of a request must name the same key set"));
            }
            if digest_covered {
                claim.digest = structured::field(request.fields, "content-digest").ok().flatten();
            }
            claim.labels.push(Label { bases, signature, parameters });
        }
        Ok(claim)
    }

    /// Where the keys are that it must be judged by. A key counts only in the set of this URL.
    pub fn discovery(&self) -> &Discovery {
        &self.discovery
    }

    /// Whether all of its keys are in a set: if not, one fetched long ago may be fetched anew.
    pub fn finds_its_keys_in(&self, keys: &KeySet) -> bool {
        self.labels.iter().all(|label| keys.get(&label.parameters.keyid).is_some())
    }

    /// Judges the signature by the keys that were found at [`Claim::discovery`]. Every one must hold.
    pub fn verify(self, keys: &KeySet) -> Result<Verified, Refused> {
        let mut verified =
            Verified { principal: self.discovery.principal, keys: Vec::new(), nonces: Vec::new(), digest: self.digest };
        for Label { bases, signature, parameters: Parameters { keyid, expires, nonce } } in self.labels {
            let Some(key) = keys.get(&keyid) else {
                return Err(Refused::new(
                    Code::KeyUnknown,
                    "the key set that Signature-Agent names has no key of this keyid",
                ));
            };
            if !bases.iter().any(|base| key.verifies(base.as_bytes(), &signature)) {
                return Err(Refused::new(Code::Invalid, "the signature is not that of this request by this key"));
            }
            verified.nonces.extend(nonce.map(|nonce| (nonce, expires + SKEW)));
            verified.keys.push(keyid);
        }
        Ok(verified)
    }
}

impl Verified {
    /// Whether the body must be judged: [`Verified::check_body`].
    pub fn signs_a_body(&self) -> bool {
        self.digest.is_some()
    }

    /// Whether the whole body is the one that was signed; true of a signature that says nothing of the body.
    pub fn check_body(&self, body: &[u8]) -> Result<(), Refused> {
        let Some(field) = &self.digest else { return Ok(()) };
        match ContentDigest::parse(field) {
            Ok(digest) if digest.is_of(body) => Ok(()),
            _ => Err(Refused::new(
                Code::Digest,
                "Content-Digest is not that of the body, or has neither sha-256 nor sha-512",
            )),
        }
    }

    /// Spends the nonces of the request: the last step, once everything else holds.
    pub fn spend(&self, nonces: &mut Nonces, now: i64) -> Spent {
        for (nonce, until) in &self.nonces {
            if !nonces.spend(&self.principal, nonce, *until, now) {
                return Err(Refused::new(Code::Replayed, "the nonce was used before: sign every request anew"));
            }
        }
        Ok(())
    }

    /// What must not have been seen before, each with the Unix second until which it counts.
    pub fn nonces(&self) -> &[(String, i64)] {
        &self.nonces
    }
}

fn malformed() -> Refused {
    let sentence = "Signature-Input and Signature must be dictionaries (RFC 9651) of the same labels, each once: a list \
                    of component names there, 64 bytes in canonical base64 here";
    Refused::new(Code::Malformed, sentence)
}

fn agent_malformed() -> Refused {
    Refused::new(Code::Malformed, "Signature-Agent must be a dictionary of strings (RFC 9651), or one string")
}

fn base_impossible() -> Refused {
    let sentence = "a component is signed that the request has not, that can't be signed here, or that is listed twice";
    Refused::new(Code::Malformed, sentence)
}

type Member = (String, InnerList, Vec<u8>);

/// Both fields, label for label.
fn labels(fields: &HeaderMap) -> Result<Vec<Member>, Refused> {
    let read = |name| {
        let field = structured::field(fields, name)?.ok_or(Malformed)?;
        structured::dictionary(&field)
    };
    let inputs = read("signature-input").map_err(|_| malformed())?;
    let mut signatures = read("signature").map_err(|_| malformed())?;
    if inputs.is_empty() || inputs.len() != signatures.len() {
        return Err(malformed());
    }
    let mut members = Vec::with_capacity(inputs.len());
    for (label, input) in inputs {
        let signature = match signatures.swap_remove(label.as_str()) {
            Some(ListEntry::Item(item)) => item.bare_item,
            _ => return Err(malformed()),
        };
        match (input, signature) {
            (ListEntry::InnerList(input), BareItem::ByteSequence(signature))
                if input.items.iter().all(|item| base::name(item).is_some()) =>
            {
                members.push((label.as_str().to_owned(), input, signature));
            }
            _ => return Err(malformed()),
        }
    }
    Ok(members)
}

/// Those that are signatures of agents. A tag that is no string is nobody's.
fn tagged(members: Vec<Member>, profile: Profile) -> Result<Vec<Member>, Refused> {
    let no_string = |(_, input, _): &Member| input.params.get("tag").is_some_and(|tag| tag.as_string().is_none());
    if profile == Profile::Identify && members.iter().any(no_string) {
        return Err(Refused::new(Code::Malformed, "a tag must be a string in quotes, such as tag=\"web-bot-auth\""));
    }
    let ours = |input: &InnerList| text(input, "tag").is_some_and(|tag| tag == TAG);
    Ok(members.into_iter().filter(|(_, input, _)| ours(input)).collect())
}

fn check_number(labels: usize) -> Result<(), Refused> {
    match labels {
        0 => Err(Refused::new(Code::Malformed, "no signature has tag=\"web-bot-auth\", which those of agents have")),
        1..=LABELS_MAX => Ok(()),
        _ => Err(Refused::new(Code::Malformed, "a request has no more than two signatures with tag=\"web-bot-auth\"")),
    }
}

fn parameters(input: &InnerList, signature: &[u8], profile: Profile, now: i64) -> Result<Parameters, Refused> {
    let invalid = |sentence: &'static str| Refused::new(Code::Params, sentence);
    let seconds = |name: &str| input.params.get(name).and_then(BareItem::as_integer).map(i64::from);
    let created = seconds("created")
        .ok_or_else(|| invalid("created is missing or no integer: it is the Unix second of the signature"))?;
    let expires = seconds("expires").ok_or_else(|| {
        invalid("expires is missing or no integer: it is the Unix second at which the signature ends")
    })?;
    let keyid = text(input, "keyid").and_then(Thumbprint::parse).ok_or_else(|| {
        invalid("keyid must be the key's RFC 7638 SHA-256 thumbprint: 43 characters of base64url without padding")
    })?;
    if input.params.contains_key("alg") && text(input, "alg") != Some("ed25519") {
        return Err(invalid("alg must be \"ed25519\" or left out"));
    }
    let nonce = match text(input, "nonce") {
        Some(nonce) if (1..=NONCE_MAX).contains(&nonce.len()) => Some(nonce.to_owned()),
        None if profile == Profile::Identify && !input.params.contains_key("nonce") => None,
        _ => return Err(invalid("nonce must be a string of 1 to 256 characters, random and used once")),
    };
    if expires <= created {
        return Err(invalid("expires must be later than created"));
    }
    if profile == Profile::Authenticate && expires - created > WINDOW_MAX {
        return Err(invalid("expires may be no more than an hour after created"));
    }
    if signature.len() != SIGNATURE_LENGTH {
        return Err(malformed());
    }
    if created > now + SKEW {
        let sentence = "created is more than a minute in the future: set the signer's clock";
        return Err(Refused::new(Code::Expired, sentence));
    }
    if expires < now - SKEW {
        return Err(Refused::new(Code::Expired, "the signature has expired: sign every request anew"));
    }
    Ok(Parameters { keyid, expires, nonce })
}

/// A parameter that is a string.
fn text<'i>(input: &'i InnerList, name: &str) -> Option<&'i str> {
    input.params.get(name).and_then(BareItem::as_string).map(sfv::StringRef::as_str)
}

fn authority(request: &Request<'_>, authorities: &[String]) -> Result<String, Refused> {
    let own = |authority: &String| {
        authorities.is_empty() || authorities.iter().any(|own| normal_authority(own).as_ref() == Some(authority))
    };
    normal_authority(request.authority).filter(own).ok_or_else(|| {
        let sentence = match authorities.first().and_then(|own| normal_authority(own)) {
            Some(own) => format!("the request must be signed for {own}, and be sent there"),
            None => "the request's Host is none that it could be signed for".to_owned(),
        };
        Refused::new(Code::Authority, sentence)
    })
}

/// Whether enough is signed; says whether the body is.
fn coverage(input: &InnerList, request: &Request<'_>, profile: Profile) -> Result<bool, Refused> {
    let covers = |name: &str| input.items.iter().any(|item| base::name(item) == Some(name));
    let insufficient = |sentence: String| Refused::new(Code::Coverage, sentence);
    match profile {
        Profile::Authenticate => {
            if let Some(missing) = REQUIRED.iter().find(|name| !covers(name)) {
                let sentence = format!(
                    "{missing} is not signed: sign @method, @authority, @path, @query, signature-agent, and \
                     content-digest where there is a body"
                );
                return Err(insufficient(sentence));
            }
            if request.has_body && !covers("content-digest") {
                let sentence = "the body is not signed: send Content-Digest with sha-256, and sign content-digest";
                return Err(insufficient(sentence.to_owned()));
            }
        }
        Profile::Identify if covers("@authority") || covers("@target-uri") => {}
        Profile::Identify => {
            return Err(insufficient("the host is not signed: sign @authority or @target-uri".to_owned()));
        }
    }
    Ok(covers("content-digest"))
}

/// What the one `signature-agent` names that the label covers.
fn discovery(agent: &SignatureAgent, input: &InnerList, profile: Profile) -> Result<Discovery, Refused> {
    let mut covered = input.items.iter().filter(|item| base::name(item) == Some("signature-agent"));
    let (Some(item), None) = (covered.next(), covered.next()) else {
        let sentence = "Signature-Agent is not signed, or twice: sign \"signature-agent\";key=\"LABEL\" once";
        return Err(Refused::new(Code::Coverage, sentence));
    };
    let key = item.params.get("key").map(|_| base::text_parameter(item, "key").unwrap_or_default());
    agent.discovery(key, profile).map_err(|unusable| match unusable {
        Unusable::NotCovered(sentence) => Refused::new(Code::Coverage, sentence),
        Unusable::NoMember => {
            Refused::new(Code::Agent, "Signature-Agent has no member of the key that the signature covers")
        }
        Unusable::Ignored(why) => Refused::unverified(Code::Agent, format!("Signature-Agent can't be used: {why}")),
        Unusable::Invalid(why) => Refused::new(Code::Agent, format!("Signature-Agent can't be used: {why}")),
    })
}

#[cfg(test)]
mod tests;
