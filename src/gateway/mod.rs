//! A request end to end: from the router to the answer.

mod drain;
