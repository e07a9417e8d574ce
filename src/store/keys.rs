//! `Keys`: the store's secret, and everything that is named by a keyed hash under it.
//!
//! A session id, a caller or a query id is never a key of a table: what is stored is BLAKE3 under 32 bytes that lie
//! beside the data, so a stolen database alone tells nobody which ids it knows, nor lets weak ones be guessed.

use std::sync::{Arc, OnceLock};
use std::{fmt, io};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustix::rand::{GetRandomFlags, getrandom};
use uuid::Uuid;

use super::news_id::NewsId;
use crate::restap::SessionId;
use crate::yaml::Secret;

/// A name under the secret: 128 bits.
pub type Hash = [u8; 16];

/// 32 secret bytes, and the names made with them.
#[derive(Clone)]
pub struct Keys {
    /// Names agents, which are no secret.
    agents: [u8; 32],
    /// Names everything else. Of a shared engine it is known once its server is reached; what is named before has the
    /// hash zero, which no engine takes.
    secret: Arc<OnceLock<[u8; 32]>>,
}

/// Names the agents of a shared engine, whatever its key: their names are known before the server is reached.
const SHARED_AGENTS: &[u8; 32] = b"restap-gateway agents, version 1";

/// The secret is not 32 bytes in base64. It says nothing of the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the key must be 32 bytes in base64, as `restap-gateway keys new --store` makes one")]
pub struct InvalidKey;

/// An agent, by its key in gateway.yaml; its base path has no part in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentId(pub Hash);

/// A verified caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallerId(pub Hash);

/// A feed: an agent's own, or one of its sessions'.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FeedId {
    /// Whose caps it counts against.
    pub agent: AgentId,
    /// Names the feed among all feeds.
    pub hash: Hash,
    /// The agent's own, which is never dropped.
    pub own: bool,
}

/// A conversation of one caller with one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConversationId {
    /// Whose caps it counts against.
    pub agent: AgentId,
    /// Names the conversation among all conversations.
    pub hash: Hash,
}

/// What one holder at a time may have: a session's turn, a running query, a request with an idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseKey(pub Hash);

/// A query id, ours or a caller's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct QueryKey(pub Hash);

/// What is counted together against a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RateKey(pub Hash);

/// A request that is answered once, by its idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OnceKey {
    /// Names the request among all requests.
    pub hash: Hash,
    /// Whose keys are counted together.
    pub bucket: Hash,
    /// Of the body: what must be the same when the key is used again.
    pub digest: Hash,
}

/// What an idempotency key counts with.
#[derive(Debug, Clone, Copy)]
pub struct OnceScope<'a> {
    /// The agent.
    pub agent: AgentId,
    /// The operation, such as `talk` or `news`.
    pub operation: &'a str,
    /// The verified caller; `None` is anonymous.
    pub caller: Option<CallerId>,
    /// The request's session.
    pub session: Option<&'a SessionId>,
}

