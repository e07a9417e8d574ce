//! `Health`: how the store is, for `/ready` and the operators' page.

use std::time::Duration;

/// How a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// `memory`, `embedded`.
    pub engine: &'static str,
    /// What an acknowledged item survives, as a sentence.
    pub promise: &'static str,
    /// Pages and records can be read.
    pub readable: bool,
    /// Changes can be made.
    pub writable: bool,
    /// Why not, or what else is wrong, as a sentence that says what to do.
    pub problem: Option<String>,
    /// How far the newest timestamp lies in the future: the clock was ahead once and has stepped back.
    pub clock_ahead: Duration,
    /// How many feeds there are.
    pub feeds: u64,
    /// Bytes of all items.
    pub bytes: u64,
    /// Items that retention and caps have removed since the store was opened here; those that another process removes
    /// are counted there. `None` where the engine removes them itself and does not count.
    pub removed: Option<u64>,
}

/// From here on a clock that was ahead is worth a warning.
pub const CLOCK_AHEAD_ALARM: Duration = Duration::from_mins(1);
