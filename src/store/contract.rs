//! The contract of an engine, as tests: [`hold`] runs all of them over one. Every engine passes the same.

mod crowd;
mod feeds;
mod order;
mod rates;
mod records;
mod shared;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::engine::{Bounds, Engine, Limits, Reader};
use super::settings::{NewsSettings, Retention};
use super::{AgentId, Clock, FeedId, Keys, NewItem, Page, PageRequest, Receipt, Store, StoreError};
use crate::restap::{NewsDraft, SessionId, Since};
use crate::yaml::Secret;

pub(crate) use crowd::*;
pub(crate) use feeds::*;
pub(crate) use order::*;
pub(crate) use rates::*;
pub(crate) use records::*;
pub(crate) use shared::*;
pub(super) use shared::{hold_shared, post_one, read_all, wait_until};

/// Makes a test of every function of the contract; `$bench` is a function that returns a [`Bench`], or
/// `None` where the engine's server is not installed.
macro_rules! hold {
    ($bench:path) => {
        $crate::store::contract::hold! { $bench:
            an_item_is_read_back_as_it_was_posted
            a_feed_without_items_says_1_and_then_shows_everything
            without_since_the_newest_come_in_ascending_order
            with_since_the_oldest_after_it_come
            a_since_above_the_last_timestamp_gets_that_timestamp
            an_id_reads_on_behind_its_item
            an_invented_id_is_refused
            an_id_of_a_dropped_item_reads_from_the_oldest_kept
            timestamps_rise_whatever_the_clock_does
            a_burst_is_taken_and_then_one_item_a_millisecond
            a_session_has_a_feed_of_its_own
            a_feed_that_a_verified_caller_opened_is_read_by_that_caller_only
            a_turn_of_talk_opens_a_feed_too
            retention_bounds_the_items
            retention_bounds_the_bytes
            retention_bounds_the_age
            a_smaller_retention_holds_from_the_next_write_on
            an_item_that_no_feed_could_keep_is_refused
            the_least_recently_used_session_feed_goes_first
            a_dropped_feed_begins_again_above_what_it_was
            bytes_of_an_agent_are_capped_and_its_own_feed_stays
            bytes_of_the_store_are_capped_for_the_heaviest_agent
            items_of_a_query_are_found_by_all_that_names_it
            a_repeat_with_the_same_key_gets_the_first_receipt
            every_append_of_many_at_once_gets_its_own_time
            an_append_whose_caller_left_is_still_made
            an_arrival_wakes_who_waits
            a_closed_store_is_unavailable
            two_handles_see_the_same
            a_lease_has_one_holder
            a_lease_ends_by_itself
            a_request_with_a_key_runs_once
            a_key_is_free_again_after_an_error
            an_answer_is_kept_for_a_day
            answers_are_capped_by_caller
            a_conversation_is_read_back
            two_turns_at_once_do_not_overwrite_each_other
            a_conversation_that_rested_for_too_long_is_new
            conversations_are_capped_and_the_oldest_go_first
            a_query_is_kept_and_answered_in_its_feed
            a_query_is_answered_once
            the_answer_of_a_query_belongs_to_the_owner_of_its_feed
            an_item_of_anothers_news_is_taken_in_once
            a_rate_takes_so_many_at_once_and_gives_them_back_evenly
            a_rate_is_counted_by_all_who_share_the_store
            a_clock_that_steps_back_locks_nobody_out
            counters_are_bounded_and_those_in_use_stay
            pollers_see_every_item_once_whatever_happens
            a_clock_set_back_an_hour_in_mid_run_changes_nothing
        }
    };
    ($bench:path: $($test:ident)*) => {
        $(
            #[tokio::test]
            async fn $test() {
                if let Some(bench) = Option::<$crate::store::contract::Bench>::from($bench()) {
                    $crate::store::contract::$test(bench).await;
                }
            }
        )*
    };
}
pub(super) use hold;

/// One engine under test.
pub(crate) struct Bench {
    pub(super) clock: Arc<TestClock>,
    /// Opens the same data once more, in a handle of its own where the engine allows that.
    pub(super) open: Box<dyn Fn(Limits) -> Arc<Store>>,
    /// What is written outlives the last handle.
    pub(super) durable: bool,
}

/// A clock that stands still until it is moved.
pub(crate) struct TestClock(AtomicU64);

impl TestClock {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(1_700_000_000_000)))
    }

    pub(super) fn forward(&self, time: Duration) {
        self.0.fetch_add(time.as_millis() as u64, Ordering::Relaxed);
    }

    pub(super) fn step(&self, milliseconds: i64) {
        self.0.store(self.unix_ms().saturating_add_signed(milliseconds), Ordering::Relaxed);
    }

    pub(super) fn back(&self, time: Duration) {
        self.0.fetch_sub(time.as_millis() as u64, Ordering::Relaxed);
    }
}

impl Clock for TestClock {
    fn unix_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The key of every store under test.
pub(super) fn key() -> Secret {
    Secret::new("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
}

/// A store on this engine, with the default retention.
pub(super) fn store(engine: impl Engine, bounds: Arc<Bounds>) -> Arc<Store> {
    Store::new(engine, Keys::parse(&key()).unwrap(), bounds)
}

pub(super) fn limits() -> Limits {
    Limits::default()
}

impl Bench {
    fn store(&self) -> Arc<Store> {
        (self.open)(limits())
    }
}

/// What the tests say of the agent `a`, its sessions and its callers.
impl Store {
    fn a(&self) -> AgentId {
        self.keys().agent("a")
    }

    fn own(&self) -> FeedId {
        self.keys().feed(self.a(), None)
    }

    fn session(&self, name: &str) -> FeedId {
        self.keys().feed(self.a(), Some(&session(name)))
    }

    async fn post(&self, feed: FeedId, message: &str) -> Receipt {
        self.try_post(feed, message).await.unwrap()
    }

    async fn try_post(&self, feed: FeedId, message: &str) -> Result<Receipt, StoreError> {
        self.append(NewItem { feed, opener: None, draft: &draft(message), once: None }).await
    }

    async fn read(&self, feed: FeedId, since: Since, limit: u32) -> Page {
        self.try_read(feed, since, limit).await.unwrap()
    }

    async fn try_read(&self, feed: FeedId, since: Since, limit: u32) -> Result<Page, StoreError> {
        self.page(PageRequest { feed, reader: Reader::Caller(None), since: &since, limit, query: None }).await
    }

    async fn newest(&self, feed: FeedId) -> Page {
        self.read(feed, Since::Newest, 1000).await
    }

    fn retain(&self, retention: Retention) {
        self.configure(&[("a", NewsSettings { retention, ..NewsSettings::default() })]);
    }
}

impl Page {
    fn messages(&self) -> Vec<String> {
        self.items.iter().map(|item| item.read().unwrap().draft.message).collect()
    }
}

fn draft(message: &str) -> NewsDraft {
    NewsDraft { kind: "note".into(), message: message.into(), ..NewsDraft::default() }
}

fn session(name: &str) -> SessionId {
    SessionId::parse(&format!("session-{name:0>16}")).unwrap()
}
