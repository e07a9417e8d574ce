//! What people changed in a file stays, and what they did not follows the document.

use super::write::{Earlier, Origin};
use super::*;

const ORIGIN: Origin<'static> = Origin { document: "api.yaml", command: "import api.yaml" };

const DOCUMENT: &str = "\
openapi: 3.0.0
info: {title: Shop, version: '1'}
servers: [{url: 'http://h'}]
paths:
  /a: {get: {operationId: getA, summary: A, description: first}}
  /b: {get: {operationId: getB, summary: B}}
  /c: {get: {operationId: getC, summary: C}}
";

fn updated(file: &str, document: &str, prune: bool) -> write::Merged {
    let earlier = Earlier::read("gateway.yaml", file.to_owned()).unwrap();
    let mut options = Options { known_ids: earlier.known_ids(), ..Options::default() };
    let mut imported = of_text_with(document, &options);
    let moved = earlier.moved(&imported.operations);
    if !moved.is_empty() {
        options.known_ids.extend(moved);
        imported = of_text_with(document, &options);
    }
    write::merge(&earlier, &imported, prune).unwrap()
}

fn first() -> String {
    write::file(&of_text(DOCUMENT), &ORIGIN)
}

#[test]
fn an_import_of_the_same_document_changes_nothing() {
    let file = first();
    let merged = updated(&file, DOCUMENT, false);
    assert_eq!(merged.text, file);
    assert!(merged.added.is_empty() && merged.changed.is_empty() && merged.kept.is_empty());
}

#[test]
fn what_people_wrote_stays_byte_for_byte_and_the_rest_follows() {
    let file = first()
        .replace("title: A\n", "title: My own A   # mine\n")
        .replace("id: get_b\n", "id: my.b\n")
        .replace("agent:\n", "# about the agent\nagent:\n");
    let document =
        DOCUMENT.replace("summary: A", "summary: New A").replace("description: first", "description: second");
    let document = document.replace("summary: B", "summary: New B") + "  /d: {get: {operationId: getD}}\n";
    let merged = updated(&file, &document, false);
    let expected = file.replace("description: first", "description: second").replace("title: B\n", "title: New B\n");
    let expected = expected
        .split("\n# What was imported")
        .next()
        .unwrap()
        .to_owned()
        .replace("description: B\n", "description: New B\n");
    let got = merged.text.split("\n# What was imported").next().unwrap();
    assert!(got.starts_with(expected.trim_end()), "{got}\n---\n{expected}");
    let added = got.strip_prefix(expected.trim_end()).unwrap();
    assert_eq!(added, "\n    # GET /d\n    - id: get_d\n      title: Get d\n      method: GET\n      endpoint: /d\n");
    assert_eq!(merged.added, ["GET /d"]);
    // A second time nothing is left to do.
    let again = updated(&merged.text, &document, false);
    assert_eq!(again.text, merged.text);
}

#[test]
fn what_people_took_out_stays_out() {
    let file = first();
    let (before, rest) = file.split_once("    # GET /b\n").unwrap();
    let (_, after) = rest.split_once("    # GET /c\n").unwrap();
    let file = format!("{before}    # GET /c\n{after}").replace("      description: first\n", "");
    let merged = updated(&file, &DOCUMENT.replace("first", "second"), false);
    assert_eq!(merged.left_out, ["GET /b"]);
    assert!(!merged.text.contains("id: get_b") && !merged.text.contains("second"), "{}", merged.text);
    assert_eq!(updated(&merged.text, DOCUMENT, false).left_out, ["GET /b"]);
}

#[test]
fn what_is_gone_is_marked_once_and_taken_out_when_asked() {
    let document = DOCUMENT.replace("  /b: {get: {operationId: getB, summary: B}}\n", "");
    let merged = updated(&first(), &document, false);
    assert_eq!(merged.gone, ["GET /b"]);
    assert!(merged.text.contains("    # no longer in the document: GET /b\n    - id: get_b\n"), "{}", merged.text);
    assert_eq!(updated(&merged.text, &document, false).text, merged.text);
    let pruned = updated(&merged.text, &document, true);
    assert!(!pruned.text.contains("get_b") && pruned.text.contains("get_c"), "{}", pruned.text);
}

#[test]
fn an_operation_that_moved_keeps_its_entry() {
    let file = first().replace("id: get_b\n", "id: my.b\n");
    let merged = updated(&file, &DOCUMENT.replace("/b:", "/bees:"), false);
    assert!(merged.added.is_empty() && merged.gone.is_empty(), "{merged:?}");
    assert!(merged.text.contains("id: my.b\n") && merged.text.contains("endpoint: /bees\n"), "{}", merged.text);
    assert!(merged.text.contains("    # GET /bees\n    - id: my.b\n"), "{}", merged.text);
}

#[test]
fn an_entry_that_stands_in_one_line_is_left_alone() {
    let file = first();
    let (before, rest) = file.split_once("    # GET /b\n").unwrap();
    let (_, after) = rest.split_once("    # GET /c\n").unwrap();
    let file = format!("{before}    - {{id: get_b, title: B, endpoint: /b}}\n    # GET /c\n{after}");
    let merged = updated(&file, &DOCUMENT.replace("summary: B", "summary: New B"), false);
    assert!(merged.text.contains("    - {id: get_b, title: B, endpoint: /b}\n"), "{}", merged.text);
    assert_eq!(merged.kept, ["GET /b"]);
}
