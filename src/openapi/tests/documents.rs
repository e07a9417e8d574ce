//! Documents of others. They lie beside this repository where somebody put them; elsewhere the tests say so and pass.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::*;

const FOLDER: &str = "../shared/cases/openapi";

/// No document may take longer, however loaded the machine; it is seconds in a debug build.
const PATIENCE: Duration = Duration::from_mins(2);

pub(super) fn found() -> Vec<PathBuf> {
    let folder = Path::new(FOLDER);
    if !folder.is_dir() {
        eprintln!("skipped: {FOLDER} is not there");
        return Vec::new();
    }
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.file_name().unwrap() != "manifest.json");
    let document = |path: PathBuf| {
        let inside = ["swagger.yaml", "openapi.yaml", "swagger.json", "openapi.json"].map(|name| path.join(name));
        if path.is_dir() { inside.into_iter().find(|it| it.is_file()) } else { Some(path) }
    };
    let mut paths: Vec<_> = paths.into_iter().filter_map(document).collect();
    paths.sort();
    paths
}

#[test]
fn every_document_of_others_is_accounted_for_and_makes_a_file_that_passes_check() {
    for path in found() {
        let began = Instant::now();
        let bundle = bundle(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let imported = import(&bundle, &Options { base_url: Some("http://127.0.0.1:9".into()), ..Options::default() });
        let imported = imported.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let expected = operations(&bundle.root().unwrap().to_json());
        let mut by_method: BTreeMap<String, usize> = BTreeMap::new();
        for outcome in &imported.report.operations {
            *by_method.entry(outcome.method.clone()).or_default() += 1;
            assert!(outcome.id.is_some() != outcome.skipped.is_some());
        }
        eprintln!("{}: {} in {:?}; {:?}", path.display(), imported.report.summary(), began.elapsed(), imported.codes());
        assert_eq!(by_method, expected, "{}", path.display());
        assert_eq!(imported.report.taken(), imported.operations.len());
        for operation in &imported.operations {
            assert!(!entry(operation, None).is_empty());
        }
        assert!(began.elapsed() < PATIENCE, "{}", path.display());
    }
}

/// Operations by method, counted in the plainest way. Only `paths` that stand in the document itself.
fn operations(document: &Value) -> BTreeMap<String, usize> {
    let mut count = BTreeMap::new();
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        for method in item.as_object().into_iter().flatten().map(|(key, _)| key.to_ascii_uppercase()) {
            let known =
                ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE"].contains(&method.as_str());
            if known && !path.starts_with("x-") {
                *count.entry(method).or_default() += 1;
            }
        }
    }
    count
}
