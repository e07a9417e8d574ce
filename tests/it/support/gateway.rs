//! The program itself: started with a file, asked over its socket, ended by a signal.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::client::{Call, Connection, Response, Stream};
use super::secrets;
use super::wait::{PATIENCE, Watched};

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_restap-gateway");

/// What the line says that is printed once requests are answered.
const SERVING: &str = "restap-gateway: serving on http";

/// A gateway that runs. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Gateway {
    child: Child,
    address: SocketAddr,
    printed: Arc<Watched<Printed>>,
    directory: Arc<TempDir>,
}

/// What it has printed, on stdout and stderr.
#[derive(Debug, Default)]
struct Printed {
    lines: Vec<String>,
    /// How many of the two have ended, which is when the process does.
    ended: usize,
}

impl Gateway {
    /// Starts a gateway with this file. A listener on port 0, a store in memory and the admin listener on
    /// a unix socket are added where the file says nothing of them.
    #[track_caller]
    pub(crate) fn start(file: &str) -> Self {
        Self::start_in(Arc::new(TempDir::new().unwrap()), file)
    }

    /// Starts a gateway in a directory that another one may have used before.
    #[track_caller]
    pub(crate) fn start_in(directory: Arc<TempDir>, file: &str) -> Self {
        let path = write(directory.path(), file);
        let mut command = Command::new(PROGRAM);
        command.arg("serve").arg("-c").arg(path);
        Self::spawn(directory, command)
    }

    /// Starts the program as `command` says, and waits until it serves.
    #[track_caller]
    pub(crate) fn spawn(directory: Arc<TempDir>, command: Command) -> Self {
        Self::spawn_where(directory, command, |_| true)
    }

