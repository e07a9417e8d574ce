//! The real program on real sockets: what callers, services and operators see of it.
//!
//! Each file is one subject. `support` has the gateway as a process, a service that is scripted byte by byte, and
//! a caller that sends any bytes. Nothing sleeps: a test waits for a line, a port, a frame or a closed connection.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stderr,
    reason = "a test that meets what it does not expect fails"
)]

mod capability;
mod chain;
mod command_line;
mod discovery;
mod front;
mod hostile;
mod http2;
mod leaving;
mod news;
mod outcomes;
mod passing;
mod process;
mod sessions;
mod support;
mod talk;
mod wire;
