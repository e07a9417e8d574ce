//! `serve`: the gateway, from a file or from a few options.

use std::path::Path;

use clap::Args;

use super::process::Start;
use super::{ConfigFile, Fault, complain, say, source};
use crate::config::{Shorthand, Source};
use crate::front::{Channel, Listen};
use crate::gateway::Program;

/// Serve (the default command).
///
/// Example: restap-gateway serve --talk http://127.0.0.1:11434/v1 --model llama3.2
#[derive(Debug, Args)]
pub(super) struct Serve {
    #[command(flatten)]
    file: ConfigFile,
    /// Listen here in place of what the file says. Repeat it for several addresses.
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<String>,
    /// Without a file: the service that every path is passed to.
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    upstream: Option<String>,
    /// Without a file: the OpenAPI description of the service, a URL or a file.
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    openapi: Option<String>,
    /// Without a file: the chat backend.
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    talk: Option<String>,
    /// Without a file: how the chat backend talks.
    #[arg(long, value_name = "NAME", requires = "talk")]
    dialect: Option<String>,
    /// Without a file: the model to ask for.
    #[arg(long, value_name = "NAME", requires = "talk")]
    model: Option<String>,
    /// Print the file that the options stand for, and do nothing else.
    #[arg(long)]
    print: bool,
    /// Another gateway hands its sockets over at standard input.
    #[arg(long, hide = true)]
    take_over: bool,
}

impl Serve {
    pub(super) fn run(self) -> Result<(), Fault> {
        // Before anything can replace the program's file.
        let program = Program::of_this_process().map_err(Fault::new)?;
        let predecessor = if self.take_over { Some(Channel::from_stdin().map_err(Fault::new)?) } else { None };
        let failed = predecessor.clone();
        let done = self.serve(Start { program: Some(program), predecessor });
        if let (Err(Fault(why)), Some(predecessor)) = (&done, failed) {
            // One that serves already has told so, and does not listen any more.
            let _ = predecessor.say_failed(if why.is_empty() { "its configuration can't be used" } else { why });
        }
        done
    }

    fn serve(self, start: Start) -> Result<(), Fault> {
        let source = if self.upstream.is_none() && self.openapi.is_none() && self.talk.is_none() {
            if self.print {
                return Err(Fault::new(
                    "--print needs --upstream, --openapi or --talk: it writes the file that these stand for",
                ));
            }
            Source::file(&self.file.config)
        } else {
            if let Some(file) = self.openapi.as_ref().filter(|file| self.upstream.is_none() && !file.contains("://")) {
                return Err(Fault(format!("--openapi {file} is a file: say where the service is with --upstream")));
            }
            let (upstream, openapi) = (self.upstream, self.openapi);
            let (talk, dialect, model) = (self.talk, self.dialect, self.model);
            let text = Shorthand { listen: None, upstream, openapi, talk, dialect, model }.to_yaml();
            if self.print {
                say(&text);
                return Ok(());
            }
            Source::text("command line", &text, Path::new("."))
        };
        let (config, origin) = source::open(source.listening(listen(&self.listen)?))?;
        super::process::run(config, origin, start, |base| complain(&format!("serving on {base}")))
    }
}

/// `--listen` in place of `listen:`.
fn listen(addresses: &[String]) -> Result<Vec<Listen>, Fault> {
    let parse = |text: &String| text.parse().map_err(|error| Fault(format!("--listen {text}: {error}")));
    addresses.iter().map(parse).collect()
}
