//! `Turn`: one message and its reply, as a state machine that the gateway drives.
//!
//! The gateway tells it what the upstream did and what time it is, and does what the [`Step`] says. Nothing here waits:
//!
//! ```text
//! let mut turn = Turn::begin(opening, now);      // then send the request
//! turn.head(status, headers, now)                // then each turn.chunk(…), and turn.end(…) or turn.reset(…)
//! turn.fail(Failure::unreachable())              // in place of a head
//! turn.tick(now)                                 // at turn.next_deadline()
//! ```

mod opening;
mod step;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::dialect::{Decoder, ErrorReply, Event, Fault, Saved, UpstreamHead};
use super::failure::{Again, Failure};
use super::frames::Frames;
use crate::restap::talk::TalkReply;
use crate::restap::{Delivery, ErrorCode, SessionId};

pub use opening::{Carries, Opening, Timers};
pub use step::{Ending, Outcome, Step};

/// The longest wait for the first event before the head goes out without one.
pub const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// The longest silence between two writes of an open stream.
pub const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);
/// How long the upstream may still add usage or a sentinel after the end of its reply.
pub const GRACE: Duration = Duration::from_secs(1);
/// How long the body of an upstream's error is waited for.
pub const ERROR_BODY_WITHIN: Duration = Duration::from_secs(5);

/// One message and its reply. It has no `Debug`: it holds what must not be printed.
pub struct Turn {
    opening: Opening,
    phase: Phase,
    times: Times,
    frames: Frames,
    /// Whether the caller's head is out.
    opened: bool,
    heard: Heard,
    retried: bool,
    /// What one input brought; empty between two.
    events: Vec<Event>,
    outcome: Outcome,
}

/// The most that came of the upstream's reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Heard {
    Nothing,
    /// A frame, so that a failure is no longer an HTTP status.
    Frame,
    /// Text or a hint, so that a second attempt would say things twice.
    Words,
}

enum Phase {
    /// For the upstream's head.
    Waiting,
    /// For the rest of an error's body.
    Refused(Box<ErrorReply>),
    Reading(Box<Decoder>),
    /// For a query that is followed.
    Pending,
    Over,
}

#[derive(Debug)]
struct Times {
    began: Instant,
    /// When the request was sent, the last time.
    sent: Instant,
    last_byte: Instant,
    last_event: Instant,
    last_write: Instant,
    /// When the reply is over, its end being proven.
    settled: Option<Instant>,
}

impl Turn {
    /// Begins when the request is about to be sent.
    pub fn begin(mut opening: Opening, now: Instant) -> Self {
        let frames = Frames::new(std::mem::take(&mut opening.message_id), opening.session_id.clone());
        let times = Times { began: now, sent: now, last_byte: now, last_event: now, last_write: now, settled: None };
        Self {
            opening,
            phase: Phase::Waiting,
            times,
            frames,
            opened: false,
            heard: Heard::Nothing,
            retried: false,
            events: Vec::new(),
            outcome: Outcome::default(),
        }
    }

    /// The upstream's head.
    pub fn head(&mut self, status: StatusCode, headers: &HeaderMap, now: Instant) -> Step {
        if !matches!(self.phase, Phase::Waiting) {
            return Step::Wait;
        }
        self.times.last_byte = now;
        self.times.last_event = now;
        let head = UpstreamHead::new(status, headers);
        if !status.is_success() {
            self.phase = Phase::Refused(Box::new(ErrorReply::new(head)));
            return Step::Wait;
        }
        let opening = &self.opening;
        let (dialect, saved) = (Arc::clone(&opening.dialect), opening.saved.clone());
        match Decoder::new(dialect, opening.streamed, &head, opening.reply_limit, saved) {
            Ok(decoder) => {
                self.phase = Phase::Reading(Box::new(decoder));
                Step::Wait
            }
            Err(fault) => self.fault(fault),
        }
    }

    /// Bytes of the upstream's body, cut anywhere.
    pub fn chunk(&mut self, bytes: &[u8], now: Instant) -> Step {
        if bytes.is_empty() {
            return Step::Wait;
        }
        self.times.last_byte = now;
        match &mut self.phase {
            Phase::Refused(reply) => {
                if reply.push(bytes) {
                    return self.refuse();
                }
                Step::Wait
            }
            Phase::Reading(decoder) => {
                let read = decoder.push(bytes, &mut self.events);
                self.take_in(read, now).unwrap_or_else(|| self.go_on(now))
            }
            Phase::Waiting | Phase::Pending | Phase::Over => Step::Wait,
        }
    }

    /// The upstream's body ended as HTTP wants it.
    pub fn end(&mut self, now: Instant) -> Step {
        self.close(true, now)
    }

    /// The upstream's body broke off.
    pub fn reset(&mut self, now: Instant) -> Step {
        self.close(false, now)
    }

    /// Something else went wrong: no connection ([`Failure::unreachable`]), a shutdown, a followed query that failed.
    pub fn fail(&mut self, failure: Failure) -> Step {
        if matches!(self.phase, Phase::Over) {
            return Step::Wait;
        }
        self.fault(Fault { failure, again: None })
    }

