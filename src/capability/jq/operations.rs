//! What jq's operations do to values.

use std::ops::{Add, Div, Mul, Neg, Range, Rem, Sub};
use std::rc::Rc;

use jaq_core::box_iter::{BoxIter, box_once};
use jaq_core::ops::Math;
use jaq_core::path::Opt;
use jaq_core::{Error, Exn, ValR, ValX};

use super::meter;
use super::order::float;
use super::value::{Entries, Val, deeper};

type Result<T = Val> = std::result::Result<T, Error<Val>>;

/// What can be iterated, and what can be sliced, in errors.
const ITERABLE: &str = "iterable (array or object)";
const SLICEABLE: &str = "rangeable (array or string)";

impl From<bool> for Val {
    fn from(truth: bool) -> Self {
        meter::step();
        Self::Bool(truth)
    }
}

impl From<isize> for Val {
    fn from(number: isize) -> Self {
        meter::step();
        Self::Int(number as i64)
    }
}

impl From<usize> for Val {
    fn from(number: usize) -> Self {
        meter::step();
        i64::try_from(number).map_or(Self::Float(number as f64), Self::Int)
    }
}

impl From<f64> for Val {
    fn from(number: f64) -> Self {
        meter::step();
        Self::Float(number)
    }
}

impl From<String> for Val {
    fn from(text: String) -> Self {
        meter::step();
        Self::text(&text)
    }
}

impl From<Range<Option<Self>>> for Val {
    fn from(range: Range<Option<Self>>) -> Self {
        let ends = [("start", range.start), ("end", range.end)];
        Self::object(ends.into_iter().filter_map(|(name, end)| Some((name.into(), end?))).collect())
    }
}

impl FromIterator<Self> for Val {
    fn from_iter<I: IntoIterator<Item = Self>>(items: I) -> Self {
        // Counted as it grows: what is collected may be without an end.
        let counted = items.into_iter().inspect(|_| {
            meter::step();
            meter::bytes(size_of::<Self>());
        });
        let items: Vec<Self> = counted.collect();
        let depth = deeper(items.iter());
        Self::List(Rc::new(items), depth)
    }
}

/// Whole numbers stay whole where they can.
fn arithmetic(
    (one, operation, two): (Val, Math, Val),
    whole: fn(i64, i64) -> Option<i64>,
    real: fn(f64, f64) -> f64,
) -> Result {
    meter::step();
    match (&one, &two) {
        (Val::Int(a), Val::Int(b)) => {
            Ok(whole(*a, *b).map_or_else(|| Val::Float(real(*a as f64, *b as f64)), Val::Int))
        }
        (Val::Int(_) | Val::Float(_), Val::Int(_) | Val::Float(_)) => Ok(Val::Float(real(float(&one), float(&two)))),
        _ => Err(Error::math(one, operation, two)),
    }
}

impl Add for Val {
    type Output = ValR<Self>;

    fn add(self, other: Self) -> ValR<Self> {
        match (self, other) {
            (Self::Null, value) | (value, Self::Null) => Ok(value),
            (Self::Text(one), Self::Text(two)) => {
                meter::bytes(one.len() + two.len());
                Ok(Self::Text([&*one, &*two].concat().into()))
            }
            (Self::List(mut one, _), Self::List(two, _)) => {
                // A list that nobody else has is not copied, so that lists can be built in a loop.
                let copied = if Rc::strong_count(&one) == 1 { two.len() } else { one.len() + two.len() };
                meter::steps(copied);
                meter::bytes(copied * size_of::<Self>());
                Rc::make_mut(&mut one).extend(two.iter().cloned());
                let depth = deeper(one.iter());
                Ok(Self::List(one, depth))
            }
            (Self::Object(mut one, _), Self::Object(two, _)) => {
                meter::bytes((one.len() + two.len()) * size_of::<Self>());
                Rc::make_mut(&mut one).extend(two.iter().map(|(key, value)| (Rc::clone(key), value.clone())));
                let depth = deeper(one.values());
                Ok(Self::Object(one, depth))
            }
            (one, two) => arithmetic((one, Math::Add, two), i64::checked_add, |a, b| a + b),
        }
    }
}

impl Sub for Val {
    type Output = ValR<Self>;

    fn sub(self, other: Self) -> ValR<Self> {
        match (self, other) {
            (Self::List(one, _), Self::List(two, _)) => {
                let kept = one.iter().filter(|item| !two.contains(item)).cloned();
                Ok(kept.collect())
            }
            (one, two) => arithmetic((one, Math::Sub, two), i64::checked_sub, |a, b| a - b),
        }
    }
}

