//! Names that a mapping knows: jaq's own without those that reach out, and those that need to know what a value is.

use jaq_core::load::parse::Def;
use jaq_core::native::{Fun, bome, run, unary, v};
use jaq_core::{Error, ValR};

use super::Data;
use super::instrument::STEP;
use super::meter;
use super::value::Val;

/// What would need an environment, a clock, a time zone, a log, further input, or would end the process.
const WITHHELD: [&str; 11] = [
    "env",
    "now",
    "localtime",
    "strflocaltime",
    "halt",
    "halt_error",
    "debug",
    "debug_empty",
    "stderr",
    "stderr_empty",
    "input_filename",
];

/// What jaq defines over values of its own.
const DEFS: &str = r#"
def tonumber: if isnumber then . else tonumber_text end;
def toboolean: if isboolean then . elif . == "true" then true elif . == "false" then false
  else error("this can't be a boolean") end;
def toarray: if isarray then . else [.] end;
def in(xs): . as $x | xs | has($x);
def inside(xs): . as $x | xs | contains($x);
def index($i): indices($i) | .[0];
def rindex($i): indices($i) | .[-1];
def leaf_paths: paths(scalars);
def transpose: (map(length) | max // 0) as $most | [range($most) as $i | [.[][$i]]];
def @json: tojson;
def @csv: [.[] | if isstring then "\"" + (split("\"") | join("\"\"")) + "\"" elif . == null then "" else tojson end] | join(",");
def @tsv: [.[] | if . == null then "" else tostring end | split("\\") | join("\\\\") | split("\t") | join("\\t")
  | split("\n") | join("\\n") | split("\r") | join("\\r")] | join("\t");
"#;

/// Whether a name of the library stays unknown.
pub(super) fn is_withheld(name: &str) -> bool {
    WITHHELD.contains(&name)
}

pub(super) fn defs() -> impl Iterator<Item = Def<&'static str>> {
    jaq_core::load::parse(DEFS, |parser| parser.defs()).unwrap_or_default().into_iter()
}

pub(super) fn funs() -> impl Iterator<Item = Fun<Data>> {
    let library = jaq_core::funs::<Data>().chain(jaq_std::funs::<Data>());
    library.filter(|(name, _, _)| !is_withheld(name)).chain(own())
}

fn own() -> impl Iterator<Item = Fun<Data>> {
    let natives: [jaq_core::native::Filter<jaq_core::RunPtr<Data>>; 8] = [
        (STEP, v(0), |cv| {
            meter::step();
            bome(Ok(cv.1))
        }),
        ("length", v(0), |cv| bome(length(&cv.1))),
        ("tojson", v(0), |cv| bome(Ok(json_text(&cv.1)))),
        ("fromjson", v(0), |cv| bome(from_json(&cv.1))),
        ("tonumber_text", v(0), |cv| bome(to_number(&cv.1))),
        ("has", v(1), |cv| unary(cv, |value, key| has(&value, &key))),
        ("contains", v(1), |cv| unary(cv, |value, other| Ok(Val::Bool(contains(&value, &other))))),
        ("indices", v(1), |cv| unary(cv, |value, wanted| indices(&value, &wanted))),
    ];
    natives.into_iter().map(run::<Data>)
}

fn length(value: &Val) -> ValR<Val> {
    Ok(match value {
        Val::Null => Val::Int(0),
        Val::Int(number) => number.checked_abs().map_or(Val::Float(-(*number as f64)), Val::Int),
        Val::Float(number) => Val::Float(number.abs()),
        Val::Text(text) => Val::from(text.chars().count()),
        Val::List(items, _) => Val::from(items.len()),
        Val::Object(entries, _) => Val::from(entries.len()),
        Val::Bool(_) => return Err(Error::str("a boolean has no length")),
    })
}

fn json_text(value: &Val) -> Val {
    Val::Text(String::from_utf8_lossy(&value.counted_json()).into())
}

fn from_json(value: &Val) -> ValR<Val> {
    let Val::Text(text) = value else { return Err(Error::typ(value.clone(), "string")) };
    meter::bytes(text.len() * size_of::<Val>());
    meter::steps(text.len());
    serde_json::from_str(text).map_err(|_| Error::str("a text is not JSON"))
}

fn to_number(value: &Val) -> ValR<Val> {
    let Val::Text(text) = value else { return Err(Error::str("this can't be a number")) };
    match super::super::coerce::scalar(text.trim()) {
        number @ serde_json::Value::Number(_) => Ok(Val::from(&number)),
        _ => Err(Error::str("this text is no number")),
    }
}

fn has(value: &Val, key: &Val) -> ValR<Val> {
    match (value, key) {
        (Val::Object(entries, _), Val::Text(key)) => Ok(Val::Bool(entries.contains_key(key))),
        (Val::List(items, _), Val::Int(index)) => {
            Ok(Val::Bool(usize::try_from(*index).is_ok_and(|index| index < items.len())))
        }
        (value, key) => Err(Error::index(value.clone(), key.clone())),
    }
}

fn contains(value: &Val, other: &Val) -> bool {
    meter::step();
    match (value, other) {
        (Val::Text(text), Val::Text(part)) => {
            meter::steps(text.len() / 64);
            text.contains(&**part)
        }
        (Val::List(items, _), Val::List(others, _)) => {
            others.iter().all(|other| items.iter().any(|item| contains(item, other)))
        }
        (Val::Object(entries, _), Val::Object(others, _)) => {
            others.iter().all(|(key, other)| entries.get(key).is_some_and(|value| contains(value, other)))
        }
        (value, other) => value == other,
    }
}

fn indices(value: &Val, wanted: &Val) -> ValR<Val> {
    let found: Vec<Val> = match (value, wanted) {
        (Val::Text(text), Val::Text(part)) => {
            meter::steps(text.len() / 16);
            let starts = text.char_indices().enumerate();
            let found = starts.filter(|(_, (at, _))| {
                !part.is_empty() && text.as_bytes().get(*at..).is_some_and(|rest| rest.starts_with(part.as_bytes()))
            });
            found.map(|(number, _)| Val::from(number)).collect()
        }
        (Val::List(items, _), Val::List(part, _)) => {
            let windows = items.windows(part.len().max(1)).enumerate();
            windows
                .filter(|(_, window)| !part.is_empty() && *window == part.as_slice())
                .map(|(at, _)| Val::from(at))
                .collect()
        }
        (Val::List(items, _), wanted) => {
            let found = items.iter().enumerate().filter(|(_, item)| *item == wanted);
            found.map(|(at, _)| Val::from(at)).collect()
        }
        (Val::Null, _) => return Ok(Val::Null),
        (value, wanted) => return Err(Error::index(value.clone(), wanted.clone())),
    };
    Ok(Val::list(found))
}
