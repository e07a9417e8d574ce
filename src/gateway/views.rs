//! What an agent looks like to a caller: its documents and its guide, with what that caller may use and nothing else.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::who::{Guard, Who};
use crate::catalog::{Facts, Published, TooLarge};
use crate::identity::{Access, Groups, Right};
use crate::restap;
use crate::restap::catalog::Card;
use crate::talk::guide;

/// Views that an agent keeps beside the whole one. There are as many as sets of groups that callers are in.
const VIEWS_MAX: usize = 64;

/// An agent as a caller sees it.
#[derive(Debug)]
pub(super) struct View {
    pub published: Published,
    pub guide: Guide,
}

/// What an agent without a model answers from.
#[derive(Debug)]
pub(super) struct Guide {
    card: Card,
    capabilities: Vec<restap::Capability>,
    base_path: String,
}

impl Guide {
    pub(super) fn answer(&self, message: &str) -> String {
        let catalog = format!("{}{}", self.base_path, restap::CATALOG_PATH);
        guide::reply(&self.card, &self.capabilities, message, &catalog)
    }
}

impl View {
    fn new(facts: Facts, base_path: &str) -> Result<Self, TooLarge> {
        let guide = Guide {
            card: facts.card.clone(),
            capabilities: facts.capabilities.clone(),
            base_path: base_path.to_owned(),
        };
        Ok(Self { published: Published::new(facts)?, guide })
    }
}

/// All views of one agent.
#[derive(Debug)]
pub(super) struct Views {
    whole: Arc<View>,
    /// What is cut down for callers who may not use all of it.
    facts: Facts,
    base_path: String,
    /// By the groups of the caller, and whether it is verified.
    made: Mutex<HashMap<(Groups, bool), Arc<View>>>,
}

impl Views {
    pub(super) fn new(facts: Facts, base_path: &str) -> Result<Self, TooLarge> {
        let whole = Arc::new(View::new(facts.clone(), base_path)?);
        Ok(Self { whole, facts, base_path: base_path.to_owned(), made: Mutex::default() })
    }

    /// With everything in it.
    pub(super) fn whole(&self) -> &Arc<View> {
        &self.whole
    }

    /// What this caller sees.
    pub(super) fn of(&self, guard: Option<&Guard>, who: &Who) -> Arc<View> {
        let Some(access) = guard.map(|guard| &guard.access).filter(|access| access.restricts()) else {
            return self.whole.clone();
        };
        let key = (who.standing.groups, who.caller.is_some());
        if let Some(view) = self.made.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return view.clone();
        }
        // Less than the whole is never too large.
        let Ok(view) = View::new(cut(&self.facts, access, key), &self.base_path) else { return self.whole.clone() };
        let view = Arc::new(view);
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.len() >= VIEWS_MAX {
            made.clear();
        }
        made.insert(key, view.clone());
        view
    }
}

/// A verified caller sees what it may use. An anonymous one always sees that it could talk and read news, were it known.
fn cut(facts: &Facts, access: &Access, (groups, verified): (Groups, bool)) -> Facts {
    let sees = |right: Right<'_>| access.may(groups, right);
    let fixed = |right: Right<'_>| !verified || sees(right);
    let mut cut = facts.clone();
    cut.talk = cut.talk.filter(|_| fixed(Right::Talk));
    cut.news = cut.news.and_then(|mut news| {
        news.reads &= fixed(Right::News);
        news.posts &= fixed(Right::NewsReceive);
        (news.reads || news.posts).then_some(news)
    });
    cut.capabilities.retain(|capability| sees(Right::Capability(&capability.id)));
    cut
}
