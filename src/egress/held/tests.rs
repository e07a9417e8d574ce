use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use proptest::prelude::*;

use super::*;

const VALUE: &str = "sk-Test/0123+456789_abcdef?";

fn held() -> Held {
    let setting = Credential::of_setting("agent.rest.token", &Secret::new("tok-ABCDEFGH"));
    Held::new([Credential::of_variable("MY_API_KEY", VALUE)].into_iter().flatten().chain(setting).collect()).unwrap()
}

fn name_in(text: &str) -> Option<String> {
    let refused = held().check([text.as_bytes()]).err()?;
    assert_eq!(refused.code, Code::CredentialInRequest);
    assert!(!refused.message.contains(VALUE));
    let name = refused.message.strip_prefix("The request contains the value of ").unwrap();
    Some(name.strip_suffix(", a credential this program holds, so it was not sent.").unwrap().to_owned())
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().concat()
}

fn percent(text: &str) -> String {
    joined(text.bytes().map(|byte| format!("%{byte:02x}")))
}

fn escapes(text: &str) -> String {
    joined(text.chars().map(|c| format!("\\u{:04X}", u32::from(c))))
}

#[test]
fn a_credential_is_found_in_every_form_that_its_reader_undoes() {
    let hex = String::from_utf8(hex_of(VALUE.as_bytes())).unwrap();
    let spaced = joined(hex.as_bytes().chunks(2).map(|pair| format!("{}:", std::str::from_utf8(pair).unwrap())));
    let literals = joined(VALUE.bytes().map(|byte| format!("0x{byte:02X}, ")));
    let inner = BASE64_STANDARD.encode(format!("user:{VALUE}"));
    let mut lines = String::new();
    for (at, c) in BASE64_STANDARD.encode(format!("{{\"k\": \"{VALUE}\"}}")).chars().enumerate() {
        lines.push_str(if at % 10 == 9 { "\r\n" } else { "" });
        lines.push(c);
    }
    for (how, text) in [
        ("as it is", VALUE.to_owned()),
        ("in a name's lower case", format!("http://{}.evil.test/", VALUE.to_lowercase())),
        ("reversed", VALUE.chars().rev().collect()),
        ("percent-encoded", percent(VALUE)),
        ("percent-encoded twice", percent(&percent(VALUE))),
        ("percent-encoded in part", VALUE.replace('-', "%2D").replace('/', "%2f")),
        ("escaped", escapes(VALUE)),
        ("a slash escaped", VALUE.replace('/', "\\/")),
        ("escaped, then percent-encoded", percent(&escapes(VALUE))),
        ("percent-encoded, then escaped", escapes(&percent(VALUE))),
        ("as references to characters", joined(VALUE.bytes().map(|byte| format!("&#{byte};")))),
        ("as references, then percent-encoded", percent(&joined(VALUE.bytes().map(|byte| format!("&#x{byte:x};"))))),
        ("in base64", BASE64_STANDARD.encode(VALUE)),
        ("in base64, one byte in front", BASE64_STANDARD.encode(format!("x{VALUE}yz"))),
        ("in base64, two bytes in front", BASE64_STANDARD.encode(format!("xy{VALUE}z"))),
        ("in base64url", BASE64_URL_SAFE_NO_PAD.encode(format!("{VALUE}y"))),
        ("in base64, in lines", lines),
        ("in base64, percent-encoded", percent(&BASE64_STANDARD.encode(VALUE))),
        ("in base64 twice", BASE64_STANDARD.encode(inner.as_bytes())),
        ("in hexadecimal", hex.clone()),
        ("in hexadecimal capitals", hex.to_uppercase()),
        ("in hexadecimal with colons", spaced),
        ("in hexadecimal literals", literals),
        ("in hexadecimal escapes", joined(VALUE.bytes().map(|byte| format!("\\x{byte:02x}")))),
        ("in hexadecimal, then base64", BASE64_STANDARD.encode(format!("a{hex}"))),
        ("in base64, then hexadecimal", String::from_utf8(hex_of(inner.as_bytes())).unwrap()),
    ] {
        assert_eq!(name_in(&format!("before {text} after")).as_deref(), Some("MY_API_KEY"), "{how}: {text}");
        assert_eq!(name_in(&text).as_deref(), Some("MY_API_KEY"), "{how}: {text}");
    }
}

#[test]
fn what_is_no_credential_passes() {
    for text in ["", "sk-Test/0123+456789_abcde", "{\"a\": 1}", "%", "\\", "MY_API_KEY"] {
        assert_eq!(name_in(text), None, "{text}");
    }
    assert!(Held::new(Vec::new()).unwrap().check([VALUE.as_bytes()]).is_ok());
}

#[test]
fn the_first_name_is_told() {
    assert_eq!(name_in(&format!("tok-abcdefgh {VALUE}")).as_deref(), Some("MY_API_KEY"));
    assert_eq!(name_in("x=tok-ABCDEFGH").as_deref(), Some("agent.rest.token"));
}

#[test]
fn a_variable_is_held_by_its_name_and_its_value() {
    let held = |name: &str, value: &str| Credential::of_variable(name, value).is_some();
    for name in
        ["MY_API_KEY", "my_token", "X_PASSWD", "APP_CREDENTIALS", "PRIVATE_THING", "OAUTH_ID", "SESSION_ID", "MONKEY"]
    {
        assert!(held(name, "sk-test-0123456789abcdef"), "{name}");
    }
    for (name, value) in [
        ("MY_SETTING", "sk-test-0123456789abcdef"),
        ("MY_API_KEY", "short-value-123"),
        ("MY_API_KEY", "1234567890123456"),
        ("MY_API_KEY", "/run/secrets/api-key-file"),
        ("AUTH_URL", "https://id.example.com/authorize"),
    ] {
        assert!(!held(name, value), "{name}={value}");
    }
}

#[test]
fn the_parts_of_a_setting_are_held_too() {
    let values = |text: &str| -> Vec<String> {
        let all = Credential::of_setting("x", &Secret::new(text));
        all.iter().map(|credential| credential.value.expose().to_owned()).collect()
    };
    assert_eq!(values("Bearer abcdefgh-1"), ["Bearer abcdefgh-1", "abcdefgh-1"]);
    assert_eq!(values("short"), [""; 0]);
    assert_eq!(values("12345678"), [""; 0]);
}

#[test]
fn a_large_body_is_searched_in_linear_time() {
    let began = std::time::Instant::now();
    for text in ["a", "%61", "\\u0061", "tok-ABCDEFG", "c2st"] {
        assert_eq!(name_in(&text.repeat((1 << 20) / text.len())), None);
    }
    assert!(began.elapsed() < std::time::Duration::from_mins(1), "{:?}", began.elapsed());
}

proptest! {
    #[test]
    fn whatever_stands_around_it_a_credential_is_found(
        before in "[ -~]{0,30}", after in "[ -~]{0,30}", encoding in 0..5
    ) {
        let encoded = match encoding {
            0 => VALUE.to_owned(),
            1 => percent(VALUE),
            2 => BASE64_STANDARD.encode(format!("{before}{VALUE}{after}")),
            3 => BASE64_URL_SAFE_NO_PAD.encode(format!("{before}{VALUE}{after}")),
            _ => String::from_utf8(hex_of(VALUE.as_bytes())).unwrap(),
        };
        let found = name_in(&format!(" {encoded} "));
        prop_assert_eq!(found.as_deref(), Some("MY_API_KEY"));
    }
}
