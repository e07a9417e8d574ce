//! Any RESTAP server held against the protocol's text, rule by rule. What was asked and what came back is data here:
//! [`Seen`] in, [`Report`] out. `cli/probe` does the asking.
//!
//! Only the text counts (RESTAP 0.1.4-beta). What a server does not offer is no fault of it, and a SHOULD is a warning.

mod capability;
mod catalog;
mod entropy;
mod news;
mod offers;
mod report;
mod rule;
mod seen;
mod stream;
mod talk;

pub use offers::{NewsSessions, Offers, SafeGet};
pub use report::{Entry, Outcome, Report, Verdict};
pub use rule::{ALL, Level, Rule};
pub use seen::{Answer, Flaw, Got, NewsSeen, Reply, Seen, TalkSeen};

/// The text that servers are held against.
pub const TEXT: &str = "RESTAP 0.1.4-beta";

/// Judges everything that was seen.
pub fn judge(seen: &Seen) -> Report {
    let offers = Offers::of(seen.catalog.value().as_ref());
    let mut report = Report::default();
    catalog::judge(seen, &mut report);
    talk::judge(seen, &offers, &mut report);
    stream::judge(seen, &offers, &mut report);
    news::judge(seen, &offers, &mut report);
    capability::judge(seen, &mut report);
    report
}

#[cfg(test)]
mod tests;
