//! What the pages say about gateway.yaml is what the reader accepts.

#![expect(
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test that can't go on ends with a panic, also in its helpers"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use restap_gateway::talk::Dialect;
use restap_gateway::talk::dialect::Conversation;
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_restap-gateway");

#[test]
fn docs_configuration_names_every_key_in_its_section_and_no_other() {
    let schema = restap_gateway::config::schema();
    let page = fs::read_to_string("docs/configuration.md").unwrap();
    let documented = sections(&page);
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    compare("gateway.yaml", "gateway", &schema, &documented, &mut seen, &mut wrong);
    for section in documented.keys().filter(|section| !seen.contains(*section)) {
        wrong.push(format!("there is no section `{section}`"));
    }
    assert!(wrong.is_empty(), "docs/configuration.md:\n{}", wrong.join("\n"));
}

#[test]
fn docs_dialects_lists_every_dialect_and_who_keeps_its_conversation() {
    let page = fs::read_to_string("docs/dialects.md").unwrap();
    let built_in = Dialect::names().map(|name| {
        let conversation = match Dialect::built_in(name).unwrap().conversation() {
            Conversation::None => "none",
            Conversation::Derived => "derived",
            Conversation::Minted => "minted",
        };
        (name, conversation)
    });
    for (name, conversation) in built_in {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        let row = row.unwrap_or_else(|| panic!("docs/dialects.md has no row for `{name}`"));
        assert!(row.ends_with(&format!("| {conversation} |")), "`{name}` is {conversation}: {row}");
    }
}

#[test]
fn docs_probe_lists_every_rule() {
    let page = fs::read_to_string("docs/probe.md").unwrap();
    let mut rows = page
        .lines()
        .filter(|line| line.starts_with("| `") && (line.contains("| MUST |") || line.contains("| SHOULD |")));
    for rule in restap_gateway::probe::ALL {
        let row = format!("| `{}` | {} | {} | {} |", rule.id, rule.level.word(), rule.section, rule.says);
        assert_eq!(rows.next(), Some(row.as_str()), "docs/probe.md");
    }
    assert_eq!(rows.next(), None, "docs/probe.md");
}

#[test]
fn the_debian_package_is_made_of_files_that_exist() {
    let metadata =
        Command::new(env!("CARGO")).args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).output();
    let metadata: Value = serde_json::from_slice(&metadata.unwrap().stdout).unwrap();
    let deb = &metadata["packages"][0]["metadata"]["deb"];
    let script = fs::read_to_string("packaging/deb").unwrap();
    let assets: Vec<[&str; 3]> =
        deb["assets"].as_array().unwrap().iter().map(|asset| [0, 1, 2].map(|at| asset[at].as_str().unwrap())).collect();
    for [source, ..] in &assets {
        match source.strip_prefix("target/") {
            // What is built, and what the script makes of it.
            Some("release/restap-gateway") => {}
            Some(made) => {
                assert!(script.contains(&format!("> target/{made}\n")), "packaging/deb does not make {source}");
            }
            None => assert!(glob::glob(source).unwrap().next().is_some(), "there is no {source}"),
        }
    }
    for kept in deb["conf-files"].as_array().unwrap() {
        let kept = Path::new(kept.as_str().unwrap());
        let of = assets.iter().find(|[source, target, _]| {
            Path::new("/").join(target).join(Path::new(source).file_name().unwrap()) == kept
        });
        let [source, ..] = of.unwrap_or_else(|| panic!("nothing is installed as {}", kept.display()));
        check(Path::new(source), &fs::read_to_string(source).unwrap()).unwrap();
    }
    let unit = &deb["systemd-units"];
    let unit = Path::new(unit["unit-scripts"].as_str().unwrap())
        .join(format!("{}.service", unit["unit-name"].as_str().unwrap()));
    // Without one of these cargo-deb would tell systemd nothing.
    let scripts = Path::new(deb["maintainer-scripts"].as_str().unwrap());
    assert!(fs::read_to_string(scripts.join("postinst")).unwrap().contains("#DEBHELPER#"));
    assert!(unit.exists() && Path::new(deb["license-file"][0].as_str().unwrap()).exists());
}

