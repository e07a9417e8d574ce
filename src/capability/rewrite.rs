//! `Target`: what the service is asked, built from a route and the path parameters of a request.

use std::fmt;

use http::{HeaderName, Method};

use crate::restap::catalog::{Location, Parameter};

use super::entry::CapabilityError;
use super::params::Params;
use super::path::push_value;
use super::pattern::Pattern;
use super::query;
use super::service::Service;
use super::settings::Route;
use super::style::Form;
use super::template::Template;

/// Method, path and query of a request to the service. Its `Debug` shows no query, which may hold a credential.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    method: Method,
    path_and_query: Box<str>,
    path_bytes: usize,
}

/// A route with its templates read.
#[derive(Debug)]
pub(super) struct Rewrite {
    method: Method,
    path: Template,
    query: Box<[(Box<str>, Template)]>,
    pub(super) headers: Box<[(HeaderName, Template)]>,
    /// Of the query, those whose form is known.
    inputs: Box<[(Box<str>, Form)]>,
    /// For each name of the endpoint the form that the service wants it in.
    in_path: Box<[Option<Form>]>,
    /// Headers whose form is known.
    pub(super) input_headers: Box<[(HeaderName, Form)]>,
    /// Cookies that the service gets.
    pub(super) cookies: Box<[(Box<str>, Form)]>,
}

impl Target {
    /// The method to ask with.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// The request target in origin form. It may hold a credential: not for a log, a metric or an error.
    pub fn path_and_query(&self) -> &str {
        &self.path_and_query
    }

    /// Adds pairs, encoded, to the query.
    pub fn push_query(&mut self, pairs: &str) {
        if !pairs.is_empty() {
            let separator = if self.path_and_query.len() > self.path_bytes { '&' } else { '?' };
            self.path_and_query = format!("{}{separator}{pairs}", self.path_and_query).into();
        }
    }

    /// The request target without its query.
    pub fn path(&self) -> &str {
        self.path_and_query.get(..self.path_bytes).unwrap_or_default()
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path())
    }
}

impl Rewrite {
    /// Reads all templates, reporting every one that is none.
    pub(super) fn new(
        route: &Route,
        endpoint: &Pattern,
        parameters: &[Parameter],
        problems: &mut Vec<CapabilityError>,
    ) -> Option<Self> {
        let path = Template::path(&route.path, endpoint).map_err(CapabilityError::RoutePath);
        let query = route.query.iter().map(|(name, value)| {
            let template = Template::query(value, endpoint)
                .map_err(|problem| CapabilityError::RouteQuery { name: name.clone(), problem })?;
            Ok((name.as_str().into(), template))
        });
        let headers = route.headers.iter().map(|(name, value)| {
            if super::headers::is_framing(name) {
                return Err(CapabilityError::ConnectionHeader(name.clone()));
            }
            let template = Template::header(value, endpoint)
                .map_err(|problem| CapabilityError::RouteHeader { name: name.clone(), problem })?;
            Ok((name.clone(), template))
        });
        let mut keep = |problem| problems.push(problem);
        let path = path.map_err(&mut keep).ok();
        let query = query.filter_map(|entry| entry.map_err(&mut keep).ok()).collect();
        let headers = headers.filter_map(|entry| entry.map_err(&mut keep).ok()).collect();
        let at = |location| parameters.iter().filter(move |parameter| parameter.location == location);
        let styled = |parameter: &&Parameter| {
            parameter.style.is_some() || parameter.explode.is_some() || parameter.allow_reserved
        };
        let formed = |parameter: &Parameter| (parameter.name.as_str().into(), Form::of(parameter));
        let in_path = |name: &str| {
            let parameter = at(Location::Path).filter(styled).find(|parameter| parameter.name == name);
            parameter.map(Form::of)
        };
        let input_headers = at(Location::Header).filter(styled);
        Some(Self {
            method: route.method.clone(),
            path: path?,
            query,
            headers,
            inputs: at(Location::Query).filter(styled).map(formed).collect(),
            in_path: endpoint.names().iter().map(|name| in_path(name)).collect(),
            input_headers: input_headers
                .filter_map(|parameter| Some((parameter.name.parse().ok()?, Form::of(parameter))))
                .collect(),
            cookies: at(Location::Cookie).map(formed).collect(),
        })
    }

    /// The caller's query stays as it came, without the parameters that the route or the upstream sets: they come
    /// after it, those of the upstream last.
    pub(super) fn target(&self, service: &Service, params: &Params, method: &Method, query: Option<&str>) -> Target {
        let is_set = |name: &str| {
            self.query.iter().any(|(known, _)| **known == *name)
                || service.query().iter().any(|added| *added.name == *name)
        };
        let mut merged = query.map(|query| query::without(query, is_set).into_owned());
        if let Some(query) = merged.as_mut().filter(|_| !self.inputs.is_empty()) {
            *query = self.in_form(query);
        }
        for (name, value) in &self.query {
            let query = query::next_pair(&mut merged);
            push_value(name, query);
            query.push('=');
            value.push_query(params, query);
        }
        for added in service.query() {
            query::next_pair(&mut merged).push_str(added.pair.expose());
        }
        let mut text = service.prefix().to_owned() + &self.path.to_path(params, &self.in_path);
        let path_bytes = text.len();
        if let Some(query) = merged {
            text.push('?');
            text.push_str(&query);
        }
        let method = if *method == Method::HEAD && self.method == Method::GET { method } else { &self.method };
        Target { method: method.clone(), path_and_query: text.into(), path_bytes }
    }

    /// The query with its inputs as the service wants them, each in the place where it first stood.
    fn in_form(&self, query: &str) -> String {
        let mut written = vec![false; self.inputs.len()];
        let mut pairs = Vec::new();
        for pair in query.split('&') {
            let name = query::name(pair);
            let owner = self.inputs.iter().zip(&mut written).find(|((input, form), _)| form.owns(input, &name));
            match owner {
                None => pairs.push(pair.to_owned()),
                Some((_, written)) if *written => {}
                Some(((input, form), written)) => {
                    *written = true;
                    if let Some(value) = form.of_query(input, query) {
                        form.push_pairs(input, &value, &mut pairs);
                    }
                }
            }
        }
        pairs.join("&")
    }
}

#[cfg(test)]
mod tests;
