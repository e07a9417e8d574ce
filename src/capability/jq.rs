//! `Jq`: a mapping written in jq, compiled once and evaluated within limits.
//!
//! The language is jaq's, with values of our own, so that each operation, each byte and each level of the stack is counted
//! and a program that goes on for ever ends ([`meter`]). There is no environment, file, clock, further input or log:
//! what would need one is no name that is known.

mod instrument;
mod meter;
mod natives;
mod operations;
mod order;
mod value;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use jaq_core::data::JustLut;
use jaq_core::load::lex::{Lexer, Token};
use jaq_core::load::parse::{Def, Parser};
use jaq_core::load::{Arena, File, Loader};
use jaq_core::{Compiler, Ctx, Filter, Vars};
use serde_json::Value;

pub use meter::Limit;
pub use value::Val;

/// Bytes of a program.
const PROGRAM_MAX: usize = 64 << 10;

/// The variables that a program has.
const VARIABLES: [&str; 5] = ["$path", "$query", "$headers", "$status", "$response_headers"];

type Data = JustLut<Val>;

/// A compiled program. Cheap to clone.
#[derive(Clone)]
pub struct Jq {
    text: Arc<str>,
    filter: Arc<Filter<Data>>,
}

/// Why a text is no program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidJq(String);

/// Why a program gave no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JqError {
    /// It did more than it may.
    #[error("the mapping {0}")]
    Limit(Limit),
    /// It called `error`, or an operation had no meaning. The text may hold values.
    #[error("the mapping failed: {0}")]
    Failed(String),
    /// It gave nothing.
    #[error("the mapping gave no value")]
    Nothing,
}

/// What a program sees besides its input.
#[derive(Debug, Clone, Default)]
pub struct Variables {
    /// `$path`: the path parameters.
    pub path: Value,
    /// `$query`: the query parameters.
    pub query: Value,
    /// `$headers`: the caller's headers that the service may see.
    pub headers: Value,
    /// `$status`: of the answer.
    pub status: Value,
    /// `$response_headers`: of the answer.
    pub response_headers: Value,
}

/// How much a program may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// What is worth doing at once: some milliseconds. Larger work fails with [`Limit::Steps`], and begins anew
    /// elsewhere.
    Brief,
    /// About half a second.
    Full,
}

impl Jq {
    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Evaluates it. Several values become one list.
    pub fn run(&self, input: Val, variables: &Variables, effort: Effort) -> Result<Val, JqError> {
        let steps = match effort {
            Effort::Brief => meter::STEPS_BRIEF,
            Effort::Full => meter::STEPS_FULL,
        };
        self.run_within(steps, input, variables)
    }

    fn run_within(&self, steps: u64, input: Val, variables: &Variables) -> Result<Val, JqError> {
        let Variables { path, query, headers, status, response_headers } = variables;
        let variables = [path, query, headers, status, response_headers].map(Val::from);
        let evaluated = meter::within(steps, || {
            let context = Ctx::<Data>::new(&self.filter.lut, Vars::new(variables));
            let mut outputs = Vec::new();
            for output in self.filter.id.run((context, input)) {
                match output {
                    Ok(value) => outputs.push(value),
                    // Whatever is no error is a `break` without its label, which compiling refuses.
                    Err(exception) => {
                        let message =
                            exception.get_err().map_or_else(|_| "it was stopped".to_owned(), |it| it.to_string());
                        return Err(JqError::Failed(message));
                    }
                }
            }
            match outputs.len() {
                0 => Err(JqError::Nothing),
                1 => outputs.pop().ok_or(JqError::Nothing),
                _ => Ok(outputs.into_iter().collect()),
            }
        });
        evaluated.map_err(JqError::Limit)?
    }
}

impl FromStr for Jq {
    type Err = InvalidJq;

    fn from_str(text: &str) -> Result<Self, InvalidJq> {
        if text.len() > PROGRAM_MAX {
            return Err(InvalidJq(format!("a mapping has at most {PROGRAM_MAX} bytes")));
        }
        let at =
            |place: &str, problem: String| InvalidJq(format!("{problem} in the mapping, at {}", shown(text, place)));
        let tokens = Lexer::new(text).lex().map_err(|errors| {
            errors.first().map_or_else(
                || InvalidJq("the mapping can't be read".to_owned()),
                |(expected, place)| at(place, format!("{} is missing", expected.as_str())),
            )
        })?;
        let mut body = Parser::new(&tokens).parse(Parser::term).map_err(|errors| {
            errors.first().map_or_else(
                || InvalidJq("the mapping can't be read".to_owned()),
                |(expected, found)| at(Token::opt_as_str(*found, text), format!("expected {}", expected.as_str())),
            )
        })?;
        if let Some(name) = instrument::endless_filters(&body) {
            return Err(InvalidJq(format!(
                "`{name}` takes filters and ends by calling itself: write `def {name}(…): def again: …; again;`"
            )));
        }
        instrument::term(&mut body);
        let main = Def { name: instrument::MAIN, args: Vec::new(), body };
        let library = jaq_core::defs().chain(jaq_std::defs()).chain(natives::defs());
        let library = library.filter(|def| !natives::is_withheld(def.name)).map(|def| instrument::def(def, text));
        let arena = Arena::default();
        let call = File { code: instrument::MAIN, path: () };
        let modules = Loader::new(library.chain([main])).load(&arena, call);
        let modules = modules.map_err(|_| InvalidJq("the mapping can't be read".to_owned()))?;
        let compiler = Compiler::default().with_funs(natives::funs()).with_global_vars(VARIABLES);
        let filter = compiler.compile(modules).map_err(|errors| {
            let first = errors.into_iter().flat_map(|(_, errors)| errors).next();
            let message = first.map(|(name, kind)| format!("there is no {} `{name}` in a mapping", kind.as_str()));
            InvalidJq(message.unwrap_or_else(|| "the mapping can't be compiled".to_owned()))
        })?;
        Ok(Self { text: text.into(), filter: Arc::new(filter) })
    }
}

/// The place in the program where a problem is, as its first words.
fn shown(text: &str, place: &str) -> String {
    let words: String = place.chars().take(20).collect();
    if words.is_empty() || text.is_empty() { "its end".to_owned() } else { format!("`{words}`") }
}

impl PartialEq for Jq {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl fmt::Debug for Jq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Jq({:?})", self.text)
    }
}

#[cfg(test)]
mod tests;