#[test]
fn every_whole_file_that_is_shown_passes_check() {
    let directory = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    let mut shown = 0;
    for page in files(Path::new("."), "md") {
        let text = fs::read_to_string(&page).unwrap();
        for (line, snippet) in whole_files(&text) {
            shown += 1;
            let path = directory.path().join("gateway.yaml");
            fs::write(&path, snippet).unwrap();
            if let Err(problems) = check(&path, snippet) {
                wrong.push(format!("{}:{line}:\n{problems}", page.display()));
            }
        }
    }
    for path in files(Path::new("examples"), "yaml").into_iter().chain([PathBuf::from("gateway.yaml")]) {
        shown += 1;
        let text = fs::read_to_string(&path).unwrap();
        if let Err(problems) = check(&path, &text) {
            wrong.push(format!("{}:\n{problems}", path.display()));
        }
    }
    assert!(shown >= 10, "only {shown} files were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_link_to_a_file_leads_somewhere() {
    let mut wrong = Vec::new();
    for page in files(Path::new("."), "md") {
        let text = fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).filter_map(|link| link.split(')').next()) {
            let target = link.split('#').next().unwrap();
            let local = !target.is_empty() && !target.contains("://");
            if local && !page.parent().unwrap().join(target).exists() {
                wrong.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn dashboard_and_alerts_ask_for_metrics_that_there_are() {
    let page = fs::read_to_string("docs/metrics.md").unwrap();
    let known: BTreeSet<&str> = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let dashboard = fs::read_to_string("packaging/grafana.json").unwrap();
    let alerts = fs::read_to_string("packaging/alerts.yaml").unwrap();
    assert!(serde_json::from_str::<Value>(&dashboard).unwrap()["panels"].as_array().unwrap().len() > 5);
    assert!(serde_yaml::from_str::<Value>(&alerts).unwrap()["groups"][0]["rules"].as_array().unwrap().len() > 3);
    let name = regex::Regex::new("restap_[a-z_]+").unwrap();
    let mut asked = 0;
    for found in name.find_iter(&dashboard).chain(name.find_iter(&alerts)) {
        let metric = ["_bucket", "_sum", "_count"].iter().find_map(|end| found.as_str().strip_suffix(end));
        let metric = metric.unwrap_or(found.as_str());
        assert!(known.contains(metric), "there is no metric {metric}");
        asked += 1;
    }
    assert!(asked > 20);
}

#[test]
fn the_unit_that_is_shown_is_the_one_that_is_packaged() {
    let page = fs::read_to_string("docs/deployment.md").unwrap();
    let shown = page.split("```ini\n").nth(1).unwrap().split("```").next().unwrap();
    let shown = shown.lines().skip(1).collect::<Vec<_>>().join("\n").replace("/usr/local/bin/", "/usr/bin/");
    let packaged = fs::read_to_string("packaging/restap-gateway.service").unwrap();
    assert_eq!(shown.trim(), packaged.trim());
}

/// Holds a section of the page against one of the schema, and then those below it.
fn compare(
    path: &str,
    definition: &str,
    schema: &Value,
    documented: &BTreeMap<String, BTreeMap<String, String>>,
    seen: &mut BTreeSet<String>,
    wrong: &mut Vec<String>,
) {
    if !seen.insert(path.to_owned()) {
        return;
    }
    let properties = schema["$defs"][definition]["properties"].as_object().cloned().unwrap_or_default();
    if properties.is_empty() {
        return;
    }
    let Some(rows) = documented.get(path) else {
        wrong.push(format!("the section `{path}` is missing"));
        return;
    };
    for key in rows.keys().filter(|key| !properties.contains_key(*key)) {
        wrong.push(format!("`{path}` has no key `{key}`"));
    }
    for (key, property) in &properties {
        match (rows.get(key), property.get("default")) {
            (None, _) => wrong.push(format!("`{path}` lacks the key `{key}`")),
            (Some(row), Some(default)) => {
                let default = default.as_str().map_or_else(|| default.to_string(), str::to_owned);
                if !row.contains(&format!("`{default}`")) {
                    wrong.push(format!("`{path}`: the default of `{key}` is `{default}`"));
                }
            }
            _ => {}
        }
        for (suffix, below) in references(property) {
            // Secrets and schemas may stand in files: explained once, under values.
            // A part of a capability has the keys of a whole one.
            if !below.ends_with("_file") && below != "capability_part" {
                let below_path = if path == "gateway.yaml" { key.clone() } else { format!("{path}.{key}") };
                let name = canonical(&format!("{below_path}{suffix}"));
                compare(&name, &below, schema, documented, seen, wrong);
            }
        }
    }
}

/// `agents.NAME` has the keys of `agent`.
fn canonical(path: &str) -> String {
    match path.strip_prefix("agents.NAME") {
        Some(rest) => format!("agent{rest}"),
        None => path.to_owned(),
    }
}

/// The definitions that a property leads to, and how one gets there.
fn references(property: &Value) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    let target = |value: &Value| Some(value.get("$ref")?.as_str()?.rsplit('/').next()?.to_owned());
    found.extend(target(property).map(|name| ("", name)));
    for choice in property["anyOf"].as_array().into_iter().flatten() {
        found.extend(references(choice));
    }
    let items = property.get("items");
    found.extend(items.and_then(target).map(|name| ("[]", name)));
    // An entry of `capabilities` is one, or a description of many.
    let forms: Vec<_> =
        items.and_then(|items| items["anyOf"].as_array()).into_iter().flatten().filter_map(target).collect();
    if forms.iter().any(|name| name == "capabilities_of") {
        found.extend(forms.into_iter().map(|name| match name.as_str() {
            "capabilities_of" => ("[].openapi", "openapi".to_owned()),
            _ => ("[]", name),
        }));
    }
    // An entry may have a short form beside its mapping; what lies deeper has a section of its own.
    let entries = property.get("additionalProperties").map(references).unwrap_or_default();
    found.extend(entries.into_iter().filter(|(deeper, _)| deeper.is_empty()).map(|(_, name)| (".NAME", name)));
    found
}

/// Sections of a page, each with the rows of its table by key: `` ## `limits` `` and `` | `body` | … | ``.
fn sections(page: &str) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut sections = BTreeMap::new();
    let mut rows: Option<&mut BTreeMap<String, String>> = None;
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## ").or(line.strip_prefix("### ")) {
            let path = heading.strip_prefix('`').and_then(|path| path.strip_suffix('`'));
            rows = path.map(|path| sections.entry(path.to_owned()).or_default());
        } else if let (Some(rows), Some(row)) = (rows.as_mut(), line.strip_prefix("| `")) {
            let (key, rest) = row.split_once('`').unwrap();
            rows.insert(key.to_owned(), rest.to_owned());
        }
    }
    sections
}

