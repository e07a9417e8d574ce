//! Every command that a page shows is run, and must print what the page says.
//!
//! A page is README.md, `examples/NAME/transcript.md` or `docs/quickstart/NAME.md`. In its ```console blocks a line after
//! `$ ` is a command and what follows is its output, where `…` stands for what differs from run to run. README.md is held
//! against `restap-gateway demo`, an example against its own gateway.yaml with the demo's services behind it. A quickstart
//! begins with nothing: what it starts in blocks after `<!-- keeps running -->` runs until the page ends.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test that can't go on ends with a panic, also in its helpers"
)]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use regex::Regex;
use rustix::process::{Pid, Signal, kill_process};

const PROGRAM: &str = env!("CARGO_BIN_EXE_restap-gateway");

/// Where pages say that callers and operators are served.
const LISTEN: &str = "127.0.0.1:8080";
const ADMIN_LISTEN: &str = "127.0.0.1:9901";

/// Where an agent calls its tool, and where a second gateway serves.
const REST_LISTEN: &str = "127.0.0.1:8081";
const PEER_LISTEN: &str = "127.0.0.1:8082";

/// Where the demo's services are, and its operators where its gateway makes room for another.
const TEXT_SERVICE: &str = "127.0.0.1:9001";
const CHAT_SERVICE: &str = "127.0.0.1:9002";
const OTHER_ADMIN: &str = "127.0.0.1:9902";

/// How long a process may take to end.
const FAREWELL: Duration = Duration::from_secs(10);

/// Where the pages are that begin with nothing.
const QUICKSTARTS: &str = "docs/quickstart";

