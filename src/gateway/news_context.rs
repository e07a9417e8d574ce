//! News that reach a model with the next turn, once.

use super::Gateway;
use super::live::{Agent, Talk};
use super::queries;
use super::thread::Thread;
use crate::restap::{NewsItem, Since};
use crate::store::{CallerId, FeedId, PageRequest, Reader, StoreError};
use crate::talk::news_note;
use crate::talk::settings::NewsFrom;

/// The note for this turn; notes in the thread what it holds. Without a thread there is no last turn, so that the
/// newest items of the agent's feed reach every talk.
pub(super) async fn read(
    gateway: &Gateway,
    (agent, talk): (&Agent, &Talk),
    caller: Option<CallerId>,
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
                // A feed that another caller has opened holds nothing that this one may be told.
                match since(gateway, (feed, Reader::Caller(caller)), seen, talk.news.items).await {
                    Err(StoreError::NotOwner) => {}
                    news => items.extend(news?.into_iter().filter(|item| !is_known(item)).map(|item| item.item)),
                }
            }
            if wants(NewsFrom::Agent) {
                let feed = keys.feed(agent.id, None);
                let seen = &mut thread.news().agent;
                items.extend(
                    since(gateway, (feed, Reader::Agent), seen, talk.news.items)
                        .await?
                        .into_iter()
                        .map(|item| item.item),
                );
            }
        }
        None if wants(NewsFrom::Agent) => {
            let news = since(gateway, (keys.feed(agent.id, None), Reader::Agent), &mut 0, talk.news.items).await?;
            items.extend(news.into_iter().map(|item| item.item));
        }
        None => {}
    }
    items.sort_by_key(|item: &NewsItem| item.timestamp);
    Ok(news_note::note(&items, talk.news))
}

/// An item, and whether the gateway itself wrote it as the answer of a query.
struct News {
    item: NewsItem,
    is_answer: bool,
}

/// Whether the model knows an item of its session's feed: the reply of a talk that was answered later is a turn of the
/// conversation like any other, so that its history, or the service's own, has it. Of a turn that failed nothing was
/// kept, and its item is all that tells of it. In the agent's own feed stand the replies of other conversations.
fn is_known(news: &News) -> bool {
    news.is_answer && news.item.draft.kind == queries::COMPLETED && !news.item.draft.message.is_empty()
}

/// The newest items after `seen`, which moves on to the feed's end.
async fn since(
    gateway: &Gateway,
    (feed, reader): (FeedId, Reader),
    seen: &mut u64,
    items: u32,
) -> Result<Vec<News>, StoreError> {
    let page = gateway.store.page(PageRequest { feed, reader, since: &Since::Newest, limit: items, query: None });
    let page = page.await?;
    let before = std::mem::replace(seen, page.timestamp);
    let new = page.items.iter().filter(|item| item.timestamp > before);
    new.map(|item| Ok(News { item: item.read()?, is_answer: item.is_answer() })).collect()
}
