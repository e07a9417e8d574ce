//! What a stateless upstream is reminded of: whole exchanges, in a window.

use serde::{Deserialize, Serialize};

use super::settings;

/// Bytes of text that count as one token. An estimate: no tokenizer is asked.
const BYTES_PER_TOKEN: usize = 4;

/// One message of a user and the proven reply to it. They are stored and dropped as a pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// What the user said.
    pub user: String,
    /// The whole text of the reply.
    pub assistant: String,
}

/// The exchanges of one conversation, oldest first, as the store keeps them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct History(Vec<Exchange>);

impl Exchange {
    fn tokens(&self) -> usize {
        (self.user.len() + self.assistant.len()).div_ceil(BYTES_PER_TOKEN)
    }
}

impl History {
    /// Adds an exchange and forgets what no window will show again. A reply without text is not kept: services refuse
    /// an empty turn of theirs.
    pub fn push(&mut self, exchange: Exchange, limits: settings::History) {
        if !exchange.assistant.is_empty() {
            self.0.push(exchange);
        }
        let forgotten = self.0.len() - self.window(limits).len();
        self.0.drain(..forgotten);
    }

    /// The newest exchanges that the limits allow. It begins with a user's message, whatever was dropped.
    pub fn window(&self, limits: settings::History) -> &[Exchange] {
        let mut tokens = limits.tokens as usize;
        let fits = |exchange: &&Exchange| {
            let left = tokens.checked_sub(exchange.tokens());
            tokens = left.unwrap_or_default();
            left.is_some()
        };
        let newest = self.0.iter().rev().take(limits.turns as usize).take_while(fits).count();
        self.0.get(self.0.len() - newest..).unwrap_or_default()
    }
}

/// The newer half of a window, for a second attempt after the upstream's context overflowed. Of one exchange nothing
/// is left.
pub fn half(window: &[Exchange]) -> &[Exchange] {
    window.get(window.len().div_ceil(2)..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn exchange(number: usize, bytes: usize) -> Exchange {
        Exchange { user: format!("{number}"), assistant: "x".repeat(bytes) }
    }

    fn limits(turns: u32, tokens: u32) -> settings::History {
        settings::History { turns, tokens, ttl: Duration::from_secs(1) }
    }

    fn users(window: &[Exchange]) -> Vec<&str> {
        window.iter().map(|exchange| exchange.user.as_str()).collect()
    }

    #[test]
    fn the_oldest_whole_pairs_are_dropped_first() {
        let mut history = History::default();
        for number in 0..5 {
            history.push(exchange(number, 39), limits(20, 1000));
        }
        assert_eq!(users(history.window(limits(3, 1000))), ["2", "3", "4"]);
        assert_eq!(users(history.window(limits(20, 25))), ["3", "4"], "ten tokens each");
        assert_eq!(users(history.window(limits(20, 9))), [""; 0]);
        assert_eq!(users(history.window(limits(0, 1000))), [""; 0]);
    }

    #[test]
    fn a_history_keeps_no_more_than_its_window_shows() {
        let mut history = History::default();
        for number in 0..100 {
            history.push(exchange(number, 39), limits(3, 1000));
        }
        assert_eq!(history.0.len(), 3);
        history.push(exchange(7, 1 << 20), limits(3, 1000));
        assert_eq!(history.0.len(), 0, "a pair over the budget hides all before it");
    }

    #[test]
    fn a_reply_without_text_is_not_kept() {
        let mut history = History::default();
        history.push(exchange(1, 0), limits(3, 100));
        assert_eq!(history, History::default());
    }

    #[test]
    fn half_a_window_is_its_newer_half() {
        let window: Vec<Exchange> = (0..5).map(|number| exchange(number, 1)).collect();
        assert_eq!(users(half(&window)), ["3", "4"]);
        assert_eq!(users(half(&window[..1])), [""; 0]);
        assert_eq!(users(half(&[])), [""; 0]);
    }
}