    /// The same for a program that prints addresses of others too.
    #[track_caller]
    pub(crate) fn spawn_where(
        directory: Arc<TempDir>,
        mut command: Command,
        own: impl Fn(&SocketAddr) -> bool,
    ) -> Self {
        command.current_dir(directory.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let printed = Arc::new(Watched::<Printed>::default());
        collect(child.stdout.take().unwrap(), &printed);
        collect(child.stderr.take().unwrap(), &printed);
        let serving = printed.wait(PATIENCE, |printed| {
            let address = printed.lines.iter().find_map(|line| {
                let url = line.strip_prefix(SERVING)?.trim_start_matches('s');
                url.strip_prefix("://")?.parse().ok().filter(&own)
            });
            (address.is_some() || printed.ended == 2).then_some(address)
        });
        let Some(Some(address)) = serving else {
            let _ = child.kill();
            let _ = child.wait();
            panic!("the gateway does not serve: {}", printed.read(|printed| printed.lines.join("\n")));
        };
        Self { child, address, printed, directory }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn directory(&self) -> Arc<TempDir> {
        self.directory.clone()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks on a connection of its own.
    pub(crate) fn call(&self, call: &Call) -> Response {
        self.connect().call(call)
    }

    pub(crate) fn get(&self, target: &str) -> Response {
        self.call(&Call::get(target))
    }

    pub(crate) fn post(&self, target: &str, body: &Value) -> Response {
        self.call(&Call::post(target, body))
    }

    /// Talks, as a caller of JSON.
    pub(crate) fn talk(&self, message: &str) -> Response {
        self.call(&Call::talk(message))
    }

    /// Talks, as a caller of event streams, and reads the stream to its end.
    pub(crate) fn stream(&self, message: &str) -> Response {
        self.call(&Call::talk(message).streamed())
    }

    /// Opens a stream that is read as it comes.
    pub(crate) fn open(&self, call: &Call) -> Stream {
        Stream::open(self.connect(), call)
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.address)
    }

    /// Asks the admin listener, which is on a unix socket.
    pub(crate) fn admin(&self, target: &str) -> (u16, String) {
        over_unix(&self.directory.path().join("admin.sock"), target)
    }

    /// The same with another method.
    pub(crate) fn admin_with(&self, method: &str, target: &str) -> (u16, String) {
        ask_unix(&self.directory.path().join("admin.sock"), method, target)
    }

    /// Writes its file anew, as an editor that saves in place does.
    pub(crate) fn write(&self, file: &str) {
        write(self.directory.path(), file);
    }

    /// Writes its file anew and has it read. The answer says what changes, or what is wrong.
    pub(crate) fn reload(&self, file: &str) -> (u16, Value) {
        self.write(file);
        let (status, body) = self.admin_with("POST", "/reload");
        (status, serde_json::from_str(&body).unwrap())
    }

    /// Everything that was printed so far.
    pub(crate) fn logs(&self) -> String {
        self.printed.read(|printed| printed.lines.join("\n"))
    }

    /// Waits for a line that holds `part`.
    #[track_caller]
    pub(crate) fn wait_for_line(&self, part: &str) -> String {
        let line =
            self.printed.wait(PATIENCE, |printed| printed.lines.iter().find(|line| line.contains(part)).cloned());
        line.unwrap_or_else(|| panic!("no line with {part:?}: {}", self.logs()))
    }

    /// Waits for so many lines that hold `part`.
    #[track_caller]
    pub(crate) fn wait_for_lines(&self, part: &str, count: usize) {
        let enough = |printed: &Printed| printed.lines.iter().filter(|line| line.contains(part)).count() >= count;
        let came = self.printed.wait(PATIENCE, |printed| enough(printed).then_some(()));
        assert!(came.is_some(), "not {count} lines with {part:?}: {}", self.logs());
    }

    /// Bytes of memory that the process has now.
    pub(crate) fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn stop(&mut self) -> (ExitStatus, Duration) {
        let began = Instant::now();
        self.signal(Signal::TERM);
        (self.exited(), began.elapsed())
    }

    /// Ends it as a power cut would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until the process itself has ended; one that took over from it may still print.
    pub(crate) fn child_exited(&mut self) -> ExitStatus {
        super::wait::until("the process has ended", || self.child.try_wait().unwrap())
    }

    /// Waits until it has ended by itself.
    pub(crate) fn exited(&mut self) -> ExitStatus {
        if self.printed.wait(PATIENCE, |printed| (printed.ended == 2).then_some(())).is_none() {
            self.child.kill().unwrap();
            panic!("it does not end: {}", self.logs());
        }
        self.child.wait().unwrap()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("what the gateway said:\n{}", self.logs());
        } else {
            assert!(!self.logs().contains("panicked"), "{}", self.logs());
            secrets::assert_none_in("the log", &self.logs());
        }
    }
}

/// Writes the file, with what every test wants where it says nothing of it.
fn write(directory: &Path, file: &str) -> PathBuf {
    secrets::learn_credentials(file);
    secrets::learn_api_keys(file);
    let mut text = file.to_owned();
    for (key, value) in
        [("listen:", "127.0.0.1:0"), ("admin:", "{listen: \"unix:admin.sock\"}"), ("store:", "{memory: {}}")]
    {
        if !file.lines().any(|line| line.starts_with(key)) {
            text = format!("{key} {value}\n{text}");
        }
    }
    let path = directory.join("gateway.yaml");
    std::fs::write(&path, text).unwrap();
    path
}

fn collect(from: impl Read + Send + 'static, printed: &Arc<Watched<Printed>>) {
    let printed = printed.clone();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            printed.change(|printed| printed.lines.push(line));
        }
        printed.change(|printed| printed.ended += 1);
    });
}

/// A `GET` over a unix socket: status and body.
pub(crate) fn over_unix(socket: &Path, target: &str) -> (u16, String) {
    ask_unix(socket, "GET", target)
}

fn ask_unix(socket: &Path, method: &str, target: &str) -> (u16, String) {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
        .write_all(format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes())
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Runs the program to its end in a directory, with this file as its gateway.yaml.
pub(crate) fn run(directory: &Path, file: Option<&str>, arguments: &[&str]) -> Finished {
    if let Some(file) = file {
        std::fs::write(directory.join("gateway.yaml"), file).unwrap();
    }
    let mut command = Command::new(PROGRAM);
    command.args(arguments).current_dir(directory);
    finish(command)
}

/// Runs a command to its end.
pub(crate) fn finish(mut command: Command) -> Finished {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (stdout, stderr) = (read_all(child.stdout.take().unwrap()), read_all(child.stderr.take().unwrap()));
    let (Ok(stdout), Ok(stderr)) = (stdout.recv_timeout(PATIENCE), stderr.recv_timeout(PATIENCE)) else {
        child.kill().unwrap();
        panic!("the command does not end: {command:?}");
    };
    Finished { code: child.wait().unwrap().code(), stdout, stderr }
}

fn read_all(mut from: impl Read + Send + 'static) -> Receiver<String> {
    let (whole, read) = channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        from.read_to_string(&mut text).unwrap();
        let _ = whole.send(text);
    });
    read
}
