//! Every command that a page shows is run, and must print what the page says.
//!
//! A page is README.md or `examples/NAME/transcript.md`. In its ```console blocks a line after `$ ` is a command and
//! what follows is its output, where `…` stands for what differs from run to run. README.md is held against
//! `restap-gateway demo`, an example against its own gateway.yaml with the demo's services behind it.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that can't go on ends with a panic, also in its helpers"
)]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use regex::Regex;

const PROGRAM: &str = env!("CARGO_BIN_EXE_restap-gateway");

/// Where pages say that callers and operators are served.
const LISTEN: &str = "127.0.0.1:8080";
const ADMIN_LISTEN: &str = "127.0.0.1:9901";

/// Where an agent calls its tool, and where a second gateway serves.
const REST_LISTEN: &str = "127.0.0.1:8081";
const PEER_LISTEN: &str = "127.0.0.1:8082";

#[test]
fn every_transcript_is_what_happens() {
    if Command::new("curl").arg("--version").output().is_err() {
        eprintln!("skipped: curl is not installed");
        return;
    }
    let mut wrong = Vec::new();
    for page in pages() {
        let stage = Stage::set(&page);
        let text = fs::read_to_string(&page).unwrap();
        let steps = steps(&text);
        assert!(!steps.is_empty(), "{} shows no command", page.display());
        for step in steps {
            let printed = stage.run(&step.command);
            if !pattern(&step.expected).is_match(&printed) {
                let (place, Step { command, expected, .. }) = (page.display(), &step);
                wrong.push(format!("{place}:{}: $ {command}\nshown:\n{expected}\nprinted:\n{printed}\n", step.line));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_wildcard_within_a_line_stays_on_it() {
    assert!(pattern("{\"id\":\"…\"}").is_match("{\"id\":\"a\"}"));
    assert!(!pattern("{\"id\":\"…\"}").is_match("{\"id\":\"a\n\"}"));
    assert!(pattern("a\n…\nd").is_match("a\nb\nc\nd"));
    assert!(!pattern("a\n…\nd").is_match("a\nb\nc"));
    assert!(!pattern("a").is_match("ab"));
}

/// README.md and the transcripts of all examples.
fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> =
        fs::read_dir("examples").unwrap().map(|example| example.unwrap().path().join("transcript.md")).collect();
    pages.sort();
    pages.insert(0, PathBuf::from("README.md"));
    pages
}

/// A command of a page.
#[derive(Debug, Default)]
struct Step {
    /// The line of the page that it stands in.
    line: usize,
    command: String,
    expected: String,
}

fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let (mut inside, mut unfinished) = (false, false);
    for (number, line) in page.lines().enumerate() {
        match (inside, line.strip_prefix("$ ")) {
            (false, _) => inside = line == "```console",
            (true, _) if line == "```" => (inside, unfinished) = (false, false),
            (true, Some(command)) => {
                steps.push(Step { line: number + 1, command: command.to_owned(), expected: String::new() });
                unfinished = command.ends_with('\\');
            }
            (true, None) => {
                let step = steps.last_mut().expect("a console block begins with a command");
                let text = if unfinished { &mut step.command } else { &mut step.expected };
                text.push('\n');
                text.push_str(line);
                unfinished = unfinished && line.ends_with('\\');
            }
        }
    }
    steps
}

/// What an output must look like.
fn pattern(expected: &str) -> Regex {
    let line = |line: &str| match line {
        "…" => "(?s:.*?)".to_owned(),
        line => line.split('…').map(regex::escape).collect::<Vec<_>>().join("[^\\n]*"),
    };
    let lines: Vec<String> = expected.trim().lines().map(line).collect();
    Regex::new(&format!("^{}$", lines.join("\n"))).unwrap()
}

/// Where a page's commands run: a directory of their own, and what the page talks to.
struct Stage {
    directory: tempfile::TempDir,
    /// The gateway's address, the admin listener's, the agents' own and the second gateway's.
    addresses: [String; 4],
    _running: Vec<Running>,
}

impl Stage {
    fn set(page: &Path) -> Self {
        let directory = tempfile::tempdir().unwrap();
        // No progress bars, which curl shows only where it does not write to a terminal.
        fs::write(directory.path().join(".curlrc"), "silent\nshow-error\n").unwrap();
        let example = page.parent().filter(|example| example.join("gateway.yaml").exists());
        let example = example.filter(|example| example.starts_with("examples"));
        for (name, text) in files(&fs::read_to_string(page).unwrap()) {
            fs::write(directory.path().join(name), text).unwrap();
        }
        let [text, chat, listen, admin, rest, peer] = free_ports();
        let environment = [
            ("TEXT_SERVICE", format!("http://{text}")),
            ("CHAT_SERVICE", format!("http://{chat}")),
            ("ADMIN_LISTEN", admin.clone()),
            ("LISTEN", listen.clone()),
            ("REST_LISTEN", rest.clone()),
            ("PEER_LISTEN", peer.clone()),
        ];
        let addresses = [listen, admin, rest, peer];
        let Some(example) = example else {
            let running = Running::start(&directory, &["demo"], &environment, Says::OnStdout);
            return Self { directory, addresses, _running: vec![running] };
        };
        for file in fs::read_dir(example).unwrap().map(|file| file.unwrap().path()).filter(|file| file.is_file()) {
            fs::copy(&file, directory.path().join(file.file_name().unwrap())).unwrap();
        }
        // The demo runs for its services alone.
        let beside = [("ADMIN_LISTEN", "127.0.0.1:0".to_owned()), ("LISTEN", "127.0.0.1:0".to_owned())];
        let demo = [&environment[..2], &beside].concat();
        let services = Running::start(&directory, &["demo"], &demo, Says::OnStdout);
        let mut running = vec![services];
        if example.join("peer.yaml").exists() {
            fs::copy(example.join("peer.yaml"), directory.path().join("peer.yaml")).unwrap();
            running.push(Running::start(&directory, &["serve", "-c", "peer.yaml"], &environment, Says::OnStderr));
        }
        running.push(Running::start(&directory, &["serve"], &environment, Says::OnStderr));
        Self { directory, addresses, _running: running }
    }

    /// What a command prints, with the addresses that the page has.
    fn run(&self, command: &str) -> String {
        let shown = [LISTEN, ADMIN_LISTEN, REST_LISTEN, PEER_LISTEN];
        let pairs = || shown.iter().zip(&self.addresses);
        let command = pairs().fold(command.to_owned(), |command, (shown, real)| command.replace(shown, real));
        let programs = Path::new(PROGRAM).parent().unwrap().display();
        let output = Command::new("sh")
            .args(["-c", &format!("exec 2>&1\n{command}")])
            .current_dir(&self.directory)
            .env("CURL_HOME", self.directory.path())
            .env("PATH", format!("{programs}:{}", std::env::var("PATH").unwrap()))
            .output()
            .unwrap();
        let printed = String::from_utf8(output.stdout).unwrap().replace("\r\n", "\n");
        pairs().fold(printed.trim().to_owned(), |printed, (shown, real)| printed.replace(real, shown))
    }
}

/// Files that a page shows for its commands: a block after a comment such as `<!-- file: gateway.yaml -->`.
fn files(page: &str) -> Vec<(&str, &str)> {
    page.split("file: ")
        .skip(1)
        .filter_map(|after| {
            let (name, after) = after.split_once(" -->\n```yaml\n")?;
            Some((name, after.split_once("```")?.0))
        })
        .filter(|(name, _)| !name.contains(['\n', '/']))
        .collect()
}

/// Addresses that were free a moment ago.
fn free_ports<const N: usize>() -> [String; N] {
    let open = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    open.map(|listener| listener.local_addr().unwrap().to_string())
}

/// Where a process says that it serves.
#[derive(Clone, Copy)]
enum Says {
    OnStdout,
    OnStderr,
}

/// A process that ends with this.
struct Running(Child);

impl Running {
    /// Returns once the process serves.
    fn start(at: &tempfile::TempDir, arguments: &[&str], environment: &[(&str, String)], says: Says) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).envs(environment.iter().cloned()).current_dir(at);
        let (out, err) = match says {
            Says::OnStdout => (Stdio::piped(), Stdio::inherit()),
            Says::OnStderr => (Stdio::null(), Stdio::piped()),
        };
        let mut running = Self(command.stdout(out).stderr(err).spawn().unwrap());
        let said: Box<dyn Read + Send> = match says {
            Says::OnStdout => Box::new(running.0.stdout.take().unwrap()),
            Says::OnStderr => Box::new(running.0.stderr.take().unwrap()),
        };
        let mut lines = BufReader::new(said).lines().map(Result::unwrap);
        let mut heard = Vec::new();
        loop {
            let line = lines.next().unwrap_or_else(|| panic!("{arguments:?} ended: {}", heard.join("\n")));
            if line.contains("http://") || line.contains("unix:") {
                break;
            }
            heard.push(line);
        }
        // A full pipe would stop the process.
        thread::spawn(move || lines.for_each(drop));
        running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
