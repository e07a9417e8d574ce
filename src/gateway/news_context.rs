//! News that reach a model with the next turn, once.

use super::Gateway;
use super::live::{Agent, Talk};
use super::thread::Thread;
use crate::restap::{NewsItem, Since};
use crate::store::{FeedId, PageRequest, Reader, StoreError};
use crate::talk::news_note;
use crate::talk::settings::NewsFrom;

/// The note for this turn; notes in the thread what it holds. Without a thread there is no last turn, so that the
/// newest items of the agent's feed reach every talk.
pub(super) async fn read(
    gateway: &Gateway,
    agent: &Agent,
    talk: &Talk,
    thread: Option<&mut Thread>,
) -> Result<Option<String>, StoreError> {
    if talk.news.items == 0 || agent.news.is_none() || talk.upstream.is_none() {
        return Ok(None);
    }
    let keys = gateway.store.keys();
    let mut items = Vec::new();
    let wants = |from| talk.news.from == from || talk.news.from == NewsFrom::Both;
    match thread {
        Some(thread) => {
            if wants(NewsFrom::Session) && talk.remembers() && !thread.is_new() {
                let feed = keys.feed(agent.id, Some(&thread.session_id));
                let seen = &mut thread.news().session;
                items.extend(since(gateway, feed, seen, talk.news.items).await?);
            }
            if wants(NewsFrom::Agent) {
                let feed = keys.feed(agent.id, None);
                let seen = &mut thread.news().agent;
                items.extend(since(gateway, feed, seen, talk.news.items).await?);
            }
        }
        None if wants(NewsFrom::Agent) => {
            items.extend(since(gateway, keys.feed(agent.id, None), &mut 0, talk.news.items).await?);
        }
        None => {}
    }
    items.sort_by_key(|item| item.timestamp);
    Ok(news_note::note(&items, talk.news))
}

/// The newest items after `seen`, which moves on to the feed's end.
async fn since(gateway: &Gateway, feed: FeedId, seen: &mut u64, items: u32) -> Result<Vec<NewsItem>, StoreError> {
    let page = gateway.store.page(PageRequest {
        feed,
        reader: Reader::Agent,
        since: &Since::Newest,
        limit: items,
        query: None,
    });
    let page = page.await?;
    let before = std::mem::replace(seen, page.timestamp);
    let new = page.items.iter().filter(|item| item.timestamp > before);
    new.map(crate::store::Item::read).collect()
}
