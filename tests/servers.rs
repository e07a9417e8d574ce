//! Real PostgreSQL and Redis servers for tests: each in a directory and on a port of its own, gone when the test is.
//!
//! `.ci/components` installs them. Where one is not found the test says so and passes.

#![allow(dead_code, unreachable_pub, reason = "every test uses some of it")]

use std::fs;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

/// How long a server may take to start.
const START: Duration = Duration::from_mins(1);

/// Whom servers run as where we are root: PostgreSQL refuses to be root's.
const NOBODY: u32 = 65_534;

/// Starts the server and ends it when our end of its input is closed, which also happens when a test is killed.
const KEEPER: &str =
    r#"directory=$1; shift; "$@" </dev/null & server=$!; cat >/dev/null; kill -9 $server; rm -rf "$directory""#;

/// A server that is ended with this value.
pub struct Server {
    command: Vec<String>,
    scheme: &'static str,
    directory: TempDir,
    port: u16,
    process: Option<Child>,
    /// Kept as long as it runs.
    identity: Option<Identity>,
    tls_port: Option<u16>,
}

/// A certificate and its key, where the server may read them and nobody else.
struct Identity {
    certificate: String,
    key: String,
    _directory: TempDir,
}

impl Identity {
    fn of(certificate: &Path, key: &Path) -> Self {
        let directory = directory();
        let [certificate, key] = [certificate, key].map(|from| {
            let to = directory.path().join(from.file_name().unwrap());
            fs::write(&to, fs::read(from).unwrap()).unwrap();
            fs::set_permissions(&to, fs::Permissions::from_mode(0o600)).unwrap();
            if geteuid().is_root() {
                give(&to).unwrap();
            }
            to.to_str().unwrap().to_owned()
        });
        Self { certificate, key, _directory: directory }
    }
}

impl Server {
    /// A PostgreSQL server with these settings, as in `fsync=off`.
    pub fn postgres(settings: &[&str]) -> Option<Self> {
        let bin = postgres_bin()?;
        let directory = directory();
        let data = directory.path().join("data").to_str().unwrap().to_owned();
        let initdb = bin.join("initdb");
        let arguments = ["-D", &data, "-U", "restap", "--auth=trust", "-E", "UTF8", "--locale=C", "--no-sync", "-n"];
        let made =
            demoted(&mut Command::new(initdb)).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(made.unwrap().success(), "initdb failed");
        let port = free_port();
        let mut command = vec![bin.join("postgres").to_str().unwrap().to_owned(), "-D".into(), data];
        command.extend(["-p".into(), port.to_string()]);
        let own =
            ["listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=500", "shared_buffers=16MB"];
        for setting in own.iter().chain(settings) {
            command.extend(["-c".into(), (*setting).to_owned()]);
        }
        let mut server =
            Self { command, scheme: "postgres", directory, port, process: None, identity: None, tls_port: None };
        server.start();
        Some(server)
    }