impl Mul for Val {
    type Output = ValR<Self>;

    fn mul(self, other: Self) -> ValR<Self> {
        match (self, other) {
            (Self::Text(text), times @ (Self::Int(_) | Self::Float(_)))
            | (times @ (Self::Int(_) | Self::Float(_)), Self::Text(text)) => {
                let times = float(&times);
                if times <= 0.0 || times.is_nan() {
                    return Ok(Self::Null);
                }
                let times = times.ceil().min(1e15) as usize;
                meter::bytes(text.len().saturating_mul(times));
                Ok(Self::Text(text.repeat(times).into()))
            }
            (Self::Object(one, _), Self::Object(two, _)) => Ok(merged(&one, &two)),
            (one, two) => arithmetic((one, Math::Mul, two), i64::checked_mul, |a, b| a * b),
        }
    }
}

/// The second goes before the first, object by object.
fn merged(one: &Rc<Entries>, two: &Rc<Entries>) -> Val {
    meter::steps(one.len() + two.len());
    let mut entries = Entries::clone(one);
    for (key, value) in two.iter() {
        let merged = match (entries.get(key), value) {
            (Some(Val::Object(before, _)), Val::Object(value, _)) => merged(before, value),
            (_, value) => value.clone(),
        };
        entries.insert(Rc::clone(key), merged);
    }
    Val::object(entries)
}

impl Div for Val {
    type Output = ValR<Self>;

    fn div(self, other: Self) -> ValR<Self> {
        match (self, other) {
            (Self::Text(text), Self::Text(separator)) => {
                if text.is_empty() {
                    return Ok(Self::list(Vec::new()));
                }
                if separator.is_empty() {
                    return Ok(text.chars().map(|character| Self::text(character.encode_utf8(&mut [0; 4]))).collect());
                }
                Ok(text.split(&*separator).map(Self::text).collect())
            }
            (one, two) => {
                let exact = |a: i64, b: i64| if a.checked_rem(b)? == 0 { a.checked_div(b) } else { None };
                arithmetic((one, Math::Div, two), exact, |a, b| a / b)
            }
        }
    }
}

impl Rem for Val {
    type Output = ValR<Self>;

    fn rem(self, other: Self) -> ValR<Self> {
        if matches!(other, Self::Int(0)) && matches!(self, Self::Int(_)) {
            return Err(Error::math(self, Math::Rem, other));
        }
        arithmetic((self, Math::Rem, other), i64::checked_rem, |a, b| a % b)
    }
}

impl Neg for Val {
    type Output = ValR<Self>;

    fn neg(self) -> ValR<Self> {
        Self::Int(0) - self
    }
}

impl jaq_core::ValT for Val {
    fn from_num(text: &str) -> ValR<Self> {
        meter::step();
        let whole = text.parse().ok().map(Self::Int);
        whole.or_else(|| text.parse().ok().map(Self::Float)).ok_or_else(|| Error::str("this is no number"))
    }

    fn from_map<I: IntoIterator<Item = (Self, Self)>>(entries: I) -> ValR<Self> {
        let key = |(key, value)| match key {
            Self::Text(key) => Ok((key, value)),
            other => Err(Error::typ(other, "object key")),
        };
        meter::step();
        Ok(Self::object(entries.into_iter().map(key).collect::<Result<_>>()?))
    }

