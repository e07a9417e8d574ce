//! Order: random schedules of posts, commits, crashes, clocks and polls, and a judge who sees whether a poller was
//! shown an item twice or never. The same schedules run over a simulation with one mistake each, to show that the
//! judge would notice.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

use super::{Bench, TestClock, draft, limits, session};
use crate::restap::Since;
use crate::store::engine::Reader;
use crate::store::settings::{NewsSettings, Retention};
use crate::store::{Clock, FeedId, NewItem, PageRequest, Store};

const FEEDS: usize = 2;
const AGE: Duration = Duration::from_mins(10);

/// A schedule, and what is kept while it runs.
#[derive(Debug, Clone)]
struct Schedule {
    items_kept: u64,
    steps: Vec<Step>,
}

#[derive(Debug, Clone)]
enum Step {
    /// A post arrives.
    Arrive { feed: usize },
    /// Up to so many of the posts that wait get their times.
    Begin { posts: usize },
    /// What has begun is stored, and its callers are told.
    Commit,
    /// A poller asks; the reply may be lost, and a commit may fall into the middle of the read.
    Poll { poller: usize, limit: u32, lost: bool, across: bool },
    /// The clock moves, in milliseconds.
    Clock(i64),
    /// What is too old is dropped.
    Sweep,
    /// The process dies and another one takes its place. What had begun is lost.
    Crash,
}

fn schedule() -> impl Strategy<Value = Schedule> {
    let step = prop_oneof![
        6 => (0..FEEDS).prop_map(|feed| Step::Arrive { feed }),
        4 => (1..4_usize).prop_map(|posts| Step::Begin { posts }),
        4 => Just(Step::Commit),
        6 => (0..POLLERS, 1..4_u32, prop::bool::weighted(0.2), any::<bool>())
            .prop_map(|(poller, limit, lost, across)| Step::Poll { poller, limit, lost, across }),
        3 => (0..3_i64).prop_map(Step::Clock),
        1 => prop_oneof![-3_000..0_i64, Just(-700_000), Just(700_000)].prop_map(Step::Clock),
        1 => Just(Step::Sweep),
        1 => Just(Step::Crash),
    ];
    (prop_oneof![Just(3_u64), Just(10_000)], prop::collection::vec(step, 1..80))
        .prop_map(|(items_kept, steps)| Schedule { items_kept, steps })
}

/// One of each kind for each feed.
const POLLERS: usize = 2 * FEEDS;

/// A page as the judge sees it.
struct Reply {
    items: Vec<(u64, u64)>,
    timestamp: u64,
    more: bool,
    oldest: Option<u64>,
}

/// What went wrong for a poller.
#[derive(Debug, PartialEq, Eq)]
enum Wrong {
    Repeated,
    Skipped,
    OutOfOrder,
}

/// Follows the feeds as clients do.
struct Judge {
    pollers: Vec<Poller>,
    /// Of every feed: items that somebody was told are stored, with their times.
    acknowledged: Vec<HashMap<u64, u64>>,
}

struct Poller {
    feed: usize,
    /// Sends the page's `timestamp` next, or else its last item's.
    by_timestamp: bool,
    since: u64,
    seen: HashSet<u64>,
    /// What retention has dropped before it was read.
    excused_below: u64,
}

impl Judge {
    fn new() -> Self {
        let poller = |index| Poller {
            feed: index % FEEDS,
            by_timestamp: index < FEEDS,
            since: 1,
            seen: HashSet::new(),
            excused_below: 0,
        };
        Self { pollers: (0..POLLERS).map(poller).collect(), acknowledged: vec![HashMap::new(); FEEDS] }
    }

    fn receive(&mut self, poller: usize, reply: &Reply) -> Result<(), Wrong> {
        let poller = &mut self.pollers[poller];
        poller.excused_below = poller.excused_below.max(reply.oldest.unwrap_or(reply.timestamp + 1));
        let mut last = 0;
        for (item, timestamp) in &reply.items {
            if *timestamp <= last {
                return Err(Wrong::OutOfOrder);
            }
            if !poller.seen.insert(*item) {
                return Err(Wrong::Repeated);
            }
            last = *timestamp;
        }
        if poller.by_timestamp {
            poller.since = reply.timestamp;
        } else if last > 0 {
            poller.since = last;
        }
        Ok(())
    }

