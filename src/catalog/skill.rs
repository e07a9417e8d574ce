//! `skill.md`: how to use an agent, in words for a model (the SKILL.md format: front matter, then Markdown).

use std::fmt::{self, Write};

use serde_json::Value;

use crate::restap::catalog::{Location, Parameter};
use crate::restap::{CATALOG_PATH, Capability, NEWS_PATH, SKILL_PATH, TALK_PATH};

use super::{Facts, NewsSessions, Talk};

/// Capabilities that are described; all others are only counted, since a skill is read whole.
const DESCRIBED_MAX: usize = 100;

/// Fields of a body that are listed.
const FIELDS_MAX: usize = 30;

/// Bytes of one description.
const DESCRIPTION_BYTES_MAX: usize = 300;

/// Characters of a name, and bytes of a description, in the front matter.
const NAME_MAX: usize = 64;
const FRONT_BYTES_MAX: usize = 1000;

/// The whole text.
pub(super) fn text(facts: &Facts) -> String {
    let mut text = String::new();
    // Nothing fails when the output is memory.
    let _ = write(&mut text, facts);
    text
}

fn write(text: &mut String, facts: &Facts) -> fmt::Result {
    let agent = line(&facts.card.name, DESCRIPTION_BYTES_MAX);
    let about = facts.card.description.as_deref().unwrap_or("An agent that speaks RESTAP.");
    let about_line = line(about, FRONT_BYTES_MAX);
    let stop = if about_line.ends_with(['.', '!', '?', '…']) { "" } else { "." };
    let use_it = format!("{about_line}{stop} Use it to talk to {agent} or to call what it offers over HTTP.");
    writeln!(text, "---\nname: {}\ndescription: {}\n---\n", slug(&agent), Value::from(use_it))?;
    writeln!(text, "# {agent}\n\n{}\n", line(about, FRONT_BYTES_MAX))?;
    match &facts.public_url {
        Some(url) => writeln!(text, "`BASE` stands for `{url}`. All endpoints below follow it.")?,
        None => writeln!(
            text,
            "`BASE` stands for the address that this text came from, without `{SKILL_PATH}`. All endpoints below follow it."
        )?,
    }
    writeln!(text, "Everything that the agent offers, with its schemas: `GET BASE{CATALOG_PATH}`.")?;
    writeln!(text, "Errors are JSON: `{{\"error\": \"<code>\", \"message\": \"<what to do>\"}}`.")?;
    if let Some(talk) = &facts.talk {
        write_talk(text, talk)?;
    }
    if let Some(news) = facts.news {
        write_news(text, news.sessions)?;
    }
    if !facts.capabilities.is_empty() {
        writeln!(text, "\n## Capabilities\n\nPut each `{{name}}` into the path percent-encoded.")?;
    }
    for capability in facts.capabilities.iter().take(DESCRIBED_MAX) {
        write_capability(text, capability)?;
    }
    match facts.capabilities.len().saturating_sub(DESCRIBED_MAX) {
        0 => Ok(()),
        more => writeln!(text, "\nThe catalog lists {more} more."),
    }
}

fn write_talk(text: &mut String, talk: &Talk) -> fmt::Result {
    writeln!(text, "\n## Talk\n\n`POST BASE{TALK_PATH}` sends a message and gets the agent's reply in `reply`.\n")?;
    writeln!(
        text,
        "```sh\ncurl -s BASE{TALK_PATH} -H 'Content-Type: application/json' -d '{{\"message\": \"What can you do?\"}}'\n```"
    )?;
    if talk.sessions {
        writeln!(text, "\nSend the reply's `session_id` with the next message to continue the conversation.")?;
    }
    if talk.streaming {
        writeln!(
            text,
            "\nWith `-N -H 'Accept: text/event-stream'` the reply comes as it is written: put the `text` of each \
             `message.delta` together, stop at `done`."
        )?;
    }
    Ok(())
}

fn write_news(text: &mut String, sessions: NewsSessions) -> fmt::Result {
    writeln!(
        text,
        "\n## News\n\n`GET BASE{NEWS_PATH}` reads what has happened; `?since=` with the last answer's `timestamp` gives \
         what is new. `POST BASE{NEWS_PATH}` with JSON leaves a message; it needs a `type` and is never answered."
    )?;
    match sessions {
        NewsSessions::Required => writeln!(text, "\nBoth need the session's id in the header `Restap-Session-Id`."),
        NewsSessions::Optional => {
            writeln!(text, "\nWith a session's id in the header `Restap-Session-Id` it is that session's news.")
        }
        NewsSessions::Ignored => Ok(()),
    }
}

fn write_capability(text: &mut String, capability: &Capability) -> fmt::Result {
    let Capability { id, title, method, endpoint, .. } = capability;
    writeln!(
        text,
        "\n### {}: {}\n\n`{method} BASE{endpoint}`",
        line(id, NAME_MAX * 2),
        line(title, DESCRIPTION_BYTES_MAX)
    )?;
    if let Some(description) = &capability.description {
        writeln!(text, "\n{}", line(description, DESCRIPTION_BYTES_MAX))?;
    }
    if !capability.parameters.is_empty() || capability.input_schema.is_some() {
        writeln!(text)?;
    }
    for parameter in &capability.parameters {
        write_parameter(text, parameter)?;
    }
    let Some(schema) = &capability.input_schema else { return Ok(()) };
    let media_type = capability.content_types.first().map_or("application/json", String::as_str);
    writeln!(text, "- body ({media_type}){}", fields(schema))
}

fn write_parameter(text: &mut String, parameter: &Parameter) -> fmt::Result {
    let location = match parameter.location {
        Location::Path => "path",
        Location::Query => "query",
        Location::Header => "header",
        Location::Cookie => "cookie",
    };
    let required = if parameter.required { ", required" } else { "" };
    write!(text, "- `{}` ({location}, {}{required})", parameter.name, parameter.kind)?;
    match &parameter.description {
        Some(description) => writeln!(text, ": {}", line(description, DESCRIPTION_BYTES_MAX)),
        None => writeln!(text),
    }
}

/// The fields of an object, those that it needs first.
fn fields(schema: &Value) -> String {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return String::new() };
    let required: Vec<_> = schema.get("required").and_then(Value::as_array).into_iter().flatten().collect();
    let is_required = |name: &String| required.iter().any(|required| *required == name);
    let shown = |(name, property): (&String, &Value)| {
        let kind = property.get("type").and_then(Value::as_str).unwrap_or("any");
        format!("`{name}` ({kind}{})", if is_required(name) { ", required" } else { "" })
    };
    let needed = properties.iter().filter(|(name, _)| is_required(name));
    let others = properties.iter().filter(|(name, _)| !is_required(name));
    let list = needed.chain(others).take(FIELDS_MAX).map(shown).collect::<Vec<_>>().join(", ");
    let rest = if properties.len() > FIELDS_MAX { ", …" } else { "" };
    if list.is_empty() { list } else { format!(": {list}{rest}") }
}

/// One line, so that no text begins a heading, a fence or the front matter's end.
fn line(text: &str, bytes: usize) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.len() > bytes {
        line.truncate(line.floor_char_boundary(bytes));
        line.push('…');
    }
    line
}

/// What the format takes as a name: lower-case letters, digits and hyphens.
fn slug(name: &str) -> String {
    let words = name.split(|character: char| !character.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let slug: String = words.collect::<Vec<_>>().join("-").to_ascii_lowercase().chars().take(NAME_MAX).collect();
    match slug.trim_end_matches('-') {
        "" => "agent".to_owned(),
        slug => slug.to_owned(),
    }
}
