//! Which upstream a name means, in which file.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::part::Entry;
use crate::net::{AddressClass, Origin, Url};
use crate::upstream::Settings;
use crate::yaml::{Node, Problem, Report, nearest};

/// All upstreams of all files.
#[derive(Debug)]
pub(super) struct Upstreams<'d> {
    known: Vec<Known<'d>>,
    /// Of each file, the main one first: what its own agents may name.
    own: Vec<HashMap<&'d str, usize>>,
    /// What the agents of every file may name.
    everywhere: HashMap<&'d str, usize>,
    /// Upstreams that were written as URLs.
    inline: BTreeMap<String, Settings>,
    /// A file could not be read, so that a name may be one of its.
    incomplete: bool,
    /// A name meant nothing, so that an upstream may be unused for no other reason.
    misnamed: bool,
}

#[derive(Debug)]
struct Known<'d> {
    /// Unique among all files.
    key: String,
    node: Node<'d>,
    settings: Option<Settings>,
    used: bool,
}

impl<'d> Upstreams<'d> {
    /// Takes the entries of each file, the main one first.
    pub(super) fn new(files: Vec<Vec<Entry<'d>>>, incomplete: bool, report: &Report<'d>) -> Self {
        let (own, everywhere) = (Vec::with_capacity(files.len()), HashMap::new());
        let mut all = Self { known: Vec::new(), own, everywhere, inline: BTreeMap::new(), incomplete, misnamed: false };
        for (file, entries) in files.into_iter().enumerate() {
            let mut own = HashMap::with_capacity(entries.len());
            for Entry { name, node, settings } in entries {
                let index = all.known.len();
                let shared = file == 0 || settings.as_ref().is_some_and(|settings| settings.shared);
                let key = if shared { name.to_owned() } else { format!("{}:{name}", node.document().name()) };
                let settings = settings.map(|settings| Settings { name: key.clone(), ..settings });
                if let Some(settings) = &settings {
                    let servers = settings.servers.iter().map(|server| &server.url.origin);
                    for origin in servers.chain([&settings.url.origin]) {
                        let place = node.get("url").or(node.get("servers")).unwrap_or(node);
                        forbid_metadata(origin, place, report);
                    }
                }
                own.insert(name, index);
                if shared
                    && let Some(earlier) = all.everywhere.insert(name, index).and_then(|index| all.known.get(index))
                {
                    let problem =
                        Problem::error(node, format!("another upstream `{name}` is known to every file")).at_key();
                    report.add(problem.help(format!("the other is at {}; rename one of them", place(earlier.node))));
                }
                all.known.push(Known { key, node, settings, used: false });
            }
            all.own.push(own);
        }
        all
    }

    /// The key of what a name or URL of a file means. What means nothing is reported at `node`.
    pub(super) fn resolve(&mut self, text: &str, file: usize, node: Node<'d>, report: &Report<'d>) -> Option<String> {
        if text.contains("://") {
            return self.inline(text, node, report);
        }
        if let Some(known) = self.index(text, file).and_then(|index| self.known.get_mut(index)) {
            known.used = true;
            return Some(known.key.clone());
        }
        if !self.incomplete {
            report.add(self.unknown(text, file, node));
            self.misnamed = true;
        }
        None
    }

    /// Takes a service that is written nowhere by itself, under this key.
    pub(super) fn add(&mut self, key: &str, url: Url, node: Node<'d>, report: &Report<'d>) {
        if !self.inline.contains_key(key) {
            forbid_metadata(&url.origin, node, report);
            self.inline.insert(key.to_owned(), Settings::at(key, url));
        }
    }

    /// The key of what a name means that is known already.
    pub(super) fn key(&self, name: &str, file: usize) -> Option<String> {
        self.known.get(self.index(name, file)?).map(|known| known.key.clone())
    }

