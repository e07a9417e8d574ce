//! `${NAME}` and `${NAME:-default}` in a text.

/// Why a variable can't be filled in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidVariable {
    /// It has no value and no default.
    #[error("the environment variable {0} is not set")]
    Missing(String),
    /// `${` is not followed by a name and `}`.
    #[error("`${{` begins a variable, but no NAME}} or NAME:-default}} follows")]
    Malformed,
}

impl InvalidVariable {
    /// What to write instead.
    pub(super) fn help(&self) -> String {
        match self {
            Self::Missing(name) => format!("set it, or give a default: ${{{name}:-default}}"),
            Self::Malformed => "write $${ for a literal ${".into(),
        }
    }
}

/// The text with its variables filled in; `None` if it has none. An empty variable counts as absent where there is
/// a default, as in a shell.
pub(super) fn expand(
    text: &str,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<String>, Vec<InvalidVariable>> {
    if !text.contains("${") {
        return Ok(None);
    }
    let mut expanded = String::with_capacity(text.len());
    let mut invalid = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            expanded.push_str(before);
            expanded.push_str("${");
            rest = after;
            continue;
        }
        expanded.push_str(before);
        let Some((name, default, after)) = variable(after) else {
            invalid.push(InvalidVariable::Malformed);
            rest = after;
            continue;
        };
        rest = after;
        let value = environment(name).filter(|value| default.is_none() || !value.is_empty());
        match value.or_else(|| default.map(str::to_owned)) {
            Some(value) => expanded.push_str(&value),
            None => invalid.push(InvalidVariable::Missing(name.to_owned())),
        }
    }
    expanded.push_str(rest);
    if invalid.is_empty() { Ok(Some(expanded)) } else { Err(invalid) }
}

/// Name, default, and what follows the closing brace.
fn variable(text: &str) -> Option<(&str, Option<&str>, &str)> {
    let (inside, after) = text.split_once('}')?;
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let valid = name.bytes().all(legal) && name.starts_with(|first: char| !first.is_ascii_digit());
    valid.then_some((name, default, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand_with_city(text: &str) -> Result<Option<String>, Vec<InvalidVariable>> {
        expand(text, &|name| match name {
            "CITY" => Some("Oslo".into()),
            "EMPTY" => Some(String::new()),
            _ => None,
        })
    }

    #[test]
    fn variables_are_filled_in_anywhere_in_a_text() {
        for (text, expected) in [
            ("${CITY}", "Oslo"),
            ("in ${CITY}, ${CITY}!", "in Oslo, Oslo!"),
            ("${NONE:-Bergen}", "Bergen"),
            ("${NONE:-}", ""),
            ("${EMPTY}", ""),
            ("${EMPTY:-Bergen}", "Bergen"),
            ("${CITY:-Bergen}", "Oslo"),
            ("$${CITY}", "${CITY}"),
            ("$$${CITY}", "$${CITY}"),
            ("$CITY ${CITY}", "$CITY Oslo"),
        ] {
            assert_eq!(expand_with_city(text), Ok(Some(expected.into())), "{text}");
        }
    }

    #[test]
    fn a_text_without_variables_is_left_alone() {
        for text in ["", "$CITY", "{city}", "$", "$}{"] {
            assert_eq!(expand_with_city(text), Ok(None), "{text}");
        }
    }

    #[test]
    fn every_variable_that_has_no_value_is_named() {
        let missing = |name: &str| InvalidVariable::Missing(name.into());
        assert_eq!(expand_with_city("${A} ${CITY} ${B}"), Err(vec![missing("A"), missing("B")]));
        for text in ["${", "${}", "${9}", "${a b}", "${A-b}", "${CITY"] {
            assert_eq!(expand_with_city(text), Err(vec![InvalidVariable::Malformed]), "{text}");
        }
    }
}
