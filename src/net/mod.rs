//! The only door out: every connection that the gateway itself opens.

pub mod address;
pub mod allowed;
pub mod cidr;
pub mod client;
mod decode;
pub mod error;
mod exchange;
pub mod fetch;
pub mod guard;
pub mod origin;
pub mod peer;
pub mod resolve;
pub mod response;
pub mod tls;
pub mod web_url;

#[cfg(test)]
pub(crate) mod stand_in;

pub use address::AddressClass;
pub use allowed::Allowed;
pub use cidr::Cidr;
pub use client::{Client, Coding, Request, Timeouts};
pub use error::{Blocked, ConnectError, Error, Timer};
pub use exchange::INTERIM_MAX;
pub use fetch::{Bounds, Document, Found, REDIRECTS_MAX, Rules, redirect};
pub use guard::Guard;
pub use origin::{InvalidUrl, Origin, Url};
pub use peer::{HttpVersion, Peer, connect_error};
pub use resolve::{Resolve, SystemResolver};
pub use response::{Companion, End, Response};
pub use tls::Roots;
pub use web_url::{InvalidWebUrl, WebHost, WebUrl};

/// What calls itself by this name to others.
pub const USER_AGENT: &str = concat!("restap-gateway/", env!("CARGO_PKG_VERSION"));
