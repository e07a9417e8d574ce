//! The only door out: every connection that the gateway itself opens.

pub mod address;
pub mod client;
mod decode;
pub mod error;
mod exchange;
pub mod fetch;
pub mod origin;
pub mod peer;
pub mod resolve;
pub mod response;
pub mod tls;

#[cfg(test)]
pub(crate) mod stand_in;

pub use address::AddressClass;
pub use client::{Client, Coding, Request, Timeouts};
pub use error::{ConnectError, Error, Timer};
pub use exchange::INTERIM_MAX;
pub use fetch::{Bounds, Document};
pub use origin::{InvalidUrl, Origin, Url};
pub use peer::{HttpVersion, Peer, connect_error};
pub use resolve::{Resolve, SystemResolver};
pub use response::{End, Response};
pub use tls::Roots;
