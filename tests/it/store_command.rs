//! `restap-gateway store`: copies and checks, also of a store that is in use.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;

use crate::support::{Finished, Gateway, run};

const FILE: &str = "admin: off\nstore: {embedded: {path: data}}\nagent: {name: News}\n";

fn post(gateway: &Gateway, message: &str) {
    gateway.post("/news", &json!({"type": "t", "message": message})).ok();
}

fn store(directory: &TempDir, arguments: &[&str]) -> Finished {
    run(directory.path(), None, &[&["store"], arguments].concat())
}

#[test]
fn a_store_in_use_is_copied_and_its_copy_serves() {
    let gateway = Gateway::start(FILE);
    let directory = gateway.directory();
    post(&gateway, "kept");
    let copied = store(&directory, &["backup", "copy.db"]);
    assert_eq!(copied.code, Some(0), "{copied:?}");
    let copy = directory.path().join("copy.db");
    let bytes = fs::metadata(&copy).unwrap().len();
    assert_eq!(copied.stdout, format!("copy.db: {bytes} bytes\n"));
    assert!(copied.stderr.contains("data/store.key"), "{copied:?}");
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    post(&gateway, "later");

    let again = store(&directory, &["backup", "copy.db"]);
    assert_eq!(again.code, Some(1));
    assert!(again.stderr.contains("copy.db") && again.stderr.contains("File exists"), "{again:?}");
    assert_eq!(fs::metadata(&copy).unwrap().len(), bytes, "it is as it was");
    let nowhere = store(&directory, &["backup", "no/such/copy.db"]);
    assert_eq!(nowhere.code, Some(1), "{nowhere:?}");

    let restored = Arc::new(TempDir::new().unwrap());
    fs::create_dir(restored.path().join("data")).unwrap();
    fs::copy(&copy, restored.path().join("data/store.db")).unwrap();
    fs::copy(directory.path().join("data/store.key"), restored.path().join("data/store.key")).unwrap();
    let restored = Gateway::start_in(restored, FILE);
    let items = &restored.get("/news").ok()["items"];
    assert_eq!((items[0]["message"].as_str(), items.as_array().unwrap().len()), (Some("kept"), 1));
}

#[test]
fn a_check_says_fine_or_what_is_damaged() {
    let mut gateway = Gateway::start(FILE);
    let directory = gateway.directory();
    let text = "a text that stands in the file ".repeat(10);
    post(&gateway, &text);
    let fine = store(&directory, &["check"]);
    assert_eq!(fine.code, Some(0), "{fine:?}");
    assert!(fine.stdout.ends_with("data/store.db: fine\n") && fine.stderr.is_empty(), "{fine:?}");
    gateway.stop();
    let fine = store(&directory, &["check", "-c", "gateway.yaml"]);
    assert_eq!(fine.code, Some(0), "at rest: {fine:?}");

    let path = directory.path().join("data/store.db");
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(text.len()).position(|window| window == text.as_bytes()).unwrap();
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
    let damaged = store(&directory, &["check"]);
    assert_eq!((damaged.code, damaged.stdout.as_str()), (Some(1), ""), "{damaged:?}");
    for part in ["data/store.db: 1 news items are not what was written", "restore the last backup"] {
        assert!(damaged.stderr.contains(part), "{damaged:?}");
    }
    fs::write(&path, b"no database at all").unwrap();
    let damaged = store(&directory, &["check"]);
    assert_eq!(damaged.code, Some(1), "{damaged:?}");
}

#[test]
fn without_an_embedded_store_there_is_nothing_to_copy_or_to_check() {
    let directory = TempDir::new().unwrap();
    for (file, part) in [
        ("store: {memory: {}}\nagent: {name: News}\n", "in memory"),
        ("agent: {name: News}\n", "there is no store in"),
        ("agnet: {}\n", "agnet"),
    ] {
        fs::write(directory.path().join("gateway.yaml"), file).unwrap();
        for arguments in [&["check"][..], &["backup", "copy.db"]] {
            let finished = store(&directory, arguments);
            assert_eq!(finished.code, Some(1), "{finished:?}");
            assert!(finished.stderr.contains(part), "{finished:?}");
            assert!(!directory.path().join("copy.db").exists() && !directory.path().join("data").exists());
        }
    }
    for arguments in [&[][..], &["backup"], &["restore"]] {
        assert_eq!(store(&directory, arguments).code, Some(2), "{arguments:?}");
    }
}