    /// The whole text of a reply with a proven end that did not come as bytes: the guide's, or a followed query's.
    pub fn answer(&mut self, text: &str, now: Instant) -> Step {
        if matches!(self.phase, Phase::Over) {
            return Step::Wait;
        }
        if !text.is_empty() {
            self.tell(vec![Event::Text(text.to_owned())], now);
        }
        self.succeed(TalkReply { reply: text.to_owned(), ..TalkReply::default() })
    }

    /// The request is about to be sent again ([`Step::Retry`]).
    pub fn again(&mut self, now: Instant) {
        self.times.sent = now;
    }

    /// When [`Turn::tick`] is due at the latest; `None` once the turn is over.
    pub fn next_deadline(&self) -> Option<Instant> {
        if matches!(self.phase, Phase::Over) {
            return None;
        }
        let due = [self.timeout_at(), self.times.settled, self.keep_alive_at()];
        due.into_iter().flatten().min()
    }

    /// The time is `now`. May come at any time, also too early.
    pub fn tick(&mut self, now: Instant) -> Step {
        let is_due = |due: Option<Instant>| due.is_some_and(|due| due <= now);
        if matches!(self.phase, Phase::Over) {
            return Step::Wait;
        }
        if is_due(self.times.settled) {
            return self.settle(now);
        }
        if is_due(self.timeout_at()) {
            return if matches!(self.phase, Phase::Refused(_)) { self.refuse() } else { self.time_out() };
        }
        if is_due(self.keep_alive_at()) {
            self.frames.keep_alive();
            return self.flush(now);
        }
        Step::Wait
    }

    /// How it went; complete once the turn is over.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// What the next turn of this conversation gives to the upstream. Of a dialect whose conversation is minted it
    /// is stored after a proven end.
    pub fn saved(&self) -> &Saved {
        match &self.phase {
            Phase::Reading(decoder) => decoder.reply().saved(),
            _ => &self.opening.saved,
        }
    }

    fn close(&mut self, clean: bool, now: Instant) -> Step {
        match &mut self.phase {
            Phase::Waiting => {
                self.fault(Fault::upstream("the service behind this agent closed the connection without an answer"))
            }
            Phase::Refused(_) => self.refuse(),
            Phase::Reading(decoder) => {
                let read = decoder.finish(clean, &mut self.events);
                self.take_in(read, now).unwrap_or_else(|| self.complete())
            }
            Phase::Pending | Phase::Over => Step::Wait,
        }
    }

    /// Tells the caller what one input brought. A step, if it ended the reading.
    fn take_in(&mut self, read: Result<(), Fault>, now: Instant) -> Option<Step> {
        let mut events = std::mem::take(&mut self.events);
        let last_frame = events.iter().rposition(|event| *event == Event::Frame);
        if last_frame.is_some() {
            self.times.last_event = now;
        }
        if read.is_err() && self.heard == Heard::Nothing && !self.opened {
            // The frame that fails is no event before the failure, which can still be a status.
            events.truncate(last_frame.map_or(0, |index| index + 1));
        }
        self.tell(events, now);
        if let Err(fault) = read {
            return Some(self.fault(fault));
        }
        let Phase::Reading(decoder) = &self.phase else {
            return None;
        };
        let query_id = decoder.reply().pending()?.to_owned();
        self.enter(Phase::Pending);
        self.times.last_event = now;
        Some(Step::Pending(query_id))
    }

    /// Reads on, or not, after bytes that were no failure.
    fn go_on(&mut self, now: Instant) -> Step {
        if let Phase::Reading(decoder) = &self.phase {
            let reply = decoder.reply();
            if reply.is_stopped() {
                return self.settle(now);
            }
            if reply.is_complete() && self.times.settled.is_none() {
                self.times.settled = now.checked_add(GRACE);
            }
        }
        // An upstream that always has more bytes leaves nobody the time to tick.
        if self.next_deadline().is_some_and(|due| due <= now) {
            return self.tick(now);
        }
        self.flush(now)
    }

    /// The end is proven, and nothing more is read.
    fn settle(&mut self, now: Instant) -> Step {
        let Phase::Reading(decoder) = &mut self.phase else {
            return Step::Wait;
        };
        let settled = decoder.settle(&mut self.events);
        let events = std::mem::take(&mut self.events);
        self.tell(events, now);
        match settled {
            Ok(()) => self.complete(),
            Err(fault) => self.fault(fault),
        }
    }

    /// The reply was read to its end.
    fn complete(&mut self) -> Step {
        let Phase::Reading(decoder) = &self.phase else {
            return Step::Wait;
        };
        let reply = decoder.reply();
        let reply = TalkReply {
            reply: reply.text().to_owned(),
            session_id: None,
            finish_reason: reply.finish_reason().map(str::to_owned),
            usage: reply.usage(),
            suggested_actions: reply.suggested_actions().cloned(),
        };
        self.succeed(reply)
    }

