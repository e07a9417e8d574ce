//! `Table`: all capabilities of one agent, found by path and method.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use http::{HeaderValue, Method};

use super::entry::{Capability, CapabilityError};
use super::params::Params;
use super::path::{InvalidPath, NormalPath};
use super::pattern::Pattern;
use super::template::Template;
use super::trie::{Search, Trie};

/// Capabilities up to which all schemas are compiled when the table is made, so that a broken one is found at load. In
/// a larger catalog each is compiled when it is first needed: thousands take seconds, and few of them are asked for.
const COMPILED_AT_ONCE_MAX: usize = 200;

/// Capabilities by what they answer. Made once, searched in time that does not grow with their number.
#[derive(Debug)]
pub struct Table {
    capabilities: Box<[Arc<Capability>]>,
    by_id: HashMap<Box<str>, usize>,
    endpoints: Trie<usize>,
    /// By upstream: which endpoint a path of the service belongs to.
    routes: HashMap<Box<str>, Trie<Way>>,
}

/// What a request names.
#[derive(Debug)]
pub enum Found<'t> {
    /// A capability, and what the path says for its templates.
    Capability(&'t Arc<Capability>, Params),
    /// The path is known, with other methods: 405 `method_not_allowed`.
    MethodNotAllowed(Allow),
    /// Nothing is at this path: 404 `not_found`.
    NotFound,
    /// A value in the path is not taken: 400 `invalid_path`.
    InvalidPath(InvalidPath),
}

/// The methods of a path, as `Allow` has them; with `HEAD` where there is `GET`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allow {
    methods: Vec<Method>,
}

/// The way back from a route's path to the endpoint.
#[derive(Debug)]
struct Way {
    names: Arc<[Box<str>]>,
    endpoint: Template,
}

impl Table {
    /// Puts capabilities in their places. Each problem comes with the number of the capability that has it.
    pub fn new(capabilities: Vec<Capability>) -> Result<Self, Vec<(usize, CapabilityError)>> {
        let capabilities: Box<[_]> = capabilities.into_iter().map(Arc::new).collect();
        let mut problems = Vec::new();
        let mut by_id = HashMap::new();
        let mut endpoints = Trie::default();
        for (number, capability) in capabilities.iter().enumerate() {
            match by_id.entry(Box::from(capability.id())) {
                Entry::Vacant(entry) => drop(entry.insert(number)),
                Entry::Occupied(_) => problems.push((number, CapabilityError::SameId(capability.id().to_owned()))),
            }
            let place: &mut Vec<usize> = endpoints.place(capability.endpoint());
            let method = &capability.settings().method;
            let others = place.iter().filter_map(|other| capabilities.get(*other));
            match others.into_iter().find(|other| other.settings().method == *method) {
                None => place.push(number),
                Some(other) => {
                    let error = CapabilityError::SameEndpoint {
                        other: other.id().to_owned(),
                        method: method.clone(),
                        endpoint: other.endpoint().as_str().to_owned(),
                    };
                    problems.push((number, error));
                }
            }
        }
        if capabilities.len() <= COMPILED_AT_ONCE_MAX {
            for (number, capability) in capabilities.iter().enumerate() {
                let broken = capability.validation().compile().err().unwrap_or_default();
                problems.extend(broken.into_iter().map(|schema| (number, CapabilityError::Schema(schema))));
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let routes = ways_back(&capabilities);
        Ok(Self { capabilities, by_id, endpoints, routes })
    }

    /// What a request names. `path` is the path under the agent's base.
    ///
    /// The most specific endpoint that has the method answers, whatever the order of declaration: at each segment a
    /// literal comes before literals with templates, those before a template, that before a tail. `HEAD` goes where
    /// `GET` does.
    pub fn find(&self, path: &NormalPath, method: &Method) -> Found<'_> {
        let mut found = None;
        let mut allow = Allow::default();
        let mut refused = None;
        self.endpoints.search(path, |place, captured| {
            let here = place.iter().filter_map(|number| self.capabilities.get(*number));
            for capability in here {
                let params = Params::check(capability.endpoint().shared_names(), capability.allow_slash(), captured);
                match params {
                    Err(error) => refused = refused.or(Some(error)),
                    Ok(params) if takes(capability, method) => {
                        found = Some((capability, params));
                        return Search::Done;
                    }
                    Ok(_) => allow.add(&capability.settings().method),
                }
            }
            Search::On
        });
        match (found, refused) {
            (Some((capability, params)), _) => Found::Capability(capability, params),
            (None, Some(error)) => Found::InvalidPath(error),
            (None, None) if !allow.methods.is_empty() => Found::MethodNotAllowed(allow),
            (None, None) if path.has_encoded_slash() => Found::InvalidPath(InvalidPath::EncodedSlash),
            (None, None) => Found::NotFound,
        }
    }

    /// The capability with this id.
    pub fn get(&self, id: &str) -> Option<&Arc<Capability>> {
        self.capabilities.get(*self.by_id.get(id)?)
    }

    /// All capabilities, in the order of the file.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Capability>> {
        self.capabilities.iter()
    }