    /// The path in front of every request to what a name or URL of a file means; `None` where it means nothing.
    pub(super) fn prefix(&self, text: &str, file: usize) -> Option<String> {
        if text.contains("://") {
            return Some(text.parse::<Url>().ok()?.prefix.into());
        }
        Some(self.known.get(self.index(text, file)?)?.settings.as_ref()?.url.prefix.to_string())
    }

    /// Which of all a name of a file means: its own before those of every file.
    fn index(&self, name: &str, file: usize) -> Option<usize> {
        self.own.get(file).and_then(|own| own.get(name)).or(self.everywhere.get(name)).copied()
    }

    /// Reports an `api_key` that goes nowhere: no talk through the upstream is among those that send one.
    pub(super) fn check_api_keys(&self, sent: &HashSet<String>, report: &Report<'d>) {
        for known in self.known.iter().filter(|known| known.used && !sent.contains(&known.key)) {
            if let Some(node) = known.node.get("api_key") {
                let problem =
                    Problem::error(node, "`api_key` does nothing here: no talk through this upstream sends one");
                report.add(problem.at_key().help("write `bearer`, or a header under `headers`"));
            }
        }
    }

    /// All upstreams that could be read, by key. Those that nothing uses are reported.
    pub(super) fn finish(self, report: &Report<'d>) -> BTreeMap<String, Settings> {
        let mut all = self.inline;
        for known in self.known {
            if !known.used && !self.misnamed {
                let name = known.node.key().unwrap_or_default();
                report.add(Problem::warning(known.node, format!("nothing uses the upstream `{name}`")).at_key());
            }
            all.extend(known.settings.map(|settings| (known.key, settings)));
        }
        all
    }

    fn inline(&mut self, text: &str, node: Node<'d>, report: &Report<'d>) -> Option<String> {
        // The text as it is written: a variable in it may be a credential, and keys stand in logs.
        let key = node.written();
        if !self.inline.contains_key(key) {
            match text.parse::<Url>() {
                Ok(url) => {
                    forbid_metadata(&url.origin, node, report);
                    self.inline.insert(key.to_owned(), Settings::at(key, url));
                }
                Err(error) => {
                    report
                        .add(Problem::error(node, error.to_string()).help("write a URL such as http://127.0.0.1:9000"));
                    return None;
                }
            }
        }
        Some(key.to_owned())
    }

    fn unknown(&self, text: &str, file: usize, node: Node<'d>) -> Problem<'d> {
        let problem = Problem::error(node, format!("there is no upstream `{}`", node.written()));
        let private = self.own.iter().find_map(|own| own.get(text)).and_then(|index| self.known.get(*index));
        if let Some(private) = private {
            return problem
                .help(format!("the one at {} is private to its file: add `shared: true` to it", place(private.node)));
        }
        let own = self.own.get(file).into_iter().flat_map(HashMap::keys);
        match nearest(text, own.chain(self.everywhere.keys()).copied()) {
            Some(name) => problem.help(format!("did you mean `{name}`?")),
            None if text.contains([':', '/']) || text.starts_with("localhost") => {
                problem.help(format!("a URL begins with http:// or https://, such as http://{}", node.written()))
            }
            None => problem.help("add it to `upstreams`, or write a URL"),
        }
    }
}

/// Reports a service that is where a cloud hands out its machines' credentials: it would never be called.
pub(super) fn forbid_metadata<'d>(origin: &Origin, node: Node<'d>, report: &Report<'d>) {
    if let Some(address) = origin.address().filter(|address| AddressClass::of(*address) == AddressClass::Metadata) {
        let message = format!("{address} is where clouds keep their machines' credentials, and is never called");
        report.add(Problem::error(node, message).help("name the service by another address"));
    }
}

/// `FILE:LINE:COLUMN` of a node's key.
pub(super) fn place(node: Node<'_>) -> String {
    let span = node.key_span();
    format!("{}:{}:{}", node.document().name(), span.line, span.column)
}