/// Blocks that are a whole gateway.yaml, with their lines. One that is shown because it is broken says so in front.
fn whole_files(page: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (at, _) in page.match_indices("```yaml\n") {
        let (before, block) = (&page[..at], &page[at + 8..]);
        let block = block.split("```").next().unwrap();
        let whole = block.lines().any(|line| line.starts_with("agent:") || line.starts_with("agents:"));
        let broken = before.lines().last().is_some_and(|line| line.starts_with("<!-- broken file: "));
        if whole && !broken {
            found.push((before.lines().count() + 1, block));
        }
    }
    found
}

/// Runs `check` with something in every variable that has no default.
fn check(path: &Path, text: &str) -> Result<(), String> {
    let mut command = Command::new(PROGRAM);
    command.arg("check").arg("--config").arg(path);
    for name in text.split("${").skip(1).filter_map(|variable| variable.split('}').next()) {
        if !name.contains(":-") {
            command.env(name, "k-0123456789abcdef");
        }
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // Nobody answers where the pages say that agents are.
    let away = |problem: &&str| problem.contains("warning: the agent could not be read yet");
    let others = said.split("\n\n").filter(|problem| !problem.trim().is_empty() && !away(problem)).count();
    if output.status.success() && others == 0 { Ok(()) } else { Err(said) }
}

/// Files below a directory, those of builds and of version control apart.
fn files(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                found.extend(files(&path, extension));
            }
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}
