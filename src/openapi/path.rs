//! `Place`: where an operation is on the service, and where its agent answers for it.

use super::id::slug;
use crate::restap::RESERVED_PATHS;

/// What a key under `paths` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The path template without query and fragment, with its leading slash.
    pub path: String,
    /// Names of its templates.
    pub names: Vec<String>,
    /// `a=b` behind a `?` in the key.
    pub fixed: Vec<(String, String)>,
    /// `a={name}` behind a `?`: the query parameter and the name of its template.
    pub asked: Vec<(String, String)>,
    /// What tells it from another with the same path: behind a `?` or a `#`.
    pub suffix: Option<String>,
    /// It had a fragment, which no request can carry.
    pub fragment: bool,
    /// It began without a slash.
    pub rootless: bool,
}

impl Place {
    /// Reads a key; an error is a sentence.
    pub(super) fn read(key: &str) -> Result<Self, String> {
        let (before, fragment) = key.split_once('#').map_or((key, None), |(before, after)| (before, Some(after)));
        let (path, query) = before.split_once('?').map_or((before, None), |(path, query)| (path, Some(query)));
        let rootless = !path.starts_with('/');
        let path = if rootless { format!("/{path}") } else { path.to_owned() };
        if path.chars().any(|c| c.is_control() || c == '\\') || path.len() > 2_000 {
            return Err("the path holds characters that no request can carry".to_owned());
        }
        if path.split('/').any(|segment| matches!(segment, "." | "..")) {
            return Err("the path has a `.` or `..` segment".to_owned());
        }
        let names = names(&path)?;
        let (mut fixed, mut asked) = (Vec::new(), Vec::new());
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decoded = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
            match value.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
                Some(template) => asked.push((decoded(name), template.to_owned())),
                None => fixed.push((decoded(name), decoded(value))),
            }
        }
        let suffix = fragment.or(query).map(slug);
        Ok(Self { path, names, fixed, asked, suffix, fragment: fragment.is_some(), rootless })
    }

    /// The path under the agent's base: the prefix in front, and what tells it apart behind.
    pub(super) fn endpoint(&self, prefix: &str, with_suffix: bool, patch: bool) -> String {
        let suffix = self.suffix.as_deref().filter(|_| with_suffix).map(|suffix| format!(":{suffix}"));
        let patch = if patch { ":patch" } else { "" };
        format!("{prefix}{}{}{patch}", self.path, suffix.unwrap_or_default())
    }
}

/// Why an agent does not answer at this path for others, if it does not.
pub(super) fn reserved(endpoint: &str) -> Option<String> {
    let first = endpoint.strip_prefix('/').unwrap_or(endpoint).split('/').next().unwrap_or_default();
    let decoded = percent_encoding::percent_decode_str(first).decode_utf8_lossy();
    (first.is_empty() || RESERVED_PATHS.contains(&&*decoded)).then(|| format!("every agent answers `/{first}` itself"))
}

/// A path with the names of its templates left out: two of one shape answer the same requests.
pub(super) fn shape(endpoint: &str) -> String {
    let mut shape = String::with_capacity(endpoint.len());
    let mut inside = false;
    for c in endpoint.chars() {
        match c {
            '{' => {
                inside = true;
                shape.push_str("{}");
            }
            '}' => inside = false,
            _ if inside => {}
            c => shape.push(c),
        }
    }
    shape
}

fn names(path: &str) -> Result<Vec<String>, String> {
    let mut names: Vec<String> = Vec::new();
    let mut rest = path;
    while let Some(at) = rest.find(['{', '}']) {
        let (_, braced) = rest.split_at(at);
        let inner = braced.strip_prefix('{').ok_or("a `}` in the path has no `{` before it")?;
        let (name, after) = inner.split_once('}').ok_or("a `{` in the path is not closed")?;
        if name.is_empty() || name.contains(['{', '/']) {
            return Err("a template in the path has no proper name".to_owned());
        }
        if after.starts_with('{') {
            return Err("two templates in the path have nothing between them".to_owned());
        }
        if names.iter().any(|known| known == name) {
            return Err(format!("`{{{name}}}` stands in the path twice"));
        }
        names.push(name.to_owned());
        rest = after;
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_and_fragment_of_a_key_become_what_they_mean() {
        let place = Place::read("/bulk?city={city}&units=m").unwrap();
        assert_eq!(
            (place.path.as_str(), place.asked, place.fixed),
            ("/bulk", vec![("city".into(), "city".into())], vec![("units".into(), "m".into())])
        );
        let place = Place::read("/#Action=Run").unwrap();
        assert_eq!(place.endpoint("", true, false), "/:action_run");
        assert_eq!(Place::read("no-slash").unwrap().path, "/no-slash");
        assert_eq!(Place::read("/r/{id}").unwrap().endpoint("/api", false, true), "/api/r/{id}:patch");
        for broken in ["/a/{", "/a/}", "/a/{}", "/{a}{b}", "/{a}/{a}", "/a/../b", "/a\r\nb"] {
            assert!(Place::read(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn what_an_agent_answers_itself_is_known() {
        for path in ["/", "/talk", "/news/x", "/.well-known/a", "/query/1", "/health", "/%74alk", ""] {
            assert!(reserved(path).is_some(), "{path}");
        }
        for path in ["/talks", "/a/talk", "/newsletter", "/:action_run"] {
            assert!(reserved(path).is_none(), "{path}");
        }
        assert_eq!(shape("/users/{id}.json"), shape("/users/{name}.json"));
    }
}
