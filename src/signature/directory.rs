//! Signing our own key directory: the keys themselves say that they belong to this host
//! (draft-ietf-webbotauth-httpsig-protocol-01, 5.2).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::digest::ContentDigest;
use super::key::{InvalidSigningKey, SigningKey};
use super::sign::sign_components;

/// What such signatures carry as `tag`.
const DIRECTORY_TAG: &str = "http-message-signatures-directory";

/// The fields to add to the answer with this body to a request for this host: one signature a key, valid for
/// `lifetime` seconds from `now`. `authority` must be a host of ours in its normal form: whoever could choose it would
/// have our keys belong to a host of theirs.
pub fn sign_directory(
    keys: &[SigningKey],
    authority: &str,
    body: &[u8],
    now: i64,
    lifetime: i64,
) -> Result<Vec<(&'static str, String)>, InvalidSigningKey> {
    let digest = ContentDigest::field_of(body);
    let components = [("\"@authority\";req".to_owned(), authority), ("\"content-digest\"".to_owned(), &digest)];
    let (mut inputs, mut signatures) = (Vec::new(), Vec::new());
    for (number, key) in (1..).zip(keys) {
        let parameters = format!(
            "created={now};expires={};keyid=\"{}\";alg=\"ed25519\";tag=\"{DIRECTORY_TAG}\"",
            now + lifetime,
            key.thumbprint()
        );
        let (input, signature) = sign_components(key, &components, &parameters)?;
        inputs.push(format!("sig{number}={input}"));
        signatures.push(format!("sig{number}=:{}:", BASE64_STANDARD.encode(signature)));
    }
    let (inputs, signatures) = (inputs.join(", "), signatures.join(", "));
    Ok(vec![("content-digest", digest), ("signature-input", inputs), ("signature", signatures)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_signs_the_host_and_the_document() {
        let keys = [SigningKey::from_seed([1; 32]).unwrap(), SigningKey::from_seed([2; 32]).unwrap()];
        let fields = sign_directory(&keys, "gw.example", b"{}", 1_700_000_000, 7200).unwrap();
        let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["content-digest", "signature-input", "signature"]);
        let value = |at: usize| fields[at].1.as_str();
        for (number, key) in (1..).zip(&keys) {
            let input = format!(
                "(\"@authority\";req \"content-digest\");created=1700000000;expires=1700007200;keyid=\"{}\";\
                 alg=\"ed25519\";tag=\"http-message-signatures-directory\"",
                key.thumbprint()
            );
            assert!(value(1).contains(&format!("sig{number}={input}")), "{}", value(1));
            let base = format!(
                "\"@authority\";req: gw.example\n\"content-digest\": {}\n\"@signature-params\": {input}",
                value(0)
            );
            let signature = value(2).split(", ").nth(number - 1).unwrap();
            let signature = signature.strip_prefix(&format!("sig{number}=:")).unwrap().strip_suffix(':').unwrap();
            assert!(key.public().verifies(base.as_bytes(), &BASE64_STANDARD.decode(signature).unwrap()));
        }
    }
}
