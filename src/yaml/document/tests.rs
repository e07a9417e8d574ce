//! Places, kinds and limits of what is read.

use super::*;

fn document(text: &str) -> Document {
    Document::parse("t.yaml", Path::new("etc"), text.to_owned()).unwrap()
}

/// `line:column path kind` of every node, keys in front.
fn outline(node: Node<'_>) -> Vec<String> {
    let at = |span: Span| format!("{}:{}", span.line, span.column);
    let kind = match node.kind() {
        Kind::List | Kind::Mapping => format!("{:?}", node.kind()),
        kind => format!("{kind:?} written {:?}", node.written()),
    };
    let key = if node.key().is_some() { format!("{} ", at(node.key_span())) } else { String::new() };
    let line = format!("{key}{} `{}` {kind}", at(node.span()), node.path());
    std::iter::once(line).chain(node.children().flat_map(outline)).collect()
}

#[test]
fn every_node_knows_where_it_stands() {
    let document = document("a: {b: 1.50, \"c d\": 'x'}\nü:\n  - true\n  -\n  - |\n    two\n    lines\n");
    let expected = [
        "1:1 `` Mapping",
        "1:1 1:4 `a` Mapping",
        "1:5 1:8 `a.b` Float(1.5) written \"1.50\"",
        "1:14 1:21 `a[\"c d\"]` Text(\"x\") written \"x\"",
        "2:1 3:3 `[\"ü\"]` List",
        "3:5 `[\"ü\"][0]` Bool(true) written \"true\"",
        "4:4 `[\"ü\"][1]` Null written \"\"",
        "6:5 `[\"ü\"][2]` Text(\"two\\nlines\\n\") written \"two\\nlines\\n\"",
    ];
    assert_eq!(outline(document.root()), expected);
}

#[test]
fn only_true_and_false_are_booleans_and_odd_numbers_are_text() {
    let document = document("[no, yes, on, NO, 017, 1_000, 012345678901, 12:30, 2001-01-01]");
    for node in document.root().children() {
        assert_eq!(node.kind(), Kind::Text(node.written()));
    }
}

#[test]
fn what_an_alias_repeats_stands_where_it_was_written_first() {
    let document = document("x: &x {a: 1, b: 2}\ny: *x\nz:\n  <<: *x\n  b: 3\n");
    assert_eq!(
        document.root().to_json(),
        serde_json::json!({
            "x": {"a": 1, "b": 2}, "y": {"a": 1, "b": 2}, "z": {"b": 3, "a": 1},
        })
    );
    let node = document.root().nearest("/z/a");
    assert_eq!((node.path().as_str(), node.span().line, node.span().column), ("z.a", 1, 11));
}

#[test]
fn one_anchor_may_be_merged_into_very_many_mappings() {
    let agents = (0..2_000).map(|agent| format!("a{agent}: {{<<: *d}}\n"));
    let document = document(&format!("d: &d {{x: 1}}\n{}", agents.collect::<String>()));
    assert_eq!(document.root().children().count(), 2_001);
}

#[test]
fn a_key_that_stands_twice_is_told_with_both_places_and_the_first_one_counts() {
    let document = document("a: 1\nb: {c: 1, d: 2, c: 3}\na: 4\n");
    let faults: Vec<_> =
        document.faults().map(|(node, fault)| (node.path(), node.key_span().line, &*fault.help)).collect();
    assert_eq!(
        faults,
        [
            ("b.c".into(), 2, "the first is in line 2, column 5; keep one of them"),
            ("a".into(), 3, "the first is in line 1, column 1; keep one of them"),
        ]
    );
    assert_eq!(document.root().to_json(), serde_json::json!({"a": 1, "b": {"c": 1, "d": 2}}));
}

#[test]
fn variables_are_filled_in_and_what_was_written_is_kept() {
    let mut document = document("a: \"${X}!\"\nb: $${X}\nc: ${NONE}\n");
    document.fill_in(&|name| (name == "X").then(|| "1".into()));
    let root = document.root();
    let texts: Vec<_> = root.children().map(|node| (node.as_text(), node.written(), node.is_filled_in())).collect();
    assert_eq!(texts, [(Some("1!"), "${X}!", true), (Some("${X}"), "$${X}", true), (None, "${NONE}", false)]);
    let faults: Vec<_> = document.faults().map(|(node, fault)| (node.path(), &*fault.message)).collect();
    assert_eq!(faults, [("c".into(), "the environment variable NONE is not set")]);
}

#[test]
fn a_pointer_leads_to_the_nearest_node_that_is_there() {
    let document = document("a: {b/c: [x, {y: 1}], d~e: 2}");
    for (pointer, path) in [
        ("", ""),
        ("/a/b~1c/1/y", "a[\"b/c\"][1].y"),
        ("/a/d~0e", "a[\"d~e\"]"),
        ("/a/b~1c/7/y", "a[\"b/c\"]"),
        ("/nope", ""),
    ] {
        assert_eq!(document.root().nearest(pointer).path(), path);
    }
}

#[test]
fn a_text_that_is_no_yaml_is_one_problem_with_its_place() {
    for (text, line, column, message) in [
        ("a: b: c\n", 1, 5, "this is no YAML: mapping values are not allowed in this context"),
        ("a:\n\tb: c\n", 2, 2, "this is no YAML: tabs disallowed within this context (block indentation)"),
        ("a: *nope\n", 1, 4, "this is no YAML: alias references unknown anchor"),
        ("a: 1\n---\nb: 2\n", 3, 1, "a second YAML document starts here; one file is one document"),
        ("a: 1e400\n", 1, 4, "a number must be finite; put it in quotes if it is text"),
        ("? [a]\n: 1\n", 1, 3, "this is no YAML: expected string scalar"),
    ] {
        let problem = *Document::parse("t.yaml", Path::new(""), text.into()).unwrap_err();
        assert_eq!((problem.line, problem.column, problem.message.as_str()), (line, column, message), "{text}");
    }
}

#[test]
fn a_text_that_wants_too_much_is_refused() {
    let bomb = (1..10).map(|n| format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 10].join(",")));
    let bomb = format!("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n{}", bomb.collect::<String>());
    let deep = format!("{}1{}", "{a: ".repeat(200), "}".repeat(200));
    let indented = (0..200).map(|depth| format!("{}a:", " ".repeat(depth))).collect::<Vec<_>>().join("\n");
    for text in [bomb, deep, indented, "[".repeat(5_000)] {
        Document::parse("t.yaml", Path::new(""), text).unwrap_err();
    }
}

#[test]
fn the_deepest_text_that_is_accepted_needs_no_large_stack() {
    let depth = 95;
    let text = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    std::thread::Builder::new()
        .stack_size(256 << 10)
        .spawn(move || document(&text).root().to_json())
        .unwrap()
        .join()
        .unwrap();
}

proptest::proptest! {
    #[test]
    fn no_text_is_too_odd(text in "[a-c:\\-\\[\\]{}&*!|>'\"#% \n\t${}~0-9.]{0,60}") {
        if let Ok(mut document) = Document::parse("t.yaml", Path::new(""), text) {
            document.fill_in(&|_| None);
            let _ = outline(document.root());
        }
    }
}