    fn finish(&self) -> Result<(), Wrong> {
        for poller in &self.pollers {
            let missed = self.acknowledged[poller.feed]
                .iter()
                .any(|(item, timestamp)| *timestamp >= poller.excused_below && !poller.seen.contains(item));
            if missed {
                return Err(Wrong::Skipped);
            }
        }
        Ok(())
    }
}

/// A mistake that a store could make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    /// Times of items and replies are those of the clock.
    ClockAlone,
    /// An item's time is when its post arrived.
    TimeOfArrival,
    /// The reply says what the clock says, while a commit of that time is under way.
    ReplyIsNow,
    /// The reply says what the clock says, later items are above it, and a crash forgets that.
    FloorInMemory,
    /// All items of a commit have one time, and a page may end among them.
    OneTimeACommit,
    /// The last timestamp is read before the items, in another snapshot.
    LastBeforeItems,
    /// Or after them.
    LastAfterItems,
    /// The last timestamp is that of the items that are still kept.
    LastOfKept,
}

/// A store whose commits take time.
struct Simulation {
    mistake: Mistake,
    clock: Arc<TestClock>,
    items_kept: usize,
    feeds: Vec<SimulatedFeed>,
    begun: Vec<Post>,
    /// Not stored.
    floor: u64,
}

#[derive(Default)]
struct SimulatedFeed {
    /// Item, time, when received.
    items: Vec<(u64, u64, u64)>,
    last: u64,
    /// As the transaction that has begun sees it.
    begun_last: u64,
}

#[derive(Debug, Clone, Copy)]
struct Post {
    item: u64,
    feed: usize,
    arrived: u64,
    timestamp: u64,
}

impl Simulation {
    fn new(mistake: Mistake, clock: Arc<TestClock>, items_kept: u64) -> Self {
        let feeds = (0..FEEDS).map(|_| SimulatedFeed::default()).collect();
        Self { mistake, clock, items_kept: items_kept as usize, feeds, begun: Vec::new(), floor: 0 }
    }

    fn last(&self, feed: usize) -> u64 {
        let feed = &self.feeds[feed];
        match self.mistake {
            Mistake::LastOfKept => feed.items.iter().map(|item| item.1).max().unwrap_or(0),
            _ => feed.last,
        }
    }

    fn begin(&mut self, posts: Vec<Post>) {
        let now = self.clock.unix_ms();
        for feed in 0..FEEDS {
            self.feeds[feed].begun_last = self.last(feed);
        }
        let before: Vec<_> = self.feeds.iter().map(|feed| feed.begun_last).collect();
        for mut post in posts {
            let feed = &mut self.feeds[post.feed];
            post.timestamp = match self.mistake {
                Mistake::ClockAlone => now,
                Mistake::TimeOfArrival => post.arrived,
                Mistake::OneTimeACommit => now.max(before[post.feed] + 1),
                Mistake::FloorInMemory => now.max(feed.begun_last.max(self.floor) + 1),
                _ => now.max(feed.begun_last + 1),
            };
            feed.begun_last = post.timestamp;
            self.begun.push(post);
        }
    }

    fn commit(&mut self) -> Vec<Post> {
        let now = self.clock.unix_ms();
        let posts = std::mem::take(&mut self.begun);
        for post in &posts {
            let feed = &mut self.feeds[post.feed];
            feed.items.push((post.item, post.timestamp, now));
            feed.items.sort_by_key(|item| item.1);
            feed.last = feed.last.max(post.timestamp);
            let excess = feed.items.len().saturating_sub(self.items_kept);
            feed.items.drain(..excess);
        }
        posts
    }

    fn sweep(&mut self) {
        let now = self.clock.unix_ms();
        for feed in &mut self.feeds {
            let aged = |item: &&(u64, u64, u64)| item.2 + (AGE.as_millis() as u64) < now;
            let aged = feed.items.iter().take_while(aged).count();
            feed.items.drain(..aged);
        }
    }

    fn crash(&mut self) {
        self.begun.clear();
        self.floor = 0;
    }

