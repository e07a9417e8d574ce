//! What systemd is told of the process (`Type=notify`), where it asks for that.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use tracing::debug;

/// Names the socket that systemd listens on.
const VARIABLE: &str = "NOTIFY_SOCKET";

/// Tells the supervisor something, such as `READY=1`. Without one nothing happens.
pub fn tell(state: &str) {
    let Some(name) = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()) else { return };
    let address = match name.as_bytes() {
        [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest),
        _ => SocketAddr::from_pathname(&name),
    };
    let told = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address));
    if let Err(error) = told {
        // A supervisor that does not listen must not keep the gateway from its work.
        debug!("the supervisor can't be told `{state}`: {error}");
    }
}