    fn key_values(self) -> BoxIter<'static, ValR<(Self, Self), Self>> {
        match self {
            Self::List(items, _) => {
                let length = items.len();
                Box::new((0..length).filter_map(move |at| Some(Ok((Self::from(at), items.get(at)?.clone())))))
            }
            Self::Object(entries, _) => {
                let length = entries.len();
                Box::new((0..length).filter_map(move |at| {
                    let (key, value) = entries.get_index(at)?;
                    Some(Ok((Self::Text(Rc::clone(key)), value.clone())))
                }))
            }
            other => box_once(Err(Error::typ(other, ITERABLE))),
        }
    }

    fn values(self) -> Box<dyn Iterator<Item = ValR<Self>>> {
        match self {
            Self::List(items, _) => Box::new((0..items.len()).filter_map(move |at| Some(Ok(items.get(at)?.clone())))),
            Self::Object(entries, _) => {
                Box::new((0..entries.len()).filter_map(move |at| Some(Ok(entries.get_index(at)?.1.clone()))))
            }
            other => box_once(Err(Error::typ(other, ITERABLE))),
        }
    }

    fn index(self, index: &Self) -> ValR<Self> {
        meter::step();
        match (&self, index) {
            (Self::Null, Self::Text(_) | Self::Int(_) | Self::Float(_) | Self::Null) => Ok(Self::Null),
            (Self::Object(entries, _), Self::Text(key)) => Ok(entries.get(key).cloned().unwrap_or_default()),
            (Self::List(items, _), Self::Int(_) | Self::Float(_)) => {
                let found = position(index, items.len()).and_then(|at| items.get(at));
                Ok(found.cloned().unwrap_or_default())
            }
            (Self::List(..) | Self::Text(_) | Self::Null, Self::Object(ends, _)) => {
                self.clone().range(ends.get("start")..ends.get("end"))
            }
            (Self::List(items, _), Self::List(part, _)) => {
                let windows = items.windows(part.len().max(1)).enumerate();
                let found = windows.filter(|(_, window)| !part.is_empty() && *window == part.as_slice());
                Ok(found.map(|(at, _)| Self::from(at)).collect())
            }
            _ => Err(Error::index(self, index.clone())),
        }
    }

    fn range(self, range: jaq_core::val::Range<&Self>) -> ValR<Self> {
        meter::step();
        match &self {
            Self::Null => Ok(Self::Null),
            Self::List(items, _) => {
                let (from, to) = bounds(&range, items.len())?;
                Ok(items.get(from..to).unwrap_or_default().iter().cloned().collect())
            }
            Self::Text(text) => {
                meter::steps(text.len() / 16);
                let (from, to) = bounds(&range, text.chars().count())?;
                Ok(Self::from(text.chars().skip(from).take(to - from).collect::<String>()))
            }
            _ => Err(Error::typ(self, SLICEABLE)),
        }
    }

    fn map_values<'a, I: Iterator<Item = ValX<'a, Self>>>(self, opt: Opt, f: impl Fn(Self) -> I) -> ValX<'a, Self> {
        match self {
            Self::List(items, _) => items.iter().cloned().flat_map(f).collect(),
            Self::Object(entries, _) => {
                let mapped = entries
                    .iter()
                    .filter_map(|(key, value)| f(value.clone()).next().map(|value| Ok((Rc::clone(key), value?))));
                Ok(Self::object(mapped.collect::<std::result::Result<_, Exn<'a, Self>>>()?))
            }
            other => opt.fail(other, |other| Exn::from(Error::typ(other, ITERABLE))),
        }
    }

    fn map_index<'a, I: Iterator<Item = ValX<'a, Self>>>(
        self,
        index: &Self,
        opt: Opt,
        f: impl Fn(Self) -> I,
    ) -> ValX<'a, Self> {
        meter::step();
        match (self, index) {
            (Self::Null, Self::Text(_)) => Self::object(Entries::new()).map_index(index, opt, f),
            (Self::Null, Self::Int(_)) => Self::list(Vec::new()).map_index(index, opt, f),
            (Self::Object(mut entries, _), Self::Text(key)) => {
                let shared = Rc::strong_count(&entries) > 1;
                let count = if shared { entries.len() } else { 1 };
                meter::steps(count);
                meter::bytes(count * size_of::<Self>());
                let own = Rc::make_mut(&mut entries);
                let before = own.get_mut(key).map(std::mem::take).unwrap_or_default();
                match f(before).next().transpose()? {
                    Some(value) => drop(own.insert(Rc::clone(key), value)),
                    None => drop(own.shift_remove(key)),
                }
                let depth = deeper(entries.values());
                Ok(Self::Object(entries, depth))
            }
            (Self::List(mut items, depth), Self::Int(number)) => {
                let Some(at) = position(index, items.len()).or(usize::try_from(*number).ok()) else {
                    let beyond = || Exn::from(Error::str("an index lies before the first item"));
                    return opt.fail(Self::List(items, depth), |_| beyond());
                };
                let shared = Rc::strong_count(&items) > 1;
                let count = if shared { items.len() } else { 1 };
                // One beyond the end fills what lies between with null.
                let added = at.saturating_add(1).saturating_sub(items.len());
                meter::steps(count);
                meter::bytes(added.saturating_add(count).saturating_mul(size_of::<Self>()));
                let own = Rc::make_mut(&mut items);
                let before = own.get_mut(at).map(std::mem::take).unwrap_or_default();
                match f(before).next().transpose()? {
                    Some(value) => {
                        if at >= own.len() {
                            own.resize_with(at + 1, Self::default);
                        }
                        if let Some(place) = own.get_mut(at) {
                            *place = value;
                        }
                    }
                    None if at < own.len() => drop(own.remove(at)),
                    None => {}
                }
                let depth = deeper(items.iter());
                Ok(Self::List(items, depth))
            }
            (list @ (Self::List(..) | Self::Text(_)), Self::Object(ends, _)) => {
                list.map_range(ends.get("start")..ends.get("end"), opt, f)
            }
            (other, index) => opt.fail(other, |other| Exn::from(Error::index(other, index.clone()))),
        }
    }

    fn map_range<'a, I: Iterator<Item = ValX<'a, Self>>>(
        self,
        range: jaq_core::val::Range<&Self>,
        opt: Opt,
        f: impl Fn(Self) -> I,
    ) -> ValX<'a, Self> {
        let Self::List(items, _) = &self else {
            return opt.fail(self, |other| Exn::from(Error::typ(other, "array")));
        };
        let (from, to) = bounds(&range, items.len())?;
        let middle = items.get(from..to).unwrap_or_default().iter().cloned().collect();
        let middle = match f(middle).next().transpose()? {
            Some(Self::List(middle, _)) => middle,
            Some(other) => return Err(Exn::from(Error::typ(other, "array"))),
            None => Rc::default(),
        };
        let before = items.get(..from).unwrap_or_default().iter();
        let after = items.get(to..).unwrap_or_default().iter();
        Ok(before.chain(middle.iter()).chain(after).cloned().collect())
    }

    fn as_bool(&self) -> bool {
        meter::step();
        !matches!(self, Self::Null | Self::Bool(false))
    }

    fn into_string(self) -> Self {
        match self {
            Self::Text(_) => self,
            other => Self::Text(String::from_utf8_lossy(&other.counted_json()).into()),
        }
    }
}