#[test]
fn every_transcript_is_what_happens() {
    if Command::new("curl").arg("--version").output().is_err() {
        eprintln!("skipped: curl is not installed");
        return;
    }
    let mut wrong = Vec::new();
    for page in pages() {
        let mut stage = Stage::set(&page);
        let text = fs::read_to_string(&page).unwrap();
        let steps = steps(&text);
        assert!(!steps.is_empty(), "{} shows no command", page.display());
        for step in steps {
            let printed = if step.keeps_running { stage.begin(&step) } else { stage.run(&step.command) };
            if !pattern(&step.expected).is_match(&printed) {
                let (place, Step { command, expected, .. }) = (page.display(), &step);
                wrong.push(format!("{place}:{}: $ {command}\nshown:\n{expected}\nprinted:\n{printed}\n", step.line));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_demo_and_every_example_keep_to_the_protocol() {
    for page in pages().into_iter().filter(|page| !page.starts_with(QUICKSTARTS)) {
        let bases: &[&str] = match page.to_str().unwrap() {
            "examples/two_agents/transcript.md" => &["/agents/text", "/assistant"],
            "examples/fleet/transcript.md" => &["/agents/text", "/agents/assistant", "/agents/notices"],
            // It listens on a unix socket; the quickstart has the same agent on a port.
            "examples/sidecar/transcript.md" => continue,
            _ => &[""],
        };
        let stage = Stage::set(&page);
        for base in bases {
            let told = stage.run(&format!("restap-gateway probe --strict http://{LISTEN}{base}"));
            assert!(told.ends_with(": passed"), "{}: {told}", page.display());
        }
    }
}

#[test]
fn a_wildcard_within_a_line_stays_on_it() {
    assert!(pattern("{\"id\":\"…\"}").is_match("{\"id\":\"a\"}"));
    assert!(!pattern("{\"id\":\"…\"}").is_match("{\"id\":\"a\n\"}"));
    assert!(pattern("a\n…\nd").is_match("a\nb\nc\nd"));
    assert!(!pattern("a\n…\nd").is_match("a\nb\nc"));
    assert!(!pattern("a").is_match("ab"));
}

/// README.md, the transcripts of all examples, and the quickstarts.
fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> =
        fs::read_dir("examples").unwrap().map(|example| example.unwrap().path().join("transcript.md")).collect();
    let quickstarts = fs::read_dir(QUICKSTARTS).unwrap().map(|page| page.unwrap().path());
    let has_python = Command::new("python3").arg("--version").output().is_ok();
    pages.extend(quickstarts.filter(|page| {
        let needs_python = fs::read_to_string(page).unwrap().contains("python3 ");
        if needs_python && !has_python {
            eprintln!("skipped: {}: python3 is not installed", page.display());
        }
        has_python || !needs_python
    }));
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
    keeps_running: bool,
}

fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let (mut inside, mut unfinished, mut keeps_running) = (false, false, false);
    for (number, line) in page.lines().enumerate() {
        match (inside, line.strip_prefix("$ ")) {
            (false, _) if line == "<!-- keeps running -->" => keeps_running = true,
            (false, _) => inside = line == "```console",
            (true, _) if line == "```" => (inside, unfinished, keeps_running) = (false, false, false),
            (true, Some(command)) => {
                unfinished = command.ends_with('\\');
                let command = command.to_owned();
                steps.push(Step { line: number + 1, command, keeps_running, ..Step::default() });
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
    /// What pages have, and what stands for it here.
    replaced: Vec<(Regex, String)>,
    /// The other way.
    shown: Vec<(Regex, String)>,
    environment: Vec<(&'static str, String)>,
    running: Vec<Running>,
}

impl Stage {
    fn set(page: &Path) -> Self {
        let directory = tempfile::tempdir().unwrap();
        // No progress bars, which curl shows only where it does not write to a terminal.
        fs::write(directory.path().join(".curlrc"), "silent\nshow-error\n").unwrap();
        let [text, chat, listen, admin, rest, peer, other] = free_ports();
        let environment = [
            ("TEXT_SERVICE", format!("http://{text}")),
            ("CHAT_SERVICE", format!("http://{chat}")),
            ("ADMIN_LISTEN", admin.clone()),
            ("LISTEN", listen.clone()),
            ("REST_LISTEN", rest.clone()),
            ("PEER_LISTEN", peer.clone()),
        ];
        let shown = [LISTEN, ADMIN_LISTEN, REST_LISTEN, PEER_LISTEN];
        let mut pairs: Vec<(&str, &str)> = shown.into_iter().zip([&*listen, &*admin, &*rest, &*peer]).collect();
        let begins_with_nothing = page.starts_with(QUICKSTARTS);
        if begins_with_nothing {
            pairs.extend([(TEXT_SERVICE, &*text), (CHAT_SERVICE, &*chat), (OTHER_ADMIN, &*other)]);
        }
        let word = |text: &str| Regex::new(&format!(r"\b{}\b", regex::escape(text))).unwrap();
        let mut stage = Self {
            replaced: pairs.iter().map(|(shown, real)| (word(shown), (*real).to_owned())).collect(),
            shown: pairs.iter().map(|(shown, real)| (word(real), (*shown).to_owned())).collect(),
            directory,
            environment: Vec::new(),
            running: Vec::new(),
        };
        if begins_with_nothing {
            // A command may name a port alone.
            for (shown, real) in pairs {
                let port = |address: &str| address.rsplit(':').next().unwrap().to_owned();
                stage.replaced.push((word(&port(shown)), port(real)));
            }
            stage.environment = environment[..2].to_vec();
        }
        for (name, text) in files(&fs::read_to_string(page).unwrap()) {
            let text = if begins_with_nothing { stage.real(text) } else { text.to_owned() };
            fs::write(stage.directory.path().join(name), text).unwrap();
        }
        if begins_with_nothing {
            return stage;
        }
        let example = page.parent().filter(|example| example.join("gateway.yaml").exists());
        let Some(example) = example.filter(|example| example.starts_with("examples")) else {
            let demo = Running::start(&stage.directory, &["demo"], &environment, Says::OnStdout);
            stage.running.push(demo);
            return stage;
        };
        for file in fs::read_dir(example).unwrap().map(|file| file.unwrap().path()).filter(|file| file.is_file()) {
            fs::copy(&file, stage.directory.path().join(file.file_name().unwrap())).unwrap();
        }
        // The demo runs for its services alone.
        let beside = [("ADMIN_LISTEN", "127.0.0.1:0".to_owned()), ("LISTEN", "127.0.0.1:0".to_owned())];
        let demo = [&environment[..2], &beside].concat();
        let services = Running::start(&stage.directory, &["demo"], &demo, Says::OnStdout);
        stage.running.push(services);
        if example.join("peer.yaml").exists() {
            let peer = Running::start(&stage.directory, &["serve", "-c", "peer.yaml"], &environment, Says::OnStderr);
            stage.running.push(peer);
        }
        let gateway = Running::start(&stage.directory, &["serve"], &environment, Says::OnStderr);
        stage.running.push(gateway);
        stage
    }

    /// A text of the page with the addresses that are used here.
    fn real(&self, text: &str) -> String {
        let replace = |text: String, (shown, real): &(Regex, String)| shown.replace_all(&text, real.as_str()).into();
        self.replaced.iter().fold(text.to_owned(), replace)
    }

    /// What was printed, with the addresses that the page has.
    fn shown(&self, printed: &str) -> String {
        let replace = |text: String, (real, shown): &(Regex, String)| real.replace_all(&text, shown.as_str()).into();
        self.shown.iter().fold(printed.trim().to_owned(), replace)
    }

    fn command(&self, command: &str) -> Command {
        let programs = Path::new(PROGRAM).parent().unwrap().display();
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("exec 2>&1\n{}", self.real(command))])
            .current_dir(&self.directory)
            .envs(self.environment.iter().cloned())
            .env("CURL_HOME", self.directory.path())
            .env("PATH", format!("{programs}:{}", std::env::var("PATH").unwrap()));
        shell
    }

    /// What a command prints.
    fn run(&self, command: &str) -> String {
        let output = self.command(command).output().unwrap();
        self.shown(&String::from_utf8(output.stdout).unwrap().replace("\r\n", "\n"))
    }

    /// Begins what keeps running, and gives the line that the page waits for, or everything if it never comes.
    fn begin(&mut self, step: &Step) -> String {
        // The shell becomes the program, so that the program is what is ended.
        let (variables, program) = step.command.split_at(step.command.find("restap-gateway").unwrap());
        let command = format!("{variables} exec {program}");
        let mut child = self.command(&command).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        self.running.push(Running(child));
        let awaited = pattern(&step.expected);
        let mut heard = Vec::new();
        for line in lines.by_ref() {
            let line = self.shown(&line);
            if awaited.is_match(&line) {
                // A full pipe would stop it.
                thread::spawn(move || lines.for_each(drop));
                return line;
            }
            heard.push(line);
        }
        heard.join("\n")
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
        // In order, so that a service beside it ends too.
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let deadline = Instant::now() + FAREWELL;
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
