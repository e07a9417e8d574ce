//! That a weaker schema is weaker, and what goes first.

use proptest::prelude::*;

use super::*;

/// A record with so many fields of some 100 bytes each.
fn record(fields: usize) -> Value {
    let field = |n| (format!("field_{n}"), json!({"type": "string", "description": "d".repeat(60)}));
    json!({"type": "object", "title": "Record", "properties": (0..fields).map(field).collect::<Map<_, _>>()})
}

#[test]
fn what_fits_is_left_alone() {
    let schema = json!({"type": "object", "examples": [1], "title": "T"});
    assert_eq!(fit(&schema, size(&schema)), None);
}

#[test]
fn what_a_caller_misses_least_goes_first() {
    let schema = json!({
        "title": "T",
        "description": "root",
        "type": "object",
        "properties": {
            "title": {"type": "string", "description": "one", "examples": ["e"]},
            "deep": {"properties": {"b": {"properties": {"c": {"description": "three", "$ref": "#/$defs/D"}}}}}
        },
        "$defs": {"D": {"description": "definition", "type": "string"}}
    });
    let mut steps = Vec::new();
    let mut budget = size(&schema) - 1;
    while let Some(reduced) = fit(&schema, budget).filter(|reduced| size(reduced) <= budget && steps.len() < 4) {
        budget = size(&reduced) - 1;
        steps.push(reduced.to_string());
    }
    let without = |step: &str, gone: &[&str], kept: &[&str]| {
        assert!(gone.iter().all(|text| !step.contains(text)), "{step}");
        assert!(kept.iter().all(|text| step.contains(text)), "{step}");
    };
    without(&steps[0], &["examples"], &["\"T\"", "three", "definition"]);
    without(&steps[1], &["\"T\""], &["\"title\":{", "one", "three", "definition"]);
    without(&steps[2], &["three"], &["one", "root", "definition"]);
    without(&steps[3], &["\"definition\""], &["one", "root", "$defs"]);
}

#[test]
fn a_cut_schema_has_no_references_and_names_what_was_cut() {
    let schema = json!({
        "type": "object",
        "properties": {
            "order": {"$ref": "#/$defs/Order", "description": "The order"},
            "note": {"type": "string", "minLength": 1}
        },
        "$defs": {"Order": {"type": "object", "properties": {
            "parent": {"$ref": "#/$defs/Order"},
            "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}}
        }}, "Line": record(50)}
    });
    let cut = Cut::new(&schema, &|_| None, 3, 4_000).whole().unwrap();
    assert_eq!(
        cut,
        json!({
            "type": "object",
            "properties": {
                "order": {
                    "type": "object",
                    "properties": {
                        "parent": {"type": "object", "title": "Order"},
                        "lines": {"type": "array"}
                    },
                    "description": "The order"
                },
                "note": {"type": "string", "minLength": 1}
            }
        })
    );
}

#[test]
fn at_last_the_type_alone_stays() {
    let many: Vec<_> = (0..200).map(|n| format!("option_{n}")).collect();
    assert_eq!(fit(&json!({"type": "string", "enum": many}), 100), Some(json!({"type": "string"})));
    assert_eq!(fit(&record(200), 100), Some(json!({"type": "object"})));
    assert_eq!(fit(&json!({"anyOf": [record(100), record(101)]}), 60), Some(json!({})));
}

#[test]
fn a_reference_that_stands_twice_at_every_level_does_not_run_long() {
    let definitions = (0..200).map(|n| {
        let next = json!({"$ref": format!("#/$defs/D{}", n + 1)});
        (format!("D{n}"), json!({"properties": {"a": next, "b": next, "c": next, "d": next}}))
    });
    let schema = json!({"$ref": "#/$defs/D0", "$defs": definitions.collect::<Map<_, _>>()});
    let reduced = fit(&schema, 4_000).unwrap();
    assert!(fits(&reduced, 4_000));
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (-3..4).prop_map(Value::from),
        "[ab]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::hash_map("[ab]", inner, 0..3)
                .prop_map(|map| Value::from(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        prop::sample::select(vec!["object", "array", "string", "integer", "null"])
            .prop_map(|kind| json!({"type": kind})),
        prop::sample::select(vec!["#/$defs/A", "#/$defs/B", "#"])
            .prop_map(|to| json!({"$ref": to, "description": "d"})),
        (-2..3).prop_map(|limit| json!({"minimum": limit, "title": "T"})),
        value().prop_map(|value| json!({"enum": [value, 1, "a"], "examples": [value]})),
        (0..3).prop_map(|limit| json!({"minLength": limit, "maxItems": limit, "description": "d"})),
        any::<bool>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let list = prop::collection::vec(inner.clone(), 1..3);
        prop_oneof![
            (inner.clone(), inner.clone(), any::<bool>()).prop_map(|(a, b, open)| {
                json!({"type": "object", "properties": {"a": a, "b": b}, "required": ["a"], "additionalProperties": open})
            }),
            (inner.clone(), inner.clone()).prop_map(|(a, rest)| json!({"properties": {"a": a}, "additionalProperties": rest})),
            (list.clone(), inner.clone()).prop_map(|(all, a)| {
                json!({"allOf": all, "properties": {"a": a}, "unevaluatedProperties": false})
            }),
            list.clone().prop_map(|any| json!({"anyOf": any})),
            list.clone().prop_map(|one| json!({"oneOf": one, "description": "d"})),
            (list.clone(), list.clone()).prop_map(|(one, any)| json!({"oneOf": one, "anyOf": any})),
            inner.clone().prop_map(|not| json!({"not": not})),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| json!({"if": a, "then": b, "else": c})),
            (list, inner.clone()).prop_map(|(first, rest)| json!({"prefixItems": first, "items": rest, "unevaluatedItems": false})),
            inner.clone().prop_map(|some| json!({"contains": some, "minContains": 0, "maxContains": 1})),
            inner.clone().prop_map(|name| json!({"propertyNames": name, "patternProperties": {"a": {"$ref": "#/$defs/A"}}})),
            inner.prop_map(|beside| json!({"$ref": "#/$defs/B", "items": beside, "dependentSchemas": {"a": {"required": ["b"]}}})),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn what_fits_the_whole_schema_fits_the_reduced_one(
        root in schema(),
        (a, b) in (schema(), schema()),
        values in prop::collection::vec(value(), 8),
    ) {
        let Value::Object(mut whole) = root else { return Ok(()) };
        whole.insert("$defs".to_owned(), json!({"A": a, "B": b}));
        let whole = Value::Object(whole);
        let bytes = size(&whole);
        let validator = |schema: &Value| jsonschema::draft202012::options().build(schema).unwrap();
        let validator_of_whole = validator(&whole);
        let accepted: Vec<_> = values.iter().filter(|value| validator_of_whole.is_valid(value)).collect();
        for budget in [bytes - 1, bytes * 3 / 4, bytes / 2, bytes / 4, bytes / 8] {
            let reduced = fit(&whole, budget).unwrap();
            let validator_of_reduced = validator(&reduced);
            for value in &accepted {
                prop_assert!(validator_of_reduced.is_valid(value), "{whole}\n{reduced}\n{value}");
            }
        }
    }
}
