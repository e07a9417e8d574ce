//! `run`: the gateway as a sidecar.

use std::process::Command;
use std::sync::Arc;

use tempfile::TempDir;

use crate::support::gateway::PROGRAM;
use crate::support::{Finished, Gateway, run};

/// A directory with a gateway before a service, which is a gateway itself; and where the service is.
fn sidecar() -> (Arc<TempDir>, u16) {
    let directory = Arc::new(TempDir::new().unwrap());
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let service = format!("listen: 127.0.0.1:{port}\nadmin: off\nstore: {{memory: {{}}}}\nagent: {{name: Service}}\n");
    std::fs::write(directory.path().join("service.yaml"), service).unwrap();
    let gateway = format!(
        "listen: 127.0.0.1:0\nadmin: off\nstore: {{memory: {{}}}}\n\
         agent: {{name: Sidecar, upstream: 'http://127.0.0.1:{port}', capabilities: [{{id: a, endpoint: '/service/{{*rest}}', route: {{path: '/{{*rest}}'}}}}]}}\n"
    );
    std::fs::write(directory.path().join("gateway.yaml"), gateway).unwrap();
    (directory, port)
}

#[test]
fn the_service_is_started_waited_for_and_ended() {
    let (directory, port) = sidecar();
    let mut command = Command::new(PROGRAM);
    command.args(["run", "--", PROGRAM, "serve", "-c", "service.yaml", "--listen"]).arg(format!("127.0.0.1:{port}"));
    // The service prints its own address first; the gateway's is the other one.
    let mut gateway = Gateway::spawn_where(directory, command, |address| address.port() != port);
    assert_eq!(gateway.get("/service/health").ok()["agent"], "Service");
    assert_eq!(gateway.get("/health").ok()["agent"], "Sidecar");
    let (status, _) = gateway.stop();
    assert_eq!(status.code(), Some(0));
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn the_exit_code_is_the_services() {
    let (directory, _) = sidecar();
    let ended = |script: &str| -> Finished { run(directory.path(), None, &["run", "--", "sh", "-c", script]) };
    let early = ended("exit 3");
    assert_eq!(early.code, Some(3), "{early:?}");
    assert!(early.stderr.contains("ended before it listened"), "{early:?}");
    let late = ended(&format!("timeout 1 {PROGRAM} serve -c service.yaml; exit 7"));
    assert_eq!(late.code, Some(7), "{late:?}");
    let missing = run(directory.path(), None, &["run", "--", "./no-such-program"]);
    assert_eq!(missing.code, Some(1));
    assert!(missing.stderr.contains("no-such-program can't be started"), "{missing:?}");
    assert_eq!(run(directory.path(), None, &["run"]).code, Some(2));
}

#[test]
fn a_service_that_never_listens_is_ended_too() {
    let (directory, port) = sidecar();
    let finished = run(directory.path(), None, &["run", "--patience", "1", "--", "sleep", "60"]);
    assert_eq!(finished.code, Some(1));
    assert!(finished.stderr.contains(&format!("does not listen on 127.0.0.1:{port} after 1 s")), "{finished:?}");
}
