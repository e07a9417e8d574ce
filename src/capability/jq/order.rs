//! The order of values: by their kind first, as jq has it.

use std::cmp::Ordering;
use std::rc::Rc;

use super::meter;
use super::value::{Entries, Val};

/// null, booleans, numbers, texts, lists, objects.
fn rank(value: &Val) -> u8 {
    match value {
        Val::Null => 0,
        Val::Bool(_) => 1,
        Val::Int(_) | Val::Float(_) => 2,
        Val::Text(_) => 3,
        Val::List(..) => 4,
        Val::Object(..) => 5,
    }
}

impl Ord for Val {
    fn cmp(&self, other: &Self) -> Ordering {
        meter::step();
        match (self, other) {
            (Self::Bool(one), Self::Bool(two)) => one.cmp(two),
            (Self::Int(one), Self::Int(two)) => one.cmp(two),
            (Self::Int(_) | Self::Float(_), Self::Int(_) | Self::Float(_)) => number_order(self, other),
            (Self::Text(one), Self::Text(two)) => {
                meter::steps(one.len().min(two.len()) / 256);
                one.cmp(two)
            }
            (Self::List(one, _), Self::List(two, _)) => one.cmp(two),
            (Self::Object(one, _), Self::Object(two, _)) => {
                // By the sets of keys first, then by the values in the order of the keys (jq, `sort`).
                let (one, two) = (sorted(one), sorted(two));
                let keys = one.iter().map(|(key, _)| key).cmp(two.iter().map(|(key, _)| key));
                keys.then_with(|| one.iter().map(|(_, value)| value).cmp(two.iter().map(|(_, value)| value)))
            }
            _ => rank(self).cmp(&rank(other)),
        }
    }
}

fn sorted(entries: &Entries) -> Vec<(&Rc<str>, &Val)> {
    meter::steps(entries.len());
    let mut sorted: Vec<_> = entries.iter().collect();
    sorted.sort_by_key(|(key, _)| *key);
    sorted
}

/// What is no number is less than all that are.
fn number_order(one: &Val, two: &Val) -> Ordering {
    let (one, two) = (float(one), float(two));
    one.partial_cmp(&two).unwrap_or_else(|| if one.is_nan() { Ordering::Less } else { Ordering::Greater })
}

/// A number as one with a fraction.
pub(super) fn float(value: &Val) -> f64 {
    match value {
        Val::Int(number) => *number as f64,
        Val::Float(number) => *number,
        _ => f64::NAN,
    }
}

impl PartialOrd for Val {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Val {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Val {}
