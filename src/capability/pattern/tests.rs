//! Patterns, and a segment held against the naive matcher.

use proptest::prelude::*;

use super::*;

fn parsed(text: &str) -> Pattern {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn problem(text: &str) -> (usize, PatternProblem) {
    let InvalidPattern { at, problem } = text.parse::<Pattern>().expect_err(text);
    (at, problem)
}

/// What the first segment of a pattern takes of a segment.
fn capture<'s>(pattern: &str, segment: &'s str) -> Option<Vec<&'s str>> {
    let pattern = parsed(pattern);
    let Some(Segment::Mixed(mixed)) = pattern.segments().first() else { panic!("{pattern:?}") };
    let mut captures = Vec::new();
    mixed.capture(segment, &mut captures).then_some(captures)
}

#[test]
fn a_pattern_knows_its_names_in_order() {
    let names = |text: &str| parsed(text).names().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names("/users/{id}/files/{name}.{ext}/{*rest}"), ["id", "name", "ext", "rest"]);
    assert_eq!(names("/a/b/"), [""; 0]);
    assert_eq!(
        names("/{monetary-account_id}/{source.repoURL}/{a b}"),
        ["monetary-account_id", "source.repoURL", "a b"]
    );
    assert!(parsed("/{*rest}").has_tail());
    assert!(!parsed("/{rest}").has_tail());
}

#[test]
fn what_is_no_pattern_says_what_and_where() {
    for (text, at, error) in [
        ("", 0, PatternProblem::NotAbsolute),
        ("weather", 0, PatternProblem::NotAbsolute),
        ("/a//b", 3, PatternProblem::EmptySegment),
        ("/a/../b", 3, PatternProblem::DotSegment),
        ("/%2e", 1, PatternProblem::DotSegment),
        ("/a?x=1", 2, PatternProblem::Query),
        ("/a#b", 2, PatternProblem::Query),
        ("/a/{id", 3, PatternProblem::Unclosed),
        ("/a/{id/b}", 3, PatternProblem::Unclosed),
        ("/{a{b}}", 1, PatternProblem::Unclosed),
        ("/a}/b", 2, PatternProblem::Unopened),
        ("/{}", 1, PatternProblem::EmptyName),
        ("/{*}", 1, PatternProblem::EmptyName),
        ("/{id}/x-{id}", 8, PatternProblem::DuplicateName),
        ("/{a}{b}", 4, PatternProblem::Adjacent),
        ("/{*rest}/b", 1, PatternProblem::TailNotLast),
        ("/x{*rest}", 2, PatternProblem::TailNotLast),
        ("/{*rest}x", 1, PatternProblem::TailNotLast),
        ("/{id}{*rest}", 5, PatternProblem::TailNotLast),
        ("/a%2fb", 1, PatternProblem::EncodedSlash),
        ("/a/b%", 3, PatternProblem::Literal(InvalidPath::BrokenEncoding)),
        ("/a\\b", 1, PatternProblem::Literal(InvalidPath::Backslash)),
        ("/a\nb", 1, PatternProblem::Literal(InvalidPath::Control)),
    ] {
        assert_eq!(problem(text), (at, error), "{text}");
    }
}

#[test]
fn a_template_takes_as_much_as_it_can() {
    assert_eq!(capture("/{name}.{ext}", "archive.tar.gz").unwrap(), ["archive.tar", "gz"]);
    assert_eq!(capture("/{a}-{b}", "x-y-z").unwrap(), ["x-y", "z"]);
    assert_eq!(capture("/v{n}.json", "v1.json.json").unwrap(), ["1.json"]);
    assert_eq!(capture("/{a}--{b}", "x---y").unwrap(), ["x-", "y"]);
    assert_eq!(capture("/{a}--{b}", "x---").unwrap(), ["x", "-"]);
    assert_eq!(capture("/({a},{b})", "(1,2)").unwrap(), ["1", "2"]);
    assert_eq!(capture("/{a}é{b}", "xééy").unwrap(), ["xé", "y"]);
}

#[test]
fn a_template_takes_at_least_one_character() {
    for (pattern, segment) in [
        ("/{id}.json", ".json"),
        ("/{id}.json", "json"),
        ("/{a}-{b}", "-"),
        ("/{a}-{b}", "a-"),
        ("/{a}-{b}", "-b"),
        ("/{a}-{b}", "ab"),
        ("/aba{x}aba", "aba"),
        ("/aba{x}aba", "ababa"),
        ("/{a}-{b}-{c}", "1-2"),
    ] {
        assert_eq!(capture(pattern, segment), None, "{pattern} {segment}");
    }
}

#[test]
fn a_long_segment_takes_linear_time() {
    let pattern = parsed("/{a}ab{b}ab{c}ab{d}");
    let Some(Segment::Mixed(mixed)) = pattern.segments().first() else { panic!() };
    // Whatever is worse than linear does not end before the tests are given up.
    for (segment, found) in [("a".repeat(1 << 22), false), ("ab".repeat(1 << 21), true), ("ba".repeat(1 << 21), true)] {
        assert_eq!(mixed.capture(&segment, &mut Vec::new()), found);
    }
}

/// Tries every length for every template, the longest first: slow, and plainly right.
fn naive<'s>(first: &str, rest: &[&str], segment: &'s str) -> Option<Vec<&'s str>> {
    let after = segment.strip_prefix(first)?;
    let Some((next, rest)) = rest.split_first() else { return after.is_empty().then(Vec::new) };
    let ends = after.char_indices().map(|(at, _)| at).chain([after.len()]).filter(|end| *end > 0);
    for end in ends.collect::<Vec<_>>().into_iter().rev() {
        let (taken, left) = after.split_at(end);
        if let Some(mut captures) = naive(next, rest, left) {
            captures.insert(0, taken);
            return Some(captures);
        }
    }
    None
}

proptest! {
    #[test]
    fn a_segment_is_taken_as_the_naive_matcher_takes_it(
        first in "[ab]{0,2}",
        between in prop::collection::vec("[ab]{1,2}", 0..3),
        last in "[ab]{0,2}",
        segment in "[ab]{0,12}",
    ) {
        let mixed = Mixed {
            first: first.as_str().into(),
            between: between.iter().map(|text| text.as_str().into()).collect(),
            last: last.as_str().into(),
        };
        let mut captures = Vec::new();
        let found = mixed.capture(&segment, &mut captures).then_some(captures);
        let rest: Vec<_> = between.iter().map(String::as_str).chain([last.as_str()]).collect();
        prop_assert_eq!(found, naive(&first, &rest, &segment));
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "/[a{}*/.%é?]{0,20}") {
        drop(text.parse::<Pattern>());
    }
}
