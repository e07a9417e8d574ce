//! The dialect `guide`: an agent without a model that says what it can do.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::restap::Capability;
use crate::restap::catalog::Card;

/// Capabilities that one answer lists.
const LISTED_MAX: usize = 20;
/// Words of a message that are compared.
const WORDS_MAX: usize = 200;
/// Shorter words are in every sentence.
const WORD_LENGTH_MIN: usize = 3;

/// The answer to a message: the agent, and its capabilities, of which those that share words with the message come
/// first, the others in the catalog's order. `catalog` is the path of the catalog.
pub fn reply(card: &Card, capabilities: &[Capability], message: &str, catalog: &str) -> String {
    let asked: BTreeSet<String> = words(message).take(WORDS_MAX).collect();
    let mut listed: Vec<(usize, &Capability)> =
        capabilities.iter().map(|capability| (shared(capability, &asked), capability)).collect();
    listed.sort_by_key(|(shared, _)| std::cmp::Reverse(*shared));

    let mut reply = match &card.description {
        Some(description) => format!("{}: {description}\n\n", card.name),
        None => format!("{}\n\n", card.name),
    };
    if listed.is_empty() {
        let _ = write!(reply, "Nothing can be called here yet. The catalog is at {catalog}.");
        return reply;
    }
    reply.push_str("I answer without a model. These can be called:\n\n");
    for (_, capability) in listed.iter().take(LISTED_MAX) {
        describe(capability, &mut reply);
    }
    match listed.len().saturating_sub(LISTED_MAX) {
        0 => {
            let _ = write!(reply, "\nThe catalog with all inputs and outputs is at {catalog}.");
        }
        more => {
            let _ = write!(reply, "\n{more} more, and all inputs and outputs, are in the catalog at {catalog}.");
        }
    }
    reply
}

fn describe(capability: &Capability, reply: &mut String) {
    let Capability { id, title, method, endpoint, .. } = capability;
    let _ = write!(reply, "- {id}: {title}\n  {method} {endpoint}");
    let inputs = required_inputs(capability);
    if !inputs.is_empty() {
        let _ = write!(reply, ", needs {}", inputs.join(", "));
    }
    reply.push('\n');
}

/// The names without which a call is refused: parameters, then keys of the body.
fn required_inputs(capability: &Capability) -> Vec<&str> {
    let parameters = capability.parameters.iter().filter(|parameter| parameter.required);
    let mut names: Vec<&str> = parameters.map(|parameter| parameter.name.as_str()).collect();
    let required = capability.input_schema.as_ref().and_then(|schema| schema.get("required")?.as_array());
    for name in required.into_iter().flatten().filter_map(|name| name.as_str()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// How many of the asked words a capability's texts have.
fn shared(capability: &Capability, asked: &BTreeSet<String>) -> usize {
    if asked.is_empty() {
        return 0;
    }
    let texts = [&capability.id, &capability.title, &capability.endpoint];
    let texts = texts.into_iter().chain(&capability.description);
    let own: BTreeSet<String> = texts.flat_map(|text| words(text)).collect();
    own.intersection(asked).count()
}

/// The words of a text in lower case, without a plural's s.
fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|character: char| !character.is_alphanumeric());
    words.filter(|word| word.chars().count() >= WORD_LENGTH_MIN).map(|word| {
        let word = word.to_lowercase();
        word.strip_suffix('s').filter(|word| word.len() >= WORD_LENGTH_MIN).unwrap_or(&word).to_owned()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::restap::catalog::{Location, Parameter};

    const CATALOG: &str = "/.well-known/restap.json";

    fn capability(id: &str, title: &str, endpoint: &str) -> Capability {
        Capability {
            id: id.into(),
            title: title.into(),
            method: "GET".into(),
            endpoint: endpoint.into(),
            ..Capability::default()
        }
    }

    fn card() -> Card {
        Card { name: "Weather agent".into(), description: Some("Weather for any city".into()), contact: None }
    }

    #[test]
    fn the_answer_says_what_can_be_called_and_with_what() {
        let city = Parameter::new("city", Location::Path, "string");
        let mut current = capability("weather.current", "Current weather", "/weather/{city}");
        current.parameters = vec![city.clone(), Parameter { name: "units".into(), required: false, ..city }];
        let mut report = capability("report.create", "File a report", "/reports");
        report.method = "POST".into();
        report.input_schema = Some(json!({"type": "object", "required": ["text", "city"]}).into());
        let answer = reply(&card(), &[current, report], "Can you file reports?", CATALOG);
        expect_test::expect![[r"
            Weather agent: Weather for any city

            I answer without a model. These can be called:

            - report.create: File a report
              POST /reports, needs text, city
            - weather.current: Current weather
              GET /weather/{city}, needs city

            The catalog with all inputs and outputs is at /.well-known/restap.json."]]
        .assert_eq(&answer);
    }

    #[test]
    fn twenty_are_listed_in_the_catalogs_order_after_those_that_share_words() {
        let many: Vec<Capability> =
            (0..30).map(|number| capability(&format!("c{number}"), &format!("Title {number:03}"), "/x")).collect();
        let listed = |message: &str| -> Vec<String> {
            let answer = reply(&card(), &many, message, CATALOG);
            assert!(answer.contains("\n10 more, and"));
            answer
                .lines()
                .filter_map(|line| line.strip_prefix("- ")?.split_once(':'))
                .map(|(id, _)| id.to_owned())
                .collect()
        };
        let first = |ids: &[String]| ids[..3].join(" ");
        assert_eq!(listed("what can you do?").len(), 20);
        assert_eq!(first(&listed("what can you do?")), "c0 c1 c2");
        assert_eq!(first(&listed("the TITLE 029, please")), "c29 c0 c1");
    }

    #[test]
    fn an_agent_without_capabilities_says_so() {
        let answer = reply(&Card { name: "A".into(), ..Card::default() }, &[], "hi", CATALOG);
        assert_eq!(answer, "A\n\nNothing can be called here yet. The catalog is at /.well-known/restap.json.");
    }
}
