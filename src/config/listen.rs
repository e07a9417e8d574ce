//! How addresses are read.

use crate::front::Listen;
use crate::net::Cidr;
use crate::yaml::slot::text_like;
use crate::yaml::{Mismatch, Node, Slot, Value, Written};

impl Value for Listen {
    fn take(slot: Slot<'_, '_>) -> Option<Self> {
        slot.value(text_like("unix:.+|.*:[0-9]+"), |node| listen(node).ok_or_else(|| not_an_address(node)))
    }
}

fn listen(node: Node<'_>) -> Option<Listen> {
    match node.as_text()?.parse().ok()? {
        Listen::Unix(path) => Some(Listen::Unix(node.document().directory().join(path))),
        tcp @ Listen::Tcp(_) => Some(tcp),
    }
}

fn not_an_address(node: Node<'_>) -> Mismatch {
    let written = node.written();
    let (host, port) = written.rsplit_once(':').unwrap_or(("", written));
    let mismatch = Mismatch::found(node, "an address such as 127.0.0.1:8080, \":8080\" or unix:/run/gateway.sock");
    match port.parse::<u16>() {
        Ok(port) if host == "localhost" || host == "*" => {
            mismatch.help(if host == "*" { format!("write \":{port}\"") } else { format!("write 127.0.0.1:{port}") })
        }
        Ok(port) if host.is_empty() => {
            mismatch.help(format!("write 127.0.0.1:{port}, or \":{port}\" for every address"))
        }
        _ => mismatch,
    }
}

impl Written for Listen {
    fn written(&self) -> serde_json::Value {
        self.to_string().into()
    }
}

impl Value for Cidr {
    fn take(slot: Slot<'_, '_>) -> Option<Self> {
        slot.parsed("a block of addresses such as 10.0.0.0/8", Some("[0-9a-fA-F.:]+(/[0-9]{1,3})?"))
    }
}
