//! A request end to end: from the listener to the answer.

mod chunked;
mod downstream;
mod head;
