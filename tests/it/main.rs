//! The real program on real sockets: what callers, services and operators see of it.
//!
//! Each file is one subject. `support` has the gateway as a process, a service that is scripted byte by byte, and
//! a caller that sends any bytes. A test never guesses how long something takes: it waits for a line, a port, a
//! frame, an answer or a closed connection. No session id and no credential that any test used may be read in what a
//! gateway prints, in an error, or, of sessions, at an upstream: `support` looks for them in every test.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stderr,
    reason = "a test that meets what it does not expect fails"
)]

mod abandoned;
mod access;
mod balancing;
mod between_agents;
mod cache;
mod capability;
mod chain;
mod clients;
mod command_line;
mod dialects;
mod discovery;
mod disk;
mod elsewhere;
mod endurance;
mod explain;
mod favorite_color;
mod fleet;
mod following;
mod front;
mod hostile;
mod http2;
mod idempotency;
mod import;
mod keys;
mod later;
mod leaving;
mod mapping;
mod mapping_page;
mod news;
mod news_command;
mod outcomes;
mod passing;
mod probe;
mod process;
mod rates;
mod reload;
mod report;
mod rest_request;
mod run;
mod second_attempts;
mod secrets;
#[path = "../servers.rs"]
mod servers;
mod sessions;
mod shared_store;
mod signatures;
mod smuggling;
mod store_command;
mod support;
mod talk;
mod thousand;
mod tls;
mod tokens;
mod upgrade;
mod wire;
