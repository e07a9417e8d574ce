//! A step in front of every definition, so that no recursion goes by uncounted.

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Def, Pattern, Term};
use jaq_core::path::{Part, Path};

/// The name that the program itself is called by, and that of the native which counts.
pub(super) const MAIN: &str = "restap_mapping";
pub(super) const STEP: &str = "restap_step";

type Parsed<'s> = Term<&'s str>;

/// A definition that counts, to stand beside those of a text.
pub(super) fn def<'s>(def: Def<&'static str>, _: &'s str) -> Def<&'s str> {
    let mut def: Def<&'s str> = def;
    instrument(&mut def);
    def
}

fn instrument(def: &mut Def<&str>) {
    term(&mut def.body);
    let body = std::mem::take(&mut def.body);
    let step = Term::Call(STEP, Vec::new());
    def.body = Term::BinOp(Box::new(step), BinaryOp::Pipe(None), Box::new(body));
}

/// A definition that takes filters and ends by calling itself. Each call would hold all filters before it, so that what
/// it leaves behind grows without the stack growing; the same can be written with an inner definition that takes none.
pub(super) fn endless_filters<'s>(it: &Parsed<'s>) -> Option<&'s str> {
    at_end(it, &mut Vec::new())
}

/// What stands at the end of a term within these definitions, each with its number of parameters, if it takes filters.
fn at_end<'s>(it: &Parsed<'s>, within: &mut Vec<(&'s str, usize, bool)>) -> Option<&'s str> {
    match it {
        Term::Call(name, arguments) => {
            let called = within.iter().rev().find(|(known, arity, _)| known == name && *arity == arguments.len());
            called.filter(|(_, _, takes_filters)| *takes_filters).map(|_| *name)
        }
        Term::BinOp(left, BinaryOp::Comma | BinaryOp::Alt, right) => {
            at_end(left, within).or_else(|| at_end(right, within))
        }
        Term::BinOp(_, _, right) => at_end(right, within),
        Term::Label(_, inner) | Term::Neg(inner) => at_end(inner, within),
        Term::TryCatch(inner, handler) => {
            at_end(inner, within).or_else(|| handler.as_ref().and_then(|handler| at_end(handler, within)))
        }
        Term::IfThenElse(branches, otherwise) => {
            let then = branches.iter().find_map(|(_, then)| at_end(then, within));
            then.or_else(|| otherwise.as_ref().and_then(|otherwise| at_end(otherwise, within)))
        }
        Term::Fold(_, _, _, terms) => terms.iter().find_map(|inner| at_end(inner, within)),
        Term::Def(defs, inner) => {
            let of_defs = defs.iter().find_map(|def| {
                let takes_filters = def.args.iter().any(|argument| !argument.starts_with('$'));
                within.push((def.name, def.args.len(), takes_filters));
                let found = at_end(&def.body, within);
                within.pop();
                found
            });
            of_defs.or_else(|| at_end(inner, within))
        }
        _ => None,
    }
}

/// Definitions within a term.
pub(super) fn term(it: &mut Parsed<'_>) {
    match it {
        Term::Id | Term::Recurse | Term::Num(_) | Term::Break(_) | Term::Var(_) => {}
        Term::Str(_, parts) => {
            for part in parts {
                if let StrPart::Term(inner) = part {
                    term(inner);
                }
            }
        }
        Term::Arr(inner) => inner.iter_mut().for_each(|inner| term(inner)),
        Term::Obj(entries) => {
            for (key, value) in entries {
                term(key);
                value.iter_mut().for_each(term);
            }
        }
        Term::Neg(inner) | Term::Label(_, inner) => term(inner),
        Term::BinOp(left, operation, right) => {
            term(left);
            if let BinaryOp::Pipe(Some(pattern)) = operation {
                in_pattern(pattern);
            }
            term(right);
        }
        Term::Fold(_, source, pattern, terms) => {
            term(source);
            in_pattern(pattern);
            terms.iter_mut().for_each(term);
        }
        Term::TryCatch(inner, handler) => {
            term(inner);
            if let Some(handler) = handler {
                term(handler);
            }
        }
        Term::IfThenElse(branches, otherwise) => {
            for (condition, then) in branches {
                term(condition);
                term(then);
            }
            if let Some(otherwise) = otherwise {
                term(otherwise);
            }
        }
        Term::Def(defs, inner) => {
            defs.iter_mut().for_each(instrument);
            term(inner);
        }
        Term::Call(_, arguments) => arguments.iter_mut().for_each(term),
        Term::Path(inner, Path(parts)) => {
            term(inner);
            for (part, _) in parts {
                match part {
                    Part::Index(index) => term(index),
                    Part::Range(from, to) => from.iter_mut().chain(to).for_each(term),
                }
            }
        }
    }
}

fn in_pattern(pattern: &mut Pattern<&str>) {
    match pattern {
        Pattern::Var(_) => {}
        Pattern::Arr(patterns) => patterns.iter_mut().for_each(in_pattern),
        Pattern::Obj(entries) => {
            for (key, pattern) in entries {
                term(key);
                in_pattern(pattern);
            }
        }
    }
}
