//! Threads that do one thing again and again, and how fast they are.

use std::fmt;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// Feeds that everything is spread over.
pub(crate) const FEEDS: usize = 1_000;

/// Makes what one thread does, given its number; that is given the number of a feed each time.
pub(crate) type Task<'a> = Box<dyn Fn(usize) -> Box<dyn FnMut(usize)> + Sync + 'a>;

/// A feed far from the one before, so that no two threads go side by side.
const STEP: usize = 61;

/// What was seen in one period, or the median of several.
#[derive(Clone, Copy)]
pub(crate) struct Measured {
    /// A second.
    rate: f64,
    /// In microseconds.
    p50: f64,
    p99: f64,
}

/// Does it with so many threads for so long, with one feed after another of so many.
pub(crate) fn run(task: &Task<'_>, threads: usize, feeds: usize, period: Duration) -> Measured {
    // Connections are made before the time begins.
    let ready = Barrier::new(threads);
    let each = thread::scope(|scope| {
        let each: Vec<_> = (0..threads)
            .map(|number| {
                let ready = &ready;
                scope.spawn(move || {
                    let mut act = task(number);
                    ready.wait();
                    let (began, mut took, mut feed) = (Instant::now(), Vec::new(), number * 7919);
                    while began.elapsed() < period {
                        let asked = Instant::now();
                        act(feed % feeds);
                        took.push(asked.elapsed().as_secs_f64() * 1e6);
                        feed += STEP;
                    }
                    (took, began.elapsed().as_secs_f64())
                })
            })
            .collect();
        each.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let rate = each.iter().map(|(took, seconds)| took.len() as f64 / seconds).sum();
    let mut all: Vec<f64> = each.into_iter().flat_map(|(took, _)| took).collect();
    all.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| all[((all.len() as f64 * share) as usize).min(all.len() - 1)];
    Measured { rate, p50: at(0.5), p99: at(0.99) }
}

impl Measured {
    pub(crate) fn median(all: &[Self]) -> Option<Self> {
        let middle = |of: fn(&Self) -> f64| {
            let mut values: Vec<f64> = all.iter().map(of).collect();
            values.sort_unstable_by(f64::total_cmp);
            values.get(values.len() / 2).copied()
        };
        Some(Self {
            rate: middle(|measured| measured.rate)?,
            p50: middle(|measured| measured.p50)?,
            p99: middle(|measured| measured.p99)?,
        })
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>9.0}/s  p50 {:>7.0} us  p99 {:>8.0} us", self.rate, self.p50, self.p99)
    }
}
