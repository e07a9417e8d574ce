//! `upgrade`: the program that is installed now takes the place of the one that runs.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::{ConfigFile, Fault, say, source};
use crate::front::Listen;

/// How long the new process may take, and a little more.
const PATIENCE: Duration = Duration::from_secs(75);

/// Bytes of an answer of the admin listener.
const ANSWER_MAX: u64 = 1 << 20;

/// Have the installed program take over from the one that runs, without losing a request.
///
/// Example: restap-gateway upgrade -c /etc/restap-gateway/gateway.yaml
#[derive(Debug, Args)]
pub(super) struct Upgrade {
    #[command(flatten)]
    file: ConfigFile,
    /// Where the running process has its admin listener, if that is not where the file says.
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<Listen>,
}

impl Upgrade {
    pub(super) fn run(&self) -> Result<(), Fault> {
        // A file that can't be used would only end the new process.
        let config = source::load(&self.file.config)?;
        let by_signal = "send the running process SIGUSR2 instead: kill -USR2 PID";
        let (listen, token) = match (&self.admin, config.admin) {
            (Some(listen), admin) => (listen.clone(), admin.and_then(|admin| admin.token)),
            (None, Some(admin)) => (admin.listen, admin.token),
            (None, None) => return Err(Fault(format!("the file has no admin listener; {by_signal}"))),
        };
        let authorization = token.map(|token| format!("Authorization: Bearer {}\r\n", token.expose()));
        let request = format!(
            "POST /upgrade HTTP/1.1\r\nHost: localhost\r\n{}Content-Length: 0\r\nConnection: close\r\n\r\n",
            authorization.unwrap_or_default()
        );
        let answer = ask(&listen, request.as_bytes())
            .map_err(|error| Fault(format!("nothing answers at the admin listener {listen}: {error}; {by_signal}")))?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).unwrap_or_default();
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        match (status, body.get("pid").and_then(Value::as_u64)) {
            ("200", Some(pid)) => {
                say(&format!("process {pid} has taken over\n"));
                Ok(())
            }
            _ => Err(Fault(
                body.get("message").and_then(Value::as_str).unwrap_or("no answer that says what came of it").to_owned(),
            )),
        }
    }
}

fn ask(listen: &Listen, request: &[u8]) -> std::io::Result<String> {
    match listen {
        Listen::Tcp(address) => {
            let mut address = *address;
            if address.ip().is_unspecified() {
                address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
            }
            let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            exchange(stream, request)
        }
        Listen::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            exchange(stream, request)
        }
    }
}

fn exchange(mut stream: impl Read + Write, request: &[u8]) -> std::io::Result<String> {
    stream.write_all(request)?;
    let mut answer = String::new();
    stream.take(ANSWER_MAX).read_to_string(&mut answer)?;
    Ok(answer)
}