    /// The page, and what was committed in the middle of reading it.
    fn read(&mut self, feed: usize, since: u64, limit: u32, across: bool) -> (Reply, Vec<Post>) {
        let now = self.clock.unix_ms();
        let (before, mut committed) = (self.last(feed), Vec::new());
        if across && self.mistake == Mistake::LastBeforeItems {
            committed = self.commit();
        }
        let mut items: Vec<_> = self.feeds[feed].items.iter().filter(|item| item.1 > since).copied().collect();
        let oldest = self.feeds[feed].items.first().map(|item| item.1);
        if across && self.mistake == Mistake::LastAfterItems {
            committed = self.commit();
        }
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        let last = match self.mistake {
            Mistake::ClockAlone | Mistake::ReplyIsNow => now,
            Mistake::LastBeforeItems => before,
            Mistake::FloorInMemory => {
                let under_way = self.begun.iter().filter(|post| post.feed == feed).map(|post| post.timestamp - 1);
                self.floor = self.floor.max(now);
                under_way.min().unwrap_or(now.max(self.last(feed)))
            }
            _ => self.last(feed),
        };
        let timestamp = if more { items.last().map_or(last, |item| item.1) } else { last.max(1) };
        let items = items.into_iter().map(|item| (item.0, item.1)).collect();
        (Reply { items, timestamp, more, oldest }, committed)
    }
}

fn simulate(mistake: Mistake, schedule: &Schedule) -> Result<(), Wrong> {
    let clock = TestClock::new();
    let mut store = Simulation::new(mistake, clock.clone(), schedule.items_kept);
    let (mut judge, mut waiting, mut next) = (Judge::new(), Vec::new(), 0);
    let acknowledge = |judge: &mut Judge, posts: Vec<Post>| {
        for post in posts {
            judge.acknowledged[post.feed].insert(post.item, post.timestamp);
        }
    };
    for step in &schedule.steps {
        match *step {
            Step::Arrive { feed } => {
                waiting.push(Post { item: next, feed, arrived: clock.unix_ms(), timestamp: 0 });
                next += 1;
            }
            Step::Begin { posts } if store.begun.is_empty() => {
                // The last to come may be the first to be stored.
                let first = waiting.len().saturating_sub(posts);
                store.begin(waiting.drain(first..).rev().collect());
            }
            Step::Begin { .. } => {}
            Step::Commit => acknowledge(&mut judge, store.commit()),
            Step::Poll { poller, limit, lost, across } => {
                let Poller { feed, since, .. } = judge.pollers[poller];
                let (reply, committed) = store.read(feed, since, limit, across);
                acknowledge(&mut judge, committed);
                if !lost {
                    judge.receive(poller, &reply)?;
                }
            }
            Step::Clock(milliseconds) => clock.step(milliseconds),
            Step::Sweep => store.sweep(),
            Step::Crash => store.crash(),
        }
    }
    acknowledge(&mut judge, store.commit());
    for poller in 0..POLLERS {
        loop {
            let Poller { feed, since, .. } = judge.pollers[poller];
            let (reply, _) = store.read(feed, since, 3, false);
            judge.receive(poller, &reply)?;
            if !reply.more {
                break;
            }
        }
    }
    judge.finish()
}

/// The first schedule of many that goes wrong.
fn search(mistake: Mistake, schedules: usize) -> Option<Wrong> {
    let mut runner = TestRunner::deterministic();
    (0..schedules).find_map(|_| simulate(mistake, &schedule().new_tree(&mut runner).unwrap().current()).err())
}

#[test]
fn the_algorithm_survives_every_schedule() {
    assert_eq!(search(Mistake::None, 3_000), None);
}

#[test]
fn every_known_mistake_is_noticed() {
    for mistake in [
        Mistake::ClockAlone,
        Mistake::TimeOfArrival,
        Mistake::ReplyIsNow,
        Mistake::FloorInMemory,
        Mistake::OneTimeACommit,
        Mistake::LastBeforeItems,
        Mistake::LastAfterItems,
        Mistake::LastOfKept,
    ] {
        assert!(search(mistake, 3_000).is_some(), "{mistake:?}");
    }
}

