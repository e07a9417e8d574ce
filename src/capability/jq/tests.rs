//! Programs: what they give, and where they end.

#![expect(clippy::needless_pass_by_value, reason = "a value that is written where it is used reads best")]

use serde_json::{Value, json};

use super::*;

fn run_with(program: &str, input: &Value, variables: Variables) -> Result<Value, JqError> {
    let jq: Jq = program.parse().unwrap_or_else(|problem| panic!("{program}: {problem}"));
    jq.run_within(100_000, Val::from(input), &variables).map(Value::from)
}

fn run(program: &str, input: Value) -> Result<Value, JqError> {
    run_with(program, &input, Variables::default())
}

#[test]
fn what_people_write_does_what_jq_does() {
    let data = json!({"data": {"t": 21.5, "tags": ["b", "a", "b"]}, "n": null, "s": "a,b", "k": [{"id": 2, "v": "x"}, {"id": 1}]});
    for (program, expected) in [
        (".data | {temp: .t}", json!({"temp": 21.5})),
        (".data.tags | unique | length", json!(2)),
        (".missing.deep", json!(null)),
        (".k | map(.id) | add", json!(3)),
        (".k | sort_by(.id) | .[0].id", json!(1)),
        ("[.k[] | select(.v)] | length", json!(1)),
        (".s / \",\"", json!(["a", "b"])),
        (".s | split(\",\") | join(\"-\")", json!("a-b")),
        ("\"t=\\(.data.t) \\(.data.tags[0])\"", json!("t=21.5 b")),
        ("to_entries | map(.key)", json!(["data", "n", "s", "k"])),
        (".data.t |= . + 1 | .data.t", json!(22.5)),
        (".data += {x: 1} | .data.x", json!(1)),
        ("del(.data, .k) | keys", json!(["n", "s"])),
        (".k | map({(.id | tostring): .v}) | add", json!({"2": "x", "1": null})),
        (".n // \"none\"", json!("none")),
        ("if .data.t > 20 then \"warm\" else \"cold\" end", json!("warm")),
        ("reduce .k[] as $i (0; . + $i.id)", json!(3)),
        (".s | test(\"^a\")", json!(true)),
        (".s | gsub(\",\"; \";\")", json!("a;b")),
        (".k | group_by(.id) | map(length)", json!([1, 1])),
        ("[.. | numbers] | add", json!(24.5)),
        ("with_entries(select(.value | type == \"string\"))", json!({"s": "a,b"})),
        ("[1, 2] | .[1:]", json!([2])),
        ("\"7\" | tonumber + 1", json!(8)),
        ("10 / 4, 10 / 5", json!([2.5, 2])),
        ("[3, 1] | min, max", json!([1, 3])),
        ("{a: {b: 1}} * {a: {c: 2}}", json!({"a": {"b": 1, "c": 2}})),
        ("[\"a\\\"b\", 1, null] | @csv", json!("\"a\"\"b\",1,")),
        ("\"a b&\" | @uri", json!("a%20b%26")),
        ("\"hi\" | @base64", json!("aGk=")),
        ("\"[1]\" | fromjson", json!([1])),
        ("[1, [2]] | flatten", json!([1, 2])),
        ("try error(\"x\") catch .", json!("x")),
        ("[limit(3; range(10))]", json!([0, 1, 2])),
        ("{} | .a.b[1] = 1", json!({"a": {"b": [null, 1]}})),
        ("[1,2,3] | index(2)", json!(1)),
        ("0 | todate", json!("1970-01-01T00:00:00Z")),
        ("[[1,2],[3]] | transpose", json!([[1, 3], [2, null]])),
        ("input_line_number?", json!(null)),
    ] {
        if program.starts_with("input") {
            assert!(program.parse::<Jq>().is_err());
            continue;
        }
        assert_eq!(run(program, data.clone()), Ok(expected), "{program}");
    }
}

#[test]
fn variables_say_what_the_request_was() {
    let variables = Variables { path: json!({"city": "Oslo"}), status: json!(200), ..Variables::default() };
    assert_eq!(
        run_with("{q: $path.city, s: $status, h: $headers}", &json!(null), variables),
        Ok(json!({"q": "Oslo", "s": 200, "h": null}))
    );
}

#[test]
fn nothing_outside_is_known() {
    for program in [
        "env",
        "$ENV",
        "input",
        "inputs",
        "now",
        "halt",
        "halt_error",
        "debug",
        "stderr",
        "localtime",
        "input_filename",
        "include \"x\"; .",
        "import \"x\" as x; .",
    ] {
        assert!(program.parse::<Jq>().is_err(), "{program}");
    }
}