    /// A Redis or Valkey server with these settings, as in `--appendfsync always`.
    pub fn redis(settings: &[&str]) -> Option<Self> {
        let names = ["redis-server", "valkey-server"];
        let Some(program) = names.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok()) else {
            eprintln!("skipped: redis-server is not installed; .ci/components does that");
            return None;
        };
        let (directory, port) = (directory(), free_port());
        let mut command = vec![program.to_owned(), "--port".into(), port.to_string()];
        let place = directory.path().to_str().unwrap().to_owned();
        command.extend(["--bind", "127.0.0.1", "--save", "", "--dir", &place].map(str::to_owned));
        command.extend(settings.iter().map(|setting| (*setting).to_owned()));
        let mut server =
            Self { command, scheme: "redis", directory, port, process: None, identity: None, tls_port: None };
        server.start();
        Some(server)
    }

    /// A PostgreSQL server that speaks TLS with this certificate and its key.
    pub fn postgres_tls(certificate: &Path, key: &Path) -> Option<Self> {
        let own = Identity::of(certificate, key);
        let settings = ["ssl=on", &format!("ssl_cert_file={}", own.certificate), &format!("ssl_key_file={}", own.key)];
        let mut server = Self::postgres(&settings)?;
        server.identity = Some(own);
        Some(server)
    }

    /// A Redis server that speaks nothing but TLS, with this certificate and its key.
    pub fn redis_tls(certificate: &Path, key: &Path) -> Option<Self> {
        let own = Identity::of(certificate, key);
        let port = free_port().to_string();
        let mut server = Self::redis(&[
            "--tls-port",
            &port,
            "--tls-cert-file",
            &own.certificate,
            "--tls-key-file",
            &own.key,
            "--tls-ca-cert-file",
            &own.certificate,
            "--tls-auth-clients",
            "no",
        ])?;
        server.tls_port = port.parse().ok();
        server.identity = Some(own);
        Some(server)
    }

    /// A standby of this PostgreSQL server, which from now on answers when the standby has written too.
    pub fn standby(&self) -> Self {
        let directory = directory();
        let data = directory.path().join("data").to_str().unwrap().to_owned();
        let program = postgres_bin().unwrap().join("pg_basebackup");
        let source = format!("host=127.0.0.1 port={} user=restap application_name=standby", self.port);
        let mut copy = Command::new(program);
        let copied = demoted(&mut copy).args(["-D", &data, "-R", "-X", "stream", "-c", "fast", "-d", &source]).status();
        assert!(copied.unwrap().success(), "pg_basebackup failed");
        let port = free_port();
        let mut command = self.command.clone();
        let own = self.directory.path().join("data").to_str().unwrap().to_owned();
        for word in &mut command {
            if *word == own {
                word.clone_from(&data);
            } else if *word == self.port.to_string() {
                *word = port.to_string();
            }
        }
        let mut standby = Self { command, directory, port, process: None, identity: None, tls_port: None, ..*self };
        standby.start();
        self.sql("ALTER SYSTEM SET synchronous_standby_names = 'standby'");
        self.sql("SELECT pg_reload_conf()");
        wait_until(|| self.sql("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1");
        standby
    }

    /// Makes a standby the server that takes changes.
    pub fn promote(&self) {
        // What came with the copy would have it wait for itself.
        assert_eq!(self.sql("SELECT pg_promote()"), "t");
        self.sql("ALTER SYSTEM RESET synchronous_standby_names");
        self.sql("SELECT pg_reload_conf()");
    }

    /// The port that it is reached at.
    pub fn port(&self) -> u16 {
        self.tls_port.unwrap_or(self.port)
    }

    /// `postgres` or `redis`.
    pub fn scheme(&self) -> &'static str {
        self.scheme
    }

    /// As gateway.yaml names it.
    pub fn url(&self) -> String {
        match self.scheme {
            "postgres" => self.database("postgres"),
            _ => format!("redis://127.0.0.1:{}", self.port),
        }
    }

    /// A database of this PostgreSQL server.
    pub fn database(&self, name: &str) -> String {
        format!("postgres://restap@127.0.0.1:{}/{name}", self.port)
    }

    /// Runs a statement on it.
    pub fn sql(&self, statement: &str) -> String {
        sql(&self.url(), statement)
    }

    /// Ends it as `kill -9` does.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let all = family(&process);
            signal(&all, Signal::KILL);
            let _ = process.wait();
            wait_until(|| !all.iter().any(|pid| is_running(*pid)));
        }
    }

    /// Stops it in the middle of things, or lets it go on.
    pub fn freeze(&self, frozen: bool) {
        if let Some(process) = &self.process {
            signal(&family(process), if frozen { Signal::STOP } else { Signal::CONT });
        }
    }

    /// Starts it, also again.
    pub fn start(&mut self) {
        let began = Instant::now();
        // What is left of one that was killed may keep the next one from starting at once.
        while began.elapsed() < START {
            let mut command = Command::new("sh");
            let directory = self.directory.path().to_str().unwrap();
            command.args(["-c", KEEPER, "keeper", directory]).args(&self.command).process_group(0);
            demoted(&mut command).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            self.process = Some(command.spawn().unwrap());
            let ready = Instant::now();
            while ready.elapsed() < Duration::from_secs(15) {
                if self.answers() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            self.kill();
        }
        panic!("the server did not start");
    }

    fn answers(&self) -> bool {
        match self.scheme {
            "postgres" => {
                let ready = postgres_bin().unwrap().join("pg_isready");
                let port = self.port.to_string();
                let asked = Command::new(ready).args(["-q", "-h", "127.0.0.1", "-p", &port, "-U", "restap"]).status();
                asked.is_ok_and(|status| status.success())
            }
            _ => TcpStream::connect(("127.0.0.1", self.port)).is_ok(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.freeze(false);
        self.kill();
    }
}

/// Runs a statement on a PostgreSQL database.
pub fn sql(url: &str, statement: &str) -> String {
    let psql = postgres_bin().unwrap().join("psql");
    let output = Command::new(psql).args(["-X", "-A", "-t", "-c", statement, url]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A process and all below it: those of PostgreSQL are in groups of their own.
fn family(process: &Child) -> Vec<Pid> {
    let parents: Vec<(i32, i32)> = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| {
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
            Some((entry.file_name().to_str()?.parse().ok()?, parent))
        })
        .collect();
    let mut all = vec![i32::try_from(process.id()).unwrap()];
    let mut at = 0;
    while let Some(parent) = all.get(at).copied() {
        all.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    all.into_iter().filter_map(Pid::from_raw).collect()
}

/// Whether it has not ended, even if nobody has asked for its end yet.
fn is_running(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn signal(processes: &[Pid], signal: Signal) {
    for process in processes {
        // One that has just ended needs none.
        let _ = kill_process(*process, signal);
    }
}

fn postgres_bin() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let found = versions.map(|version| version.path().join("bin")).filter(|bin| bin.join("postgres").exists()).max();
    if found.is_none() {
        eprintln!("skipped: PostgreSQL is not installed; .ci/components does that");
    }
    found
}

fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    if geteuid().is_root() {
        give(directory.path()).unwrap();
    }
    directory
}

fn give(path: &Path) -> io::Result<()> {
    chown(path, Some(NOBODY), Some(NOBODY))
}

fn demoted(command: &mut Command) -> &mut Command {
    if geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.current_dir("/")
}

fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

fn wait_until(done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < START, "it never happened");
        std::thread::sleep(Duration::from_millis(10));
    }
}
