//! `Location`: where a document is, and where what it refers to is.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use percent_encoding::percent_decode_str;

/// Where a document is. A file's path is relative to the folder of the first document, and never leaves it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Location {
    /// Below the folder of the first document.
    File(PathBuf),
    /// `http://` or `https://`, without a fragment.
    Url(String),
}

impl Location {
    /// What a reference without its fragment leads to, or why it leads nowhere.
    pub(super) fn join(&self, reference: &str) -> Result<Self, String> {
        if let Some(scheme) = scheme(reference) {
            return match scheme.to_ascii_lowercase().as_str() {
                "http" | "https" => Ok(Self::Url(reference.to_owned())),
                other => Err(format!("references by `{other}:` are not followed")),
            };
        }
        match self {
            Self::File(from) => beside(from, reference).map(Self::File),
            Self::Url(from) => Ok(Self::Url(join_url(from, reference))),
        }
    }

    /// Whether it is in the folder that this URL is in, or below.
    pub(super) fn is_below(&self, root: &Self) -> bool {
        match (self, root) {
            (Self::File(_), _) => true,
            (Self::Url(url), Self::Url(root)) => {
                let folder = root.split(['?', '#']).next().unwrap_or_default();
                let folder = folder.rsplit_once('/').map_or(folder, |(folder, _)| folder);
                let below = url.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'));
                // What a server takes for a step up is one, however it is written.
                below.is_some_and(|rest| !rest.to_ascii_lowercase().replace("%2e", ".").split('/').any(|it| it == ".."))
            }
            (Self::Url(_), Self::File(_)) => false,
        }
    }

    /// Its last part without an extension.
    pub fn stem(&self) -> String {
        let name = match self {
            Self::File(path) => path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            Self::Url(url) => {
                let path = url.split(['?', '#']).next().unwrap_or_default();
                path.rsplit('/').next().unwrap_or_default().to_owned()
            }
        };
        name.split_once('.').map_or(name.clone(), |(stem, _)| stem.to_owned())
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Url(url) => f.write_str(url),
        }
    }
}

/// `http` of `http://host`; a Windows drive is none.
fn scheme(reference: &str) -> Option<&str> {
    let (scheme, _) = reference.split_once(':')?;
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'.' | b'-');
    (scheme.len() > 1 && scheme.bytes().all(legal) && scheme.starts_with(|first: char| first.is_ascii_alphabetic()))
        .then_some(scheme)
}

fn beside(from: &Path, reference: &str) -> Result<PathBuf, String> {
    const OUTSIDE: &str = "it leads out of the folder of the first document, and files elsewhere are not read";
    let decoded = percent_decode_str(reference).decode_utf8().map_err(|_| "its name is no text".to_owned())?;
    let decoded = decoded.split('?').next().unwrap_or_default();
    if decoded.contains('\0') || decoded.contains('\\') {
        return Err("its name is no path".to_owned());
    }
    let mut path: PathBuf = from.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(decoded).components() {
        match part {
            Component::Normal(part) => path.push(part),
            Component::CurDir => {}
            Component::ParentDir if path.pop() => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return Err(OUTSIDE.to_owned()),
        }
    }
    Ok(path)
}

/// Reference resolution of RFC 3986 5.2, for what stands in `$ref` and `servers`.
pub(super) fn join_url(from: &str, reference: &str) -> String {
    let Some((scheme, rest)) = from.split_once("://") else { return reference.to_owned() };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = rest.split_once('/').map_or((rest, ""), |(authority, path)| (authority, path));
    if let Some(authority_and_path) = reference.strip_prefix("//") {
        return format!("{scheme}://{authority_and_path}");
    }
    let (reference, query) = reference.split_once('?').map_or((reference, None), |(path, query)| (path, Some(query)));
    let joined = match reference.strip_prefix('/') {
        Some(absolute) => absolute.to_owned(),
        None if reference.is_empty() => path.to_owned(),
        None => {
            format!("{}{reference}", path.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/")))
        }
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in joined.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    format!("{scheme}://{authority}/{}{query}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(from: &str, reference: &str) -> Result<String, String> {
        Location::File(from.into()).join(reference).map(|location| location.to_string())
    }

    #[test]
    fn a_file_is_found_beside_the_one_that_names_it_and_never_outside_of_the_folder() {
        assert_eq!(file("api.yaml", "paths/a.yaml").unwrap(), "paths/a.yaml");
        assert_eq!(file("paths/a.yaml", "../schemas/b%20c.yaml").unwrap(), "schemas/b c.yaml");
        for outside in
            ["../x.yaml", "a/../../x", "/etc/passwd", "file:///etc/passwd", "ftp://h/x", "..%2f..%2fetc", "a\\b"]
        {
            assert!(file("api.yaml", outside).is_err(), "{outside}");
        }
    }

    #[test]
    fn a_url_is_joined_as_the_rfc_says() {
        let joined = |reference: &str| join_url("http://h:1/a/b.json?x=1", reference);
        assert_eq!(joined("c.json"), "http://h:1/a/c.json");
        assert_eq!(joined("../c.json"), "http://h:1/c.json");
        assert_eq!(joined("../../../c.json"), "http://h:1/c.json");
        assert_eq!(joined("/v1"), "http://h:1/v1");
        assert_eq!(joined("//other/v1"), "http://other/v1");
        assert_eq!(join_url("http://h", "v1"), "http://h/v1");
    }

    #[test]
    fn what_is_below_a_url_is_known_by_its_path() {
        let root = Location::Url("http://h/docs/api.json".into());
        let below = |url: &str| Location::Url(url.into()).is_below(&root);
        assert!(below("http://h/docs/x.json") && below("http://h/docs/a/x.json"));
        for outside in
            ["http://h/x.json", "http://h:80/docs/x", "http://h/docs/%2e%2E/x", "http://h/docsx", "https://h/docs/x"]
        {
            assert!(!below(outside), "{outside}");
        }
    }
}
