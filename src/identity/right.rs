//! `Right`: what a caller wants to use, and `Grant`: what an operator lets a group use.

use std::str::FromStr;

use super::pattern::{Part, parts_match};

/// What a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right<'a> {
    /// `/talk` and `/query/{id}`.
    Talk,
    /// Reading news.
    News,
    /// Posting news.
    NewsReceive,
    /// A capability by its id.
    Capability(&'a str),
    /// `/rest_request`.
    Rest,
}

/// The name that opens the outbound tool, which no pattern does.
pub const REST: &str = "rest";

impl<'a> Right<'a> {
    /// Its id in the catalog.
    pub fn id(self) -> &'a str {
        match self {
            Self::Talk => "talk",
            Self::News => "news",
            Self::NewsReceive => "news_receive",
            Self::Capability(id) => id,
            Self::Rest => REST,
        }
    }
}

/// An entry of `access.tools`: an id, or a pattern on ids. `*` is one label between dots, `**` any number of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    text: Box<str>,
    labels: Box<[Part]>,
}

/// The text is no grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidGrant {
    /// Nothing, or nothing between two dots.
    #[error("the id of a capability has no empty part")]
    Empty,
    /// A star beside something.
    #[error(
        "`*` stands for a whole part between dots, `**` for any number of them: weather.* is one part behind weather"
    )]
    Partial,
}

impl FromStr for Grant {
    type Err = InvalidGrant;

    fn from_str(text: &str) -> Result<Self, InvalidGrant> {
        let label = |label: &str| match label {
            "" => Err(InvalidGrant::Empty),
            "*" => Ok(Part::One),
            "**" => Ok(Part::Many),
            _ if label.contains('*') => Err(InvalidGrant::Partial),
            _ => Ok(Part::Literal(label.into())),
        };
        // An id without wildcards is compared as a whole, so that any id can be named.
        let labels = match text {
            "" => return Err(InvalidGrant::Empty),
            _ if !text.contains('*') => Box::default(),
            _ => text.split('.').map(label).collect::<Result<_, _>>()?,
        };
        Ok(Self { text: text.into(), labels })
    }
}

impl Grant {
    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it is more than one id.
    pub fn is_pattern(&self) -> bool {
        !self.labels.is_empty()
    }

    /// Whether it opens the outbound tool.
    pub fn is_rest(&self) -> bool {
        &*self.text == REST
    }

    /// Whether it names this id. No pattern names `rest`.
    pub fn names(&self, id: &str) -> bool {
        if self.is_pattern() { parts_match(&self.labels, id.split('.')) } else { *self.text == *id }
    }

    /// Whether it gives this right.
    pub fn gives(&self, right: Right<'_>) -> bool {
        match right {
            Right::Rest => self.is_rest(),
            // A capability may be called `rest` as well; the grant is the tool's.
            Right::Capability(_) if self.is_rest() => false,
            // Who may read and post may post.
            Right::NewsReceive => self.names("news") || self.names("news_receive"),
            _ => self.names(right.id()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gives(grant: &str, right: Right<'_>) -> bool {
        grant.parse::<Grant>().unwrap().gives(right)
    }

    #[test]
    fn a_grant_gives_what_it_names_and_nothing_else() {
        use Right::{Capability, News, NewsReceive, Rest, Talk};
        for (grant, right, expected) in [
            ("talk", Talk, true),
            ("talk", News, false),
            ("news", News, true),
            ("news", NewsReceive, true),
            ("news_receive", NewsReceive, true),
            ("news_receive", News, false),
            ("weather.current", Capability("weather.current"), true),
            ("weather.current", Capability("weather.currents"), false),
            ("weather.*", Capability("weather.current"), true),
            ("weather.*", Capability("weather"), false),
            ("weather.*", Capability("weather.a.b"), false),
            ("weather.**", Capability("weather.a.b"), true),
            ("weather.**", Capability("weather"), true),
            ("*.read", Capability("orders.read"), true),
            ("*.read", Capability("orders.items.read"), false),
            ("**.read", Capability("orders.items.read"), true),
            ("*", Capability("getPet"), true),
            ("*", Capability("weather.current"), false),
            ("*", Talk, true),
            ("**", Capability("weather.current"), true),
            ("**", Talk, true),
            ("**", NewsReceive, true),
            ("**", Rest, false),
            ("*", Rest, false),
            ("rest", Rest, true),
            ("rest", Capability("rest"), false),
        ] {
            assert_eq!(gives(grant, right), expected, "{grant} {right:?}");
        }
    }

    #[test]
    fn a_star_is_a_whole_part() {
        for text in ["weather*", "w*r.current", "a..*", ".*", "*.", ""] {
            assert!(text.parse::<Grant>().is_err(), "{text}");
        }
        assert!(!"odd..id".parse::<Grant>().unwrap().is_pattern());
    }
}
