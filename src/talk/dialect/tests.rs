//! Dialects as data: what compiles, and what does not.
