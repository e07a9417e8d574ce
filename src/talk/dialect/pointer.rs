//! `Pointer`: a JSON pointer (RFC 6901) with two wildcards, split once.

use std::ops::ControlFlow;

use super::tree::Tree;

/// Where something is in a JSON value. `*` stands for every element, `-1` for the last one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Pointer(Box<[Step]>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Each,
    Last,
    /// A key of an object, or an index of an array where it is a number.
    At(Box<str>, Option<usize>),
}

/// Why a text is no pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidPointer {
    #[error("a pointer starts with a slash, as in /choices/0; the empty pointer is the whole value")]
    NoSlash,
    #[error("in a pointer ~ is written ~0, and a slash inside a name ~1")]
    Escape,
}

impl Pointer {
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidPointer> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let steps = text.strip_prefix('/').ok_or(InvalidPointer::NoSlash)?.split('/');
        steps.map(step).collect::<Result<_, _>>().map(Self)
    }

    /// The first value that the pointer finds.
    pub(crate) fn first<'v, 't>(&self, value: &'v Tree<'t>) -> Option<&'v Tree<'t>> {
        let mut found = None;
        let _ = self.each(value, &mut |value| {
            found = Some(value);
            ControlFlow::Break(())
        });
        found
    }

    /// Visits every value that the pointer finds, in order, until the visitor breaks off.
    pub(crate) fn each<'v, 't>(
        &self,
        value: &'v Tree<'t>,
        visit: &mut dyn FnMut(&'v Tree<'t>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        walk(&self.0, value, visit)
    }

    /// Whether it is the whole value.
    pub(crate) fn is_root(&self) -> bool {
        self.0.is_empty()
    }
}

fn step(text: &str) -> Result<Step, InvalidPointer> {
    match text {
        "*" => return Ok(Step::Each),
        "-1" => return Ok(Step::Last),
        _ => {}
    }
    let rest = text.replace("~0", "").replace("~1", "");
    if rest.contains('~') {
        return Err(InvalidPointer::Escape);
    }
    let name = text.replace("~1", "/").replace("~0", "~");
    let index = name.parse().ok();
    Ok(Step::At(name.into(), index))
}

fn walk<'v, 't>(
    steps: &[Step],
    value: &'v Tree<'t>,
    visit: &mut dyn FnMut(&'v Tree<'t>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let Some((step, rest)) = steps.split_first() else {
        return visit(value);
    };
    let next = match (step, value) {
        (Step::Each, Tree::Array(items)) => return items.iter().try_for_each(|item| walk(rest, item, visit)),
        (Step::Each, Tree::Object(entries)) => return entries.iter().try_for_each(|(_, item)| walk(rest, item, visit)),
        (Step::Last, Tree::Array(items)) => items.last(),
        (Step::At(_, Some(index)), Tree::Array(items)) => items.get(*index),
        (Step::At(name, _), Tree::Object(_)) => value.get(name),
        (Step::Last, Tree::Object(_)) => value.get("-1"),
        _ => None,
    };
    next.map_or(ControlFlow::Continue(()), |next| walk(rest, next, visit))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn all(pointer: &str, value: &Value) -> Vec<Value> {
        let mut found = Vec::new();
        let text = value.to_string();
        let tree = serde_json::from_str(&text).unwrap();
        let _ = Pointer::parse(pointer).unwrap().each(&tree, &mut |tree| {
            found.push(tree.to_value());
            ControlFlow::Continue(())
        });
        found
    }

    #[test]
    fn a_pointer_finds_keys_indices_the_last_and_every_element() {
        let value = json!({"a": [{"t": 1}, {"t": 2}, {"u": 3}], "b": {"x": 4, "y": 5}, "c/d~": 6, "0": 7});
        assert_eq!(all("", &json!(1)), [json!(1)]);
        assert_eq!(all("/a/1/t", &value), [json!(2)]);
        assert_eq!(all("/a/-1/u", &value), [json!(3)]);
        assert_eq!(all("/a/*/t", &value), [json!(1), json!(2)]);
        assert_eq!(all("/b/*", &value), [json!(4), json!(5)]);
        assert_eq!(all("/c~1d~0", &value), [json!(6)]);
        assert_eq!(all("/0", &value), [json!(7)]);
        assert!(all("/a/7/t", &value).is_empty() && all("/a/t", &value).is_empty() && all("/b/x/y", &value).is_empty());
        let tree = serde_json::from_str("[[1],[2]]").unwrap();
        assert_eq!(Pointer::parse("/*/0").unwrap().first(&tree).map(Tree::to_value), Some(json!(1)));
    }

    #[test]
    fn what_is_no_pointer_says_why() {
        assert_eq!(Pointer::parse("choices"), Err(InvalidPointer::NoSlash));
        assert_eq!(Pointer::parse("/a~2"), Err(InvalidPointer::Escape));
        assert_eq!(Pointer::parse("/~"), Err(InvalidPointer::Escape));
    }
}
