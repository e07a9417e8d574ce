//! What a reload changes, in lines that a person reads before it happens. They name keys and never show a value.

use std::collections::BTreeMap;

use super::settings::{Agent, Config};
use crate::upstream;

/// One line a change: `+` what is new, `-` what is gone, `~` what says something else, each with the keys that differ.
pub fn changes(before: &Config, after: &Config) -> Vec<String> {
    let mut lines = Vec::new();
    let mut keys = Keys::default();
    // Named one by one, so that a key that is added is asked for here.
    let Config {
        listen,
        ways,
        public_url,
        admin,
        store,
        limits,
        trusted_proxies,
        log,
        upstreams,
        agents,
        credentials: _,
    } = before;
    keys.compare("listen", &(listen, ways), &(&after.listen, &after.ways));
    keys.compare("public_url", public_url, &after.public_url);
    keys.compare("admin", admin, &after.admin);
    keys.compare("store", store, &after.store);
    keys.compare("limits", limits, &after.limits);
    keys.compare("trusted_proxies", trusted_proxies, &after.trusted_proxies);
    keys.compare("log", log, &after.log);
    lines.extend(keys.0.iter().map(|key| format!("~ {key}")));
    let (old, new) = (by(upstreams.values(), |one| &one.name), by(after.upstreams.values(), |one| &one.name));
    lines.extend(compare("upstream", &old, &new, upstream));
    let (old, new) = (by(agents, |agent| &agent.key), by(&after.agents, |agent| &agent.key));
    lines.extend(compare("agent", &old, &new, agent));
    lines
}

/// The keys that differ.
#[derive(Default)]
struct Keys(Vec<String>);

impl Keys {
    fn compare<T: PartialEq>(&mut self, key: &str, before: &T, after: &T) {
        if before != after {
            self.0.push(key.to_owned());
        }
    }
}

fn by<'a, T: 'a>(all: impl IntoIterator<Item = &'a T>, name: fn(&T) -> &str) -> BTreeMap<&'a str, &'a T> {
    all.into_iter().map(|one| (name(one), one)).collect()
}

/// Compares what has names. What differs only in its place among the others is the same.
fn compare<T: PartialEq>(
    kind: &str,
    before: &BTreeMap<&str, &T>,
    after: &BTreeMap<&str, &T>,
    differences: fn(&T, &T) -> Vec<String>,
) -> Vec<String> {
    let gone = before.keys().filter(|name| !after.contains_key(*name)).map(|name| format!("- {kind} {name}"));
    let other = after.iter().filter_map(|(name, new)| match before.get(name) {
        None => Some(format!("+ {kind} {name}")),
        Some(old) if old == new => None,
        Some(old) => match differences(old, new).join(", ") {
            keys if keys.is_empty() => Some(format!("~ {kind} {name}")),
            keys => Some(format!("~ {kind} {name}: {keys}")),
        },
    });
    gone.chain(other).collect()
}

fn upstream(before: &upstream::Settings, after: &upstream::Settings) -> Vec<String> {
    let mut keys = Keys::default();
    let upstream::Settings {
        name,
        url,
        servers,
        balance,
        retry,
        health,
        headers,
        query,
        api_key,
        oauth2,
        timeout,
        tls,
        http,
        cookies,
        redirects,
        shared,
    } = before;
    keys.compare("name", name, &after.name);
    keys.compare("url", url, &after.url);
    keys.compare("servers", servers, &after.servers);
    keys.compare("balance", balance, &after.balance);
    keys.compare("retry", retry, &after.retry);
    keys.compare("health", health, &after.health);
    keys.compare("headers", headers, &after.headers);
    keys.compare("query", query, &after.query);
    keys.compare("api_key", api_key, &after.api_key);
    keys.compare("oauth2", oauth2, &after.oauth2);
    keys.compare("timeout", timeout, &after.timeout);
    keys.compare("tls", tls, &after.tls);
    keys.compare("http", http, &after.http);
    keys.compare("cookies", cookies, &after.cookies);
    keys.compare("redirects", redirects, &after.redirects);
    keys.compare("shared", shared, &after.shared);
    keys.0
}

fn agent(before: &Agent, after: &Agent) -> Vec<String> {
    let mut keys = Keys::default();
    let Agent {
        key,
        base_path,
        host,
        card,
        version,
        talk,
        news,
        capabilities,
        packages,
        protocols,
        rest,
        cors,
        access,
        follow,
    } = before;
    keys.compare("key", key, &after.key);
    keys.compare("base_path", base_path, &after.base_path);
    keys.compare("host", host, &after.host);
    keys.compare("name", &card.name, &after.card.name);
    keys.compare("description", &card.description, &after.card.description);
    keys.compare("contact", &card.contact, &after.card.contact);
    keys.compare("version", version, &after.version);
    keys.compare("talk", talk, &after.talk);
    keys.compare("news", news, &after.news);
    keys.compare("packages", packages, &after.packages);
    keys.compare("protocols", protocols, &after.protocols);
    keys.compare("rest", rest, &after.rest);
    keys.compare("cors", cors, &after.cors);
    keys.compare("access", access, &after.access);
    keys.compare("follow_news", follow, &after.follow);
    let (old, new) = (by(capabilities, |one| &one.id), by(&after.capabilities, |one| &one.id));
    keys.0.extend(compare("capability", &old, &new, |_, _| Vec::new()));
    if keys.0.is_empty() && before != after {
        keys.0.push("the order of its capabilities".to_owned());
    }
    keys.0
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn config(text: &str) -> Config {
        Config::from_text("gateway.yaml", text, Path::new(""), &|_| None).unwrap().config
    }

    const BEFORE: &str = "
public_url: https://a.example
upstreams:
  api: {url: 'http://127.0.0.1:1', bearer: first}
  old: {url: 'http://127.0.0.1:2'}
agents:
  kept: {upstream: api, capabilities: [{id: a, method: GET, endpoint: /a}, {id: b, method: GET, endpoint: /b}]}
  gone: {upstream: old, capabilities: [{id: a, method: GET, endpoint: /a}]}
";

    #[test]
    fn what_is_new_gone_or_different_is_named_and_no_value_shown() {
        let after = "
limits: {body: 2MiB}
upstreams:
  api: {url: 'http://127.0.0.1:1', bearer: second}
agents:
  kept: {description: d, upstream: api, capabilities: [{id: b, method: GET, endpoint: /bb}, {id: c, method: GET, endpoint: /c}]}
  new: {talk: off}
";
        let expected = [
            "~ public_url",
            "~ limits",
            "- upstream old",
            "~ upstream api: headers",
            "- agent gone",
            "~ agent kept: description, - capability a, ~ capability b, + capability c",
            "+ agent new",
        ];
        assert_eq!(changes(&config(BEFORE), &config(after)), expected);
    }

    #[test]
    fn nothing_differs_from_itself() {
        assert_eq!(changes(&config(BEFORE), &config(BEFORE)), [""; 0]);
        let other = BEFORE.replace(
            "{id: a, method: GET, endpoint: /a}, {id: b, method: GET, endpoint: /b}",
            "{id: b, method: GET, endpoint: /b}, {id: a, method: GET, endpoint: /a}",
        );
        assert_eq!(changes(&config(BEFORE), &config(&other)), ["~ agent kept: the order of its capabilities"]);
    }
}
