//! One file per kind of route.

pub(super) mod capability;
pub(super) mod discovery;
pub(super) mod health;
pub(super) mod key_set;
pub(super) mod news;
pub(super) mod options;
pub(super) mod query;
pub(super) mod rest_request;
pub(super) mod talk;

use std::sync::Arc;

use pingora::proxy::Session;

use super::Gateway;
use super::admission::Route;
use super::ctx::RequestCtx;
use super::error::Refusal;
use super::respond::Failed;
use super::router::Fixed;

/// Answers a request; `false` leaves it to Pingora's hooks. The large handlers are boxed, so that a capability's request,
/// which is the most frequent one, does not carry their size.
pub(super) async fn answer(
    gateway: &Arc<Gateway>,
    session: &mut Session,
    ctx: &mut RequestCtx,
    route: Route,
) -> Result<bool, Failed> {
    match route {
        Route::Capability(agent, call, params) => {
            ctx.proxied = capability::answer(gateway, session, ctx, (&agent, &call, params)).await?;
            return Ok(ctx.proxied.is_none());
        }
        Route::Fixed(agent, fixed, path) => match fixed {
            Fixed::Talk => {
                let talk = agent.talk.as_ref().ok_or_else(|| Refusal::not_found(&agent.base_path))?;
                Box::pin(talk::answer(gateway, session, ctx, (&agent, talk))).await?;
            }
            Fixed::News => {
                let news = agent.news.as_ref().ok_or_else(|| Refusal::not_found(&agent.base_path))?;
                Box::pin(news::answer(gateway, session, ctx, (&agent, news))).await?;
            }
            Fixed::Query => query::answer(gateway, session, ctx, (&agent, path.as_str())).await?,
            Fixed::RestRequest => Box::pin(rest_request::answer(gateway, session, ctx, &agent)).await?,
            Fixed::Health => health::answer(session, ctx, &agent).await?,
            Fixed::KeySet => key_set::answer(session, ctx, &agent).await?,
            Fixed::KeyDirectory => key_set::answer_directory(session, ctx, Some(&agent)).await?,
            Fixed::Reserved => return Err(Refusal::not_found(&agent.base_path).into()),
            Fixed::Root | Fixed::Catalog | Fixed::CapabilityDocument | Fixed::Skill => {
                discovery::answer(session, ctx, (&agent, fixed, path.as_str())).await?;
            }
        },
        Route::Directory => {
            let live = ctx.live.clone();
            discovery::send(session, ctx, &live.directory.root).await?;
        }
        Route::ApiCatalog => {
            let live = ctx.live.clone();
            discovery::send(session, ctx, &live.directory.api_catalog).await?;
        }
        Route::Tool(agent) => Box::pin(rest_request::answer(gateway, session, ctx, &agent)).await?,
        Route::KeyDirectory => key_set::answer_directory(session, ctx, None).await?,
        Route::Options(allow) => options::answer(session, ctx, &allow).await?,
    }
    Ok(true)
}