/// The schedules on the engine itself, each in feeds of its own.
pub(crate) async fn pollers_see_every_item_once_whatever_happens(bench: Bench) {
    let mut runner = TestRunner::deterministic();
    let mut handles = [(bench.open)(limits()), (bench.open)(limits())];
    for case in 0..40 {
        let schedule = schedule().new_tree(&mut runner).unwrap().current();
        let outcome = run(&bench, &mut handles, &format!("case {case}"), &schedule).await;
        assert_eq!(outcome, Ok(()), "{schedule:#?}");
    }
}

async fn run(bench: &Bench, handles: &mut [Arc<Store>; 2], agent: &str, schedule: &Schedule) -> Result<(), Wrong> {
    let retention = Retention { items: schedule.items_kept, age: AGE, ..Retention::default() };
    let configure = |store: &Store| store.configure(&[(agent, NewsSettings { retention, ..NewsSettings::default() })]);
    for store in handles.iter() {
        configure(store);
    }
    let feed = |store: &Store, feed: usize| {
        let named = session("s");
        store.keys().feed(store.keys().agent(agent), (feed == 1).then_some(&named))
    };
    let (mut judge, mut waiting, mut begun, mut next) = (Judge::new(), Vec::new(), Vec::new(), 0_u64);
    for (turn, step) in schedule.steps.iter().enumerate() {
        let [store, other] = [0, 1].map(|handle| handles[(turn + handle) % 2].clone());
        match *step {
            Step::Arrive { feed } => {
                waiting.push((next, feed));
                next += 1;
            }
            Step::Begin { posts } => {
                let first = waiting.len().saturating_sub(posts);
                begun.extend(waiting.drain(first..).rev());
            }
            Step::Commit => commit(&store, &feed, &mut begun, &mut judge).await,
            Step::Poll { poller, limit, lost, across } => {
                let Poller { feed: which, since, .. } = judge.pollers[poller];
                let read = read(&other, feed(&other, which), since, limit);
                let reply = if across {
                    tokio::join!(read, commit(&store, &feed, &mut begun, &mut judge)).0
                } else {
                    read.await
                };
                if !lost {
                    judge.receive(poller, &reply)?;
                }
            }
            Step::Clock(milliseconds) => bench.clock.step(milliseconds),
            Step::Sweep => {
                let elsewhere = store.keys().feed(store.keys().agent("elsewhere"), None);
                store.try_post(elsewhere, "x").await.ok();
            }
            Step::Crash if bench.durable => {
                begun.clear();
                handles[turn % 2].close().await;
                handles[turn % 2] = (bench.open)(limits());
                configure(&handles[turn % 2]);
            }
            Step::Crash => begun.clear(),
        }
    }
    commit(&handles[0], &feed, &mut begun, &mut judge).await;
    for poller in 0..POLLERS {
        loop {
            let Poller { feed: which, since, .. } = judge.pollers[poller];
            let reply = read(&handles[1], feed(&handles[1], which), since, 3).await;
            judge.receive(poller, &reply)?;
            if !reply.more {
                break;
            }
        }
    }
    judge.finish()
}

async fn commit(
    store: &Arc<Store>,
    feed: &impl Fn(&Store, usize) -> FeedId,
    begun: &mut Vec<(u64, usize)>,
    judge: &mut Judge,
) {
    let mut posts = tokio::task::JoinSet::new();
    for (item, which) in begun.drain(..) {
        let (store, feed) = (store.clone(), feed(store, which));
        posts.spawn(async move {
            let draft = draft(&item.to_string());
            let posted = store.append(NewItem { feed, opener: None, draft: &draft, once: None }).await;
            (item, which, posted.unwrap().timestamp)
        });
    }
    while let Some(posted) = posts.join_next().await {
        let (item, which, timestamp) = posted.unwrap();
        judge.acknowledged[which].insert(item, timestamp);
    }
}

async fn read(store: &Store, feed: FeedId, since: u64, limit: u32) -> Reply {
    let request = PageRequest { feed, reader: Reader::Agent, since: &Since::Time(since), limit, query: None };
    let page = store.page(request).await.unwrap();
    Reply {
        items: page
            .items
            .iter()
            .map(|item| (item.read().unwrap().draft.message.parse().unwrap(), item.timestamp))
            .collect(),
        timestamp: page.timestamp,
        more: page.more,
        oldest: page.oldest,
    }
}
