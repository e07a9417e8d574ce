//! The front door: listeners, the connections that come in, and what a request's head must look like.

mod arrival;
mod chunked;
mod connection;
mod downstream;
mod handover;
mod head;
mod host;
mod listener;
mod proxy_protocol;
pub mod settings;
pub mod tls;
pub mod way;

pub use arrival::Arrival;
pub use connection::{HeaderTimeout, LAST_CALL, Server};
pub use handover::{Channel, Inherited};
pub use host::{host_of, is_foreign, is_own_name};
pub use listener::{BindError, Door, Listener, SocketFile};
pub use settings::Listen;
pub use way::{Trusts, Way};