/// Where an index leads: from the end if it is negative, and without its fraction.
fn position(index: &Val, length: usize) -> Option<usize> {
    let number = match index {
        Val::Int(number) => *number,
        Val::Float(number) if number.is_finite() => number.floor() as i64,
        _ => return None,
    };
    let at = if number < 0 { i64::try_from(length).ok()?.checked_add(number)? } else { number };
    usize::try_from(at).ok().filter(|at| *at < length)
}

/// Where a slice begins and ends, within the length.
fn bounds(range: &Range<Option<&Val>>, length: usize) -> Result<(usize, usize)> {
    let bound = |end: Option<&Val>, missing: usize, round: fn(f64) -> f64| {
        let number = match end {
            None | Some(Val::Null) => return Ok(missing),
            Some(Val::Int(number)) => *number,
            Some(Val::Float(number)) if number.is_finite() => round(*number) as i64,
            Some(other) => return Err(Error::typ(other.clone(), "integer")),
        };
        let end = i64::try_from(length).unwrap_or(i64::MAX);
        let at = if number < 0 { end.saturating_add(number) } else { number };
        Ok(usize::try_from(at.max(0)).unwrap_or(length).min(length))
    };
    let from = bound(range.start, 0, f64::floor)?;
    Ok((from, bound(range.end, length, f64::ceil)?.max(from)))
}

impl jaq_std::ValT for Val {
    fn into_seq<S: FromIterator<Self>>(self) -> std::result::Result<S, Self> {
        match self {
            Self::List(items, _) => Ok(items.iter().cloned().collect()),
            other => Err(other),
        }
    }

    fn is_int(&self) -> bool {
        matches!(self, Self::Int(_))
    }

    fn as_isize(&self) -> Option<isize> {
        match self {
            Self::Int(number) => isize::try_from(*number).ok(),
            _ => None,
        }
    }

    fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Int(_) | Self::Float(_) => Some(float(self)),
            _ => None,
        }
    }

    fn is_utf8_str(&self) -> bool {
        matches!(self, Self::Text(_))
    }

    fn as_bytes(&self) -> Option<&[u8]> {
        // Whoever asks is about to read them all.
        match self {
            Self::Text(text) => {
                meter::steps(1 + text.len() / 64);
                Some(text.as_bytes())
            }
            _ => None,
        }
    }

    fn as_sub_str(&self, part: &[u8]) -> Self {
        Self::text(&String::from_utf8_lossy(part))
    }

    fn from_utf8_bytes(bytes: impl AsRef<[u8]> + Send + 'static) -> Self {
        Self::text(&String::from_utf8_lossy(bytes.as_ref()))
    }
}
