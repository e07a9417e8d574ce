//! What a value names.

use super::*;

fn of(value: &str, kind: Kind, profile: Profile) -> Result<Discovery, Unusable> {
    Discovery::of(value, kind, profile)
}

#[test]
fn a_value_names_what_is_fetched_and_whom_it_speaks_for() {
    use Profile::{Authenticate, Identify};
    let directory = "https://a.example/.well-known/http-message-signatures-directory";
    for (value, kind, profile, url, is_directory, principal) in [
        ("https://a.example", Kind::Untyped, Authenticate, directory, true, "https://a.example"),
        ("https://a.example/", Kind::Legacy, Identify, directory, true, "https://a.example"),
        ("https://a.example", Kind::Directory, Authenticate, directory, true, "https://a.example"),
        (directory, Kind::Untyped, Identify, directory, true, "https://a.example"),
        (
            "https://a.example/x/.well-known/jwks.json",
            Kind::KeySet,
            Authenticate,
            "https://a.example/x/.well-known/jwks.json",
            false,
            "https://a.example/x",
        ),
        (
            "https://A.example:443/k?v=1",
            Kind::Untyped,
            Identify,
            "https://a.example/k?v=1",
            false,
            "https://a.example/k",
        ),
    ] {
        let found = of(value, kind, profile).unwrap();
        assert_eq!((found.url.as_str(), found.directory, found.principal.as_str()), (url, is_directory, principal));
        assert_eq!(found.media_type().is_some(), is_directory);
    }
}