    fn succeed(&mut self, mut reply: TalkReply) -> Step {
        self.enter(Phase::Over);
        reply.session_id.clone_from(&self.opening.session_id);
        self.outcome.reply = Some(reply.clone());
        match self.opening.delivery {
            Delivery::Json => Step::Over(Ending::Reply(reply)),
            Delivery::Stream => {
                if self.outcome.deltas == 0 {
                    self.frames.delta(String::new());
                }
                let rest = self.frames.take();
                self.frames.end(&reply);
                Step::Over(Ending::Stream { rest, end: self.frames.take() })
            }
        }
    }

    /// Goes into another phase, and keeps what the one before has found out.
    fn enter(&mut self, phase: Phase) {
        self.times.settled = None;
        if let Phase::Reading(decoder) = std::mem::replace(&mut self.phase, phase) {
            self.opening.saved.clone_from(decoder.reply().saved());
        }
    }

    fn refuse(&mut self) -> Step {
        match std::mem::replace(&mut self.phase, Phase::Waiting) {
            Phase::Refused(reply) => self.fault(reply.into_fault()),
            _ => Step::Wait,
        }
    }

    fn time_out(&mut self) -> Step {
        let message = match self.phase {
            Phase::Waiting => "the service behind this agent did not answer in time; try again later",
            _ => "the service behind this agent went quiet in the middle of its reply; try again later",
        };
        self.fault(Fault { failure: Failure::new(ErrorCode::UpstreamTimeout, message), again: None })
    }

    fn fault(&mut self, fault: Fault) -> Step {
        let Fault { mut failure, again } = fault;
        if let Some(again) = again.filter(|again| self.may_retry(*again)) {
            self.retried = true;
            self.enter(Phase::Waiting);
            if again == Again::WithoutSaved {
                self.opening.saved.clear();
            }
            return Step::Retry(again);
        }
        if self.opening.credential.as_ref().is_some_and(|secret| failure.message.contains(secret.expose())) {
            "the service behind this agent failed".clone_into(&mut failure.message);
        }
        self.enter(Phase::Over);
        self.outcome.failure = Some(failure.clone());
        if self.opened || self.frames.is_started() {
            self.frames.start();
            let rest = self.frames.take();
            self.frames.error(&failure);
            return Step::Over(Ending::Stream { rest, end: self.frames.take() });
        }
        Step::Over(Ending::Refused(failure))
    }

    /// Once, before anything was said, and only if the request carries what would be left out.
    fn may_retry(&self, again: Again) -> bool {
        let carries = match again {
            Again::WithHalfTheHistory => Carries::History,
            Again::WithoutSaved => Carries::Saved,
        };
        !self.retried && self.heard < Heard::Words && self.opening.carries == carries
    }

    fn tell(&mut self, events: Vec<Event>, now: Instant) {
        for event in events {
            self.heard = self.heard.max(if event == Event::Frame { Heard::Frame } else { Heard::Words });
            if let Event::Text(_) = event {
                self.outcome.deltas += 1;
                self.outcome.first_delta.get_or_insert(now - self.times.began);
            }
            if self.opening.delivery == Delivery::Stream {
                match event {
                    Event::Text(text) => self.frames.delta(text),
                    Event::Hint { name, fields } => self.frames.hint(name, fields),
                    Event::Frame => self.frames.start(),
                }
            }
        }
    }

    fn flush(&mut self, now: Instant) -> Step {
        let bytes = self.frames.take();
        if bytes.is_empty() {
            return Step::Wait;
        }
        self.opened = true;
        self.times.last_write = now;
        Step::Write(bytes)
    }

    fn timeout_at(&self) -> Option<Instant> {
        let (times, timers) = (&self.times, &self.opening.timers);
        let waits = match self.phase {
            Phase::Waiting => [(times.sent, timers.first_byte); 2],
            Phase::Refused(_) => [(times.last_event, ERROR_BODY_WITHIN); 2],
            Phase::Reading(_) => [(times.last_byte, timers.idle), (times.last_event, timers.progress)],
            Phase::Pending => [(times.last_event, timers.progress); 2],
            Phase::Over => return None,
        };
        let total = timers.total.map(|total| (times.began, total));
        // A wait that no clock can hold is none.
        waits.into_iter().chain(total).filter_map(|(since, wait)| since.checked_add(wait)).min()
    }

    fn keep_alive_at(&self) -> Option<Instant> {
        match (self.opening.delivery, self.opened) {
            (Delivery::Json, _) => None,
            (Delivery::Stream, false) => self.times.began.checked_add(HEAD_WITHIN),
            (Delivery::Stream, true) => self.times.last_write.checked_add(KEEP_ALIVE_EVERY),
        }
    }
}

/// The frames of a reply that is complete already: start, one delta, end, done. They differ from the first time in
/// nothing but where the text was cut.
pub fn replay(reply: &TalkReply, message_id: String, session_id: Option<SessionId>) -> Bytes {
    let mut frames = Frames::new(message_id, session_id);
    frames.delta(reply.reply.clone());
    frames.end(reply);
    frames.take()
}

#[cfg(test)]
mod tests;
