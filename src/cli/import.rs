//! `import`: a description of an API becomes gateway.yaml.

mod attempt;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use tokio::runtime::{Builder, Runtime};

use super::{Fault, say};
use crate::config::imports;
use crate::gateway::Fetcher;
use crate::openapi::write::{self, Earlier, Merged, Origin};
use crate::openapi::{self, Bundle, Filter, Imported, Location, Options};

/// Bytes of a description that comes from stdin.
const STDIN_MAX: u64 = 32 << 20;

/// From here on a catalog is large for a model to read.
const MANY: usize = 60;
const LARGE: usize = 256 << 10;

/// Bytes of text a model counts as one token, roughly.
const TOKEN: usize = 4;

/// The largest capabilities that are named.
const LARGEST: usize = 10;

/// Make gateway.yaml out of an OpenAPI description: 2.0, 3.0 or 3.1, a file or a URL.
///
/// Example: restap-gateway import petstore.yaml --url http://127.0.0.1:9000 -o gateway.yaml
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(super) struct Import {
    /// The description: a file, a URL, or - for stdin.
    spec: String,
    /// Where the service is, in place of what the description says.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Where to write; stdout unless given.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Merge into FILE and keep what people changed.
    #[arg(long, requires = "output")]
    update: bool,
    /// With --update: take out what is gone from the description.
    #[arg(long, requires = "update")]
    prune: bool,
    /// Call each safe GET once, and say where answers break their schemas.
    #[arg(long = "try")]
    attempt: bool,
    /// What the upstream is called; the description's title unless given.
    #[arg(long, value_name = "NAME")]
    upstream: Option<String>,
    /// Take ids like this pattern, such as "pet.*". Repeat it for several.
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
    /// Leave out ids like this pattern.
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Take operations with this tag.
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Leave out operations with this tag.
    #[arg(long, value_name = "TAG")]
    exclude_tag: Vec<String>,
    /// Take paths like this pattern: * stays in a segment, ** does not.
    #[arg(long, value_name = "PATTERN")]
    path: Vec<String>,
    /// Leave out paths like this pattern.
    #[arg(long, value_name = "PATTERN")]
    exclude_path: Vec<String>,
    /// Take this method.
    #[arg(long, value_name = "METHOD")]
    method: Vec<String>,
    /// In front of every endpoint, such as /shop.
    #[arg(long, value_name = "PATH")]
    prefix: Option<String>,
    /// What becomes of deprecated operations.
    #[arg(long, value_name = "HOW", default_value = "keep")]
    deprecated: Deprecated,
    /// What becomes of PATCH: `POST {path}:patch`, or nothing.
    #[arg(long, value_name = "HOW", default_value = "post")]
    patch: Patch,
    /// The value of a variable of the description's server. Repeat it for several.
    #[arg(long, value_name = "NAME=VALUE")]
    server_var: Vec<String>,
    /// Leave parameters that look like credentials to callers.
    #[arg(long)]
    keep_key_params: bool,
    /// Follow references to other places of the public internet.
    #[arg(long)]
    allow_remote: bool,
    /// Fail where something of the description is lost.
    #[arg(long)]
    strict: bool,
    /// Report, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Write the report there as JSON, too.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Every place of every note.
    #[arg(short, long)]
    verbose: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Deprecated {
    Keep,
    Drop,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Patch {
    Post,
    Skip,
}

impl Import {
    pub(super) fn run(self) -> Result<(), Fault> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(Fault::new)?;
        let earlier = self.earlier()?;
        let bundle = self.bundle(&runtime)?;
        let mut options = self.options(&bundle)?;
        if let Some(earlier) = &earlier {
            options.known_ids = earlier.known_ids();
        }
        let mut imported = import(&bundle, &options)?;
        if let Some(moved) =
            earlier.as_ref().map(|earlier| earlier.moved(&imported.operations)).filter(|it| !it.is_empty())
        {
            options.known_ids.extend(moved);
            imported = import(&bundle, &options)?;
        }
        self.tell(&imported);
        if let Some(path) = &self.report {
            let json = serde_json::to_vec_pretty(&imported.report).map_err(Fault::new)?;
            std::fs::write(path, json).map_err(|error| Fault(format!("{}: {error}", path.display())))?;
        }
        if !self.dry_run {
            self.write(earlier.as_ref(), &imported)?;
        }
        if imported.operations.is_empty() && !imported.report.operations.is_empty() {
            return Err(Fault::new("no operation of the description could be taken"));
        }
        if self.attempt {
            note(&attempt::run(&runtime, &bundle, &options)?);
        }
        if self.strict && imported.report.has_errors() {
            return Err(Fault::new("something of the description is lost, see above"));
        }
        Ok(())
    }

    /// The file that is merged into, or the assurance that none is written over.
    fn earlier(&self) -> Result<Option<Earlier>, Fault> {
        let Some(path) = self.output.as_ref().filter(|path| path.exists()) else { return Ok(None) };
        if self.dry_run && !self.update {
            return Ok(None);
        }
        if !self.update {
            let path = path.display();
            return Err(Fault(format!(
                "{path} is there already; --update merges into it and keeps what people changed"
            )));
        }
        let text = std::fs::read_to_string(path).map_err(|error| Fault(format!("{}: {error}", path.display())))?;
        Earlier::read(&path.display().to_string(), text).map(Some).map_err(Fault)
    }

    fn bundle(&self, runtime: &Runtime) -> Result<Bundle, Fault> {
        let about = |problem: String| Fault(format!("{}: {problem}", self.spec));
        let fetcher = || if self.allow_remote { Fetcher::following_strangers() } else { Fetcher::new() };
        let is_url = self.spec.starts_with("http://") || self.spec.starts_with("https://");
        // Who follows no reference needs no certificates.
        let fetcher = if is_url || self.allow_remote { Some(fetcher().map_err(Fault::new)?) } else { None };
        let mut remote = |location: &Location, below: bool| match (&fetcher, location) {
            (Some(fetcher), Location::Url(url)) if below => runtime.block_on(fetcher.bytes(url)),
            (Some(fetcher), Location::Url(url)) => runtime.block_on(fetcher.stranger(url)),
            _ => Err("it is elsewhere; --allow-remote follows references".to_owned()),
        };
        if !is_url && self.spec != "-" {
            return imports::read_file(Path::new(&self.spec), &mut |_| {}, &mut remote).map_err(Fault);
        }
        let (location, bytes) = if is_url {
            let bytes = remote(&Location::Url(self.spec.clone()), true).map_err(about)?;
            (Location::Url(self.spec.clone()), bytes)
        } else {
            let mut bytes = Vec::new();
            std::io::stdin().take(STDIN_MAX + 1).read_to_end(&mut bytes).map_err(Fault::new)?;
            (Location::File(PathBuf::from("stdin")), bytes)
        };
        let mut bundle = Bundle::new(location, &bytes).map_err(|problem| about(problem.to_string()))?;
        while let Some(wanted) = bundle.wanted() {
            let bytes = match &wanted.location {
                Location::Url(_) => remote(&wanted.location, wanted.below && is_url),
                Location::File(_) => Err("what comes from stdin has no folder".to_owned()),
            };
            bundle.give(wanted.location, bytes);
        }
        Ok(bundle)
    }

    fn options(&self, bundle: &Bundle) -> Result<Options, Fault> {
        let filter = Filter::default().tags(&self.tag, &self.exclude_tag).methods(&self.method);
        let filter = filter.ids(&self.include, &self.exclude).and_then(|it| it.paths(&self.path, &self.exclude_path));
        if let Some(url) = &self.url {
            url.parse::<crate::net::Url>().map_err(|problem| Fault(format!("--url {url}: {problem}")))?;
        }
        let prefix = self.prefix.clone().unwrap_or_default();
        if !prefix.is_empty() && !imports::is_prefix(&prefix) {
            return Err(Fault(format!("--prefix {prefix}: write a path such as /shop")));
        }
        let mut variables = BTreeMap::new();
        for pair in &self.server_var {
            let (name, value) =
                pair.split_once('=').ok_or_else(|| Fault(format!("--server-var {pair}: write NAME=VALUE")))?;
            variables.insert(name.to_owned(), value.to_owned());
        }
        let name = match &self.upstream {
            Some(name) if openapi::is_name(name) => name.clone(),
            Some(name) => return Err(Fault(format!("--upstream {name}: a name is letters, digits, `.`, `_` and `-`"))),
            None => openapi::name_of(bundle),
        };
        Ok(Options {
            filter: filter.map_err(Fault::new)?,
            prefix: prefix.trim_end_matches('/').to_owned(),
            name,
            base_url: self.url.clone(),
            variables,
            document_url: self.spec.contains("://").then(|| self.spec.clone()),
            deprecated: self.deprecated == Deprecated::Keep,
            patch: self.patch == Patch::Post,
            keep_key_parameters: self.keep_key_params,
            ..Options::default()
        })
    }

    fn write(&self, earlier: Option<&Earlier>, imported: &Imported) -> Result<(), Fault> {
        let text = match earlier {
            Some(earlier) => {
                let merged = write::merge(earlier, imported, self.prune).map_err(Fault)?;
                note(&differences(&merged, self.prune));
                merged.text
            }
            None => write::file(imported, &Origin { document: &self.spec, command: &self.command() }),
        };
        let Some(path) = &self.output else {
            say(&text);
            return Ok(());
        };
        let about = |error: std::io::Error| Fault(format!("{}: {error}", path.display()));
        // Whoever serves the file reads the old one or the new one.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let new =
            folder.join(format!(".{}.{}", path.file_name().unwrap_or_default().to_string_lossy(), std::process::id()));
        let permissions = std::fs::metadata(path).map(|file| file.permissions()).ok();
        let written = std::fs::write(&new, text).and_then(|()| match permissions {
            Some(permissions) => std::fs::set_permissions(&new, permissions),
            None => Ok(()),
        });
        written.and_then(|()| std::fs::rename(&new, path.canonicalize().as_deref().unwrap_or(path))).map_err(|error| {
            let _ = std::fs::remove_file(&new);
            about(error)
        })
    }

    /// The command that brings the file up to date.
    fn command(&self) -> String {
        let mut command = format!("import {}", quoted(&self.spec));
        let mut add = |flag: &str, value: &str| {
            let _ = write!(command, " {flag} {}", quoted(value));
        };
        for (flag, value) in [("--url", &self.url), ("--upstream", &self.upstream), ("--prefix", &self.prefix)] {
            if let Some(value) = value {
                add(flag, value);
            }
        }
        let lists = [
            ("--include", &self.include),
            ("--exclude", &self.exclude),
            ("--tag", &self.tag),
            ("--exclude-tag", &self.exclude_tag),
            ("--path", &self.path),
            ("--exclude-path", &self.exclude_path),
            ("--method", &self.method),
            ("--server-var", &self.server_var),
        ];
        for (flag, values) in lists {
            for value in values {
                add(flag, value);
            }
        }
        let output = self.output.as_ref().map_or("gateway.yaml".to_owned(), |path| path.display().to_string());
        add("-o", &output);
        command.push_str(" --update");
        command
    }

    /// Everything that there is to say, on stderr.
    fn tell(&self, imported: &Imported) {
        let mut text = imported.report.render(self.verbose);
        let sizes = sizes(imported);
        let bytes: usize = sizes.iter().map(|(_, bytes)| bytes).sum();
        let _ = writeln!(
            text,
            "{}; catalog {} KiB, about {} tokens",
            imported.report.summary(),
            bytes.div_ceil(1024),
            bytes / TOKEN
        );
        if imported.operations.len() > MANY || bytes > LARGE {
            text.push_str(
                "That is much for a model to read: --tag, --path, --include and --exclude take less. The largest:\n",
            );
            for (id, bytes) in sizes.iter().take(LARGEST) {
                let _ = writeln!(text, "  {bytes:>7} bytes  {id}");
            }
        }
        for service in imported.services.iter().filter(|service| service.url.is_none()) {
            let _ = writeln!(text, "Say where `{}` is: --url, or `url` in the file.", service.name);
        }
        let variables = write::variables(imported);
        if !variables.is_empty() {
            text.push_str("Set before serving:\n");
            for (name, meaning) in variables {
                let _ = writeln!(text, "  {name}  {meaning}");
            }
        }
        note(&text);
    }
}

fn import(bundle: &Bundle, options: &Options) -> Result<Imported, Fault> {
    let mut imported = openapi::import(bundle, options).map_err(Fault::new)?;
    imports::keep_sound(&mut imported);
    Ok(imported)
}

/// Bytes of each entry, the largest first.
fn sizes(imported: &Imported) -> Vec<(&str, usize)> {
    let size = |operation| crate::schema::size(&openapi::entry(operation, None));
    let mut sizes: Vec<_> =
        imported.operations.iter().map(|operation| (operation.id.as_str(), size(operation))).collect();
    sizes.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    sizes
}

fn differences(merged: &Merged, prune: bool) -> String {
    let gone = if prune { "taken out, gone from the description" } else { "gone from the description, marked" };
    let lists = [
        ("new", &merged.added),
        ("brought up to date", &merged.changed),
        ("changed by hand, kept", &merged.kept),
        ("taken out by hand, left out", &merged.left_out),
        (gone, &merged.gone),
    ];
    let mut text = String::new();
    for (what, names) in lists {
        for name in names {
            let _ = writeln!(text, "  {what}: {name}");
        }
    }
    if text.is_empty() { "Nothing has changed.\n".to_owned() } else { text }
}

fn quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=,@%+~".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

fn note(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
