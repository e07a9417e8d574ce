//! `tls:` and `https_redirect:` of a listener.

use std::path::PathBuf;

use crate::front::tls::{self, ClientAuth, MinVersion, Pair};
use crate::front::way;
use crate::yaml::{Fields, Period, Problem, ReadableFile, Slot, Value as _};

/// Asks for the keys of a listener that are no address; `None` where none of them is written.
pub(super) fn take(fields: &mut Fields<'_, '_>) -> Option<way::Settings> {
    let tls = fields.with("tls", "TLS: certificates, client certificates, versions.", take_tls);
    let doc = "Whether everybody is sent to https:// instead of being served.";
    let https_redirect = fields.or("https_redirect", false, doc);
    if https_redirect {
        fields.useless(&["tls"], "`https_redirect` serves nobody; write a listener of its own for TLS");
    }
    (tls.is_some() || https_redirect).then_some(way::Settings { tls, https_redirect })
}

fn take_tls(slot: Slot<'_, '_>) -> Option<tls::Settings> {
    slot.section("listener_tls", |fields| {
        let cert = fields.required::<ReadableFile>("cert", "PEM file of the certificate and its chain.");
        let key = fields.required::<ReadableFile>("key", "PEM file of its key.");
        let doc = "Certificates of other hosts; which one is shown is decided by the names in them.";
        let others = fields.with("others", doc, |slot| slot.list(pair));
        let versions = [("1.2", MinVersion::Tls12), ("1.3", MinVersion::Tls13)];
        let min = fields.word("min", &versions, MinVersion::Tls12, "The oldest version that is spoken.");
        let client_ca = fields.optional::<ReadableFile>(
            "client_ca",
            "PEM file of the authorities that client certificates are verified by.",
        );
        let words = [("optional", ClientAuth::Optional), ("required", ClientAuth::Required)];
        let doc = "Whether a caller without a certificate is let in.";
        let client_auth = fields.word("client_auth", &words, ClientAuth::Optional, doc);
        let hsts = fields.optional::<Period>("hsts", "How long browsers shall come by TLS alone, such as 365d.");
        if client_ca.is_none() && fields.get("client_ca").is_none() {
            fields.useless(&["client_auth"], "no certificate is asked for without `client_ca`");
        }
        let (cert, key) = (cert?, key?);
        let settings = tls::Settings {
            first: Pair { cert: cert.into(), key: key.into() },
            others: others.unwrap_or_default(),
            min,
            client_ca: client_ca.map(Into::into),
            client_auth,
            hsts: hsts.map(Into::into),
        };
        if let Err(unusable) = tls::check(&settings) {
            let at = |name: &str| fields.get(name);
            let of = |path: &Option<PathBuf>| path.as_ref() == Some(&unusable.file);
            let node = if settings.first.cert == unusable.file {
                at("cert")
            } else if settings.first.key == unusable.file {
                at("key")
            } else if of(&settings.client_ca) {
                at("client_ca")
            } else {
                at("others")
            };
            // One that can't be opened was reported where it stands.
            if let Some(node) = node.filter(|_| unusable.file.is_file()) {
                fields.problem(Problem::error(node, format!("the file {}", unusable.problem)));
            }
        }
        Some(settings)
    })
}

fn pair(slot: Slot<'_, '_>) -> Option<Pair> {
    slot.section("certificate", |fields| {
        let cert = fields.required_with("cert", "PEM file of the certificate and its chain.", ReadableFile::take);
        let key = fields.required_with("key", "PEM file of its key.", ReadableFile::take);
        Some(Pair { cert: cert?.into(), key: key?.into() })
    })
}