#[test]
fn a_broken_program_says_where() {
    for (program, message) in [
        (".a | {", "at its end"),
        (".a |", "in the mapping"),
        ("\"abc", "is missing in the mapping"),
        (".a | nofilter", "there is no filter `nofilter` in a mapping"),
        ("def f(g): f(g | g); f(.)", "takes filters and ends by calling itself"),
        ("def f(g): def h: f(g | g); if . then h else 1, h end; f(.)", "takes filters and ends by calling itself"),
        ("$nope", "there is no variable `$nope` in a mapping"),
    ] {
        let problem = program.parse::<Jq>().unwrap_err().to_string();
        assert!(problem.contains(message), "{program}: {problem}");
    }
}

#[test]
fn what_would_go_on_for_ever_ends() {
    for program in [
        "def f: f; f",
        "def f: f | .; f",
        "def f: [f]; f",
        "def f: 1 + f; f",
        "def f: if f then f else f end; f",
        "def f: try f catch f; f",
        "def f: .[f]; f",
        "[range(1e12)]",
        "last(range(1e12))",
        "reduce range(1e12) as $i (0; . + 1)",
        "[recurse(.)]",
        "[repeat(1)]",
        "until(false; .)",
        "[while(true; .)]",
        "last(repeat(.))",
        "\"x\" * 1e12",
        "reduce range(100) as $i (\"xxxxx\"; . + .)",
        "reduce range(100) as $i ([1]; . + .)",
        "reduce range(100000) as $i (null; [.])",
        "reduce range(100000) as $i (null; {a: .})",
        "[range(1000)] as $x | [$x[] as $a | $x[] as $b | $x[] as $c | $x[] as $d | 1]",
        "[range(100000)] | [.[] | tojson] | [.[] as $a | .[] as $b | $a + $b] | length",
        "(\"x\" * 1000000) as $s | [range(1000) | $s] | tojson",
        "(\"x\" * 1000000) as $s | [range(1000) | $s] | join(\"\")",
        "[range(30)] | [combinations(20)]",
        "[range(50) | [0, 1]] | [combinations] | length",
        ".[1e9] = 1",
        ".[99999999999] = 1",
        "[limit(1e12; repeat(1))] | length",
        "try (def f: f; f) catch 1",
        "(def f: f; f)?",
        "first(def f: f; f) // 1",
        "def f: path(f); f",
        "[range(1e7)] | sort | reverse | unique",
        "label $out | def f: f; f",
        "walk(def f: f; f)",
        "@json \"\\(def f: f; f)\"",
        "{(def f: f; f): 1}",
        ". as {(def f: f; f): $x} | $x",
        ".. |= (def f: f; f)",
        "\"a\" | [splits(\"\")] | [repeat(.)]",
    ] {
        match run(program, json!([1])) {
            Err(JqError::Limit(limit)) => assert_ne!(limit, Limit::Broken, "{program}"),
            // What fails before it goes on for ever is fine too.
            Err(JqError::Failed(_)) => {}
            other => panic!("{program}: {other:?}"),
        }
    }
    assert_eq!(run(". + 1", json!(1)), Ok(json!(2)), "the thread is as good as new");
}

#[test]
fn a_brief_effort_ends_earlier() {
    let jq: Jq = "[range(30000)] | length".parse().unwrap();
    let brief = jq.run(Val::Null, &Variables::default(), Effort::Brief);
    assert_eq!(brief.map(Value::from), Err(JqError::Limit(Limit::Steps)));
    assert_eq!(jq.run(Val::Null, &Variables::default(), Effort::Full).map(Value::from), Ok(json!(30_000)));
}

#[test]
fn numbers_stay_what_they_are() {
    for (text, written) in [
        ("9223372036854775807", "9223372036854775807"),
        ("0.1", "0.1"),
        ("1e300", "1e+300"),
        ("-0.0", "0"),
        ("2.0", "2"),
    ] {
        let value: Val = serde_json::from_str(text).unwrap();
        assert_eq!(String::from_utf8(value.to_json(100).unwrap()).unwrap(), written);
    }
    assert_eq!(run("nan, infinite | [.]", json!(null)), Ok(json!([[null], [f64::MAX]])));
    assert_eq!(run("9223372036854775807 + 1", json!(null)), Ok(json!(9_223_372_036_854_775_807_i64 as f64)));
}

#[test]
fn an_answer_has_its_room() {
    let value = Val::from(&json!(["abc"]));
    assert_eq!((value.to_json(7), value.to_json(6)), (Some(b"[\"abc\"]".to_vec()), None));
}

proptest::proptest! {
    // Each program is compiled with the whole library.
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(32))]

    #[test]
    fn no_program_breaks_the_evaluator(
        program in "(\\.|\\.a|\\[|\\]|\\{|\\}|\\(|\\)|\\||,|\\+|\\*|-|/|%|1|2\\.5|\"x\"|map|select|length|keys|add|range|recurse|path|\\?|//|:| ){1,12}"
    ) {
        if let Ok(jq) = program.parse::<Jq>() {
            let outcome = jq.run(Val::from(&json!({"a": [1, "x", null]})), &Variables::default(), Effort::Brief);
            proptest::prop_assert_ne!(outcome.map(Value::from), Err(JqError::Limit(Limit::Broken)));
        }
    }
}
