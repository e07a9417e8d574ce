//! Makes plain HTTP services and chat backends into RESTAP agents.
//!
//! The rooms of this crate stand in layers, and imports point strictly down: `ARCHITECTURE.md` has the table,
//! `tests/tidy.rs` holds it. They are listed here from the wire upward.

// 0: what is on the wire. Types and codecs, nothing that does I/O.
pub mod restap;
pub mod signature;
pub mod sse;

// 1: what everyone stands on.
pub mod front;
pub mod keyring;
pub mod net;
pub mod schema;
pub mod telemetry;
pub mod yaml;

// 2: the rooms. Each owns its settings and its errors; none knows another.
pub mod cache;
pub mod capability;
pub mod catalog;
pub mod egress;
pub mod identity;
pub mod openapi;
pub mod probe;
pub mod remote;
pub mod store;
pub mod talk;
pub mod upstream;

// 3: the file that the operator writes.
pub mod config;

// 4: a request, end to end.
pub mod admin;
pub mod gateway;

// 5: the program.
pub mod cli;
