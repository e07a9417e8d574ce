//! Rules about the source, held as tests: layers, doors to the outside, module docs, and what may not be said.

#![allow(
    clippy::unwrap_used,
    clippy::string_slice,
    clippy::indexing_slicing,
    reason = "a rule that can't be read is a rule that is broken"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Room, layer, and what is special about it. The same table stands in ARCHITECTURE.md.
const ROOMS: &[(&str, u8, Nature)] = &[
    ("restap", 0, Nature::Pure),
    ("signature", 0, Nature::Pure),
    ("sse", 0, Nature::Pure),
    ("schema", 1, Nature::Pure),
    ("yaml", 1, Nature::Pure),
    ("front", 1, Nature::Pingora),
    ("keyring", 1, Nature::Plain),
    ("net", 1, Nature::Pingora),
    ("telemetry", 1, Nature::Plain),
    ("cache", 2, Nature::Plain),
    ("capability", 2, Nature::Pure),
    ("catalog", 2, Nature::Pure),
    ("egress", 2, Nature::Plain),
    ("talk", 2, Nature::Pure),
    ("identity", 2, Nature::Plain),
    ("openapi", 2, Nature::Pure),
    ("probe", 2, Nature::Pure),
    ("remote", 2, Nature::Pure),
    ("store", 2, Nature::Plain),
    ("upstream", 2, Nature::Plain),
    ("config", 3, Nature::Plain),
    ("gateway", 4, Nature::Pingora),
    ("admin", 4, Nature::Pingora),
    ("cli", 5, Nature::Plain),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Nature {
    /// No async, no tokio, no clock, no log line.
    Pure,
    /// I/O, but not Pingora.
    Plain,
    /// May name Pingora.
    Pingora,
}

/// Lines of a file without its tests. An aim of 400 with some room: a clear longer file beats a chopped one.
const FILE_LINES_MAX: usize = 500;

#[test]
fn rooms_import_strictly_downward() {
    let layer: BTreeMap<&str, u8> = ROOMS.iter().map(|(room, layer, _)| (*room, *layer)).collect();
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        let Some(own) = room(&path) else { continue };
        for (number, line) in code(&text) {
            for imported in imports(line).filter(|imported| *imported != own) {
                let Some(below) = layer.get(imported) else { continue };
                if *below >= layer[own] {
                    wrong.push(format!("{}:{number}: `{own}` may not import `{imported}`", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_room_stands_in_the_table_and_on_disk() {
    let mut on_disk: Vec<String> = fs::read_dir("src")
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .filter(|name| !matches!(name.as_str(), "main" | "lib"))
        .collect();
    on_disk.sort();
    let mut listed: Vec<String> = ROOMS.iter().map(|(room, ..)| (*room).to_owned()).collect();
    listed.sort();
    assert_eq!(on_disk, listed);
    let map = fs::read_to_string("ARCHITECTURE.md").unwrap();
    for (room, layer, _) in ROOMS {
        assert!(map.contains(&format!("| {layer} | `{room}` |")), "ARCHITECTURE.md has no row | {layer} | `{room}` |");
    }
}

#[test]
fn pingora_stays_behind_its_doors_and_pure_rooms_are_pure() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        let nature = ROOMS.iter().find(|(name, ..)| Some(*name) == room(&path)).map(|(_, _, nature)| *nature);
        let banned: &[&str] = match nature {
            Some(Nature::Pingora) | None => &[],
            Some(Nature::Plain) => &["pingora"],
            Some(Nature::Pure) => &[
                "pingora",
                "tokio::",
                "async fn",
                "async move",
                "async {",
                ".await",
                "tracing::",
                "Instant::now",
                "SystemTime::now",
                "std::net::Tcp",
            ],
        };
        for (number, line) in code(&text) {
            for word in banned.iter().filter(|word| line.contains(**word)) {
                wrong.push(format!("{}:{number}: `{word}` has no place in this room", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn posting_news_can_reach_no_upstream() {
    let news = fs::read_to_string("src/gateway/handler/news.rs").unwrap();
    for (number, line) in code(&news) {
        for word in ["upstream", "net::", "client", "talk::", "open_stream"] {
            assert!(!line.contains(word), "src/gateway/handler/news.rs:{number}: news never asks anybody: `{word}`");
        }
    }
}

#[test]
fn files_open_with_a_module_doc_and_stay_readable() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        if !text.starts_with("//! ") {
            wrong.push(format!("{}: the first line must be a //! doc", path.display()));
        }
        let lines = code(&text).last().map_or(0, |(number, _)| number);
        if lines > FILE_LINES_MAX {
            wrong.push(format!("{}: {lines} lines, more than {FILE_LINES_MAX}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn nothing_is_left_for_later() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        for (number, line) in text.lines().enumerate() {
            for word in ["TODO", "FIXME", "todo!(", "unimplemented!("] {
                if line.contains(word) {
                    wrong.push(format!("{}:{}: {word}", path.display(), number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_test_that_the_conformance_table_names_exists() {
    let table = fs::read_to_string("docs/conformance.md").unwrap();
    let mut all = String::new();
    for (_, text) in files(Path::new("src"), "rs").into_iter().chain(files(Path::new("tests"), "rs")) {
        all.push_str(&text);
    }
    let named: Vec<&str> = table.split('`').skip(1).step_by(2).filter(|word| word.matches('_').count() >= 3).collect();
    assert!(named.len() > 20, "the table names {} tests", named.len());
    for test in named {
        assert!(all.contains(&format!("fn {test}(")), "docs/conformance.md names `{test}`, which is no test");
    }
}

/// Every file under `src/` but those that hold nothing but tests.
fn sources() -> Vec<(PathBuf, String)> {
    let is_test =
        |path: &Path| path.components().any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "tests.rs")));
    files(Path::new("src"), "rs").into_iter().filter(|(path, _)| !is_test(path)).collect()
}

fn files(folder: &Path, extension: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
    found.sort();
    found
}

/// The room that a file belongs to.
fn room(path: &Path) -> Option<&'static str> {
    let name = path.components().nth(1)?.as_os_str().to_str()?;
    let name = name.strip_suffix(".rs").unwrap_or(name);
    ROOMS.iter().map(|(room, ..)| *room).find(|room| *room == name)
}

/// Numbered lines without comments, up to the tests of the file.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let end = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
    text[..end]
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line))
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// The rooms that a line names as `crate::room` or in `use crate::{room, …}`.
fn imports(line: &str) -> impl Iterator<Item = &str> {
    let group =
        line.trim_start().strip_prefix("use crate::{").map_or("", |group| group.split('}').next().unwrap_or(""));
    let plain = line
        .split("crate::")
        .skip(1)
        .map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or(""));
    plain.chain(group.split(',').map(|part| part.trim().split("::").next().unwrap_or("")))
}
