//! Every document under `tests/cases/openapi-minimal`: what its `# expect` line says. And documents of others, where they
//! are found.

mod documents;
mod hostile;
mod minimal;
mod updating;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::*;

/// Reads a document and what it refers to below its folder.
fn bundle(path: &Path) -> Result<Bundle, Unreadable> {
    let folder = path.parent().unwrap();
    let name = PathBuf::from(path.file_name().unwrap());
    let mut bundle = Bundle::new(Location::File(name), &fs::read(path).unwrap())?;
    while let Some(Wanted { location, .. }) = bundle.wanted() {
        let bytes = match &location {
            Location::File(path) => fs::read(folder.join(path)).map_err(|error| error.to_string()),
            Location::Url(_) => Err("nothing is fetched".to_owned()),
        };
        bundle.give(location, bytes);
    }
    Ok(bundle)
}

fn of_text(text: &str) -> Imported {
    of_text_with(text, &Options::default())
}

fn of_text_with(text: &str, options: &Options) -> Imported {
    let bundle = Bundle::new(Location::File("api.yaml".into()), text.as_bytes()).unwrap();
    import(&bundle, options).unwrap()
}

impl Imported {
    fn ids(&self) -> Vec<&str> {
        self.operations.iter().map(|operation| operation.id.as_str()).collect()
    }

    fn operation(&self, id: &str) -> &Operation {
        let found = self.operations.iter().find(|operation| operation.id == id);
        found.unwrap_or_else(|| panic!("no {id} among {:?}", self.ids()))
    }

    fn input(&self, id: &str) -> &Value {
        self.operation(id).body.as_ref().unwrap().schema.as_deref().unwrap()
    }

    fn output(&self, id: &str) -> &Value {
        self.operation(id).output_schema.as_deref().unwrap()
    }

    fn codes(&self) -> Vec<&'static str> {
        let mut codes: Vec<_> = self.report.notes.iter().map(|note| note.code).collect();
        codes.sort_unstable();
        codes.dedup();
        codes
    }

    fn note(&self, code: &str) -> &Note {
        self.report
            .notes
            .iter()
            .find(|note| note.code == code)
            .unwrap_or_else(|| panic!("no {code}: {:?}", self.codes()))
    }

    fn skipped(&self, method: &str, path: &str) -> &'static str {
        let outcome = self.report.operations.iter().find(|it| it.method == method && it.path == path);
        outcome.unwrap().skipped.unwrap()
    }
}

impl Operation {
    fn parameter(&self, name: &str) -> &Parameter {
        self.parameters.iter().find(|parameter| parameter.name == name).unwrap()
    }
}