impl Keys {
    /// 32 bytes from the kernel.
    pub fn random() -> io::Result<Self> {
        let mut secret = [0; 32];
        match getrandom(&mut secret, GetRandomFlags::empty())? {
            32 => Ok(Self::of(secret)),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// These 32 bytes.
    pub(super) fn of(secret: [u8; 32]) -> Self {
        Self { agents: secret, secret: Arc::new(OnceLock::from(secret)) }
    }

    /// Names agents alone until it is unlocked.
    pub(super) fn locked() -> Self {
        Self { agents: *SHARED_AGENTS, secret: Arc::default() }
    }

    /// Takes the secret, in all clones; false if it is another one than before.
    pub(super) fn unlock(&self, secret: [u8; 32]) -> bool {
        *self.secret.get_or_init(|| secret) == secret
    }

    /// The 32 bytes, once they are known.
    pub(super) fn secret(&self) -> Option<[u8; 32]> {
        self.secret.get().copied()
    }

    /// Reads the secret as gateway.yaml and the key file have it, in base64.
    pub fn parse(secret: &Secret) -> Result<Self, InvalidKey> {
        let bytes = BASE64_STANDARD.decode(secret.expose().trim()).map_err(|_| InvalidKey)?;
        bytes.try_into().map(Self::of).map_err(|_| InvalidKey)
    }

    /// The form that [`Keys::parse`] reads.
    pub fn to_secret(&self) -> Secret {
        Secret::new(BASE64_STANDARD.encode(self.secret.get().unwrap_or(&[0; 32])))
    }

    /// The agent under this key of gateway.yaml.
    pub fn agent(&self, key: &str) -> AgentId {
        let mut hash = Hash::default();
        hasher(&self.agents, "agent", &[key.as_bytes()]).finalize_xof().fill(&mut hash);
        AgentId(hash)
    }

    /// The verified caller of this principal, such as `api_key:ci`.
    pub fn caller(&self, principal: &str) -> CallerId {
        CallerId(self.hash("caller", &[principal.as_bytes()]))
    }

    /// The feed of a session, or without one the agent's own.
    pub fn feed(&self, agent: AgentId, session: Option<&SessionId>) -> FeedId {
        let hash = match session {
            Some(session) => self.hash("feed", &[&agent.0, session.expose().as_bytes()]),
            None => self.hash("own feed", &[&agent.0]),
        };
        FeedId { agent, hash, own: session.is_none() }
    }

    /// The conversation that this caller has under this session id: from another caller the same id is another one.
    pub fn conversation(&self, agent: AgentId, caller: Option<CallerId>, session: &SessionId) -> ConversationId {
        let session = session.expose().as_bytes();
        let hash = match caller {
            Some(caller) => self.hash("conversation", &[&agent.0, session, &caller.0]),
            None => self.hash("conversation", &[&agent.0, session]),
        };
        ConversationId { agent, hash }
    }

    /// The conversation key that an upstream is given: the same for every turn, and nothing of the session id.
    pub fn upstream_key(&self, conversation: ConversationId) -> Uuid {
        uuid::Builder::from_custom_bytes(self.hash("upstream", &[&conversation.hash])).into_uuid()
    }

    /// What holds a conversation's turns apart.
    pub fn turn_lease(&self, conversation: ConversationId) -> LeaseKey {
        LeaseKey(self.hash("turn", &[&conversation.hash]))
    }

    /// The query of this id.
    pub fn query(&self, id: &str) -> QueryKey {
        QueryKey(self.hash("query", &[id.as_bytes()]))
    }

    /// What a running query holds.
    pub fn query_lease(&self, query: QueryKey) -> LeaseKey {
        LeaseKey(self.hash("running query", &[&query.0]))
    }

    /// The request of this idempotency key and body. For an anonymous caller without a session the body counts as
    /// part of the key, so that nobody reads or swallows another's request by guessing.
    pub fn once(&self, scope: OnceScope<'_>, key: &str, body: &[u8]) -> OnceKey {
        let digest = self.hash("body", &[body]);
        let caller: &[u8] = scope.caller.as_ref().map_or(&[], |caller| &caller.0);
        let session = scope.session.map_or("", SessionId::expose).as_bytes();
        let unowned: &[u8] = if caller.is_empty() && session.is_empty() { &digest } else { &[] };
        let parts = [&scope.agent.0, scope.operation.as_bytes(), caller, session, unowned, key.as_bytes()];
        OnceKey { hash: self.hash("once", &parts), bucket: self.hash("once of", &[&scope.agent.0, caller]), digest }
    }

    /// What a caller of an agent does as a member of a group; all anonymous callers of a group count together.
    pub fn rate(&self, agent: AgentId, group: &str, caller: Option<CallerId>) -> RateKey {
        let caller: &[u8] = caller.as_ref().map_or(&[], |caller| &caller.0);
        RateKey(self.hash("rate", &[&agent.0, group.as_bytes(), caller]))
    }

    /// What is known of another agent's news whose items go into this feed.
    pub(super) fn followed(&self, feed: FeedId, parts: &[&[u8]]) -> Hash {
        self.hash("followed", &[&[feed.hash.as_slice()], parts].concat())
    }

    /// What is held while the first request of a key runs.
    pub(super) fn once_lease(&self, key: OnceKey) -> LeaseKey {
        LeaseKey(self.hash("running once", &[&key.hash]))
    }

    /// What a store remembers of the secret that it was made with.
    pub(super) fn fingerprint(&self) -> Hash {
        self.hash("fingerprint", &[])
    }

    /// The id of the item that stands at this time in a feed.
    pub(super) fn news_id(&self, feed: Hash, timestamp: u64) -> NewsId {
        let feed = self.feed_mark(feed);
        NewsId { timestamp, feed, seal: self.news_seal(timestamp, feed) }
    }

    /// Reads an id that a client sent back; `None` if no gateway with this secret made it.
    pub(super) fn read_news_id(&self, text: &str) -> Option<NewsId> {
        NewsId::parse(text).filter(|id| id.seal == self.news_seal(id.timestamp, id.feed))
    }

    /// Tells the items of two feeds apart that have the same timestamp.
    pub(super) fn feed_mark(&self, feed: Hash) -> u32 {
        u32::from_be_bytes(self.derive("feed mark", &[&feed]))
    }

    fn news_seal(&self, timestamp: u64, feed: u32) -> u64 {
        let bytes = self.derive("news id", &[&timestamp.to_be_bytes(), &feed.to_be_bytes()]);
        u64::from_be_bytes(bytes) >> 16
    }

    /// Hides what may hold a session id under an id that is minted once, so that no two texts share a key stream: a
    /// query's, which whoever asks for its session must know, or one that stands beside the text. The same call opens
    /// it.
    pub(super) fn veil(&self, id: &str, text: &mut [u8]) {
        let mut stream = vec![0; text.len()];
        if let Some(secret) = self.secret.get() {
            hasher(secret, "veil", &[id.as_bytes()]).finalize_xof().fill(&mut stream);
        }
        text.iter_mut().zip(stream).for_each(|(byte, veil)| *byte ^= veil);
    }

    fn hash(&self, purpose: &str, parts: &[&[u8]]) -> Hash {
        self.derive(purpose, parts)
    }

    fn derive<const N: usize>(&self, purpose: &str, parts: &[&[u8]]) -> [u8; N] {
        let mut bytes = [0; N];
        if let Some(secret) = self.secret.get() {
            hasher(secret, purpose, parts).finalize_xof().fill(&mut bytes);
        }
        bytes
    }
}

/// Every part is preceded by its length, so no two lists of parts read alike.
fn hasher(secret: &[u8; 32], purpose: &str, parts: &[&[u8]]) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new_keyed(secret);
    for part in std::iter::once(&purpose.as_bytes()).chain(parts) {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
    }
    hasher
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys(…)")
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn keys() -> Keys {
        Keys::parse(&Secret::new("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n")).unwrap()
    }

    fn session(text: &str) -> SessionId {
        SessionId::parse(text).unwrap()
    }

    /// A store finds nothing again once one of these changes.
    #[test]
    fn names_are_the_same_in_every_version() {
        let (keys, session) = (keys(), session("0123456789abcdef"));
        let (agent, caller) = (keys.agent("billing"), keys.caller("api_key:ci"));
        let feed = keys.feed(agent, Some(&session));
        let scope = OnceScope { agent, operation: "talk", caller: None, session: None };
        let hex = |hash: Hash| format!("{:032x}", u128::from_be_bytes(hash));
        let names = [
            hex(keys.fingerprint()),
            hex(agent.0),
            hex(caller.0),
            hex(feed.hash),
            hex(keys.feed(agent, None).hash),
            hex(keys.conversation(agent, None, &session).hash),
            hex(keys.conversation(agent, Some(caller), &session).hash),
            keys.upstream_key(keys.conversation(agent, None, &session)).to_string(),
            hex(keys.query("q").0),
            hex(keys.once(scope, "key", b"body").hash),
            keys.news_id(feed.hash, 1_700_000_000_000).to_string(),
        ];
        expect![[r#"
            [
                "8f810da233301134929fcb7bb5176124",
                "79ee168726f1d02e93e4b56c7e90a355",
                "4310ad7e8f2a63917c7fe396612963ac",
                "d1e7875b5c4231b896912e8d2e5b117b",
                "5e4019869ada2b947a744d7dc5d3773e",
                "4a0eff659f7967301082a24d70e601e5",
                "246ef71c17cada7c010da48715a7560b",
                "d7f5a00a-84ce-8335-8877-30cfba879140",
                "800778107e016f0743252c2deef96d15",
                "e6fd49103a690ba6b9319bc219f4ab7d",
                "news_00018bcfe5680022f9cc56575165411716",
            ]
        "#]]
        .assert_debug_eq(&names);
    }

    #[test]
    fn every_part_of_a_name_counts() {
        let keys = keys();
        let (a, b) = (keys.agent("a"), keys.agent("b"));
        let (one, other) = (session("aaaaaaaaaaaaaaaa"), session("aaaaaaaaaaaaaaab"));
        let caller = Some(keys.caller("c"));
        let names = [
            keys.feed(a, Some(&one)).hash,
            keys.feed(b, Some(&one)).hash,
            keys.feed(a, Some(&other)).hash,
            keys.feed(a, None).hash,
            keys.conversation(a, None, &one).hash,
            keys.conversation(a, caller, &one).hash,
            keys.conversation(b, caller, &one).hash,
            keys.conversation(a, caller, &other).hash,
            keys.turn_lease(keys.conversation(a, None, &one)).0,
            keys.query("aaaaaaaaaaaaaaaa").0,
            keys.rate(a, "g", None).0,
            keys.rate(b, "g", None).0,
            keys.rate(a, "h", None).0,
            keys.rate(a, "g", caller).0,
        ];
        let different: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(different.len(), names.len());
        let another = Keys::random().unwrap();
        assert_ne!(another.feed(another.agent("a"), Some(&one)).hash, keys.feed(a, Some(&one)).hash);
    }

    #[test]
    fn a_key_is_32_bytes_in_base64() {
        let keys = Keys::random().unwrap();
        assert_eq!(Keys::parse(&keys.to_secret()).unwrap().fingerprint(), keys.fingerprint());
        for bad in ["", "AAEC", "not base64!", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISI="] {
            assert!(Keys::parse(&Secret::new(bad)).is_err(), "{bad}");
        }
        assert_eq!(format!("{keys:?}"), "Keys(…)");
    }

    #[test]
    fn what_is_named_before_the_secret_is_known_has_no_name() {
        let (locked, session) = (Keys::locked(), session("0123456789abcdef"));
        let agent = locked.agent("a");
        assert_ne!(agent.0, Hash::default());
        assert_eq!(locked.feed(agent, Some(&session)).hash, Hash::default());
        assert_eq!(locked.rate(agent, "g", None).0, Hash::default());
        let clone = locked.clone();
        assert!(locked.unlock([7; 32]) && locked.unlock([7; 32]) && !locked.unlock([8; 32]));
        assert_eq!(clone.agent("a"), agent);
        assert_eq!(clone.feed(agent, Some(&session)).hash, Keys::of([7; 32]).feed(agent, Some(&session)).hash);
        assert_ne!(clone.feed(agent, Some(&session)).hash, Hash::default());
    }

    #[test]
    fn a_veil_hides_and_opens() {
        let (keys, mut text) = (keys(), *b"0123456789abcdef");
        keys.veil("query", &mut text);
        assert_ne!(&text, b"0123456789abcdef");
        keys.veil("query", &mut text);
        assert_eq!(&text, b"0123456789abcdef");
    }
}
