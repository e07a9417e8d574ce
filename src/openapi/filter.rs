//! `Filter`: which operations of a document are wanted.

use glob::{MatchOptions, Pattern};

/// Which operations of a document are wanted. An empty list of what is wanted is no restriction.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    include: Vec<Pattern>,
    exclude: Vec<Pattern>,
    paths: Vec<Pattern>,
    exclude_paths: Vec<Pattern>,
    tags: Vec<String>,
    exclude_tags: Vec<String>,
    methods: Vec<String>,
}

/// A pattern that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{pattern:?} is no pattern: {problem}; `*` stands for anything, `?` for one character")]
pub struct InvalidGlob {
    pattern: String,
    problem: &'static str,
}

impl Filter {
    /// Patterns of ids, such as `pet.*`, to take and to leave out.
    pub fn ids(mut self, include: &[String], exclude: &[String]) -> Result<Self, InvalidGlob> {
        self.include.extend(globs(include)?);
        self.exclude.extend(globs(exclude)?);
        Ok(self)
    }

    /// Patterns of paths as in the document, to take and to leave out: `*` stays within a segment, `**` does not.
    pub fn paths(mut self, include: &[String], exclude: &[String]) -> Result<Self, InvalidGlob> {
        self.paths.extend(globs(include)?);
        self.exclude_paths.extend(globs(exclude)?);
        Ok(self)
    }

    /// Tags to take and to leave out, in whatever case.
    pub fn tags(mut self, include: &[String], exclude: &[String]) -> Self {
        self.tags.extend(include.iter().map(|tag| tag.to_lowercase()));
        self.exclude_tags.extend(exclude.iter().map(|tag| tag.to_lowercase()));
        self
    }

    /// Methods as in the document, in whatever case.
    pub fn methods(mut self, methods: &[String]) -> Self {
        self.methods.extend(methods.iter().map(|method| method.to_ascii_uppercase()));
        self
    }

    pub(super) fn wants_id(&self, id: &str) -> bool {
        let any = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(id));
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }

    pub(super) fn wants(&self, method: &str, path: &str, tags: &[&str]) -> bool {
        let options = MatchOptions { require_literal_separator: true, ..MatchOptions::default() };
        let any = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches_with(path, options));
        let tagged = |wanted: &[String]| tags.iter().any(|tag| wanted.contains(&tag.to_lowercase()));
        (self.paths.is_empty() || any(&self.paths))
            && !any(&self.exclude_paths)
            && (self.tags.is_empty() || tagged(&self.tags))
            && !tagged(&self.exclude_tags)
            && (self.methods.is_empty() || self.methods.iter().any(|wanted| wanted == method))
    }
}

fn globs(patterns: &[String]) -> Result<Vec<Pattern>, InvalidGlob> {
    let parse = |pattern: &String| {
        Pattern::new(pattern).map_err(|error| InvalidGlob { pattern: pattern.clone(), problem: error.msg })
    };
    patterns.iter().map(parse).collect()
}