    /// The address, relative to the agent's base, that leads to this path of an upstream.
    pub(super) fn endpoint_of(&self, upstream: &str, path: &NormalPath) -> Option<String> {
        let mut endpoint = None;
        self.routes.get(upstream)?.search(path, |ways, captured| {
            let lead = |way: &Way| {
                let any = vec![true; way.names.len()];
                let params = Params::check(Arc::clone(&way.names), &any, captured).ok()?;
                Some(way.endpoint.to_path(&params, &[]))
            };
            endpoint = ways.iter().find_map(lead);
            if endpoint.is_some() { Search::Done } else { Search::On }
        });
        endpoint
    }
}

/// The way back exists where the route's path is a pattern that names every parameter of the endpoint. Where several
/// capabilities ask one path of the service, that of a `GET` comes first.
fn ways_back(capabilities: &[Arc<Capability>]) -> HashMap<Box<str>, Trie<Way>> {
    let is_get = |capability: &&Arc<Capability>| capability.settings().method == Method::GET;
    let reading = capabilities.iter().filter(is_get);
    let writing = capabilities.iter().filter(|capability| !is_get(capability));
    let mut routes: HashMap<Box<str>, Trie<Way>> = HashMap::new();
    for capability in reading.chain(writing) {
        let route = &capability.settings().route;
        let Ok(path) = route.path.parse::<Pattern>() else { continue };
        let Ok(endpoint) = Template::path(capability.endpoint().as_str(), &path) else { continue };
        let way = Way { names: path.shared_names(), endpoint };
        routes.entry(route.upstream.as_str().into()).or_default().place(&path).push(way);
    }
    routes
}

fn takes(capability: &Capability, method: &Method) -> bool {
    let own = &capability.settings().method;
    own == method || *method == Method::HEAD && *own == Method::GET
}

impl Allow {
    /// The methods, `HEAD` added where there is `GET`, in the order in which they are written.
    pub fn methods(&self) -> &[Method] {
        &self.methods
    }

    /// Adds a method that the path knows.
    pub fn add(&mut self, method: &Method) {
        let with_head = [method, &Method::HEAD];
        let added = if *method == Method::GET { &with_head[..] } else { &with_head[..1] };
        for method in added {
            if !self.methods.contains(method) {
                self.methods.push((*method).clone());
            }
        }
        self.methods.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    }

    /// `DELETE, GET, HEAD`.
    pub fn header_value(&self) -> HeaderValue {
        let list = self.methods.iter().map(Method::as_str).collect::<Vec<_>>().join(", ");
        HeaderValue::try_from(list).unwrap_or(HeaderValue::from_static(""))
    }
}

impl<'m> FromIterator<&'m Method> for Allow {
    fn from_iter<I: IntoIterator<Item = &'m Method>>(methods: I) -> Self {
        let mut allow = Self::default();
        methods.into_iter().for_each(|method| allow.add(method));
        allow
    }
}

#[cfg(test)]
mod tests;
