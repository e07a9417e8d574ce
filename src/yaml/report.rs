//! `Report`: every problem that reading finds, so that none stops the reading.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::PathBuf;

use super::document::{Document, Kind, Node, Span};
use super::{Diagnostic, Severity, excerpt};

/// What reading finds out beside the values.
#[derive(Debug, Default)]
pub struct Report<'d> {
    problems: RefCell<Vec<Problem<'d>>>,
    hidden: RefCell<Vec<Node<'d>>>,
    credentials: RefCell<Vec<Credential<'d>>>,
    secrets: RefCell<Vec<Credential<'d>>>,
    files: RefCell<Vec<PathBuf>>,
}

/// A problem and the node that it is about.
#[derive(Debug, Clone)]
pub struct Problem<'d> {
    node: Node<'d>,
    part: Part,
    severity: Severity,
    message: String,
    help: Option<String>,
}

/// A credential.
#[derive(Debug, Clone)]
pub struct Credential<'d> {
    /// Where it was asked for.
    pub node: Node<'d>,
    /// The credential.
    pub value: super::Secret,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Key,
    Value,
}

impl<'d> Problem<'d> {
    /// Something about a value that keeps the file from being used.
    pub fn error(node: Node<'d>, message: impl Into<String>) -> Self {
        Self { node, part: Part::Value, severity: Severity::Error, message: message.into(), help: None }
    }

    /// Something about a value that the operator should look at.
    pub fn warning(node: Node<'d>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(node, message) }
    }

    /// The key is what is wrong, not its value.
    pub fn at_key(self) -> Self {
        Self { part: Part::Key, ..self }
    }

    /// What to write instead.
    pub fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    fn span(&self) -> Span {
        match self.part {
            Part::Key => self.node.key_span(),
            Part::Value => self.node.span(),
        }
    }
}

impl<'d> Report<'d> {
    /// A report of a document, which begins with what is wrong with its text.
    pub fn open(&self, document: &'d Document) {
        for (node, fault) in document.faults() {
            let problem = Problem::error(node, fault.message.clone()).help(fault.help.clone());
            if fault.key {
                self.hide(node);
            }
            self.add(if fault.key { problem.at_key() } else { problem });
        }
    }

    /// Takes note of a problem.
    pub fn add(&self, problem: Problem<'d>) {
        self.problems.borrow_mut().push(problem);
    }

    /// Keeps what a node holds, in whatever shape, out of every excerpt.
    pub fn hide(&self, node: Node<'d>) {
        self.hidden.borrow_mut().push(node);
    }

    /// Takes note of a credential that did not stand in the file itself.
    pub fn credential(&self, credential: Credential<'d>) {
        self.credentials.borrow_mut().push(credential);
    }

    /// Takes note of a credential, wherever it came from.
    pub fn secret(&self, credential: Credential<'d>) {
        self.secrets.borrow_mut().push(credential);
    }

    /// All credentials.
    pub fn secrets(&self) -> Vec<Credential<'d>> {
        self.secrets.borrow().clone()
    }

    /// All credentials that did not stand in the file itself.
    pub fn credentials(&self) -> Vec<Credential<'d>> {
        self.credentials.borrow().clone()
    }

    /// Takes note of a file whose content is part of what is read.
    pub fn file(&self, path: PathBuf) {
        self.files.borrow_mut().push(path);
    }

    /// The files whose content was part of what was read.
    pub fn files(&self) -> Vec<PathBuf> {
        self.files.borrow().clone()
    }

    /// All problems, in the order of `documents` and of the lines in them.
    pub fn into_diagnostics(self, documents: &'d [Document]) -> Vec<Diagnostic> {
        let order: HashMap<*const Document, usize> =
            documents.iter().enumerate().map(|(index, document)| (std::ptr::from_ref(document), index)).collect();
        let order = |node: Node<'d>| order.get(&std::ptr::from_ref(node.document())).copied().unwrap_or(usize::MAX);
        let mut hidden: HashMap<usize, Vec<Range<usize>>> = HashMap::new();
        for node in self.hidden.into_inner() {
            scalars(node, &mut |scalar| {
                if !is_one_variable(scalar) {
                    let Span { offset, length, .. } = scalar.span();
                    hidden.entry(order(scalar)).or_default().push(offset..offset + length);
                }
            });
        }
        for ranges in hidden.values_mut() {
            ranges.sort_by_key(|range| range.start);
        }
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| (order(problem.node), problem.span().line, problem.span().column));
        // What an alias repeats is wrong as often as it is repeated, and is told once.
        let mut told = HashSet::with_capacity(problems.len());
        problems.retain(|problem| told.insert((order(problem.node), problem.span().offset, problem.message.clone())));
        let hidden_in = |node: Node<'d>| hidden.get(&order(node)).map_or(&[][..], Vec::as_slice);
        problems.into_iter().map(|problem| problem.diagnose(&hidden_in)).collect()
    }
}

impl<'d> Problem<'d> {
    fn diagnose<'h>(self, hidden: &impl Fn(Node<'d>) -> &'h [Range<usize>]) -> Diagnostic {
        let (document, span) = (self.node.document(), self.span());
        Diagnostic {
            file: document.name().to_owned(),
            line: span.line.max(1),
            column: span.column.max(1),
            path: self.node.path(),
            severity: self.severity,
            excerpt: excerpt::of(document.text(), span, hidden(self.node)),
            message: self.message,
            suggestion: self.help,
        }
    }
}

/// Visits every scalar of a tree.
fn scalars<'d>(node: Node<'d>, visit: &mut impl FnMut(Node<'d>)) {
    match node.kind() {
        Kind::List | Kind::Mapping => node.children().for_each(|child| scalars(child, visit)),
        _ => visit(node),
    }
}

/// `${NAME}` alone says nothing of the value; it helps to see it.
fn is_one_variable(scalar: Node<'_>) -> bool {
    let inside = scalar.written().strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    inside.is_some_and(|name| !name.contains(['}', ':']))
}
